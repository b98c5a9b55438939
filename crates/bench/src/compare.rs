//! Two sets of results, an old one and a new one, side by side: what became better, what became worse.
//!
//! Results of the same test by the same engine are paired: rows that agree in `engine`, `suite`, `test_name`, `operation`,
//! `workload`, `pattern`, `codec`, `sync_mode`, `threads`, `num_operations`, `batch_size`, `key_size`, `value_size` and
//! `range_size`, and, where both files tell them, in `cache_mb`, `memtable_mb`, `compressibility`, `step` and `settings`.
//! Versions may differ, that is the point. Of each pair several numbers are compared, each by the medians of its rounds. A
//! difference counts when it is
//!
//! 1. larger than the threshold of that number, a multiple of the one that is given: what varies more may differ more; and
//! 2. beyond the spread: every round after is on the same side of every round before. One round says nothing about spread,
//!    so when either side has only one, the difference must be twice the threshold.
//!
//! A test that went well before and does not now is a regression whatever its numbers.

use std::fmt;

use crate::{
    Row,
    summary::{grouped, median},
    test_key::TestKey,
};

/// A number that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// Whether there are good rounds at all: their share, 0 to 1.
    Success,
    /// Operations per second.
    Throughput,
    /// The latency that 99 of 100 calls keep, in microseconds.
    P99,
    /// The latency that 999 of 1,000 calls keep, in microseconds.
    P999,
    /// Processor time per operation, in microseconds.
    Processor,
    /// Highest resident memory, in MiB.
    Memory,
    /// Size of the database after it was closed, in MiB.
    Size,
    /// Bytes written to devices per byte written by the user.
    WriteAmplification,
    /// Bytes occupied per live byte.
    SpaceAmplification,
}

impl Metric {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Success,
        Self::Throughput,
        Self::P99,
        Self::P999,
        Self::Processor,
        Self::Memory,
        Self::Size,
        Self::WriteAmplification,
        Self::SpaceAmplification,
    ];

    /// The name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Throughput => "ops/s",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Processor => "processor",
            Self::Memory => "memory",
            Self::Size => "size",
            Self::WriteAmplification => "write amp",
            Self::SpaceAmplification => "space amp",
        }
    }

    /// True when more is better.
    #[must_use]
    pub const fn is_more_better(self) -> bool {
        matches!(self, Self::Success | Self::Throughput)
    }

    /// How many thresholds a difference must be large.
    const fn tolerance(self) -> f64 {
        match self {
            Self::Success | Self::Throughput | Self::Size | Self::SpaceAmplification => 1.0,
            Self::Processor | Self::Memory | Self::WriteAmplification => 2.0,
            Self::P99 => 4.0,
            Self::P999 => 8.0,
        }
    }

    /// The number in a good row; `None` when it was not measured.
    fn of(self, row: &Row) -> Option<f64> {
        let number = match self {
            Self::Success => 1.0,
            Self::Throughput => row.ops_per_sec,
            Self::P99 => row.p99_us,
            Self::P999 => row.p99_9_us,
            Self::Processor => {
                let operations = match row.operations_done {
                    0 => row.num_operations,
                    done => done,
                };
                let micros = (row.cpu_user_sec + row.cpu_sys_sec) * 1e6;
                if operations == 0 {
                    0.0
                } else {
                    micros / operations as f64
                }
            }
            Self::Memory => row.peak_rss_mb,
            Self::Size => row.db_size_mb,
            Self::WriteAmplification => row.write_amp,
            Self::SpaceAmplification => row.space_amp,
        };
        (number > 0.0 && number.is_finite()).then_some(number)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What became of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No difference that counts.
    Same,
    /// Better than before.
    Improved,
    /// Worse than before.
    Regressed,
}

impl Verdict {
    /// The word for people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Improved => "improved",
            Self::Regressed => "regressed",
        }
    }
}

/// One side of a difference: good rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Side {
    /// The median; 0 when there is no good round.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many.
    pub rounds: usize,
}

impl Side {
    fn of(numbers: &[f64]) -> Self {
        Self {
            median: median(numbers.to_vec()),
            min: numbers.iter().copied().reduce(f64::min).unwrap_or(0.0),
            max: numbers.iter().copied().reduce(f64::max).unwrap_or(0.0),
            rounds: numbers.len(),
        }
    }
}

/// A number before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Which.
    pub metric: Metric,
    /// Before.
    pub old: Side,
    /// After.
    pub new: Side,
    /// What became of it.
    pub verdict: Verdict,
}

impl Difference {
    /// After divided by before.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.new.median / self.old.median
    }

    /// The change in percent of what was before.
    #[must_use]
    pub fn change_percent(&self) -> f64 {
        (self.ratio() - 1.0) * 100.0
    }
}

/// One test of one engine in both results.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// A row before: what is not measured in it names the test.
    pub old: Row,
    /// A row after.
    pub new: Row,
    /// The numbers that both have, in the order of [`Metric::ALL`].
    pub differences: Vec<Difference>,
}

impl Pair {
    /// The difference in this number, when both have it.
    #[must_use]
    pub fn difference(&self, metric: Metric) -> Option<&Difference> {
        self.differences
            .iter()
            .find(|difference| difference.metric == metric)
    }
}

/// A number that became worse.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    /// Of which engine.
    pub engine: String,
    /// In which test.
    pub test_name: String,
    /// In what of it.
    pub operation: String,
    /// How.
    pub difference: Difference,
}

/// Two sets of results side by side; see [`compare`].
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The tests that both hold, in the order of the new ones.
    pub pairs: Vec<Pair>,
    /// Tests that only the old results hold: a row of each.
    pub only_old: Vec<Row>,
    /// Tests that only the new results hold: a row of each.
    pub only_new: Vec<Row>,
    /// The threshold, in percent.
    pub threshold_percent: f64,
}

impl Comparison {
    /// Everything that became worse.
    #[must_use]
    pub fn regressions(&self) -> Vec<Regression> {
        let regressed = |pair: &Pair| {
            let of_pair = pair.differences.iter();
            of_pair
                .filter(|difference| difference.verdict == Verdict::Regressed)
                .map(|difference| Regression {
                    engine: pair.new.engine.clone(),
                    test_name: pair.new.test_name.clone(),
                    operation: pair.new.operation.clone(),
                    difference: *difference,
                })
                .collect::<Vec<_>>()
        };
        self.pairs.iter().flat_map(regressed).collect()
    }
}

/// Compares the rows of two result files. A difference in throughput counts from `threshold_percent` on, in other numbers
/// from a multiple of it; see the module.
///
/// ```
/// use kingtide_bench::{Metric, Row, compare};
///
/// let rows = |rates: [f64; 3]| rates.map(|ops_per_sec| Row { ops_per_sec, ..Row::default() });
/// let comparison = compare(&rows([98.0, 100.0, 102.0]), &rows([79.0, 80.0, 81.0]), 5.0);
/// let regressions = comparison.regressions();
/// assert_eq!(regressions[0].difference.metric, Metric::Throughput);
/// assert_eq!(regressions[0].difference.change_percent().round(), -20.0);
/// ```
#[must_use]
pub fn compare(old: &[Row], new: &[Row], threshold_percent: f64) -> Comparison {
    let (old, new) = (groups(old), groups(new));
    let mut comparison = Comparison {
        pairs: Vec::new(),
        only_old: Vec::new(),
        only_new: Vec::new(),
        threshold_percent,
    };
    let mut is_paired = vec![false; old.len()];
    for (key, after) in &new {
        let exact = old.iter().position(|(other, _)| other == key);
        let place = exact.or_else(|| {
            let may_be = |(place, (other, _)): (usize, &Group<'_>)| {
                !is_paired[place] && other.0 == key.0 && other.1.may_be(&key.1)
            };
            old.iter().enumerate().position(may_be)
        });
        match place {
            Some(place) => {
                is_paired[place] = true;
                let before = &old[place].1;
                comparison
                    .pairs
                    .push(pair(before, after, threshold_percent));
            }
            None => comparison.only_new.push(after[0].clone()),
        }
    }
    for ((_, before), is_paired) in old.iter().zip(is_paired) {
        if !is_paired {
            comparison.only_old.push(before[0].clone());
        }
    }
    comparison
}

/// The rounds of a test of an engine.
type Group<'a> = ((&'a str, TestKey), Vec<&'a Row>);

/// The rounds of each test of each engine, of whatever version.
fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    grouped(rows, |row| (&*row.engine, TestKey::of(row)))
}

/// In which columns the closest rows of two results differ that have no test in common: `codec: none and zstd`. Empty when
/// either has no rows.
///
/// ```
/// use kingtide_bench::{Row, why_nothing_pairs};
///
/// let row = |codec: &str, threads| Row { codec: codec.into(), threads, ..Row::default() };
/// let why = why_nothing_pairs(&[row("none", 1)], &[row("zstd", 4), row("lz4", 1)]);
/// assert_eq!(why, "codec: none and lz4");
/// ```
#[must_use]
pub fn why_nothing_pairs(old: &[Row], new: &[Row]) -> String {
    let (old, new) = (groups(old), groups(new));
    let pairs = old
        .iter()
        .flat_map(|(before, _)| new.iter().map(move |(after, _)| (before, after)));
    let differences = |(before, after): (&(&str, TestKey), &(&str, TestKey))| {
        let mut differences = before.1.differences(&after.1);
        if before.0 != after.0 {
            differences.insert(0, format!("engine: {} and {}", before.0, after.0));
        }
        differences
    };
    let closest = pairs.map(differences).min_by_key(Vec::len);
    closest.unwrap_or_default().join(", ")
}

fn pair(before: &[&Row], after: &[&Row], threshold_percent: f64) -> Pair {
    let share = |rows: &[&Row]| {
        let good = rows.iter().filter(|row| row.is_ok()).count();
        good as f64 / rows.len() as f64
    };
    let representative = |rows: &[&Row]| {
        let good = rows.iter().find(|row| row.is_ok());
        (**good.unwrap_or(&rows[0])).clone()
    };
    let mut differences = vec![success(share(before), share(after))];
    for metric in Metric::ALL
        .into_iter()
        .filter(|metric| *metric != Metric::Success)
    {
        let numbers = |rows: &[&Row]| -> Vec<f64> {
            let good = rows.iter().filter(|row| row.is_ok());
            good.filter_map(|row| metric.of(row)).collect()
        };
        let (old, new) = (Side::of(&numbers(before)), Side::of(&numbers(after)));
        if old.rounds > 0 && new.rounds > 0 {
            differences.push(Difference {
                metric,
                old,
                new,
                verdict: judge(metric, old, new, threshold_percent),
            });
        }
    }
    Pair {
        old: representative(before),
        new: representative(after),
        differences,
    }
}

/// Worse when a test has fewer good rounds than before, better when it has more.
fn success(before: f64, after: f64) -> Difference {
    let verdict = if after < before {
        Verdict::Regressed
    } else if after > before {
        Verdict::Improved
    } else {
        Verdict::Same
    };
    Difference {
        metric: Metric::Success,
        old: Side::of(&[before]),
        new: Side::of(&[after]),
        verdict,
    }
}

fn judge(metric: Metric, old: Side, new: Side, threshold_percent: f64) -> Verdict {
    let is_spread_known = old.rounds > 1 && new.rounds > 1;
    let certainty = if is_spread_known { 1.0 } else { 2.0 };
    let margin = threshold_percent / 100.0 * metric.tolerance() * certainty;
    let ratio = new.median / old.median;
    // The same factor up as down: a half is as far as a double.
    let grew = ratio > 1.0 + margin && new.min > old.max;
    let fell = ratio < 1.0 / (1.0 + margin) && new.max < old.min;
    match (grew, fell, metric.is_more_better()) {
        (true, _, true) | (_, true, false) => Verdict::Improved,
        (true, _, false) | (_, true, true) => Verdict::Regressed,
        _ => Verdict::Same,
    }
}

#[cfg(test)]
mod tests;
