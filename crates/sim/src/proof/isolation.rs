//! The proofs of isolation.
//!
//! A limit of seconds decides how much is run, never whether it is right. Each proof prints the count that it reached.

use std::{
    ops::AddAssign,
    time::{Duration, Instant},
};

use clap::Subcommand;
use kingtide::IsolationLevel;
use kingtide_testkit::{
    Checked, Violation,
    isolation::{
        LEVELS,
        hermitage::{self, CrashTally, Extent, Tally},
        history::{self, HistoryTally, Session},
        level_name,
        workloads::{self, Round, WorkTally},
    },
};

use kingtide_sim::report::say;

use super::{finish, long::Part, run_items};

#[derive(Subcommand)]
pub enum IsolationProof {
    /// The table of anomalies, in every interleaving of its scenarios
    Hermitage {
        /// Interleavings of a scenario with flushes or merges between the steps, at each level
        #[arg(long, default_value_t = Extent::FULL.moving_max)]
        moving: u64,
        /// Interleavings of a scenario for each mixture of levels
        #[arg(long, default_value_t = Extent::FULL.mixed_max)]
        mixed: u64,
        /// Chooses the samples
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Cuts the power after each step, and goes on with what was left
        #[arg(long)]
        crashes: bool,
        /// Ends so many seconds after its begin; with --crashes only
        #[arg(long, requires = "crashes")]
        seconds: Option<u64>,
        /// Only the batch of that number, as a violation names it; with --crashes only
        #[arg(long, requires = "crashes")]
        batch: Option<u64>,
    },
    /// Recorded histories of many threads at each level, explained read by read
    Histories {
        /// Transactions at each level
        #[arg(long, default_value_t = 1_000_000)]
        transactions: u64,
        /// The first seed; the others follow it
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Ends each level after so many seconds
        #[arg(long)]
        seconds: Option<u64>,
    },
    /// Programs with an invariant that only isolation keeps
    Workloads {
        /// Only this one: increments, skew, fractured, bank or set
        #[arg(long)]
        only: Option<String>,
        /// The lengths, times this number
        #[arg(long, default_value_t = 1)]
        times: u64,
        /// The first seed; the others follow it
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Ends each workload and level after so many seconds
        #[arg(long)]
        seconds: Option<u64>,
    },
}

/// A workload, its levels and its length at each of them.
struct Workload {
    name: &'static str,
    run: fn(&Round) -> Checked<WorkTally>,
    levels: &'static [IsolationLevel],
    operations: u64,
    /// Operations that share a database.
    of_round: u64,
    /// What it counts.
    what: &'static str,
    /// Its limit at each level, in the length that changes must pass.
    ci_seconds: u64,
}

const WITH_ONE_VIEW: &[IsolationLevel] = &[
    IsolationLevel::RepeatableRead,
    IsolationLevel::Snapshot,
    IsolationLevel::Serializable,
];

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "increments",
        run: workloads::increments,
        levels: WITH_ONE_VIEW,
        operations: 1_000_000,
        of_round: 25_000,
        what: "increments",
        ci_seconds: 10,
    },
    Workload {
        name: "skew",
        run: workloads::skew,
        levels: &[IsolationLevel::Serializable],
        operations: 1_000_000,
        of_round: 25_600,
        what: "pairs",
        ci_seconds: 40,
    },
    Workload {
        name: "fractured",
        run: workloads::fractured,
        levels: &LEVELS,
        operations: 3_400_000,
        of_round: 100_000,
        what: "reads of pairs",
        ci_seconds: 10,
    },
    Workload {
        name: "bank",
        run: workloads::bank,
        levels: WITH_ONE_VIEW,
        operations: 50_000,
        of_round: 250,
        what: "audits",
        ci_seconds: 8,
    },
    Workload {
        name: "set",
        run: workloads::set,
        levels: &LEVELS,
        operations: 100_000,
        of_round: 20_000,
        what: "inserts",
        ci_seconds: 4,
    },
];

/// Of the power cuts between the steps of Hermitage, in the length that changes must pass.
const CRASH_SECONDS: u64 = 15;

/// Runs one proof.
pub fn run(proof: &IsolationProof, threads: usize) -> Checked {
    match *proof {
        IsolationProof::Hermitage {
            moving,
            mixed,
            seed,
            crashes,
            seconds,
            batch,
        } => {
            let extent = Extent {
                moving_max: moving,
                mixed_max: mixed,
                seed,
                ..Extent::FULL
            };
            if crashes {
                return run_crashes(&extent, batch, (threads, seconds));
            }
            run_hermitage(&extent, threads)
        }
        IsolationProof::Histories {
            transactions,
            seed,
            seconds,
        } => run_histories(transactions, seed, seconds, threads),
        IsolationProof::Workloads {
            ref only,
            times,
            seed,
            seconds,
        } => {
            let is_wanted =
                |workload: &&Workload| only.as_ref().is_none_or(|only| only == workload.name);
            let mut wanted = WORKLOADS.iter().filter(is_wanted);
            wanted.try_for_each(|workload| run_workload(workload, (times, seed), seconds, threads))
        }
    }
}

/// The length that changes must pass.
pub fn run_ci(threads: usize) -> Checked {
    let proofs = [
        run_hermitage(&Extent::FULL, threads),
        run_crashes(&Extent::FULL, None, (threads, Some(CRASH_SECONDS))),
        run_histories(1_000_000, 1, Some(18), threads),
    ];
    proofs.into_iter().collect::<Checked>()?;
    WORKLOADS
        .iter()
        .try_for_each(|workload| run_workload(workload, (1, 1), Some(workload.ci_seconds), threads))
}

/// How much more than the full length the long run takes.
const LONG_TIMES: u64 = 50;
/// Transactions of each level in the long run.
const LONG_TRANSACTIONS: u64 = 100_000_000;

/// The parts of a long run: histories of each level, workloads at each of theirs.
pub fn parts() -> Vec<Part> {
    let histories = LEVELS.map(Some).into_iter().chain([None]);
    let histories = histories.map(|level| Part {
        name: format!("histories {}", level.map_or("mixed", level_name)),
        unit: "transactions",
        wanted: [1_000_000, LONG_TRANSACTIONS],
        seeds: 1..u64::MAX,
        item: Box::new(move |seed| {
            history::run(&session(level, seed)).map(|tally| tally.transactions)
        }),
    });
    let workloads = WORKLOADS.iter().flat_map(|workload| {
        workload.levels.iter().map(move |&level| Part {
            name: format!("{} {}", workload.name, level_name(level)),
            unit: workload.what,
            wanted: [workload.operations, workload.operations * LONG_TIMES],
            seeds: 1..u64::MAX,
            item: Box::new(move |seed| {
                run_round(workload, level, seed).map(|tally| tally.operations)
            }),
        })
    });
    histories.chain(workloads).collect()
}

/// As [`run_items`], until `seconds` have passed.
fn run_until<T: Default + AddAssign + Send>(
    name: &'static str,
    count: u64,
    (threads, seconds): (usize, Option<u64>),
    item: &(dyn Fn(u64) -> Checked<T> + Sync),
    name_of: &dyn Fn(u64) -> String,
) -> super::Report<T> {
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let item = |number| {
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(T::default());
        }
        item(number)
    };
    run_items(name, count, threads, &item, name_of)
}

fn run_hermitage(extent: &Extent, threads: usize) -> Checked {
    let batches = hermitage::batches(extent);
    let batch = |number: u64| &batches[usize::try_from(number).unwrap_or(0)];
    let item = |number| hermitage::run_batch(batch(number));
    let name_of = |number| format!("{:?}", batch(number));
    let count = batches.len() as u64;
    let report = run_items::<Tally>("hermitage", count, threads, &item, &name_of);
    let tally = &report.tally;
    let counts = format!(
        "{} schedules, {} of them at one level",
        tally.schedules, tally.of_one_level
    );
    finish("hermitage", &report, &counts)?;
    say(&tally.to_string());
    tally.check_possible()
}

/// Hermitage with a power cut after each step. Batches come in an order that the seed draws, so that those which a limit of
/// seconds lets through are a sample of all.
fn run_crashes(extent: &Extent, only: Option<u64>, limits: (usize, Option<u64>)) -> Checked {
    let batches = hermitage::shuffled_batches(extent);
    let count = batches.len() as u64;
    let (first, wanted) = match only {
        Some(number) if number < count => (number, 1),
        Some(_) => return Err(Violation::new(format!("there are {count} batches"))),
        None => (0, count),
    };
    let batch = |number: u64| &batches[usize::try_from(first + number).unwrap_or(0)];
    let name_of = |number| {
        format!(
            "cargo proof hermitage --crashes --moving {} --mixed {} --seed {} --batch {}",
            extent.moving_max,
            extent.mixed_max,
            extent.seed,
            first + number
        )
    };
    let item = |number| {
        hermitage::run_crashes(batch(number), extent.seed + first + number)
            .map_err(|violation| violation.within(name_of(number)))
    };
    let name = "hermitage, crashes";
    let report = run_until::<CrashTally>(name, wanted, limits, &item, &name_of);
    let schedules: usize = batches.iter().map(|batch| batch.numbers.len()).sum();
    let text = format!("{}; {schedules} schedules in all", report.tally);
    finish(name, &report, &text)
}

fn run_histories(transactions: u64, seed: u64, seconds: Option<u64>, threads: usize) -> Checked {
    let mut levels = LEVELS.map(Some).into_iter().chain([None]);
    levels.try_for_each(|level| run_level(transactions, seed, (level, seconds), threads))
}

fn session(level: Option<IsolationLevel>, seed: u64) -> Session {
    Session {
        seed,
        level,
        windows: 8,
        transactions: 5_000,
        independent_one_in: 4,
    }
}

fn run_round(workload: &Workload, level: IsolationLevel, seed: u64) -> Checked<WorkTally> {
    (workload.run)(&Round {
        seed,
        level,
        operations: workload.of_round,
        threads: 4,
    })
    .map_err(|violation| violation.within(format!("{}, seed {seed}", workload.name)))
}

/// One level, or a level of its own for each transaction.
fn run_level(
    transactions: u64,
    seed: u64,
    (level, seconds): (Option<IsolationLevel>, Option<u64>),
    threads: usize,
) -> Checked {
    let first = session(level, seed);
    let of_session = first.windows * first.transactions;
    let item = |number| history::run(&session(level, seed + number));
    let name_of = |number| format!("seed {}", seed + number);
    let name = level.map_or("mixed levels", level_name);
    let count = transactions.div_ceil(of_session);
    let report = run_until::<HistoryTally>(name, count, (threads, seconds), &item, &name_of);
    finish(
        &format!("histories, {name}"),
        &report,
        &report.tally.to_string(),
    )
}

fn run_workload(
    workload: &Workload,
    (times, seed): (u64, u64),
    seconds: Option<u64>,
    threads: usize,
) -> Checked {
    for level in workload.levels {
        let item = |number| run_round(workload, *level, seed + number);
        let name_of = |number| format!("seed {}", seed + number);
        let count = (workload.operations * times).div_ceil(workload.of_round);
        let limits = (threads.div_ceil(2), seconds);
        let report = run_until::<WorkTally>(workload.name, count, limits, &item, &name_of);
        let tally = &report.tally;
        let counts = format!(
            "{} {}, {} conflicts",
            tally.operations, workload.what, tally.conflicts
        );
        let name = format!("{}, {}", workload.name, level_name(*level));
        finish(&name, &report, &counts)?;
    }
    Ok(())
}
