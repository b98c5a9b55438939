//! Tests, rounds and engines one after the other: for each test, for each round, each engine in turn (A B A B), so that
//! what changes on the machine meanwhile meets all of them alike. Each run has a process and a directory of its own.
//!
//! An engine that is missing is told once and left out from then on. One that fails in the middle keeps its rows so far,
//! marked; the others go on. An interruption ends the run that is under way, which keeps its rows too, and all that would
//! come after it. One that comes between two runs is told in a row of the run that was next, so that rows which are not all
//! that was asked for always say so.

use std::{
    collections::BTreeMap,
    env, fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use super::{
    Suite, Test,
    rows::{self, Cut, Outcome},
};
use crate::{
    BenchError, EngineChoice, Event, MachineWatch, Result, Row, Settings, Spinners, StepReport,
    SyncChoice, child,
};

/// Runs the engines that exist as crates only.
const PEERS_PROGRAM: &str = "kingtide-bench-peers";
/// The environment variable that may hold its path.
const PEERS_VARIABLE: &str = "KINGTIDE_BENCH_PEERS";

/// Stands in the row of a run that was next when everything was interrupted.
const NOT_BEGUN: &str = "interrupted before it began";

/// What is to be run, and where.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The tests.
    pub suite: Suite,
    /// The engines; no label twice.
    pub engines: Vec<EngineChoice>,
    /// How often. At least 1.
    pub rounds: u64,
    /// An existing directory for the databases.
    pub directory: PathBuf,
    /// Whether databases stay.
    pub keep: bool,
    /// An existing directory for traces of Kingtide's runs, one file each, named by the number of the run, engine and
    /// test; none are written when `None`.
    pub traces: Option<PathBuf>,
    /// The program that runs an engine, and its arguments for that and for spinning: see [`child`] and [`Spinners`].
    pub executable: PathBuf,
    /// The argument that makes it call [`child::serve`].
    pub serve: String,
    /// The argument that makes it call [`crate::spin_until_stdin_closes`].
    pub spin: String,
    /// Becomes true when everything is to end soon.
    pub interrupted: Arc<AtomicBool>,
}

/// How a campaign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything was run.
    Whole,
    /// It was interrupted when so many runs were done.
    Interrupted(usize),
}

/// One engine in one round of one test.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The suite's name.
    pub suite: &'a str,
    /// The test.
    pub test: &'a Test,
    /// The engine.
    pub engine: &'a EngineChoice,
    /// From 1.
    pub round: u64,
}

/// Is told what happens.
pub trait Observer {
    /// A run begins.
    fn begin(&mut self, run: &Run<'_>);

    /// Something happens in it.
    fn event(&mut self, run: &Run<'_>, event: &Event);

    /// A remark that belongs under the results.
    fn note(&mut self, text: &str);

    /// It is over, and these are its rows.
    ///
    /// # Errors
    /// Ends everything.
    fn rows(&mut self, run: &Run<'_>, rows: &[Row]) -> Result<()>;
}

impl Campaign {
    /// Checks what would fail for every run.
    ///
    /// # Errors
    /// [`BenchError::Settings`].
    pub fn check(&self) -> Result<()> {
        let problem = |text: String| Err(BenchError::Settings(text));
        if self.rounds == 0 {
            return problem("rounds must be at least 1".into());
        }
        if self.engines.is_empty() {
            return problem("no engine is named".into());
        }
        if self.suite.tests.is_empty() {
            return problem("no test is left".into());
        }
        for (place, engine) in self.engines.iter().enumerate() {
            if self.engines[..place]
                .iter()
                .any(|other| other.label == engine.label)
            {
                return problem(format!(
                    "two engines are called {:?}; write LABEL:NAME=FILE to tell them apart",
                    engine.label
                ));
            }
        }
        self.suite
            .tests
            .iter()
            .try_for_each(|test| test.settings.check())
    }

    /// Runs everything. Failures of engines are rows; `machine` goes into each.
    ///
    /// # Errors
    /// What `observer` answers; [`BenchError::Settings`] before anything is run.
    pub fn run(&self, machine: &MachineWatch, observer: &mut dyn Observer) -> Result<Ended> {
        self.check()?;
        let mut missing: Vec<&str> = Vec::new();
        // As each engine told last.
        let mut versions: BTreeMap<&String, String> = BTreeMap::new();
        let mut done = 0;
        for run in self.runs() {
            if missing.contains(&&*run.engine.label) {
                continue;
            }
            // Relaxed: the flag publishes nothing but itself.
            if self.interrupted.load(Ordering::Relaxed) {
                // Without any row there is nothing that could be taken for the whole.
                if done > 0 {
                    let version = versions.get(&run.engine.label);
                    let version = version.map_or("", String::as_str);
                    observer.rows(&run, &self.not_begun(&run, version, machine))?;
                }
                return Ok(Ended::Interrupted(done));
            }
            observer.begin(&run);
            let (mut rows, failure) = self.run_one(&run, done + 1, observer);
            for row in &mut rows {
                row.machine = Some(machine.info());
            }
            observer.rows(&run, &rows)?;
            if let Some(row) = rows.pop() {
                versions.insert(&run.engine.label, row.engine_version);
            }
            match failure {
                Some(BenchError::Interrupted) => return Ok(Ended::Interrupted(done)),
                Some(BenchError::Missing(_)) => missing.push(&run.engine.label),
                _ => {}
            }
            done += 1;
        }
        Ok(Ended::Whole)
    }

    /// All runs in their order.
    fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let rounds = self
            .suite
            .tests
            .iter()
            .flat_map(|test| (1..=self.rounds).map(move |round| (test, round)));
        rounds.flat_map(move |(test, round)| {
            self.engines.iter().map(move |engine| Run {
                suite: &self.suite.name,
                test,
                engine,
                round,
            })
        })
    }

    /// The row that says of a run that it was next when everything was interrupted. `version` is that of its engine, if that is
    /// known.
    fn not_begun(&self, run: &Run<'_>, version: &str, machine: &MachineWatch) -> Vec<Row> {
        let outcome = Outcome {
            version,
            reports: &[],
            cut: None,
            end: Err(&BenchError::Interrupted),
        };
        let mut rows = rows::rows(run, &run.test.settings, &outcome);
        for row in &mut rows {
            row.error = NOT_BEGUN.to_owned();
            row.machine = Some(machine.info());
        }
        rows
    }

    /// The file for the trace of a run, if traces are asked for.
    fn trace_of(&self, run: &Run<'_>, number: usize) -> Option<PathBuf> {
        let folder = self.traces.as_ref()?;
        let name = format!("{number}-{} {}", run.engine.label, run.test.name);
        Some(folder.join(file_name(&name) + ".json"))
    }

    /// One process; answers its rows and why it did not come to its end.
    fn run_one(
        &self,
        run: &Run<'_>,
        number: usize,
        observer: &mut dyn Observer,
    ) -> (Vec<Row>, Option<BenchError>) {
        let directory = self
            .directory
            .join(format!("{number}-{}", file_name(&run.engine.label)));
        let settings = Settings {
            engine: run.engine.kind,
            library: run.engine.library.clone(),
            directory: directory.clone(),
            trace: self.trace_of(run, number),
            ..run.test.settings.clone()
        };
        let spinners = (settings.sync == SyncChoice::Full)
            .then(|| Spinners::start(&self.executable, &self.spin));
        if let Some(spinners) = &spinners {
            observer.note(&spinners.note());
        }
        let mut told = Told::default();
        let mut on_event = |event: Event| {
            observer.event(run, &event);
            if let Event::Opened { notes, .. } = &event {
                notes.iter().for_each(|note| observer.note(note));
            }
            told.add(event);
        };
        let outcome = self.program(run.engine).and_then(|program| {
            child::run_in_child(
                &program,
                &self.serve,
                &settings,
                &self.interrupted,
                &mut on_event,
            )
        });
        drop(spinners);
        if !self.keep {
            // What cannot be removed now is removed with the directory above it, or stays and is the user's to see.
            let _ = fs::remove_dir_all(&directory);
        }
        let rows = rows::rows(
            run,
            &settings,
            &Outcome {
                version: &told.version,
                reports: &told.reports,
                cut: told.begun.map(|(_, cut)| cut),
                end: outcome.as_ref(),
            },
        );
        (rows, outcome.err())
    }
}

/// What a child has told.
#[derive(Default)]
struct Told {
    version: String,
    reports: Vec<StepReport>,
    /// The step that is under way, since when, and how far it is.
    begun: Option<(Instant, Cut)>,
}

impl Told {
    fn add(&mut self, event: Event) {
        match event {
            Event::Opened { version, .. } => self.version = version,
            Event::Begin { .. } => self.begun = Some((Instant::now(), Cut::default())),
            Event::Progress { done } => {
                if let Some((since, cut)) = &mut self.begun {
                    cut.done = done;
                    cut.wall_seconds = since.elapsed().as_secs_f64();
                }
            }
            Event::Step(report) => {
                self.begun = None;
                self.reports.push(*report);
            }
            Event::Settling | Event::Silent { .. } => {}
        }
    }
}

impl Campaign {
    /// The program that runs an engine: this one, or for crates the one that is named, in the environment, or beside it.
    fn program(&self, engine: &EngineChoice) -> Result<PathBuf> {
        if !engine.kind.is_crate() {
            return Ok(self.executable.clone());
        }
        let named = engine.library.clone();
        let program = named
            .or_else(|| env::var_os(PEERS_VARIABLE).map(PathBuf::from))
            .unwrap_or_else(|| self.executable.with_file_name(PEERS_PROGRAM));
        if program.is_file() {
            return Ok(program);
        }
        Err(BenchError::Missing(format!(
            "{}: there is no program {}; `scripts/peers crates` builds it, and {PEERS_VARIABLE} names it",
            engine.kind.name(),
            program.display()
        )))
    }
}

/// A label as part of a file name.
fn file_name(label: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    label
        .chars()
        .map(|letter| if plain(letter) { letter } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Status,
        suite::{Options, Suite},
    };

    /// Keeps the rows, and interrupts everything once there are any.
    struct Interrupting {
        flag: Arc<AtomicBool>,
        rows: Vec<Row>,
    }

    impl Observer for Interrupting {
        fn begin(&mut self, _: &Run<'_>) {}

        fn event(&mut self, _: &Run<'_>, _: &Event) {}

        fn note(&mut self, _: &str) {}

        fn rows(&mut self, _: &Run<'_>, rows: &[Row]) -> Result<()> {
            self.rows.extend_from_slice(rows);
            self.flag.store(true, Ordering::Relaxed);
            Ok(())
        }
    }

    /// Goal: an interruption between two runs is told in a row. Method: an engine whose process tells its version and ends, and an
    /// interruption in front of the second round; then one before anything was run.
    #[test]
    fn an_interruption_between_two_runs_marks_the_one_that_was_next() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let script = directory.path().join("script");
        let opened = r#"{"event":{"opened":{"version":"7","notes":[]}}}"#;
        fs::write(&script, format!("read -r settings\necho '{opened}' >&0\n")).expect("file");
        let options = Options {
            workload: Some(crate::Workload::Write),
            operations: Some(10),
            ..Options::default()
        };
        let flag = Arc::new(AtomicBool::new(false));
        let campaign = Campaign {
            suite: Suite::of_one("write", &options, &Options::default(), 1.0).expect("sound"),
            engines: vec!["a:kingtide".parse().expect("an engine")],
            rounds: 2,
            directory: directory.path().to_owned(),
            keep: false,
            traces: None,
            executable: "/bin/sh".into(),
            serve: script.to_str().expect("UTF-8").to_owned(),
            spin: String::new(),
            interrupted: flag.clone(),
        };
        let machine = MachineWatch::start(directory.path());
        let mut observer = Interrupting {
            flag,
            rows: Vec::new(),
        };
        let ended = campaign.run(&machine, &mut observer).expect("it ends");
        assert_eq!(ended, Ended::Interrupted(1));
        let [first, next] = &observer.rows[..] else {
            panic!("{:?}", observer.rows);
        };
        assert_eq!((first.status, first.round), (Status::Failed, 1));
        assert_eq!((next.status, next.round), (Status::Partial, 2));
        assert_eq!((&*next.error, next.operations_done), (NOT_BEGUN, 0));
        let same =
            |row: &Row| [&row.engine, &row.engine_version, &row.operation].map(String::clone);
        assert_eq!(same(next), ["a", "7", "PUT"]);
        assert_eq!(same(first), same(next), "they are rounds of one test");
        observer.rows.clear();
        let ended = campaign.run(&machine, &mut observer).expect("it ends");
        assert_eq!(ended, Ended::Interrupted(0));
        assert!(observer.rows.is_empty(), "nothing that needs a mark");
    }
}
