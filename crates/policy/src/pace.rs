//! How fast writers are let in: a pure function from how far filling runs ahead of flushing and merging to a speed.
//!
//! Without it, writers run at full speed into a full memtable and then stand still until a flush ends. With it they are let
//! in about as fast as memtables are flushed, a little faster while little waits and slower when much does, so that the
//! active memtable is full about when the one before it is in tables. All writers share one clock, which counts the bytes
//! that were let in: they get their turns in the order in which they came, and at a steady load each waits about as long as
//! the others.
//!
//! How much waits is counted in memtables, the active one by how full it is, those that wait by what is still to be written
//! of them. That number has no steps: sealing a memtable and ending its flush leave it as it is.

use std::time::Duration;

/// A commit never waits longer than this for its turn.
pub const TURN_MAX: Duration = Duration::from_millis(250);

/// So many memtables wait at a steady load: one fills while the one before it is flushed.
const BACKLOG_STEADY: f64 = 1.0;
/// By how much faster writers are let in for a memtable less than that, in speeds of flushing.
const GAIN: f64 = 1.0;
/// So many memtables before there is no more room they are let in no more, or hardly.
const RESERVE: f64 = 0.67;
/// Speeds are not below this, in speeds of flushing.
const SLOWEST: f64 = 0.02;
/// Level 1 holds this many times what starts a merge: writers are held back, and most at the second.
const LEVEL1: (f64, f64) = (5.0, 20.0);
/// Value files, with what is to be flushed, take this share of what they may: writers are held back, and most at the second.
const VALUES: (f64, f64) = (0.75, 0.98);
/// This share of the memory budget is in use: writers are held back, and most at the second.
const MEMORY: (f64, f64) = (0.9, 1.0);

/// How a family stands that is written to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Memtables that are to be flushed, those that wait and the active one, each by the share of it that is filled and not
    /// yet written; `None` when none waits.
    pub backlog: Option<f64>,
    /// How many there may be at most, the active one included; at least 2.
    pub room: f64,
    /// What level 1 holds, as a multiple of what starts a merge.
    pub level1: f64,
    /// What value files that are being emptied take, with what waits to be flushed, as a share of what they may; 0 when
    /// there is nothing to be done about them.
    pub values: f64,
    /// The share of the memory budget in use, less what caches could still give up.
    pub memory: f64,
}

/// How fast writers should be let in, as a multiple of the speed of flushing; `None` when as fast as they come.
///
/// ```
/// use kingtide_policy::{Standing, admission};
///
/// let calm = Standing { backlog: None, room: 2.0, level1: 1.0, values: 0.0, memory: 0.5 };
/// assert_eq!(admission(&calm), None);
/// let steady = Standing { backlog: Some(1.0), ..calm };
/// assert_eq!(admission(&steady), Some(1.0));
/// let behind = Standing { backlog: Some(1.2), ..calm };
/// assert!(admission(&behind) < Some(0.5));
/// ```
#[must_use]
pub fn admission(standing: &Standing) -> Option<f64> {
    let relief = (1.0 - ramp(standing.level1, LEVEL1))
        * (1.0 - ramp(standing.values, VALUES))
        * (1.0 - ramp(standing.memory, MEMORY));
    let of_backlog = match standing.backlog {
        Some(backlog) if backlog < BACKLOG_STEADY => 1.0 + (BACKLOG_STEADY - backlog) * GAIN,
        Some(backlog) if !backlog.is_nan() => {
            1.0 - ramp(backlog, (BACKLOG_STEADY, standing.room.max(2.0) - RESERVE))
        }
        _ if relief < 1.0 => 1.0,
        _ => return None,
    };
    Some((of_backlog * relief).max(SLOWEST))
}

/// Where a writer stands among those that take turns.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Turn(f64);

/// The clock on which writers take turns. It counts bytes and runs as fast as they are let in just now, so that a turn
/// comes sooner as soon as flushing gets ahead, however things stood when it was taken. Who takes a turn while nobody waits
/// may begin at once: what was not used is not saved.
///
/// ```
/// use kingtide_policy::Turns;
/// use std::time::Duration;
///
/// let mut turns = Turns::default();
/// let (first, second) = (turns.take(1_000_000), turns.take(1_000_000));
/// assert_eq!(turns.left(first, 100e6), Duration::ZERO);
/// assert_eq!(turns.left(second, 100e6), Duration::from_millis(10));
/// turns.run(5_000_000, 100e6);
/// assert_eq!(turns.left(second, 200e6), Duration::from_micros(2_500));
/// ```
#[derive(Debug, Default)]
pub struct Turns {
    /// Bytes whose turn has come.
    reached: f64,
    /// Bytes that turns were taken for.
    taken: f64,
    /// In nanoseconds.
    now: u64,
}

impl Turns {
    /// It is `now`, in nanoseconds of any clock that does not go back; the bytes of turns went by at this speed since the last
    /// call. At a speed that is none all turns have come.
    pub fn run(&mut self, now: u64, bytes_per_second: f64) {
        let seconds = now.saturating_sub(self.now) as f64 / 1e9;
        self.now = self.now.max(now);
        if !is_speed(bytes_per_second) {
            return self.forget();
        }
        self.reached = (self.reached + seconds * bytes_per_second).min(self.taken);
    }

    /// The turn of `bytes` behind all that were taken.
    pub fn take(&mut self, bytes: usize) -> Turn {
        let turn = Turn(self.taken);
        self.taken += bytes as f64;
        turn
    }

    /// How long it is until the turn at this speed, at most [`TURN_MAX`].
    #[must_use]
    pub fn left(&self, turn: Turn, bytes_per_second: f64) -> Duration {
        let seconds = (turn.0 - self.reached).max(0.0) / bytes_per_second;
        match is_speed(bytes_per_second) {
            true => Duration::from_secs_f64(seconds.min(TURN_MAX.as_secs_f64())),
            false => Duration::ZERO,
        }
    }

    /// All turns have come.
    pub fn forget(&mut self) {
        self.reached = self.taken;
    }
}

fn is_speed(bytes_per_second: f64) -> bool {
    bytes_per_second.is_finite() && bytes_per_second > 0.0
}

/// 0 up to `start`, 1 from `end` on, a straight line between; 0 for what is no number.
fn ramp(value: f64, (start, end): (f64, f64)) -> f64 {
    let share = (value - start) / (end - start);
    if share.is_nan() {
        return 0.0;
    }
    share.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests;
