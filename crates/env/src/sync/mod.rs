//! Locks and atomics for engine code. Built on std's; on loom's under `--cfg loom`, so that models check the real code.
//! Loom's work inside `loom::model` only.
//!
//! A panic while a lock is held does not poison it: engine code restores its invariants by value swap or drop guard, and
//! a broken invariant poisons the database, not the lock.

mod locks;

pub use locks::{Condvar, Mutex, MutexGuard};

/// Atomic integers, std's or loom's.
pub mod atomic {
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    #[cfg(not(loom))]
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}

#[cfg(test)]
mod tests;
