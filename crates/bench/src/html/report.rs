//! The report: result rows as one page.
//!
//! Rounds become medians with their spread ([`Summary`]). A *test* is what rows of different engines have in common; an
//! *engine* is a name, or a name and a version when the rows hold several versions of it. The page gets engines, tests
//! and, for each pair, the numbers; which engine the others are compared with is chosen on the page.

use serde_json::{Value, json};

use super::Page;
use crate::{
    MachineInfo, Row, Summary,
    suite::TargetLine,
    summary::place_of,
    test_key::{TestKey, test_labels},
};

/// The rows as one page. `machine` is shown at the top; without one, that of the first row that knows its machine.
///
/// Rows that failed or were cut short are marked and take no part in comparisons. `targets` become a table of their own; a
/// page without any has none.
///
/// ```
/// use kingtide_bench::{Row, html};
///
/// let row = |engine: &str, ops_per_sec| Row {
///     engine: engine.to_owned(),
///     test_name: "random write".to_owned(),
///     ops_per_sec,
///     ..Row::default()
/// };
/// let page = html::report(&[row("kingtide", 2e6), row("rocksdb", 1e6)], None, &[]);
/// assert!(page.starts_with("<!doctype html>"));
/// ```
#[must_use]
pub fn report(rows: &[Row], machine: Option<&MachineInfo>, targets: &[TargetLine]) -> String {
    render(report_data(rows, machine), targets)
}

/// As [`report`] of rows that are not all that was asked for; `remark` says so at the top.
#[must_use]
pub fn report_of_part(rows: &[Row], targets: &[TargetLine], remark: &str) -> String {
    let mut data = report_data(rows, None);
    data["remark"] = remark.into();
    render(data, targets)
}

fn render(mut data: Value, targets: &[TargetLine]) -> String {
    data["targets"] = targets.iter().map(target_json).collect();
    Page {
        title: "Kingtide: benchmark report",
        style: include_str!("charts.css"),
        script: concat!(include_str!("charts.js"), include_str!("report.js")),
        data: &data,
    }
    .render()
}

fn target_json(line: &TargetLine) -> Value {
    json!({
        "row": line.row,
        "metric": line.metric.name(),
        "number": line.metric,
        "engine": line.engine,
        "peer": line.peer,
        "value": line.value,
        "peer_value": line.peer_value,
        "ratios": line.ratios,
        "target": line.target,
        "at_least": line.metric.is_better_when_more(),
        "judgement": line.judgement,
        "verdict": line.judgement.name(),
    })
}

/// What the page shows.
fn report_data(rows: &[Row], machine: Option<&MachineInfo>) -> Value {
    let summaries = Summary::of(rows);
    let machine = machine.or_else(|| rows.iter().find_map(|row| row.machine.as_ref()));
    let mut engines: Vec<String> = Vec::new();
    let mut tests: Vec<TestKey> = Vec::new();
    let mut cells = Vec::new();
    for summary in &summaries {
        let engine = place_of(&mut engines, engine_label(&summaries, &summary.row));
        let test = place_of(&mut tests, TestKey::of(&summary.row));
        cells.push(cell(summary, rows, engine, test));
    }
    let labels = test_labels(&tests);
    let versions = engines.iter().map(|label| {
        let mut of_engine = summaries.iter().map(|summary| &summary.row);
        let row = of_engine.find(|row| engine_label(&summaries, row) == *label);
        json!({
            "name": label,
            "version": row.map_or("", |row| row.engine_version.as_str()),
        })
    });
    let versions: Vec<Value> = versions.collect();
    let tests: Vec<Value> = tests
        .iter()
        .zip(labels)
        .map(|(test, label)| test.to_json(&label))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started_at": rows.iter().map(|row| row.started_at.as_str()).filter(|at| !at.is_empty()).min(),
        "machine": machine,
        "engines": versions,
        "tests": tests,
        "cells": cells,
    })
}

/// The engine's name, with its version when the rows hold several of them.
fn engine_label(summaries: &[Summary], row: &Row) -> String {
    let has_others = summaries.iter().any(|other| {
        other.row.engine == row.engine && other.row.engine_version != row.engine_version
    });
    if has_others {
        format!("{} {}", row.engine, row.engine_version)
    } else {
        row.engine.clone()
    }
}

/// The numbers of one engine in one test.
fn cell(summary: &Summary, rows: &[Row], engine: usize, test: usize) -> Value {
    let row = &summary.row;
    let key = TestKey::of(row);
    let is_of_cell = |other: &&Row| {
        other.engine == row.engine
            && other.engine_version == row.engine_version
            && TestKey::of(other) == key
    };
    let timeline: Vec<Value> = row
        .whole_seconds()
        .iter()
        .map(|point| {
            json!([
                point.second,
                point.ops,
                point.p50_us,
                point.p99_us,
                point.p99_9_us,
                point.max_us
            ])
        })
        .collect();
    let errors: Vec<Value> = rows
        .iter()
        .filter(is_of_cell)
        .filter(|other| !other.is_ok())
        .map(|other| json!({"round": other.round, "status": other.status.name(), "error": other.error}))
        .collect();
    json!({
        "engine": engine,
        "test": test,
        "status": row.status.name(),
        "rounds": summary.rounds,
        "failed": summary.failed,
        "errors": errors,
        "stalls": row.stalls(),
        "timeline_seconds": row.timeline.last().map_or(0.0, |point| point.second),
        "timeline_max": row.timeline.iter().map(|point| point.max_us).fold(0.0, f64::max),
        "ops": row.ops_per_sec,
        "ops_min": summary.ops_per_sec_min,
        "ops_max": summary.ops_per_sec_max,
        "spread": summary.spread_percent() / 100.0,
        "avg": row.avg_latency_us, "stddev": row.stddev_us, "cv": row.cv_percent / 100.0,
        "p50": row.p50_us, "p95": row.p95_us, "p99": row.p99_us, "p99_9": row.p99_9_us,
        "min": row.min_us, "max": row.max_us,
        "rss": row.peak_rss_mb, "vms": row.peak_vms_mb,
        "read_mb": row.disk_read_mb, "write_mb": row.disk_write_mb,
        "cpu_user": row.cpu_user_sec, "cpu_sys": row.cpu_sys_sec, "cpu_percent": row.cpu_percent,
        "size": row.db_size_mb, "size_settled": row.db_size_settled_mb,
        "write_amp": row.write_amp, "read_amp": row.read_amp, "space_amp": row.space_amp,
        "wall": row.wall_sec, "settle": row.settle_sec,
        "wrong": row.wrong, "not_found": row.not_found,
        "timeline": timeline,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimelinePoint;

    /// Goal: a few calls in a sliver of a second are drawn as no rate. Method: time lines with such an end, and with a half.
    #[test]
    fn slivers_of_a_second_are_not_drawn() {
        let point = |second, ops| TimelinePoint {
            second,
            ops,
            max_us: second,
            ..TimelinePoint::default()
        };
        let row = |last| Row {
            timeline: vec![point(1.0, 100), point(2.0, 90), point(last, 20)],
            ..Row::default()
        };
        for (last, points) in [(2.0004, 2), (2.4, 2), (2.5, 3), (3.0, 3)] {
            let data = report_data(&[row(last)], None);
            let cell = &data["cells"][0];
            let drawn = cell["timeline"].as_array().map(Vec::len);
            assert_eq!(drawn, Some(points), "{last}");
            assert_eq!(cell["timeline_seconds"], last);
            assert_eq!(cell["timeline_max"], last, "the slowest call is told");
        }
    }
}
