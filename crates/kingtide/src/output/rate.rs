//! How fast merges may write: a token bucket.
//!
//! The bucket is kept as the moment at which everything that was written so far is paid for. Writing moves it on by
//! bytes / rate; whoever has written waits until it has come. After a pause it is at most [`BURST_NANOS`] behind, so as
//! many bytes may be written at once as the rate allows in that time. All merges share one bucket.

use kingtide_env::sync::Mutex;

/// How much of the past counts as saved up.
const BURST_NANOS: u64 = 100_000_000;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// See the module.
pub(crate) struct RateLimit {
    /// 0: no limit.
    bytes_per_second: u64,
    /// When everything written so far is paid for, on the monotonic clock.
    paid_at: Mutex<u64>,
}

impl RateLimit {
    /// A limit of `bytes_per_second`; 0 is none.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            paid_at: Mutex::new(0),
        }
    }

    /// False when nothing is limited.
    pub(crate) fn is_on(&self) -> bool {
        self.bytes_per_second > 0
    }

    /// Counts `bytes` that were written by `now` (nanoseconds); answers when they are paid for, which may be past.
    pub(crate) fn pay(&self, bytes: u64, now: u64) -> u64 {
        if !self.is_on() {
            return now;
        }
        let nanos = u128::from(bytes) * NANOS_PER_SECOND / u128::from(self.bytes_per_second);
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        let mut paid_at = self.paid_at.lock();
        let from = (*paid_at).max(now.saturating_sub(BURST_NANOS));
        *paid_at = from.saturating_add(nanos);
        *paid_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn bytes_are_paid_for_at_the_rate_and_pauses_count_for_a_tenth_of_a_second() {
        let limit = RateLimit::new(1000);
        // The clock begins at an hour: a pause of an hour has saved up a tenth of a second.
        let now = 3600 * SECOND;
        assert_eq!(limit.pay(100, now), now);
        assert_eq!(limit.pay(1000, now), now + SECOND);
        assert_eq!(limit.pay(500, now), now + SECOND + SECOND / 2);
        let later = now + 10 * SECOND;
        assert_eq!(limit.pay(1000, later), later - BURST_NANOS + SECOND);
    }

    #[test]
    fn no_limit_costs_no_time() {
        assert_eq!(RateLimit::new(0).pay(u64::MAX, 5), 5);
        assert!(RateLimit::new(1).pay(u64::MAX, 5) > SECOND);
    }
}
