//! Runs plans: the real engine on simulated threads.

use kingtide_env::baton::{Tuning, simulate};
use kingtide_testkit::{Checked, Violation, history, isolation::history as sessions};

use crate::{
    clients::{self, Cuts},
    plan::{Plan, Scenario},
    tally::SimTally,
};

/// Pauses after which a run counts as endless.
const PAUSES_MAX: u64 = 2_000_000_000;

/// What a run did, and the hash over all its pauses.
pub struct Ran {
    /// The tally, or the violation.
    pub outcome: Checked<SimTally>,
    /// Two runs of a plan have the same one.
    pub trace: u64,
}

/// Runs `plan` once.
pub fn run(plan: &Plan, cuts: Cuts) -> Ran {
    let tuning = Tuning {
        switch_one_in: plan.switch_one_in,
        away_pauses_max: plan.away_pauses_max,
        slow_thread: plan.slow_thread,
        pauses_max: PAUSES_MAX,
    };
    let inner = plan.clone();
    let outcome = simulate(plan.seed, tuning, move || body(&inner, cuts));
    let switches = outcome.switches;
    let answer = match outcome.answer {
        Ok(answer) => answer,
        Err(failure) => Err(Violation::new(failure)),
    };
    Ran {
        outcome: answer.map(|tally| SimTally { switches, ..tally }),
        trace: outcome.trace,
    }
}

/// Runs `plan` twice: it must go the same way both times.
///
/// # Errors
/// The violation, or that the runs differ.
pub fn run_twice(plan: &Plan, cuts: Cuts) -> Checked<SimTally> {
    let first = run(plan, cuts);
    let tally = first.outcome?;
    let second = run(plan, cuts);
    second.outcome?;
    if first.trace != second.trace {
        return Err(Violation::new(format!(
            "two runs of one plan went different ways: traces {:016x} and {:016x}",
            first.trace, second.trace
        )));
    }
    Ok(tally)
}

fn body(plan: &Plan, cuts: Cuts) -> Checked<SimTally> {
    match plan.scenario {
        Scenario::Model => {
            let tally =
                history::run_kept(plan.seed, plan.operations, &|number| plan.keeps(number))?;
            Ok(SimTally {
                runs: 1,
                operations: tally.operations,
                cuts: tally.power_cuts,
                images: tally.power_cuts,
                ..SimTally::default()
            })
        }
        Scenario::Clients => clients::run(plan, cuts),
        Scenario::History(level) => {
            let session = sessions::Session {
                seed: plan.seed,
                level,
                windows: plan.operations.div_ceil(200).max(1),
                transactions: plan.operations.min(200),
                independent_one_in: 50,
            };
            let tally = sessions::run(&session)?;
            Ok(SimTally {
                runs: 1,
                transactions: tally.transactions,
                ..SimTally::default()
            })
        }
    }
}
