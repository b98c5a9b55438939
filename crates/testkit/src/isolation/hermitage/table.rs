//! The table of anomalies as it was observed, printed beside what the manual says.

use std::{fmt, ops::AddAssign};

use super::{scenario::Column, scenarios::SCENARIOS};
use crate::{
    isolation::{LEVELS, level_name},
    violation::{Checked, ensure},
};

/// What all batches of a run saw together.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Interleavings.
    pub schedules: u64,
    /// Interleavings in which all transactions had one level.
    pub of_one_level: u64,
    /// For each scenario and level how often its anomaly happened to a transaction of that level, where all had it.
    pub seen: Vec<[u64; LEVELS.len()]>,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.of_one_level += other.of_one_level;
        self.seen.resize(SCENARIOS.len(), [0; LEVELS.len()]);
        for (own, others) in self.seen.iter_mut().zip(other.seen) {
            for (own, other) in own.iter_mut().zip(others) {
                *own += other;
            }
        }
    }
}

impl Tally {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            seen: vec![[0; LEVELS.len()]; SCENARIOS.len()],
            ..Self::default()
        }
    }

    /// Checks that every anomaly that a level permits was seen there, in each scenario that can show it.
    ///
    /// # Errors
    /// The scenario and the level: the scenario shows nothing, or the level is stricter than the manual says.
    pub fn check_possible(&self) -> Checked {
        for (scenario, seen) in SCENARIOS.iter().zip(&self.seen) {
            for (level, count) in LEVELS.iter().zip(seen) {
                let is_right = scenario.column.is_prevented(*level) == (*count == 0);
                ensure(is_right, || {
                    format!(
                        "{} at {} was seen {count} times",
                        scenario.name,
                        level_name(*level)
                    )
                })?;
            }
        }
        Ok(())
    }

    fn count(&self, column: Column, level: usize) -> u64 {
        let of_column = SCENARIOS.iter().zip(&self.seen);
        of_column
            .filter(|(scenario, _)| scenario.column == column)
            .map(|(_, seen)| seen[level])
            .sum()
    }
}

impl fmt::Display for Tally {
    /// The table: `P` where the anomaly never happened, `a` where it did.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:16}", "")?;
        for column in Column::ALL {
            write!(f, "  {}", column.name())?;
        }
        for (index, level) in LEVELS.iter().enumerate() {
            write!(f, "\n{:16}", level_name(*level))?;
            for column in Column::ALL {
                let cell = if self.count(column, index) == 0 {
                    "P"
                } else {
                    "a"
                };
                write!(f, "  {cell:width$}", width = column.name().len())?;
            }
        }
        Ok(())
    }
}
