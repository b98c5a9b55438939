//! Where writers wait when flushing falls behind, and what is known of how far behind it is.
//!
//! A writer that must seal a memtable while those before it take all they may, and one that finds the memory budget used
//! up, wait here. The wait is bounded, and ends with the flush's own error when it is that which fails.
//!
//! Writers that are slowed down before that get their turns from one clock (`kingtide_policy::pace`), and the speed of
//! flushing is known from the flushes before.

use std::{sync::Arc, time::Duration};

use kingtide_env::{
    Env,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};
use kingtide_policy::{Turn, Turns};

use crate::error::{Error, ErrorKind, Result};

/// Waits are cut into steps of this length.
const WAIT_STEP: Duration = Duration::from_millis(100);
/// Small commits are counted up to this many bytes before one of them takes a turn for all.
const BYTES_PER_TURN: usize = 4 << 10;
/// What flushing is taken for before the first flush has ended, in bytes a second: fast, so that nobody is held back much.
const SPEED_UNKNOWN: f64 = 400e6;
/// A flush counts for one part in so many of the usual speed.
const SPEED_PARTS: f64 = 4.0;

/// See the module.
pub(crate) struct Stall {
    told: Mutex<Told>,
    /// Whether `told` holds a failure, to be looked at in passing.
    is_failing: AtomicBool,
    changed: Condvar,
    wait_max: Duration,
    /// Sealed memtables of all families.
    waiting: AtomicUsize,
    /// The usual speed of a flush in bytes of memtables a second, as the bits of a float; 0 before the first has ended.
    flush_speed: AtomicU64,
    /// Bytes of small commits that no turn was taken for yet.
    unpaced_bytes: AtomicUsize,
    /// The turns of writers that are held back, in monotonic nanoseconds.
    turns: Mutex<Turns>,
    delayed_nanos: AtomicU64,
    stalls: AtomicU64,
}

/// What flushes have told.
#[derive(Default)]
struct Told {
    /// The last flush failed like this and none has succeeded since.
    failure: Option<(ErrorKind, Arc<str>)>,
    /// How often a flush has ended or failed.
    changes: u64,
}

impl Stall {
    /// Writers wait at most `wait_max`.
    pub(crate) fn new(wait_max: Duration) -> Self {
        Self {
            told: Mutex::default(),
            is_failing: AtomicBool::new(false),
            changed: Condvar::new(),
            wait_max,
            waiting: AtomicUsize::new(0),
            flush_speed: AtomicU64::new(0),
            unpaced_bytes: AtomicUsize::new(0),
            turns: Mutex::new(Turns::default()),
            delayed_nanos: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
        }
    }

    /// Waits until `is_full` is false. It is asked without any lock, again after each flush that ends, and every 100 ms.
    ///
    /// # Errors
    /// The flush's failure when it keeps failing, else `Busy`, with what `describe` says, after a bounded wait.
    pub(crate) fn wait(
        &self,
        env: &dyn Env,
        is_full: impl Fn() -> bool,
        describe: impl Fn() -> String,
    ) -> Result<()> {
        let mut begun = None;
        let mut timed_out = Duration::ZERO;
        loop {
            let seen = self.told.lock().changes;
            if !is_full() {
                return Ok(());
            }
            let told = self.told.lock();
            if let Some((kind, message)) = &told.failure {
                return Err(Error::new(
                    *kind,
                    format!("memtables are full and cannot be flushed: {message}"),
                ));
            }
            let now = env.monotonic_nanos();
            if begun.is_none() {
                // Relaxed: a statistic.
                self.stalls.fetch_add(1, Ordering::Relaxed);
            }
            let waited = now.saturating_sub(*begun.get_or_insert(now));
            // A clock may stand still.
            if Duration::from_nanos(waited).max(timed_out) >= self.wait_max {
                return Err(Error::new(ErrorKind::Busy, describe()));
            }
            let step = WAIT_STEP.min(self.wait_max);
            if told.changes == seen && self.changed.wait_timeout(told, step).1 {
                timed_out += step;
            }
        }
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

    /// A memtable was sealed.
    pub(crate) fn add(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// A sealed memtable was flushed or given up with its family.
    pub(crate) fn subtract(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut told = self.told.lock();
        told.failure = None;
        told.changes += 1;
        self.is_failing.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// A memtable of `bytes` was flushed in `nanos`.
    pub(super) fn note_speed(&self, bytes: usize, nanos: u64) {
        let speed = bytes as f64 * 1e9 / nanos.max(1) as f64;
        let usual = match self.flush_speed.load(Ordering::Relaxed) {
            0 => speed,
            bits => f64::from_bits(bits),
        };
        let next = usual + (speed - usual) / SPEED_PARTS;
        // One of two flushes that end at once may be lost, which is all the same.
        self.flush_speed.store(next.to_bits(), Ordering::Relaxed);
    }

    /// How many bytes of memtables are flushed in a second, usually.
    pub(super) fn flush_speed(&self) -> f64 {
        match self.flush_speed.load(Ordering::Relaxed) {
            0 => SPEED_UNKNOWN,
            bits => f64::from_bits(bits),
        }
    }

    /// A flush failed; writers that wait for it are told.
    pub(crate) fn note_failure(&self, error: &Error) {
        let mut told = self.told.lock();
        told.failure = Some((error.kind(), error.to_string().into()));
        told.changes += 1;
        self.is_failing.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// True while flushing fails.
    pub(super) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// For how many bytes a commit of `bytes` takes a turn: small ones are counted together, and every so often one takes a
    /// turn for all, so that most need not look how things stand.
    pub(super) fn take_bytes(&self, bytes: usize) -> Option<usize> {
        if bytes >= BYTES_PER_TURN {
            return Some(bytes);
        }
        let sum = self.unpaced_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if sum < BYTES_PER_TURN {
            return None;
        }
        // Others may have seen more than a step too: what is taken is taken once.
        match self.unpaced_bytes.swap(0, Ordering::Relaxed) {
            0 => None,
            taken => Some(taken),
        }
    }

    /// Takes a turn for a commit of `bytes`, when writers are let in at this speed.
    pub(super) fn take_turn(&self, bytes: usize, now: u64, bytes_per_second: f64) -> Turn {
        let mut turns = self.turns.lock();
        turns.run(now, bytes_per_second);
        turns.take(bytes)
    }

    /// How long it is from `now` until a turn that was taken, when writers are let in at this speed.
    pub(super) fn until(&self, turn: Turn, now: u64, bytes_per_second: f64) -> Duration {
        let mut turns = self.turns.lock();
        turns.run(now, bytes_per_second);
        turns.left(turn, bytes_per_second)
    }

    /// Nobody need wait for turns that were taken.
    pub(super) fn forget_turns(&self) {
        self.turns.lock().forget();
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
