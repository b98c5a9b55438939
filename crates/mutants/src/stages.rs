//! The tests that judge a mutant, the cheapest first.
//!
//! A stage is a build of the copy and some programs of it; a mutant that passes one goes on to the next. The programs of a stage run
//! without a mutant first: how long that takes bounds how long a mutant may take, and a stage that fails then judges
//! nobody.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    process::{self, Ending},
    tree::{Program, Tree},
};

/// A mutant may take so many times as long as the tests take without it, and [`SLACK`] more.
const PATIENCE: u32 = 6;
/// For pauses of a busy machine.
const SLACK: Duration = Duration::from_secs(20);
/// What a program may take whose time without a mutant is not known.
const UNMEASURED: Duration = Duration::from_secs(300);
/// The number of no mutant.
pub const NOBODY: usize = usize::MAX - 1;

/// A build and what is run of it.
pub struct Plan {
    /// Names it in the ledger.
    pub name: &'static str,
    /// Arguments of cargo.
    build: &'static [&'static str],
    /// Flags of the compiler.
    flags: &'static str,
    /// Programs of the build that are run, with their arguments; all tests when there are none.
    programs: &'static [(&'static str, &'static [&'static str])],
}

/// Unit tests, integration tests, those of the model, short proofs, and the simulator.
pub const PLANS: &[Plan] = &[
    Plan {
        name: "unit tests",
        build: &[
            "test",
            "--no-run",
            "-p",
            "kingtide-format",
            "-p",
            "kingtide",
            "--lib",
        ],
        flags: "",
        programs: &[],
    },
    Plan {
        name: "golden files",
        build: &["test", "--no-run", "-p", "kingtide-format", "--tests"],
        flags: "",
        programs: &[],
    },
    Plan {
        name: "integration tests",
        build: &["test", "--no-run", "-p", "kingtide", "--tests"],
        flags: "",
        programs: &[],
    },
    Plan {
        name: "model and crashes",
        build: &["build", "-p", "kingtide-sim"],
        flags: "",
        programs: &[
            ("kingtide-sim", &["model", "--operations", "20000"]),
            ("kingtide-sim", &["crash-every-io", "--stride", "7"]),
            ("kingtide-sim", &["kill-loop", "--rounds", "10"]),
        ],
    },
    Plan {
        name: "simulator",
        build: &["build", "-p", "kingtide-sim"],
        flags: "--cfg simulated",
        programs: &[("kingtide-sim", &["run", "--seeds", "20"])],
    },
];

/// One program of a stage.
struct Run {
    name: String,
    program: Program,
    arguments: Vec<String>,
    /// How long a mutant may take.
    time: Duration,
}

/// A stage that is built.
pub struct Stage {
    /// Names it in the ledger.
    pub name: &'static str,
    runs: Vec<Run>,
}

impl Stage {
    /// Builds a stage and runs it without a mutant, to know how long that takes.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn build(plan: &Plan, tree: &Tree, scratch: &Path) -> Result<Self, String> {
        let mut stage = Self {
            name: plan.name,
            runs: Vec::new(),
        };
        for run in Self::build_unmeasured(plan, tree)?.runs {
            stage.add(run, scratch)?;
        }
        // What is fast comes first.
        stage.runs.sort_by_key(|run| run.time);
        Ok(stage)
    }

    /// Builds a stage whose programs get [`UNMEASURED`].
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn build_unmeasured(plan: &Plan, tree: &Tree) -> Result<Self, String> {
        let flags = [("RUSTFLAGS", plan.flags)];
        let environment = if plan.flags.is_empty() {
            &flags[..0]
        } else {
            &flags[..]
        };
        // Other flags get folders of their own: cargo would build everything anew each time.
        let place = if plan.flags.is_empty() {
            "plain"
        } else {
            "simulated"
        };
        let programs = tree.build(place, plan.build, environment)?;
        if programs.is_empty() {
            return Err(format!("{}: the copy does not compile", plan.name));
        }
        Ok(Self {
            name: plan.name,
            runs: runs_of(plan, &programs),
        })
    }

    /// Adds a program with the time that it may take.
    fn add(&mut self, mut run: Run, scratch: &Path) -> Result<(), String> {
        let start = Instant::now();
        let ending = run.start(scratch, NOBODY, Duration::from_secs(1200))?;
        let took = start.elapsed();
        if ending != Ending::Passed {
            // Not the mutants' fault: it says nothing about them.
            eprintln!(
                "{}: {} is left out, it ends with {ending:?} without a mutant",
                self.name, run.name
            );
            return Ok(());
        }
        run.time = took * PATIENCE + SLACK;
        self.runs.push(run);
        Ok(())
    }

    /// Runs the stage as mutant `number`, up to the first program that does not pass; with the name of that program.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn judge(&self, number: usize, scratch: &Path) -> Result<(Ending, String), String> {
        for run in &self.runs {
            let ending = run.start(scratch, number, run.time)?;
            if ending != Ending::Passed {
                return Ok((ending, run.name.clone()));
            }
        }
        Ok((Ending::Passed, String::new()))
    }
}

impl Run {
    fn start(&self, scratch: &Path, number: usize, time: Duration) -> Result<Ending, String> {
        let mut arguments = vec![self.program.path.display().to_string()];
        arguments.extend(self.arguments.iter().cloned());
        process::run(&arguments, &self.program.folder, scratch, number, time)
    }
}

fn runs_of(plan: &Plan, programs: &[Program]) -> Vec<Run> {
    let run = |program: &Program, arguments: &[&str]| Run {
        name: [&[program.name.as_str()], arguments].concat().join(" "),
        program: program.clone(),
        arguments: arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect(),
        time: UNMEASURED,
    };
    if plan.programs.is_empty() {
        let tests = programs.iter().filter(|program| program.is_test);
        return tests.map(|program| run(program, &[])).collect();
    }
    let named = |name: &str| programs.iter().find(move |program| program.name == name);
    let wanted = plan.programs.iter();
    wanted
        .filter_map(|(name, arguments)| Some(run(named(name)?, arguments)))
        .collect()
}
