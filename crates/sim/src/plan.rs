//! What a simulation does, as a text file that replays it.
//!
//! ```text
//! kingtide-sim plan 1
//! scenario clients
//! seed 7
//! operations 400
//! switch-one-in 4
//! slow-thread none
//! away 300
//! kept 0-17 20 31-399
//! ```
//!
//! All that happens follows from these lines and the build. `kept` names the operations that are run; the others are
//! left out and change nothing for those that stay, which is how a failure is reduced.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use kingtide::IsolationLevel;
use kingtide_testkit::Random;

const FIRST_LINE: &str = "kingtide-sim plan 1";

/// What kind of work the simulated threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// One client, compared with the model after every operation; kills and power cuts between operations.
    Model,
    /// Several clients that commit; power cuts at calls of any thread.
    Clients,
    /// Several clients whose reads and commits are explained by the isolation level, or by several when there is none.
    History(Option<IsolationLevel>),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kind of work.
    pub scenario: Scenario,
    /// Chooses everything else.
    pub seed: u64,
    /// Operations (transactions in histories), of all clients together.
    pub operations: u64,
    /// The baton is passed at one of so many pauses.
    pub switch_one_in: u64,
    /// The thread that others overtake.
    pub slow_thread: Option<usize>,
    /// For up to so many pauses a thread that lost the baton is away.
    pub away_pauses_max: u64,
    /// The operations that are run, in order and disjoint.
    pub kept: Vec<RangeInclusive<u64>>,
}

impl Plan {
    /// The plan of `seed`, which also draws how threads take turns.
    #[must_use]
    pub fn new(scenario: Scenario, seed: u64, operations: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6b69_6e67_7469_6465);
        Self {
            scenario,
            seed,
            operations,
            switch_one_in: *random.pick(&[1, 2, 4, 16, 64]),
            slow_thread: random.one_in(3).then(|| random.below(7)),
            away_pauses_max: *random.pick(&[0, 0, 30, 300, 3000]),
            kept: std::iter::once(0..=operations.saturating_sub(1)).collect(),
        }
    }

    /// True when operation `number` is run.
    #[must_use]
    pub fn keeps(&self, number: u64) -> bool {
        self.kept.iter().any(|range| range.contains(&number))
    }

    /// How many operations are run.
    #[must_use]
    pub fn kept_count(&self) -> u64 {
        self.kept
            .iter()
            .map(|range| range.end() - range.start() + 1)
            .sum()
    }

    /// The same, with only these operations, which are in order.
    #[must_use]
    pub fn with_kept(&self, numbers: &[u64]) -> Self {
        let mut kept: Vec<RangeInclusive<u64>> = Vec::new();
        for number in numbers {
            match kept.last_mut() {
                Some(last) if last.end() + 1 == *number => *last = *last.start()..=*number,
                _ => kept.push(*number..=*number),
            }
        }
        Self {
            kept,
            ..self.clone()
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model => f.write_str("model"),
            Self::Clients => f.write_str("clients"),
            Self::History(None) => f.write_str("history mixed"),
            Self::History(Some(level)) => write!(f, "history {}", level_name(*level)),
        }
    }
}

/// The name of a level in plans and on the command line.
#[must_use]
pub fn level_name(level: IsolationLevel) -> &'static str {
    match level {
        IsolationLevel::ReadUncommitted => "read-uncommitted",
        IsolationLevel::ReadCommitted => "read-committed",
        IsolationLevel::RepeatableRead => "repeatable-read",
        IsolationLevel::Snapshot => "snapshot",
        IsolationLevel::Serializable => "serializable",
    }
}

/// The level of that name; `mixed` is none.
///
/// # Errors
/// The names that there are.
pub fn level_of(name: &str) -> Result<Option<IsolationLevel>, String> {
    if name == "mixed" {
        return Ok(None);
    }
    let found = IsolationLevel::ALL
        .into_iter()
        .find(|level| level_name(*level) == name);
    found.map(Some).ok_or_else(|| {
        let names: Vec<&str> = IsolationLevel::ALL.into_iter().map(level_name).collect();
        format!(
            "no level is called {name:?}: there are {}, mixed",
            names.join(", ")
        )
    })
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}")?;
        writeln!(f, "scenario {}", self.scenario)?;
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "operations {}", self.operations)?;
        writeln!(f, "switch-one-in {}", self.switch_one_in)?;
        match self.slow_thread {
            None => writeln!(f, "slow-thread none")?,
            Some(thread) => writeln!(f, "slow-thread {thread}")?,
        }
        writeln!(f, "away {}", self.away_pauses_max)?;
        f.write_str("kept")?;
        for range in &self.kept {
            if range.start() == range.end() {
                write!(f, " {}", range.start())?;
            } else {
                write!(f, " {}-{}", range.start(), range.end())?;
            }
        }
        writeln!(f)
    }
}

impl FromStr for Plan {
    type Err = String;

    /// Reads what `Display` writes. Lines may come in any order; empty ones and those that begin with `#` say nothing.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next().map(str::trim) != Some(FIRST_LINE) {
            return Err(format!("a plan begins with the line {FIRST_LINE:?}"));
        }
        let mut plan = Self::new(Scenario::Model, 0, 0);
        let mut is_complete = (false, false);
        for line in lines.map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.trim();
            match name {
                "scenario" => plan.scenario = scenario_of(value)?,
                "seed" => {
                    plan.seed = number(name, value)?;
                    is_complete.0 = true;
                }
                "operations" => plan.operations = number(name, value)?,
                "switch-one-in" => plan.switch_one_in = number(name, value)?,
                "away" => plan.away_pauses_max = number(name, value)?,
                "slow-thread" if value == "none" => plan.slow_thread = None,
                "slow-thread" => {
                    let thread: u64 = number(name, value)?;
                    plan.slow_thread = usize::try_from(thread).ok();
                }
                "kept" => {
                    plan.kept = value
                        .split_whitespace()
                        .map(range_of)
                        .collect::<Result<_, _>>()?;
                    is_complete.1 = true;
                }
                _ => return Err(format!("a plan has no line {name:?}")),
            }
        }
        if is_complete == (true, true) {
            Ok(plan)
        } else {
            Err("a plan needs the lines \"seed\" and \"kept\"".to_owned())
        }
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{name} wants a number, not {text:?}"))
}

fn range_of(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (number("kept", from)?, number("kept", to)?);
    if from > to {
        return Err(format!("kept wants ranges that go up, not {text:?}"));
    }
    Ok(from..=to)
}

fn scenario_of(text: &str) -> Result<Scenario, String> {
    match text.split_once(' ').unwrap_or((text, "")) {
        ("model", "") => Ok(Scenario::Model),
        ("clients", "") => Ok(Scenario::Clients),
        ("history", level) => Ok(Scenario::History(level_of(level)?)),
        _ => Err(format!(
            "no scenario is called {text:?}: there are model, clients, history LEVEL"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_they_were_written() {
        for seed in 0..50 {
            for scenario in [
                Scenario::Model,
                Scenario::Clients,
                Scenario::History(None),
                Scenario::History(Some(IsolationLevel::Serializable)),
            ] {
                let plan = Plan::new(scenario, seed, 100).with_kept(&[0, 1, 2, 7, 9, 10]);
                assert_eq!(plan.to_string().parse(), Ok(plan.clone()), "{plan}");
                assert_eq!(plan.kept_count(), 6);
                assert!(plan.keeps(2) && !plan.keeps(3) && plan.keeps(7) && !plan.keeps(8));
            }
        }
    }

    #[test]
    fn what_is_no_plan_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "begins with the line"),
            ("kingtide-sim plan 1\nseed 1\n", "needs the lines"),
            ("kingtide-sim plan 1\nseed x\n", "seed wants a number"),
            ("kingtide-sim plan 1\nkept 7-3\n", "ranges that go up"),
            ("kingtide-sim plan 1\nscenario theatre\n", "no scenario"),
            ("kingtide-sim plan 1\nscenario history fast\n", "no level"),
            ("kingtide-sim plan 1\ncolour red\n", "no line"),
        ] {
            let error = text.parse::<Plan>().unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
