//! The order of commits. One lock — the commit lock — guards the end of the log and hands out sequence numbers; whoever
//! holds it appends its record and applies it to the memtables, so records, sequence numbers and memtables agree by
//! construction and there are never holes.
//!
//! A commit is *visible* when its sequence number is at or below the watermark:
//!
//! 1. A commit that need not be durable first moves the watermark itself, inside the lock, if no commit before it is
//!    waiting for a sync.
//! 2. A commit that must be durable first (`full`) waits in line. One of those who wait is the leader (`group.rs`): it
//!    samples the end of the log, syncs everything up to there without holding any lock, and then moves the watermark
//!    up to just before the first commit that is still waiting.
//! 3. Commits that arrive during a sync wait for it to end; one of them leads the next one. A commit of any mode that
//!    stands behind a waiting one is acknowledged only once it is visible.
//!
//! When a sync fails, nothing that was unsynced is retried: the failure is kept, the watermark stops for ever, every
//! waiter is told, and later commits are refused.
//!
//! Lock order: the lock of `group` is never held while `state` is taken by the same thread, nor the other way round.

use std::{collections::VecDeque, sync::Arc};

use kingtide_base::{
    Lsn, SeqNo,
    planted::{self, Bug},
};
use kingtide_env::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use super::group::SyncGroup;

/// Commits that may wait for a sync at once before the list of them grows.
const WAITING_RESERVED: usize = 256;

/// What the order must know about the log it orders.
pub(crate) trait OrderedLog {
    /// What a sync works on, taken under the lock and used outside it.
    type Sample;

    /// The position behind the last record.
    fn position(&self) -> Lsn;

    /// Everything that a sync up to [`OrderedLog::position`] must cover.
    fn sample(&self) -> Self::Sample;

    /// A sync of `sample` succeeded.
    fn synced(&mut self, sample: &Self::Sample);
}

/// Why the log stopped, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFailure(pub(crate) Arc<str>);

/// What remains to be done before a completed commit may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Completion {
    /// Nothing: it is visible.
    Visible,
    /// It must be synced.
    NeedsSync,
    /// It must become visible, which a commit before it will bring about.
    Behind,
}

/// See the module.
pub(crate) struct CommitOrder<L> {
    state: Mutex<OrderState<L>>,
    /// Written under `state`, read anywhere: the largest sequence number that readers may see.
    visible: AtomicU64,
    /// Written under `state`, read anywhere: the log is durable up to here.
    durable: AtomicU64,
    group: SyncGroup,
}

/// What the commit lock guards.
pub(crate) struct OrderState<L> {
    /// The end of the log.
    pub(crate) log: L,
    last: SeqNo,
    /// Commits that must be synced before they are visible, in order.
    waiting: VecDeque<(SeqNo, Lsn)>,
    failure: Option<LogFailure>,
}

impl<L: OrderedLog> CommitOrder<L> {
    /// The order that goes on after `last`, all of which is visible and durable.
    pub(crate) fn new(log: L, last: SeqNo) -> Self {
        let durable = log.position().0;
        Self {
            state: Mutex::new(OrderState {
                log,
                last,
                waiting: VecDeque::with_capacity(WAITING_RESERVED),
                failure: None,
            }),
            visible: AtomicU64::new(last.0),
            durable: AtomicU64::new(durable),
            group: SyncGroup::default(),
        }
    }

    /// Takes the commit lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, OrderState<L>> {
        self.state.lock()
    }

    /// As [`CommitOrder::lock`], if nobody holds it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, OrderState<L>>> {
        self.state.try_lock()
    }

    /// The largest sequence number that readers may see; every commit at or below it is applied.
    pub(crate) fn visible(&self) -> SeqNo {
        // Acquire: pairs with the store in `publish`, so that what was applied before is seen.
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// The log is durable up to here.
    pub(crate) fn durable(&self) -> Lsn {
        // Acquire: pairs with the store in `finish_sync`; only a lower bound is needed by readers.
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Ends the ordered step of the commit `sequence`, whose record ends at `end` and is applied.
    pub(crate) fn complete(
        &self,
        state: &mut OrderState<L>,
        sequence: SeqNo,
        end: Lsn,
        must_sync: bool,
    ) -> Completion {
        state.last = sequence;
        if must_sync {
            state.waiting.push_back((sequence, end));
            Completion::NeedsSync
        } else if state.waiting.is_empty() {
            self.publish(sequence);
            Completion::Visible
        } else {
            Completion::Behind
        }
    }

    /// Waits for what `completion` leaves to be done.
    ///
    /// # Errors
    /// The failure of the sync that this commit needed.
    pub(crate) fn wait<E: ToString>(
        &self,
        completion: Completion,
        sequence: SeqNo,
        end: Lsn,
        sync: impl FnMut(&L::Sample) -> Result<(), E>,
    ) -> Result<(), LogFailure> {
        match completion {
            Completion::Visible => Ok(()),
            Completion::NeedsSync => self.sync_through(end, sync),
            Completion::Behind => self.group.wait_behind(|| self.visible() >= sequence),
        }
    }

    /// Returns once the log is durable up to `target`: by a sync of its own, or by another thread's.
    ///
    /// # Errors
    /// The failure that stopped the log, before or during this call.
    pub(crate) fn sync_through<E: ToString>(
        &self,
        target: Lsn,
        mut sync: impl FnMut(&L::Sample) -> Result<(), E>,
    ) -> Result<(), LogFailure> {
        while self.group.join(target, || self.durable() >= target)? {
            let (position, sample) = {
                let state = self.state.lock();
                (state.log.position(), state.log.sample())
            };
            self.group.note_covered(position);
            let failure = match sync(&sample) {
                Ok(()) => {
                    self.finish_sync(position, &sample);
                    (position < target).then(|| {
                        self.note_failure("a sync was asked for beyond the end of the log")
                    })
                }
                Err(error) => Some(self.note_failure(&error.to_string())),
            };
            self.group.finish(failure);
        }
        Ok(())
    }

    /// A sync took `nanos`: for about as long, a later one waits for commits that it can take along.
    pub(crate) fn note_sync_duration(&self, nanos: u64) {
        self.group.note_duration(nanos);
    }

    fn finish_sync(&self, position: Lsn, sample: &L::Sample) {
        let mut state = self.state.lock();
        state.log.synced(sample);
        if planted::is(Bug::AcknowledgedInvisible) {
            self.durable.store(position.0, Ordering::Release);
        }
        // Also when an append has failed meanwhile: whoever waited for this sync is told that its commit is there.
        while state
            .waiting
            .front()
            .is_some_and(|(_, end)| *end <= position)
        {
            state.waiting.pop_front();
        }
        let visible = match state.waiting.front() {
            Some((sequence, _)) => SeqNo(sequence.0 - 1),
            None => state.last,
        };
        self.publish(visible);
        // Release: pairs with the load in `durable`. Behind the watermark: a thread that finds its commit durable
        // acknowledges it at once, without this lock.
        self.durable.store(position.0, Ordering::Release);
    }

    fn publish(&self, sequence: SeqNo) {
        debug_assert!(sequence >= self.visible(), "the watermark never goes back");
        // Release: pairs with the load in `visible`; everything applied so far is published with it.
        self.visible.store(sequence.0, Ordering::Release);
    }

    fn note_failure(&self, message: &str) -> LogFailure {
        let mut state = self.state.lock();
        state
            .failure
            .get_or_insert_with(|| LogFailure(message.into()))
            .clone()
    }

    /// Stops the log for ever: an append failed halfway. Call without holding the commit lock.
    pub(crate) fn stop(&self, message: &str) -> LogFailure {
        let failure = self.note_failure(message);
        self.group.stop(&failure);
        failure
    }
}

impl<L> OrderState<L> {
    /// The sequence number of the next commit.
    pub(crate) fn next_sequence(&self) -> SeqNo {
        self.last.next()
    }

    /// The sequence number of the last commit.
    pub(crate) fn last_sequence(&self) -> SeqNo {
        self.last
    }

    /// Why the log was stopped, if it was.
    pub(crate) fn failure(&self) -> Option<&LogFailure> {
        self.failure.as_ref()
    }

    /// Stops the log from inside the lock; follow with [`CommitOrder::stop`] outside it to tell the waiters.
    pub(crate) fn set_failure(&mut self, message: &str) {
        self.failure
            .get_or_insert_with(|| LogFailure(message.into()));
    }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
