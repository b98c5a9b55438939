//! Long runs: the parts of the programme that go on for as long as there is time, each behind the last seed of the ledger.
//!
//! Parts take turns of so many seconds. A turn begins seeds in order and ends with those that are under way when its time is
//! over, so what it ran is a stretch without holes; it is added to the ledger at once. A part is left out when it has reached
//! what is wanted of it, or has no seeds left.

use std::{
    ops::{AddAssign, Range},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use kingtide_ledger::{Ledger, Stretch, build};
use kingtide_sim::report::say;
use kingtide_testkit::{Checked, kill, metamorphic, sequences};

use super::{isolation, kill_child, run_items};

/// How long, and which parts.
#[derive(Args)]
pub struct LongProof {
    /// Begin no new seed after so many minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Seconds of a turn
    #[arg(long, default_value_t = 60)]
    turn: u64,
    /// Only parts whose name begins so
    #[arg(long, default_value = "")]
    only: String,
    /// The ledger, which is read and added to
    #[arg(long, default_value = "testing/ledger.csv")]
    ledger: PathBuf,
    /// Only print what the ledger says
    #[arg(long)]
    report: bool,
}

/// A part that follows from seeds.
pub struct Part {
    /// Its name in the ledger.
    pub name: String,
    /// What it counts.
    pub unit: &'static str,
    /// How much is wanted before a release, and in the long run.
    pub wanted: [u64; 2],
    /// The seeds that there are.
    pub seeds: Range<u64>,
    /// Runs one seed: how much that was.
    pub item: Box<dyn Fn(u64) -> Checked<u64> + Sync>,
}

/// What a turn went through.
#[derive(Clone, Copy, Default)]
struct Turn {
    seeds: u64,
    reached: u64,
}

impl AddAssign for Turn {
    fn add_assign(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.reached += other.reached;
    }
}

/// Kills of one seed.
const KILLS: u64 = 50;
/// Operations of one list.
const OPERATIONS: usize = 1_000;
/// Letters of the longest sequences: before a release, and in the long run.
const LENGTHS: [u32; 2] = [2, 3];

/// What other commands add to the ledger: `cargo sim run`, `cargo xtask shuttle`.
const OTHERS: [(&str, &str, [u64; 2]); 2] = [
    ("simulator", "power cuts", [100_000, 5_000_000]),
    ("shuttle", "schedules", [100_000, 10_000_000]),
];

/// How the parts of `scripts/fuzz` begin; they count seconds.
const FUZZ: &str = "fuzz ";
/// What is wanted of each of these.
const FUZZ_SECONDS: [u64; 2] = [60, 1_800];

fn parts() -> Vec<Part> {
    let mut parts = vec![
        Part {
            name: "kill-loop".to_owned(),
            unit: "kills",
            wanted: [2_000, 50_000],
            seeds: 1..u64::MAX,
            item: Box::new(|seed| {
                let tally = kill::run(KILLS, seed, &kill_child()?, &mut |_| {})?;
                Ok(tally.rounds)
            }),
        },
        Part {
            name: "metamorphic".to_owned(),
            unit: "operations",
            wanted: [12_000_000, 1_000_000_000],
            seeds: 1..u64::MAX,
            item: Box::new(|seed| metamorphic::run(seed, OPERATIONS).map(|tally| tally.operations)),
        },
        Part {
            name: "sequences".to_owned(),
            unit: "sequences",
            wanted: LENGTHS.map(sequences::count),
            seeds: 0..sequences::count(LENGTHS[1]),
            item: Box::new(|case| sequences::check(case).map(|tally| tally.sequences)),
        },
    ];
    parts.extend(isolation::parts());
    parts
}

/// Runs the parts, by turns, until the time is over.
///
/// # Errors
/// What was violated; the ledger holds it too.
pub fn run(proof: &LongProof, threads: usize) -> Checked {
    let mut ledger = Ledger::open(&proof.ledger)?;
    let mut parts = parts();
    parts.retain(|part| part.name.starts_with(&proof.only));
    if proof.report {
        return report(&ledger, &parts);
    }
    let build = build(Path::new("."));
    let length = Duration::try_from_secs_f64(proof.minutes * 60.0).unwrap_or_default();
    let end = Instant::now() + length;
    while Instant::now() < end {
        parts.retain(|part| {
            let is_reached = ledger.sum(&part.name).reached >= part.wanted[1];
            !is_reached && ledger.next(&part.name, part.seeds.start) < part.seeds.end
        });
        if parts.is_empty() {
            say("long: all parts have reached what is wanted of them");
            break;
        }
        for part in &parts {
            let turn_end = end.min(Instant::now() + Duration::from_secs(proof.turn));
            take_turn(part, &mut ledger, (turn_end, threads), &build)?;
        }
    }
    Ok(())
}

fn take_turn(
    part: &Part,
    ledger: &mut Ledger,
    (end, threads): (Instant, usize),
    build: &str,
) -> Checked {
    let first = ledger.next(&part.name, part.seeds.start);
    let item = |number| {
        if Instant::now() >= end {
            return Ok(Turn::default());
        }
        let reached = (part.item)(first + number)?;
        Ok(Turn { seeds: 1, reached })
    };
    // Once its time is over a turn goes through the seeds that are left, so there must not be too many.
    let count = (part.seeds.end - first).min(SEEDS_OF_TURN_MAX);
    let name_of = |number| format!("seed {}", first + number);
    let report = run_items("long", count, threads, &item, &name_of);
    let violations = report.violations.len() as u64;
    let Turn { seeds, reached } = report.tally;
    // Which seed it was stands in the violation; those under way beside it are not among the counted ones.
    let seeds = seeds + violations * threads as u64;
    if seeds == 0 {
        return Ok(());
    }
    let stretch = Stretch {
        part: part.name.clone(),
        first,
        last: (first + seeds - 1).min(part.seeds.end - 1),
        reached,
        unit: part.unit.to_owned(),
        violations,
        build: build.to_owned(),
    };
    say(&format!("long: {stretch}"));
    ledger.add(stretch)?;
    report.into_checked().map(drop)
}

/// Seeds of one turn, at most.
const SEEDS_OF_TURN_MAX: u64 = 100_000;

/// Prints what each part has reached of what is wanted.
fn report(ledger: &Ledger, parts: &[Part]) -> Checked {
    let mut rows: Vec<(String, String, [u64; 2])> = parts
        .iter()
        .map(|part| (part.name.clone(), part.unit.to_owned(), part.wanted))
        .collect();
    rows.extend(OTHERS.map(|(name, unit, wanted)| (name.to_owned(), unit.to_owned(), wanted)));
    for stretch in ledger.stretches() {
        let is_known = rows.iter().any(|(name, ..)| *name == stretch.part);
        if !is_known && stretch.part.starts_with(FUZZ) {
            rows.push((stretch.part.clone(), stretch.unit.clone(), FUZZ_SECONDS));
        }
    }
    say("| part | reached | of, before a release | of, in the long run | seeds | violations |");
    say("|---|---|---|---|---|---|");
    for (name, unit, [release, long]) in rows {
        let sum = ledger.sum(&name);
        say(&format!(
            "| {name} | {} {unit} | {} % of {release} | {} % of {long} | {} | {} |",
            sum.reached,
            (sum.reached * 100 / release.max(1)).min(100),
            (sum.reached * 100 / long.max(1)).min(100),
            sum.seeds,
            sum.violations
        ));
    }
    Ok(())
}
