//! Targets: which numbers of a suite's tests are compared between engines at the end, and what is to be reached.
//!
//! The first engine of a run is the one that is judged; every other is a peer. In each round the number of the judged engine
//! is divided by that of the peer in the same round, so what the machine did at that time meets both. A target is reached
//! only if it is reached in every round: medians hide rounds that were lost.

use serde::{Deserialize, Serialize};

use super::Test;
use crate::{OperationKind, Pattern, Row, Workload, summary::median};

/// One line of the table at the end of a suite.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// What it is called.
    pub row: String,
    /// The name of the test.
    pub test: String,
    /// The operation whose row is meant.
    pub operation: OperationKind,
    /// The workload of the step, where a test has several with this operation.
    pub workload: Option<Workload>,
    /// The pattern of the step, likewise.
    pub pattern: Option<Pattern>,
    /// Which number is compared.
    #[serde(default)]
    pub metric: TargetMetric,
    /// What the judged engine's number divided by the peer's is to be, at least or at most; without, it is only shown.
    pub ratio: Option<f64>,
}

/// A number of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetMetric {
    /// Operations per second.
    #[default]
    Throughput,
    /// 99 of 100 calls are as fast, in microseconds.
    P99,
    /// The latency of 999 of 1,000 calls, divided by the median.
    Tail,
    /// Highest resident memory, in MiB.
    Memory,
    /// Bytes written over the whole run per byte of keys and values.
    WriteAmplification,
    /// Bytes occupied after closing per byte of live keys and values.
    SpaceAmplification,
    /// MiB occupied after closing.
    Size,
    /// MiB occupied when flushes and merges of the step had ended.
    SettledSize,
}

impl TargetMetric {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "ops/s",
            Self::P99 => "p99",
            Self::Tail => "p99.9 / p50",
            Self::Memory => "memory",
            Self::WriteAmplification => "written / user bytes",
            Self::SpaceAmplification => "on disk / live bytes",
            Self::Size => "on disk",
            Self::SettledSize => "on disk, settled",
        }
    }

    /// Whether more is better; of all others, less is.
    #[must_use]
    pub const fn is_better_when_more(self) -> bool {
        matches!(self, Self::Throughput)
    }

    /// The number of `row`.
    #[must_use]
    pub fn of(self, row: &Row) -> f64 {
        match self {
            Self::Throughput => row.ops_per_sec,
            Self::P99 => row.p99_us,
            Self::Tail => row.tail(),
            Self::Memory => row.peak_rss_mb,
            Self::WriteAmplification => row.write_amp,
            Self::SpaceAmplification => row.space_amp,
            Self::Size => row.db_size_mb,
            Self::SettledSize => row.db_size_settled_mb,
        }
    }

    fn is_within(self, ratio: f64, target: f64) -> bool {
        if self.is_better_when_more() {
            ratio >= target
        } else {
            ratio <= target
        }
    }
}

/// What came of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// In every round.
    Reached,
    /// In the median round, but not in every one.
    Median,
    /// Not, but better than the peer in every round.
    Better,
    /// Not.
    Missed,
    /// There was no target, only a comparison.
    Shown,
    /// One of the two engines has no good round.
    Unmeasured,
}

impl Judgement {
    /// The word in a table; empty when nothing was to be reached.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Median => "in the median",
            Self::Better => "missed, but better",
            Self::Missed => "MISSED",
            Self::Shown => "",
            Self::Unmeasured => "not measured",
        }
    }
}

/// A target and what came of it beside one peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetLine {
    /// What the target is called.
    pub row: String,
    /// Which number.
    pub metric: TargetMetric,
    /// The judged engine.
    pub engine: String,
    /// The engine beside it; empty when there is none.
    pub peer: String,
    /// Medians over good rounds; 0 when there is none.
    pub value: f64,
    /// The peer's.
    pub peer_value: f64,
    /// Their quotient, for each round in which both went well.
    pub ratios: Vec<f64>,
    /// What it is to be.
    pub target: Option<f64>,
    /// What came of it.
    pub judgement: Judgement,
}

impl Target {
    /// Why no row of `tests` can be meant; `None` when one can.
    pub(super) fn problem(&self, tests: &[Test]) -> Option<String> {
        let Some(test) = tests.iter().find(|test| test.name == self.test) else {
            return Some(format!("there is no test {:?}", self.test));
        };
        if self
            .ratio
            .is_some_and(|ratio| !(ratio.is_finite() && ratio > 0.0))
        {
            return Some("the ratio must be above 0".into());
        }
        let mut steps = test.settings.steps.iter().filter(|step| {
            step.is_measured
                && self.workload.is_none_or(|wanted| wanted == step.workload)
                && self.pattern.is_none_or(|wanted| wanted == step.pattern)
                && step.workload.operations().contains(&self.operation)
        });
        match steps.next() {
            Some(_) => None,
            None => Some("no measured step of the test is like that, or does that".into()),
        }
    }

    fn is_of(&self, row: &Row) -> bool {
        row.is_ok()
            && row.test_name == self.test
            && row.operation == self.operation.name()
            && self
                .workload
                .is_none_or(|wanted| wanted.name() == row.workload)
            && self
                .pattern
                .is_none_or(|wanted| wanted.name() == row.pattern)
    }

    /// Round and number of each good round of `engine` in which it was measured: what is known only at the end of a run, such as
    /// the size after closing, is 0 in rows of one that did not come to it.
    fn numbers(&self, rows: &[Row], engine: &str) -> Vec<(u64, f64)> {
        let of_engine = rows.iter().filter(|row| row.engine == engine);
        let mut numbers: Vec<(u64, f64)> = Vec::new();
        for row in of_engine.filter(|row| self.is_of(row)) {
            // The first step that fits is the one that is meant.
            if numbers.iter().all(|(round, _)| *round != row.round) {
                numbers.push((row.round, self.metric.of(row)));
            }
        }
        numbers.retain(|(_, number)| *number > 0.0);
        numbers
    }

    fn line(&self, rows: &[Row], engine: &str, peer: &str) -> TargetLine {
        let ours = self.numbers(rows, engine);
        let theirs = self.numbers(rows, peer);
        let of_round = |round: u64| theirs.iter().find(|(other, _)| *other == round);
        let ratios: Vec<f64> = ours
            .iter()
            .filter_map(|(round, number)| Some(number / of_round(*round)?.1))
            .filter(|ratio| ratio.is_finite())
            .collect();
        let middle = |numbers: &[(u64, f64)]| median(numbers.iter().map(|(_, n)| *n).collect());
        TargetLine {
            row: self.row.clone(),
            metric: self.metric,
            engine: engine.to_owned(),
            peer: peer.to_owned(),
            value: middle(&ours),
            peer_value: middle(&theirs),
            judgement: self.judgement(&ratios),
            ratios,
            target: self.ratio,
        }
    }

    fn judgement(&self, ratios: &[f64]) -> Judgement {
        let all = |target: f64| {
            ratios
                .iter()
                .all(|ratio| self.metric.is_within(*ratio, target))
        };
        match self.ratio {
            _ if ratios.is_empty() => Judgement::Unmeasured,
            None => Judgement::Shown,
            Some(target) if all(target) => Judgement::Reached,
            Some(target) if self.metric.is_within(median(ratios.to_vec()), target) => {
                Judgement::Median
            }
            Some(_) if all(1.0) => Judgement::Better,
            Some(_) => Judgement::Missed,
        }
    }
}

/// What came of `targets`, in their order, beside each peer in the order of the rows. `engine` is judged; rows of all others
/// are peers, and without one the lines hold its own numbers only.
///
/// ```
/// use kingtide_bench::{OperationKind, Row, suite::{Judgement, Target, TargetMetric, judge}};
///
/// let target = Target {
///     row: "random put".into(),
///     test: "random".into(),
///     operation: OperationKind::Put,
///     workload: None,
///     pattern: None,
///     metric: TargetMetric::Throughput,
///     ratio: Some(5.0),
/// };
/// let row = |engine: &str, ops_per_sec| Row {
///     engine: engine.into(),
///     test_name: "random".into(),
///     operation: "PUT".into(),
///     round: 1,
///     ops_per_sec,
///     ..Row::default()
/// };
/// let lines = judge(&[target], &[row("kingtide", 6e6), row("rocksdb", 1e6)], "kingtide");
/// assert_eq!(lines[0].ratios, [6.0]);
/// assert_eq!(lines[0].judgement, Judgement::Reached);
/// ```
#[must_use]
pub fn judge(targets: &[Target], rows: &[Row], engine: &str) -> Vec<TargetLine> {
    let mut peers: Vec<&str> = Vec::new();
    for row in rows {
        if row.engine != engine && !peers.contains(&row.engine.as_str()) {
            peers.push(&row.engine);
        }
    }
    if peers.is_empty() {
        peers.push("");
    }
    let lines_of = |target: &Target| -> Vec<TargetLine> {
        let mut lines = peers.iter().map(|peer| target.line(rows, engine, peer));
        lines.by_ref().collect()
    };
    targets.iter().flat_map(lines_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    fn target(metric: TargetMetric, ratio: Option<f64>) -> Target {
        Target {
            row: "row".into(),
            test: "t".into(),
            operation: OperationKind::Put,
            workload: Some(Workload::Write),
            pattern: None,
            metric,
            ratio,
        }
    }

    fn row(engine: &str, round: u64, number: f64) -> Row {
        Row {
            engine: engine.into(),
            test_name: "t".into(),
            operation: "PUT".into(),
            workload: "write".into(),
            round,
            ops_per_sec: number,
            peak_rss_mb: number,
            p50_us: 2.0,
            p99_9_us: number,
            ..Row::default()
        }
    }

    fn judged(metric: TargetMetric, ratio: f64, pairs: &[(f64, f64)]) -> Judgement {
        let mut rows = Vec::new();
        for (round, (ours, theirs)) in (1..).zip(pairs) {
            rows.push(row("a", round, *ours));
            rows.push(row("b", round, *theirs));
        }
        judge(&[target(metric, Some(ratio))], &rows, "a")[0].judgement
    }

    #[test]
    fn a_target_is_reached_only_in_every_round() {
        let more = TargetMetric::Throughput;
        let less = TargetMetric::Memory;
        for (metric, ratio, pairs, expected) in [
            (more, 2.0, &[(4.0, 2.0), (9.0, 3.0)][..], Judgement::Reached),
            (
                more,
                2.0,
                &[(4.0, 2.0), (9.0, 3.0), (3.0, 2.0)],
                Judgement::Median,
            ),
            (more, 2.0, &[(3.0, 2.0), (4.0, 3.0)], Judgement::Better),
            (
                more,
                2.0,
                &[(3.0, 2.0), (2.0, 3.0), (3.0, 2.0)],
                Judgement::Missed,
            ),
            (less, 0.5, &[(1.0, 2.0), (1.0, 3.0)], Judgement::Reached),
            (
                less,
                0.5,
                &[(1.0, 2.0), (1.0, 3.0), (2.0, 2.0)],
                Judgement::Median,
            ),
            (less, 0.5, &[(2.0, 3.0)], Judgement::Better),
            (less, 0.5, &[(3.0, 2.0)], Judgement::Missed),
            (less, 0.5, &[], Judgement::Unmeasured),
            (more, 0.5, &[(1.0, 0.0)], Judgement::Unmeasured),
            // A run that did not come to its end has no memory, rather than little.
            (less, 0.5, &[(0.0, 3.0)], Judgement::Unmeasured),
            (less, 0.5, &[(0.0, 3.0), (3.0, 2.0)], Judgement::Missed),
        ] {
            assert_eq!(
                judged(metric, ratio, pairs),
                expected,
                "{metric:?} {pairs:?}"
            );
        }
    }

    #[test]
    fn rounds_are_paired_and_failed_ones_left_out() {
        let failed = Row {
            status: Status::Failed,
            ..row("b", 2, 1.0)
        };
        let other_workload = Row {
            workload: "mixed".into(),
            ..row("a", 1, 1e9)
        };
        let rows = [
            other_workload,
            row("a", 1, 10.0),
            row("b", 1, 5.0),
            row("a", 2, 10.0),
            failed,
            row("b", 3, 4.0),
            row("a", 3, 12.0),
            row("c", 1, 10.0),
        ];
        let lines = judge(&[target(TargetMetric::Throughput, None)], &rows, "a");
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].ratios, [2.0, 3.0]);
        assert_eq!((lines[0].peer.as_str(), lines[1].peer.as_str()), ("b", "c"));
        assert_eq!(lines[0].judgement, Judgement::Shown);
        let alone = judge(&[target(TargetMetric::Tail, Some(1.0))], &rows[..2], "a");
        assert!((alone[0].value - 5.0).abs() < 1e-9);
        assert_eq!(alone[0].judgement, Judgement::Unmeasured);
    }
}
