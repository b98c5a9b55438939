//! The writes of a family that are not in a table yet.
//!
//! A [`Memtable`] is an arena of entries with three kinds of index over it:
//! - a hash index to the newest version of each key (when the order has hashes), from which a chain of `previous` offsets
//!   leads to the older ones: point reads and conflict checks;
//! - a sorted run for each large commit, sorted by the committing thread before the critical section, and for every few
//!   thousand entries of small commits, which are *loose* until then or until somebody walks;
//! - skip lists for what few entries are loose when somebody walks, one after the other, of a fixed size: the last one takes
//!   entries, the full ones stay as they are.
//!
//! Runs and lists are *sources* in one list; in the background [`Memtable::merge_runs`] replaces neighbours by one
//! run, so that there are few to walk, and leaves out versions that no snapshot sees.
//!
//! One writer at a time (a mutex inside, without contention when the caller orders commits); point reads take no lock, but
//! for versions that many newer ones of their key hide; these and walks take the writer's if something is loose. Readers see entries of a commit one by one: it is the caller who makes commits visible as a whole, by handing out a snapshot
//! only when [`Memtable::insert`] has returned. Sequence numbers must not fall from one insertion to the next.
//!
//! | file | what it is |
//! |---|---|
//! | `arrivals` | what came after a place, in the order in which it came |
//! | `insert` | from operations to published entries |
//! | `sources` | the list of runs and skip lists, growing while it is read |
//! | `cursor` | walking one source |
//! | `estimate` | how many keys, and how many entries of a range |
//! | `pass` | walking all sources at once, in order |
//! | `loose` | what came in small commits and is in no source yet |
//! | `merge` | which sources to merge, and the exchange |
//! | `ranges` | range tombstones: a chain through the arena, and the fragments that readers share |

mod arrivals;
mod cursor;
mod estimate;
mod insert;
mod loose;
mod merge;
mod pass;
mod ranges;
mod sources;

use std::{fmt, sync::Arc};

use kingtide_base::{Cursor, EntryKind, KeyOrder, SeqNo, limits};
use kingtide_env::sync::{
    Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::{
    arena::{Arena, ArenaEntry, ArenaPool, EntryOffset},
    budget::Account,
    hash_index::HashIndex,
    pages::PageSize,
    skip_list::SkipList,
};

pub use cursor::{shown_kind, shown_value};
pub use pass::PassCursor;

use arrivals::Marks;
use insert::Writer;
use loose::Loose;
use ranges::RangeDeletes;
use sources::{Source, SourceList};

/// A published entry of a memtable.
pub type MemtableEntry<'a> = ArenaEntry<'a>;

/// Entries of a memtable's first skip list.
const FIRST_LIST_ENTRIES: usize = 128;
/// Versions that a point read follows one by one before it searches the sources instead.
const CHAIN_STEPS_MAX: usize = 32;

/// One operation of a commit.
#[derive(Clone, Copy, Debug)]
pub struct MemtableOp<'a> {
    /// What it does to the key.
    pub kind: EntryKind,
    /// When it expires, in Unix seconds; 0 means never.
    pub expires_at: i64,
    /// The key's hash by the family's order; 0 when the order has none.
    pub hash: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value; empty for tombstones.
    pub value: &'a [u8],
}

/// The memtable has no room for the operations; nothing was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memtable is full")
    }
}

impl std::error::Error for Full {}

/// See the module's documentation.
pub struct Memtable {
    order: KeyOrder,
    /// Entries of each skip list.
    list_entries: usize,
    arena: Arc<Arena>,
    index: Option<HashIndex>,
    sources: SourceList,
    ranges: RangeDeletes,
    marks: Marks,
    writer: Mutex<Writer>,
    /// Held by whoever merges, so that there is one.
    merging: Mutex<()>,
    loose: Loose,
    entries: AtomicUsize,
    /// Entries that a pass over the memtable has gone by; see [`Memtable::passed`].
    passed: AtomicUsize,
    sequence_smallest: AtomicU64,
    sequence_largest: AtomicU64,
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("order", &self.order)
            .field("bytes", &self.bytes())
            .field("entries", &self.entries())
            .field("run_count", &self.run_count())
            .finish_non_exhaustive()
    }
}

/// How much a memtable holds, and in what.
struct Shape {
    /// Bytes of entries.
    bytes: usize,
    /// Different keys, at least.
    entries_max: usize,
    /// Entries of each skip list.
    list_entries: usize,
    /// Of arena and hash index.
    pages: PageSize,
}

impl Memtable {
    /// An empty memtable for `bytes` bytes of entries (see [`Memtable::entry_bytes`]; at most 32 GiB less 8 bytes) and,
    /// when the order has hashes, at least `entries_max` different keys.
    #[must_use]
    pub fn new(order: KeyOrder, pool: &Arc<ArenaPool>, bytes: usize, entries_max: usize) -> Self {
        Self::in_pages(PageSize::Small, order, pool, bytes, entries_max)
    }

    /// As [`Memtable::new`]; arena and hash index are in pages of `size`, as far as they are large and not from memory that
    /// was used before.
    #[must_use]
    pub fn in_pages(
        size: PageSize,
        order: KeyOrder,
        pool: &Arc<ArenaPool>,
        bytes: usize,
        entries_max: usize,
    ) -> Self {
        let shape = Shape {
            bytes,
            entries_max,
            list_entries: limits::SKIP_LIST_ENTRIES_MAX,
            pages: size,
        };
        Self::of_shape(order, pool, shape)
    }

    fn of_shape(order: KeyOrder, pool: &Arc<ArenaPool>, shape: Shape) -> Self {
        let Shape {
            bytes,
            entries_max,
            list_entries,
            pages,
        } = shape;
        let (arena, arena_writer) = Arena::in_pages(pool, bytes, pages);
        let has_hash = order.has_hash();
        let index = has_hash.then(|| match pages {
            PageSize::Small => HashIndex::new(entries_max),
            PageSize::Huge => HashIndex::to_be_filled(entries_max, pool),
        });
        // Small, because most memtables of many families hold little; those that follow are of full size.
        let list = Arc::new(SkipList::new(list_entries.min(FIRST_LIST_ENTRIES)));
        let indexed = index.as_ref().map_or(0, HashIndex::touched_bytes);
        let taken = arena.touched_bytes() + indexed + list.memory_bytes();
        let charge = pool.budget().charge(Account::Memtables, taken);
        Self {
            list_entries,
            order,
            marks: Marks::new(bytes),
            arena,
            index,
            sources: SourceList::new(Source::List(Arc::clone(&list))),
            ranges: RangeDeletes::new(),
            writer: Mutex::new(Writer::new(arena_writer, list, charge)),
            merging: Mutex::new(()),
            loose: Loose::new(),
            entries: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
            sequence_smallest: AtomicU64::new(u64::MAX),
            sequence_largest: AtomicU64::new(0),
        }
    }

    /// Bytes that an entry takes.
    #[must_use]
    pub const fn entry_bytes(key_bytes: usize, value_bytes: usize, has_expiry: bool) -> usize {
        crate::arena::entry_bytes(key_bytes, value_bytes, has_expiry)
    }

    /// True when operations that take `arena_bytes` in all (the sum of [`Memtable::entry_bytes`]), `entries` of them,
    /// can be inserted. Holds until something is inserted.
    #[must_use]
    pub fn fits(&self, arena_bytes: usize, entries: usize) -> bool {
        let free_keys = self.index.as_ref().map_or(usize::MAX, HashIndex::free_keys);
        arena_bytes <= self.arena.capacity_bytes() - self.arena.published_bytes()
            && entries <= free_keys
    }

    /// Asks the processor to fetch what a read or an insertion of the key with `hash` looks at first. Worth it when there is
    /// something else to do before, such as waiting for the commit lock.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(index) = &self.index {
            index.prefetch(hash);
        }
    }

    /// The newest version of `key` with a sequence number of at most `snapshot`, hidden by a range delete or not. `hash`
    /// is the key's by the family's order; without it, it is computed where it is of use.
    #[must_use]
    pub fn get(&self, key: &[u8], hash: Option<u64>, snapshot: SeqNo) -> Option<MemtableEntry<'_>> {
        // What the snapshot sees is counted. The index of an empty memtable is memory that nobody has touched yet.
        if self.is_empty() {
            return None;
        }
        let Some(index) = &self.index else {
            return self.search(key, snapshot);
        };
        let hash = hash.or_else(|| self.order.hash(key))?;
        let mut offset = index.get(hash, key, &self.arena, &self.order);
        for _ in 0..CHAIN_STEPS_MAX {
            let entry = self.arena.entry(offset)?;
            if entry.sequence <= snapshot {
                return Some(entry);
            }
            offset = entry.previous;
        }
        self.search(key, snapshot)
    }

    /// As [`Memtable::get`], through the sources.
    fn search(&self, key: &[u8], snapshot: SeqNo) -> Option<MemtableEntry<'_>> {
        self.complete_sources();
        let mut newest: Option<MemtableEntry<'_>> = None;
        self.sources.for_each(|source| {
            let offset = match source {
                Source::Run(run) => run.get(key, snapshot, &self.arena, &self.order),
                Source::List(list) => list.get(key, snapshot, &self.arena, &self.order),
            };
            if let Some(entry) = self.arena.entry(offset) {
                let place = |entry: &MemtableEntry<'_>| (entry.sequence, entry.offset);
                if newest.is_none_or(|other| place(&entry) > place(&other)) {
                    newest = Some(entry);
                }
            }
        });
        newest
    }

    /// The entry at `offset`; `None` when no whole entry is published there.
    #[inline]
    #[must_use]
    pub fn entry(&self, offset: EntryOffset) -> Option<MemtableEntry<'_>> {
        self.arena.entry(offset)
    }

    /// The sequence number of the newest version of `key`, or of the newest range delete over it, visible or not, for
    /// conflict checks. `hash` as for [`Memtable::get`].
    #[must_use]
    pub fn latest_sequence(&self, key: &[u8], hash: Option<u64>) -> Option<SeqNo> {
        let version = self.get(key, hash, SeqNo::MAX).map(|entry| entry.sequence);
        match self.range_cover(key, SeqNo::MAX) {
            SeqNo::ZERO => version,
            cover => version.max(Some(cover)),
        }
    }

    /// One cursor for each source, newer sources first. Together they see everything that was inserted before the call;
    /// what is inserted later they may or may not see.
    #[must_use]
    pub fn cursors(self: &Arc<Self>) -> Vec<Box<dyn Cursor>> {
        self.complete_sources();
        let mut cursors = Vec::new();
        self.sources.for_each(|source| {
            if !source.is_empty() {
                cursors.push(cursor::open(Arc::clone(self), source));
            }
        });
        cursors.reverse();
        cursors
    }

    /// Sources that hold something: how many cursors there are, but for one of what is loose.
    #[must_use]
    pub fn run_count(&self) -> usize {
        let mut count = 0;
        self.sources
            .for_each(|source| count += usize::from(!source.is_empty()));
        count
    }

    /// The order of the keys.
    #[must_use]
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Bytes of the entries inserted so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.arena.published_bytes()
    }

    /// Bytes of memory that the memtable takes: touched pages of its arena, and its indexes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes_taken(&self.writer.lock())
    }

    /// Bytes of memory that so many operations more may take besides their entries.
    #[must_use]
    pub fn index_growth(&self, operations: usize) -> usize {
        let index = self.index.as_ref();
        index.map_or(0, |index| index.growth(operations)) + operations * loose::ENTRY_BYTES
    }

    /// True when its entries are in huge pages, as far as the system has them: then it takes up memory from the first on.
    #[must_use]
    pub fn is_huge(&self) -> bool {
        self.arena.is_huge()
    }

    /// See [`Arena::populate_ahead`].
    pub fn populate_ahead(&self, bytes: usize) {
        self.arena.populate_ahead(bytes);
    }

    /// As [`Memtable::memory_bytes`], for the holder of the writer lock.
    fn bytes_taken(&self, writer: &Writer) -> usize {
        let index = self.index.as_ref().map_or(0, HashIndex::touched_bytes);
        let order = writer.source_bytes + self.loose.memory_bytes();
        self.arena.touched_bytes() + index + self.marks.memory_bytes(self.bytes()) + order
    }

    /// How full it is, as a share of the room for entries or of that for keys, whichever is less; 0 to 1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        let of_arena = self.bytes() as f64 / self.arena.capacity_bytes().max(1) as f64;
        let of_index = self.index.as_ref().map_or(0.0, |index| {
            let (used, free) = (index.used_keys() as f64, index.free_keys() as f64);
            used / (used + free).max(1.0)
        });
        of_arena.max(of_index).min(1.0)
    }

    /// Whoever writes the entries elsewhere has gone by `count` more of them.
    pub fn note_passed(&self, count: usize) {
        // Relaxed, here and below: tells how far somebody is, nothing else.
        self.passed.fetch_add(count, Ordering::Relaxed);
    }

    /// Somebody begins, again, to write the entries elsewhere.
    pub fn begin_pass(&self) {
        self.passed.store(0, Ordering::Relaxed);
    }

    /// The share of the entries that was gone by since [`Memtable::begin_pass`]; 0 to 1.
    #[must_use]
    pub fn passed(&self) -> f64 {
        let passed = self.passed.load(Ordering::Relaxed) as f64;
        (passed / self.entries().max(1) as f64).min(1.0)
    }

    /// Entries inserted so far, all versions and range deletes counted.
    #[must_use]
    pub fn entries(&self) -> usize {
        // Relaxed, as for the sequence numbers below: a reader that sees a commit, through the visible number, sees these
        // as they were after it; more is asked of them by nobody.
        self.entries.load(Ordering::Relaxed)
    }

    /// True when nothing was inserted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The sequence number of the newest commit; 0 when empty.
    #[must_use]
    pub fn largest_sequence(&self) -> SeqNo {
        SeqNo(self.sequence_largest.load(Ordering::Relaxed))
    }

    /// The sequence number of the oldest commit; the maximum when empty.
    #[must_use]
    pub fn smallest_sequence(&self) -> SeqNo {
        SeqNo(self.sequence_smallest.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
