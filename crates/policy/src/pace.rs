//! How much writers are held back: a pure function from how far filling runs ahead of flushing and merging to a delay.
//!
//! Without it, writers run at full speed into a full memtable and then stand still until a flush ends. With it they are
//! slowed down before, a little at first, so that the memtable is full about when the one before it is in tables. What
//! is watched is how full the memtable is against how much of the waiting one is written: at a steady load both advance
//! together, the delay settles where filling is as fast as flushing, and nobody stands still.
//!
//! The delay is in proportion to the bytes of the commit, and grows with the square of the pressure: at most 1 ms for
//! each [`BYTES_PER_STEP`] of a commit, and much less until it is tight.
//!
//! It deliberately knows no speeds: measured speeds are of the past, and wrong when the load changes.

use std::time::Duration;

/// The longest delay for [`BYTES_PER_STEP`] bytes of a commit.
pub const DELAY_STEP_MAX: Duration = Duration::from_millis(1);
/// A commit of so many bytes is delayed by [`DELAY_STEP_MAX`] at most, a larger one in proportion.
pub const BYTES_PER_STEP: usize = 4 << 10;

/// What a memtable may be filled by, as a share, before anything of the one before it is written.
const LEAD: f64 = 0.35;
/// From this share of what it may be filled by, writers are held back.
const FILL_START: f64 = 0.75;
/// Level 1 holds this many times what starts a merge: writers are held back, and fully at the second.
const BACKLOG: (f64, f64) = (4.0, 12.0);
/// This share of the memory budget is in use: writers are held back, and fully at the second.
const MEMORY: (f64, f64) = (0.9, 1.0);

/// How a family stands that is written to. Shares are 0 to 1; others count as the nearest of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// How full the active memtable is.
    pub fill: f64,
    /// How much is written of what must be in tables before another memtable may wait; `None` when one may at once.
    pub flushed: Option<f64>,
    /// What level 1 holds, as a multiple of what starts a merge.
    pub level1: f64,
    /// The share of the memory budget in use, less what caches could still give up.
    pub memory: f64,
}

/// How hard writers should be held back, 0 to 1.
///
/// ```
/// use kingtide_policy::{Standing, delay, pressure};
///
/// let calm = Standing { fill: 0.9, flushed: None, level1: 1.0, memory: 0.5 };
/// assert_eq!(pressure(&calm), 0.0);
/// let tight = Standing { flushed: Some(0.5), ..calm };
/// assert_eq!(pressure(&tight), 1.0);
/// assert_eq!(delay(pressure(&tight), 8192).as_millis(), 2);
/// ```
#[must_use]
pub fn pressure(standing: &Standing) -> f64 {
    let of_fill = standing.flushed.map_or(0.0, |flushed| {
        let may_be = LEAD + (1.0 - LEAD) * share(flushed);
        ramp(share(standing.fill) / may_be, (FILL_START, 1.0))
    });
    of_fill
        .max(ramp(standing.level1, BACKLOG))
        .max(ramp(standing.memory, MEMORY))
}

/// How long a commit of `bytes` is delayed at this pressure.
#[must_use]
pub fn delay(pressure: f64, bytes: usize) -> Duration {
    let steps = bytes as f64 / BYTES_PER_STEP as f64;
    // Bounded, so that no number of bytes is too long for a duration.
    DELAY_STEP_MAX.mul_f64(share(pressure).powi(2) * steps.min(1e6))
}

/// 0 up to `start`, 1 from `end` on, a straight line between; 0 for what is no number.
fn ramp(value: f64, (start, end): (f64, f64)) -> f64 {
    share((value - start) / (end - start))
}

fn share(value: f64) -> f64 {
    if value.is_nan() {
        return 0.0;
    }
    value.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests;
