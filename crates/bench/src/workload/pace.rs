//! When calls are due that are to be begun at a rate.
//!
//! The threads of a step share one schedule. A call is due when the time of its operations has gone by since the end of the
//! call before it: so from the first call on there are at no time more operations than the rate allows, and a batch counts
//! as all of its own. A thread that hangs in a call leaves what is due meanwhile to the others.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::tally::CallStart;

/// A wait for longer is as good as this one, which is within the range of every clock.
const WAIT_MAX: Duration = Duration::from_secs(1 << 30);

/// The schedule of a step.
pub(super) struct Pace {
    /// Operations a second, all threads together; 0 for as fast as it goes.
    rate: f64,
    /// When the first thread was ready, and its time began to run.
    start: OnceLock<Instant>,
    /// Operations that have a place in the schedule.
    placed: AtomicU64,
}

impl Pace {
    pub(super) fn new(rate: f64) -> Self {
        Self {
            rate,
            start: OnceLock::new(),
            placed: AtomicU64::new(0),
        }
    }

    /// Waits until a call of `operations` operations is due.
    pub(super) fn begin(&self, operations: u64) -> CallStart {
        let now = Instant::now();
        let due = self.due(operations, now);
        if due <= now {
            return CallStart { due, begun: now };
        }
        thread::sleep(due - now);
        CallStart {
            due,
            begun: Instant::now(),
        }
    }

    /// Gives a call that a thread is ready for `now` its place.
    fn due(&self, operations: u64, now: Instant) -> Instant {
        if self.rate <= 0.0 {
            return now;
        }
        let start = *self.start.get_or_init(|| now);
        // Relaxed: the counter publishes nothing but itself.
        let before = self.placed.fetch_add(operations, Ordering::Relaxed);
        let seconds = before.saturating_add(operations) as f64 / self.rate;
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or(WAIT_MAX);
        start + wait.min(WAIT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_counts_as_its_operations() {
        let pace = Pace::new(100.0);
        let now = Instant::now();
        for second in 1..=10 {
            let due = pace.due(100, now);
            assert_eq!(due - now, Duration::from_secs(second));
        }
        // One that comes late is due when it would have been.
        let late = now + Duration::from_secs(60);
        assert_eq!(pace.due(50, late) - now, Duration::from_millis(10_500));
    }

    #[test]
    fn without_a_rate_calls_are_due_at_once_and_no_rate_overflows() {
        let now = Instant::now();
        assert_eq!(Pace::new(0.0).due(1000, now), now);
        assert_eq!(Pace::new(1e-300).due(u64::MAX, now) - now, WAIT_MAX);
        assert_eq!(Pace::new(f64::MAX).due(1, now), now);
    }
}
