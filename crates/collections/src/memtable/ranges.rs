//! The range tombstones of a memtable.
//!
//! They are entries of the arena like all others (key: start, value: end), but in no index: each leads to the one before
//! it through its `previous` offset, and `newest` leads to the last. So a commit appends without allocating, and a
//! memtable without range deletes costs a reader one load.
//!
//! Readers share a *view*: the fragments of all tombstones up to one of them, each with its newest number alone. What came
//! later is looked at one by one, newest first, so the first that covers the key is the answer. When that tail is long,
//! whoever commits next makes a new view of the old one and the tail, outside the commit's critical section; a reader
//! that wants fragments makes one too. A snapshot older than the newest tombstone over its key walks
//! the rest of the chain.
//!
//! It deliberately keeps one number for each fragment: nested tombstones (a queue that is cut off at its front again and
//! again) would otherwise take memory with their square.

use std::sync::Arc;

use kingtide_base::{
    EntryKind, Fragments, KeyOrder, RangeTombstone, SeqNo, compare_ends, is_before_end,
};
use kingtide_env::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
};

use crate::arena::{Arena, ArenaWriter, EntryOffset, NewEntry};

use super::{Full, Memtable, sources::Shared};

/// Tombstones that every view may lack; more for views of many.
const TAIL_MIN: usize = 32;

/// The fragments of the tombstones up to one of them.
struct View {
    /// The newest tombstone that is in it.
    through: EntryOffset,
    tombstones: usize,
    fragments: Arc<Fragments>,
}

/// See the module's documentation.
pub(super) struct RangeDeletes {
    /// The newest tombstone; 0 when there is none.
    newest: AtomicU32,
    view: Shared<View>,
    /// Held by the one who makes a view.
    building: Mutex<()>,
}

impl RangeDeletes {
    pub(super) fn new() -> Self {
        Self {
            newest: AtomicU32::new(EntryOffset::NONE.0),
            view: Shared::new(View {
                through: EntryOffset::NONE,
                tombstones: 0,
                fragments: Arc::default(),
            }),
            building: Mutex::new(()),
        }
    }

    /// The newest tombstone, if there is any.
    #[inline]
    fn newest(&self) -> Option<EntryOffset> {
        // Acquire: pairs with the Release in `append`, so the chain from here on is published.
        let newest = EntryOffset(self.newest.load(Ordering::Acquire));
        (!newest.is_none()).then_some(newest)
    }

    /// Appends the ranges of one commit; readers see all of them or none. Answers how many there were.
    pub(super) fn append<'a>(
        &self,
        arena: &mut ArenaWriter,
        sequence: SeqNo,
        ranges: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<usize, Full> {
        // Relaxed: only the writer changes it.
        let mut newest = EntryOffset(self.newest.load(Ordering::Relaxed));
        let mut count = 0;
        for (start, end) in ranges {
            let entry = NewEntry {
                sequence,
                previous: newest,
                kind: EntryKind::RangeDelete,
                expires_at: 0,
                key: start,
                value: end,
            };
            newest = arena.append(&entry).ok_or(Full)?;
            count += 1;
        }
        // Release: publishes the chain.
        self.newest.store(newest.0, Ordering::Release);
        Ok(count)
    }

    /// As [`Memtable::range_cover`].
    #[inline]
    pub(super) fn cover(
        &self,
        arena: &Arena,
        order: &KeyOrder,
        key: &[u8],
        snapshot: SeqNo,
    ) -> SeqNo {
        match self.newest() {
            None => SeqNo::ZERO,
            Some(newest) => self.cover_from(newest, (arena, order), key, snapshot),
        }
    }

    #[cold]
    fn cover_from(
        &self,
        newest: EntryOffset,
        (arena, order): (&Arena, &KeyOrder),
        key: &[u8],
        snapshot: SeqNo,
    ) -> SeqNo {
        let view = self.view.get();
        for (offset, tombstone) in chain(arena, newest) {
            if offset <= view.through {
                break;
            }
            if tombstone.sequence <= snapshot && covers(order, &tombstone, key) {
                return tombstone.sequence;
            }
        }
        let cover = match view.fragments.find(order, key) {
            None => return SeqNo::ZERO,
            Some(fragment) => fragment.newest(),
        };
        if cover <= snapshot {
            return cover;
        }
        chain(arena, view.through)
            .find(|(_, tombstone)| tombstone.sequence <= snapshot && covers(order, tombstone, key))
            .map_or(SeqNo::ZERO, |(_, tombstone)| tombstone.sequence)
    }

    /// As [`Memtable::range_fragments`].
    fn fragments(
        &self,
        arena: &Arena,
        order: &KeyOrder,
        snapshot: SeqNo,
    ) -> Option<Arc<Fragments>> {
        let newest = self.newest()?;
        if self.view.get().through < newest {
            self.try_renew(newest, arena, order);
        }
        let view = self.view.get();
        if view.through >= newest && view.fragments.newest() <= snapshot {
            return Some(Arc::clone(&view.fragments));
        }
        let visible = chain(arena, newest)
            .map(|(_, tombstone)| tombstone)
            .filter(|tombstone| tombstone.sequence <= snapshot);
        Some(Arc::new(Fragments::build(order, visible, &[SeqNo::MAX])))
    }

    /// As [`Memtable::tidy_ranges`].
    fn tidy(&self, arena: &Arena, order: &KeyOrder) {
        let Some(newest) = self.newest() else { return };
        let view = self.view.get();
        let tail = chain(arena, newest).take_while(|(offset, _)| *offset > view.through);
        let tail_max = TAIL_MIN.max(2 * view.tombstones.isqrt());
        if tail.take(tail_max + 1).count() > tail_max {
            self.try_renew(newest, arena, order);
        }
    }

    /// Makes a view up to `newest`, unless someone else is at it or one is there.
    fn try_renew(&self, newest: EntryOffset, arena: &Arena, order: &KeyOrder) {
        let Some(_one_at_a_time) = self.building.try_lock() else {
            return;
        };
        let old = self.view.get();
        if old.through >= newest {
            return;
        }
        let tail: Vec<RangeTombstone<'_>> = chain(arena, newest)
            .take_while(|(offset, _)| *offset > old.through)
            .map(|(_, tombstone)| tombstone)
            .collect();
        let tombstones = old.tombstones + tail.len();
        let all = old.fragments.tombstones().chain(tail);
        let fragments = Arc::new(Fragments::build(order, all, &[SeqNo::MAX]));
        self.view.set(View {
            through: newest,
            tombstones,
            fragments,
        });
    }
}

/// The tombstones from the one at `newest` on, newest first.
fn chain(
    arena: &Arena,
    newest: EntryOffset,
) -> impl Iterator<Item = (EntryOffset, RangeTombstone<'_>)> {
    let mut next = newest;
    std::iter::from_fn(move || {
        let entry = arena.entry(next)?;
        next = entry.previous;
        let tombstone = RangeTombstone {
            start: entry.key,
            end: entry.value,
            sequence: entry.sequence,
        };
        Some((entry.offset, tombstone))
    })
}

fn covers(order: &KeyOrder, tombstone: &RangeTombstone<'_>, key: &[u8]) -> bool {
    order.compare(tombstone.start, key).is_le() && is_before_end(order, key, tombstone.end)
}

impl Memtable {
    /// Deletes the ranges of the commit `sequence`, each from its start to its end (empty: no end), in what older commits
    /// wrote. Rules and room as for [`Memtable::insert`], whose sequence number may be the same. A range takes
    /// [`Memtable::entry_bytes`] of start and end.
    ///
    /// # Errors
    /// [`Full`] when they do not fit; nothing is deleted then, though bytes of the arena may be used up.
    pub fn delete_ranges<'a>(
        &self,
        sequence: SeqNo,
        ranges: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), Full> {
        let mut writer = self.writer.lock();
        debug_assert!(sequence >= self.largest_sequence());
        let start = writer.arena.tail();
        let count = self.ranges.append(&mut writer.arena, sequence, ranges)?;
        if count > 0 {
            self.marks.note(&mut writer.marked, sequence, start);
            self.count(sequence, count);
        }
        Ok(())
    }

    /// Makes range deletes quick to look up when many have come since the last time. To be called after
    /// [`Memtable::delete_ranges`], outside the commit's critical section: it allocates.
    pub fn tidy_ranges(&self) {
        self.ranges.tidy(&self.arena, &self.order);
    }

    /// True when ranges were deleted.
    #[inline]
    #[must_use]
    pub fn has_range_deletes(&self) -> bool {
        self.ranges.newest().is_some()
    }

    /// The sequence number of the newest range delete over `key` that `snapshot` sees; 0 when there is none. Versions of
    /// the key with smaller numbers are hidden, wherever they are.
    #[inline]
    #[must_use]
    pub fn range_cover(&self, key: &[u8], snapshot: SeqNo) -> SeqNo {
        self.ranges.cover(&self.arena, &self.order, key, snapshot)
    }

    /// What `snapshot` sees of the range deletes: fragments with one number each. `None` when nothing was deleted.
    #[must_use]
    pub fn range_fragments(&self, snapshot: SeqNo) -> Option<Arc<Fragments>> {
        self.ranges.fragments(&self.arena, &self.order, snapshot)
    }

    /// All range deletes, the newest first.
    pub fn range_tombstones(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        let newest = self.ranges.newest().unwrap_or(EntryOffset::NONE);
        chain(&self.arena, newest).map(|(_, tombstone)| tombstone)
    }

    /// Where a range delete newer than `since` meets the range from `start` to `end` (empty: no end): the first key of
    /// both. For conflict checks; walks what is newer than `since`.
    #[must_use]
    pub fn range_delete_newer<'a>(
        &'a self,
        (start, end): (&'a [u8], &[u8]),
        since: SeqNo,
    ) -> Option<&'a [u8]> {
        let order = &self.order;
        let newer = self
            .range_tombstones()
            .take_while(|tombstone| tombstone.sequence > since);
        let mut overlapping = newer.filter_map(|tombstone| {
            let first = if order.compare(tombstone.start, start).is_lt() {
                start
            } else {
                tombstone.start
            };
            let end = if compare_ends(order, end, tombstone.end).is_lt() {
                end
            } else {
                tombstone.end
            };
            is_before_end(order, first, end).then_some(first)
        });
        overlapping.next()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
