//! Group commit: who of the threads that need a sync does it, and who waits for whom.
//!
//! Threads join a *round*; each round is one sync. Whoever finds nobody leading leads the round: it syncs for all who
//! joined, and threads that come meanwhile join the next one. When a sync ends, exactly those who were in it are woken, and
//! one of the next round, which sees to it that somebody leads that.
//!
//! **Gathering.** A sync costs the same for one commit as for eight, and the threads that were just released will often
//! commit again at once. So a round waits until as many have joined as were in the round before or waiting behind it; the
//! one who completes the number leads, without a switch of threads. The wait ends after the time that a sync takes, so that
//! at worst a commit takes twice as long as it had to, and after a wait that was in vain the next rounds do not gather:
//! two of them, then four, up to 64. (The idea of committing as a group, and of waiting for it: DeWitt et al.,
//! "Implementation Techniques for Main Memory Database Systems", SIGMOD 1984.)
//!
//! Invariant: when threads have joined the coming round and nobody leads, at least one of them is awake, or on its way,
//! or waits with a time limit. Whoever leaves without leading passes that on.
//!
//! What it does not do: it knows nothing of the log, and durability is judged by its user.

use std::time::Duration;

use kingtide_base::Lsn;
use kingtide_env::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use super::order::LogFailure;

/// The longest wait for others, however slow the device is.
const PATIENCE_MAX_NANOS: u64 = 500_000;
/// Waits in vain are told apart up to this many in a row.
const MISSES_MAX: u32 = 6;
/// A new duration of a sync counts for one part in so many of the average.
const DURATION_PARTS: u64 = 8;

/// See the module.
#[derive(Default)]
pub(super) struct SyncGroup {
    state: Mutex<State>,
    /// Where threads of even and odd rounds wait.
    rounds: [Condvar; 2],
    /// Where commits wait that need no sync themselves, but stand behind one that does.
    passed: Condvar,
    /// What the running sync covers for sure. Written by the leader, read under the lock; a stale value makes a thread
    /// wait for one sync more than it needs.
    covered: AtomicU64,
    /// The usual duration of a sync in nanoseconds; 0 until one was told, and then nobody waits for others.
    patience: AtomicU64,
}

#[derive(Default)]
struct State {
    has_leader: bool,
    failure: Option<LogFailure>,
    /// The round that threads join now.
    round: u64,
    /// Threads that joined it and have not left.
    joined: usize,
    /// Threads of the round that is being synced.
    flying: usize,
    /// How many the coming round waits for; 0 and 1 for nobody.
    expected: usize,
    /// Waits in vain since the last good one.
    misses: u32,
    /// Rounds to come that do not gather.
    skips: u32,
    behind: usize,
}

impl State {
    /// The caller leads the coming round from now on.
    fn elect(&mut self, is_late: bool) {
        if is_late {
            self.misses = (self.misses + 1).min(MISSES_MAX);
            self.skips = 1 << self.misses;
        } else if self.expected > 1 {
            self.misses = 0;
        }
        self.has_leader = true;
        self.flying = self.joined;
        self.joined = 0;
        self.round += 1;
    }
}

impl SyncGroup {
    /// Waits until `is_durable` says so of `target` (then false), or until it is for the caller to sync (then true); it
    /// must call [`SyncGroup::finish`] afterwards.
    ///
    /// # Errors
    /// The failure that stopped the log.
    pub(super) fn join(
        &self,
        target: Lsn,
        is_durable: impl Fn() -> bool,
    ) -> Result<bool, LogFailure> {
        let mut state = self.state.lock();
        // The round that this thread is counted in.
        let mut joined = None;
        let mut is_late = false;
        loop {
            if is_durable() {
                self.leave(state, joined);
                return Ok(false);
            }
            if let Some(failure) = state.failure.clone() {
                self.leave(state, joined);
                return Err(failure);
            }
            if joined != Some(state.round) {
                // Relaxed: see `covered`.
                let is_flying =
                    joined.is_some() || target.0 <= self.covered.load(Ordering::Relaxed);
                if state.has_leader && is_flying {
                    let flying = state.round.wrapping_sub(1);
                    state = self.waiters(flying).wait(state);
                    continue;
                }
                joined = Some(state.round);
                state.joined += 1;
            }
            let coming = self.waiters(state.round);
            if state.has_leader {
                state = coming.wait(state);
                continue;
            }
            // Relaxed: a duration, which publishes nothing.
            let patience = self.patience.load(Ordering::Relaxed);
            if is_late || patience == 0 || state.joined >= state.expected {
                state.elect(is_late);
                return Ok(true);
            }
            let (guard, timed_out) = coming.wait_timeout(state, Duration::from_nanos(patience));
            state = guard;
            is_late |= timed_out;
        }
    }

    /// The running sync covers the log up to `position`, if it succeeds.
    pub(super) fn note_covered(&self, position: Lsn) {
        // Relaxed: see `covered`.
        self.covered.store(position.0, Ordering::Relaxed);
    }

    /// The sync of the caller has ended, and what it made durable is published; everybody whom that concerns is woken.
    pub(super) fn finish(&self, failure: Option<LogFailure>) {
        let mut state = self.state.lock();
        let flying = state.round.wrapping_sub(1);
        state.has_leader = false;
        state.expected = if state.skips > 0 {
            state.skips -= 1;
            0
        } else {
            state.flying + state.joined
        };
        state.flying = 0;
        if state.failure.is_none() {
            state.failure = failure;
        }
        let has_failed = state.failure.is_some();
        let (joined, behind) = (state.joined, state.behind);
        drop(state);
        self.waiters(flying).notify_all();
        if has_failed {
            self.waiters(flying.wrapping_add(1)).notify_all();
        } else if joined > 0 {
            self.waiters(flying.wrapping_add(1)).notify_one();
        }
        if behind > 0 {
            self.passed.notify_all();
        }
    }

    /// Waits until `is_visible` says so, for a commit that others bring about.
    ///
    /// # Errors
    /// The failure that stopped the log.
    pub(super) fn wait_behind(&self, is_visible: impl Fn() -> bool) -> Result<(), LogFailure> {
        let mut state = self.state.lock();
        state.behind += 1;
        let outcome = loop {
            if is_visible() {
                break Ok(());
            }
            if let Some(failure) = &state.failure {
                break Err(failure.clone());
            }
            state = self.passed.wait(state);
        };
        state.behind -= 1;
        outcome
    }

    /// Tells everybody that the log has stopped.
    pub(super) fn stop(&self, failure: &LogFailure) {
        let mut state = self.state.lock();
        if state.failure.is_none() {
            state.failure = Some(failure.clone());
        }
        drop(state);
        for waiters in &self.rounds {
            waiters.notify_all();
        }
        self.passed.notify_all();
    }

    /// A sync took `nanos`: for about as long, others are waited for.
    pub(super) fn note_duration(&self, nanos: u64) {
        // Relaxed: only the leader writes it, and it publishes nothing.
        let before = self.patience.load(Ordering::Relaxed);
        let nanos = nanos.min(PATIENCE_MAX_NANOS);
        let average = if before == 0 {
            nanos
        } else {
            (before * (DURATION_PARTS - 1) + nanos) / DURATION_PARTS
        };
        self.patience.store(average, Ordering::Relaxed);
    }

    /// Ends the wait of a thread that does not lead.
    fn leave(&self, mut state: MutexGuard<'_, State>, joined: Option<u64>) {
        let round = state.round;
        if joined != Some(round) {
            return;
        }
        state.joined -= 1;
        let passes_on = state.joined > 0 && !state.has_leader;
        drop(state);
        if passes_on {
            self.waiters(round).notify_one();
        }
    }

    fn waiters(&self, round: u64) -> &Condvar {
        &self.rounds[(round & 1) as usize]
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
