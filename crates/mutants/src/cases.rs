//! The tests that may notice a mutant, and in which order they are asked.
//!
//! A mutant that a test never runs through cannot make it fail. So each test runs once without a mutant, by itself, notes
//! through which mutants it goes, and is measured. A mutant is then given to those tests alone that go through it: the
//! quick ones of each program in one process, the slow ones one by one, what takes least time first.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    pool,
    process::{self, Ending, Role},
    tree::Program,
};

/// A mutant may take so many times as long as a test takes without it, and [`SLACK`] more.
const PATIENCE: u32 = 6;
/// For pauses of a busy machine.
const SLACK: Duration = Duration::from_secs(20);
/// What a test may take without a mutant.
const MEASURED_MAX: Duration = Duration::from_secs(1200);
/// What a program is taken to take that was not measured.
const UNMEASURED: Duration = Duration::from_secs(50);
/// Tests that take less share a process.
const QUICK_MAX: Duration = Duration::from_millis(100);

/// A program and its arguments, without the names of tests.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Names it in the ledger.
    pub name: String,
    /// What is run.
    pub program: Program,
    /// With these.
    pub arguments: Vec<String>,
}

/// A test, or a program as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The index of its [`Runner`].
    runner: usize,
    /// The test; none for the whole program.
    test: Option<String>,
    /// How long it takes without a mutant.
    took: Duration,
    /// The mutants that it goes through; none when it may be all.
    reached: Option<BTreeSet<usize>>,
}

/// One process that judges a mutant.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    /// The index of its [`Runner`].
    pub runner: usize,
    /// Names of tests; all when there are none.
    pub tests: Vec<String>,
    /// How long a mutant may take.
    pub time: Duration,
}

impl Run {
    /// The same with one of its tests alone.
    pub fn only(&self, test: &str) -> Self {
        Self {
            runner: self.runner,
            tests: vec![test.to_owned()],
            time: self.time,
        }
    }
}

/// Whole programs of which nothing is known.
pub fn unmeasured(runners: &[Runner]) -> Vec<Case> {
    let case = |runner| Case {
        runner,
        test: None,
        took: UNMEASURED,
        reached: None,
    };
    (0..runners.len()).map(case).collect()
}

/// All tests of the programs, measured; each thread works in one of the folders `scratch`. What fails without a mutant is
/// left out, with a line that says so.
///
/// # Errors
/// When a program cannot be run.
pub fn measure<P: AsRef<Path> + Sync>(
    runners: &[Runner],
    scratch: &[P],
) -> Result<Vec<Case>, String> {
    let mut wanted = Vec::new();
    for (index, runner) in runners.iter().enumerate() {
        if !runner.program.is_test {
            wanted.push((index, None));
            continue;
        }
        let tests = process::tests_of(&runner.program)?;
        wanted.extend(tests.into_iter().map(|test| (index, Some(test))));
    }
    let mut cases = Vec::new();
    let work = |place: &P, (index, test): (usize, Option<String>)| {
        let case = measure_one(&runners[index], test.as_deref(), place.as_ref())?;
        Ok(case.map(|(took, reached)| Case {
            runner: index,
            test,
            took,
            reached,
        }))
    };
    pool::each(scratch, wanted, work, |case| {
        cases.extend(case);
        Ok(())
    })?;
    Ok(cases)
}

/// How long a test takes, and what it reaches, where that is known.
type Measured = (Duration, Option<BTreeSet<usize>>);

/// Measures one test; nothing when it fails.
fn measure_one(
    runner: &Runner,
    test: Option<&str>,
    scratch: &Path,
) -> Result<Option<Measured>, String> {
    let notes = scratch.with_extension("notes");
    // Left by another test; there is none before the first one.
    drop(fs::remove_file(&notes));
    let arguments = arguments_of(runner, test);
    let start = Instant::now();
    let run = |role| process::run(&runner.program, &arguments, role, scratch, MEASURED_MAX);
    let mut ending = run(Role::Noting(&notes))?;
    let took = start.elapsed();
    // A test that never asks for a mutant leaves no notes.
    let text = fs::read_to_string(&notes).unwrap_or_default();
    let mut reached = Some(text.lines().filter_map(|line| line.parse().ok()).collect());
    if ending != Ending::Passed {
        // Some tests count what they allocate, and notes do too.
        ending = run(Role::Nobody)?;
        reached = None;
    }
    if ending != Ending::Passed {
        // Not the mutants' fault: it says nothing about them.
        let test = test.unwrap_or("");
        eprintln!(
            "{} {test} is left out, it ends with {ending:?} without a mutant",
            runner.name
        );
        return Ok(None);
    }
    Ok(Some((took, reached)))
}

fn arguments_of<'a>(runner: &Runner, tests: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut arguments = runner.arguments.clone();
    let mut tests = tests.into_iter().map(str::to_owned).peekable();
    if tests.peek().is_some() {
        arguments.push("--exact".to_owned());
    }
    arguments.extend(tests);
    arguments
}

/// What mutant `number` has to pass, the shortest first.
pub fn runs_for(cases: &[Case], number: usize) -> Vec<Run> {
    let mut quick: BTreeMap<usize, Run> = BTreeMap::new();
    let mut runs = Vec::new();
    for case in cases {
        let is_reached = |reached: &BTreeSet<usize>| reached.contains(&number);
        if !case.reached.as_ref().is_none_or(is_reached) {
            continue;
        }
        let run = Run {
            runner: case.runner,
            tests: Vec::new(),
            time: SLACK,
        };
        let run = if case.test.is_some() && case.took <= QUICK_MAX {
            quick.entry(case.runner).or_insert(run)
        } else {
            runs.push(run);
            let last = runs.len() - 1;
            &mut runs[last]
        };
        run.tests.extend(case.test.clone());
        run.time += case.took * PATIENCE;
    }
    runs.extend(quick.into_values());
    runs.sort_by_key(|run| run.time);
    runs
}

/// Runs mutant `number`, or nobody, through `run`.
///
/// # Errors
/// When the program cannot be started.
pub fn judge(
    runners: &[Runner],
    run: &Run,
    role: Role<'_>,
    scratch: &Path,
) -> Result<Ending, String> {
    let runner = &runners[run.runner];
    let arguments = arguments_of(runner, run.tests.iter().map(String::as_str));
    process::run(&runner.program, &arguments, role, scratch, run.time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(runner: usize, test: &str, millis: u64, reached: Option<&[usize]>) -> Case {
        Case {
            runner,
            test: Some(test.to_owned()),
            took: Duration::from_millis(millis),
            reached: reached.map(|numbers| numbers.iter().copied().collect()),
        }
    }

    /// Goal: no test is asked that cannot notice, all others are, quick ones together and first.
    #[test]
    fn a_mutant_meets_the_tests_that_reach_it() {
        let cases = [
            case(0, "slow", 4_000, Some(&[1])),
            case(0, "quick", 10, Some(&[1, 2])),
            case(0, "elsewhere", 10, Some(&[2])),
            case(0, "unknown", 20, None),
            case(1, "short", 2_000, Some(&[1])),
        ];
        let runs = runs_for(&cases, 1);
        let asked: Vec<(usize, Vec<String>)> = runs
            .iter()
            .map(|run| (run.runner, run.tests.clone()))
            .collect();
        let named = |tests: &[&str]| tests.iter().map(|&test| test.to_owned()).collect();
        assert_eq!(
            asked,
            [
                (0, named(&["quick", "unknown"])),
                (1, named(&["short"])),
                (0, named(&["slow"])),
            ]
        );
        assert_eq!(runs[2].time, SLACK + Duration::from_secs(24));
        assert_eq!(runs_for(&cases, 9).len(), 1);
    }
}
