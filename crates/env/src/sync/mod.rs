//! Locks and atomics for engine code. Built on std's; on loom's under `--cfg loom`, so that models check the real code
//! (loom's work inside `loom::model` only); on shuttle's under `--cfg shuttle` (inside its runner only); with pauses under
//! `--cfg simulated` (see `baton`).
//!
//! A panic while a lock is held does not poison it: engine code restores its invariants by value swap or drop guard, and
//! a broken invariant poisons the database, not the lock.

#[cfg(simulated)]
mod baton_atomics;
#[cfg(simulated)]
mod baton_locks;
#[cfg(not(any(shuttle, simulated)))]
mod locks;
#[cfg(shuttle)]
mod shuttle_locks;

#[cfg(simulated)]
pub use baton_locks::{Condvar, Mutex, MutexGuard};
#[cfg(not(any(shuttle, simulated)))]
pub use locks::{Condvar, Mutex, MutexGuard};
#[cfg(shuttle)]
pub use shuttle_locks::{Condvar, Mutex, MutexGuard};

/// Atomic integers: std's, loom's or shuttle's, or std's with pauses.
pub mod atomic {
    #[cfg(simulated)]
    pub use super::baton_atomics::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    #[cfg(shuttle)]
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    #[cfg(not(any(loom, shuttle, simulated)))]
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    #[cfg(simulated)]
    pub use std::sync::atomic::{Ordering, fence};
}

#[cfg(test)]
mod tests;
