//! Time in ticks: so far apart that the little by which the clock of a world moves on its own never matters, with every
//! expiry half way between two of them.

use std::time::Duration;

use crate::model::ClockSpan;

/// When worlds in memory begin, in seconds since 1970.
const START: i64 = 1_700_000_000;
/// Seconds of a tick: over a week.
const TICK: i64 = 1_000_000;

/// The time that so many ticks take.
pub(super) fn duration(ticks: u64) -> Duration {
    Duration::from_secs(ticks.saturating_mul(TICK.unsigned_abs()))
}

/// The clock in this tick.
pub(super) fn span(tick: u64) -> ClockSpan {
    let micros = (START.unsigned_abs() + tick * TICK.unsigned_abs()) * 1_000_000;
    ClockSpan {
        from_micros: micros,
        to_micros: micros,
    }
}

/// The expiry of what is written in tick `now` and goes after `ticks`, in seconds since 1970.
pub(super) fn expiry(now: u64, ticks: i64) -> i64 {
    START + (now.cast_signed() + ticks) * TICK - TICK / 2
}
