//! A run: opens the engine, goes through the phases, closes it.
//!
//! Each phase runs like this: every thread opens a session; all wait for each other; then each takes portions of the
//! work from a shared counter until none are left, makes keys and values, times the call, and checks the answer
//! outside the timed part. Histograms, counts and times of the threads are added up afterwards.
//!
//! The time of a phase is the time inside calls, averaged over threads; the wall time is reported beside it.

mod phases;

use std::{
    fs,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use crate::{
    BenchError, Engine, KeyMaker, LatencyNanos, Permutation, Phase, PhaseReport, Result, RunReport,
    Session, Settings, ValueMaker, engines, measure,
};

// Three significant digits are kept, so a latency is off by 0.1 % at most.
const HISTOGRAM_DIGITS: u8 = 3;

/// Runs `settings` in this process. `on_phase` is told what begins.
///
/// # Errors
/// [`BenchError::Settings`] before anything is touched; what the engine and the system answer. Wrong answers of the
/// engine are no errors here: they are counted in the report.
pub fn run(settings: &Settings, on_phase: &mut dyn FnMut(&str)) -> Result<RunReport> {
    settings.check()?;
    fs::create_dir_all(&settings.directory).map_err(BenchError::io(format!(
        "create {}",
        settings.directory.display()
    )))?;
    let opening = Instant::now();
    let engine = engines::open(settings)?;
    let open_seconds = opening.elapsed().as_secs_f64();
    let mut report = RunReport {
        engine: settings.engine,
        version: engine.version(),
        phases: Vec::new(),
        open_seconds,
        close_seconds: 0.0,
        notes: engine.notes(),
    };
    let plan = Plan::new(settings);
    for phase in &settings.phases {
        on_phase(phase.name());
        report.phases.push(run_phase(&*engine, &plan, *phase)?);
    }
    let closing = Instant::now();
    engine.close()?;
    report.close_seconds = closing.elapsed().as_secs_f64();
    Ok(report)
}

/// What the threads of all phases share.
struct Plan<'a> {
    settings: &'a Settings,
    keys: KeyMaker,
    values: ValueMaker,
    write_order: Permutation,
    delete_order: Permutation,
}

impl<'a> Plan<'a> {
    fn new(settings: &'a Settings) -> Self {
        let count = settings.operations;
        Self {
            settings,
            keys: KeyMaker::new(settings.key_bytes),
            values: ValueMaker::new(
                settings.value_bytes,
                settings.compression_ratio,
                settings.seed,
            ),
            write_order: Permutation::new(count, settings.seed),
            delete_order: Permutation::new(count, settings.seed ^ 0x64656c),
        }
    }
}

/// What one thread has counted.
struct Tally {
    histogram: Histogram<u64>,
    in_calls: Duration,
    operations: u64,
    user_bytes: u64,
    missing: u64,
    wrong: u64,
}

impl Tally {
    fn new() -> Result<Self> {
        Ok(Self {
            histogram: Histogram::new(HISTOGRAM_DIGITS)
                .map_err(|source| BenchError::Settings(format!("histogram: {source}")))?,
            in_calls: Duration::ZERO,
            operations: 0,
            user_bytes: 0,
            missing: 0,
            wrong: 0,
        })
    }

    /// Times one call that does `operations` operations.
    fn time<T>(&mut self, operations: u64, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let answer = call()?;
        let elapsed = start.elapsed();
        self.in_calls += elapsed;
        self.operations += operations;
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        // The histogram resizes itself; a latency it cannot hold (centuries) counts as its highest.
        self.histogram.saturating_record(nanos);
        Ok(answer)
    }

    fn add(&mut self, other: &Self) {
        // Adding fails only when the sum of resizable histograms cannot be represented: they have the same digits.
        let _ = self.histogram.add(&other.histogram);
        self.in_calls += other.in_calls;
        self.operations += other.operations;
        self.user_bytes += other.user_bytes;
        self.missing += other.missing;
        self.wrong += other.wrong;
    }
}

/// One thread's part of a phase.
struct Worker<'a> {
    plan: &'a Plan<'a>,
    session: Box<dyn Session + 'a>,
    next: &'a AtomicU64,
    number: u64,
    tally: Tally,
}

impl Worker<'_> {
    /// The next portion of `0 .. total`, at most `size` long, that no thread has taken; `None` when there is none.
    fn take(&self, total: u64, size: u64) -> Option<std::ops::Range<u64>> {
        // Relaxed: the counter publishes nothing but itself.
        let start = self.next.fetch_add(size, Ordering::Relaxed);
        (start < total).then(|| start..total.min(start.saturating_add(size)))
    }
}

fn run_phase(engine: &dyn Engine, plan: &Plan<'_>, phase: Phase) -> Result<PhaseReport> {
    measure::reset_peak_memory();
    let before = measure::Counters::read();
    let (mut tally, wall) = run_threads(engine, plan, phase)?;
    let settling = Instant::now();
    if matches!(phase, Phase::Fill | Phase::Delete) {
        engine.settle()?;
    }
    let settle = settling.elapsed();
    let mut usage = measure::Counters::read().since(&before);
    usage.peak_memory_bytes = measure::peak_memory_bytes();
    if phase == Phase::Delete {
        phases::check_empty(engine, plan, &mut tally)?;
    }
    let call_seconds = tally.in_calls.as_secs_f64() / plan.settings.threads as f64;
    Ok(PhaseReport {
        phase,
        operations: tally.operations,
        calls: tally.histogram.len(),
        user_bytes: tally.user_bytes,
        wall_seconds: wall.as_secs_f64(),
        call_seconds,
        operations_per_second: tally.operations as f64 / call_seconds.max(1e-9),
        settle_seconds: settle.as_secs_f64(),
        latency: LatencyNanos::of(&tally.histogram),
        usage,
        database_bytes: measure::disk_bytes(&plan.settings.directory),
        missing: tally.missing,
        wrong: tally.wrong,
    })
}

fn run_threads(engine: &dyn Engine, plan: &Plan<'_>, phase: Phase) -> Result<(Tally, Duration)> {
    let threads = plan.settings.threads;
    let next = AtomicU64::new(0);
    // The threads and this one.
    let gate = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let (next, gate) = (&next, &gate);
        let mut started = Vec::new();
        for number in 0..threads {
            started.push(scope.spawn(move || -> Result<Tally> {
                let session = engine.session();
                let tally = Tally::new();
                // Every thread must reach the gate, also one that cannot go on.
                gate.wait();
                let mut worker = Worker {
                    plan,
                    session: session?,
                    next,
                    number: number as u64,
                    tally: tally?,
                };
                phases::run(&mut worker, phase)?;
                Ok(worker.tally)
            }));
        }
        gate.wait();
        let start = Instant::now();
        let mut total = Tally::new()?;
        let mut failure = None;
        for thread in started {
            match thread.join() {
                Ok(Ok(tally)) => total.add(&tally),
                Ok(Err(source)) => failure = Some(source),
                Err(_) => failure = Some(BenchError::Engine("a thread panicked".into())),
            }
        }
        match failure {
            Some(source) => Err(source),
            None => Ok((total, start.elapsed())),
        }
    })
}

#[cfg(test)]
mod tests;
