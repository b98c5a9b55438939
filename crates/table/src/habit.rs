//! What readers did of late, as a guess at what those do that come next.

use kingtide_env::sync::atomic::{AtomicU32, Ordering};

/// Whether readers that come to a place of a file, from another file or by a jump, go on from there, as far as the last few dozen
/// tell.
///
/// A share in units of [`Habit::ALL`], to which each coming and each going on adds its sixteenth. Threads that count at the same
/// moment may count one for both: it is a guess, and all that hangs on it is how much is read at once.
#[derive(Debug, Default)]
pub(crate) struct Habit(AtomicU32);

impl Habit {
    /// The share when all go on.
    const ALL: u32 = 1 << 16;
    /// The part of the share that one reader is.
    const PART: u32 = 16;

    /// A reader came to a place.
    pub(crate) fn begin(&self) {
        let share = self.0.load(Ordering::Relaxed);
        self.0.store(share - share / Self::PART, Ordering::Relaxed);
    }

    /// A reader that came went on from there.
    pub(crate) fn go_on(&self) {
        let share = self.0.load(Ordering::Relaxed) + Self::ALL / Self::PART;
        self.0.store(share.min(Self::ALL), Ordering::Relaxed);
    }

    /// Whether more than half go on.
    pub(crate) fn is_to_go_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) > Self::ALL / 2
    }
}
