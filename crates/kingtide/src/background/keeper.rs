//! The log's keeper: one thread that keeps the tail supplied, so that writers never wait for the file system.
//!
//! It is nudged when the tail comes near the end of its window or segment, and when an interval sync falls due; when
//! the log has been quiet for a while it leaves a durable mark in it and gives back spare segments; when the quiet lasts,
//! it sees to it that deleted keys give their room back and that the log is as short as it can be. Busy or not, it looks for
//! tombstones that got too old now and then.

use std::{sync::Weak, time::Duration};

use kingtide_base::Lsn;
use kingtide_env::Env;

use super::{scheduler::Background, trim::Trim};
use crate::{
    engine::Engine,
    write::{Pipeline, Wake},
};

/// How long the log must be quiet before it counts as idle.
const QUIET: Duration = Duration::from_millis(100);
/// How often an idle keeper looks around.
const IDLE_PERIOD: Duration = Duration::from_secs(5);
/// How long the log must be idle before the database rests.
const IDLE_NANOS: u64 = IDLE_PERIOD.as_nanos() as u64;
/// How often the keeper looks for tombstones that got too old.
const AGE_LOOK_NANOS: u64 = IDLE_NANOS;
/// Log bytes, as a multiple of a family's write buffer, at which the family that holds the log back is flushed.
const LOG_BUFFERS_MAX: u64 = 4;
/// Log bytes that are always allowed.
const LOG_BYTES_ALLOWED: u64 = 256 << 20;

/// Runs until the signal is stopped.
pub(super) fn run(
    pipeline: &Pipeline,
    env: &dyn Env,
    (engine, background): (&Weak<Engine>, &Background),
) {
    let mut watch = Quiet::default();
    let mut waited = false;
    let mut idle_since = 0;
    let mut trim = Trim::default();
    let mut ages_looked = env.monotonic_nanos();
    loop {
        supply(pipeline);
        trim.look(pipeline, env);
        if let Some(due) = pipeline.keeper.sync_due()
            && env.monotonic_nanos() >= due
        {
            pipeline.keeper.clear_sync_due();
            // A failure stops the log; the next write reports it.
            let _ = pipeline.sync_log();
        }
        let position = || pipeline.order.lock().log.tail.position();
        match watch.look(position(), waited) {
            Log::Moved => relieve(engine),
            Log::Still => {}
            Log::FellQuiet => {
                idle_since = env.monotonic_nanos();
                settle(pipeline, engine);
                // The mark itself moves the tail.
                watch.seen = position();
            }
            Log::Quiet => {
                // The sync of the last commit may have ended after the log fell quiet.
                pipeline.write_mark();
                watch.seen = position();
                if env.monotonic_nanos().saturating_sub(idle_since) >= IDLE_NANOS {
                    rest(engine, background);
                }
            }
        }
        if env.monotonic_nanos().saturating_sub(ages_looked) >= AGE_LOOK_NANOS {
            ages_looked = env.monotonic_nanos();
            if let Some(engine) = engine.upgrade() {
                background.schedule_overdue(&engine);
            }
        }
        pipeline.keeper.set_idle(watch.is_quiet);
        let timeout = match pipeline.keeper.sync_due() {
            Some(due) => Duration::from_nanos(due.saturating_sub(env.monotonic_nanos())).min(QUIET),
            None if watch.is_quiet => IDLE_PERIOD,
            None => QUIET,
        };
        match pipeline.keeper.wait(timeout) {
            Wake::Stopped => return,
            wake => waited = wake == Wake::TimeOut && timeout >= QUIET,
        }
    }
}

/// What the log has done between two looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log {
    /// Something was appended.
    Moved,
    /// Nothing was, for less than [`QUIET`] or nobody knows how long.
    Still,
    /// Nothing was for [`QUIET`], for the first time since it moved.
    FellQuiet,
    /// Nothing was since it fell quiet.
    Quiet,
}

/// Tells whether the log is quiet.
#[derive(Debug, Default)]
struct Quiet {
    seen: Lsn,
    is_quiet: bool,
}

impl Quiet {
    /// Looks at the log, which ends at `position`. `waited` says that [`QUIET`] has passed since the last look. Between two
    /// nudges of busy writers it has not, even where they have appended nothing meanwhile.
    fn look(&mut self, position: Lsn, waited: bool) -> Log {
        if position != self.seen {
            self.seen = position;
            self.is_quiet = false;
            return Log::Moved;
        }
        match (self.is_quiet, waited) {
            (true, _) => Log::Quiet,
            (false, false) => Log::Still,
            (false, true) => {
                self.is_quiet = true;
                Log::FellQuiet
            }
        }
    }
}

/// Looks how much room is left, and prepares windows and a blank.
fn supply(pipeline: &Pipeline) {
    pipeline.disk.look();
    loop {
        let (claimed, outgrown) = {
            let tail = &mut pipeline.order.lock().log.tail;
            (tail.claim_window(), tail.take_outgrown())
        };
        if let Some(segment) = outgrown {
            segment.release_windows();
        }
        match claimed {
            Some((segment, offset)) => segment.prepare_window(offset),
            None => break,
        }
    }
    // When space is short, the commit that needs it reports it.
    let _ = pipeline.prepare_blank();
}

/// The log is quiet: leave a witness of what is durable, give back what an idle log does not need.
fn settle(pipeline: &Pipeline, engine: &Weak<Engine>) {
    pipeline.write_mark();
    let spare = pipeline.order.lock().log.tail.shrink();
    if let Some(engine) = engine.upgrade() {
        engine.remove_segments(spare);
        // Readers may have let go of dead tables; what fails is tried again later.
        let _ = engine.sweep_files();
        engine.release_memory();
    }
}

/// The log has been idle for long: deleted keys give their room back, and the log's room is given back once everything is
/// in tables. What fails is tried again later.
fn rest(engine: &Weak<Engine>, background: &Background) {
    if let Some(engine) = engine.upgrade() {
        background.schedule_settling(&engine);
        let _ = engine.shrink_log();
    }
}

/// Flushes the family that holds the log back, when the log has grown long.
fn relieve(engine: &Weak<Engine>) {
    let Some(engine) = engine.upgrade() else {
        return;
    };
    let bytes = engine.pipeline.order.lock().log.tail.retained_bytes();
    if bytes < LOG_BYTES_ALLOWED {
        return;
    }
    let Some(holder) = engine.log_needed(None).holder else {
        // No memtable does. What fails is tried again as the log grows.
        let _ = engine.advance_log();
        return;
    };
    let buffer_bytes = holder.options().write_buffer_bytes as u64;
    let current = holder.load_full();
    if bytes >= buffer_bytes.saturating_mul(LOG_BUFFERS_MAX) && current.sealed.is_empty() {
        engine.pipeline.try_rotate(&holder, &current.active);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: the log is quiet only after a wait as long as that, not between two nudges of busy writers; and it is told once.
    #[test]
    fn the_log_is_quiet_after_a_wait_alone() {
        let mut watch = Quiet::default();
        assert_eq!(watch.look(Lsn(8), true), Log::Moved);
        assert_eq!(watch.look(Lsn(8), false), Log::Still, "only nudged");
        assert!(!watch.is_quiet);
        assert_eq!(watch.look(Lsn(8), true), Log::FellQuiet);
        assert_eq!(watch.look(Lsn(8), false), Log::Quiet);
        assert_eq!(watch.look(Lsn(8), true), Log::Quiet);
        assert!(watch.is_quiet);
        assert_eq!(watch.look(Lsn(9), false), Log::Moved);
        assert!(!watch.is_quiet);
        assert_eq!(watch.look(Lsn(9), true), Log::FellQuiet);
    }
}
