//! Mutex and condition variable of shuttle, whose scheduler draws who goes on at every operation.

use std::{
    ops::{Deref, DerefMut},
    sync::{PoisonError, TryLockError},
    time::Duration,
};

use shuttle::{rand::Rng, sync as imp};

/// Mutual exclusion. [`Mutex::lock`] blocks until the lock is free and never fails.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: imp::Mutex<T>,
}

/// A held [`Mutex`]; dropping it releases the lock.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    inner: imp::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        Self {
            inner: imp::Mutex::new(value),
        }
    }

    fn guard<'a>(&'a self, inner: imp::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard { mutex: self, inner }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(self.guard(inner)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.guard(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, without locking: the caller is the only owner.
    pub fn into_inner(self) -> T {
        let value = self.inner.into_inner();
        value.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
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
        let MutexGuard { mutex, inner } = guard;
        let inner = self.inner.wait(inner);
        mutex.guard(inner.unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`Condvar::wait`], for at most `_timeout`; the flag is true when the time ran out.
    ///
    /// Schedules have no time. Others get the lock, then the caller comes back: by chance because its time ran out, or
    /// without reason. So a wait with a time-out never hangs, and a wake that is forgotten shows only where there is none.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let MutexGuard { mutex, inner } = guard;
        drop(inner);
        shuttle::thread::yield_now();
        (mutex.lock(), shuttle::rand::thread_rng().r#gen())
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
