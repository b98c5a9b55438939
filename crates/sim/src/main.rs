//! `kingtide-sim`: the real engine, with all its background threads, in an order of threads that follows from a seed.
//!
//! Simulations need a build with `--cfg simulated`; `cargo sim` makes and runs one. The proofs that run on threads of the
//! system are for ordinary builds: `cargo proof`.

#[cfg(simulated)]
mod commands;
mod proof;

use std::{num::NonZero, path::PathBuf, process::ExitCode, thread};

use clap::{Parser, Subcommand, ValueEnum};

#[derive(Parser)]
#[command(
    name = "kingtide-sim",
    about = "Shows that Kingtide keeps its promises: on simulated threads, and on real ones",
    after_help = "A violation is written to a plan file; `replay` shows it again and `reduce` makes it small.\n\
                  Exit codes: 0 no violation, 1 a violation, 2 wrong use."
)]
struct Arguments {
    /// Simulations, or threads of a proof, at the same time [default: one per core]
    #[arg(long, global = true)]
    jobs: Option<usize>,
    /// Run with one of the zoo's bugs, to see what happens
    #[arg(long, global = true, value_name = "BUG")]
    plant: Option<String>,
    #[command(subcommand)]
    command: Command,
}

/// Operations of a seed, unless told otherwise.
const OPERATIONS: u64 = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Seeds take turns between the others
    All,
    /// One client, compared with the model after every operation
    Model,
    /// Several clients and power cuts
    Clients,
    /// Several clients whose transactions are explained
    History,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Proof(proof::Proof),
    /// Runs seeds, each twice: both runs must go the same way
    Run {
        /// The first seed; the others follow it
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Seeds
        #[arg(long, default_value_t = 1)]
        seeds: u64,
        /// Operations of each seed
        #[arg(long, default_value_t = OPERATIONS)]
        operations: u64,
        /// What the clients do
        #[arg(long, value_enum, default_value_t = Kind::All)]
        scenario: Kind,
        /// Stop after so many power cuts
        #[arg(long)]
        cuts: Option<u64>,
        /// Begin no new seed after so many seconds
        #[arg(long)]
        seconds: Option<u64>,
        /// One run of each seed only
        #[arg(long)]
        once: bool,
        /// Add what was reached to this file and go on after the seeds that it has
        #[arg(long)]
        ledger: Option<PathBuf>,
    },
    /// Shows a plan again
    Replay {
        /// A plan file
        file: PathBuf,
    },
    /// Makes a failing plan small
    Reduce {
        /// A plan file
        file: PathBuf,
        /// Where the small plan goes [default: next to the file, ending with `.small.plan`]
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Cuts the power at every call of a run of several clients, with every image
    Crash {
        /// `all`, a call, or a range of calls (`100-200`)
        #[arg(long, default_value = "all")]
        at: String,
        /// Chooses the run
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Operations of the run
        #[arg(long, default_value_t = 60)]
        operations: u64,
    },
    /// Plants known bugs, one after the other: each must be caught
    Zoo {
        /// Only bugs whose name holds this
        #[arg(default_value = "")]
        filter: String,
        /// Show what each was caught by
        #[arg(long)]
        violations: bool,
    },
    /// Explains transactions of several clients by their isolation level
    History {
        /// A level, or `mixed`
        #[arg(long, default_value = "mixed")]
        level: String,
        /// The first seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Seeds
        #[arg(long, default_value_t = 10)]
        seeds: u64,
        /// Transactions of each seed
        #[arg(long, default_value_t = 2000)]
        transactions: u64,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    match arguments.command {
        Command::Proof(proof) => match proof::run(proof, jobs) {
            Ok(()) => ExitCode::SUCCESS,
            Err(violation) => {
                kingtide_sim::report::say(&format!("VIOLATION: {violation}"));
                ExitCode::FAILURE
            }
        },
        #[cfg(simulated)]
        command => commands::run(command, arguments.plant.as_deref(), jobs),
        #[cfg(not(simulated))]
        _ => {
            eprintln!(
                "this build has no simulated threads: use `cargo sim`, which makes one that has"
            );
            ExitCode::from(2)
        }
    }
}
