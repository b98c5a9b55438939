//! Tests the tests: plants one known bug after the other, and looks which part of the proofs catches it.

use std::{
    panic,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use kingtide::IsolationLevel;
use kingtide_base::planted::{Bug, plant};
use kingtide_testkit::{
    Checked, Violation, damage,
    isolation::hermitage::{self, Extent},
    script,
};

use crate::{
    clients::Cuts,
    plan::{Plan, Scenario},
    report::say,
    simulation,
};

/// A part of the proofs, cut into runs of which the first that fails catches the bug.
struct Part {
    name: &'static str,
    runs: u64,
    run: fn(u64) -> Checked,
}

/// The parts, the quickest first. So many runs that a bug is caught with room to spare: which run meets it changes with every
/// change of the order in which threads take turns.
const PARTS: &[Part] = &[
    Part {
        name: "simulated model",
        runs: 400,
        run: |seed| simulated(Scenario::Model, seed, 600),
    },
    Part {
        name: "simulated clients",
        runs: 500,
        run: |seed| simulated(Scenario::Clients, seed, 300),
    },
    Part {
        name: "simulated histories",
        runs: 60,
        run: |seed| {
            let levels = IsolationLevel::ALL;
            let level = levels[(seed % levels.len() as u64) as usize];
            simulated(Scenario::History(Some(level)), seed, 800)
        },
    },
    Part {
        name: "crash at every I/O",
        runs: 200,
        run: |number| script::check_cut(number * 4, 16).map(drop),
    },
    Part {
        name: "Hermitage",
        runs: 40,
        run: |number| {
            let batches = hermitage::batches(&Extent::QUICK);
            let index = number as usize * batches.len() / 40;
            let tally = hermitage::run_batch(&batches[index])?;
            drop(tally);
            Ok(())
        },
    },
    Part {
        name: "corruption",
        runs: 1,
        run: |_| {
            let specimen = damage::Specimen::build()?;
            for place in specimen.places().iter().step_by(37) {
                specimen.check(place, damage::Flip::OneBit, false)?;
            }
            Ok(())
        },
    },
];

fn simulated(scenario: Scenario, seed: u64, operations: u64) -> Checked {
    let plan = Plan::new(scenario, seed, operations);
    simulation::run(&plan, Cuts::Drawn).outcome.map(drop)
}

/// Who caught a bug.
struct Caught {
    part: &'static str,
    after: u64,
    violation: String,
}

/// The part that is asked first: for most bugs the quickest, for these the one that meets them soonest. Nothing but time hangs
/// on it, since the others are asked when it finds nothing.
fn asked_first(bug: Bug) -> &'static str {
    match bug {
        Bug::AcknowledgedInvisible | Bug::FlushFailureForgotten => "simulated clients",
        Bug::RangeNotChecked | Bug::CheckedTooEarly => "simulated histories",
        _ => "simulated model",
    }
}

fn hunt(bug: Bug) -> Option<Caught> {
    let first = asked_first(bug);
    let (first, others): (Vec<_>, Vec<_>) = PARTS.iter().partition(|part| part.name == first);
    for part in first.into_iter().chain(others) {
        for number in 0..part.runs {
            let outcome = panic::catch_unwind(|| (part.run)(number))
                .unwrap_or_else(|_| Err(Violation::new("a panic")));
            if let Err(violation) = outcome {
                return Some(Caught {
                    part: part.name,
                    after: number + 1,
                    violation: violation.to_string(),
                });
            }
        }
    }
    None
}

/// Plants the bugs whose names hold `filter`, all for the empty one, and prints a table of who caught which.
///
/// # Errors
/// When one was not caught, or when something is caught without any bug.
pub fn run(filter: &str, shows_violations: bool) -> Checked {
    panic::set_hook(Box::new(|_| {}));
    let chosen = Bug::ALL
        .iter()
        .copied()
        .filter(|bug| bug.name().to_lowercase().contains(&filter.to_lowercase()));
    let (caught, all) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut missed = Vec::new();
    for bug in chosen {
        let begun = Instant::now();
        plant(Some(bug));
        let found = hunt(bug);
        plant(None);
        all.fetch_add(1, Ordering::Relaxed);
        let seconds = begun.elapsed().as_secs_f64();
        match found {
            Some(found) => {
                caught.fetch_add(1, Ordering::Relaxed);
                say(&format!(
                    "caught  {:<26} by {}, run {} ({seconds:.1} s): {}",
                    bug.name(),
                    found.part,
                    found.after,
                    bug.text()
                ));
                if shows_violations {
                    say(&format!("        {}", found.violation));
                }
            }
            None => {
                missed.push(bug.name());
                say(&format!(
                    "MISSED  {:<26} ({seconds:.1} s): {}",
                    bug.name(),
                    bug.text()
                ));
            }
        }
    }
    let (caught, all) = (caught.into_inner(), all.into_inner());
    say(&format!("zoo: {caught} of {all} planted bugs caught"));
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(Violation::new(format!("not caught: {}", missed.join(", ")))),
    }
}
