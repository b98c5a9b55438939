//! The stages in which a mutant is judged, the cheapest first.
//!
//! A stage is a build of the copy and some programs of it; a mutant that passes one goes on to the next.

use std::path::{Path, PathBuf};

use crate::{
    cases::{self, Case, Run, Runner},
    process::{Ending, Role},
    tree::{Program, Tree},
};

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

/// Unit tests, integration tests, short proofs, the tests of the proofs, and the simulator.
pub const PLANS: &[Plan] = &[
    Plan {
        name: "unit tests",
        build: &[
            "test",
            "--no-run",
            "-p",
            "kingtide-collections",
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
        build: &["test", "--no-run", "-p", "kingtide-format", "--test", "*"],
        flags: "",
        programs: &[],
    },
    Plan {
        name: "integration tests",
        build: &["test", "--no-run", "-p", "kingtide", "--test", "*"],
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
        name: "tests of proofs",
        build: &["test", "--no-run", "-p", "kingtide-testkit", "--tests"],
        flags: "",
        programs: &[],
    },
    Plan {
        name: "simulator",
        build: &["build", "-p", "kingtide-sim"],
        flags: "--cfg simulated",
        programs: &[("kingtide-sim", &["run", "--seeds", "20"])],
    },
];

/// A stage that is built.
pub struct Stage {
    /// Names it in the ledger.
    pub name: &'static str,
    runners: Vec<Runner>,
    cases: Vec<Case>,
}

impl Stage {
    /// Builds a stage and runs its tests without a mutant, in the folders `scratch` at the same time.
    ///
    /// # Errors
    /// When it cannot be built or run.
    pub fn build(plan: &Plan, tree: &Tree, scratch: &[PathBuf]) -> Result<Self, String> {
        let mut stage = Self::build_unmeasured(plan, tree)?;
        stage.cases = cases::measure(&stage.runners, scratch)?;
        Ok(stage)
    }

    /// Builds a stage of which nothing is measured.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn build_unmeasured(plan: &Plan, tree: &Tree) -> Result<Self, String> {
        let flags = [("RUSTFLAGS", plan.flags)];
        // Other flags get folders of their own: cargo would build everything anew each time.
        let (place, environment) = if plan.flags.is_empty() {
            ("plain", &flags[..0])
        } else {
            ("simulated", &flags[..])
        };
        let programs = tree.build(place, plan.build, environment)?;
        if programs.is_empty() {
            return Err(format!("{}: the copy does not compile", plan.name));
        }
        let runners = runners_of(plan, &programs);
        Ok(Self {
            name: plan.name,
            cases: cases::unmeasured(&runners),
            runners,
        })
    }

    /// How many tests it has, or programs where they are not told apart.
    pub fn case_count(&self) -> usize {
        self.cases.len()
    }

    /// Runs mutant `number` of the copy through the stage, up to the first process that does not pass; with the name of
    /// its program.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn judge(&self, number: usize, scratch: &Path) -> Result<(Ending, String), String> {
        self.judge_as(Role::Mutant(number), number, scratch)
    }

    /// As [`Stage::judge`], of a copy that is a mutant without a switch.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn judge_alone(&self, scratch: &Path) -> Result<(Ending, String), String> {
        self.judge_as(Role::Nobody, usize::MAX, scratch)
    }

    fn judge_as(
        &self,
        role: Role<'_>,
        number: usize,
        scratch: &Path,
    ) -> Result<(Ending, String), String> {
        for mut run in cases::runs_for(&self.cases, number) {
            let name = &self.runners[run.runner].name;
            loop {
                match cases::judge(&self.runners, &run, role, scratch)? {
                    Ending::Passed => break,
                    Ending::TimedOut if run.tests.len() == 1 => {
                        return Ok((Ending::TimedOut, format!("{name}: {}", run.tests[0])));
                    }
                    Ending::Failed(test) if run.tests.contains(&test) => {
                        let alone = run.only(&test);
                        if self.is_sure(&alone, role, scratch)? {
                            return Ok((Ending::Failed(test), name.clone()));
                        }
                        println!("{name} {test} fails now and then: not believed");
                        run.tests.retain(|other| *other != test);
                        if run.tests.is_empty() {
                            break;
                        }
                    }
                    ending => return Ok((ending, name.clone())),
                }
            }
        }
        Ok((Ending::Passed, String::new()))
    }

    /// True when a test that failed does so again, and does not without the mutant.
    fn is_sure(&self, alone: &Run, role: Role<'_>, scratch: &Path) -> Result<bool, String> {
        let again = cases::judge(&self.runners, alone, role, scratch)?;
        if again == Ending::Passed || matches!(role, Role::Nobody) {
            return Ok(again != Ending::Passed);
        }
        let nobody = cases::judge(&self.runners, alone, Role::Nobody, scratch)?;
        Ok(nobody == Ending::Passed)
    }
}

fn runners_of(plan: &Plan, programs: &[Program]) -> Vec<Runner> {
    let runner = |program: &Program, arguments: &[&str]| Runner {
        name: [&[program.name.as_str()], arguments].concat().join(" "),
        program: program.clone(),
        arguments: arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect(),
    };
    if plan.programs.is_empty() {
        let tests = programs.iter().filter(|program| program.is_test);
        return tests.map(|program| runner(program, &[])).collect();
    }
    let named = |name: &str| programs.iter().find(move |program| program.name == name);
    let wanted = plan.programs.iter();
    wanted
        .filter_map(|(name, arguments)| Some(runner(named(name)?, arguments)))
        .collect()
}
