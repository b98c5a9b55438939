//! The operations of one transaction, per family, each appended once to a recycled buffer that is in log format from
//! the first put. At commit a write set of one family goes to the log straight from that buffer; several families are
//! put one behind the other first.
//!
//! Range deletes are operations like others: key and value are start and end. They have no place in hash or sorted index;
//! what they cover of the operations before them is left out when the memtable takes the operations, and is not found by
//! own reads.

mod ahead;

use std::{cell::RefCell, cmp::Ordering, collections::HashMap, ops::Range, sync::Arc};

use kingtide_base::{
    EntryKind, Fragments, Lsn, SegmentId, SeqNo, StorageResult, ValuePointer, is_before_end, limits,
};
use kingtide_collections::{
    MemtableOp, PreparedRun, entry_bytes, packed_raw_bytes, unpacked_value,
};
use kingtide_format::{Op, write_op, write_prepared_commit, write_section_header};

use super::{packing::ValuePacking, prepared::Prepared};
use crate::{
    error::{Error, ErrorKind, Result},
    family::{CommitSizes, Family, hook::HookTicket},
    memtable::{Memory, PlainOp, covered_places, surviving},
    options::Compression,
    read::iter::own_writes::{self, OwnWrites},
    spill::{Spilled, SpilledBatch},
    wal::{HEADROOM_BYTES, PACKED_BYTES_MIN, RecordFrames, Tail},
};

/// Buffers larger than this are given back after a transaction.
const RECYCLED_BYTES_MAX: usize = 4 << 20;
/// Up to this many operations, own writes are searched one by one.
const SEARCHED_LINEARLY_MAX: usize = 8;
/// Range deletes that are looked at one by one, beyond those that fragments were made of.
const RANGES_LINEARLY_MAX: usize = 16;

/// One operation, as places in the family's buffer.
#[derive(Clone, Debug)]
struct OpIndex {
    key: Range<u32>,
    value: Range<u32>,
    hash: u64,
    expires_at: i64,
    kind: EntryKind,
}

impl OpIndex {
    #[inline]
    fn is_range(&self) -> bool {
        self.kind == EntryKind::RangeDelete
    }
}

/// What a transaction itself wrote to a key last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnWrite<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) kind: EntryKind,
    pub(crate) value: &'a [u8],
    pub(crate) expires_at: i64,
}

/// The operations of one transaction on one family.
pub(crate) struct Section {
    pub(crate) family: Arc<Family>,
    /// Bytes that the operations take in a memtable.
    pub(crate) arena_bytes: usize,
    /// What the operations add to the family's counts; set by `prepare`.
    pub(super) sizes: CommitSizes,
    /// The sorted order of a large batch, made by `prepare`, taken by the memtable.
    pub(crate) run: Option<PreparedRun>,
    /// Taken in the ordered step when the family has a commit hook.
    pub(super) hook_ticket: Option<HookTicket>,
    /// [`HEADROOM_BYTES`] free bytes, then the operations in log format.
    buffer: Vec<u8>,
    index: Vec<OpIndex>,
    packing: ValuePacking,
    /// Which operations are range deletes, ascending.
    ranges: Vec<u32>,
    /// The operations on keys that count beside the range deletes, made by `prepare`; `None` without range deletes.
    surviving: Option<Vec<u32>>,
    /// The keys of all range deletes together, made by `prepare`.
    deleted: Fragments,
    lookup: RefCell<Lookup>,
    /// The operations whose values are spilled, ascending, with these.
    spilled: Vec<(u32, Arc<Spilled>)>,
    /// The same for the memtable, made by `prepare`.
    spilled_batch: Option<Box<SpilledBatch>>,
    /// The values that operations do not hold as they are, ascending by operation, for commit hooks.
    loaded: Vec<(u32, Vec<u8>)>,
    /// Scratch for the section's header.
    header: Vec<u8>,
}

/// The newest operation per key hash, built on the first read of own writes and kept up from there.
#[derive(Default)]
struct Lookup {
    newest: HashMap<u64, u32>,
    indexed: usize,
    /// What the first `covering` range deletes cover, by place.
    covered: Fragments,
    covering: usize,
}

impl Section {
    fn new(family: Arc<Family>) -> Self {
        Self {
            family,
            arena_bytes: 0,
            sizes: CommitSizes::default(),
            run: None,
            hook_ticket: None,
            buffer: vec![0; HEADROOM_BYTES],
            index: Vec::new(),
            packing: ValuePacking::default(),
            ranges: Vec::new(),
            surviving: None,
            deleted: Fragments::default(),
            lookup: RefCell::default(),
            spilled: Vec::new(),
            spilled_batch: None,
            loaded: Vec::new(),
            header: Vec::with_capacity(HEADROOM_BYTES),
        }
    }

    fn clear(&mut self) {
        self.arena_bytes = 0;
        self.run = None;
        self.hook_ticket = None;
        self.buffer.truncate(HEADROOM_BYTES);
        self.buffer.shrink_to(RECYCLED_BYTES_MAX);
        self.index.clear();
        self.index
            .shrink_to(RECYCLED_BYTES_MAX / size_of::<OpIndex>());
        self.packing.clear();
        self.ranges.clear();
        self.surviving = None;
        self.deleted = Fragments::default();
        self.spilled.clear();
        self.spilled_batch = None;
        self.loaded = Vec::new();
        let lookup = self.lookup.get_mut();
        lookup.newest.clear();
        lookup.indexed = 0;
        lookup.covered = Fragments::default();
        lookup.covering = 0;
    }

    /// Reads the spilled values and unpacks the packed ones, for [`Section::hooked`].
    ///
    /// # Errors
    /// What that answers, as text.
    pub(super) fn load_values(&mut self) -> std::result::Result<(), String> {
        let mut loaded = Vec::new();
        let mut spilled = self.spilled.iter();
        for (index, op) in (0..).zip(&self.index) {
            let value = match op.kind {
                EntryKind::PutSpilled => spilled.next().map(|(_, value)| {
                    let key = self.family.order.identity(self.bytes(&op.key));
                    value.read(&key)
                }),
                EntryKind::PutPacked => Some(unpacked_value(self.bytes(&op.value))),
                _ => None,
            };
            if let Some(value) = value {
                loaded.push((index, value.map_err(|error| error.to_string())?));
            }
        }
        self.loaded = loaded;
        Ok(())
    }

    /// Gives back the memory of what [`Section::load_values`] read.
    pub(super) fn unload_values(&mut self) {
        self.loaded = Vec::new();
    }

    /// Operation `index` with the value itself, after [`Section::load_values`].
    pub(super) fn hooked(&self, index: usize) -> OwnWrite<'_> {
        let op = self.own_write(index as u32);
        let place = self
            .loaded
            .binary_search_by_key(&index, |(index, _)| *index as usize);
        let loaded = place.ok().and_then(|place| self.loaded.get(place));
        OwnWrite {
            value: loaded.map_or(op.value, |(_, value)| value.as_slice()),
            ..op
        }
    }

    /// A record in the log may point to the spilled values from now on.
    pub(super) fn pin_spilled(&self) {
        self.spilled.iter().for_each(|(_, value)| value.pin());
    }

    /// Operations so far.
    pub(crate) fn op_count(&self) -> usize {
        self.index.len()
    }

    fn bytes(&self, range: &Range<u32>) -> &[u8] {
        &self.buffer[range.start as usize..range.end as usize]
    }

    fn key(&self, index: u32) -> &[u8] {
        self.bytes(&self.index[index as usize].key)
    }

    /// The operations on keys as a memtable takes them, once they are prepared: how many, and each by its number.
    pub(crate) fn ops<'a>(&'a self) -> (usize, impl Fn(usize) -> MemtableOp<'a>) {
        let op_at = |place| {
            let op = self.surviving_op(place);
            MemtableOp {
                kind: op.kind,
                expires_at: op.expires_at,
                hash: op.hash,
                key: self.bytes(&op.key),
                value: self.bytes(&op.value),
            }
        };
        (self.surviving_count(), op_at)
    }

    fn surviving_count(&self) -> usize {
        self.surviving.as_ref().map_or(self.index.len(), Vec::len)
    }

    fn surviving_op(&self, place: usize) -> &OpIndex {
        let surviving = self.surviving.as_ref();
        &self.index[surviving.map_or(place, |surviving| surviving[place] as usize)]
    }

    /// The keys that are written, with their hashes (0 when the order has none). Range deletes are not among them.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let points = self.index.iter().filter(|op| !op.is_range());
        points.map(|op| (self.bytes(&op.key), op.hash))
    }

    /// Asks the processor to fetch where the memtable will look for the keys of a small batch, so that the wait for memory
    /// passes while the record is made ready.
    fn prefetch(&self) {
        let current = self.family.load();
        for op in &self.index {
            current.active.table.prefetch(op.hash);
        }
    }

    /// True when tables of the family are compressed.
    fn compresses(&self) -> bool {
        self.family.options().compression != Compression::None
    }

    /// The ranges that are deleted: start and end (empty: no end), in the order in which they were made.
    pub(crate) fn ranges(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.ranges.iter().map(|index| self.range(*index))
    }

    /// The keys of all range deletes together, once they are prepared.
    pub(crate) fn deleted(&self) -> &Fragments {
        &self.deleted
    }

    fn range(&self, index: u32) -> (&[u8], &[u8]) {
        let op = &self.index[index as usize];
        (self.bytes(&op.key), self.bytes(&op.value))
    }

    fn plain(&self) -> impl Iterator<Item = PlainOp<'_>> + Clone {
        self.index
            .iter()
            .map(|op| (op.kind, self.bytes(&op.key), self.bytes(&op.value)))
    }

    /// The place of the last range delete over `key`, counted from 1; 0 when there is none.
    fn covering_place(&self, key: &[u8]) -> usize {
        if self.ranges.is_empty() {
            return 0;
        }
        let order = &self.family.order;
        let mut lookup = self.lookup.borrow_mut();
        let tail_max = RANGES_LINEARLY_MAX.max(lookup.covering.isqrt());
        if self.ranges.len() - lookup.covering > tail_max {
            lookup.covered = covered_places(order, self.plain());
            lookup.covering = self.ranges.len();
        }
        let tail = self.ranges[lookup.covering..].iter().rev();
        let mut covering = tail.filter(|index| {
            let (start, end) = self.range(**index);
            order.compare(start, key).is_le() && is_before_end(order, key, end)
        });
        match covering.next() {
            Some(index) => *index as usize + 1,
            None => lookup.covered.cover(order, key, SeqNo::MAX).0 as usize,
        }
    }

    pub(super) fn own_write(&self, index: u32) -> OwnWrite<'_> {
        let op = &self.index[index as usize];
        OwnWrite {
            key: self.bytes(&op.key),
            kind: op.kind,
            value: self.bytes(&op.value),
            expires_at: op.expires_at,
        }
    }

    /// The last operation on `key`. A range delete over it is a delete of it.
    fn find(&self, key: &[u8]) -> Option<OwnWrite<'_>> {
        let covering = self.covering_place(key);
        match self.find_point(key) {
            Some(index) if index as usize >= covering => Some(self.own_write(index)),
            _ if covering == 0 => None,
            _ => {
                let (start, end) = self.range(covering as u32 - 1);
                debug_assert!(is_before_end(&self.family.order, start, end));
                Some(OwnWrite {
                    key: start,
                    kind: EntryKind::RangeDelete,
                    value: &[],
                    expires_at: 0,
                })
            }
        }
    }

    /// The index of the last operation on `key` alone.
    fn find_point(&self, key: &[u8]) -> Option<u32> {
        let order = &self.family.order;
        let is_same = |index: &u32| {
            !self.index[*index as usize].is_range()
                && order.compare(self.key(*index), key) == Ordering::Equal
        };
        let count = self.index.len() as u32;
        let hash = if self.index.len() > SEARCHED_LINEARLY_MAX {
            order.hash(key)
        } else {
            None
        };
        match hash {
            None => (0..count).rev().find(is_same),
            Some(hash) => match self.newest_with(hash) {
                None => None,
                // Two keys of one hash: as good as impossible, and answered by looking at all of them.
                Some(index) if !is_same(&index) => (0..count).rev().find(is_same),
                Some(index) => Some(index),
            },
        }
    }

    fn newest_with(&self, hash: u64) -> Option<u32> {
        let mut lookup = self.lookup.borrow_mut();
        let indexed = lookup.indexed;
        for (index, op) in self.index.iter().enumerate().skip(indexed) {
            if !op.is_range() {
                lookup.newest.insert(op.hash, index as u32);
            }
        }
        lookup.indexed = self.index.len();
        lookup.newest.get(&hash).copied()
    }

    fn cursor(&self) -> OwnWrites {
        let widen = |range: &Range<u32>| range.start as usize..range.end as usize;
        let write = |op: &OpIndex| own_writes::OwnWrite {
            kind: op.kind,
            expires_at: op.expires_at,
            key: widen(&op.key),
            value: widen(&op.value),
        };
        let order = &self.family.order;
        let writes = match surviving(order, self.plain()) {
            None => self.index.iter().map(write).collect(),
            Some(indexes) => indexes
                .into_iter()
                .map(|index| write(&self.index[index as usize]))
                .collect(),
        };
        let own = OwnWrites::new(order.clone(), self.buffer.as_slice().into(), writes);
        let spilled = self.spilled.iter().map(|(_, value)| Arc::clone(value));
        own.with_ranges(self.ranges()).holding(spilled.collect())
    }

    fn push(&mut self, op: &Op<'_>) {
        let op = self.packing.packed(&self.family, op);
        let span = write_op(&mut self.buffer, &op);
        self.arena_bytes += entry_bytes(op.key.len(), op.value.len(), op.expires_at != 0);
        let narrow = |range: Range<usize>| range.start as u32..range.end as u32;
        let is_range = op.kind == EntryKind::RangeDelete;
        if is_range {
            self.ranges.push(self.index.len() as u32);
        }
        self.index.push(OpIndex {
            key: narrow(span.key),
            value: narrow(span.value),
            hash: match is_range {
                true => 0,
                false => self.family.order.hash(op.key).unwrap_or(0),
            },
            expires_at: op.expires_at,
            kind: op.kind,
        });
    }

    /// What the operations add to the family's counts.
    fn measure(&mut self) {
        let mut sizes = CommitSizes {
            operations: self.index.len() as u64,
            log_bytes: (self.header.len() + self.buffer.len() - HEADROOM_BYTES) as u64,
            ..CommitSizes::default()
        };
        for op in &self.index {
            sizes.tombstones += u64::from(op.kind.is_tombstone());
            sizes.key_bytes += op.key.len() as u64;
            sizes.value_bytes += match op.kind {
                EntryKind::PutSpilled => ValuePointer::decode(self.bytes(&op.value))
                    .map_or(0, |pointer| u64::from(pointer.value_bytes)),
                EntryKind::PutPacked => packed_raw_bytes(self.bytes(&op.value)).unwrap_or(0) as u64,
                _ => op.value.len() as u64,
            };
        }
        self.sizes = sizes;
    }

    /// Notes that the operations are in the log from `span.0` to `span.1` and in `memory`. For the holder of the commit
    /// lock.
    pub(super) fn note_applied(&mut self, memory: &Memory, segment: SegmentId, span: (Lsn, Lsn)) {
        if let Some(batch) = self.spilled_batch.take() {
            memory.spilled.add(batch);
        }
        memory.note_record(segment, span.0, span.1);
        memory.note_tombstones(self.sizes.tombstones);
        self.family.counters.note_commit(self.sizes);
    }

    /// Takes back all operations but the first `mark.ops`.
    fn truncate_to(&mut self, mark: &SectionMark) {
        self.arena_bytes = mark.arena_bytes;
        self.run = None;
        self.buffer.truncate(mark.buffer_bytes);
        self.index.truncate(mark.ops);
        let ranges = self
            .ranges
            .partition_point(|index| (*index as usize) < mark.ops);
        self.ranges.truncate(ranges);
        let spilled = self
            .spilled
            .partition_point(|(index, _)| (*index as usize) < mark.ops);
        self.spilled.truncate(spilled);
        // Operations that were replaced by those taken back are the newest again: built anew on the next read.
        let lookup = self.lookup.get_mut();
        lookup.newest.clear();
        lookup.indexed = 0;
        lookup.covered = Fragments::default();
        lookup.covering = 0;
    }

    fn make_header(&mut self) {
        self.header.clear();
        let ops_bytes = (self.buffer.len() - HEADROOM_BYTES) as u64;
        let op_count = self.index.len() as u32;
        write_section_header(&mut self.header, self.family.id, op_count, ops_bytes);
    }
}

/// A state of a write set to which it can go back.
#[derive(Debug)]
pub(crate) struct WriteMark {
    sections: Vec<SectionMark>,
    bytes: usize,
}

#[derive(Debug)]
struct SectionMark {
    ops: usize,
    buffer_bytes: usize,
    arena_bytes: usize,
}

/// The operations of one transaction.
#[derive(Default)]
pub(crate) struct WriteSet {
    /// The first `used` hold operations; the others are kept for their buffers.
    sections: Vec<Section>,
    used: usize,
    bytes: usize,
    /// Holds the record when it has more than one section, or a control section.
    gathered: Vec<u8>,
    frames: RecordFrames,
    /// The record's control section; empty for ordinary commits.
    control: Vec<u8>,
    /// The prepared transaction that the commit ends.
    ends: Option<Arc<Prepared>>,
}

impl WriteSet {
    /// Operations so far.
    pub(crate) fn op_count(&self) -> usize {
        self.sections().map(Section::op_count).sum()
    }

    /// Bytes that the operations take in memtables.
    #[inline]
    pub(super) fn arena_bytes(&self) -> usize {
        self.sections().map(|section| section.arena_bytes).sum()
    }

    /// True when nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The sections with operations.
    pub(crate) fn sections(&self) -> impl Iterator<Item = &Section> {
        self.sections[..self.used].iter()
    }

    pub(super) fn sections_mut(&mut self) -> impl Iterator<Item = &mut Section> {
        self.sections[..self.used].iter_mut()
    }

    /// The most bytes that a family written to wants left free on the device.
    #[inline]
    pub(super) fn disk_free_bytes_min(&self) -> u64 {
        let of = |section: &Section| section.family.disk_free_bytes_min();
        self.sections().map(of).max().unwrap_or(0)
    }

    pub(super) fn frames(&self) -> &RecordFrames {
        &self.frames
    }

    /// The family of section `index`, and the memtable bytes and entries that it needs.
    pub(super) fn needs(&self, index: usize) -> (Arc<Family>, usize, usize) {
        let section = &self.sections[index];
        (
            Arc::clone(&section.family),
            section.arena_bytes,
            section.op_count(),
        )
    }

    /// Appends an operation, its value packed where that is worth it. Key and value lengths were checked.
    ///
    /// # Errors
    /// `TooLarge` when the transaction would exceed its limit, `Busy` inside the family's own commit hook; it is then as
    /// before.
    pub(crate) fn push(&mut self, family: &Arc<Family>, op: &Op<'_>) -> Result<()> {
        family.hooks.check_outside()?;
        let op_bytes = entry_bytes(op.key.len(), op.value.len(), true);
        if self.bytes.saturating_add(op_bytes) > limits::TRANSACTION_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "a transaction holds at most {} bytes: commit in smaller pieces",
                    limits::TRANSACTION_BYTES_MAX
                ),
            ));
        }
        self.bytes += op_bytes;
        self.section_of(family).push(op);
        Ok(())
    }

    /// As [`WriteSet::push`], for a put whose value is `spilled`; the value of `op` is the pointer to it.
    ///
    /// # Errors
    /// As [`WriteSet::push`].
    pub(crate) fn push_spilled(
        &mut self,
        family: &Arc<Family>,
        op: &Op<'_>,
        spilled: Arc<Spilled>,
    ) -> Result<()> {
        self.push(family, op)?;
        let section = self.section_of(family);
        let index = section.index.len() as u32 - 1;
        section.spilled.push((index, spilled));
        Ok(())
    }

    /// The spilled values that operations point to.
    pub(crate) fn spilled(&self) -> impl Iterator<Item = &Arc<Spilled>> {
        self.sections()
            .flat_map(|section| section.spilled.iter().map(|(_, value)| value))
    }

    /// Lets go of the spilled values: the commit is over.
    pub(crate) fn forget_spilled(&mut self) {
        for section in &mut self.sections[..self.used] {
            section.spilled.clear();
            section.spilled_batch = None;
        }
    }

    /// True when an operation points to a spilled value.
    pub(crate) fn has_spilled(&self) -> bool {
        self.spilled().next().is_some()
    }

    fn section_of(&mut self, family: &Arc<Family>) -> &mut Section {
        let existing = self
            .sections()
            .position(|section| Arc::ptr_eq(&section.family, family));
        let index = existing.unwrap_or_else(|| {
            let index = self.used;
            match self.sections.get_mut(index) {
                Some(recycled) => recycled.family = Arc::clone(family),
                None => self.sections.push(Section::new(Arc::clone(family))),
            }
            self.used += 1;
            index
        });
        &mut self.sections[index]
    }

    /// What the transaction itself wrote to `key` last.
    pub(crate) fn find(&self, family: &Arc<Family>, key: &[u8]) -> Option<OwnWrite<'_>> {
        self.section(family)?.find(key)
    }

    /// A copy of all operations on `family`, as a source for iterators; `None` when there are none.
    pub(crate) fn cursor(&self, family: &Arc<Family>) -> Option<OwnWrites> {
        self.section(family).map(Section::cursor)
    }

    fn section(&self, family: &Arc<Family>) -> Option<&Section> {
        self.sections()
            .find(|section| Arc::ptr_eq(&section.family, family))
    }

    /// Bytes that the operations take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that the operations take, room in their buffers included.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_sections = self.sections.iter().map(|section| {
            let index_bytes = section.index.capacity() * size_of::<OpIndex>();
            section.buffer.capacity() + index_bytes + section.packing.memory_bytes()
        });
        of_sections.sum::<usize>() + self.gathered.capacity() + self.frames.memory_bytes()
    }

    /// The present state.
    pub(crate) fn mark(&self) -> WriteMark {
        let mark = |section: &Section| SectionMark {
            ops: section.index.len(),
            buffer_bytes: section.buffer.len(),
            arena_bytes: section.arena_bytes,
        };
        WriteMark {
            sections: self.sections().map(mark).collect(),
            bytes: self.bytes,
        }
    }

    /// Takes back all operations that were appended since `mark`, which was made in this life.
    pub(crate) fn truncate_to(&mut self, mark: &WriteMark) {
        for section in &mut self.sections[mark.sections.len()..self.used] {
            section.clear();
        }
        self.used = mark.sections.len();
        for (section, mark) in self.sections.iter_mut().zip(&mark.sections) {
            section.truncate_to(mark);
        }
        self.bytes = mark.bytes;
    }

    /// Forgets everything, keeping the memory for the next transaction.
    pub(crate) fn clear(&mut self) {
        for section in &mut self.sections[..self.used] {
            section.clear();
        }
        self.used = 0;
        self.bytes = 0;
        self.gathered.clear();
        self.gathered.shrink_to(RECYCLED_BYTES_MAX);
        self.frames.clear(RECYCLED_BYTES_MAX);
        self.control.clear();
        self.ends = None;
    }

    /// Makes the commit of these operations the outcome of `prepared`.
    pub(super) fn end(&mut self, prepared: Arc<Prepared>) {
        self.control.clear();
        write_prepared_commit(&mut self.control, &prepared.xid);
        self.ends = Some(prepared);
    }

    /// The prepared transaction that the commit ends.
    pub(super) fn ends(&self) -> Option<&Arc<Prepared>> {
        self.ends.as_ref()
    }

    /// The record of the operations behind the control section `control`, with [`HEADROOM_BYTES`] free bytes before it.
    pub(crate) fn record_with(&mut self, control: &[u8]) -> Vec<u8> {
        self.control.clear();
        self.control.extend_from_slice(control);
        self.prepare(false);
        self.control.clear();
        std::mem::take(&mut self.gathered)
    }

    /// Makes everything ready that the commit lock should not wait for: the record's frames with their hashes, and the
    /// sorted order of large batches. With `packs`, for which there must be as much memory as the operations take, what is
    /// long is packed, unless the families that are written to compress nothing.
    pub(super) fn prepare(&mut self, packs: bool) {
        for section in &mut self.sections[..self.used] {
            section.make_header();
            section.measure();
            let spilled = section.spilled.iter().map(|(_, value)| Arc::clone(value));
            section.spilled_batch = SpilledBatch::new(spilled.collect());
            let order = &section.family.order;
            if !section.ranges.is_empty() {
                let surviving = surviving(order, section.plain());
                let deleted = covered_places(order, section.plain());
                (section.surviving, section.deleted) = (surviving, deleted);
            }
            let count = section.surviving_count();
            if PreparedRun::is_worth_it(order, count) {
                section.run = Some(PreparedRun::sort(order, count, |place| {
                    let op = section.surviving_op(place as usize);
                    (op.kind, section.bytes(&op.key))
                }));
            } else {
                section.prefetch();
            }
        }
        let bytes: u64 = self.sections().map(|section| section.sizes.log_bytes).sum();
        let is_long = bytes >= PACKED_BYTES_MIN as u64;
        // Of packed values little more is to be saved.
        let is_packed = || self.packed_bytes() >= bytes - bytes / 8;
        let compresses = || self.sections().any(Section::compresses);
        let packs = packs && is_long && compresses() && !is_packed();
        let (record, start) = if self.used == 1 && self.control.is_empty() {
            let section = &mut self.sections[0];
            let start = HEADROOM_BYTES - section.header.len();
            section.buffer[start..HEADROOM_BYTES].copy_from_slice(&section.header);
            (&section.buffer, start)
        } else {
            self.gathered.clear();
            self.gathered.resize(HEADROOM_BYTES, 0);
            self.gathered.extend_from_slice(&self.control);
            for section in &self.sections[..self.used] {
                self.gathered.extend_from_slice(&section.header);
                self.gathered
                    .extend_from_slice(&section.buffer[HEADROOM_BYTES..]);
            }
            (&self.gathered, HEADROOM_BYTES)
        };
        match packs {
            true => self.frames.prepare_packed(record, start..record.len()),
            false => self.frames.prepare(record, start..record.len()),
        }
        self.count_log_bytes();
    }

    /// Bytes of the values that are packed.
    fn packed_bytes(&self) -> u64 {
        let ops = self.sections().flat_map(|section| &section.index);
        let packed = ops.filter(|op| op.kind == EntryKind::PutPacked);
        packed.map(|op| op.value.len() as u64).sum()
    }

    /// Counts what the record takes in the log with its sections: with each its share, the rest with the first one.
    fn count_log_bytes(&mut self) {
        let sections: u64 = self.sections().map(|section| section.sizes.log_bytes).sum();
        let mut left = self.frames.bytes();
        let share = (left as f64 / sections.max(1) as f64).min(1.0);
        for section in &mut self.sections[..self.used] {
            section.sizes.log_bytes = (section.sizes.log_bytes as f64 * share) as u64;
            left = left.saturating_sub(section.sizes.log_bytes);
        }
        if let Some(first) = self.sections.first_mut() {
            first.sizes.log_bytes += left;
        }
    }

    /// Appends the prepared record to the log.
    ///
    /// # Errors
    /// As [`Tail::append`].
    pub(super) fn append_to(
        &mut self,
        tail: &mut Tail,
        sequence: SeqNo,
        durable: Lsn,
    ) -> StorageResult<Lsn> {
        let buffer = match &mut self.sections[..self.used] {
            [only] if self.control.is_empty() => &mut only.buffer,
            _ => &mut self.gathered,
        };
        tail.append(buffer, &mut self.frames, sequence, durable)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
