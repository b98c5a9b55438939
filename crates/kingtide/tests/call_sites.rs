//! Some of the lines that call into the world, failed. `proof fail-nth` fails every one of them.

use kingtide_testkit::call_sites::{self, Sites};

// Promise: 8.
#[test]
fn what_calls_into_the_world_may_fail() {
    let sites = Sites::find().unwrap_or_else(|violation| panic!("{violation}"));
    let (listed, reached) = sites.count();
    assert!(reached > 80 && listed > reached, "{reached} of {listed}");
    let targets = sites.targets(0);
    for (number, target) in targets.iter().enumerate().step_by(37) {
        let outcome = call_sites::check(&sites, target, number as u64);
        let tally = outcome.unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(tally.runs, 1);
    }
}
