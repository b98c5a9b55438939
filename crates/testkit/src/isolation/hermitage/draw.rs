//! Draws programs: transactions of random steps over a few keys, so that they meet often.

use super::{
    drive::Program,
    scenario::{Amount, KeyRange, Step},
};
use crate::random::Random;

/// The keys, from the first up to but not including the second.
const KEYS: (u8, u8) = (b'a', b'g');
/// Steps of a transaction between its beginning and its end.
const STEPS_MAX: usize = 5;

/// A program of two or three transactions.
pub fn program(random: &mut Random) -> Program {
    let mut setup = Vec::new();
    for key in KEYS.0..KEYS.1 {
        if random.one_in(2) {
            setup.push((key, i64::from(key)));
        }
    }
    let count = if random.one_in(3) { 3 } else { 2 };
    let scripts = (0..count).map(|number| script(number, random)).collect();
    Program {
        scenario: None,
        setup,
        scripts,
    }
}

fn script(number: usize, random: &mut Random) -> Vec<Step> {
    let mut steps = vec![Step::Begin];
    let (mut is_open, mut is_saved) = (false, false);
    for index in 0..random.between(1, STEPS_MAX) {
        // Every write writes a number of its own.
        let value = (100 * (number + 1) + index) as i64;
        let key = any_key(random);
        let step = match random.below(22) {
            0..3 => Step::Get(key),
            3 => Step::Gets(vec![key, any_key(random)]),
            4 | 5 => Step::Scan(any_range(random)),
            6 => Step::Back(any_range(random)),
            7 if is_open => Step::Next,
            7..9 => {
                is_open = true;
                steps.push(Step::Open(any_range(random)));
                Step::Next
            }
            9..14 => Step::Put(key, Amount::Is(value)),
            14 => Step::Put(key, Amount::LastRead(key, value)),
            15 | 16 => Step::Delete(key),
            17 | 18 => Step::Clear(any_range(random)),
            19 => Step::Lock(key),
            20 => Step::Peek(key),
            _ if is_saved => {
                is_saved = false;
                Step::Undo
            }
            _ => {
                is_saved = true;
                Step::Save
            }
        };
        steps.push(step);
    }
    match random.below(20) {
        0 => steps.push(Step::Rollback),
        1 => steps.extend([Step::Prepare, Step::Refuse]),
        2..6 => steps.extend([Step::Prepare, Step::Finish]),
        _ => steps.push(Step::Commit),
    }
    steps
}

fn any_key(random: &mut Random) -> u8 {
    KEYS.0 + random.below(usize::from(KEYS.1 - KEYS.0)) as u8
}

/// Between one key and all of them.
fn any_range(random: &mut Random) -> KeyRange {
    let (one, other) = (any_key(random), any_key(random));
    KeyRange {
        lower: one.min(other),
        upper: one.max(other) + 1,
    }
}
