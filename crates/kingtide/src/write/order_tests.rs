//! Tests of the commit order with a log that only counts. Under `--cfg loom` the same scenarios run in every
//! interleaving; the log then keeps what was appended, so that a watermark ahead of its record is seen.

#[cfg(loom)]
use std::sync::Arc;

use super::*;

#[derive(Default)]
struct CountingLog {
    position: u64,
    synced: u64,
}

impl OrderedLog for CountingLog {
    type Sample = u64;

    fn position(&self) -> Lsn {
        Lsn(self.position)
    }

    fn sample(&self) -> u64 {
        self.position
    }

    fn synced(&mut self, sample: &u64) {
        self.synced = self.synced.max(*sample);
    }
}

fn order() -> CommitOrder<CountingLog> {
    CommitOrder::new(CountingLog::default(), SeqNo::ZERO)
}

/// One commit of one byte; answers its sequence number once it is acknowledged.
fn commit(order: &CommitOrder<CountingLog>, must_sync: bool) -> Result<SeqNo, LogFailure> {
    let (completion, sequence, end) = append(order, must_sync)?;
    order.wait(completion, sequence, end, |_| Ok::<(), String>(()))?;
    Ok(sequence)
}

fn append(
    order: &CommitOrder<CountingLog>,
    must_sync: bool,
) -> Result<(Completion, SeqNo, Lsn), LogFailure> {
    let mut state = order.lock();
    if let Some(failure) = state.failure() {
        return Err(failure.clone());
    }
    let sequence = state.next_sequence();
    state.log.position += 1;
    let end = state.log.position();
    Ok((
        order.complete(&mut state, sequence, end, must_sync),
        sequence,
        end,
    ))
}

#[cfg(not(loom))]
mod plain {
    use super::*;

    #[test]
    fn commits_without_sync_are_visible_at_once() {
        let order = order();
        assert_eq!(commit(&order, false), Ok(SeqNo(1)));
        assert_eq!(order.visible(), SeqNo(1));
        assert_eq!(order.durable(), Lsn(0));
    }

    #[test]
    fn a_commit_behind_a_waiting_one_waits_for_it() {
        let order = order();
        let (first, first_sequence, first_end) = append(&order, true).expect("healthy");
        let (second, second_sequence, _) = append(&order, false).expect("healthy");
        assert_eq!((first, second), (Completion::NeedsSync, Completion::Behind));
        assert_eq!(order.visible(), SeqNo::ZERO);
        order
            .wait(first, first_sequence, first_end, |_| Ok::<(), String>(()))
            .expect("synced");
        assert_eq!(order.visible(), second_sequence);
    }

    #[test]
    fn a_sync_publishes_only_what_it_covered() {
        let order = order();
        let (first, sequence, end) = append(&order, true).expect("healthy");
        let mut late = None;
        order
            .wait(first, sequence, end, |_| {
                late.get_or_insert_with(|| append(&order, true).expect("healthy"));
                Ok::<(), String>(())
            })
            .expect("synced");
        assert_eq!(order.visible(), sequence);
        let (completion, late_sequence, late_end) = late.expect("appended during the sync");
        order
            .wait(
                completion,
                late_sequence,
                late_end,
                |_| Ok::<(), String>(()),
            )
            .expect("synced");
        assert_eq!(order.visible(), late_sequence);
    }

    // Promise: 4.
    #[test]
    fn a_failed_sync_stops_the_watermark_for_ever() {
        let order = order();
        commit(&order, true).expect("synced");
        let (completion, sequence, end) = append(&order, true).expect("healthy");
        let (behind, behind_sequence, behind_end) = append(&order, false).expect("healthy");
        let failure = order
            .wait(completion, sequence, end, |_| Err("no"))
            .expect_err("the sync fails");
        assert_eq!(&*failure.0, "no");
        let unreachable =
            |_: &u64| -> Result<(), String> { unreachable!("a failed sync is final") };
        assert!(
            order
                .wait(behind, behind_sequence, behind_end, unreachable)
                .is_err()
        );
        assert!(
            order.sync_through(Lsn(1), unreachable).is_ok(),
            "durable before the failure"
        );
        assert!(order.sync_through(Lsn(2), unreachable).is_err());
        assert!(append(&order, false).is_err());
        assert_eq!(order.visible(), SeqNo(1));
    }

    /// Goal: whoever is acknowledged is visible, also when the log stops meanwhile. Method: a later append fails while
    /// the sync of an earlier commit runs, which then succeeds.
    #[test]
    fn a_commit_synced_while_a_later_append_fails_is_visible() {
        let order = order();
        let (completion, sequence, end) = append(&order, true).expect("healthy");
        let outcome = order.wait(completion, sequence, end, |_| {
            order.lock().set_failure("a later append fails");
            order.stop("a later append fails");
            Ok::<(), String>(())
        });
        assert_eq!(outcome, Ok(()), "it is durable");
        assert_eq!(order.visible(), sequence);
        assert!(append(&order, false).is_err(), "the log has stopped");
    }

    /// Goal: nothing is appended behind a record that was cut off, and the first failure is the one that is told. Method:
    /// a commit comes between the failure inside the lock and the stop outside of it.
    #[test]
    fn nothing_is_appended_between_a_failure_and_its_stop() {
        let order = order();
        order.lock().set_failure("first");
        let first = LogFailure("first".into());
        assert_eq!(append(&order, false), Err(first.clone()));
        assert_eq!(order.stop("second"), first);
        assert_eq!(commit(&order, true), Err(first));
    }
}

#[cfg(loom)]
mod loom_models {
    use std::sync::Arc;

    use super::*;

    fn model(body: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(body);
    }

    /// Goal: with commits of both kinds racing, whoever is acknowledged is visible, a synced one is durable, and the
    /// watermark never covers an unsynced `full` commit. Method: all interleavings of two writers and a reader.
    // Promise: 3, snapshot.
    #[test]
    fn loom_acknowledged_commits_are_visible_and_durable() {
        model(|| {
            let order = Arc::new(order());
            let writers: Vec<_> = [true, false]
                .into_iter()
                .map(|must_sync| {
                    let order = Arc::clone(&order);
                    loom::thread::spawn(move || {
                        let sequence = commit(&order, must_sync).expect("healthy");
                        assert!(order.visible() >= sequence);
                        if must_sync {
                            assert!(order.durable().0 >= sequence.0);
                        }
                    })
                })
                .collect();
            let visible = order.visible();
            let state = order.lock();
            assert!(state.log.position >= visible.0);
            if let Some((waiting, _)) = state.waiting.front() {
                assert!(order.visible() < *waiting);
            }
            drop(state);
            for writer in writers {
                writer.join().expect("no panic");
            }
            assert_eq!(order.visible(), SeqNo(2));
        });
    }

    /// Goal: group commit wakes every waiter. Method: all interleavings of two `full` commits and a `sync_wal`.
    #[test]
    fn loom_group_commit_loses_no_waiter() {
        model(|| {
            let order = Arc::new(order());
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let order = Arc::clone(&order);
                    loom::thread::spawn(move || commit(&order, true).expect("healthy"))
                })
                .collect();
            let position = order.lock().log.position();
            order
                .sync_through(position, |_| Ok::<(), String>(()))
                .expect("healthy");
            for writer in writers {
                writer.join().expect("no panic");
            }
            assert_eq!(order.visible(), SeqNo(2));
            assert_eq!(order.durable(), Lsn(2));
        });
    }

    /// Goal: a commit that another thread's sync made durable is visible when it is acknowledged. Method: all interleavings
    /// of two `full` commits, one of which may find its record covered by the other's sync.
    // Promise: 3, snapshot.
    #[test]
    fn loom_what_is_durable_is_visible_before_it_is_acknowledged() {
        model(|| {
            let order = Arc::new(order());
            let commit_and_look = |order: &CommitOrder<CountingLog>| {
                let sequence = commit(order, true).expect("healthy");
                assert!(order.visible() >= sequence);
            };
            let other = Arc::clone(&order);
            let writer = loom::thread::spawn(move || commit_and_look(&other));
            commit_and_look(&order);
            writer.join().expect("no panic");
        });
    }

    /// Goal: after a failed sync nobody hangs and nothing unsynced becomes visible. Method: as above, syncs fail.
    // Promise: 4.
    #[test]
    fn loom_a_failed_sync_reaches_every_waiter() {
        model(|| {
            let order = Arc::new(order());
            let writers: Vec<_> = [true, false]
                .into_iter()
                .map(|must_sync| {
                    let order = Arc::clone(&order);
                    loom::thread::spawn(move || {
                        let Ok((completion, sequence, end)) = append(&order, must_sync) else {
                            return;
                        };
                        let outcome = order.wait(completion, sequence, end, |_| Err("no"));
                        assert_eq!(outcome.is_ok(), order.visible() >= sequence);
                    })
                })
                .collect();
            for writer in writers {
                writer.join().expect("no panic");
            }
            assert!(order.visible() <= SeqNo(1));
        });
    }
    /// Goal: a synced commit is acknowledged and visible, or neither, while an append fails beside it. Method: all
    /// interleavings of a `full` commit and the stop of the log.
    #[test]
    fn loom_a_stop_beside_a_sync_leaves_no_acknowledged_commit_invisible() {
        model(|| {
            let order = Arc::new(order());
            let writer = {
                let order = Arc::clone(&order);
                loom::thread::spawn(move || {
                    let Ok((completion, sequence, end)) = append(&order, true) else {
                        return;
                    };
                    let outcome = order.wait(completion, sequence, end, |_| Ok::<(), String>(()));
                    assert!(outcome.is_err() || order.visible() >= sequence);
                })
            };
            order.lock().set_failure("an append fails");
            order.stop("an append fails");
            writer.join().expect("no panic");
        });
    }
}
