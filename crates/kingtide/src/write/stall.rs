//! Where writers wait when flushing falls behind, and what is known of how far behind it is.
//!
//! A writer that must seal a memtable while those before it take all they may, and one that finds the memory budget used
//! up, wait here. The wait is bounded, and ends with the flush's own error when it is that which fails.
//!
//! Sealed memtables queue up: their bytes are counted as they are sealed and as they reach tables, so that a memtable's
//! place in the queue, and how much of the way is done, is two numbers.

use std::{sync::Arc, time::Duration};

use kingtide_env::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
use kingtide_policy::BYTES_PER_STEP;

use crate::{
    error::{Error, ErrorKind, Result},
    memtable::Queued,
};

/// Waits are cut into steps of this length.
const WAIT_STEP: Duration = Duration::from_millis(100);
/// Delays shorter than this are saved up.
pub(super) const DELAY_STEP: Duration = Duration::from_millis(1);

/// See the module.
pub(crate) struct Stall {
    /// The last flush failed like this and none has succeeded since.
    failure: Mutex<Option<(ErrorKind, Arc<str>)>>,
    /// The same, to be looked at in passing.
    is_failing: AtomicBool,
    changed: Condvar,
    wait_max: Duration,
    /// Sealed memtables of all families.
    waiting: AtomicUsize,
    /// Bytes of memtables that were ever sealed, and of those that have left since.
    sealed_total: AtomicU64,
    flushed_total: AtomicU64,
    /// Bytes of small commits that nobody was delayed for yet.
    unpaced_bytes: AtomicUsize,
    /// Delays too short to be slept one by one, in nanoseconds.
    debt_nanos: AtomicU64,
    delayed_nanos: AtomicU64,
    stalls: AtomicU64,
}

impl Stall {
    /// Writers wait at most `wait_max`.
    pub(crate) fn new(wait_max: Duration) -> Self {
        Self {
            failure: Mutex::new(None),
            is_failing: AtomicBool::new(false),
            changed: Condvar::new(),
            wait_max,
            waiting: AtomicUsize::new(0),
            sealed_total: AtomicU64::new(0),
            flushed_total: AtomicU64::new(0),
            unpaced_bytes: AtomicUsize::new(0),
            debt_nanos: AtomicU64::new(0),
            delayed_nanos: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
        }
    }

    /// Waits until `is_full` is false. It is asked under a lock that flushes take to tell of their end.
    ///
    /// # Errors
    /// The flush's failure when it keeps failing, else `Busy`, with what `describe` says, after a bounded wait.
    pub(crate) fn wait(
        &self,
        is_full: impl Fn() -> bool,
        describe: impl Fn() -> String,
    ) -> Result<()> {
        let mut failure = self.failure.lock();
        let mut waited = Duration::ZERO;
        while is_full() {
            if let Some((kind, message)) = &*failure {
                return Err(Error::new(
                    *kind,
                    format!("memtables are full and cannot be flushed: {message}"),
                ));
            }
            if waited.is_zero() {
                // Relaxed: a statistic.
                self.stalls.fetch_add(1, Ordering::Relaxed);
            }
            if waited >= self.wait_max {
                return Err(Error::new(ErrorKind::Busy, describe()));
            }
            let step = WAIT_STEP.min(self.wait_max);
            let (guard, timed_out) = self.changed.wait_timeout(failure, step);
            failure = guard;
            if timed_out {
                waited += step;
            }
        }
        Ok(())
    }

    /// True while no memtable waits for its flush.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.waiting() == 0
    }

    /// Memtables that wait for their flush.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        // Relaxed, here and for all counts below: numbers that decide on delays; nothing is read on their strength.
        self.waiting.load(Ordering::Relaxed)
    }

    /// A memtable of `bytes` was sealed; answers its place in the queue.
    pub(crate) fn add(&self, bytes: usize) -> Queued {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let before = self.sealed_total.fetch_add(bytes as u64, Ordering::Relaxed);
        Queued {
            start: self.flushed_total.load(Ordering::Relaxed),
            end: before + bytes as u64,
        }
    }

    /// A sealed memtable was flushed or given up with its family.
    pub(crate) fn subtract(&self, bytes: usize) {
        self.flushed_total
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut failure = self.failure.lock();
        *failure = None;
        self.is_failing.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// The share of what a sealed memtable waits for, itself included, that is done: `passed` bytes of itself, and the
    /// memtables before it.
    pub(super) fn done(&self, queued: Queued, passed: f64) -> f64 {
        let flushed = self.flushed_total.load(Ordering::Relaxed);
        let before = flushed.saturating_sub(queued.start) as f64;
        let all = queued.end.saturating_sub(queued.start).max(1) as f64;
        (before + passed) / all
    }

    /// A flush failed; writers that wait for it are told.
    pub(crate) fn note_failure(&self, error: &Error) {
        let mut failure = self.failure.lock();
        *failure = Some((error.kind(), error.to_string().into()));
        self.is_failing.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// True while flushing fails.
    pub(super) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// For how many bytes a commit of `bytes` is to be delayed: small ones are saved up, and every so often one answers for
    /// all, so that most need not look at the pressure.
    pub(super) fn take_bytes(&self, bytes: usize) -> Option<usize> {
        if bytes >= BYTES_PER_STEP {
            return Some(bytes);
        }
        let sum = self.unpaced_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if sum < BYTES_PER_STEP {
            return None;
        }
        // Others may have seen more than a step too: what is taken is taken once.
        match self.unpaced_bytes.swap(0, Ordering::Relaxed) {
            0 => None,
            taken => Some(taken),
        }
    }

    /// Saves up a delay that is shorter than [`DELAY_STEP`]; answers what is to be slept now, if it is enough.
    pub(super) fn save_up(&self, delay: Duration) -> Option<Duration> {
        let nanos = delay.as_nanos() as u64;
        let step = DELAY_STEP.as_nanos() as u64;
        let before = self.debt_nanos.fetch_add(nanos, Ordering::Relaxed);
        if before + nanos < step {
            return None;
        }
        // Whoever takes the step off sleeps it; others that saw the same sum find less than a step left.
        let taken = self
            .debt_nanos
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |debt| {
                debt.checked_sub(step)
            });
        taken.is_ok().then_some(DELAY_STEP)
    }

    /// A writer was delayed.
    pub(super) fn note_delayed(&self, nanos: u64) {
        self.delayed_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How often a writer had to wait, and for how many nanoseconds writers were slowed down.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.stalls.load(Ordering::Relaxed),
            self.delayed_nanos.load(Ordering::Relaxed),
        )
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
