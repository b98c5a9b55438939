//! Results as tables for people.

use kingtide_bench::{Row, Status, Summary};

use crate::{commands::inspect::new_table, text::size};

const MIB: f64 = (1 << 20) as f64;

/// One line for each operation of each test and engine, medians over the rounds; then what went wrong.
pub(super) fn results(summaries: &[Summary]) -> String {
    let mut table = new_table(&[
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
    ]);
    let mut failures = String::new();
    for summary in summaries {
        let row = &summary.row;
        if summary.rounds > 0 {
            table.add_row(line(summary));
        }
        if !row.is_ok() || summary.failed > 0 {
            let status = if row.is_ok() {
                Status::Failed
            } else {
                row.status
            };
            failures.push_str(&format!(
                "{}: {} {}: {} in {} of {} rounds{}\n",
                row.engine,
                row.test_name,
                row.operation,
                status.name(),
                summary.failed,
                summary.rounds + summary.failed,
                reason(row)
            ));
        }
    }
    let timelines: String = summaries.iter().filter_map(timeline).collect();
    format!("{table}\n{}{timelines}{failures}", versions(summaries))
}

/// How much slower the slowest of 1,000 calls is than the usual one.
fn tail(row: &Row) -> String {
    match row.tail() {
        tail if tail > 0.0 => format!("{} x", times(tail)),
        _ => String::new(),
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
fn timeline(summary: &Summary) -> Option<String> {
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
        "{}: {} {}: {told} in {} seconds, slowest call {}, p99.9 is {} times the median\n",
        row.engine,
        row.test_name,
        row.operation,
        row.timeline.len(),
        duration(slowest),
        times(row.tail())
    ))
}

fn reason(row: &Row) -> String {
    let mut text = String::new();
    if row.status == Status::Partial {
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
fn versions(summaries: &[Summary]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for summary in summaries {
        let line = format!("{}: {}\n", summary.row.engine, summary.row.engine_version);
        if !summary.row.engine_version.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

fn line(summary: &Summary) -> Vec<String> {
    let row = &summary.row;
    let operation = match (row.workload.as_str(), row.pattern.as_str()) {
        (_, "random") | ("iterate" | "missing", _) => row.operation.clone(),
        (_, pattern) => format!("{} {pattern}", row.operation),
    };
    let spread = if summary.rounds > 1 {
        format!("{:.0} %", summary.spread_percent())
    } else {
        String::new()
    };
    let bytes = |mebibytes: f64| size((mebibytes * MIB) as u64);
    vec![
        row.test_name.clone(),
        if row.workload == "missing" {
            format!("{operation} missing")
        } else {
            operation
        },
        row.engine.clone(),
        rate(row.ops_per_sec),
        spread,
        duration(row.p50_us),
        duration(row.p99_us),
        duration(row.p99_9_us),
        tail(row),
        duration(row.max_us),
        format!("{:.2} s", row.wall_sec),
        format!("{:.2} s", row.settle_sec),
        format!("{:.1}+{:.1} s", row.cpu_user_sec, row.cpu_sys_sec),
        bytes(row.peak_rss_mb),
        bytes(row.disk_write_mb),
        bytes(row.db_size_mb),
        format!("{:.2}", row.write_amp),
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
            timeline: vec![point(1.0, 10), point(2.0, 0), point(3.0, 10)],
            ..Row::default()
        };
        let text = results(&Summary::of(&[row]));
        let line = "kingtide: t PUT: 1 stall of 1.0 s in 3 seconds, slowest call 3.0 ms, p99.9 is 4.5 times the median";
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
        let text = results(&Summary::of(&[good, bad]));
        assert!(text.contains("12,345"), "{text}");
        assert!(text.contains("rocksdb: t PUT: partial in 1 of 1 rounds, 5,000 operations were done before: device full"), "{text}");
        assert!(text.contains("kingtide: 1.0"), "{text}");
    }
}
