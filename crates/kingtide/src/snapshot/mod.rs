//! Which snapshots are alive. Flushes and merges ask before they leave out versions; the answer and the birth of a
//! snapshot exclude each other.
//!
//! A snapshot is a sequence number below which every commit is complete, and the clock by which its reads judge expiry.
//! Both are read inside the registry's lock when a snapshot is taken, and both are read inside it when a merge asks
//! what it may drop. So for every merge and every snapshot one of two things holds: the merge's list holds the
//! snapshot, or the snapshot's number and clock are not below those that the merge read. In both cases the merge keeps
//! what the snapshot sees. Requires that the visible number and the clock never go back.
//!
//! The lock is a leaf: no other lock is taken while it is held, and the closures given to the registry must read one
//! atomic or one clock, no more.
//!
//! A read that does not register (a single get) must take the super version *before* it reads the visible number: the
//! tables it holds then contain every version that the number sees, however merges go on. Memtables are not frozen by
//! being held: whoever walks one registers at least until its cursors are open.

mod handles;

mod counts;

use std::{fmt, sync::Arc};

use kingtide_base::{
    SeqNo,
    planted::{self, Bug},
};
use kingtide_env::sync::Mutex;

use counts::Counts;

pub(crate) use handles::{ListedSnapshot, SnapshotList};

/// The live snapshots of one database.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry {
    live: Mutex<Live>,
}

/// How many snapshots share a number, and how many share a clock.
#[derive(Debug, Default)]
struct Live {
    sequences: Counts<SeqNo>,
    clocks: Counts<i64>,
}

impl SnapshotRegistry {
    /// A registry without snapshots.
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Takes a snapshot of what is visible. `visible` answers the newest visible sequence number and `now` the clock in
    /// Unix seconds; both are called inside the lock.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        visible: impl FnOnce() -> SeqNo,
        now: impl FnOnce() -> i64,
    ) -> SnapshotGuard {
        let mut live = self.live.lock();
        let (mut sequence, clock) = (visible(), now());
        if planted::is(Bug::SnapshotSeesUnfinished) {
            sequence = sequence.next();
        }
        live.add(sequence, clock);
        drop(live);
        SnapshotGuard {
            registry: Arc::clone(self),
            sequence,
            clock,
        }
    }

    /// The live snapshots, ascending, each number once.
    pub(crate) fn list(&self) -> Vec<SeqNo> {
        self.live.lock().sequences.keys().collect()
    }

    /// The live snapshots, ascending, and behind them the newest visible number, which `visible` answers inside the
    /// lock. Each number once. What [`VersionFilter`](crate::compaction::filter::VersionFilter) needs.
    pub(crate) fn boundaries(&self, visible: impl FnOnce() -> SeqNo) -> Vec<SeqNo> {
        let live = self.live.lock();
        let visible = visible();
        let mut boundaries: Vec<SeqNo> = live.sequences.keys().collect();
        if planted::is(Bug::SnapshotForgotten) {
            boundaries.clear();
        }
        debug_assert!(boundaries.last().is_none_or(|last| *last <= visible));
        if boundaries.last() != Some(&visible) {
            boundaries.push(visible);
        }
        boundaries
    }

    /// The first of the [boundaries](Self::boundaries): no snapshot, present or future, tells commits up to it apart. It
    /// never goes back.
    pub(crate) fn first_boundary(&self, visible: impl FnOnce() -> SeqNo) -> SeqNo {
        let live = self.live.lock();
        let visible = visible();
        let oldest = live.sequences.keys().next();
        oldest.map_or(visible, |oldest| oldest.min(visible))
    }

    /// The clock by which a merge may judge expiry, in Unix seconds: no live or future snapshot's clock is behind it.
    /// `now` answers the clock; it is called inside the lock.
    pub(crate) fn expiry_clock(&self, now: impl FnOnce() -> i64) -> i64 {
        let live = self.live.lock();
        let now = now();
        live.oldest_clock().map_or(now, |oldest| oldest.min(now))
    }
}

impl Live {
    fn add(&mut self, sequence: SeqNo, clock: i64) {
        self.sequences.add(sequence);
        self.clocks.add(clock);
    }

    fn remove(&mut self, sequence: SeqNo, clock: i64) {
        self.sequences.release(sequence);
        self.clocks.release(clock);
    }

    /// The clock of the live snapshot whose clock is furthest behind, in Unix seconds; `None` without snapshots.
    fn oldest_clock(&self) -> Option<i64> {
        self.clocks.keys().next()
    }
}

/// One live snapshot. While it lives, merges keep what it sees; dropping it releases that.
pub(crate) struct SnapshotGuard {
    registry: Arc<SnapshotRegistry>,
    sequence: SeqNo,
    clock: i64,
}

impl SnapshotGuard {
    /// The newest commit that the snapshot sees.
    #[inline]
    pub(crate) fn sequence(&self) -> SeqNo {
        self.sequence
    }

    /// The clock by which its reads judge expiry, in Unix seconds.
    #[inline]
    pub(crate) fn clock(&self) -> i64 {
        self.clock
    }
}

impl Clone for SnapshotGuard {
    /// The same snapshot once more: it ends when both are dropped.
    fn clone(&self) -> Self {
        self.registry.live.lock().add(self.sequence, self.clock);
        Self {
            registry: Arc::clone(&self.registry),
            sequence: self.sequence,
            clock: self.clock,
        }
    }
}

impl Drop for SnapshotGuard {
    fn drop(&mut self) {
        let mut live = self.registry.live.lock();
        live.remove(self.sequence, self.clock);
    }
}

impl fmt::Debug for SnapshotGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotGuard")
            .field("sequence", &self.sequence)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, loom))]
mod models;
