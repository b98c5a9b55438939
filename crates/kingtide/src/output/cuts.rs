//! Where the tables of a pass end, other than for their size.
//!
//! 1. *At given keys*: those of a merge plan, so that tables of neighbouring levels end together; those of an ascending load,
//!    from a flush (`flush/ascent`).
//! 2. *Where the keys pass over a whole table that is there.* The parts before and behind it then do not overlap it, and
//!    may go below it.
//! 3. *Where an ascending load ends*: several writers, each of which commits ascending keys of its own range, make a
//!    memtable whose commits ascend with the keys, and fall back at the end of each range, by nearly all of its commits. The
//!    next flush goes on behind each end. Tables that end there never overlap, so none of them is ever merged; a table over
//!    several ranges would overlap all that is written later. This looks at sequence numbers alone, and so holds for every
//!    order of keys.
//!
//! 2 leaves no table behind that is smaller than [`JUMP_BYTES_MIN`], because what is cut may still overlap others; 3 none
//! smaller than [`RUN_BYTES_MIN`]: commits of random keys never ascend for so long. They are for flushes. Not decided here:
//! where tables go; that is `engine/place`.

use std::{cmp::Ordering, sync::Arc};

use kingtide_base::{KeyOrder, SeqNo};
use kingtide_format::TableMeta;

use crate::version::Version;

/// A table is not cut where keys pass over another one before it has so many bytes.
const JUMP_BYTES_MIN: u64 = 256 << 10;
/// An ascent of commits counts from so many bytes on.
const RUN_BYTES_MIN: u64 = 64 << 10;
/// It ends with a fall by one part in so many of all commits: threads that share one ascending load fall back by less, again and
/// again, where nothing will come between.
const FALL_DIVISOR: u64 = 2;

/// Tells, when so many keys of a pass are behind, before which keys tables end from there on, in the place of those given before.
pub(crate) trait Late: Send + Sync {
    /// How many keys that is.
    fn after(&self) -> usize;

    /// The keys, ascending.
    fn ends(&self) -> Vec<Vec<u8>>;
}

/// Where tables end.
#[derive(Clone, Default)]
pub(crate) struct Cuts {
    /// Ascending.
    keys: Arc<[Vec<u8>]>,
    /// The smallest and the largest key of the tables that are there, by the smallest.
    islands: Arc<[(Vec<u8>, Vec<u8>)]>,
    /// An ascent of commits ends where sequence numbers fall by more than this between two keys, if such ends count.
    fall_min: Option<u64>,
    late: Option<Arc<dyn Late>>,
}

impl Cuts {
    /// Tables end before each of `keys`, which ascend.
    pub(crate) fn at(keys: Vec<Vec<u8>>) -> Self {
        Self {
            keys: keys.into(),
            ..Self::default()
        }
    }

    /// For a flush beside the tables of `version`, of commits with so many numbers.
    pub(crate) fn around(version: &Version, order: &KeyOrder, commits: u64) -> Self {
        let keys = |table: &TableMeta| (table.smallest.clone(), table.largest.clone());
        let mut islands: Vec<_> = version.tables().map(|(_, table)| keys(table)).collect();
        islands.sort_by(|left, right| order.compare(&left.0, &right.0));
        Self {
            keys: Arc::default(),
            islands: islands.into(),
            fall_min: Some(commits / FALL_DIVISOR),
            late: None,
        }
    }

    /// The same, and tables end before each of `keys`, which ascend, and where `late` says.
    pub(crate) fn and(self, keys: Vec<Vec<u8>>, late: Arc<dyn Late>) -> Self {
        Self {
            keys: keys.into(),
            late: Some(late),
            ..self
        }
    }
}

/// As [`KeyOrder::compare`], without a call where the first 16 bytes tell.
#[inline]
fn compare(order: &KeyOrder, left: &[u8], right: &[u8]) -> Ordering {
    if order.is_bytewise()
        && let (Some(left), Some(right)) = (left.first_chunk::<16>(), right.first_chunk::<16>())
        && left != right
    {
        return u128::from_be_bytes(*left).cmp(&u128::from_be_bytes(*right));
    }
    order.compare(left, right)
}

/// Walks along the keys of a pass and tells where tables end.
#[derive(Default)]
pub(super) struct Cutter {
    cuts: Cuts,
    /// Keys until the late ends are told.
    keys_left: usize,
    next_key: usize,
    next_island: usize,
    /// The newest commit of the key before.
    last_sequence: SeqNo,
    /// Bytes of the table where the commits last fell back.
    run_start: u64,
}

impl Cutter {
    pub(super) fn new(cuts: Cuts) -> Self {
        Self {
            keys_left: cuts.late.as_ref().map_or(usize::MAX, |late| late.after()),
            cuts,
            ..Self::default()
        }
    }

    /// Notes the first key of a table.
    pub(super) fn begin(&mut self, order: &KeyOrder, first: &[u8], sequence: SeqNo) {
        self.run_start = 0;
        self.last_sequence = sequence;
        self.pass_keys(order, first);
    }

    /// The cut between the keys `last` and `next`, whose newest version has the number `sequence`, of a table that has so
    /// many bytes so far: the first key that is behind the table's end. `None`: no cut.
    pub(super) fn cut<'a>(
        &'a mut self,
        order: &KeyOrder,
        (last, next): (&[u8], &'a [u8]),
        sequence: SeqNo,
        bytes: u64,
    ) -> Option<&'a [u8]> {
        self.keys_left = self.keys_left.saturating_sub(1);
        if self.keys_left == 0 {
            self.ask_late(order, last);
        }
        let fall = self.last_sequence.0.checked_sub(sequence.0);
        let is_back = matches!((fall, self.cuts.fall_min), (Some(fall), Some(min)) if fall > min);
        self.last_sequence = sequence;
        let run_bytes = bytes.saturating_sub(self.run_start);
        if is_back {
            self.run_start = bytes;
        }
        let jumps = self.jumps(order, last, next);
        if let Some(key) = self.pass_keys(order, next) {
            return Some(&self.cuts.keys[key]);
        }
        let is_end = (is_back && run_bytes >= RUN_BYTES_MIN) || (jumps && bytes >= JUMP_BYTES_MIN);
        is_end.then_some(next)
    }

    /// Takes the late ends behind `last` in the place of the other given keys, if it has not yet.
    #[cold]
    fn ask_late(&mut self, order: &KeyOrder, last: &[u8]) {
        self.keys_left = usize::MAX;
        if let Some(late) = self.cuts.late.take() {
            let ends = late.ends();
            self.next_key = ends.partition_point(|end| order.compare(end, last).is_le());
            self.cuts.keys = ends.into();
        }
    }

    /// Goes on behind the given keys up to `next`; answers the index of the last one passed.
    fn pass_keys(&mut self, order: &KeyOrder, next: &[u8]) -> Option<usize> {
        let mut passed = None;
        while let Some(key) = self.cuts.keys.get(self.next_key)
            && compare(order, key, next).is_le()
        {
            passed = Some(self.next_key);
            self.next_key += 1;
        }
        passed
    }

    /// True when a table lies between `last` and `next`, as a whole.
    fn jumps(&mut self, order: &KeyOrder, last: &[u8], next: &[u8]) -> bool {
        let mut jumps = false;
        while let Some((smallest, largest)) = self.cuts.islands.get(self.next_island)
            && compare(order, smallest, next).is_lt()
        {
            jumps |= order.compare(smallest, last).is_gt() && order.compare(largest, next).is_lt();
            self.next_island += 1;
        }
        jumps
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
