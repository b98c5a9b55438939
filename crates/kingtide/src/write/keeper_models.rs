//! Models of the signal that wakes the log's keeper, run by loom in every interleaving with up to three preemptions. Loom
//! has no time, so a wake that is lost is a deadlock here.

use std::{sync::Arc, time::Duration};

use kingtide_env::sync::atomic::{AtomicU64, Ordering};

use super::pipeline::KeeperSignal;

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// Goal: the keeper sees the work of whoever nudged it. Method: two writers leave work and nudge; the keeper looks and waits by
/// turns until it has seen both.
#[test]
fn loom_a_nudge_reaches_the_keeper() {
    model(|| {
        let signal = Arc::new(KeeperSignal::default());
        let work = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let (signal, work) = (Arc::clone(&signal), Arc::clone(&work));
                loom::thread::spawn(move || {
                    // Relaxed: the nudge publishes it.
                    work.fetch_add(1, Ordering::Relaxed);
                    signal.nudge();
                })
            })
            .collect();
        // Relaxed: the wait observes what was done before the nudge.
        while work.load(Ordering::Relaxed) < 2 {
            assert!(signal.wait(Duration::from_secs(1)));
        }
        for writer in writers {
            writer.join().expect("no panic");
        }
    });
}

/// Goal: a stop ends the keeper, whatever it is doing, also beside a nudge. Method: both beside a keeper that waits until it is
/// told to stop.
#[test]
fn loom_a_stop_ends_the_keeper() {
    model(|| {
        let signal = Arc::new(KeeperSignal::default());
        let keeper = {
            let signal = Arc::clone(&signal);
            loom::thread::spawn(move || while signal.wait(Duration::from_secs(1)) {})
        };
        signal.nudge();
        signal.stop();
        keeper.join().expect("no panic");
    });
}
