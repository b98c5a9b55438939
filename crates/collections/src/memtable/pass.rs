//! Walking all of a memtable in order, for whoever writes it elsewhere.
//!
//! A memtable that was filled by large commits has hundreds of sources. A tree of losers over them would compare about ten
//! times for each entry, each time in another place of memory. Here the entries are put in order *portion by portion*:
//!
//! ```text
//!   source 1   a c e | h k m        each source gives what is before the bound,
//!   source 2   b f   | g i          which is as near as it has to be for a portion to be small;
//!   source 3         | p q r        source 3 waits
//!   portion    a b c e f            sorted by the standard library, within the processor's cache
//! ```
//!
//! A source whose next entry is behind the bound *waits*, so that ascending commits, which follow one another, do not make
//! each other's portions small. The others are *open*. The bound is an entry, and the order of entries is total: a portion
//! has at least [`STRIDE_MIN`] entries, or is the last one, however alike the keys are.
//!
//! Sorting looks at heads alone, as a rule. The entries that come next are fetched ahead of the walk.
//!
//! Going back is possible, one search in each source for every step.

use std::sync::Arc;

use kingtide_base::{Cursor, EntryHead, EntryKind, SeqNo, StorageResult, ValueRef};

use super::{
    Memtable,
    cursor::{shown_kind, shown_value},
    sources::Source,
};
use crate::{
    arena::{ArenaEntry, EntryOffset},
    budget::{Account, Charge},
    sorted_run::{HeadShift, ItemOrder, KeyShape, RunItem, RunSource, SortedRun},
};

/// Entries of a portion, about: what is sorted fits into the processor's cache.
const PORTION_ENTRIES: usize = 4096;
/// Entries that a portion may take from each of its sources, at least.
const STRIDE_MIN: usize = 16;
/// How many entries ahead of the walk are fetched: neighbours lie anywhere in the arena.
const PREFETCH_ENTRIES: usize = 8;
/// The budget is told of changes of so many bytes.
const CHARGE_STEP_BYTES: usize = 32 << 10;

/// A source, and how far it was taken.
struct Feed {
    run: Arc<SortedRun>,
    shift: HeadShift,
    /// The first entry that is behind the portion.
    next: usize,
}

impl Feed {
    /// The entry so many behind the portion, if there is one.
    fn ahead(&self, count: usize) -> Option<RunItem> {
        self.run.item(self.next.checked_add(count)?, self.shift)
    }
}

/// A cursor over all entries of a memtable. See the module's documentation.
pub struct PassCursor {
    memtable: Arc<Memtable>,
    /// What all keys have in common.
    shape: KeyShape,
    portion_entries: usize,
    feeds: Vec<Feed>,
    /// The feeds that have something left and are not open, the one with the smallest entry last.
    waiting: Vec<usize>,
    open: Vec<usize>,
    portion: Vec<RunItem>,
    /// The entry of the portion that the cursor is on; invalid behind the last.
    at: usize,
    /// The value of that entry, if it was asked for and is packed.
    unpacked: Vec<u8>,
    /// Bytes of the copies of skip lists.
    copied_bytes: usize,
    charge: Charge,
}

impl Memtable {
    /// A cursor over everything that was inserted before the call, for one walk through all of it or a part.
    #[must_use]
    pub fn pass_cursor(self: &Arc<Self>) -> PassCursor {
        PassCursor::new(Arc::clone(self), PORTION_ENTRIES)
    }
}

impl PassCursor {
    pub(super) fn new(memtable: Arc<Memtable>, portion_entries: usize) -> Self {
        memtable.complete_sources();
        let mut copied_bytes = 0;
        let mut runs = Vec::new();
        memtable.sources.for_each(|source| match source {
            _ if source.is_empty() => {}
            Source::Run(run) => runs.push(Arc::clone(run)),
            Source::List(list) => {
                let list = [RunSource::List(list)];
                let run = SortedRun::merge(&list, &memtable.arena, &memtable.order, &[]);
                copied_bytes += run.index_bytes();
                runs.push(Arc::new(run));
            }
        });
        let sources: Vec<RunSource<'_>> = runs.iter().map(|run| RunSource::Run(run)).collect();
        let shape = KeyShape::of_sources(&sources, &memtable.arena, &memtable.order);
        let feeds = runs.into_iter().map(|run| Feed {
            shift: run.shift_to(shape.prefix_bytes, &memtable.arena),
            run,
            next: 0,
        });
        let feeds = feeds.collect();
        let charge = memtable
            .arena
            .budget()
            .charge(Account::Buffers, copied_bytes);
        Self {
            memtable,
            shape,
            portion_entries,
            feeds,
            waiting: Vec::new(),
            open: Vec::new(),
            portion: Vec::new(),
            at: 0,
            unpacked: Vec::new(),
            copied_bytes,
            charge,
        }
    }

    /// Goes to the first of the entries that `count` does not count in their source.
    fn start_behind(&mut self, count: impl Fn(&SortedRun, &Memtable) -> usize) {
        self.place(count);
        self.fill();
    }

    /// Goes to the last of the entries that `count` counts in their source.
    fn stop_before(&mut self, count: impl Fn(&SortedRun, &Memtable) -> usize) {
        self.place(count);
        let item_order = ItemOrder::new(self.shape, &self.memtable.arena, &self.memtable.order);
        let ends = self.feeds.iter().filter_map(|feed| {
            let last = feed.next.checked_sub(1)?;
            feed.run.item(last, feed.shift)
        });
        let last = ends.max_by(|left, right| item_order.compare(left, right));
        self.portion.clear();
        self.portion.extend(last);
        self.at = 0;
    }

    /// Notes how much of each source lies before the portion to come.
    fn place(&mut self, count: impl Fn(&SortedRun, &Memtable) -> usize) {
        let memtable = &*self.memtable;
        self.open.clear();
        self.waiting.clear();
        for (index, feed) in self.feeds.iter_mut().enumerate() {
            feed.next = count(&feed.run, memtable);
            if feed.next < feed.run.len() {
                self.waiting.push(index);
            }
        }
        let item_order = ItemOrder::new(self.shape, &memtable.arena, &memtable.order);
        let feeds = &self.feeds;
        self.waiting.sort_unstable_by(|left, right| {
            let (left, right) = (feeds[*left].ahead(0), feeds[*right].ahead(0));
            let (Some(left), Some(right)) = (left, right) else {
                return left.is_some().cmp(&right.is_some());
            };
            item_order.compare(&right, &left)
        });
    }

    /// Opens every source that has entries in the next portion; answers the entry at which that ends, `None` for the last
    /// portion, and how many entries it takes of each source at most.
    fn open_feeds(&mut self) -> (Option<RunItem>, usize) {
        let item_order = ItemOrder::new(self.shape, &self.memtable.arena, &self.memtable.order);
        loop {
            let stride = (self.portion_entries / self.open.len().max(1)).max(STRIDE_MIN);
            let ends = self
                .open
                .iter()
                .filter_map(|feed| self.feeds[*feed].ahead(stride));
            let bound = ends.min_by(|left, right| item_order.compare(left, right));
            let opened_before = self.open.len();
            while let Some(feed) = self.waiting.last() {
                let is_within = match (&bound, self.feeds[*feed].ahead(0)) {
                    (Some(bound), Some(first)) => item_order.compare(&first, bound).is_lt(),
                    // What is open ends before there is a portion: as many more, and look again.
                    _ => self.open.len() <= 2 * opened_before,
                };
                if !is_within {
                    break;
                }
                self.open.extend(self.waiting.pop());
            }
            if self.open.len() == opened_before {
                return (bound, stride);
            }
        }
    }

    /// Makes the portion that follows, and goes to its first entry. Invalid when nothing is left.
    fn fill(&mut self) {
        self.portion.clear();
        self.at = 0;
        let (bound, stride) = self.open_feeds();
        let arena = &self.memtable.arena;
        let item_order = ItemOrder::new(self.shape, arena, &self.memtable.order);
        let (feeds, portion) = (&mut self.feeds, &mut self.portion);
        self.open.retain(|feed| {
            let feed = &mut feeds[*feed];
            let most = feed.run.len().min(feed.next.saturating_add(stride));
            let end = match &bound {
                Some(bound) => feed
                    .run
                    .end_before(bound, feed.next..most, feed.shift, item_order),
                None => feed.run.len(),
            };
            portion.extend(feed.run.items(feed.next..end, feed.shift));
            feed.next = end;
            end < feed.run.len()
        });
        portion.sort_unstable_by(|left, right| item_order.compare(left, right));
        for (_, offset) in portion.iter().take(PREFETCH_ENTRIES) {
            arena.prefetch_entry(*offset);
        }
        let bytes = portion.capacity() * size_of::<RunItem>() + self.copied_bytes;
        self.charge.follow(bytes, CHARGE_STEP_BYTES);
    }

    #[inline]
    fn offset(&self) -> EntryOffset {
        self.portion
            .get(self.at)
            .map_or(EntryOffset::NONE, |item| item.1)
    }

    #[inline]
    fn entry(&self) -> Option<ArenaEntry<'_>> {
        self.memtable.arena.entry(self.offset())
    }
}

impl Cursor for PassCursor {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.start_behind(|_, _| 0);
        Ok(())
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.stop_before(|run, _| run.len());
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.start_behind(|run, memtable| run.lower_bound(key, &memtable.arena, &memtable.order));
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.stop_before(|run, memtable| run.upper_bound(key, &memtable.arena, &memtable.order));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> StorageResult<()> {
        self.at += 1;
        if let Some((_, ahead)) = self.portion.get(self.at + PREFETCH_ENTRIES) {
            self.memtable.arena.prefetch_entry(*ahead);
        } else if self.at >= self.portion.len() {
            self.fill();
        }
        Ok(())
    }

    fn prev(&mut self) -> StorageResult<()> {
        let entry = self.offset();
        self.stop_before(|run, memtable| run.rank(entry, &memtable.arena, &memtable.order));
        Ok(())
    }

    #[inline]
    fn is_valid(&self) -> bool {
        self.at < self.portion.len()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.memtable.arena.key(self.offset())
    }

    #[inline]
    fn sequence(&self) -> SeqNo {
        self.memtable.arena.key_and_sequence(self.offset()).1
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.head().kind
    }

    #[inline]
    fn expires_at(&self) -> i64 {
        self.head().expires_at
    }

    #[inline]
    fn head(&self) -> EntryHead<'_> {
        let entry = self.entry();
        EntryHead {
            key: entry.map_or(&[], |entry| entry.key),
            sequence: entry.map_or(SeqNo::ZERO, |entry| entry.sequence),
            kind: entry.map_or(EntryKind::Delete, |entry| shown_kind(entry.kind)),
            expires_at: entry.map_or(0, |entry| entry.expires_at),
        }
    }

    #[inline]
    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        let entry = self.memtable.arena.entry(self.offset());
        let stored = entry.map_or((EntryKind::Delete, &[][..]), |entry| {
            (entry.kind, entry.value)
        });
        shown_value(stored, &mut self.unpacked)
    }

    fn packed_value(&self) -> Option<&[u8]> {
        let entry = self.entry()?;
        (entry.kind == EntryKind::PutPacked).then_some(entry.value)
    }
}
