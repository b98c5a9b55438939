//! What wakes the thread that keeps the log: it prepares windows and blanks ahead of need and makes the syncs of intervals.

use std::time::Duration;

use kingtide_env::{
    Env,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Wakes the log's keeper: when the tail needs a window or a blank, and when an interval sync comes due.
#[derive(Default)]
pub(crate) struct KeeperSignal {
    state: Mutex<KeeperState>,
    woken: Condvar,
    /// Set while a nudge is waiting, so that writers nudge once.
    pub(super) is_nudged: AtomicBool,
    /// Set while the keeper sleeps for long because the log is quiet; the next commit wakes it.
    is_idle: AtomicBool,
    /// The shortest interval that was asked for since a sync is due, in nanoseconds; 0 when none is. Set together with
    /// [`KeeperState::sync_due`], to be looked at in passing.
    shortest: AtomicU64,
}

#[derive(Default)]
struct KeeperState {
    is_stopped: bool,
    /// When the next interval sync is due, in monotonic nanoseconds.
    sync_due: Option<u64>,
}

/// What ended a wait of the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Somebody, or nobody: a wait may end without reason.
    Nudge,
    /// The whole time has passed.
    TimeOut,
    /// The end of the keeper.
    Stopped,
}

impl KeeperSignal {
    /// Wakes the keeper.
    pub(crate) fn nudge(&self) {
        // AcqRel, here and where the keeper clears the flag: either it sees what was done before this, or this call finds the
        // flag cleared. A mere load could be older than both.
        if !self.is_nudged.swap(true, Ordering::AcqRel) {
            let _state = self.state.lock();
            self.woken.notify_all();
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        // Relaxed: a nudge too many or a period too late changes when a mark is written, nothing else.
        self.is_idle.load(Ordering::Relaxed)
    }

    /// The keeper is about to sleep until it is nudged, or is awake again.
    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// A commit was made that must be durable within `interval`.
    pub(super) fn sync_within(&self, interval: Duration, env: &dyn Env) {
        let interval = u64::try_from(interval.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        // Who asked for as short an interval, or a shorter one, did so before, and its sync comes sooner. Relaxed: if the keeper has
        // cleared it meanwhile, it has not looked yet how far the log goes, since it does so under the commit lock.
        let is_soon_enough = || (1..=interval).contains(&self.shortest.load(Ordering::Relaxed));
        if is_soon_enough() {
            return;
        }
        let mut state = self.state.lock();
        if is_soon_enough() {
            return;
        }
        let due = env.monotonic_nanos().saturating_add(interval);
        state.sync_due = Some(state.sync_due.map_or(due, |before| before.min(due)));
        self.shortest.store(interval, Ordering::Relaxed);
        drop(state);
        self.nudge();
    }

    /// When the next interval sync is due; clears nothing.
    pub(crate) fn sync_due(&self) -> Option<u64> {
        self.state.lock().sync_due
    }

    /// The keeper is about to sync; commits from now on set a new time.
    pub(crate) fn clear_sync_due(&self) {
        let mut state = self.state.lock();
        state.sync_due = None;
        self.shortest.store(0, Ordering::Relaxed);
    }

    /// Waits for a nudge, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Wake {
        let mut state = self.state.lock();
        let mut is_over = false;
        // AcqRel: what writers did before their nudge is seen by the keeper's next look.
        let mut is_nudged = self.is_nudged.swap(false, Ordering::AcqRel);
        if !state.is_stopped && !is_nudged {
            (state, is_over) = self.woken.wait_timeout(state, timeout);
            is_nudged = self.is_nudged.swap(false, Ordering::AcqRel);
        }
        match state.is_stopped {
            true => Wake::Stopped,
            false if is_over && !is_nudged => Wake::TimeOut,
            false => Wake::Nudge,
        }
    }

    /// Ends the keeper.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.woken.notify_all();
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use kingtide_env::MemoryEnv;

    use super::*;

    /// Goal: a nudge before the keeper waits is not lost, the earliest due time counts, and a stop ends the keeper.
    #[test]
    fn the_keeper_is_woken_and_stopped() {
        let env = MemoryEnv::new(4);
        let signal = KeeperSignal::default();
        let for_ever = Duration::from_secs(3600);
        signal.nudge();
        signal.nudge();
        assert_eq!(signal.wait(for_ever), Wake::Nudge, "the nudge was lost");
        let after = signal.wait(Duration::ZERO);
        assert_eq!(after, Wake::TimeOut, "one nudge wakes once");
        assert_eq!(signal.sync_due(), None);
        signal.sync_within(Duration::from_secs(5), &env);
        let due = signal.sync_due().expect("a sync is due");
        assert_eq!(
            signal.wait(for_ever),
            Wake::Nudge,
            "the keeper must hear of it"
        );
        signal.sync_within(Duration::from_secs(9), &env);
        assert_eq!(signal.sync_due(), Some(due), "there is one sooner");
        signal.sync_within(Duration::from_secs(1), &env);
        let sooner = signal.sync_due().expect("a sync is due");
        assert!(
            sooner < due,
            "a shorter interval does not wait for a longer one"
        );
        assert_eq!(
            signal.wait(for_ever),
            Wake::Nudge,
            "the keeper must hear of it"
        );
        env.advance(Duration::from_millis(800));
        signal.sync_within(Duration::from_millis(900), &env);
        assert_eq!(
            signal.sync_due(),
            Some(sooner),
            "it stays as soon as it was"
        );
        signal.clear_sync_due();
        assert_eq!(signal.sync_due(), None);
        signal.sync_within(Duration::from_secs(5), &env);
        assert!(signal.sync_due().is_some());
        signal.stop();
        assert_eq!(signal.wait(for_ever), Wake::Stopped);
    }
}
