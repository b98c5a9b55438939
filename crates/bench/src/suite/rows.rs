//! From the reports of a run to the rows of a result file.

use std::borrow::Cow;

use crate::{
    BenchError, OperationKind, OperationReport, Pattern, Row, RunEnd, Settings, Status, Step,
    StepReport, SyncChoice, ValueContent, ValueSizes, Workload,
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
        operation: operation_of_all(step.workload).to_owned(),
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
        sync_enabled: settings.sync == SyncChoice::Full,
        sync_mode: settings.sync.name().to_owned(),
        compressibility: match settings.value_content {
            ValueContent::Marked => 1.0 - settings.compression_ratio,
            ValueContent::Counter => 1.0,
        },
        codec: settings.codec.name().to_owned(),
        cache_mb: settings.cache_bytes as f64 / MIB,
        memtable_mb: settings.memtable_bytes as f64 / MIB,
        seed: settings.seed,
        step: number as u64 + 1,
        settings: other_settings(settings, step),
        ..Row::default()
    }
}

/// What a row has no column for, of all that its numbers depend on.
fn other_settings(settings: &Settings, step: &Step) -> String {
    let draws = step.pattern == Pattern::Zipfian || step.workload.is_ycsb();
    let is_marked = settings.value_content == ValueContent::Marked;
    let has_interval = settings.sync == SyncChoice::Interval;
    let told: [(&str, bool, String); 13] = [
        ("keys", true, settings.keys.to_string()),
        (
            "key_prefix_bytes",
            settings.key_prefix_bytes > 0,
            settings.key_prefix_bytes.to_string(),
        ),
        (
            "value_bytes",
            !matches!(settings.value_sizes, ValueSizes::Fixed(_)),
            settings.value_sizes.to_string(),
        ),
        (
            "value_content",
            !is_marked,
            settings.value_content.name().to_owned(),
        ),
        (
            "families",
            settings.families > 1,
            settings.families.to_string(),
        ),
        (
            "sync_interval",
            has_interval,
            settings.sync_interval_millis.to_string(),
        ),
        ("bloom_bits", true, settings.bloom_bits.to_string()),
        (
            "block_index",
            !settings.block_index,
            settings.block_index.to_string(),
        ),
        (
            "background_jobs",
            true,
            settings.background_jobs.to_string(),
        ),
        ("zipfian_exponent", draws, step.zipfian_exponent.to_string()),
        (
            "read_share",
            step.workload == Workload::Mixed,
            step.read_share.to_string(),
        ),
        ("seconds", step.seconds > 0.0, step.seconds.to_string()),
        (
            "rate",
            step.operations_per_second_max > 0.0,
            step.operations_per_second_max.to_string(),
        ),
    ];
    let told = told.into_iter().filter(|(_, is_told, _)| *is_told);
    let told: Vec<String> = told
        .map(|(name, _, value)| format!("{name}={value}"))
        .collect();
    told.join(" ")
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
    let wrong = || {
        format!(
            "wrong answers: {} keys missing, {} keys or values wrong",
            report.missing, report.wrong
        )
    };
    match &report.failure {
        None if report.is_right() => (Status::Ok, Cow::Borrowed("")),
        None => (Status::Failed, Cow::Owned(wrong())),
        Some(failure) if report.missing == 0 && report.wrong == 0 => {
            (Status::Partial, Cow::Borrowed(failure))
        }
        Some(failure) => (
            Status::Failed,
            Cow::Owned(format!("{}; {failure}", wrong())),
        ),
    }
}

fn operation_row(of_step: Row, report: &OperationReport) -> Row {
    let latency = &report.latency;
    let micros = |nanos: u64| nanos as f64 / 1000.0;
    let is_read = matches!(
        report.kind,
        OperationKind::Get | OperationKind::Seek | OperationKind::Range
    );
    Row {
        operation: report.kind.name().to_owned(),
        batch_size: if is_read { 1 } else { of_step.batch_size },
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

/// The kind of operation that stands in a row of a step that was not reached: all of its operations.
fn operation_of_all(workload: Workload) -> &'static str {
    workload
        .operations()
        .last()
        .map_or("", |operation| operation.name())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::EngineKind;

    /// Goal: a row tells everything that its numbers depend on. Method: what has no column of its own, as a suite would say it.
    #[test]
    fn settings_without_a_column_are_told() {
        let mut settings = Settings::new(EngineKind::Kingtide, PathBuf::new());
        let mut step = Step::new(Workload::Read, 10);
        let always = "keys=500000 bloom_bits=10 background_jobs=2";
        assert_eq!(other_settings(&settings, &step), always);
        step.pattern = Pattern::Zipfian;
        assert_eq!(
            other_settings(&settings, &step),
            format!("{always} zipfian_exponent=0.99")
        );
        settings.keys = 7;
        settings.value_sizes = ValueSizes::Uniform(1, 9);
        settings.value_content = ValueContent::Counter;
        settings.block_index = false;
        settings.sync = SyncChoice::Interval;
        step = Step::new(Workload::Mixed, 10);
        (
            step.read_share,
            step.seconds,
            step.operations_per_second_max,
        ) = (0.95, 1.5, 100.0);
        assert_eq!(
            other_settings(&settings, &step),
            "keys=7 value_bytes=uniform:1-9 value_content=counter sync_interval=128 bloom_bits=10 block_index=false \
             background_jobs=2 read_share=0.95 seconds=1.5 rate=100"
        );
    }
}
