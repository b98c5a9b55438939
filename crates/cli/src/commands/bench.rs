//! `bench`: the front end of the benchmark. Every engine runs in a process of its own, in a directory of its own.

use std::{env, path::Path};

use indicatif::ProgressBar;
use kingtide_bench::{
    BenchError, EngineChoice, Phase, PhaseReport, RunReport, Settings, Spinners, SyncChoice, child,
};
use serde_json::json;

use crate::{
    args::{BenchArgs, Global, Workload},
    commands::inspect::new_table,
    failure::{Failure, Result},
    output::Output,
    text::size,
};

const CHILD: &str = "bench-child";
const SPIN: &str = "spin";

pub(super) fn run(args: &BenchArgs, global: &Global, output: &mut Output) -> Result<()> {
    let executable = env::current_exe().map_err(Failure::io("find this program's file"))?;
    let parent = global.db.clone().unwrap_or_else(env::temp_dir);
    let directory = tempfile::Builder::new()
        .prefix("kingtide-bench-")
        .disable_cleanup(args.keep)
        .tempdir_in(&parent)
        .map_err(Failure::io(format!(
            "make a directory in {}",
            parent.display()
        )))?;
    let mut notes = vec![description(args, directory.path())];
    let spinners = (args.sync == SyncChoice::Full).then(|| Spinners::start(&executable, SPIN));
    notes.extend(spinners.as_ref().map(Spinners::note));

    let mut reports = Vec::new();
    let mut failures = Vec::new();
    let bar = output.spinner();
    for (number, engine) in engines(args).into_iter().enumerate() {
        let folder = directory
            .path()
            .join(format!("{}-{}", number + 1, engine.kind.name()));
        let settings = settings(args, engine, &folder);
        // Bad settings are the same for every engine, and the user's to mend.
        settings
            .check()
            .map_err(|source| Failure::Usage(source.to_string(), "see `kingtide help bench`"))?;
        let outcome = child::run_in_child(&executable, CHILD, &settings, &mut |phase| {
            show(&bar, engine, phase);
        });
        match outcome {
            Ok(report) => {
                if !report.is_right() {
                    failures.push(format!("{engine}: wrong answers"));
                }
                if output.json {
                    print_json(&report, output)?;
                }
                reports.push(report);
            }
            Err(source) => {
                // The other engines still run; the failure is told and is the exit code.
                failures.push(message_of(engine, &source));
                if output.json {
                    let object =
                        json!({"engine": engine.to_string(), "failure": source.to_string()});
                    output.object(&object)?;
                }
            }
        }
    }
    bar.finish_and_clear();
    drop(spinners);
    if !output.json {
        print_table(&reports, &notes, output)?;
    }
    if args.keep {
        output.note(&format!("databases kept in {}", directory.path().display()));
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(Failure::Benchmark(failures.join("; ")))
    }
}

/// Each engine once, in the order named.
fn engines(args: &BenchArgs) -> Vec<&EngineChoice> {
    let mut engines = Vec::new();
    for engine in &args.engine {
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    engines
}

fn message_of(engine: &EngineChoice, source: &BenchError) -> String {
    format!("{engine} was not measured: {source}")
}

fn show(bar: &ProgressBar, engine: &EngineChoice, phase: &str) {
    bar.set_message(format!("{}: {phase}", engine.kind.name()));
}

/// The phases of a workload. What a phase needs to be there is filled in first, and reported too.
fn phases(workload: Option<Workload>) -> Vec<Phase> {
    match workload {
        None => vec![Phase::Fill, Phase::Read, Phase::Scan],
        Some(Workload::All) => Phase::ALL.to_vec(),
        Some(Workload::One(Phase::Fill)) => vec![Phase::Fill],
        Some(Workload::One(phase)) => vec![Phase::Fill, phase],
    }
}

fn settings(args: &BenchArgs, engine: &EngineChoice, folder: &Path) -> Settings {
    Settings {
        library: engine.library.clone(),
        phases: phases(args.workload),
        operations: args.operations,
        threads: args.threads,
        batch_operations: args.batch,
        range_entries: args.range,
        key_bytes: args.key_bytes,
        value_bytes: args.value_bytes,
        compression_ratio: args.compression_ratio,
        pattern: args.pattern,
        sync: args.sync,
        sync_interval_millis: args.sync_interval,
        cache_bytes: args.cache,
        memtable_bytes: args.memtable,
        codec: args.codec,
        bloom_bits: args.bloom_bits,
        background_jobs: args.background_jobs,
        seed: args.seed,
        ..Settings::new(engine.kind, folder.to_owned())
    }
}

fn description(args: &BenchArgs, directory: &Path) -> String {
    format!(
        "{} keys of {} B, values of {} B (ratio {}), {} order, batches of {}, {} threads, sync {}, \
         {}, cache {}, memtable {}, bloom {} bits, seed {}, in {}",
        args.operations,
        args.key_bytes,
        args.value_bytes,
        args.compression_ratio,
        args.pattern.name(),
        args.batch,
        args.threads,
        args.sync.name(),
        args.codec.name(),
        size(args.cache as u64),
        size(args.memtable as u64),
        args.bloom_bits,
        args.seed,
        directory.display()
    )
}

fn print_json(report: &RunReport, output: &mut Output) -> Result<()> {
    let value = serde_json::to_value(report)
        .map_err(|source| Failure::Benchmark(format!("report: {source}")))?;
    output.object(&value)
}

fn print_table(reports: &[RunReport], notes: &[String], output: &mut Output) -> Result<()> {
    let mut table = new_table(&[
        "engine", "workload", "ops/s", "MB/s", "p50", "p99", "p99.9", "max", "wall", "settle",
        "cpu", "memory", "written", "on disk", "wrong",
    ]);
    for report in reports {
        for phase in &report.phases {
            table.add_row(row(report.engine, phase));
        }
    }
    if !reports.is_empty() {
        output.line(&table.to_string())?;
    }
    if output.quiet {
        return Ok(());
    }
    for note in notes {
        output.line(note)?;
    }
    for report in reports {
        output.line(&format!("{}: {}", report.engine.name(), report.version))?;
        for note in &report.notes {
            output.line(note)?;
        }
    }
    Ok(())
}

fn row(engine: kingtide_bench::EngineKind, phase: &PhaseReport) -> Vec<String> {
    let megabytes = phase.user_bytes as f64 / 1e6 / phase.call_seconds.max(1e-9);
    let usage = &phase.usage;
    vec![
        engine.name().to_owned(),
        phase.phase.name().to_owned(),
        count(phase.operations_per_second),
        format!("{megabytes:.1}"),
        duration(phase.latency.p50),
        duration(phase.latency.p99),
        duration(phase.latency.p999),
        duration(phase.latency.max),
        format!("{:.2} s", phase.wall_seconds),
        format!("{:.2} s", phase.settle_seconds),
        format!("{:.1}+{:.1} s", usage.user_seconds, usage.system_seconds),
        size(usage.peak_memory_bytes),
        size(usage.written_bytes),
        size(phase.database_bytes),
        (phase.missing + phase.wrong).to_string(),
    ]
}

/// A rate, with separators so that it can be read at a glance.
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

/// Nanoseconds in the unit that keeps the number short.
fn duration(nanos: u64) -> String {
    let nanos = nanos as f64;
    if nanos < 1e4 {
        format!("{:.2} \u{b5}s", nanos / 1e3)
    } else if nanos < 1e6 {
        format!("{:.0} \u{b5}s", nanos / 1e3)
    } else if nanos < 1e9 {
        format!("{:.1} ms", nanos / 1e6)
    } else {
        format!("{:.2} s", nanos / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(count(0.0), "0");
        assert_eq!(count(999.4), "999");
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(duration(1_500), "1.50 \u{b5}s");
        assert_eq!(duration(2_500_000), "2.5 ms");
    }

    #[test]
    fn a_workload_brings_what_it_reads() {
        assert_eq!(
            phases(Some(Workload::One(Phase::Ranges))),
            [Phase::Fill, Phase::Ranges]
        );
        assert_eq!(phases(Some(Workload::One(Phase::Fill))), [Phase::Fill]);
        assert_eq!(phases(Some(Workload::All)), Phase::ALL);
        assert_eq!(phases(None).len(), 3);
    }
}
