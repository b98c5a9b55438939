//! Mutex and condition variable of simulated threads. Waiting is the baton's; the locks of the system below are only
//! ever tried, but by threads that are not part of a simulation.

use std::{
    ops::{Deref, DerefMut},
    sync::{PoisonError, TryLockError},
    time::Duration,
};

use crate::baton;

/// Mutual exclusion. [`Mutex::lock`] blocks until the lock is free and never fails.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: std::sync::Mutex<T>,
}

/// A held [`Mutex`]; dropping it releases the lock.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Always there but while the guard is being dropped or waits.
    inner: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        Self {
            inner: std::sync::Mutex::new(value),
        }
    }

    fn place(&self) -> usize {
        std::ptr::from_ref(&self.inner).addr()
    }

    fn guard<'a>(&'a self, inner: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            mutex: self,
            inner: Some(inner),
        }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if !baton::is_simulated() {
            return self.guard(self.inner.lock().unwrap_or_else(PoisonError::into_inner));
        }
        baton::pause(15);
        self.lock_without_pause()
    }

    fn lock_without_pause(&self) -> MutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.take() {
                return guard;
            }
            baton::wait_at(self.place(), None);
        }
    }

    fn take(&self) -> Option<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(self.guard(inner)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.guard(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        baton::pause(16);
        self.take()
    }

    /// The value, without locking: the caller is the only owner.
    pub fn into_inner(self) -> T {
        self.inner
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            baton::wake(self.mutex.place(), true);
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!("a guard in use holds its lock"),
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.inner {
            Some(inner) => inner,
            None => unreachable!("a guard in use holds its lock"),
        }
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: std::sync::Condvar,
}

impl Condvar {
    /// A condition variable that nobody waits for.
    pub fn new() -> Self {
        Self {
            inner: std::sync::Condvar::new(),
        }
    }

    fn place(&self) -> usize {
        std::ptr::from_ref(&self.inner).addr()
    }

    /// Releases the lock, waits to be woken, takes the lock again. May wake without reason: wait in a loop.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_until(guard, None).0
    }

    /// As [`Condvar::wait`], for at most `timeout`; the flag is true when the time ran out.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        self.wait_until(guard, Some(timeout))
    }

    fn wait_until<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Option<Duration>,
    ) -> (MutexGuard<'a, T>, bool) {
        let mutex = guard.mutex;
        let Some(inner) = guard.inner.take() else {
            unreachable!("a guard in use holds its lock");
        };
        if !baton::is_simulated() {
            return self.wait_outside(mutex, inner, timeout);
        }
        drop(inner);
        baton::wake(mutex.place(), true);
        let nanos = timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        // Nobody can wake before this thread waits: it holds the baton until then.
        let timed_out = baton::wait_at(self.place(), nanos);
        (mutex.lock_without_pause(), timed_out)
    }

    fn wait_outside<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        inner: std::sync::MutexGuard<'a, T>,
        timeout: Option<Duration>,
    ) -> (MutexGuard<'a, T>, bool) {
        match timeout {
            None => {
                let inner = self
                    .inner
                    .wait(inner)
                    .unwrap_or_else(PoisonError::into_inner);
                (mutex.guard(inner), false)
            }
            Some(timeout) => {
                let (inner, outcome) = self
                    .inner
                    .wait_timeout(inner, timeout)
                    .unwrap_or_else(PoisonError::into_inner);
                (mutex.guard(inner), outcome.timed_out())
            }
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.inner.notify_one();
        baton::wake(self.place(), false);
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.inner.notify_all();
        baton::wake(self.place(), true);
    }
}
