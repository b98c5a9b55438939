//! The commands: seeds spread over cores, progress, plans of failures.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use kingtide_testkit::{Checked, Violation, runner};

use kingtide_base::planted::{Bug, plant};
use kingtide_ledger::{Ledger, Stretch, build};
use kingtide_sim::{
    clients::Cuts,
    plan::{Plan, Scenario, level_of},
    reduce::reduce,
    report::{progress_bar, say},
    simulation,
    tally::SimTally,
    zoo,
};

use super::{Command, Kind, OPERATIONS};

/// Transactions of a history that correspond to one operation of other scenarios.
const TRANSACTIONS_PER_OPERATION: u64 = 2;

/// Runs a command, with a planted bug if one is named.
pub fn run(command: Command, planted: Option<&str>, jobs: usize) -> ExitCode {
    if let Some(name) = planted {
        let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
        let Some(bug) = bug else {
            let names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
            let names = names.join(", ");
            return exit_code(Err(format!("no bug is called {name:?}: there are {names}")));
        };
        plant(Some(*bug));
    }
    exit_code(run_command(command, jobs))
}

fn run_command(command: Command, jobs: usize) -> Answer {
    match command {
        Command::Proof(_) => {
            Err("proofs are run by an ordinary build: use `cargo proof`".to_owned())
        }
        Command::Run {
            seed,
            seeds,
            operations,
            scenario,
            cuts,
            seconds,
            once,
            ledger,
        } => {
            let campaign = Campaign {
                name: "run",
                first_seed: seed,
                seeds,
                plan_of: Box::new(move |seed| plan_of(scenario, seed, operations)),
                cuts_max: cuts,
                until: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
                once,
            };
            match ledger {
                None => campaign.run(jobs),
                Some(file) => with_ledger(campaign, &file, &part_of(scenario, operations), jobs),
            }
        }
        Command::Replay { file } => read_plan(&file).map(|plan| replay(&plan)),
        Command::Reduce { file, output } => read_plan(&file).and_then(|plan| {
            let output = output.unwrap_or_else(|| file.with_extension("small.plan"));
            reduce_plan(&plan, &output)
        }),
        Command::Crash {
            at,
            seed,
            operations,
        } => crash(&at, seed, operations),
        Command::Zoo { filter, violations } => Ok(zoo::run(&filter, violations)),
        Command::History {
            level,
            seed,
            seeds,
            transactions,
        } => level_of(&level).map(|level| {
            let plan_of = move |seed| Plan::new(Scenario::History(level), seed, transactions);
            let campaign = Campaign {
                name: "history",
                first_seed: seed,
                seeds,
                plan_of: Box::new(plan_of),
                cuts_max: None,
                until: None,
                once: false,
            };
            campaign.run_checked(jobs).map(drop)
        }),
    }
}

fn exit_code(outcome: Answer) -> ExitCode {
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(violation)) => {
            say(&format!("VIOLATION: {violation}"));
            ExitCode::FAILURE
        }
        Err(message) => {
            say(&format!("error: {message}"));
            ExitCode::from(2)
        }
    }
}

/// The outer error is wrong use.
type Answer = Result<Checked, String>;

fn plan_of(kind: Kind, seed: u64, operations: u64) -> Plan {
    let transactions = operations * TRANSACTIONS_PER_OPERATION;
    match kind {
        Kind::Model => Plan::new(Scenario::Model, seed, operations),
        Kind::Clients => Plan::new(Scenario::Clients, seed, operations),
        Kind::History => Plan::new(Scenario::History(None), seed, transactions),
        Kind::All => match seed % 8 {
            0 => Plan::new(Scenario::History(None), seed, transactions),
            1..=3 => Plan::new(Scenario::Model, seed, operations),
            _ => Plan::new(Scenario::Clients, seed, operations),
        },
    }
}

/// So many seeds are a line of the ledger, and lost when the run is interrupted.
const STRETCH_SEEDS: u64 = 1000;

/// Many plans, one for each seed.
struct Campaign {
    name: &'static str,
    first_seed: u64,
    seeds: u64,
    plan_of: Box<dyn Fn(u64) -> Plan + Sync>,
    cuts_max: Option<u64>,
    until: Option<Instant>,
    once: bool,
}

impl Campaign {
    fn run(self, jobs: usize) -> Answer {
        Ok(self.run_checked(jobs).map(drop))
    }

    fn run_checked(&self, jobs: usize) -> Checked<SimTally> {
        let bar = progress_bar(self.name, self.seeds);
        let cuts = AtomicU64::new(0);
        let item = |number: u64| {
            let is_late = self.until.is_some_and(|until| Instant::now() >= until);
            let is_enough = self
                .cuts_max
                .is_some_and(|most| cuts.load(Ordering::Relaxed) >= most);
            if is_late || is_enough {
                return Ok(SimTally::default());
            }
            let plan = (self.plan_of)(self.first_seed + number);
            let tally = checked_plan(&plan, self.once)?;
            cuts.fetch_add(tally.cuts, Ordering::Relaxed);
            Ok(tally)
        };
        let stuck = |numbers: &[u64]| {
            say(&format!(
                "VIOLATION: stuck in seeds {numbers:?} (counted from the first)"
            ));
            std::process::exit(1);
        };
        let report = runner::run(
            self.seeds,
            jobs,
            &item,
            &mut |ended| bar.set_position(ended),
            &stuck,
        );
        bar.finish_and_clear();
        say(&format!(
            "{}: {}, {} violations",
            self.name,
            report.tally,
            report.violations.len()
        ));
        report.into_checked()
    }
}

/// Runs a plan; when it fails, writes it to a file.
fn checked_plan(plan: &Plan, once: bool) -> Checked<SimTally> {
    let outcome = if once {
        simulation::run(plan, Cuts::Drawn).outcome
    } else {
        simulation::run_twice(plan, Cuts::Drawn)
    };
    outcome.map_err(|violation| {
        let name = PathBuf::from(format!("kingtide-sim-seed-{}.plan", plan.seed));
        let place = match fs::write(&name, plan.to_string()) {
            Ok(()) => format!(
                "replay: cargo sim replay {0}; make it small: cargo sim reduce {0}",
                name.display()
            ),
            Err(error) => format!("the plan cannot be written ({error}):\n{plan}"),
        };
        violation.within(format!("{}, seed {} ({place})", plan.scenario, plan.seed))
    })
}

fn replay(plan: &Plan) -> Checked {
    let ran = simulation::run(plan, Cuts::Drawn);
    say(&format!("trace {:016x}", ran.trace));
    let tally = ran.outcome?;
    say(&format!("replay: {tally}, 0 violations"));
    Ok(())
}

fn read_plan(file: &Path) -> Result<Plan, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    text.parse()
        .map_err(|error| format!("{}: {error}", file.display()))
}

fn reduce_plan(plan: &Plan, output: &Path) -> Answer {
    if matches!(plan.scenario, Scenario::History(_)) {
        return Err("histories cannot be reduced: their clients choose as they go".to_owned());
    }
    let Err(violation) = simulation::run(plan, Cuts::Drawn).outcome else {
        return Err("the plan does not fail: there is nothing to reduce".to_owned());
    };
    say(&format!("the plan fails: {violation}"));
    let bar = progress_bar("reduce", plan.kept_count());
    let fails = |plan: &Plan| simulation::run(plan, Cuts::Drawn).outcome.is_err();
    let small = reduce(plan, &fails, &mut |left| {
        bar.set_position(plan.kept_count().saturating_sub(left));
    });
    bar.finish_and_clear();
    fs::write(output, small.to_string())
        .map_err(|error| format!("{}: {error}", output.display()))?;
    say(&format!(
        "{} of {} operations are left: {}",
        small.kept_count(),
        plan.kept_count(),
        output.display()
    ));
    Ok(replay(&small))
}

fn crash(at: &str, seed: u64, operations: u64) -> Answer {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("--at wants `all`, a call or a range of calls, not {text:?}"))
    };
    let (first, last) = match at.split_once('-') {
        _ if at == "all" => (0, u64::MAX),
        Some((from, to)) => (number(from)?, number(to)?),
        None => (number(at)?, number(at)?),
    };
    let plan = Plan::new(Scenario::Clients, seed, operations);
    Ok(simulation::run(&plan, Cuts::Each(first, last))
        .outcome
        .map(|tally| {
            say(&format!(
                "crash: {} calls, {tally}, 0 violations",
                tally.calls
            ));
        })
        .map_err(|violation| Violation::within(violation, format!("seed {seed}"))))
}

/// Goes on after the last seed of the ledger and adds lines for this campaign, of the part `part`: one for each stretch of
/// [`STRETCH_SEEDS`].
fn with_ledger(mut campaign: Campaign, file: &Path, part: &str, jobs: usize) -> Answer {
    let wrong = |error: io::Error| format!("{}: {error}", file.display());
    let mut ledger = Ledger::open(file).map_err(wrong)?;
    campaign.first_seed = ledger.next(part, campaign.first_seed);
    let mut left = campaign.seeds;
    while left > 0 {
        campaign.seeds = left.min(STRETCH_SEEDS);
        let outcome = campaign.run_checked(jobs);
        let (runs, reached, violations) = match &outcome {
            Ok(tally) => (tally.runs, tally.cuts, 0),
            Err(_) => (campaign.seeds, 0, 1),
        };
        if runs > 0 {
            // Seeds are begun in order, so those that were run are the first ones.
            let stretch = Stretch {
                part: part.to_owned(),
                first: campaign.first_seed,
                last: campaign.first_seed + runs - 1,
                reached,
                unit: "power cuts".to_owned(),
                violations,
                build: build(Path::new(".")),
            };
            ledger.add(stretch).map_err(wrong)?;
        }
        if outcome.is_err() || runs < campaign.seeds {
            return Ok(outcome.map(drop));
        }
        campaign.cuts_max = campaign.cuts_max.map(|most| most.saturating_sub(reached));
        campaign.first_seed += runs;
        left -= runs;
    }
    Ok(Ok(()))
}

/// The name of a campaign in the ledger; the usual settings need no name.
fn part_of(scenario: Kind, operations: u64) -> String {
    match (scenario, operations) {
        (Kind::All, OPERATIONS) => "simulator".to_owned(),
        _ => format!("simulator {scenario:?} {operations}").to_lowercase(),
    }
}
