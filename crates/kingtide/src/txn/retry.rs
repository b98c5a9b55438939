//! A piece of work, again until it commits.
//!
//! Between two attempts the thread waits for a random time, uniformly between nothing and a limit that doubles with every
//! attempt ("full jitter": M. Brooker, Exponential Backoff And Jitter, 2015), so that those who met once do not meet
//! again.

use std::time::Duration;

use kingtide_env::Env;

use super::Transaction;
use crate::error::{ErrorKind, Result};

/// How often, and how soon, [`Db::retry`](crate::Db::retry) tries again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// Attempts in all; 0 counts as 1. Default: 100.
    pub attempts_max: u32,
    /// The limit of the wait after the first attempt; doubled after each further one. Default: 100 microseconds.
    pub wait_first: Duration,
    /// The largest limit of a wait. Default: 50 milliseconds.
    pub wait_max: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            attempts_max: 100,
            wait_first: Duration::from_micros(100),
            wait_max: Duration::from_millis(50),
        }
    }
}

impl RetryOptions {
    /// The wait after attempt `attempt`, counted from 0, when `random` was drawn from all numbers.
    fn wait(&self, attempt: u32, random: u64) -> Duration {
        let doubled = self
            .wait_first
            .checked_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX));
        let limit = doubled.map_or(self.wait_max, |limit| limit.min(self.wait_max));
        let share = u128::from(random) * limit.as_nanos() / u128::from(u64::MAX);
        Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

/// Runs `work` in `transaction` and commits, again after conflicts, as [`Db::retry`](crate::Db::retry) describes.
pub(crate) fn retry<T>(
    env: &dyn Env,
    mut transaction: Transaction,
    options: &RetryOptions,
    mut work: impl FnMut(&mut Transaction) -> Result<T>,
) -> Result<T> {
    let mut attempt = 0;
    loop {
        let outcome = work(&mut transaction).and_then(|answer| {
            // The work may have ended the transaction itself; that is its decision.
            if transaction.is_active() {
                transaction.commit()?;
            }
            Ok(answer)
        });
        let error = match outcome {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let is_passing = matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Busy);
        if !is_passing || attempt + 1 >= options.attempts_max {
            return Err(error);
        }
        if transaction.is_active() {
            transaction.rollback()?;
        }
        let mut random = [0; 8];
        env.fill_random(&mut random);
        env.sleep(options.wait(attempt, u64::from_le_bytes(random)));
        transaction.reset()?;
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit() {
        let options = RetryOptions::default();
        assert_eq!(options.wait(0, u64::MAX), Duration::from_micros(100));
        assert_eq!(options.wait(3, u64::MAX), Duration::from_micros(800));
        assert_eq!(options.wait(40, u64::MAX), options.wait_max);
        assert_eq!(options.wait(3, 0), Duration::ZERO);
        let half = options.wait(1, u64::MAX / 2);
        assert!(half < Duration::from_micros(101) && half > Duration::from_micros(99));
    }
}
