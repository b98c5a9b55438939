//! When a writer gives the processor away of its own accord.
//!
//! With more writers than processors the system takes the processor from each of them now and then, mostly in the middle of a
//! commit. Others then come to the commit lock, sleep there and are woken late, and what flushes gets too little. So a writer
//! gives the processor away itself, at two places where it holds nothing up:
//!
//! 1. Once, before it sleeps at the commit lock; not for a commit of one operation, whose step ends while the lock spins.
//! 2. Behind a long commit, which took about as long as a change of threads costs many times over, if
//!    - long commits met others at the commit lock lately: who writes alone would only lose its share to other programs;
//!    - nobody read lately: beside threads that go on until the system takes the processor from them, all waiting would fall on
//!      those that write.
//!
//! What happened lately is counted in long commits. All of it is a hint: what is seen too early or late costs some time.

use kingtide_env::{
    give_way,
    sync::{
        MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
};

use super::order::{CommitOrder, OrderState, OrderedLog};

/// A commit of so many operations is a long one.
const LONG_OPERATIONS: usize = 256;
/// What happened is remembered for so many long commits.
const REMEMBERED_COMMITS: u32 = 16;

/// See the module.
#[derive(Default)]
pub(crate) struct GivingWay {
    /// Long commits for which it is remembered that somebody read. Apart from what writers change all the time.
    read: Remembered,
    /// The same, that a writer found the commit lock taken.
    met: Remembered,
}

#[derive(Default)]
#[repr(align(128))]
struct Remembered(AtomicU32);

impl Remembered {
    #[inline]
    fn note(&self) {
        // Relaxed, here and below: a hint. Looked at first, so that those who note it again and again share its cache line.
        if self.0.load(Ordering::Relaxed) != REMEMBERED_COMMITS {
            self.0.store(REMEMBERED_COMMITS, Ordering::Relaxed);
        }
    }

    /// Whether it is remembered still, for a commit that counts.
    fn is_recent(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        if left > 0 {
            self.0.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

impl GivingWay {
    /// Somebody reads.
    #[inline]
    pub(crate) fn note_read(&self) {
        self.read.note();
    }

    /// Takes the commit lock for a commit of so many operations.
    pub(super) fn lock<'a, L: OrderedLog>(
        &self,
        order: &'a CommitOrder<L>,
        operations: usize,
    ) -> MutexGuard<'a, OrderState<L>> {
        if operations <= 1 {
            return order.lock();
        }
        if let Some(state) = order.try_lock() {
            return state;
        }
        self.met.note();
        give_way();
        order.lock()
    }

    /// A commit of so many operations, which did not have to wait for a sync, has ended, and its thread holds nothing.
    pub(super) fn behind_commit(&self, operations: usize) {
        if self.is_due(operations) {
            give_way();
        }
    }

    fn is_due(&self, operations: usize) -> bool {
        if operations < LONG_OPERATIONS {
            return false;
        }
        // Both count.
        let (met, read) = (self.met.is_recent(), self.read.is_recent());
        met && !read
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn who_writes_alone_keeps_the_processor() {
        let giving_way = GivingWay::default();
        assert!(!giving_way.is_due(LONG_OPERATIONS));
    }

    #[test]
    fn of_several_writers_long_commits_give_way_for_as_long_as_they_meet() {
        let giving_way = GivingWay::default();
        giving_way.met.note();
        for _ in 0..REMEMBERED_COMMITS {
            assert!(!giving_way.is_due(LONG_OPERATIONS - 1), "a short one");
            assert!(giving_way.is_due(LONG_OPERATIONS));
        }
        assert!(!giving_way.is_due(LONG_OPERATIONS), "forgotten");
    }

    #[test]
    fn nobody_gives_way_beside_reads() {
        let giving_way = GivingWay::default();
        giving_way.note_read();
        for _ in 0..REMEMBERED_COMMITS {
            giving_way.met.note();
            assert!(!giving_way.is_due(LONG_OPERATIONS));
        }
        giving_way.met.note();
        assert!(giving_way.is_due(LONG_OPERATIONS), "the read is forgotten");
    }
}
