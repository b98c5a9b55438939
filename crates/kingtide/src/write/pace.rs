//! What a writer meets before its commit when memory is short or flushing falls behind; see `kingtide_policy::pace`.
//!
//! 1. Nothing waits for a flush and there is ample memory: nothing, at the cost of two loads.
//! 2. Caches give way, and the largest memtable is flushed early.
//! 3. Of small commits one in every few kilobytes goes on here, for all of them. It takes a turn on the clock that all writers
//!    share, which runs at the speed of flushing, a little faster or slower as less or more waits to be flushed; it sleeps
//!    until its turn comes, for a millisecond at most while there is memory to run ahead into, and looks every so often how
//!    fast the clock runs now.
//! 4. With the budget used up, it waits until memory is given back, for a bounded time.
//!
//! All of it is outside the commit lock, and before anything of the commit was done.

use std::{sync::Arc, time::Duration};

use kingtide_env::sync::atomic::Ordering;
use kingtide_policy::{Standing, admission, patience};

use super::{pipeline::Pipeline, write_set::WriteSet};
use crate::{error::Result, family::Family, memtable::Memory};

/// A turn that begins so soon is taken at once: a sleep takes longer than it should.
const AT_ONCE: Duration = Duration::from_millis(1);
/// So long a writer sleeps before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
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
        let is_calm = self.stall.is_calm() && !is_behind(writes);
        let is_ample = self.memory.is_ample(bytes);
        if is_calm && is_ample {
            return Ok(());
        }
        if !is_ample {
            self.make_memory_room(bytes, index_growth(writes))?;
        }
        if let Some(bytes) = self.stall.take_bytes(bytes) {
            self.hold_back(writes, bytes);
        }
        Ok(())
    }

    /// Makes room in memory for `bytes` more, and waits for it when it must; for what comes on top, `growth`, only as long as
    /// there is something to flush.
    ///
    /// # Errors
    /// `Busy`, or the flush's error, when there is none in time.
    pub(crate) fn make_memory_room(&self, bytes: usize, growth: usize) -> Result<()> {
        if self.memory.is_ample(bytes) {
            return Ok(());
        }
        let all = bytes.saturating_add(growth);
        let squeeze = || {
            self.memtables.release();
            self.memory.squeeze(all) || {
                let is_flushing = self.early.get().is_some_and(|early| early.flush_early());
                // An empty memtable may have been exchanged; what it held is kept now.
                self.memtables.release();
                self.memory.has_room(if is_flushing { all } else { bytes })
            }
        };
        if squeeze() {
            return Ok(());
        }
        let begun = self.is_watched().then(|| self.env.monotonic_nanos());
        let outcome = self.stall.wait(
            self.env.as_ref(),
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

    /// Has the writer wait for its turn.
    fn hold_back(&self, writes: &WriteSet, bytes: usize) {
        let Some(mut admission) = self.admission(writes, bytes) else {
            return;
        };
        let mut speed = self.stall.flush_speed() * admission;
        let begun = self.env.monotonic_nanos();
        let turn = self.stall.take_turn(bytes, begun, speed);
        let mut slept = 0;
        loop {
            let left = self.stall.until(turn, begun + slept, speed);
            let bound = patience(admission).saturating_sub(Duration::from_nanos(slept));
            let step = LOOK_AGAIN.min(left).min(bound);
            if left < AT_ONCE || step.is_zero() {
                break;
            }
            self.env.sleep(step);
            // A sleep may be much longer than asked for; a clock may stand still.
            let measured = self.env.monotonic_nanos().saturating_sub(begun);
            slept = measured.max(slept + step.as_nanos() as u64);
            // What flushing fails with is told sooner.
            let next = self.admission(writes, bytes);
            let Some(next) = next.filter(|_| !self.stall.is_failing()) else {
                self.stall.forget_turns();
                break;
            };
            (admission, speed) = (next, self.stall.flush_speed() * next);
        }
        if slept > 0 {
            self.stall.note_delayed(slept);
            self.tell_delayed(slept);
        }
    }

    /// How fast writers are let in just now, to the slowest family of `writes`, as a multiple of the speed of flushing;
    /// `None` when as fast as they come.
    pub(super) fn admission(&self, writes: &WriteSet, bytes: usize) -> Option<f64> {
        let memory = self.memory.share_used(bytes);
        let of_families = writes
            .sections()
            .filter_map(|section| admission(&self.standing(&section.family, memory)));
        of_families.reduce(f64::min)
    }

    /// What decides how fast writers to `family` are let in, with this share of memory in use.
    pub(super) fn standing(&self, family: &Family, memory: f64) -> Standing {
        let current = family.load();
        let memtable_bytes = self.memtable_bytes(family);
        let waits = |sealed: &Arc<Memory>| {
            let written = sealed.table.passed() * WRITTEN_SHARE;
            sealed.table.bytes() as f64 / memtable_bytes as f64 * (1.0 - written)
        };
        let waiting: f64 = current.sealed.iter().map(waits).sum();
        let memories = current.sealed.iter().chain([&current.active]);
        let waiting_bytes = memories.map(|memory| memory.table.bytes()).sum();
        let backlog = (!current.sealed.is_empty()).then(|| waiting + current.active.table.fill());
        let sealed_max = self.memory.plan.sealed_bytes_max.div_ceil(memtable_bytes);
        let sealed_max = sealed_max.clamp(1, family.options().l0_queue_stall_threshold.max(1));
        Standing {
            backlog,
            room: 1.0 + sealed_max.max(current.sealed.len()) as f64,
            level1: self.level1(family),
            values: family.value_room.share(waiting_bytes),
            memory,
        }
    }

    fn memtable_bytes(&self, family: &Family) -> usize {
        let buffer_bytes = family.options().write_buffer_bytes;
        self.memtables.share_bytes(buffer_bytes).max(1)
    }

    /// What level 1 of the family holds, as a multiple of what starts a merge.
    fn level1(&self, family: &Family) -> f64 {
        let trigger = self
            .memtable_bytes(family)
            .saturating_mul(family.options().l1_file_count_trigger);
        let held = family.load().version.level_totals(1).raw_bytes;
        held as f64 / trigger.max(1) as f64
    }

    /// Notes whether merges of the family, or the emptying of its value files, are behind: after everything that changes
    /// its tables.
    pub(crate) fn note_backlog(&self, family: &Family) {
        let standing = Standing {
            backlog: None,
            room: 2.0,
            level1: self.level1(family),
            values: family.value_room.share(0),
            memory: 0.0,
        };
        // Relaxed: a hint for writers, who look again.
        family
            .is_behind
            .store(admission(&standing).is_some(), Ordering::Relaxed);
    }

    /// True when another memtable of the family may be sealed: those that wait take less than they may, and the next one
    /// can have the memory of one that was flushed.
    pub(super) fn may_seal(&self, family: &Family) -> bool {
        let current = family.load();
        // Relaxed: a hint. Set before the last sealed memtable leaves, and so seen by who sees that it has left.
        if current.sealed.is_empty() && family.is_giving_back.load(Ordering::Relaxed) {
            return false;
        }
        let sealed: usize = current
            .sealed
            .iter()
            .map(|memory| memory.table.bytes())
            .sum();
        current.sealed.len() < family.options().l0_queue_stall_threshold
            && sealed < self.memory.plan.sealed_bytes_max
    }

    /// A sealed memtable was flushed, so many bytes in so many nanoseconds: writers that wait go on, and caches may grow.
    pub(crate) fn note_flushed(&self, family: &Family, (bytes, nanos): (usize, u64)) {
        self.stall.note_speed(bytes, nanos);
        family.read.pass();
        self.note_backlog(family);
        self.stall.subtract();
        self.memory.relax();
    }
}

/// True when merges of a family that is written to are behind.
#[inline]
fn is_behind(writes: &WriteSet) -> bool {
    // Relaxed: as in `note_backlog`.
    let is_behind = |family: &Family| family.is_behind.load(Ordering::Relaxed);
    writes.sections().any(|section| is_behind(&section.family))
}

/// Bytes that `writes` may take in the indexes of memtables, which are touched page by page.
fn index_growth(writes: &WriteSet) -> usize {
    let growth = writes.sections().map(|section| {
        let active = &section.family.load().active;
        active.table.index_growth(section.op_count())
    });
    growth.sum()
}
