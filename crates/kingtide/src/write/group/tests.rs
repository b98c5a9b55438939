use std::sync::{Arc, atomic::AtomicBool, atomic::AtomicUsize};

use super::*;

/// A log that is only a number, and how often it was synced.
#[derive(Default)]
struct Log {
    group: SyncGroup,
    end: AtomicU64,
    durable: AtomicU64,
    syncs: AtomicUsize,
    is_syncing: AtomicBool,
}

impl Log {
    fn commit(&self) -> Result<(), LogFailure> {
        let target = Lsn(self.end.fetch_add(1, Ordering::SeqCst) + 1);
        self.sync_through(target)
    }

    fn sync_through(&self, target: Lsn) -> Result<(), LogFailure> {
        let is_durable = || self.durable.load(Ordering::SeqCst) >= target.0;
        while self.group.join(target, is_durable)? {
            assert!(!self.is_syncing.swap(true, Ordering::SeqCst), "two leaders");
            let position = self.end.load(Ordering::SeqCst);
            self.group.note_covered(Lsn(position));
            std::thread::yield_now();
            self.syncs.fetch_add(1, Ordering::SeqCst);
            self.durable.fetch_max(position, Ordering::SeqCst);
            assert!(self.is_syncing.swap(false, Ordering::SeqCst));
            self.group.finish(None);
        }
        Ok(())
    }
}

/// Goal: nobody is left waiting and nobody returns too early, whether rounds gather or not. Method: threads that commit
/// in a closed loop, some of them now and then for nothing; a lost wake-up hangs the test.
#[test]
fn every_commit_of_many_threads_is_synced() {
    for (threads, patience) in [(1, 0), (2, 0), (8, 0), (2, 50_000), (8, 200_000)] {
        let log = Arc::new(Log::default());
        if patience > 0 {
            log.group.note_duration(patience);
        }
        let handles: Vec<_> = (0..threads)
            .map(|number| {
                let log = Arc::clone(&log);
                std::thread::spawn(move || {
                    for turn in 0..300_u64 {
                        log.commit().expect("no sync fails");
                        if (turn + number).is_multiple_of(7) {
                            log.sync_through(Lsn(turn)).expect("no sync fails");
                        }
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().expect("no panic");
        }
        assert_eq!(log.durable.load(Ordering::SeqCst), threads * 300);
        let syncs = log.syncs.load(Ordering::SeqCst) as u64;
        assert!(syncs <= threads * 300);
        let state = log.group.state.lock();
        assert_eq!((state.joined, state.has_leader), (0, false));
    }
}

/// Goal: a round waits for as many as were there, gives up after a wait in vain, and asks again later.
#[test]
fn waits_in_vain_become_rare() {
    let group = SyncGroup::default();
    let alone = |group: &SyncGroup| {
        assert_eq!(group.join(Lsn(1), || false), Ok(true));
        group.finish(None);
    };
    group.note_duration(1000);
    let numbers = |group: &SyncGroup| {
        let state = group.state.lock();
        (state.expected, state.misses, state.skips)
    };
    alone(&group);
    assert_eq!(numbers(&group), (1, 0, 0));
    // Somebody else was there in the last round.
    group.state.lock().expected = 2;
    alone(&group);
    assert_eq!(numbers(&group), (0, 1, 1), "the next does not gather");
    alone(&group);
    alone(&group);
    assert_eq!(numbers(&group), (1, 1, 0));
    for misses in 2..10 {
        {
            let mut state = group.state.lock();
            (state.skips, state.expected) = (0, 2);
        }
        alone(&group);
        assert_eq!(numbers(&group).1, misses.min(MISSES_MAX));
    }
    {
        let mut state = group.state.lock();
        (state.skips, state.expected, state.joined) = (0, 2, 1);
    }
    // The second to come completes the number and leads at once.
    alone(&group);
    assert_eq!(numbers(&group).1, 0);
}

/// Goal: a failure reaches whoever waits in the running round, in the coming one, or behind.
#[test]
fn a_failed_round_is_told_to_all() {
    let log = Arc::new(Log::default());
    assert_eq!(log.group.join(Lsn(1), || false), Ok(true));
    let waiting: Vec<_> = [Some(1), Some(2), None]
        .into_iter()
        .map(|target| {
            let log = Arc::clone(&log);
            log.group.note_covered(Lsn(1));
            std::thread::spawn(move || match target {
                Some(target) => log.group.join(Lsn(target), || false).map(drop),
                None => log.group.wait_behind(|| false),
            })
        })
        .collect();
    let failure = LogFailure("no".into());
    log.group.finish(Some(failure.clone()));
    for thread in waiting {
        assert_eq!(thread.join().expect("no panic"), Err(failure.clone()));
    }
}

/// Goal: others are waited for about as long as a sync takes, and one odd sync changes that little.
#[test]
fn patience_follows_the_syncs() {
    let group = SyncGroup::default();
    let patience = || group.patience.load(Ordering::Relaxed);
    group.note_duration(8_000);
    assert_eq!(patience(), 8_000);
    group.note_duration(16_000);
    assert_eq!(patience(), 9_000);
    group.note_duration(u64::MAX);
    assert_eq!(patience(), (9_000 * 7 + PATIENCE_MAX_NANOS) / 8);
}
