//! A run of the program: mutants go through the stages, and verdicts to the ledger.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;

use crate::{
    ledger::{Ledger, Outcome},
    list::Mutant,
    pool,
    process::Ending,
    stages::{PLANS, Stage},
    switch,
    tree::Tree,
};

/// What a run may take, and where it keeps what it learns.
#[derive(Debug, Args)]
pub struct Limits {
    /// Tests that run at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Ends after so many seconds; what is known is kept.
    #[arg(long)]
    seconds: Option<u64>,
    /// What is known, from the root of the repository.
    #[arg(long, default_value = "testing/mutants.csv")]
    pub ledger: PathBuf,
}

/// A run of the program.
pub struct Session {
    tree: Tree,
    mutants: Vec<Mutant>,
    ledger: Ledger,
    ledger_path: PathBuf,
    /// Where tests write, one folder for each that runs at the same time.
    scratch: Vec<PathBuf>,
    end: Option<Instant>,
}

/// The index of the stage that a mutant has to pass next; none when its verdict is known.
fn next_stage(ledger: &Ledger, mutant: &Mutant) -> Option<usize> {
    match ledger.get(mutant) {
        None => Some(0),
        Some(row) if row.outcome == Outcome::Open => {
            let passed = PLANS.iter().position(|plan| plan.name == row.by);
            Some(passed.map_or(0, |index| index + 1))
        }
        Some(_) => None,
    }
}

impl Session {
    /// A session that judges `mutants`, in a copy of the repository at `root`.
    ///
    /// # Errors
    /// When the repository cannot be copied.
    pub fn new(
        root: &Path,
        limits: &Limits,
        ledger: Ledger,
        mutants: Vec<Mutant>,
    ) -> Result<Self, String> {
        let folder = root.join("target/mutants");
        let scratch = (0..limits.jobs.max(1)).map(|job| folder.join(format!("scratch-{job}")));
        Ok(Self {
            tree: Tree::copy(root, &folder, &mutants)?,
            mutants,
            ledger,
            ledger_path: root.join(&limits.ledger),
            scratch: scratch.collect(),
            end: limits
                .seconds
                .map(|seconds| Instant::now() + Duration::from_secs(seconds)),
        })
    }

    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Judges all mutants, as far as time goes, and answers the ledger.
    ///
    /// # Errors
    /// When the copy cannot be built, a test cannot be started, or the ledger cannot be written.
    pub fn judge_all(mut self) -> Result<Ledger, String> {
        let is_over = |mutant: &Mutant| next_stage(&self.ledger, mutant).is_none();
        if self.mutants.iter().all(is_over) {
            return Ok(self.ledger);
        }
        // All of them, also those that are judged: what was built before is used again.
        let switched = self.tree.switch(&self.mutants)?;
        println!(
            "{} of {} stand behind a switch",
            switched.len(),
            self.mutants.len()
        );
        for index in 0..PLANS.len() {
            self.judge_stage(index, &switched)?;
        }
        self.judge_others(&switched)?;
        Ok(self.ledger)
    }

    /// Takes all switched mutants that have come as far through one stage.
    fn judge_stage(&mut self, index: usize, switched: &BTreeSet<usize>) -> Result<(), String> {
        let is_next =
            |number: &usize| next_stage(&self.ledger, &self.mutants[*number]) == Some(index);
        let numbers: Vec<usize> = switched.iter().copied().filter(is_next).collect();
        if numbers.is_empty() || self.is_over() {
            return Ok(());
        }
        let stage = Stage::build(&PLANS[index], &self.tree, &self.scratch)?;
        println!(
            "{}: {} mutants, {} tests",
            stage.name,
            numbers.len(),
            stage.case_count()
        );
        let end = self.end;
        let work = |scratch: &PathBuf, number: usize| {
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
            Ok(Some((number, stage.judge(number, scratch)?)))
        };
        pool::each(&self.scratch.clone(), numbers, work, |judged| {
            let Some((number, (ending, by))) = judged else {
                return Ok(());
            };
            self.note_ending(number, index, ending, by).map(drop)
        })
    }

    /// Notes how mutant `number` came through the stage of this index.
    fn note_ending(
        &mut self,
        number: usize,
        index: usize,
        ending: Ending,
        program: String,
    ) -> Result<Outcome, String> {
        let stage = PLANS[index].name;
        let is_last = index + 1 == PLANS.len();
        let (outcome, by) = match ending {
            Ending::Failed(test) => (Outcome::Caught, format!("{program}: {test}")),
            Ending::TimedOut => (Outcome::Timeout, program),
            Ending::Passed if is_last => (Outcome::Missed, stage.to_owned()),
            Ending::Passed => (Outcome::Open, stage.to_owned()),
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
            !switched.contains(number) && next_stage(&self.ledger, &self.mutants[*number]).is_some()
        };
        let numbers: Vec<usize> = (0..self.mutants.len()).filter(is_left).collect();
        if numbers.is_empty() || self.is_over() {
            return Ok(());
        }
        for mutant in &self.mutants {
            self.restore(&mutant.file)?;
        }
        for number in self.without_unviable(numbers)? {
            if self.is_over() {
                return Ok(());
            }
            self.put_alone(number)?;
            self.judge_alone(number)?;
            self.restore(&self.mutants[number].file)?;
        }
        Ok(())
    }

    /// Notes which of the mutants do not compile, and answers the others. Many are compiled at once, at most one in each
    /// file: an error in a file is that of its mutant.
    fn without_unviable(&mut self, mut unknown: Vec<usize>) -> Result<Vec<usize>, String> {
        let mut viable = Vec::new();
        let mut size_max = unknown.len();
        while !unknown.is_empty() {
            let mut batch: BTreeMap<String, usize> = BTreeMap::new();
            for number in unknown.iter().take(size_max) {
                let file = self.mutants[*number].file.clone();
                batch.entry(file).or_insert(*number);
            }
            for number in batch.values() {
                self.put_alone(*number)?;
            }
            let blamed = self.tree.files_with_errors()?;
            for file in batch.keys() {
                self.restore(file)?;
            }
            let Some(blamed) = blamed else {
                viable.extend(batch.values());
                unknown.retain(|number| !batch.values().any(|tried| tried == number));
                continue;
            };
            let is_unviable = |file: &String| batch.len() == 1 || blamed.contains(file);
            if !batch.keys().any(is_unviable) {
                // The errors lie in none of the files, such as in what a macro writes.
                size_max = 1;
                continue;
            }
            for (file, number) in &batch {
                if is_unviable(file) {
                    self.note(*number, Outcome::Unviable, "cargo check")?;
                    unknown.retain(|other| other != number);
                }
            }
        }
        Ok(viable)
    }

    /// Writes one mutant into the copy, without a switch.
    fn put_alone(&self, number: usize) -> Result<(), String> {
        let mutant = &self.mutants[number];
        let text = switch::replace(&self.tree.original(&mutant.file)?, mutant);
        self.tree.put(&mutant.file, text.as_bytes())
    }

    fn restore(&self, file: &str) -> Result<(), String> {
        self.tree.put(file, self.tree.original(file)?.as_bytes())
    }

    /// Judges the mutant that the copy holds now.
    fn judge_alone(&mut self, number: usize) -> Result<(), String> {
        for (index, plan) in PLANS.iter().enumerate() {
            if self.is_over() {
                break;
            }
            // Its tests may fail without a switch: they are not measured before.
            let stage = Stage::build_unmeasured(plan, &self.tree)?;
            let (ending, by) = stage.judge_alone(&self.scratch[0])?;
            if self.note_ending(number, index, ending, by)? != Outcome::Open {
                break;
            }
        }
        Ok(())
    }
}
