//! Memory that was freed goes back to the system when the process occupies much more than the database uses.
//!
//! Allocators keep freed memory in pieces for each thread. Under a load whose blocks come from one thread and are freed by
//! another, that can be as much as is in use, or more. So when the process is larger than the budget allows, or has grown by
//! more than what the budget counts, the allocator is asked to give back what it keeps. What is left then belongs to the
//! program around, and is not asked for again. When that brings little, because the program itself grows, the allocator is
//! asked less and less often.

use kingtide_env::Env;

use crate::write::Pipeline;

/// The first pause between two looks, and the longest.
const PAUSE_NANOS: (u64, u64) = (250_000_000, 60_000_000_000);
/// What the allocator may keep.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Giving back less than this part of the budget was not worth it, nor less than this part of what may be kept.
const WORTH_DIVISORS: (u64, u64) = (64, 8);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Trim {
    /// Not before this moment, in monotonic nanoseconds.
    next: u64,
    pause: u64,
    /// Bytes that the process occupies, that are not in use by the database, and that the allocator does not give back.
    others: u64,
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
        let used = || pipeline.memory.budget.used() as u64;
        let Some(before) = env.resident_bytes() else {
            return;
        };
        if !self.is_too_large(before, used(), limit) {
            return;
        }
        env.release_free_memory();
        let after = env.resident_bytes().unwrap_or(before);
        self.others = after.saturating_sub(used());
        let (of_limit, of_kept) = WORTH_DIVISORS;
        let worth = (limit / of_limit).min(KEPT_BYTES_MAX / of_kept);
        self.pause = match before.saturating_sub(after) < worth {
            true => (self.pause * 2).min(PAUSE_NANOS.1),
            false => PAUSE_NANOS.0,
        };
    }

    /// Whether a process of `resident` bytes, of which the database uses `used` and may use `limit`, is too large.
    fn is_too_large(&mut self, resident: u64, used: u64, limit: u64) -> bool {
        let unused = resident.saturating_sub(used);
        self.others = self.others.min(unused);
        resident > limit || unused - self.others > KEPT_BYTES_MAX
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Goal: a process is too large above the limit, and where more lies unused than may, what others hold not counted.
    /// Method: numbers around the bounds.
    #[test]
    fn what_others_hold_is_not_asked_for_again() {
        let mut trim = Trim::default();
        let limit = 1000 * MIB;
        assert!(trim.is_too_large(limit + 1, limit, limit));
        assert!(!trim.is_too_large(164 * MIB, 100 * MIB, limit));
        assert!(trim.is_too_large(165 * MIB, 100 * MIB, limit));
        // 30 were left when everything free was given back.
        trim.others = 30 * MIB;
        assert!(!trim.is_too_large(194 * MIB, 100 * MIB, limit));
        assert!(trim.is_too_large(195 * MIB, 100 * MIB, limit));
        // The program gave 20 of them back: they do not count for the allocator later.
        assert!(!trim.is_too_large(110 * MIB, 100 * MIB, limit));
        assert!(trim.is_too_large(175 * MIB, 100 * MIB, limit));
        // What the database uses and has not touched yet is not a debt.
        assert!(!trim.is_too_large(90 * MIB, 100 * MIB, limit));
    }
}
