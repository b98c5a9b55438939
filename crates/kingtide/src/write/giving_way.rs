//! When a writer gives the processor away of its own accord.
//!
//! With more writers than processors the system takes the processor from each of them now and then, mostly in the middle of a
//! commit. Others then come to the commit lock, sleep there and are woken late, and what flushes gets too little. So a writer
//! gives the processor away itself, at two places where it holds nothing up:
//!
//! 1. Once, before it sleeps at the commit lock; not for a commit of one operation, whose step ends while the lock spins.
//! 2. Behind a long commit, which took about as long as a change of threads costs many times over, if
//!    - commits of several operations met at the commit lock lately: who writes alone would only lose its share to other programs;
//!    - nobody read lately: beside threads that go on until the system takes the processor from them, all waiting would fall on
//!      those that write.
//!
//! What happened lately is counted in long commits. All of it is a hint: what is seen too early or late costs some time.

use kingtide_env::{give_way, sync::MutexGuard};

use super::order::{CommitOrder, OrderState, OrderedLog};
use crate::family::Lately;

/// A commit of so many operations is a long one.
const LONG_OPERATIONS: usize = 256;
/// What happened is remembered for so many long commits.
const REMEMBERED_COMMITS: u32 = 16;

/// See the module.
#[derive(Default)]
pub(crate) struct GivingWay {
    /// That somebody read.
    read: Lately<REMEMBERED_COMMITS>,
    /// That a writer found the commit lock taken.
    met: Lately<REMEMBERED_COMMITS>,
}

impl GivingWay {
    /// Somebody reads.
    #[inline]
    pub(crate) fn note_read(&self) {
        self.read.note();
    }

    /// Takes the commit lock for a commit of so many operations.
    pub(super) fn commit_lock<'a, L: OrderedLog>(
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
        let (met, read) = (self.met.pass(), self.read.pass());
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
