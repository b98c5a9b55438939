//! From the reports of a run to the rows of a result file.

use std::borrow::Cow;

use crate::{
    BenchError, OperationReport, Row, RunEnd, Settings, Status, Step, StepReport, ValueContent,
    Workload,
};

use super::Run;

const MIB: f64 = (1 << 20) as f64;

/// What is known of a run, whether or not it came to its end.
pub(super) struct Outcome<'a> {
    pub(super) version: &'a str,
    pub(super) reports: &'a [StepReport],
    /// How far the step was that had begun and has no report.
    pub(super) cut: Option<Cut>,
    /// Or why it did not come to it.
    pub(super) end: std::result::Result<&'a RunEnd, &'a BenchError>,
}

impl Outcome<'_> {
    fn is_interrupted(&self) -> bool {
        matches!(self.end, Err(BenchError::Interrupted))
    }
}

/// How far a step was when its process ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    /// As it told last.
    pub(super) done: u64,
    /// From its beginning until then.
    pub(super) wall_seconds: f64,
}

/// A row for each kind of operation of each measured step; what was not reached has one that says so, unless the user
/// ended the run.
pub(super) fn rows(run: &Run<'_>, settings: &Settings, outcome: &Outcome<'_>) -> Vec<Row> {
    let failure = outcome.end.err().map(ToString::to_string);
    let mut rows = Vec::new();
    for (number, step) in settings.steps.iter().enumerate() {
        let report = outcome.reports.get(number);
        let is_next = number == outcome.reports.len();
        // A preparation that went wrong is worth a row too.
        let is_told = step.is_measured
            || report.is_some_and(|report| !report.is_right())
            || is_next && (outcome.cut.is_some() || outcome.is_interrupted());
        if !is_told {
            continue;
        }
        let base = base_row(run, settings, number, outcome.version);
        match report {
            Some(report) if !report.operations.is_empty() => {
                let of_step = step_row(base, report, outcome.end.ok());
                rows.extend(
                    report
                        .operations
                        .iter()
                        .map(|operation| operation_row(of_step.clone(), operation)),
                );
            }
            _ => {
                let why = report.and_then(|report| report.failure.as_deref());
                let why = why.or(failure.as_deref()).unwrap_or("nothing was done");
                let cut = outcome.cut.filter(|_| is_next).unwrap_or_default();
                rows.push(Row {
                    error: why.to_owned(),
                    ..cut_row(base, step, cut, is_next && outcome.is_interrupted())
                });
            }
        }
        if is_next && outcome.is_interrupted() {
            break;
        }
    }
    if let Some(failure) = failure {
        tell_failure(run, &mut rows, failure, outcome);
    }
    rows
}

/// A row of a step that has no report: what was done until its process ended, if anything.
fn cut_row(base: Row, step: &Step, cut: Cut, is_interrupted: bool) -> Row {
    let operations_done = match step.workload {
        // Its progress counts no entries.
        Workload::Iterate => 0,
        _ if step.seconds > 0.0 => cut.done,
        // Threads take more than there is when they are at the end.
        _ => cut.done.min(step.operations),
    };
    Row {
        operation: first_operation(step.workload).to_owned(),
        status: if is_interrupted || operations_done > 0 {
            Status::Partial
        } else {
            Status::Failed
        },
        operations_done,
        wall_sec: cut.wall_seconds,
        ..base
    }
}

/// Sees to it that a failure stands in a row.
fn tell_failure(run: &Run<'_>, rows: &mut Vec<Row>, failure: String, outcome: &Outcome<'_>) {
    let status = if outcome.is_interrupted() {
        Status::Partial
    } else {
        Status::Failed
    };
    match rows.last_mut() {
        // A failure between steps or at the end belongs to the last thing that was measured.
        Some(row) if row.is_ok() => {
            row.status = status;
            row.error = failure;
        }
        Some(_) => {}
        None => rows.push(Row {
            engine: run.engine.label.clone(),
            test_name: run.test.name.clone(),
            suite: run.suite.to_owned(),
            round: run.round,
            status,
            error: failure,
            ..Row::default()
        }),
    }
    if matches!(outcome.end, Err(BenchError::Missing(_))) {
        rows.truncate(1);
    }
}

/// What a row says about the settings.
fn base_row(run: &Run<'_>, settings: &Settings, number: usize, version: &str) -> Row {
    let step = &settings.steps[number];
    let has_ranges = matches!(step.workload, Workload::Range | Workload::YcsbE);
    let has_batches = matches!(
        step.workload,
        Workload::Write | Workload::Delete | Workload::Mixed | Workload::Txn
    );
    Row {
        engine: run.engine.label.clone(),
        engine_version: version.to_owned(),
        suite: run.suite.to_owned(),
        test_name: run.test.name.clone(),
        round: run.round,
        workload: step.workload.name().to_owned(),
        pattern: step.pattern.name().to_owned(),
        threads: step.threads as u64,
        num_operations: step.operations,
        batch_size: if has_batches {
            step.batch_operations as u64
        } else {
            1
        },
        key_size: settings.key_bytes as u64,
        value_size: settings.value_sizes.mean().round() as u64,
        range_size: if has_ranges { step.range_entries } else { 0 },
        sync_enabled: settings.sync == crate::SyncChoice::Full,
        sync_mode: settings.sync.name().to_owned(),
        compressibility: match settings.value_content {
            ValueContent::Marked => 1.0 - settings.compression_ratio,
            ValueContent::Counter => 1.0,
        },
        codec: settings.codec.name().to_owned(),
        cache_mb: settings.cache_bytes as f64 / MIB,
        memtable_mb: settings.memtable_bytes as f64 / MIB,
        seed: settings.seed,
        ..Row::default()
    }
}

/// What all operations of a step have in common.
fn step_row(base: Row, report: &StepReport, end: Option<&RunEnd>) -> Row {
    let usage = &report.usage;
    let ratio = |part: u64, whole: u64| {
        if whole == 0 {
            0.0
        } else {
            part as f64 / whole as f64
        }
    };
    let (status, error) = judge(report);
    let mut row = Row {
        peak_rss_mb: usage.peak_memory_bytes as f64 / MIB,
        peak_vms_mb: usage.peak_address_bytes as f64 / MIB,
        disk_read_mb: usage.read_bytes as f64 / MIB,
        disk_write_mb: usage.written_bytes as f64 / MIB,
        cpu_user_sec: usage.user_seconds,
        cpu_sys_sec: usage.system_seconds,
        cpu_percent: usage.processor_percent(),
        db_size_settled_mb: report.settled_bytes as f64 / MIB,
        wall_sec: report.wall_seconds,
        settle_sec: report.settle_seconds,
        started_at: report.started_at.clone(),
        wrong: report.wrong,
        not_found: report.missing,
        status,
        error: error.into_owned(),
        ..base
    };
    if let Some(end) = end {
        row.db_size_mb = end.closed_bytes as f64 / MIB;
        row.write_amp = ratio(end.written_bytes, end.user_bytes_written);
        row.read_amp = ratio(end.read_bytes, end.user_bytes_read);
        row.space_amp = ratio(end.closed_bytes, end.live_bytes);
    }
    row
}

fn judge(report: &StepReport) -> (Status, Cow<'_, str>) {
    if let Some(failure) = &report.failure {
        return (Status::Partial, Cow::Borrowed(failure));
    }
    if report.is_right() {
        return (Status::Ok, Cow::Borrowed(""));
    }
    let text = format!(
        "wrong answers: {} keys missing, {} keys or values wrong",
        report.missing, report.wrong
    );
    (Status::Failed, Cow::Owned(text))
}

fn operation_row(of_step: Row, report: &OperationReport) -> Row {
    let latency = &report.latency;
    let micros = |nanos: u64| nanos as f64 / 1000.0;
    Row {
        operation: report.kind.name().to_owned(),
        operations_done: report.operations,
        ops_per_sec: report.operations_per_second(),
        duration_sec: report.call_seconds,
        avg_latency_us: latency.mean / 1000.0,
        stddev_us: latency.deviation / 1000.0,
        cv_percent: if latency.mean > 0.0 {
            latency.deviation / latency.mean * 100.0
        } else {
            0.0
        },
        p50_us: micros(latency.p50),
        p95_us: micros(latency.p95),
        p99_us: micros(latency.p99),
        p99_9_us: micros(latency.p999),
        min_us: micros(latency.min),
        max_us: micros(latency.max),
        timeline: report.timeline.clone(),
        ..of_step
    }
}

/// The kind of operation that stands in a row of a step that was not reached.
fn first_operation(workload: Workload) -> &'static str {
    use crate::OperationKind;
    match workload {
        Workload::Write => OperationKind::Put,
        Workload::Read | Workload::Missing => OperationKind::Get,
        Workload::Delete => OperationKind::Delete,
        Workload::Seek => OperationKind::Seek,
        Workload::Range => OperationKind::Range,
        Workload::Iterate => OperationKind::Iter,
        Workload::Rmw => OperationKind::Rmw,
        Workload::Txn => OperationKind::Txn,
        Workload::Mixed
        | Workload::YcsbA
        | Workload::YcsbB
        | Workload::YcsbC
        | Workload::YcsbD
        | Workload::YcsbE
        | Workload::YcsbF => OperationKind::All,
    }
    .name()
}
