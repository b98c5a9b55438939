//! A model of the signal that wakes the log's keeper, run by loom in every interleaving with up to three preemptions. Loom
//! has no time, so a wake that is lost is a deadlock here.

use std::{sync::Arc, time::Duration};

use super::keeper::{KeeperSignal, Wake};

/// Goal: a stop ends the keeper, whatever it is doing, also beside a nudge. Method: both beside a keeper that waits until it is
/// told to stop.
#[test]
fn loom_a_stop_ends_the_keeper() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let signal = Arc::new(KeeperSignal::default());
        let keeper = {
            let signal = Arc::clone(&signal);
            loom::thread::spawn(
                move || while signal.wait(Duration::from_secs(1)) != Wake::Stopped {},
            )
        };
        signal.nudge();
        signal.stop();
        keeper.join().expect("no panic");
    });
}
