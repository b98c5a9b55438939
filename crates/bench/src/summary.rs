//! Medians over the rounds of a test, and how far the rounds lie apart.
//!
//! Rounds that failed or were cut short are counted and take no part in the medians. With an even number of rounds the
//! median is the mean of the two in the middle.

use crate::{Row, Status, test_key::TestKey};

/// The rounds of one operation of one test of one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Medians of every number, each for itself; what is not a number is that of the first good round. When no round is
    /// good, the first one.
    pub row: Row,
    /// Rounds that went well.
    pub rounds: u64,
    /// Rounds that did not.
    pub failed: u64,
    /// The first of those: how it failed.
    pub failure: Option<Row>,
    /// The slowest good round, in operations per second.
    pub ops_per_sec_min: f64,
    /// The fastest.
    pub ops_per_sec_max: f64,
}

impl Summary {
    /// The distance between the fastest and the slowest round, in percent of the median; 0 with fewer than two.
    #[must_use]
    pub fn spread_percent(&self) -> f64 {
        if self.row.ops_per_sec <= 0.0 {
            return 0.0;
        }
        (self.ops_per_sec_max - self.ops_per_sec_min) / self.row.ops_per_sec * 100.0
    }

    /// Groups rows by engine, version and what `compare` pairs rows by, all settings that they tell included. What is to be compared comes
    /// together: tests, in each test what was measured, and of that the engines, each in the order in which they first appear.
    ///
    /// ```
    /// use kingtide_bench::{Row, Summary};
    ///
    /// let round = |round, ops_per_sec| Row { round, ops_per_sec, ..Row::default() };
    /// let all = Summary::of(&[round(1, 10.0), round(2, 30.0), round(3, 20.0)]);
    /// assert_eq!(all.len(), 1);
    /// assert_eq!(all[0].row.ops_per_sec, 20.0);
    /// assert_eq!(all[0].spread_percent(), 100.0);
    /// ```
    #[must_use]
    pub fn of(rows: &[Row]) -> Vec<Self> {
        let groups = grouped(rows, |row| {
            let engine = (&row.engine, &row.engine_version);
            (engine, TestKey::of(row))
        });
        let (mut tests, mut keys, mut engines) = (Vec::new(), Vec::new(), Vec::new());
        let placed = groups.iter().map(|((engine, key), group)| {
            let test = (&group[0].suite, &group[0].test_name);
            let place = (
                place_of(&mut tests, test),
                place_of(&mut keys, key),
                place_of(&mut engines, engine),
            );
            (place, group)
        });
        let mut placed: Vec<_> = placed.collect();
        placed.sort_by_key(|(place, _)| *place);
        placed.iter().map(|(_, group)| summarize(group)).collect()
    }
}

/// The index of `item` in `list`, which gets it if it lacks it.
pub(crate) fn place_of<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter()
        .position(|other| *other == item)
        .unwrap_or_else(|| {
            list.push(item);
            list.len() - 1
        })
}

/// The rows of each `key`, with it, in the order in which they first appear.
pub(crate) fn grouped<'a, K: PartialEq>(
    rows: &'a [Row],
    key: impl Fn(&'a Row) -> K,
) -> Vec<(K, Vec<&'a Row>)> {
    let mut groups: Vec<(K, Vec<&Row>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

fn summarize(group: &[&Row]) -> Summary {
    let good: Vec<&Row> = group.iter().copied().filter(|row| row.is_ok()).collect();
    let failed = (group.len() - good.len()) as u64;
    let failure = group.iter().find(|row| !row.is_ok());
    let failure = failure.map(|row| (*row).clone());
    let Some(first) = good.first() else {
        return Summary {
            row: group[0].clone(),
            rounds: 0,
            failed,
            failure,
            ops_per_sec_min: 0.0,
            ops_per_sec_max: 0.0,
        };
    };
    let mut row = (*first).clone();
    for (field, of) in FIELDS {
        *field(&mut row) = median(good.iter().map(|row| of(row)).collect());
    }
    // Known at the end of a run only, which other rounds may not have reached.
    let whole = || good.iter().filter(|row| row.db_size_mb > 0.0);
    for (field, of) in FIELDS_OF_END {
        *field(&mut row) = median(whole().map(|row| of(row)).collect());
    }
    row.round = 0;
    row.status = Status::Ok;
    let rates = || good.iter().map(|row| row.ops_per_sec);
    Summary {
        row,
        rounds: good.len() as u64,
        failed,
        failure,
        ops_per_sec_min: rates().fold(f64::INFINITY, f64::min),
        ops_per_sec_max: rates().fold(0.0, f64::max),
    }
}

/// The middle of `numbers`; 0 when there are none.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    if numbers.is_empty() {
        return 0.0;
    }
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 {
        numbers[middle]
    } else {
        f64::midpoint(numbers[middle - 1], numbers[middle])
    }
}

type Field = (fn(&mut Row) -> &mut f64, fn(&Row) -> f64);

macro_rules! fields {
    ($($name:ident),+ $(,)?) => {
        &[$((|row| &mut row.$name, |row| row.$name)),+]
    };
}

/// Every number that is measured in a step.
const FIELDS: &[Field] = fields![
    ops_per_sec,
    duration_sec,
    avg_latency_us,
    stddev_us,
    cv_percent,
    p50_us,
    p95_us,
    p99_us,
    p99_9_us,
    min_us,
    max_us,
    peak_rss_mb,
    peak_vms_mb,
    disk_read_mb,
    disk_write_mb,
    cpu_user_sec,
    cpu_sys_sec,
    cpu_percent,
    db_size_settled_mb,
    wall_sec,
    settle_sec,
];

/// Every number that is measured once the database is closed.
const FIELDS_OF_END: &[Field] = fields![db_size_mb, write_amp, read_amp, space_amp];

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, round: u64, ops_per_sec: f64) -> Row {
        Row {
            engine: engine.into(),
            round,
            ops_per_sec,
            p99_us: 1e6 / ops_per_sec,
            ..Row::default()
        }
    }

    #[test]
    fn the_median_of_even_counts_lies_between() {
        assert!((median(vec![4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-9);
        assert!(median(Vec::new()).abs() < 1e-9);
    }

    #[test]
    fn engines_are_told_apart_and_failed_rounds_do_not_count() {
        let broken = Row {
            status: Status::Failed,
            ..row("a", 3, 1e9)
        };
        let rows = [
            row("a", 1, 10.0),
            row("b", 1, 5.0),
            row("a", 2, 20.0),
            broken,
        ];
        let all = Summary::of(&rows);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].rounds, all[0].failed), (2, 1));
        let failure = all[0].failure.as_ref().expect("kept");
        assert_eq!(failure.status, Status::Failed);
        assert!((all[0].row.ops_per_sec - 15.0).abs() < 1e-9);
        assert!((all[0].row.p99_us - 75_000.0).abs() < 1e-6);
        assert!((all[0].ops_per_sec_max - 20.0).abs() < 1e-9);
        assert_eq!(all[1].row.engine, "b");
    }

    /// Goal: rows that are to be compared stand under each other. Method: two engines that tell the operations of a test in
    /// different orders, and a second test, which only the second engine has first.
    #[test]
    fn engines_stand_together_for_each_operation() {
        let row = |test: &str, engine: &str, operation: &str| Row {
            test_name: test.into(),
            operation: operation.into(),
            ..row(engine, 1, 1.0)
        };
        let rows = [
            row("mixed", "a", "GET"),
            row("mixed", "a", "PUT"),
            row("mixed", "a", "ALL"),
            row("mixed", "b", "PUT"),
            row("mixed", "b", "GET"),
            row("mixed", "b", "ALL"),
            row("read", "b", "GET"),
            row("read", "a", "GET"),
        ];
        let all = Summary::of(&rows);
        let order = all.iter().map(|one| {
            let row = &one.row;
            format!("{} {} {}", row.test_name, row.operation, row.engine)
        });
        assert_eq!(
            order.collect::<Vec<_>>(),
            [
                "mixed GET a",
                "mixed GET b",
                "mixed PUT a",
                "mixed PUT b",
                "mixed ALL a",
                "mixed ALL b",
                "read GET a",
                "read GET b",
            ]
        );
    }

    #[test]
    fn a_round_that_broke_off_later_does_not_halve_what_the_others_measured() {
        let whole = Row {
            db_size_mb: 10.0,
            write_amp: 3.0,
            ..row("a", 1, 1.0)
        };
        let all = Summary::of(&[whole, row("a", 2, 1.0)]);
        assert_eq!(all[0].rounds, 2);
        assert!((all[0].row.db_size_mb - 10.0).abs() < 1e-9);
        assert!((all[0].row.write_amp - 3.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_measured_as_nothing_counts() {
        let round = |round, read_amp| Row {
            db_size_mb: 10.0,
            read_amp,
            ..row("a", round, 1.0)
        };
        let all = Summary::of(&[round(1, 0.0), round(2, 0.0), round(3, 5.0)]);
        assert!(all[0].row.read_amp.abs() < 1e-9);
    }

    #[test]
    fn a_test_that_never_went_well_is_kept_as_such() {
        let broken = Row {
            status: Status::Partial,
            error: "disk full".into(),
            ..row("a", 1, 7.0)
        };
        let all = Summary::of(&[broken]);
        assert_eq!((all[0].rounds, all[0].failed), (0, 1));
        assert_eq!(all[0].row.status, Status::Partial);
        assert_eq!(all[0].row.error, "disk full");
        assert!(all[0].spread_percent().abs() < f64::EPSILON);
    }
}
