//! A run: opens the engine, goes through the steps, closes it.
//!
//! Each step runs like this: all threads wait for each other; each opens a session, and takes portions of the
//! work from a shared counter until none are left, makes keys and values, times the call, and checks the answer
//! outside the timed part. Histograms, counts and times of the threads are added up afterwards.
//!
//! The time of a kind of operation is the time inside its calls, averaged over the threads that made some; the wall time of the step is
//! reported beside it. A thread that fails stops the others; what was counted until then is reported with the failure.

mod chooser;
mod mixed;
mod pace;
mod plan;
mod reads;
mod tally;
mod threads;
mod timeline;
mod walk;
mod worker;
mod writes;

use std::{fs, time::Instant};

use crate::{
    BenchError, Engine, Event, Result, RunEnd, Settings, StepReport, Usage, Workload, engines,
    measure,
};

use plan::Plan;
use tally::Tally;

/// How an engine is opened.
pub type Open = fn(&Settings) -> Result<Box<dyn Engine>>;

/// Runs `settings` in this process. `on_event` is told what happens, each step's report included.
///
/// # Errors
/// [`BenchError::Settings`] before anything is touched; what the engine and the system answer, after the report of the
/// step in which that happened. Wrong answers of the engine are no errors here: they are counted in the reports.
pub fn run(settings: &Settings, on_event: &mut dyn FnMut(Event)) -> Result<RunEnd> {
    run_with(settings, engines::open, on_event)
}

/// As [`run`], with an engine that is opened by `open`.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    settings: &Settings,
    open: Open,
    on_event: &mut dyn FnMut(Event),
) -> Result<RunEnd> {
    settings.check()?;
    fs::create_dir_all(&settings.directory).map_err(BenchError::io(format!(
        "create {}",
        settings.directory.display()
    )))?;
    let before = measure::Counters::read();
    let opening = Instant::now();
    let engine = open(settings)?;
    let mut end = RunEnd {
        version: engine.version(),
        notes: engine.notes(),
        open_seconds: opening.elapsed().as_secs_f64(),
        ..RunEnd::default()
    };
    on_event(Event::Opened {
        version: end.version.clone(),
        notes: end.notes.clone(),
    });
    let plan = Plan::new(settings);
    for number in 0..settings.steps.len() {
        on_event(Event::Begin { number });
        let (report, failure) = run_step(&*engine, &plan, number, on_event);
        end.user_bytes_written += report.user_bytes_written;
        end.user_bytes_read += report.user_bytes_read;
        on_event(Event::Step(Box::new(report)));
        if let Some(source) = failure {
            return Err(source);
        }
    }
    let closing = Instant::now();
    engine.close()?;
    end.close_seconds = closing.elapsed().as_secs_f64();
    end.closed_bytes = measure::disk_bytes(&settings.directory);
    end.live_bytes = plan.live_bytes();
    let usage = measure::Counters::read().since(&before);
    end.read_bytes = usage.read_bytes;
    end.written_bytes = usage.written_bytes;
    Ok(end)
}

/// Runs one step; when it fails the report holds what was counted until then.
fn run_step(
    engine: &dyn Engine,
    plan: &Plan<'_>,
    number: usize,
    on_event: &mut dyn FnMut(Event),
) -> (StepReport, Option<BenchError>) {
    let step = &plan.settings.steps[number];
    let started_at = measure::utc_now();
    let mut peaks = measure::PeakWatch::start();
    let before = measure::Counters::read();
    let mut ran = threads::run(engine, plan, step, &mut |done| {
        peaks.look();
        on_event(Event::Progress { done });
    });
    let settling = Instant::now();
    if ran.failure.is_none() && step.workload.writes() {
        on_event(Event::Settling);
        ran.failure = engine.settle().err();
    }
    let settle_seconds = settling.elapsed().as_secs_f64();
    let mut usage: Usage = measure::Counters::read().since(&before);
    peaks.finish(&mut usage);
    let settled_bytes = measure::disk_bytes(&plan.settings.directory);
    if ran.failure.is_none() {
        ran.failure = check_afterwards(engine, plan, step.workload, &mut ran.tally).err();
    }
    let mut operations = ran.tally.reports(&ran.timeline);
    let wall_seconds = ran.wall.as_secs_f64();
    if step.operations_per_second_max > 0.0 {
        // The time between calls is part of what was asked for.
        for operation in &mut operations {
            operation.call_seconds = wall_seconds;
        }
    }
    let report = StepReport {
        step: step.clone(),
        started_at,
        operations,
        wall_seconds,
        settle_seconds,
        usage,
        settled_bytes,
        user_bytes_written: ran.tally.bytes_written,
        user_bytes_read: ran.tally.bytes_read,
        missing: ran.tally.missing,
        wrong: ran.tally.wrong,
        failure: ran.failure.as_ref().map(ToString::to_string),
    };
    (report, ran.failure)
}

/// What can be checked only when all threads are done.
fn check_afterwards(
    engine: &dyn Engine,
    plan: &Plan<'_>,
    workload: Workload,
    tally: &mut Tally,
) -> Result<()> {
    match workload {
        Workload::Delete => writes::check_deleted(engine, plan, tally),
        Workload::Txn => mixed::check_families(engine, plan, tally),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
