//! Isolation, at a length that fits between two edits. `proof hermitage` and its fellows run at full length.

use kingtide_testkit::{
    isolation::{
        LEVELS,
        hermitage::{self, Extent},
        history::{self, Session},
    },
    runner,
};

/// Runs every scenario of the table of anomalies, at every level and mixture of levels, in every place of the data, in
/// a share of its interleavings.
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

/// Random transactions of several threads at each level and at mixed levels: every read and every commit is explained.
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
