//! Mutex and condition variable over std's or loom's.

use std::{
    ops::{Deref, DerefMut},
    sync::PoisonError,
    time::Duration,
};

#[cfg(loom)]
use loom::sync as imp;
#[cfg(not(loom))]
use std::sync as imp;

/// Mutual exclusion. [`Mutex::lock`] blocks until the lock is free and never fails.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: imp::Mutex<T>,
}

/// A held [`Mutex`]; dropping it releases the lock.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    inner: imp::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        Self {
            inner: imp::Mutex::new(value),
        }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            inner: self.inner.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(MutexGuard { inner }),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(MutexGuard {
                inner: poisoned.into_inner(),
            }),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// The value, without locking: the caller is the only owner.
    pub fn into_inner(self) -> T {
        self.inner
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: imp::Condvar,
}

impl Condvar {
    /// A condition variable that nobody waits for.
    pub fn new() -> Self {
        Self {
            inner: imp::Condvar::new(),
        }
    }

    /// Releases the lock, waits to be woken, takes the lock again. May wake without reason: wait in a loop.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            inner: self
                .inner
                .wait(guard.inner)
                .unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// As [`Condvar::wait`], for at most `timeout`; the flag is true when the time ran out.
    ///
    /// Loom has no time: in a model this waits until it is woken, and a model in which nobody wakes it is reported as
    /// a deadlock. So a time-out may bound a wait or pace a loop, but nothing may depend on it for being woken.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (inner, outcome) = self
            .inner
            .wait_timeout(guard.inner, timeout)
            .unwrap_or_else(PoisonError::into_inner);
        (MutexGuard { inner }, outcome.timed_out())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}
