//! The proofs over lists of operations: drawn ones under many settings, and all short ones with a power cut at every call.
//!
//! A limit of seconds decides how much is run, never whether it is right. Each proof prints the count that it reached.

use std::{
    ops::AddAssign,
    time::{Duration, Instant},
};

use clap::Subcommand;
use kingtide_testkit::{Checked, metamorphic};

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
    }
}

/// Runs the proofs at the length that changes must pass.
pub fn run_ci(threads: usize) -> Checked {
    run_metamorphic(
        METAMORPHIC_RUNS,
        METAMORPHIC_OPERATIONS,
        1,
        Some(90),
        threads,
    )
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
