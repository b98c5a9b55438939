//! Memtables of the engine: a [`kingtide_collections::Memtable`] with its place in the log, and where new ones come from.

mod batch;

use std::sync::Arc;

use kingtide_base::{KeyOrder, Lsn, SegmentId};
use kingtide_collections::{ArenaPool, MemoryBudget, Memtable, PageSize};
use kingtide_env::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::spill::SpilledList;

pub(crate) use batch::{PlainOp, covered_places, surviving};

/// Bytes of memtable for which its hash index has room for one entry; a memtable of smaller entries is sealed earlier.
const BYTES_PER_ENTRY_MIN: usize = 128;
/// The entries of one memtable take 7/16 of a family's write buffer; its indexes take about 1/16.
const SHARE_FACTOR: usize = 7;
const SHARE_DIVISOR: usize = 16;
/// Every memtable has room for this many entries, however small its buffer.
const ENTRIES_MIN: usize = 1024;
/// A memtable that is at least so full when it is sealed lets expect that the next one will be filled too.
const FILLED_SHARE: f64 = 0.5;

/// Where the records of a memtable lie in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogSpan {
    /// The segment of the first record.
    pub(crate) segment: SegmentId,
    /// Where the first record begins.
    pub(crate) start: Lsn,
    /// Where the last record ends.
    pub(crate) end: Lsn,
}

/// A memtable and its place in the log.
pub(crate) struct Memory {
    /// The entries.
    pub(crate) table: Arc<Memtable>,
    /// True when it takes room although it is empty: its memory may have been used before, or was made for
    /// one that will be filled.
    pub(crate) takes_room: bool,
    /// Entries that are tombstones. Written under the commit lock.
    tombstones: AtomicU64,
    /// Since when it is known to hold tombstones or range deletes, in Unix seconds; 0 before that.
    tombstones_since: AtomicU64,
    /// `None` while it is empty. Written under the commit lock.
    span: Mutex<Option<LogSpan>>,
    /// The values that its entries point to and that are in no table yet.
    pub(crate) spilled: SpilledList,
}

impl Memory {
    /// An empty memtable.
    fn new(table: Memtable, takes_room: bool) -> Self {
        Self {
            table: Arc::new(table),
            takes_room,
            tombstones: AtomicU64::new(0),
            tombstones_since: AtomicU64::new(0),
            span: Mutex::new(None),
            spilled: SpilledList::default(),
        }
    }

    /// The pages for the memtable that comes after this one: huge if this one was filled. So the first of a family, and
    /// all of a family that holds little, take up no more than they hold.
    pub(crate) fn pages_of_next(&self) -> PageSize {
        match self.table.fill() >= FILLED_SHARE {
            true => PageSize::Huge,
            false => PageSize::Small,
        }
    }

    /// Its flush is installed, or its family is dropped: no replay looks at its records.
    pub(crate) fn unpin_spilled(&self) {
        self.spilled.all().iter().for_each(|value| value.unpin());
    }

    /// Where its records lie; `None` while it is empty.
    pub(crate) fn span(&self) -> Option<LogSpan> {
        *self.span.lock()
    }

    /// Entries that are tombstones.
    pub(crate) fn tombstones(&self) -> u64 {
        // Relaxed, here and below: a statistic.
        self.tombstones.load(Ordering::Relaxed)
    }

    /// Notes that so many of the entries just inserted are tombstones. For the one thread that inserts.
    pub(crate) fn note_tombstones(&self, count: u64) {
        let before = self.tombstones.load(Ordering::Relaxed);
        self.tombstones.store(before + count, Ordering::Relaxed);
    }

    /// Since when it is known to hold tombstones or range deletes, in Unix seconds.
    pub(crate) fn tombstones_since(&self) -> Option<u64> {
        match self.tombstones_since.load(Ordering::Relaxed) {
            0 => None,
            since => Some(since),
        }
    }

    /// Notes, the first time that it is found with tombstones or range deletes, that this was at `now`, in Unix seconds.
    pub(crate) fn look_for_tombstones(&self, now: u64) {
        if self.tombstones() > 0 || self.table.has_range_deletes() {
            // Whoever looks first decides. Relaxed: nothing depends on it but the date.
            let (unset, relaxed) = (0, Ordering::Relaxed);
            let _ = self
                .tombstones_since
                .compare_exchange(unset, now.max(1), relaxed, relaxed);
        }
    }

    /// Notes a record that was applied.
    pub(crate) fn note_record(&self, segment: SegmentId, start: Lsn, end: Lsn) {
        let mut span = self.span.lock();
        match span.as_mut() {
            Some(span) => span.end = end,
            None => {
                *span = Some(LogSpan {
                    segment,
                    start,
                    end,
                })
            }
        }
    }
}

/// Makes memtables from arenas that were used before, so that their memory is touched already.
pub(crate) struct MemtableSource {
    pool: Arc<ArenaPool>,
    bytes_max: usize,
}

impl MemtableSource {
    /// Gives the memory that is kept for later memtables back.
    pub(crate) fn release(&self) {
        self.pool.clear();
    }

    /// A source that keeps up to `arenas_max` free arenas. Their memory counts in `budget`, and one that no large transaction asks for takes at most `bytes_max`.
    pub(crate) fn new(arenas_max: usize, budget: &Arc<MemoryBudget>, bytes_max: usize) -> Self {
        Self {
            pool: ArenaPool::with_budget(arenas_max, Arc::clone(budget)),
            bytes_max,
        }
    }

    /// A source that keeps no arena and knows no limit.
    #[cfg(test)]
    pub(crate) fn unbounded() -> Self {
        Self::new(0, &MemoryBudget::unlimited(), usize::MAX)
    }

    /// Bytes of entries of a memtable of a family with this write buffer.
    pub(crate) fn share_bytes(&self, buffer_bytes: usize) -> usize {
        (buffer_bytes / SHARE_DIVISOR * SHARE_FACTOR).min(self.bytes_max)
    }

    /// One of the two memtables that share `buffer_bytes`: one takes writes while the other is flushed, and the indexes
    /// of both count. Larger when a transaction of `needed_bytes` and `needed_entries` asks for it.
    pub(crate) fn make(
        &self,
        order: &KeyOrder,
        buffer_bytes: usize,
        needed_bytes: usize,
        needed_entries: usize,
    ) -> Arc<Memory> {
        let needed = (needed_bytes, needed_entries);
        self.make_in(PageSize::Small, order, buffer_bytes, needed)
    }

    /// As [`MemtableSource::make`], with room for `needed` bytes and entries, in pages of `size`.
    pub(crate) fn make_in(
        &self,
        size: PageSize,
        order: &KeyOrder,
        buffer_bytes: usize,
        needed: (usize, usize),
    ) -> Arc<Memory> {
        let (needed_bytes, needed_entries) = needed;
        let share_bytes = self.share_bytes(buffer_bytes);
        let bytes = share_bytes.max(needed_bytes.saturating_add(64));
        let entries = (bytes / BYTES_PER_ENTRY_MIN)
            .max(needed_entries)
            .max(ENTRIES_MIN);
        let is_recycled = self.pool.free_bytes() > 0;
        let table = Memtable::in_pages(size, order.clone(), &self.pool, bytes, entries);
        let takes_room = is_recycled || size == PageSize::Huge;
        Arc::new(Memory::new(table, takes_room))
    }
}
