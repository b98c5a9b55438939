use super::*;
use crate::Status;

fn rounds(rates: &[f64]) -> Vec<Row> {
    let row = |rate: &f64| Row {
        engine: "kingtide".into(),
        ops_per_sec: *rate,
        ..Row::default()
    };
    rates.iter().map(row).collect()
}

fn verdict(before: &[f64], after: &[f64], threshold: f64) -> Verdict {
    let comparison = compare(&rounds(before), &rounds(after), threshold);
    comparison.pairs[0]
        .difference(Metric::Throughput)
        .expect("both have it")
        .verdict
}

#[test]
fn only_what_is_beyond_threshold_and_spread_counts() {
    use Verdict::{Improved, Regressed, Same};
    let before = [95.0, 100.0, 105.0];
    for (after, expected) in [
        (&[100.0, 101.0, 99.0][..], Same),
        (&[80.0, 85.0, 90.0], Regressed),
        // One round was as good as one before.
        (&[80.0, 85.0, 96.0], Same),
        (&[110.0, 120.0, 130.0], Improved),
        // One round: twice the threshold.
        (&[91.0], Same),
        (&[89.0], Regressed),
        (&[111.0], Improved),
    ] {
        assert_eq!(verdict(&before, after, 5.0), expected, "{after:?}");
    }
    assert_eq!(verdict(&before, &[94.0, 94.0], 10.0), Same);
}

/// Goal: rows pair that agree in all settings, and those of files that do not tell them with what they may be.
#[test]
fn other_settings_are_another_test() {
    let row = |settings: &str| Row {
        ops_per_sec: 100.0,
        settings: settings.into(),
        ..Row::default()
    };
    let counts = |old: &[Row], new: &[Row]| {
        let comparison = compare(old, new, 5.0);
        let (old, new) = (comparison.only_old.len(), comparison.only_new.len());
        (comparison.pairs.len(), old, new)
    };
    let [few, many, older] = ["keys=10", "keys=1000", ""].map(|settings| [row(settings)]);
    let both = [row("keys=10"), row("keys=1000")];
    assert_eq!(counts(&both, &many), (1, 1, 0));
    assert_eq!(counts(&few, &many), (0, 1, 1));
    assert_eq!(why_nothing_pairs(&few, &many), "keys: 10 and 1000");
    assert_eq!(counts(&older, &many), (1, 0, 0));
    assert_eq!(counts(&older, &both), (1, 0, 1), "each once");
}

#[test]
fn where_less_is_better_more_is_a_regression() {
    let row = |p99_us, round| Row {
        p99_us,
        round,
        ops_per_sec: 100.0,
        ..Row::default()
    };
    let old = [row(10.0, 1), row(11.0, 2)];
    let comparison = compare(&old, &[row(20.0, 1), row(21.0, 2)], 5.0);
    let regressions = comparison.regressions();
    assert_eq!(regressions.len(), 1);
    assert_eq!(regressions[0].difference.metric, Metric::P99);
    assert!(
        compare(&old, &[row(5.0, 1), row(6.0, 2)], 5.0)
            .regressions()
            .is_empty()
    );
    let p99 = |comparison: &Comparison| comparison.pairs[0].difference(Metric::P99).copied();
    assert_eq!(
        p99(&compare(&old, &[row(5.0, 1), row(6.0, 2)], 5.0)).map(|p99| p99.verdict),
        Some(Verdict::Improved)
    );
}

#[test]
fn what_fails_now_is_a_regression_and_its_numbers_do_not_count() {
    let mut new = rounds(&[100.0, 1.0]);
    new[1].status = Status::Failed;
    let comparison = compare(&rounds(&[100.0, 100.0]), &new, 5.0);
    let regressions = comparison.regressions();
    assert_eq!(regressions.len(), 1, "{regressions:?}");
    assert_eq!(regressions[0].difference.metric, Metric::Success);
    new[0].status = Status::Partial;
    let comparison = compare(&rounds(&[100.0]), &new, 5.0);
    assert_eq!(comparison.pairs[0].differences.len(), 1);
    assert_eq!(comparison.regressions().len(), 1);
}

#[test]
fn tests_are_paired_whatever_the_version_and_the_rest_is_listed() {
    let row = |engine: &str, version: &str, threads| Row {
        engine: engine.into(),
        engine_version: version.into(),
        threads,
        ops_per_sec: 1.0,
        ..Row::default()
    };
    let old = [
        row("kingtide", "1", 1),
        row("kingtide", "1", 2),
        row("rocksdb", "8", 1),
    ];
    let new = [
        row("kingtide", "2", 2),
        row("kingtide", "2", 4),
        row("lmdb", "1", 1),
    ];
    let comparison = compare(&old, &new, 5.0);
    assert_eq!(comparison.pairs.len(), 1);
    assert_eq!(comparison.pairs[0].new.threads, 2);
    let names = |rows: &[Row]| -> Vec<(String, u64)> {
        rows.iter()
            .map(|row| (row.engine.clone(), row.threads))
            .collect()
    };
    assert_eq!(
        names(&comparison.only_old),
        [("kingtide".to_owned(), 1), ("rocksdb".to_owned(), 1)]
    );
    assert_eq!(
        names(&comparison.only_new),
        [("kingtide".to_owned(), 4), ("lmdb".to_owned(), 1)]
    );
    assert!(compare(&[], &[], 5.0).pairs.is_empty());
}
