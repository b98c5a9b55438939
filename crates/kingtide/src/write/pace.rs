//! What a writer meets before its commit when memory is short or flushing falls behind; see `kingtide_policy::pressure`.
//!
//! 1. Nothing waits for a flush and there is ample memory: nothing, at the cost of two loads.
//! 2. Caches give way, and the largest memtable is flushed early.
//! 3. Of small commits one in every few kilobytes goes on here, and pays for all. The writer is delayed, the more the fuller its families' memtables are against what is flushed of those before. It
//!    sleeps in steps of a millisecond and looks again after each; what is shorter is saved up.
//! 4. With the budget used up, it waits until memory is given back, for a bounded time.
//!
//! All of it is outside the commit lock, and before anything of the commit was done.

use kingtide_policy::{Standing, delay, pressure};

use super::{pipeline::Pipeline, stall::DELAY_STEP, write_set::WriteSet};
use crate::{error::Result, family::Family};

/// The share of a flush that is done when all entries were written: the rest is syncing and installing.
const WRITTEN_SHARE: f64 = 0.9;

/// Can have memtables flushed before they are full.
pub(crate) trait FlushEarly: Send + Sync {
    /// Sees to it that a memtable is flushed; false when there is none worth it. Does not wait.
    fn flush_early(&self) -> bool;
}

impl Pipeline {
    /// Lets a commit of `writes` begin, sooner or later.
    ///
    /// # Errors
    /// `Busy`, or the flush's error, when memory stays used up.
    #[inline]
    pub(super) fn admit(&self, writes: &WriteSet) -> Result<()> {
        let bytes = writes.arena_bytes();
        if self.stall.is_calm() && self.memory.is_ample(bytes) {
            return Ok(());
        }
        self.make_memory_room(bytes)?;
        if let Some(bytes) = self.stall.take_bytes(bytes) {
            self.hold_back(writes, bytes);
        }
        Ok(())
    }

    /// Makes room in memory for `bytes` more, and waits for it when it must.
    ///
    /// # Errors
    /// `Busy`, or the flush's error, when there is none in time.
    pub(crate) fn make_memory_room(&self, bytes: usize) -> Result<()> {
        if self.memory.is_ample(bytes) {
            return Ok(());
        }
        let squeeze = || {
            self.memtables.release();
            self.memory.squeeze(bytes) || {
                if let Some(early) = self.early.get() {
                    early.flush_early();
                    // An empty memtable may have been exchanged; what it held is kept now.
                    self.memtables.release();
                }
                self.memory.has_room(bytes)
            }
        };
        if squeeze() {
            return Ok(());
        }
        let begun = self.is_watched().then(|| self.env.monotonic_nanos());
        let outcome = self.stall.wait(
            || !squeeze(),
            || {
                format!(
                    "the memory budget is used up: {}; try again later, end transactions, or raise memory_bytes_max",
                    self.memory.describe()
                )
            },
        );
        self.tell_memory_wait(begun);
        outcome
    }

    /// Delays the writer as the pressure asks.
    fn hold_back(&self, writes: &WriteSet, bytes: usize) {
        let begun = self.env.monotonic_nanos();
        let mut slept = 0;
        loop {
            if self.stall.is_failing() {
                // What flushing fails with is told sooner.
                return;
            }
            let wanted = delay(self.pressure(writes, bytes), bytes);
            if wanted < DELAY_STEP && slept == 0 {
                if let Some(step) = self.stall.save_up(wanted) {
                    self.env.sleep(step);
                    self.stall.note_delayed(step.as_nanos() as u64);
                    self.tell_delayed(step.as_nanos() as u64);
                }
                return;
            }
            let left = (wanted.as_nanos() as u64).saturating_sub(slept);
            if left < DELAY_STEP.as_nanos() as u64 / 2 {
                break;
            }
            self.env.sleep(DELAY_STEP);
            // A sleep may be much longer than asked for; a clock may stand still.
            let measured = self.env.monotonic_nanos().saturating_sub(begun);
            slept = measured.max(slept + DELAY_STEP.as_nanos() as u64);
        }
        self.stall.note_delayed(slept);
        self.tell_delayed(slept);
    }

    /// The strongest reason to hold `writes` back.
    fn pressure(&self, writes: &WriteSet, bytes: usize) -> f64 {
        let memory = self.memory.share_used(bytes);
        let of_families = writes.sections().map(|section| {
            let (flushed, level1) = self.backlog(&section.family);
            let standing = Standing {
                fill: section.family.load().active.table.fill(),
                flushed,
                level1,
                memory,
            };
            pressure(&standing)
        });
        of_families.fold(0.0, f64::max)
    }

    /// How much is flushed of what must be before the family's next memtable may wait, and what level 1 holds as a
    /// multiple of what starts a merge.
    fn backlog(&self, family: &Family) -> (Option<f64>, f64) {
        let current = family.load();
        let flushed = match current.sealed.last() {
            Some(oldest) if !self.may_seal(family) => {
                let passed = oldest.table.passed() * oldest.table.bytes() as f64;
                let queued = oldest.queued();
                queued.map(|queued| self.stall.done(queued, passed * WRITTEN_SHARE))
            }
            _ => None,
        };
        let options = family.options();
        let memtable_bytes = self.memtables.share_bytes(options.write_buffer_bytes);
        let trigger = memtable_bytes.saturating_mul(options.l1_file_count_trigger);
        let held = current.version.level_totals(1).raw_bytes;
        (flushed, held as f64 / trigger.max(1) as f64)
    }

    /// True when another memtable of the family may be sealed: those that wait take less than they may.
    pub(super) fn may_seal(&self, family: &Family) -> bool {
        let current = family.load();
        let sealed: usize = current
            .sealed
            .iter()
            .map(|memory| memory.table.bytes())
            .sum();
        current.sealed.len() < family.options().l0_queue_stall_threshold
            && sealed < self.memory.plan.sealed_bytes_max
    }

    /// A sealed memtable of `bytes` was flushed: writers that wait go on, and caches may grow.
    pub(crate) fn note_flushed(&self, bytes: usize) {
        self.stall.subtract(bytes);
        self.memory.relax();
    }
}
