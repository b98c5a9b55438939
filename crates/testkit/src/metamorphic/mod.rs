//! The same operations under different settings give the same answers.
//!
//! A seed makes a list of operations that knows nothing of settings ([`operation`]): writes, transactions at all levels,
//! two-phase commits, snapshots, iterators in both directions, expiry, changes of the families, bulk loads, copies,
//! flushes, merges, openings. The list is run against the naive database, and then under each of [`SETTINGS`], which drive
//! one group of settings each to an end and draw all others from the seed. Every answer must be that of the naive
//! database, and so the same under all (metamorphic testing: Chen et al., 1998). What answers do not show is left to
//! other proofs: sizes, sequence numbers, times; and crashes, which settings are meant to change.
//!
//! A failure names the shortest prefix of the list that shows it, and which operations of that are needed
//! (delta debugging: Zeller and Hildebrandt, 2002).
//!
//! | module | what it is |
//! |---|---|
//! | `operation` | operations, and lists of them |
//! | `setting` | the configurations |
//! | `naive` | what must be answered |
//! | `engine` | what is answered |
//! | `answer` | answers that can be compared |
//! | `span`, `clock` | ranges of keys; time in ticks |

mod answer;
mod clock;
mod engine;
mod naive;
mod operation;
mod setting;
mod span;

pub use answer::Answer;
pub use operation::{Operation, list};
pub use setting::{SETTINGS, Setting};

use std::{fmt, ops::AddAssign};

use kingtide_env::MemoryEnv;

use self::setting::Drawn;
pub(crate) use self::{
    engine::{Engine, dump, settled},
    naive::Naive,
    operation::{Change, ChangeKind, From, ReadKind, name_of},
    setting::Configuration,
};
use crate::violation::{Checked, Violation, no_panic};

/// What runs went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Lists.
    pub lists: u64,
    /// Operations, those under each configuration counted.
    pub operations: u64,
    /// Operations that were refused, as they had to be.
    pub refused: u64,
    /// Operations that were left out, since there was nothing for them to work on.
    pub left_out: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.lists += other.lists;
        self.operations += other.operations;
        self.refused += other.refused;
        self.left_out += other.left_out;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lists under {} configurations, {} operations, {} rightly refused, {} without anything to work on",
            self.lists,
            SETTINGS.len(),
            self.operations,
            self.refused,
            self.left_out
        )
    }
}

/// Runs the first `operations` operations of the list that `seed` names under every configuration.
///
/// # Errors
/// The violation, with the shortest prefix that shows it, what of that is needed, and the command that replays it.
pub fn run(seed: u64, operations: usize) -> Checked<Tally> {
    let list = list(seed, operations);
    let Err(failure) = run_list(seed, &list) else {
        return Ok(tally_of(&list));
    };
    let mut found = failure;
    let mut prefix = found.at + 1;
    // Another configuration may fail earlier; and threads run freely, so a shorter list may fail at another place.
    while prefix > 1 {
        match run_list(seed, &list[..(prefix - 1).min(list.len())]) {
            Err(earlier) if earlier.at + 1 < prefix => {
                prefix = earlier.at + 1;
                found = earlier;
            }
            _ => break,
        }
    }
    let needed = reduce(seed, &list[..prefix.min(list.len())], found.setting);
    Err(Violation::new(format!(
        "seed {seed} under {:?}, operation {}: {} (replay: cargo proof metamorphic --seed {seed} --runs 1 --operations \
         {prefix})\nof these, needed are:\n{needed}",
        found.setting, found.at, found.what
    )))
}

/// What went wrong and where.
#[derive(Debug)]
struct Failure {
    setting: Setting,
    at: usize,
    what: String,
}

/// What must be answered; `None` where an operation is left out.
fn expect(list: &[Operation]) -> Vec<Option<Answer>> {
    let mut naive = Naive::default();
    list.iter()
        .map(|operation| naive.perform(operation))
        .collect()
}

fn run_list(seed: u64, list: &[Operation]) -> Result<(), Failure> {
    let numbered: Vec<(usize, &Operation)> = list.iter().enumerate().collect();
    let expected = expect(list);
    for setting in SETTINGS {
        run_setting(seed, setting, &numbered, &expected)?;
    }
    Ok(())
}

/// Runs operations with their numbers under one configuration.
fn run_setting(
    seed: u64,
    setting: Setting,
    list: &[(usize, &Operation)],
    expected: &[Option<Answer>],
) -> Result<(), Failure> {
    let mut at = 0;
    let failed = |at: usize, what: String| Failure { setting, at, what };
    let mut engine = Engine::new(Drawn { setting, seed }, MemoryEnv::new(seed))
        .map_err(|error| failed(0, format!("open: {error}")))?;
    let outcome = no_panic(|| {
        for ((number, operation), expected) in list.iter().zip(expected) {
            at = *number;
            let Some(expected) = expected else {
                continue;
            };
            let (answer, words) = settled(engine.perform(*number as u64, operation));
            if answer != *expected {
                return Err(Violation::new(format!(
                    "{operation:?}\nanswered {answer:?}{words}\nexpected {expected:?}"
                )));
            }
        }
        Ok(engine.close()?)
    });
    if outcome.is_err() {
        engine.power_off();
    }
    outcome.map_err(|violation| failed(at, violation.to_string()))
}

/// Leaves out what can be left out of a failing list; the operations that stay, as text.
fn reduce(seed: u64, list: &[Operation], setting: Setting) -> String {
    let mut kept: Vec<(usize, &Operation)> = list.iter().enumerate().collect();
    let fails = |kept: &[(usize, &Operation)]| {
        let mut naive = Naive::default();
        let expected: Vec<Option<Answer>> = kept
            .iter()
            .map(|(_, operation)| naive.perform(operation))
            .collect();
        run_setting(seed, setting, kept, &expected).is_err()
    };
    let mut chunk = kept.len() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(start..(start + chunk).min(kept.len()));
            if fails(&fewer) {
                kept = fewer;
            } else {
                start += chunk;
            }
        }
        chunk /= 2;
    }
    kept.iter()
        .map(|(number, operation)| format!("  {number}: {operation:?}\n"))
        .collect()
}

fn tally_of(list: &[Operation]) -> Tally {
    let expected = expect(list);
    let done = expected.iter().flatten().count();
    let refused = |answer: &&Answer| matches!(answer, Answer::Refused(_));
    let refused = expected.iter().flatten().filter(refused).count();
    Tally {
        lists: 1,
        operations: (done * SETTINGS.len()) as u64,
        refused: (refused * SETTINGS.len()) as u64,
        left_out: ((list.len() - done) * SETTINGS.len()) as u64,
    }
}

#[cfg(test)]
mod tests;
