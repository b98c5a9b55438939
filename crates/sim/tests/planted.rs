//! A planted bug is found, made small, and found again. In a process of its own: bugs are planted for all threads.
#![cfg(simulated)]

use kingtide_base::planted::{Bug, plant};
use kingtide_sim::{
    clients::Cuts,
    plan::{Plan, Scenario},
    reduce::reduce,
    simulation::{run, run_twice},
};

#[test]
fn a_planted_bug_is_found_reduced_and_found_again() {
    let fails = |plan: &Plan| run(plan, Cuts::Drawn).outcome.is_err();
    let plans = (1..20).map(|seed| Plan::new(Scenario::Model, seed, 300));
    let plan = plans
        .clone()
        .find(|plan| {
            plant(Some(Bug::SealedNotRead));
            fails(plan)
        })
        .expect("some seed finds it");
    let small = reduce(&plan, &fails, &mut |_| {});
    assert!(small.kept_count() < plan.kept_count() / 2, "{small}");
    let again: Plan = small.to_string().parse().unwrap();
    assert!(fails(&again), "{small}");
    let first = run(&again, Cuts::Drawn).outcome.unwrap_err().to_string();
    let second = run(&again, Cuts::Drawn).outcome.unwrap_err().to_string();
    assert_eq!(first, second);
    plant(None);
    // Without the bug the same plan passes, and goes the same way twice.
    run_twice(&again, Cuts::Drawn).unwrap();
}
