//! Results as tables for people.

use kingtide_bench::{Row, Status, Summary, operation_labels};

use super::fitted::fitted;
use crate::text::size;

const MIB: f64 = (1 << 20) as f64;

/// Stands where a number would.
pub(super) const NOT_MEASURED: &str = "-";

const HEADER: [&str; 17] = [
    "test",
    "operation",
    "engine",
    "ops/s",
    "spread",
    "p50",
    "p99",
    "p99.9",
    "tail",
    "max",
    "wall",
    "settle",
    "cpu",
    "memory",
    "written",
    "on disk",
    "w-amp",
];

/// The columns that a narrow terminal does without, the least important first.
const SPARE: [&str; 13] = [
    "tail", "max", "settle", "p99.9", "spread", "cpu", "wall", "written", "w-amp", "memory",
    "on disk", "p50", "p99",
];

/// One line for each operation of each test and engine, medians over the rounds, in as many columns as `room` allows, if any went
/// well; then what went wrong.
pub(super) fn results(summaries: &[Summary], room: Option<u16>) -> String {
    let operations = operation_labels(summaries.iter().map(|summary| &summary.row));
    let told: Vec<(&Summary, String)> = summaries.iter().zip(operations).collect();
    let good = told.iter().filter(|(summary, _)| summary.rounds > 0);
    let lines: Vec<Vec<String>> = good
        .map(|(summary, operation)| line(summary, operation))
        .collect();
    let table = match lines.is_empty() {
        true => String::new(),
        false => fitted(&HEADER, &lines, &SPARE, room, "--csv"),
    };
    let each = |tell: fn(&Summary, &str) -> Option<String>| -> String {
        let lines = told.iter();
        lines
            .filter_map(|(summary, operation)| tell(summary, operation))
            .collect()
    };
    format!("{table}{}{}", each(timeline), each(failure))
}

/// How the rounds that did not go well failed; `None` when all went well.
fn failure(summary: &Summary, operation: &str) -> Option<String> {
    let row = summary.failure.as_ref()?;
    let rounds = match summary.rounds + summary.failed {
        1 => String::new(),
        rounds => format!(" in {} of {rounds} rounds", summary.failed),
    };
    Some(format!(
        "{}: {} {operation}: {}{rounds}{}\n",
        row.engine,
        row.test_name,
        row.status.name(),
        reason(row)
    ))
}

/// How much slower the slowest of 1,000 calls is than the usual one.
fn tail(row: &Row) -> String {
    match row.tail() {
        tail if tail > 0.0 => format!("{} x", times(tail)),
        _ => NOT_MEASURED.to_owned(),
    }
}

/// A number as text, unless it is 0: it was not measured.
fn measured(number: f64, text: impl Fn(f64) -> String) -> String {
    if number > 0.0 {
        text(number)
    } else {
        NOT_MEASURED.to_owned()
    }
}

/// A quotient of latencies.
fn times(quotient: f64) -> String {
    if quotient < 100.0 {
        format!("{quotient:.1}")
    } else {
        count(quotient)
    }
}

/// What the time line of a row tells; `None` for a row without one.
fn timeline(summary: &Summary, operation: &str) -> Option<String> {
    let row = &summary.row;
    if row.timeline.is_empty() || summary.rounds == 0 {
        return None;
    }
    let stalls = row.stalls();
    let longest = stalls
        .iter()
        .map(|(from, to)| to - from)
        .fold(0.0, f64::max);
    let slowest = row
        .timeline
        .iter()
        .map(|point| point.max_us)
        .fold(0.0, f64::max);
    let told = match stalls.len() {
        0 => "no stall".to_owned(),
        1 => format!("1 stall of {longest:.1} s"),
        many => format!("{many} stalls, the longest {longest:.1} s"),
    };
    Some(format!(
        "{}: {} {operation}: {told} in {:.1} s, slowest call {}, p99.9 is {} times the median\n",
        row.engine,
        row.test_name,
        row.timeline.last().map_or(0.0, |point| point.second),
        duration(slowest),
        times(row.tail())
    ))
}

fn reason(row: &Row) -> String {
    let mut text = String::new();
    if row.status == Status::Partial && row.operations_done > 0 {
        text.push_str(&format!(
            ", {} operations were done before",
            count(row.operations_done as f64)
        ));
    }
    if !row.error.is_empty() {
        text.push_str(": ");
        text.push_str(&row.error);
    }
    text
}

/// Each engine's version.
pub(super) fn versions(summaries: &[Summary]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for summary in summaries {
        let line = format!("{}: {}\n", summary.row.engine, summary.row.engine_version);
        if !summary.row.engine_version.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

fn line(summary: &Summary, operation: &str) -> Vec<String> {
    let row = &summary.row;
    let spread = if summary.rounds > 1 {
        format!("{:.0} %", summary.spread_percent())
    } else {
        String::new()
    };
    let bytes = |mebibytes: f64| size((mebibytes * MIB) as u64);
    vec![
        row.test_name.clone(),
        operation.to_owned(),
        row.engine.clone(),
        rate(row.ops_per_sec),
        spread,
        measured(row.p50_us, duration),
        measured(row.p99_us, duration),
        measured(row.p99_9_us, duration),
        tail(row),
        measured(row.max_us, duration),
        measured(row.wall_sec, |seconds| format!("{seconds:.2} s")),
        format!("{:.2} s", row.settle_sec),
        format!("{:.1}+{:.1} s", row.cpu_user_sec, row.cpu_sys_sec),
        measured(row.peak_rss_mb, bytes),
        bytes(row.disk_write_mb),
        measured(row.db_size_mb, bytes),
        measured(row.write_amp, |factor| format!("{factor:.2}")),
    ]
}

/// A rate; slow ones with two digits behind the point.
pub(super) fn rate(number: f64) -> String {
    if number > 0.0 && number < 10.0 {
        format!("{number:.2}")
    } else {
        count(number)
    }
}

/// A number without digits behind the point, with separators so that it can be read at a glance.
fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds in the unit that keeps the number short.
pub(super) fn duration(micros: f64) -> String {
    if micros < 10.0 {
        format!("{micros:.2} \u{b5}s")
    } else if micros < 1e3 {
        format!("{micros:.0} \u{b5}s")
    } else if micros < 1e6 {
        format!("{:.1} ms", micros / 1e3)
    } else {
        format!("{:.2} s", micros / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(count(0.0), "0");
        assert_eq!(rate(0.25), "0.25");
        assert_eq!(rate(12_345.0), "12,345");
        assert_eq!(count(999.4), "999");
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(duration(1.5), "1.50 \u{b5}s");
        assert_eq!(duration(2_500.0), "2.5 ms");
        assert_eq!(duration(2_500_000.0), "2.50 s");
    }

    #[test]
    fn time_lines_are_told_in_a_line() {
        let point = |second: f64, ops| kingtide_bench::TimelinePoint {
            second,
            ops,
            max_us: 1000.0 * second,
            ..kingtide_bench::TimelinePoint::default()
        };
        let row = Row {
            engine: "kingtide".into(),
            test_name: "t".into(),
            operation: "PUT".into(),
            p50_us: 2.0,
            p99_9_us: 9.0,
            timeline: vec![point(1.0, 10), point(2.0, 0), point(3.5, 10)],
            ..Row::default()
        };
        let text = results(&Summary::of(&[row]), None);
        let line = "kingtide: t PUT: 1 stall of 1.0 s in 3.5 s, slowest call 3.5 ms, p99.9 is 4.5 times the median";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("4.5 x"), "{text}");
    }

    #[test]
    fn failures_stand_below_the_table() {
        let good = Row {
            engine: "kingtide".into(),
            test_name: "t".into(),
            operation: "PUT".into(),
            ops_per_sec: 12345.0,
            engine_version: "1.0".into(),
            ..Row::default()
        };
        let bad = Row {
            engine: "rocksdb".into(),
            status: Status::Partial,
            error: "device full".into(),
            operations_done: 5000,
            ..good.clone()
        };
        let text = results(&Summary::of(&[good.clone(), bad]), None);
        assert!(text.contains("12,345"), "{text}");
        assert!(
            text.contains(
                "rocksdb: t PUT: partial, 5,000 operations were done before: device full"
            ),
            "{text}"
        );
        assert_eq!(versions(&Summary::of(&[good])), "kingtide: 1.0\n");
    }

    #[test]
    fn nothing_but_failures_needs_no_table() {
        let rows = [Row {
            error: "disk full".into(),
            ..row("read", Status::Failed)
        }];
        let text = results(&Summary::of(&rows), None);
        assert_eq!(text, "kingtide: all GET: failed: disk full\n");
    }

    fn row(workload: &str, status: Status) -> Row {
        Row {
            engine: "kingtide".into(),
            test_name: "all".into(),
            operation: "GET".into(),
            workload: workload.into(),
            ops_per_sec: 10.0,
            status,
            ..Row::default()
        }
    }

    #[test]
    fn rows_of_one_test_are_told_apart_in_the_table_and_below() {
        let broken = Row {
            error: "disk full".into(),
            ..row("ycsb-b", Status::Failed)
        };
        let rows = [
            row("read", Status::Ok),
            row("ycsb-a", Status::Ok),
            broken.clone(),
        ];
        let text = results(&Summary::of(&rows), None);
        assert!(text.contains("GET read"), "{text}");
        assert!(text.contains("GET ycsb-a"), "{text}");
        assert!(
            text.contains("kingtide: all GET ycsb-b: failed: disk full"),
            "{text}"
        );
        let text = results(&Summary::of(&[row("ycsb-b", Status::Ok), broken]), None);
        assert!(
            text.contains("kingtide: all GET: failed in 1 of 2 rounds: disk full"),
            "{text}"
        );
    }

    /// Goal: no figure stands where nothing was measured. Method: a row without any.
    #[test]
    fn what_was_not_measured_has_no_figure() {
        let rows = [row("read", Status::Ok)];
        let text = results(&Summary::of(&rows), None);
        let line = text.lines().nth(1).unwrap_or_default();
        assert!(!line.contains("0.00 \u{b5}s"), "{line}");
        assert_eq!(line.split_whitespace().last(), Some("-"), "{line}");
        assert_eq!(line.matches(" - ").count(), 9, "{line}");
    }
}
