//! `bench`: the front end of the benchmark. Every engine runs in a process of its own, in a directory of its own.

mod compare;
mod fitted;
mod interrupt;
mod progress;
mod result_file;
mod results;
mod show;
mod table;
mod targets;

use std::{env, fs, path::Path};

use kingtide_bench::{
    BenchError, MachineWatch, Workload, busy_warnings,
    suite::{Campaign, Ended, Options, Suite},
};
use tempfile::TempDir;

use crate::{
    args::{BenchAction, BenchArgs, BenchOptions, BenchSubject, Global},
    failure::{Failure, Result},
    output::Output,
};

use interrupt::Interrupts;
use progress::Progress;
use result_file::Older;
use results::Results;

const CHILD: &str = "bench-child";
const SPIN: &str = "spin";

pub(super) fn run(args: &BenchArgs, global: &Global, output: &mut Output) -> Result<()> {
    if global.family.is_some() || args.family.is_some() {
        let text = "a benchmark has families of its own: leave out --family".to_owned();
        return Err(usage(BenchError::Settings(text)));
    }
    match &args.action {
        Some(BenchAction::Compare(compare)) => return compare::run(compare, output),
        Some(BenchAction::Show(show)) => return show::run(show, output),
        None => (),
    }
    let suite = suite(args).map_err(usage)?;
    let interrupts =
        Interrupts::listen().map_err(Failure::io("listen to signals that end the program"))?;
    let parent = global.db.clone().unwrap_or_else(env::temp_dir);
    let directory = directory_in(&parent, args.outputs.keep)?;
    if let Some(traces) = &args.outputs.traces {
        fs::create_dir_all(traces).map_err(Failure::io(format!(
            "make the directory {}",
            traces.display()
        )))?;
    }
    let campaign = Campaign {
        suite,
        engines: args.engine.clone(),
        rounds: args.rounds,
        directory: directory.path().to_owned(),
        keep: args.outputs.keep,
        traces: args.outputs.traces.clone(),
        executable: env::current_exe().map_err(Failure::io("find this program's file"))?,
        serve: CHILD.to_owned(),
        spin: SPIN.to_owned(),
        interrupted: interrupts.came.clone(),
    };
    campaign.check().map_err(usage)?;
    let judged = campaign.engines.first().map_or("", |engine| &engine.label);
    let read: Vec<_> = args.suite.iter().cloned().collect();
    let results = Results::create(&args.outputs.files, &read, &campaign.suite.targets, judged)?;
    let machine = MachineWatch::start(&parent);
    let mut progress = Progress::new(&campaign, results, output);
    for warning in busy_warnings(&machine.info(), machine.busy_processors()) {
        progress.output.note(&warning);
    }
    let outcome = campaign.run(&machine, &mut progress);
    let runs = progress.runs;
    let (results, failures, mut notes) = progress.finish();
    notes.extend(busy_warnings(&machine.info(), machine.busy_processors()));
    let whereabouts = whereabouts(directory.path(), &parent, args.outputs.keep);
    notes.push(whereabouts.clone());
    let remark = outcome.as_ref().ok().and_then(|ended| remark(*ended, runs));
    let unwell = results.finish(&notes, remark.as_deref(), older(&outcome), output)?;
    // Otherwise the remarks under the table say so.
    if args.outputs.keep && output.json {
        output.note(&whereabouts);
    }
    outcome.map_err(failed)?;
    if let Some(remark) = remark {
        return Err(Failure::Interrupted(remark, interrupts.exit_code()));
    }
    if failures.is_empty() {
        return Ok(());
    }
    let message = if output.json || output.quiet {
        failures.join("; ")
    } else {
        unwell.to_string()
    };
    Err(Failure::Benchmark(message))
}

/// A directory for databases, which is removed at the end unless it is to be kept.
fn directory_in(parent: &Path, keep: bool) -> Result<TempDir> {
    let made = tempfile::Builder::new()
        .prefix("kingtide-bench-")
        .disable_cleanup(keep)
        .tempdir_in(parent);
    made.map_err(Failure::io(format!(
        "make a directory in {}",
        parent.display()
    )))
}

/// Where the databases are, or were.
fn whereabouts(directory: &Path, parent: &Path, keep: bool) -> String {
    match keep {
        true => format!("databases kept in {}", directory.display()),
        false => format!("databases were below {} and are removed", parent.display()),
    }
}

/// What is to be said of results that are not whole.
fn remark(ended: Ended, runs: usize) -> Option<String> {
    match ended {
        Ended::Whole => None,
        Ended::Interrupted(done) => Some(format!(
            "interrupted: {done} of {runs} runs were done; these results are not the whole suite's"
        )),
    }
}

/// What becomes of older results.
fn older(outcome: &kingtide_bench::Result<Ended>) -> Older {
    match outcome {
        Ok(Ended::Whole) => Older::Replaced,
        // Older ones may be whole.
        Ok(Ended::Interrupted(_)) | Err(_) => Older::Kept,
    }
}

fn usage(source: BenchError) -> Failure {
    Failure::Usage(source.to_string(), "see `kingtide help bench`")
}

fn failed(source: BenchError) -> Failure {
    match source {
        BenchError::Io(doing, source) => Failure::Io(doing, source),
        source => Failure::Benchmark(source.to_string()),
    }
}

/// The suite that is named, or one of a single test.
fn suite(args: &BenchArgs) -> kingtide_bench::Result<Suite> {
    let top = options(&args.options);
    let mut suite = match (&args.suite, &args.subject) {
        (Some(path), _) => {
            let text = fs::read_to_string(path)
                .map_err(|source| BenchError::Io(format!("read {}", path.display()), source))?;
            Suite::parse(&text, &top, args.scale)
                .map_err(|source| BenchError::Settings(format!("{}: {source}", path.display())))?
        }
        (None, Some(BenchSubject::Suite(name))) => built_in(name, &top, args.scale)?,
        (None, subject) => {
            let (name, workloads) = match subject {
                Some(BenchSubject::Workload(workload)) => (workload.name(), with_data(*workload)),
                Some(BenchSubject::All) => ("all", all_workloads()),
                _ => (
                    "default",
                    vec![Workload::Write, Workload::Read, Workload::Iterate],
                ),
            };
            Suite::of_one(name, &of_workloads(&workloads), &top, args.scale)?
        }
    };
    if let Some(text) = &args.only {
        suite.retain(text);
        if suite.tests.is_empty() {
            let message = format!("no test of the suite has {text:?} in its name");
            return Err(BenchError::Settings(message));
        }
    }
    Ok(suite)
}

fn built_in(name: &str, top: &Options, scale: f64) -> kingtide_bench::Result<Suite> {
    let missing = || BenchError::Settings(format!("there is no suite {name:?}"));
    Suite::built_in(name, top, scale).ok_or_else(missing)?
}

/// A workload, and in front of it what it needs to be there, which is reported too.
fn with_data(workload: Workload) -> Vec<Workload> {
    if workload.needs_data() {
        vec![Workload::Write, workload]
    } else {
        vec![workload]
    }
}

/// Every workload on one database, the one that leaves nothing last.
fn all_workloads() -> Vec<Workload> {
    let mut all = Workload::ALL.to_vec();
    all.sort_by_key(|workload| *workload == Workload::Delete);
    all
}

fn of_workloads(workloads: &[Workload]) -> Options {
    let step = |workload: &Workload| Options {
        workload: Some(*workload),
        ..Options::default()
    };
    Options {
        steps: Some(workloads.iter().map(step).collect()),
        ..Options::default()
    }
}

fn options(args: &BenchOptions) -> Options {
    Options {
        // A suite has steps of different lengths, so the number of keys must go with it.
        keys: args.keys.or(args.operations),
        operations: args.operations,
        threads: args.threads,
        batch: args.batch,
        range: args.range,
        key_bytes: args.key_bytes,
        key_prefix_bytes: args.key_prefix_bytes,
        value_bytes: args.value_bytes,
        value_content: args.value_content,
        compression_ratio: args.compression_ratio,
        pattern: args.pattern,
        zipfian_exponent: args.zipfian_exponent,
        read_share: args.read_share,
        seconds: args.seconds,
        rate: args.rate,
        timeline: args.timeline.then_some(true),
        families: args.families,
        sync: args.sync,
        sync_interval: args.sync_interval,
        cache: args.cache,
        memtable: args.memtable,
        codec: args.codec,
        bloom_bits: args.bloom_bits,
        block_index: args.no_block_index.then_some(false),
        background_jobs: args.background_jobs,
        seed: args.seed,
        time_limit: args.time_limit,
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_brings_what_it_reads() {
        assert_eq!(
            with_data(Workload::Range),
            [Workload::Write, Workload::Range]
        );
        assert_eq!(with_data(Workload::Write), [Workload::Write]);
        assert_eq!(all_workloads().last(), Some(&Workload::Delete));
    }
}
