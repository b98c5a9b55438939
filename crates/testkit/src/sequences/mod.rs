//! All short sequences of operations, in each sync mode, with a power cut at every call.
//!
//! An *alphabet* of a few dozen letters holds every kind of operation ([`LETTERS`](letters)). Every sequence of them up
//! to a length is run against the naive database of [`metamorphic`](crate::metamorphic), which says what each must answer
//! and what the database shows behind it, and then against the engine in the world in memory:
//!
//! 1. uncut: every answer is right;
//! 2. once for each mutating call that the last letter makes: the machine is switched off after it, and for each of the
//!    images that a power cut may leave, the database is opened. It must show the state after a whole operation: not
//!    before the last one whose effect is promised, not behind the one under way. Copies that were acknowledged are
//!    there and whole. Then it takes writes, and what is prepared an outcome, which the next opening shows.
//!
//! The calls of the letters before the last one are those of a shorter sequence, which is run as well; so together all
//! calls of all sequences are cut. Images that hold the same as another one of the sequence are opened once.
//!
//! Mode interval is run with an interval that does not end: what is synced is what the sequence says. What the
//! background does meanwhile is left to [`script`](crate::script), and so are cuts of recoveries.

mod cut;
mod letters;

use std::{fmt, ops::AddAssign, time::Duration};

use kingtide::SyncMode;

use self::{cut::Case, letters::LETTERS};
use crate::violation::{Checked, no_panic};

/// The modes.
const MODES: [SyncMode; 3] = [
    SyncMode::None,
    SyncMode::Interval(Duration::from_secs(1 << 30)),
    SyncMode::Full,
];

/// What sequences went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Sequences, each mode counted.
    pub sequences: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Images that were judged.
    pub images: u64,
    /// Images that were opened, since no other one of the sequence holds the same.
    pub recoveries: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.cuts += other.cuts;
        self.images += other.images;
        self.recoveries += other.recoveries;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sequences of {} letters in {} modes, {} cuts, {} images, {} of them different",
            self.sequences,
            LETTERS.len(),
            MODES.len(),
            self.cuts,
            self.images,
            self.recoveries
        )
    }
}

/// How many cases there are up to `length` letters: every sequence in every mode, the empty one included.
#[must_use]
pub fn count(length: u32) -> u64 {
    let sequences: u64 = (0..=length)
        .map(|length| (LETTERS.len() as u64).pow(length))
        .sum();
    sequences * MODES.len() as u64
}

/// Runs case `number`; shorter sequences have lower numbers.
///
/// # Errors
/// The violation, with the sequence, the cut, the image and the command that replays it.
pub fn check(number: u64) -> Checked<Tally> {
    let modes = MODES.len() as u64;
    let mode = MODES[(number % modes) as usize];
    let letters = letters_of(number / modes);
    no_panic(|| Case::new(&letters, mode).check()).map_err(|violation| {
        let names: Vec<&str> = letters.iter().map(|letter| LETTERS[*letter].0).collect();
        violation.within(format_args!(
            "[{}] in mode {mode:?} (replay: cargo proof sequences --first {number} --cases 1)",
            names.join(" ")
        ))
    })
}

/// The letters of sequence `number`.
fn letters_of(mut number: u64) -> Vec<usize> {
    let letters = LETTERS.len() as u64;
    let mut length = 0;
    while number >= letters.pow(length) {
        number -= letters.pow(length);
        length += 1;
    }
    let place = |place| ((number / letters.pow(place)) % letters) as usize;
    (0..length).map(place).collect()
}

#[cfg(test)]
mod tests;
