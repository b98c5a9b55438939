//! What came into a memtable after a place, in the order in which it came: for a check that looks at little while
//! commits wait for it.

use kingtide_base::SeqNo;
use kingtide_env::sync::Mutex;

use crate::arena::{Arena, EntryOffset};

use super::{Memtable, MemtableEntry};

/// The most marks of a memtable.
const MARKS_MAX: usize = 4096;
/// Bytes of entries between two marks, at least.
const MARK_BYTES_MIN: usize = 4096;

/// Where in the arena commits begin: one in every few thousand bytes.
pub(super) struct Marks {
    every_bytes: usize,
    /// Ascending. Never grows beyond what was reserved for it.
    marks: Mutex<Vec<(SeqNo, EntryOffset)>>,
}

impl Marks {
    /// Marks for an arena of `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        let every_bytes = bytes.div_ceil(MARKS_MAX).max(MARK_BYTES_MIN);
        Self {
            every_bytes,
            marks: Mutex::new(Vec::with_capacity(bytes / every_bytes + 1)),
        }
    }

    /// Bytes of memory that the marks of so many bytes of entries take.
    pub(super) fn memory_bytes(&self, bytes: usize) -> usize {
        bytes / self.every_bytes * size_of::<(SeqNo, EntryOffset)>()
    }

    /// Notes that the entries of `sequence` begin at `start`, when that is far enough from the last mark. `last` is that
    /// mark's place, kept by the one writer.
    pub(super) fn note(&self, last: &mut EntryOffset, sequence: SeqNo, start: EntryOffset) {
        if Arena::bytes_between(*last, start) < self.every_bytes {
            return;
        }
        let mut marks = self.marks.lock();
        if marks.len() < marks.capacity() {
            marks.push((sequence, start));
            *last = start;
        }
    }

    /// A place before which there is nothing newer than `since`.
    fn place_after(&self, since: SeqNo) -> EntryOffset {
        let marks = self.marks.lock();
        let old_enough = marks.partition_point(|(sequence, _)| *sequence <= since);
        match old_enough.checked_sub(1) {
            Some(index) => marks[index].1,
            None => Memtable::START,
        }
    }
}

impl Memtable {
    /// The place before the first entry.
    pub const START: EntryOffset = EntryOffset(1);

    /// The place behind everything that is inserted. Of an insertion that runs at the same time, some entries may lie
    /// before it.
    #[must_use]
    pub fn tail(&self) -> EntryOffset {
        self.arena.tail()
    }

    /// A place before which no entry is newer than `since`, and not far before the first that is.
    #[must_use]
    pub fn place_after(&self, since: SeqNo) -> EntryOffset {
        self.marks.place_after(since)
    }

    /// Bytes of the entries between two places of one memtable.
    #[must_use]
    pub fn bytes_between(from: EntryOffset, to: EntryOffset) -> usize {
        Arena::bytes_between(from, to)
    }

    /// The entries from `place` on, which is [`Memtable::START`] or a [`Memtable::tail`] of before, oldest first. All of
    /// them, if nothing is inserted meanwhile.
    pub fn arrivals(&self, place: EntryOffset) -> impl Iterator<Item = MemtableEntry<'_>> {
        let mut place = place;
        std::iter::from_fn(move || {
            let entry = self.arena.entry(place)?;
            place = entry.following();
            Some(entry)
        })
    }
}
