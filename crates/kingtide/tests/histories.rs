//! Random histories against the model, at a length that fits between two edits. `proof model` runs them at full length.

use kingtide_testkit::{history, runner};

// Promise: 1, 2, expiry.
#[test]
fn random_histories_agree_with_the_model() {
    let stuck = |numbers: &[u64]| panic!("stuck in seeds {numbers:?}");
    let report = runner::run(
        24,
        2,
        &|seed| history::run(1000 + seed, 500),
        &mut |_| {},
        &stuck,
    );
    let tally = report
        .into_checked()
        .unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(tally.seeds, 24);
    assert!(
        tally.power_cuts > 0 && tally.kills > 0 && tally.reopens > 0,
        "{tally}"
    );
}
