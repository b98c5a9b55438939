//! Memory that was freed goes back to the system when the process occupies more than the budget.
//!
//! Allocators keep freed memory in pieces for each thread. Under a load whose blocks come from one thread and are freed by
//! another, that can be as much as is in use. So when the process is larger than the budget allows, the allocator is asked
//! to give back what it keeps; when that brings little, because the program around holds the memory itself, it is asked
//! less and less often.

use kingtide_env::Env;

use crate::write::Pipeline;

/// The first pause between two looks, and the longest.
const PAUSE_NANOS: (u64, u64) = (250_000_000, 60_000_000_000);
/// Giving back less than this part of the budget was not worth it.
const WORTH_DIVISOR: u64 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Trim {
    /// Not before this moment, in monotonic nanoseconds.
    next: u64,
    pause: u64,
}

impl Trim {
    /// Looks whether the process is too large, and does something about it.
    pub(super) fn look(&mut self, pipeline: &Pipeline, env: &dyn Env) {
        let now = env.monotonic_nanos();
        if now < self.next {
            return;
        }
        self.pause = self.pause.max(PAUSE_NANOS.0);
        self.next = now.saturating_add(self.pause);
        let limit = pipeline.memory.plan.limit_bytes as u64;
        let Some(before) = env.resident_bytes() else {
            return;
        };
        if before <= limit {
            return;
        }
        env.release_free_memory();
        let after = env.resident_bytes().unwrap_or(before);
        self.pause = match before.saturating_sub(after) < limit / WORTH_DIVISOR {
            true => (self.pause * 2).min(PAUSE_NANOS.1),
            false => PAUSE_NANOS.0,
        };
    }
}
