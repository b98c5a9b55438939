//! Hermitage in every interleaving: the table of anomalies, each cell shown.
//!
//! A [`Scenario`] is a few transactions written as lists of steps, and a predicate that recognizes the anomaly in what
//! they read and left behind. It runs
//!
//! 1. in all [interleavings] of its steps,
//! 2. at each of the five levels, and with every mixture of levels: each transaction gets its own level's guarantees,
//! 3. with its data in each [`Place`]: in memory, in tables, flushed or merged between any two steps.
//!
//! A cell `P` of the table holds when the anomaly happens in none of them to a transaction of that level. A cell `a`
//! holds when at least one interleaving of each scenario shows it. Besides, every single answer of the database is
//! compared with what the level says it must be (`oracle.rs`), conflicts included: none is missed, none is made up.
//!
//! What no scenario thinks of is drawn: transactions of random steps, some of their interleavings, any levels, any place,
//! judged by the oracle alone.
//!
//! With a power cut after each step: `crashes.rs`.
//!
//! [interleavings]: Interleavings

mod crashes;
mod draw;
mod drive;
mod interleavings;
mod oracle;
mod scenario;
mod scenarios;
mod table;

pub use crashes::{CrashTally, run as run_crashes};
pub use drive::{Batch, Place, Program};
pub use interleavings::Interleavings;
pub use scenario::{Answer, Column, Outcome, Scenario};
pub use scenarios::SCENARIOS;
pub use table::Tally;

use std::sync::Arc;

use kingtide::IsolationLevel;

use super::LEVELS;
use crate::{random::Random, violation::Checked};

/// Interleavings that share a database.
const LANES_MAX: usize = 1024;

/// Orders in which a drawn program is run.
pub const DRAWN_INTERLEAVINGS: u64 = 32;

/// How much of everything is run.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Interleavings of a scenario at one level, in memory or in tables; more are sampled evenly.
    pub plain_max: u64,
    /// The same with flushes or merges between the steps.
    pub moving_max: u64,
    /// The same for each mixture of levels.
    pub mixed_max: u64,
    /// Programs that are drawn, each run in [`DRAWN_INTERLEAVINGS`] orders.
    pub drawn: u64,
    /// Chooses the samples and the drawn programs.
    pub seed: u64,
}

impl Extent {
    /// All interleavings where the data stay, a large share of the others: what changes must pass.
    pub const FULL: Self = Self {
        plain_max: u64::MAX,
        moving_max: 2_000,
        mixed_max: 400,
        drawn: 20_000,
        seed: 1,
    };
    /// Enough to fill every cell: what fits between two edits.
    pub const QUICK: Self = Self {
        plain_max: 300,
        moving_max: 100,
        mixed_max: 12,
        drawn: 400,
        seed: 1,
    };
}

/// The batches that make up `extent`.
#[must_use]
pub fn batches(extent: &Extent) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut random = Random::new(extent.seed);
    for index in 0..SCENARIOS.len() {
        let program = Arc::new(Program::of_scenario(index));
        let count = program.scripts.len();
        for place in Place::ALL {
            let max = match place {
                Place::Memory | Place::Unhashed | Place::Tables => extent.plain_max,
                Place::Flushed | Place::Merged => extent.moving_max,
            };
            for level in LEVELS {
                let levels = vec![level; count];
                add_batches(&mut batches, (&program, place, levels), max, &mut random);
            }
        }
        for levels in mixtures(count) {
            let place = *random.pick(&[Place::Memory, Place::Unhashed, Place::Tables]);
            add_batches(
                &mut batches,
                (&program, place, levels),
                extent.mixed_max,
                &mut random,
            );
        }
    }
    for _ in 0..extent.drawn {
        let program = draw::program(&mut random);
        let place = *random.pick(&Place::ALL);
        let levels = program
            .scripts
            .iter()
            .map(|_| *random.pick(&LEVELS))
            .collect();
        let program = (&Arc::new(program), place, levels);
        add_batches(&mut batches, program, DRAWN_INTERLEAVINGS, &mut random);
    }
    batches
}

/// The same in an order that the seed draws: the first of them are a sample of all.
#[must_use]
pub fn shuffled_batches(extent: &Extent) -> Vec<Batch> {
    let mut batches = batches(extent);
    let mut random = Random::new(!extent.seed);
    for end in (1..batches.len()).rev() {
        batches.swap(end, random.below(end + 1));
    }
    batches
}

/// All ways to give levels to transactions, but those in which all get the same.
fn mixtures(count: usize) -> Vec<Vec<IsolationLevel>> {
    let mut mixtures = vec![Vec::new()];
    for _ in 0..count {
        let longer = |mixture: Vec<IsolationLevel>| {
            LEVELS.map(|level| [mixture.clone(), vec![level]].concat())
        };
        mixtures = mixtures.into_iter().flat_map(longer).collect();
    }
    mixtures.retain(|mixture| mixture.iter().any(|level| *level != mixture[0]));
    mixtures
}

fn add_batches(
    batches: &mut Vec<Batch>,
    (program, place, levels): (&Arc<Program>, Place, Vec<IsolationLevel>),
    max: u64,
    random: &mut Random,
) {
    let count = program.interleavings().count();
    let stride = count.div_ceil(max.max(1));
    let first = random.draw() % stride;
    let numbers: Vec<u64> = (first..count)
        .step_by(usize::try_from(stride).unwrap_or(usize::MAX))
        .collect();
    for numbers in numbers.chunks(LANES_MAX) {
        batches.push(Batch {
            program: Arc::clone(program),
            place,
            levels: levels.clone(),
            numbers: numbers.to_vec(),
        });
    }
}

/// Runs one batch.
///
/// # Errors
/// A wrong answer, a missed or made-up conflict, or an anomaly that the level should have prevented, with the steps.
pub fn run_batch(batch: &Batch) -> Checked<Tally> {
    let mut tally = Tally::new();
    tally.schedules = batch.numbers.len() as u64;
    let has_one_level = batch.levels.iter().all(|level| *level == batch.levels[0]);
    if has_one_level {
        tally.of_one_level = tally.schedules;
    }
    let mut seen = |level: IsolationLevel| {
        let level = LEVELS.iter().position(|other| *other == level);
        let cell = batch.program.scenario.zip(level);
        if let Some((scenario, level)) = cell.filter(|_| has_one_level) {
            tally.seen[scenario][level] += 1;
        }
    };
    drive::run(batch, &mut seen)?;
    Ok(tally)
}
