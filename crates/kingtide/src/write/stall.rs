//! Where writers wait when flushing falls behind. A writer that must seal a memtable first waits until the sealed ones
//! take less than the limit; the wait is bounded, and ends with the flush's own error when it is that which fails.

use std::{sync::Arc, time::Duration};

use kingtide_env::sync::{
    Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::error::{Error, ErrorKind, Result};

/// How long a writer waits for room before it is told to try again later.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Waits are cut into steps of this length.
const WAIT_STEP: Duration = Duration::from_millis(100);

/// See the module.
pub(crate) struct Stall {
    state: Mutex<StallState>,
    changed: Condvar,
    sealed_bytes_max: usize,
    stalls: AtomicU64,
}

#[derive(Default)]
struct StallState {
    sealed_bytes: usize,
    /// The last flush failed like this and none has succeeded since.
    failure: Option<(ErrorKind, Arc<str>)>,
}

impl Stall {
    /// Sealed memtables may take `sealed_bytes_max` in all; one is always allowed, whatever its size.
    pub(crate) fn new(sealed_bytes_max: usize) -> Self {
        Self {
            state: Mutex::new(StallState::default()),
            changed: Condvar::new(),
            sealed_bytes_max,
            stalls: AtomicU64::new(0),
        }
    }

    /// Waits until `is_full` (the family's own limit) is false and another memtable may be sealed.
    ///
    /// # Errors
    /// The flush's failure when it keeps failing, else `Busy` after a bounded wait.
    pub(crate) fn wait(&self, is_full: impl Fn() -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let mut waited = Duration::ZERO;
        while is_full() || state.sealed_bytes >= self.sealed_bytes_max {
            if let Some((kind, message)) = &state.failure {
                return Err(Error::new(
                    *kind,
                    format!("memtables are full and cannot be flushed: {message}"),
                ));
            }
            if waited.is_zero() {
                // Relaxed: a statistic.
                self.stalls.fetch_add(1, Ordering::Relaxed);
            }
            if waited >= WAIT_MAX {
                return Err(Error::new(
                    ErrorKind::Busy,
                    "memtables fill faster than they are flushed: try again later",
                ));
            }
            let (guard, timed_out) = self.changed.wait_timeout(state, WAIT_STEP);
            state = guard;
            if timed_out {
                waited += WAIT_STEP;
            }
        }
        Ok(())
    }

    /// Bytes that sealed memtables take, and may take.
    pub(crate) fn sealed_bytes(&self) -> (usize, usize) {
        (self.state.lock().sealed_bytes, self.sealed_bytes_max)
    }

    /// True when another memtable may be sealed without waiting.
    pub(crate) fn has_room(&self) -> bool {
        self.state.lock().sealed_bytes < self.sealed_bytes_max
    }

    /// A memtable was sealed.
    pub(crate) fn add(&self, bytes: usize) {
        self.state.lock().sealed_bytes += bytes;
    }

    /// A sealed memtable was flushed or given up with its family.
    pub(crate) fn subtract(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.sealed_bytes = state.sealed_bytes.saturating_sub(bytes);
        state.failure = None;
        self.changed.notify_all();
    }

    /// A flush failed; writers that wait for it are told.
    pub(crate) fn note_failure(&self, error: &Error) {
        self.state.lock().failure = Some((error.kind(), error.to_string().into()));
        self.changed.notify_all();
    }

    /// How often a writer had to wait.
    pub(crate) fn count(&self) -> u64 {
        // Relaxed: a statistic.
        self.stalls.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
