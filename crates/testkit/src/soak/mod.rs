//! Soak: mixed load on a real directory for minutes or hours, while what the process takes is sampled.
//!
//! The run is a sequence of rounds. In a round a database is opened, workers with keys of their own put, get, scan,
//! delete, delete ranges, commit over two families, also in two phases, load in bulk, write long values, and create and
//! drop families, all of it compared with a model of fixed size; then everything is compared, now and then a copy is made, opened and compared too, and
//! the database is closed. Samples are taken while it is open; the end of a round, with the database closed, is a moment
//! at which nothing of it may be left: no descriptor, no thread.
//!
//! What makes it fail, besides a wrong answer:
//!
//! - a descriptor or a thread more after a round than after the first one (exact, so that any slope but 0 is found);
//! - resident memory above the budget x 1.15 + 16 MiB in any sample;
//! - a slope of resident memory above 1 MB per hour beyond noise: the least-squares slope over the medians of the rounds
//!   after the warm-up, less three times its standard error ([`slope`]). A short run has a wide error, and caches and the
//!   allocator still settle in it, for which a window below an hour is granted 4 MiB: what such a run can tell is
//!   printed as the bound (slope plus three errors), and only hours can tell 1 MB per hour;
//! - a disk that grows: the largest directory of the last third of the rounds above 1.5 times that of the third before,
//!   plus 64 MiB.
//!
//! It deliberately does not: cut power or damage files (other proofs do), or judge speed.

mod chart;
mod load;
mod sample;
pub mod slope;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use kingtide::{Db, FamilyOptions, LogLevel, LogOptions, Options};

use self::{
    load::{FAMILIES, WORKERS, Worker},
    sample::Sample,
    slope::Slope,
};
use crate::violation::{Checked, Violation, ensure};

/// The budget of the database, in bytes.
const BUDGET_BYTES: usize = 96 << 20;

/// Bytes per hour that resident memory may grow.
const SLOPE_MAX: f64 = 1e6;

/// What resident memory may grow by in a window that is shorter than [`SETTLED_HOURS`], whatever the slope.
const SETTLING_BYTES: f64 = 4.0 * 1024.0 * 1024.0;

/// After so many hours nothing settles any more.
const SETTLED_HOURS: f64 = 1.0;

/// How long and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long the load runs; comparing and closing come on top.
    pub length: Duration,
    /// Chooses operations; the order of threads is the machine's.
    pub seed: u64,
    /// Where `soak.csv` and `soak.svg` go, if anywhere.
    pub out: Option<PathBuf>,
}

/// What a run went through.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Calls whose answers were compared.
    pub operations: u64,
    /// Rounds: openings of the database.
    pub rounds: usize,
    /// Samples, for the table.
    samples: Vec<Sample>,
    /// Of resident memory, in bytes per hour; `None` when there were too few rounds.
    pub memory: Option<Slope>,
    /// The most resident memory that was seen, in bytes.
    pub resident_bytes_max: u64,
    /// What it was allowed to be.
    pub resident_bytes_allowed: u64,
    /// The largest directory, in bytes.
    pub disk_bytes_max: u64,
}

/// Runs the load; `progress` is told the seconds gone. What was seen is still to be judged ([`Summary::judge`]).
///
/// # Errors
/// A wrong answer, and a descriptor or thread that stayed.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(u64)) -> Checked<Summary> {
    let directory = tempfile::tempdir()?;
    let round_length =
        (settings.length / 30).clamp(Duration::from_secs(1), Duration::from_secs(30));
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|number| Worker::new(number, settings.seed))
        .collect();
    let mut samples: Vec<Sample> = Vec::new();
    let start = Instant::now();
    let mut closed_first: Option<Sample> = None;
    let mut round = 0;
    while start.elapsed() < settings.length {
        let path = directory.path().join("db");
        let until = Instant::now() + round_length;
        let outcome = run_round(&path, &mut workers, until, &mut |db| {
            samples.push(Sample::take(&path, db, round, start.elapsed())?);
            progress(start.elapsed().as_secs());
            Ok(())
        });
        outcome.map_err(|violation| {
            violation.within(format_args!("round {round}, seed {}", settings.seed))
        })?;
        if round % 8 == 3 {
            check_copy(&path, &directory.path().join("copy"), &mut workers)?;
        }
        let closed = Sample::take_closed(&path, round, start.elapsed())?;
        let first = closed_first.get_or_insert_with(|| closed.clone());
        check_closed(first, &closed)?;
        round += 1;
    }
    let operations = workers.iter().map(Worker::operations).sum();
    let summary = summarize(operations, round, samples)?;
    if let Some(out) = &settings.out {
        fs::create_dir_all(out)?;
        fs::write(out.join("soak.csv"), chart::csv(&summary.samples))?;
        fs::write(out.join("soak.svg"), chart::svg(&summary.samples))?;
    }
    Ok(summary)
}

fn options() -> Options {
    Options {
        memory_bytes_max: BUDGET_BYTES,
        block_cache_bytes: 16 << 20,
        write_wait_max: Duration::from_secs(120),
        log: LogOptions {
            level: LogLevel::None,
            ..LogOptions::default()
        },
        ..Options::default()
    }
}

fn family_options() -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 2 << 20,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}

type Sampler<'a> = dyn FnMut(&Db) -> Checked + 'a;

/// One opening: load until `until`, with a sample every half second, then everything compared.
fn run_round(
    path: &Path,
    workers: &mut [Worker],
    until: Instant,
    sampler: &mut Sampler<'_>,
) -> Checked {
    let db = Db::open(path, options())?;
    for worker in 0..WORKERS {
        for family in FAMILIES {
            db.open_family(&load::family_name(worker, family), family_options())?;
        }
    }
    thread::scope(|scope| {
        let running: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let db = &db;
                scope.spawn(move || worker.run(db, until))
            })
            .collect();
        let sampled = loop {
            let outcome = sampler(&db);
            let left = until.saturating_duration_since(Instant::now());
            if outcome.is_err() || left.is_zero() {
                break outcome;
            }
            thread::park_timeout(left.min(Duration::from_millis(500)));
        };
        for worker in running {
            worker
                .join()
                .unwrap_or_else(|_| Err(Violation::new("a worker panicked")))?;
        }
        sampled
    })?;
    for worker in workers.iter_mut() {
        worker.compare(&db)?;
    }
    db.close()?;
    Ok(())
}

/// A copy of the database shows the same, and goes.
fn check_copy(path: &Path, copy: &Path, workers: &mut [Worker]) -> Checked {
    let db = Db::open(path, options())?;
    db.backup(copy, &mut |_, _| {})?;
    db.close()?;
    let db = Db::open(copy, options())?;
    for worker in workers.iter_mut() {
        worker
            .compare(&db)
            .map_err(|violation| violation.within("a copy"))?;
    }
    db.close()?;
    fs::remove_dir_all(copy)?;
    Ok(())
}

fn check_closed(first: &Sample, now: &Sample) -> Checked {
    ensure(now.descriptors == first.descriptors, || {
        format!(
            "{} descriptors after round {}, {} after the first",
            now.descriptors, now.round, first.descriptors
        )
    })?;
    ensure(now.threads == first.threads, || {
        format!(
            "{} threads after round {}, {} after the first",
            now.threads, now.round, first.threads
        )
    })
}

fn summarize(operations: u64, rounds: usize, samples: Vec<Sample>) -> Checked<Summary> {
    // A third of the run is warm-up: caches fill, the allocator finds its size.
    let points: Vec<(f64, f64)> = (rounds.div_ceil(3)..rounds)
        .filter_map(|round| {
            let mut of: Vec<&Sample> = samples
                .iter()
                .filter(|sample| sample.round == round)
                .collect();
            of.sort_by_key(|sample| sample.resident_bytes);
            let middle = of.get(of.len() / 2)?;
            Some((
                middle.elapsed.as_secs_f64() / 3600.0,
                middle.resident_bytes as f64,
            ))
        })
        .collect();
    let most = |field: fn(&Sample) -> u64| samples.iter().map(field).max().unwrap_or(0);
    let summary = Summary {
        operations,
        rounds,
        memory: Slope::of(&points),
        resident_bytes_max: most(|sample| sample.resident_bytes),
        resident_bytes_allowed: (BUDGET_BYTES as f64 * 1.15) as u64 + (16 << 20),
        disk_bytes_max: most(|sample| sample.disk_bytes),
        samples,
    };
    ensure(summary.operations > 0, || "nothing was done".to_owned())?;
    Ok(summary)
}

impl Summary {
    /// Bytes per hour that a short window is granted.
    fn settling(&self) -> f64 {
        let hours = self
            .samples
            .last()
            .map_or(0.0, |sample| sample.elapsed.as_secs_f64() / 3600.0);
        let window = hours * 2.0 / 3.0;
        if window > 0.0 && window < SETTLED_HOURS {
            SETTLING_BYTES / window
        } else {
            0.0
        }
    }

    /// Compares memory and disk with what is allowed.
    ///
    /// # Errors
    /// What was too much.
    pub fn judge(&self) -> Checked {
        ensure(
            self.resident_bytes_max <= self.resident_bytes_allowed,
            || {
                format!(
                    "{} resident bytes, {} are allowed",
                    self.resident_bytes_max, self.resident_bytes_allowed
                )
            },
        )?;
        if let Some(memory) = &self.memory {
            ensure(memory.is_at_most(SLOPE_MAX + self.settling()), || {
                format!("resident memory grows by {memory} bytes per hour, beyond noise")
            })?;
        }
        let most_between = |from: usize, to: usize| {
            let rounds = from * self.rounds / 3..to * self.rounds / 3;
            let samples = self
                .samples
                .iter()
                .filter(|sample| rounds.contains(&sample.round));
            samples.map(|sample| sample.disk_bytes).max().unwrap_or(0)
        };
        let (before, last) = (most_between(1, 2), most_between(2, 3));
        ensure(last <= before + before / 4 + (64 << 20), || {
            format!(
                "the disk grows: {before} bytes at most in the second third, {last} in the last"
            )
        })
    }
}

impl fmt::Display for Summary {
    /// A table of about a dozen rows, and the verdicts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>8} {:>6} {:>12} {:>12} {:>6} {:>8} {:>8}",
            "seconds", "round", "resident", "disk", "files", "threads", "stalls"
        )?;
        let stride = self.samples.len().div_ceil(12).max(1);
        for sample in self.samples.iter().step_by(stride) {
            writeln!(
                f,
                "{:>8} {:>6} {:>12} {:>12} {:>6} {:>8} {:>8}",
                sample.elapsed.as_secs(),
                sample.round,
                mebibytes(sample.resident_bytes),
                mebibytes(sample.disk_bytes),
                sample.descriptors,
                sample.threads,
                sample.stalls
            )?;
        }
        writeln!(
            f,
            "resident: at most {} of {} allowed; disk: at most {}; descriptors and threads: equal after all {} rounds",
            mebibytes(self.resident_bytes_max),
            mebibytes(self.resident_bytes_allowed),
            mebibytes(self.disk_bytes_max),
            self.rounds
        )?;
        match &self.memory {
            None => write!(f, "memory slope: too few rounds to tell"),
            Some(memory) => write!(
                f,
                "memory slope: {:.1} MB/h, standard error {:.1}: this run can tell that it is below {:.1} MB/h",
                memory.slope / 1e6,
                memory.standard_error / 1e6,
                memory.upper_bound() / 1e6
            ),
        }
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests;
