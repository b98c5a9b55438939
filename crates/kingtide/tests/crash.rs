//! A fixed history cut at some of its I/Os. `proof crash-every-io` cuts at all of them.

use kingtide_testkit::{runner, script};

const CUTS: u64 = 40;

// Promise: 1, 2, 7.
#[test]
fn the_history_recovers_from_cuts_at_any_call() {
    let calls = script::count_calls().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(calls > CUTS, "the history is too short to show anything");
    let stuck = |numbers: &[u64]| panic!("stuck in cuts {numbers:?}");
    let check = |number: u64| script::check_cut(number * calls / CUTS, 13);
    let report = runner::run(CUTS + 1, 2, &check, &mut |_| {}, &stuck);
    let tally = report
        .into_checked()
        .unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(tally.images, (CUTS + 1) * 4);
}
