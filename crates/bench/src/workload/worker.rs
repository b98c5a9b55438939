//! One thread's part of a step.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use super::{
    chooser::Chooser,
    pace::Pace,
    plan::Plan,
    tally::Tally,
    timeline::{CurrentSecond, Timeline},
};
use crate::{Engine, OperationKind, Result, Session, Step};

/// Work without batches is dealt out in portions, so that threads do not fight over the counter: as long as this, where there is enough
/// of it for so many for each thread.
const PORTION: u64 = 64;
const PORTIONS_PER_THREAD: u64 = 16;

/// What the threads of a step share.
pub(super) struct Shared {
    /// Work that was taken.
    pub(super) next: AtomicU64,
    /// Set when a thread has failed.
    pub(super) stop: AtomicBool,
    pub(super) start: Instant,
    pub(super) timeline: Timeline,
    pace: Pace,
}

impl Shared {
    pub(super) fn new(step: &Step) -> Self {
        let start = Instant::now();
        Self {
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            start,
            timeline: Timeline::new(step.has_timeline.then_some(start)),
            pace: Pace::new(step.operations_per_second_max),
        }
    }
}

/// One thread of a step.
pub(super) struct Worker<'a> {
    pub(super) plan: &'a Plan<'a>,
    pub(super) step: &'a Step,
    pub(super) shared: &'a Shared,
    session: Box<dyn Session + 'a>,
    pub(super) chooser: Chooser,
    pub(super) tally: Tally,
    second: CurrentSecond,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        engine: &'a dyn Engine,
        plan: &'a Plan<'a>,
        step: &'a Step,
        shared: &'a Shared,
        number: u64,
    ) -> Result<Self> {
        let settings = plan.settings;
        let purpose = step.workload as u64 + 1;
        Ok(Self {
            plan,
            step,
            shared,
            session: engine.session()?,
            chooser: Chooser::new(step, settings.keys, settings.seed, purpose << 40, number),
            tally: Tally::default(),
            second: CurrentSecond::default(),
        })
    }

    /// The next portion of the step, at most `size` long, that no thread has taken; `None` when the step is over.
    pub(super) fn take(&self, total: u64, size: u64) -> Option<Range<u64>> {
        // Relaxed, both: the counter and the flag publish nothing but themselves.
        if self.shared.stop.load(Ordering::Relaxed) {
            return None;
        }
        let mut total = total;
        if self.step.seconds > 0.0 {
            if self.shared.start.elapsed().as_secs_f64() >= self.step.seconds {
                return None;
            }
            total = u64::MAX;
        }
        let start = self.shared.next.fetch_add(size, Ordering::Relaxed);
        (start < total).then(|| start..total.min(start.saturating_add(size)))
    }

    /// The size of portions of work without batches. At a limited rate a call can be long in coming, and each is taken by
    /// itself: a step ends when its time is over, and no thread waits with what another could do.
    pub(super) fn portion(&self) -> u64 {
        if self.step.operations_per_second_max > 0.0 {
            return 1;
        }
        match self.step.seconds > 0.0 {
            true => PORTION,
            false => portion_of(self.step.operations, self.step.threads),
        }
    }

    /// Times one call that does `operations` operations.
    pub(super) fn call<T>(
        &mut self,
        kind: OperationKind,
        operations: u64,
        call: impl FnOnce(&mut dyn Session) -> Result<T>,
    ) -> Result<T> {
        let start = self.shared.pace.begin(operations);
        let answer = call(&mut *self.session)?;
        let ended = self.tally.record(kind, operations, start)?;
        self.shared
            .timeline
            .record(&mut self.second, kind, operations, ended);
        Ok(answer)
    }

    /// A call that is not timed here.
    pub(super) fn untimed<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Session) -> Result<T>,
    ) -> Result<T> {
        call(&mut *self.session)
    }

    /// Ends the thread's part.
    pub(super) fn finish(mut self) -> Tally {
        self.shared.timeline.hand_over(&mut self.second);
        self.tally
    }

    /// The version that a write at `position` of the step gives a key.
    pub(super) fn version(&self, position: u64) -> u64 {
        // Drawn keys come again at any time, others when all have been.
        const DRAWN_VERSIONS: u64 = 1000;
        if !self.plan.values.tells_versions() {
            0
        } else if self.step.pattern.visits_every_key() {
            position / self.plan.settings.keys
        } else {
            position % DRAWN_VERSIONS
        }
    }
}

/// How long the portions of so many operations are.
fn portion_of(operations: u64, threads: usize) -> u64 {
    let portions = threads as u64 * PORTIONS_PER_THREAD;
    (operations / portions.max(1)).clamp(1, PORTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no thread does what others could do too, though there is little of it.
    #[test]
    fn few_operations_are_dealt_out_to_all_threads() {
        assert_eq!(portion_of(64, 2), 2);
        assert_eq!(portion_of(1, 8), 1);
        assert_eq!(portion_of(1_000_000, 8), PORTION);
    }
}
