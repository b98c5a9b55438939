//! Which thread is at home where.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{
    HOME_LOCK, SpinCell, barrier,
    state::{NO_HOME, PLACES, Record, record_of},
};

/// Threads that can be at home somewhere at once; further ones always come from elsewhere.
const RECORDS: usize = 1024;
/// After a home was taken away, so many objects get none: where threads hand objects to each other, the heavy barrier would
/// cost more than it saves.
const HOMELESS: u32 = 64;

/// The records of all threads.
pub(super) static ALL: [Record; RECORDS] = [const {
    Record {
        thread: AtomicU64::new(0),
        places: [const { AtomicU64::new(0) }; PLACES],
    }
}; RECORDS];

struct Unused {
    /// Records of threads that have ended.
    returned: Vec<u32>,
    /// Records that were ever used.
    used: u32,
}

static UNUSED: SpinCell<Unused> = SpinCell::new(
    HOME_LOCK,
    Unused {
        returned: Vec::new(),
        used: 0,
    },
);
/// Objects that get no home.
static COUNTDOWN: AtomicU32 = AtomicU32::new(0);

/// A thread's record, for as long as the thread runs.
struct Lease(u32);

impl Lease {
    fn take() -> Self {
        let home = UNUSED.with(|unused| {
            unused.returned.pop().or_else(|| {
                let is_left = (unused.used as usize) < RECORDS;
                unused.used += u32::from(is_left);
                is_left.then_some(unused.used)
            })
        });
        let lease = Self(home.unwrap_or(NO_HOME));
        if let Some(record) = lease.record() {
            record.thread.store(this_thread(), Ordering::Relaxed);
        }
        lease
    }

    fn record(&self) -> Option<&'static Record> {
        record_of(&ALL, self.0)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(record) = self.record() {
            record.thread.store(0, Ordering::Relaxed);
            // What the thread did is before what the next one with this record does: the lock says so.
            UNUSED.with(|unused| unused.returned.push(self.0));
        }
    }
}

thread_local! {
    static LEASE: Lease = Lease::take();
}

/// A number that no other thread has while this one runs; not 0.
#[inline]
pub(super) fn this_thread() -> u64 {
    // SAFETY: no preconditions.
    let thread = unsafe { libc::pthread_self() };
    thread as u64
}

/// Where an object is at home that this thread makes.
pub(super) fn of_new_object() -> u32 {
    if !barrier::is_available() {
        return NO_HOME;
    }
    let left = COUNTDOWN.load(Ordering::Relaxed);
    if left > 0 {
        // What another thread does at the same time may be lost: this is a rule of thumb.
        COUNTDOWN.store(left - 1, Ordering::Relaxed);
        return NO_HOME;
    }
    // A thread that is ending has none any more.
    LEASE.try_with(|lease| lease.0).unwrap_or(NO_HOME)
}

/// Told when a home was taken away.
#[cold]
pub(super) fn was_taken() {
    COUNTDOWN.store(HOMELESS, Ordering::Relaxed);
}
