//! The proofs over lists of operations: drawn ones under many settings, and all short ones with a power cut at every call.
//!
//! A limit of seconds decides how much is run, never whether it is right. Each proof prints the count that it reached.

use std::{
    ops::AddAssign,
    time::{Duration, Instant},
};

use clap::Subcommand;
use kingtide_testkit::{Checked, metamorphic, sequences};

use super::{finish, run_items};

#[derive(Subcommand)]
pub enum OperationProof {
    /// The same operations under different settings
    Metamorphic {
        /// Lists of operations, each under every configuration
        #[arg(long, default_value_t = METAMORPHIC_RUNS)]
        runs: u64,
        /// Operations of a list
        #[arg(long, default_value_t = METAMORPHIC_OPERATIONS)]
        operations: usize,
        /// The first seed; the others follow it
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Begin no new list after so many seconds
        #[arg(long)]
        seconds: Option<u64>,
    },
    /// All sequences of operations up to a length, in each sync mode, cut at every call, four images each
    Sequences {
        /// Letters of the longest sequences
        #[arg(long, default_value_t = 3)]
        length: u32,
        /// The first case; shorter sequences have lower numbers
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Cases [default: all up to the length]
        #[arg(long)]
        cases: Option<u64>,
        /// Begin no new case after so many seconds
        #[arg(long)]
        seconds: Option<u64>,
    },
}

const METAMORPHIC_RUNS: u64 = 2_000;
const METAMORPHIC_OPERATIONS: usize = 1_000;

/// Runs one proof.
pub fn run(proof: &OperationProof, threads: usize) -> Checked {
    match *proof {
        OperationProof::Metamorphic {
            runs,
            operations,
            seed,
            seconds,
        } => run_metamorphic(runs, operations, seed, seconds, threads),
        OperationProof::Sequences {
            length,
            first,
            cases,
            seconds,
        } => run_sequences(length, (first, cases), seconds, threads),
    }
}

/// Runs the proofs at the length that changes must pass.
pub fn run_ci(threads: usize) -> Checked {
    let proofs = [
        run_metamorphic(
            METAMORPHIC_RUNS,
            METAMORPHIC_OPERATIONS,
            1,
            Some(60),
            threads,
        ),
        run_sequences(2, (0, None), Some(120), threads),
    ];
    proofs.into_iter().collect()
}

fn run_sequences(
    length: u32,
    (first, cases): (u64, Option<u64>),
    seconds: Option<u64>,
    threads: usize,
) -> Checked {
    let all = sequences::count(length);
    let cases = cases.unwrap_or(all.saturating_sub(first));
    let item = |number| sequences::check(first + number);
    let name_of = |number| format!("case {}", first + number);
    let item = limited(seconds, &item);
    let report = run_items("sequences", cases, threads, &item, &name_of);
    let is_complete = report.tally.sequences == all;
    let text = format!(
        "{}, {}",
        report.tally,
        if is_complete {
            format!("complete up to length {length}")
        } else {
            format!("of {all} up to length {length}")
        }
    );
    finish("sequences", &report, &text)
}

fn run_metamorphic(
    runs: u64,
    operations: usize,
    first_seed: u64,
    seconds: Option<u64>,
    threads: usize,
) -> Checked {
    let item = |number| metamorphic::run(first_seed + number, operations);
    let name_of = |number| format!("seed {}", first_seed + number);
    let item = limited(seconds, &item);
    let report = run_items("metamorphic", runs, threads, &item, &name_of);
    finish("metamorphic", &report, &report.tally.to_string())
}

/// The item, which does nothing once so many seconds have passed.
fn limited<T: Default + AddAssign>(
    seconds: Option<u64>,
    item: &(dyn Fn(u64) -> Checked<T> + Sync),
) -> impl Fn(u64) -> Checked<T> + Sync {
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    move |number| {
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(T::default());
        }
        item(number)
    }
}
