//! Mutation testing: are the tests able to fail? Run as `cargo xtask mutants`.
//!
//! `cargo mutants` lists changes of the log, manifest, transaction and merge code that a good test must notice: a function
//! that does nothing, a comparison turned round. A sample of them, chosen by a seed, is judged by the tests, the cheapest
//! first. What is known goes to a ledger at once, so that a run can be stopped and goes on where it was.
//!
//! | module | what it is |
//! |---|---|
//! | `list` | the mutants and the sample |
//! | `session` | sends mutants through the stages |
//! | `switch` | many mutants in one text |
//! | `tree` | the copy of the repository in which they are built |
//! | `stages`, `cases` | the tests that judge them, and which of them can notice what |
//! | `process`, `pool` | running a test; several at the same time |
//! | `ledger`, `report` | what became of each |
//!
//! Mutants that cannot stand behind a switch are built one by one at the end: most do not compile there either.

#![expect(
    clippy::print_stdout,
    reason = "a command line tool reports on its standard output"
)]

mod cases;
mod ledger;
mod list;
mod pool;
mod process;
mod report;
mod session;
mod stages;
mod switch;
mod tree;

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

use self::{
    ledger::Ledger,
    list::Mutant,
    report::Report,
    session::{Limits, Session},
};

/// Judges a sample of mutants of the engine by its tests.
#[derive(Debug, Parser)]
struct Arguments {
    /// The repository.
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// The program `cargo-mutants`.
    #[arg(long, default_value = "cargo-mutants")]
    finder: PathBuf,
    /// How many mutants are judged.
    #[arg(long, default_value_t = 240)]
    sample: usize,
    /// Chooses them.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    limits: Limits,
    /// Judges those again that no test has caught.
    #[arg(long)]
    again: bool,
    /// Judges only those of the sample whose file or change contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Prints what is known of the sample, writes the page of survivors beside the ledger, and ends.
    #[arg(long)]
    report: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let root = std::fs::canonicalize(&arguments.root)
        .map_err(|error| format!("{}: {error}", arguments.root.display()))?;
    let ledger_path = root.join(&arguments.limits.ledger);
    let mut ledger = Ledger::load(&ledger_path)?;
    let all = list::all(&arguments.finder, &root)?;
    let total = all.len();
    println!("{total} mutants in all");
    let sample = list::sample(all, arguments.seed, arguments.sample);
    if !arguments.report {
        if arguments.again {
            ledger.forget_survivors(&arguments.only);
        }
        let is_wanted = |mutant: &&Mutant| {
            let only = &arguments.only;
            mutant.file.contains(only) || mutant.name().contains(only)
        };
        let mutants: Vec<Mutant> = sample.iter().filter(is_wanted).cloned().collect();
        ledger = Session::new(&root, &arguments.limits, ledger, mutants)?.judge_all()?;
    }
    let report = Report {
        ledger: &ledger,
        mutants: &sample,
        seed: arguments.seed,
        total,
    };
    for line in report.missed() {
        println!("missed  {line}");
    }
    println!("{}", report.summary());
    let page = ledger_path.with_extension("md");
    std::fs::write(&page, report.page()).map_err(|error| format!("{}: {error}", page.display()))
}
