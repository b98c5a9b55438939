//! Isolation, at a length that fits between two edits. `proof hermitage` and its fellows run at full length.

use kingtide_testkit::{
    Checked,
    isolation::{
        LEVELS,
        hermitage::{self, Extent},
        history::{self, Session},
        workloads::{self, Round, WorkTally},
    },
    runner,
};

use kingtide::IsolationLevel;

/// Runs every scenario of the table of anomalies, at every level and mixture of levels, in every place of the data, in
/// a share of its interleavings.
// Promise: levels.
#[test]
fn every_cell_of_the_anomaly_table_holds() {
    let batches = hermitage::batches(&Extent::QUICK);
    let stuck = |numbers: &[u64]| panic!("stuck in batches {numbers:?}");
    let report = runner::run(
        batches.len() as u64,
        2,
        &|number| hermitage::run_batch(&batches[number as usize]),
        &mut |_| {},
        &stuck,
    );
    let tally = report
        .into_checked()
        .unwrap_or_else(|violation| panic!("{violation}"));
    println!("{tally}\n{} schedules", tally.schedules);
    tally
        .check_possible()
        .unwrap_or_else(|violation| panic!("{violation}\n{tally}"));
}

/// Cuts the power after each step of every scenario, in a few of its interleavings: each opening shows what was acknowledged,
/// and the work that goes on there is as isolated as without the cut.
// Promise: 1, 3, levels.
#[test]
fn a_power_cut_after_any_step_keeps_exactly_what_was_acknowledged() {
    let extent = Extent {
        plain_max: 6,
        moving_max: 3,
        mixed_max: 1,
        drawn: 40,
        seed: 3,
    };
    // A sample; the batches of a scenario stand together, so each of the scenarios is in it.
    let batches = hermitage::batches(&extent);
    let batches: Vec<_> = batches.into_iter().step_by(11).collect();
    let stuck = |numbers: &[u64]| panic!("stuck in batches {numbers:?}");
    let report = runner::run(
        batches.len() as u64,
        2,
        &|number| {
            let batch = &batches[number as usize];
            hermitage::run_crashes(batch, number).map_err(|violation| {
                violation.within(format!("batch {} of {extent:?}", 11 * number))
            })
        },
        &mut |_| {},
        &stuck,
    );
    let tally = report
        .into_checked()
        .unwrap_or_else(|violation| panic!("{violation}"));
    println!("{tally}");
    assert!(tally.resumed > 0);
}

/// Random transactions of several threads at each level and at mixed levels: every read and every commit is explained.
// Promise: levels, serializable, read-only.
#[test]
fn recorded_histories_are_explained_at_every_level() {
    for (seed, level) in (1..).zip(LEVELS.map(Some).into_iter().chain([None])) {
        let session = Session {
            seed,
            level,
            windows: 2,
            transactions: 3_000,
            independent_one_in: 1,
        };
        let tally = history::run(&session).unwrap_or_else(|violation| panic!("{violation}"));
        println!("{level:?}: {tally}");
        assert_eq!(tally.transactions, 6_000);
    }
}

/// Runs one round of a workload at each level from repeatable read up.
#[track_caller]
fn keeps_its_invariant(run: fn(&Round) -> Checked<WorkTally>, operations: u64) {
    for level in LEVELS.into_iter().filter(|level| level.has_one_view()) {
        let round = Round {
            seed: 7,
            level,
            operations,
            threads: 3,
        };
        let tally = run(&round).unwrap_or_else(|violation| panic!("{level:?}: {violation}"));
        assert_eq!(tally.operations, operations);
    }
}

// Promise: levels.
#[test]
fn no_increment_is_lost() {
    keeps_its_invariant(workloads::increments, 3_000);
}

// Promise: snapshot.
#[test]
fn pairs_are_read_as_they_were_written() {
    keeps_its_invariant(workloads::fractured, 4_800);
}

// Promise: snapshot.
#[test]
fn audits_find_the_same_sum() {
    keeps_its_invariant(workloads::bank, 300);
}

// Promise: serializable.
#[test]
fn what_was_inserted_is_seen() {
    keeps_its_invariant(workloads::set, 3_000);
}

// Promise: serializable.
#[test]
fn of_two_skewing_transactions_one_commits() {
    let round = Round {
        seed: 7,
        level: IsolationLevel::Serializable,
        operations: 1_500,
        threads: 2,
    };
    let tally = workloads::skew(&round).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!((tally.operations, tally.conflicts), (1_500, 1_500));
}
