//! Mutation testing: are the tests able to fail? Run as `cargo xtask mutants`.
//!
//! `cargo mutants` lists changes of the log, manifest, transaction and merge code that a good test must notice: a function
//! that does nothing, a comparison turned round. A sample of them, chosen by a seed, is judged by the tests, the cheapest
//! first. What is known goes to a ledger at once, so that a run can be stopped and goes on where it was.
//!
//! | module | what it is |
//! |---|---|
//! | `list` | the mutants and the sample |
//! | `switch` | many mutants in one text |
//! | `tree` | the copy of the repository in which they are built |
//! | `stages`, `process` | the tests that judge them |
//! | `ledger` | what became of each |
//!
//! Mutants that cannot stand behind a switch are built one by one at the end: most do not compile there either.

#![expect(
    clippy::print_stdout,
    reason = "a command line tool reports on its standard output"
)]

mod ledger;
mod list;
mod process;
mod stages;
mod switch;
mod tree;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;

use self::{
    ledger::{Ledger, Outcome},
    list::Mutant,
    process::Ending,
    stages::{NOBODY, PLANS, Stage},
    tree::Tree,
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
    /// Ends after so many seconds; what is known is kept.
    #[arg(long)]
    seconds: Option<u64>,
    /// What is known, from the root of the repository.
    #[arg(long, default_value = "testing/mutants.csv")]
    ledger: PathBuf,
    /// Judges those again that no test has caught.
    #[arg(long)]
    again: bool,
    /// Prints what is known of the sample and ends.
    #[arg(long)]
    report: bool,
}

/// A run of the program.
struct Session {
    tree: Tree,
    mutants: Vec<Mutant>,
    ledger: Ledger,
    ledger_path: PathBuf,
    scratch: PathBuf,
    end: Option<Instant>,
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
    let ledger_path = root.join(&arguments.ledger);
    let mut ledger = Ledger::load(&ledger_path)?;
    let all = list::all(&arguments.finder, &root)?;
    println!("{} mutants in all", all.len());
    let mutants = list::sample(all, arguments.seed, arguments.sample);
    if arguments.report {
        report(&ledger, &mutants);
        return Ok(());
    }
    if arguments.again {
        ledger.forget_survivors();
    }
    let folder = root.join("target/mutants");
    let mut session = Session {
        tree: Tree::copy(&root, &folder)?,
        mutants,
        ledger,
        ledger_path,
        scratch: folder.join("scratch"),
        end: arguments
            .seconds
            .map(|seconds| Instant::now() + Duration::from_secs(seconds)),
    };
    session.judge_all()?;
    report(&session.ledger, &session.mutants);
    Ok(())
}

fn report(ledger: &Ledger, mutants: &[Mutant]) {
    for mutant in mutants {
        if let Some(row) = ledger
            .get(mutant)
            .filter(|row| row.outcome == Outcome::Missed)
        {
            println!("missed  {}:{} {}", row.file, row.line, row.mutant);
        }
    }
    println!("{}", ledger::summary(ledger, mutants));
}

impl Session {
    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// The index of the stage that a mutant has to pass next; none when its verdict is known.
    fn next_stage(&self, mutant: &Mutant) -> Option<usize> {
        match self.ledger.get(mutant) {
            None => Some(0),
            Some(row) if row.outcome == Outcome::Open => {
                let passed = PLANS.iter().position(|plan| plan.name == row.by);
                Some(passed.map_or(0, |index| index + 1))
            }
            Some(_) => None,
        }
    }

    fn judge_all(&mut self) -> Result<(), String> {
        let wanted: Vec<Mutant> = self.mutants.clone();
        let switched = self.tree.switch(&wanted)?;
        println!(
            "{} of {} stand behind a switch",
            switched.len(),
            wanted.len()
        );
        for index in 0..PLANS.len() {
            self.judge_stage(index, &switched)?;
        }
        self.judge_others(&switched)
    }

    /// Takes all switched mutants that have come as far through one stage.
    fn judge_stage(&mut self, index: usize, switched: &BTreeSet<usize>) -> Result<(), String> {
        let is_next = |number: &usize| self.next_stage(&self.mutants[*number]) == Some(index);
        let numbers: Vec<usize> = switched.iter().copied().filter(is_next).collect();
        if numbers.is_empty() || self.is_over() {
            return Ok(());
        }
        let stage = Stage::build(&PLANS[index], &self.tree, &self.scratch)?;
        println!("{}: {} mutants", stage.name, numbers.len());
        for number in numbers {
            if self.is_over() {
                return Ok(());
            }
            self.judge(&stage, index, number, number)?;
        }
        Ok(())
    }

    /// Runs one mutant, which the built programs know as `switch`, through a stage.
    fn judge(
        &mut self,
        stage: &Stage,
        index: usize,
        number: usize,
        switch: usize,
    ) -> Result<Outcome, String> {
        let (ending, program) = stage.judge(switch, &self.scratch)?;
        let is_last = index + 1 == PLANS.len();
        let (outcome, by) = match ending {
            Ending::Failed(test) => (Outcome::Caught, format!("{program}: {test}")),
            Ending::TimedOut => (Outcome::Timeout, program),
            Ending::Passed if is_last => (Outcome::Missed, stage.name.to_owned()),
            Ending::Passed => (Outcome::Open, stage.name.to_owned()),
        };
        self.note(number, outcome, &by)?;
        Ok(outcome)
    }

    fn note(&mut self, number: usize, outcome: Outcome, by: &str) -> Result<(), String> {
        let mutant = &self.mutants[number];
        println!(
            "{:8} {}:{} {} ({by})",
            outcome.name(),
            mutant.file,
            mutant.span.start.line,
            mutant.name(),
        );
        self.ledger.set(mutant, outcome, by);
        self.ledger.store(&self.ledger_path)
    }

    /// Builds each mutant that has no switch by itself.
    fn judge_others(&mut self, switched: &BTreeSet<usize>) -> Result<(), String> {
        let is_left = |number: &usize| {
            !switched.contains(number) && self.next_stage(&self.mutants[*number]).is_some()
        };
        let numbers: Vec<usize> = (0..self.mutants.len()).filter(is_left).collect();
        if numbers.is_empty() {
            return Ok(());
        }
        for mutant in &self.mutants {
            self.restore(&mutant.file)?;
        }
        for number in numbers {
            if self.is_over() {
                return Ok(());
            }
            let mutant = self.mutants[number].clone();
            let text = switch::replace(&self.tree.original(&mutant.file)?, &mutant);
            self.tree.put(&mutant.file, text.as_bytes())?;
            self.judge_alone(number)?;
            self.restore(&mutant.file)?;
        }
        Ok(())
    }

    fn restore(&self, file: &str) -> Result<(), String> {
        self.tree.put(file, self.tree.original(file)?.as_bytes())
    }

    /// Judges the mutant that the copy holds now.
    fn judge_alone(&mut self, number: usize) -> Result<(), String> {
        if !self.tree.compiles()? {
            return self.note(number, Outcome::Unviable, "cargo check");
        }
        for (index, plan) in PLANS.iter().enumerate() {
            // Its tests may fail without a switch: they are not measured before.
            let stage = Stage::build_unmeasured(plan, &self.tree)?;
            if self.is_over() || self.judge(&stage, index, number, NOBODY)? != Outcome::Open {
                break;
            }
        }
        Ok(())
    }
}
