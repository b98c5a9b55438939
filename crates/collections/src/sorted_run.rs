//! The sorted index of a large commit, and merges of several.
//!
//! A commit of many operations sorts its own index in its own thread ([`PreparedRun`]), before the critical section; in
//! the critical section the entries are appended in its order, so that those that follow each other in a run lie beside each
//! other in memory, and the index is published ([`SortedRun`]). Of puts on the same key in one commit only the last one that
//! can be seen is appended.
//!
//! Order: keys ascending, of equal keys the later offset first, which is the newer version: what is inserted later never has
//! a smaller sequence number. In byte order a run also has *heads*: for each entry the 8 bytes of its key that follow the
//! prefix common to all keys of the run, big-endian, padded with zeros. Smaller head means smaller key. Equal heads mean
//! equal keys where all keys are of one length and the same behind their heads; else they say nothing, and full keys decide.
//! Heads are what sorting and searching look at, so that they rarely touch the entries. Other orders compare full keys.
//!
//! A merge concatenates its sources and sorts the result with the standard library's stable sort, which finds the sorted
//! parts and merges them. It drops versions that no snapshot can see.
//!
//! A run never changes. It deliberately knows nothing of visibility: readers skip what is too new for them.

use std::{cmp::Ordering, ops::Range, sync::Arc};

use kingtide_base::{EntryKind, KeyOrder, SeqNo, limits};

use crate::{
    arena::{Arena, ArenaEntry, EntryOffset},
    skip_list::SkipList,
};

/// As [`limits::RUN_ENTRIES_MIN`], in orders without hashes, where the entries of a commit without a run find their places in
/// a skip list while others wait.
const UNHASHED_RUN_ENTRIES_MIN: usize = 32;

/// The 8 bytes of `key` after the first `prefix_bytes`, as a number that sorts like them.
#[inline]
pub(crate) fn head_of(key: &[u8], prefix_bytes: usize) -> u64 {
    let rest = key.get(prefix_bytes..).unwrap_or_default();
    if let Some(head) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(head)
}

/// An entry and its head: what sorting looks at.
pub(crate) type RunItem = (u64, EntryOffset);

/// What the keys of a run, or of several, have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyShape {
    /// Bytes at the begin of every key that are the same; 0 unless the order is bytewise.
    pub(crate) prefix_bytes: usize,
    /// How all keys end, if they are of one length and the order is bytewise.
    tail: Option<Tail>,
}

/// How keys of one length end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tail {
    key_bytes: usize,
    /// From this byte on they are the same.
    start: usize,
}

impl KeyShape {
    /// Nothing is known: what is to be said of keys in an order that is not bytewise.
    const UNKNOWN: Self = Self {
        prefix_bytes: 0,
        tail: None,
    };

    /// Of `keys` in byte order.
    #[inline]
    fn of<'a>(mut keys: impl Iterator<Item = &'a [u8]>) -> Self {
        let first = keys.next().unwrap_or_default();
        let alone = Self {
            prefix_bytes: first.len(),
            tail: Some(Tail {
                key_bytes: first.len(),
                start: 0,
            }),
        };
        keys.fold(alone, |shape, key| shape.and(first, key))
    }

    /// Of those that it was of, `first` among them, and `key`.
    #[inline]
    fn and(mut self, first: &[u8], key: &[u8]) -> Self {
        let prefix = &first[..self.prefix_bytes];
        if !key.starts_with(prefix) {
            let pairs = prefix.iter().zip(key);
            self.prefix_bytes = pairs.take_while(|(left, right)| left == right).count();
        }
        self.tail = self.tail.filter(|tail| tail.key_bytes == key.len());
        if let Some(Tail { start, .. }) = &mut self.tail
            && key[*start..] != first[*start..]
        {
            let differs = |place: &usize| key[*place] != first[*place];
            *start = (*start..key.len())
                .rfind(differs)
                .map_or(*start, |last| last + 1);
        }
        self
    }

    /// Of all entries of `sources`, told by what their runs know where that is enough.
    pub(crate) fn of_sources(sources: &[RunSource<'_>], arena: &Arena, order: &KeyOrder) -> Self {
        if !order.is_bytewise() {
            return Self::UNKNOWN;
        }
        let ends = sources.iter().flat_map(|source| {
            let (first, last) = match source {
                RunSource::Run(run) => (run.offset(0), run.offset(run.len().saturating_sub(1))),
                RunSource::List(list) => (list.offset(list.first()), list.offset(list.last())),
            };
            [first, last].into_iter().filter(|offset| !offset.is_none())
        });
        let ends = ends.map(|offset| arena.key(offset));
        let first = ends.clone().next().unwrap_or_default();
        let mut shape = Self::of(ends);
        for source in sources {
            match source {
                RunSource::Run(run) if run.is_empty() => {}
                RunSource::Run(run) => {
                    let tails = shape.tail.zip(run.shape.tail);
                    shape.tail = tails.map(|(tail, of_run)| Tail {
                        start: tail.start.max(of_run.start),
                        ..tail
                    });
                }
                RunSource::List(list) => {
                    let keys = list.offsets().map(|offset| arena.key(offset));
                    shape = keys.fold(shape, |shape, key| shape.and(first, key));
                }
            }
        }
        shape
    }

    /// True where equal heads behind the prefix mean equal keys: all that differs is in the heads.
    #[inline]
    fn differs_in_heads(self) -> bool {
        self.tail
            .is_some_and(|tail| tail.start <= self.prefix_bytes + size_of::<u64>())
    }
}

/// The order of entries, told by their heads as far as these tell. No two entries are equal.
#[derive(Clone, Copy)]
pub(crate) struct ItemOrder<'a> {
    arena: &'a Arena,
    order: &'a KeyOrder,
    /// Equal heads mean equal keys.
    heads_decide: bool,
}

impl<'a> ItemOrder<'a> {
    /// For heads that were taken behind the prefix of `shape`, which is that of all entries to be compared.
    pub(crate) fn new(shape: KeyShape, arena: &'a Arena, order: &'a KeyOrder) -> Self {
        Self {
            arena,
            order,
            heads_decide: shape.differs_in_heads(),
        }
    }

    /// Where `left` comes beside `right`.
    #[inline]
    pub(crate) fn compare(self, left: &RunItem, right: &RunItem) -> Ordering {
        let heads = left.0.cmp(&right.0);
        if heads.is_ne() {
            return heads;
        }
        if self.heads_decide {
            return right.1.cmp(&left.1);
        }
        compare_entries(left.1, right.1, self.arena, self.order)
    }
}

/// The order of entries, told by the entries themselves.
fn compare_entries(
    left: EntryOffset,
    right: EntryOffset,
    arena: &Arena,
    order: &KeyOrder,
) -> Ordering {
    order
        .compare(arena.key(left), arena.key(right))
        .then_with(|| right.cmp(&left))
}

/// Turns the heads of a run into those behind a prefix that is as long or shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadShift {
    /// What the keys of the run have in common behind the shorter prefix.
    common: u64,
    bits: u32,
}

impl HeadShift {
    #[inline]
    fn apply(self, head: u64) -> u64 {
        self.common | head.checked_shr(self.bits).unwrap_or(0)
    }
}

/// The entry at `offset` with its head behind `prefix_bytes`; 0 unless the order is bytewise.
#[inline]
fn item_at(offset: EntryOffset, prefix_bytes: usize, arena: &Arena, order: &KeyOrder) -> RunItem {
    let head = match order.is_bytewise() {
        true => head_of(arena.key(offset), prefix_bytes),
        false => 0,
    };
    (head, offset)
}

/// A sorted index over the operations of one commit that has no offsets yet.
#[derive(Debug)]
pub struct PreparedRun {
    /// Has no offsets. Not shared before it is sealed.
    run: Arc<SortedRun>,
    /// The numbers of the operations by key, of equal keys as they were made: the order in which they are inserted.
    operations: Vec<u32>,
    /// Where each was inserted, with room for all, so that the critical section need not allocate.
    offsets: Vec<EntryOffset>,
    /// The places of operations on one key.
    repeated: Vec<Range<usize>>,
    made_of: usize,
}

impl PreparedRun {
    /// Whether a commit of `count` operations is to have a run of its own.
    #[inline]
    #[must_use]
    pub fn is_worth_it(order: &KeyOrder, count: usize) -> bool {
        count
            >= match order.has_hash() {
                true => limits::RUN_ENTRIES_MIN,
                false => UNHASHED_RUN_ENTRIES_MIN,
            }
    }

    /// Sorts operations `0 .. count` (fewer than 2^32), of which `op_at` gives kinds and keys. Of equal keys the later
    /// operation comes first in the run; puts that the next operation on their key hides are left out, as nobody can ever see
    /// them. All allocations of the run are made here.
    ///
    /// # Panics
    /// When `count` does not fit 32 bits.
    #[must_use]
    pub fn sort<'a>(
        order: &KeyOrder,
        count: usize,
        op_at: impl Fn(u32) -> (EntryKind, &'a [u8]),
    ) -> Self {
        let count_u32 = u32::try_from(count).expect("a commit has fewer than 2^32 operations");
        let key_at = |operation| op_at(operation).1;
        let (shape, mut items) = if order.is_bytewise() {
            let shape = KeyShape::of((0..count_u32).map(key_at));
            (shape, items_by_key(count_u32, shape, &key_at))
        } else {
            let items = items_by_order(count_u32, order, &key_at);
            (KeyShape::UNKNOWN, items)
        };
        let is_same_key = |left: &(u64, u32), right: &(u64, u32)| {
            let is_same = || order.compare(key_at(left.1), key_at(right.1)).is_eq();
            left.0 == right.0 && (shape.differs_in_heads() || is_same())
        };
        items.dedup_by(|later, earlier| {
            let is_hidden =
                is_same_key(later, earlier) && is_hidden_by(op_at(earlier.1).0, op_at(later.1).0);
            if is_hidden {
                *earlier = *later;
            }
            is_hidden
        });
        let is_repeated = |place: usize| is_same_key(&items[place], &items[place + 1]);
        let repeated = repeated(items.len(), is_repeated);
        let (heads, operations): (Vec<u64>, Vec<u32>) = items.into_iter().unzip();
        Self {
            repeated,
            run: Arc::new(SortedRun {
                shape,
                heads: if order.is_bytewise() {
                    heads
                } else {
                    Vec::new()
                },
                offsets: Vec::new(),
            }),
            offsets: Vec::with_capacity(operations.len()),
            operations,
            made_of: count,
        }
    }

    /// How many operations it was made of.
    pub(crate) fn made_of(&self) -> usize {
        self.made_of
    }

    /// Operations in the run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True for a run of no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of the operations in the order in which they are to be inserted, and who is told where that was.
    pub(crate) fn parts(&mut self) -> (&[u32], &mut Vec<EntryOffset>) {
        (&self.operations, &mut self.offsets)
    }

    /// The run, once every operation has its offset; `None` when some lack theirs.
    pub(crate) fn seal(mut self) -> Option<Arc<SortedRun>> {
        if self.offsets.len() != self.operations.len() {
            return None;
        }
        for places in self.repeated {
            self.offsets.get_mut(places)?.reverse();
        }
        Arc::get_mut(&mut self.run)?.offsets = self.offsets;
        Some(self.run)
    }
}

/// The operations by key, of equal keys as they were made, with heads behind the prefix of `shape`, which is that of all keys.
fn items_by_key<'a>(
    count: u32,
    shape: KeyShape,
    key_at: &impl Fn(u32) -> &'a [u8],
) -> Vec<(u64, u32)> {
    let prefix_bytes = shape.prefix_bytes;
    let item = |operation| (head_of(key_at(operation), prefix_bytes), operation);
    let mut items: Vec<(u64, u32)> = (0..count).map(item).collect();
    if shape.differs_in_heads() {
        items.sort_unstable();
        return items;
    }
    items.sort_unstable_by(|left, right| {
        left.0
            .cmp(&right.0)
            .then_with(|| {
                let left_key = key_at(left.1).get(prefix_bytes..);
                left_key.cmp(&key_at(right.1).get(prefix_bytes..))
            })
            .then_with(|| left.1.cmp(&right.1))
    });
    items
}

/// As [`items_by_key`], in an order that has no heads.
fn items_by_order<'a>(
    count: u32,
    order: &KeyOrder,
    key_at: &impl Fn(u32) -> &'a [u8],
) -> Vec<(u64, u32)> {
    let mut items: Vec<(u64, u32)> = (0..count).map(|operation| (0, operation)).collect();
    items.sort_unstable_by(|left, right| {
        order
            .compare(key_at(left.1), key_at(right.1))
            .then_with(|| left.1.cmp(&right.1))
    });
    items
}

/// Whether a later operation of the same commit on the same key hides an earlier one from everybody. Of spilled values the
/// flush must know when they die, and what is not a put may have a meaning of its own.
fn is_hidden_by(earlier: EntryKind, later: EntryKind) -> bool {
    let hides = match later {
        EntryKind::Put | EntryKind::PutPacked | EntryKind::PutSpilled | EntryKind::Delete => true,
        EntryKind::SingleDelete | EntryKind::RangeDelete | EntryKind::Merge => false,
    };
    hides && matches!(earlier, EntryKind::Put | EntryKind::PutPacked)
}

/// The places of equal neighbours among `count`; `is_repeated` tells of a place and the next one.
fn repeated(count: usize, is_repeated: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for place in (0..count.saturating_sub(1)).filter(|place| is_repeated(*place)) {
        match found.last_mut() {
            Some(last) if last.end == place + 1 => last.end += 1,
            _ => found.push(place..place + 2),
        }
    }
    found
}

/// What a merge reads: a run, or a skip list that will not change any more.
#[derive(Clone, Copy)]
pub enum RunSource<'a> {
    /// A run.
    Run(&'a SortedRun),
    /// A full skip list.
    List(&'a SkipList),
}

/// A sorted index over entries of one arena. Immutable.
#[derive(Debug)]
pub struct SortedRun {
    shape: KeyShape,
    /// The head of each entry; empty unless the order is bytewise.
    heads: Vec<u64>,
    offsets: Vec<EntryOffset>,
}

impl SortedRun {
    /// Bytes that an entry takes at most.
    pub(crate) const ENTRY_BYTES: usize = size_of::<u64>() + size_of::<EntryOffset>();

    /// A run of published `entries` of an arena, in any order.
    pub(crate) fn of_entries(entries: &[EntryOffset], arena: &Arena, order: &KeyOrder) -> Self {
        let shape = match order.is_bytewise() {
            true => KeyShape::of(entries.iter().map(|entry| arena.key(*entry))),
            false => KeyShape::UNKNOWN,
        };
        let items = entries.iter();
        let mut items: Vec<RunItem> = items
            .map(|entry| item_at(*entry, shape.prefix_bytes, arena, order))
            .collect();
        let item_order = ItemOrder::new(shape, arena, order);
        items.sort_unstable_by(|left, right| item_order.compare(left, right));
        Self::of_items(items, shape, order)
    }

    /// A run of sorted `items` whose keys have that `shape`.
    fn of_items(items: Vec<RunItem>, shape: KeyShape, order: &KeyOrder) -> Self {
        let heads = match order.is_bytewise() {
            true => items.iter().map(|item| item.0).collect(),
            false => Vec::new(),
        };
        Self {
            shape,
            heads,
            offsets: items.into_iter().map(|item| item.1).collect(),
        }
    }

    /// Entries in the run.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// True for a run of no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The entry at `index`; none beyond the end.
    #[inline]
    #[must_use]
    pub fn offset(&self, index: usize) -> EntryOffset {
        self.offsets
            .get(index)
            .copied()
            .unwrap_or(EntryOffset::NONE)
    }

    /// The entry at `index` with its head; 0 unless the order is bytewise. None beyond the end.
    #[inline]
    pub(crate) fn item(&self, index: usize, shift: HeadShift) -> Option<RunItem> {
        let offset = self.offsets.get(index)?;
        let head = self.heads.get(index).map_or(0, |head| shift.apply(*head));
        Some((head, *offset))
    }

    /// The entries of `range`, which is within the run, as [`SortedRun::item`] has them.
    pub(crate) fn items(
        &self,
        range: Range<usize>,
        shift: HeadShift,
    ) -> impl Iterator<Item = RunItem> + '_ {
        let heads = self.heads.get(range.clone()).unwrap_or_default();
        let offsets = self.offsets.get(range).unwrap_or_default();
        offsets.iter().enumerate().map(move |(index, offset)| {
            let head = heads.get(index).map_or(0, |head| shift.apply(*head));
            (head, *offset)
        })
    }

    /// How the heads of this run become heads behind `prefix_bytes`, which is not more than its own prefix has.
    pub(crate) fn shift_to(&self, prefix_bytes: usize, arena: &Arena) -> HeadShift {
        let prefix = arena.key(self.offset(0)).get(..self.shape.prefix_bytes);
        let longer = self.shape.prefix_bytes.saturating_sub(prefix_bytes);
        HeadShift {
            common: head_of(prefix.unwrap_or_default(), prefix_bytes),
            bits: u32::try_from(longer.saturating_mul(8)).unwrap_or(u32::MAX),
        }
    }

    /// The index in `range` of the first entry that is not before `bound`; the end of the range if all are.
    pub(crate) fn end_before(
        &self,
        bound: &RunItem,
        range: Range<usize>,
        shift: HeadShift,
        item_order: ItemOrder<'_>,
    ) -> usize {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low.midpoint(high);
            let is_before = self
                .item(middle, shift)
                .is_some_and(|item| item_order.compare(&item, bound).is_lt());
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// How many entries come before `entry`, which need not be one of the run's.
    pub(crate) fn rank(&self, entry: EntryOffset, arena: &Arena, order: &KeyOrder) -> usize {
        self.offsets
            .partition_point(|other| compare_entries(*other, entry, arena, order).is_lt())
    }

    /// Bytes of memory that the index takes.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<u64>()
            + self.offsets.capacity() * size_of::<EntryOffset>()
    }

    /// The index of the first entry whose key is at or after `key`.
    #[must_use]
    pub fn lower_bound(&self, key: &[u8], arena: &Arena, order: &KeyOrder) -> usize {
        self.partition(key, arena, order, |entry_key, _| {
            order.compare(entry_key, key).is_lt()
        })
    }

    /// The index of the first entry whose key is after `key`.
    #[must_use]
    pub fn upper_bound(&self, key: &[u8], arena: &Arena, order: &KeyOrder) -> usize {
        self.partition(key, arena, order, |entry_key, _| {
            order.compare(entry_key, key).is_le()
        })
    }

    /// The newest entry of `key` with a sequence number of at most `snapshot`, or none.
    #[must_use]
    pub fn get(&self, key: &[u8], snapshot: SeqNo, arena: &Arena, order: &KeyOrder) -> EntryOffset {
        let index = self.partition(key, arena, order, |entry_key, sequence| {
            match order.compare(entry_key, key) {
                Ordering::Less => true,
                Ordering::Equal => sequence > snapshot,
                Ordering::Greater => false,
            }
        });
        let offset = self.offset(index);
        if !offset.is_none() && order.compare(arena.key(offset), key).is_eq() {
            offset
        } else {
            EntryOffset::NONE
        }
    }

    /// The number of entries for which `is_before` holds; it holds for a first part of the run, for every entry whose
    /// key is before `key` and for none whose key is after.
    #[inline]
    fn partition(
        &self,
        key: &[u8],
        arena: &Arena,
        order: &KeyOrder,
        is_before: impl Fn(&[u8], SeqNo) -> bool,
    ) -> usize {
        let (start, end) = if order.is_bytewise() {
            self.candidates(key, arena)
        } else {
            (0, self.len())
        };
        start
            + self.offsets[start..end].partition_point(|offset| {
                let (entry_key, sequence) = arena.key_and_sequence(*offset);
                is_before(entry_key, sequence)
            })
    }

    /// The entries whose head is that of `key`, in byte order: those before are smaller, those after are larger.
    #[inline]
    fn candidates(&self, key: &[u8], arena: &Arena) -> (usize, usize) {
        let Some(first) = self.offsets.first() else {
            return (0, 0);
        };
        let prefix = arena
            .key(*first)
            .get(..self.shape.prefix_bytes)
            .unwrap_or_default();
        let key_prefix = &key[..key.len().min(prefix.len())];
        match key_prefix.cmp(prefix) {
            Ordering::Less => return (0, 0),
            Ordering::Greater => return (self.len(), self.len()),
            Ordering::Equal => {}
        }
        let head = head_of(key, self.shape.prefix_bytes);
        let start = self.heads.partition_point(|other| *other < head);
        // Equal heads are few as a rule: look at the neighbours before searching the rest.
        let mut end = start;
        while end < self.heads.len() && self.heads[end] == head {
            if end - start == 8 {
                end += self.heads[end..].partition_point(|other| *other <= head);
                break;
            }
            end += 1;
        }
        (start, end)
    }

    /// Merges `sources`, entries of one arena, into one run.
    ///
    /// `snapshots` are the sequence numbers that readers may use, ascending, the newest visible one last. Of every key
    /// all versions newer than the last snapshot stay, and for each snapshot the newest version at or below it. Keys with
    /// kinds whose effect depends on older versions (range deletes, merge operands) keep everything. With no snapshots
    /// nothing is dropped.
    #[must_use]
    pub fn merge(
        sources: &[RunSource<'_>],
        arena: &Arena,
        order: &KeyOrder,
        snapshots: &[SeqNo],
    ) -> Self {
        debug_assert!(snapshots.is_sorted());
        let shape = KeyShape::of_sources(sources, arena, order);
        let item_order = ItemOrder::new(shape, arena, order);
        let mut items = collect_items(sources, arena, order, shape.prefix_bytes);
        items.sort_by(|left, right| item_order.compare(left, right));
        if !snapshots.is_empty() {
            drop_hidden(&mut items, arena, order, snapshots);
        }
        Self::of_items(items, shape, order)
    }
}

/// All entries of `sources`, one source after the other, with their heads (0 unless the order is bytewise).
fn collect_items(
    sources: &[RunSource<'_>],
    arena: &Arena,
    order: &KeyOrder,
    prefix_bytes: usize,
) -> Vec<RunItem> {
    let count = sources
        .iter()
        .map(|source| match source {
            RunSource::Run(run) => run.len(),
            RunSource::List(list) => list.len(),
        })
        .sum();
    let mut items = Vec::with_capacity(count);
    for source in sources {
        match source {
            RunSource::Run(run) => {
                items.extend(run.items(0..run.len(), run.shift_to(prefix_bytes, arena)));
            }
            RunSource::List(list) => {
                let offsets = list.offsets();
                items.extend(offsets.map(|offset| item_at(offset, prefix_bytes, arena, order)));
            }
        }
    }
    items
}

/// Removes from sorted `items` the versions that no snapshot sees. See [`SortedRun::merge`].
fn drop_hidden(items: &mut Vec<RunItem>, arena: &Arena, order: &KeyOrder, snapshots: &[SeqNo]) {
    let mut kept = 0;
    let mut start = 0;
    while start < items.len() {
        let is_alone = items
            .get(start + 1)
            .is_none_or(|next| next.0 != items[start].0);
        if is_alone && order.is_bytewise() {
            // Told by the heads, without a look at the entry.
            items[kept] = items[start];
            kept += 1;
            start += 1;
            continue;
        }
        let key = arena.key(items[start].1);
        let mut end = start + 1;
        while end < items.len()
            && items[end].0 == items[start].0
            && order.compare(arena.key(items[end].1), key).is_eq()
        {
            end += 1;
        }
        let keeps_all = end - start == 1
            || items[start..end]
                .iter()
                .any(|item| arena.entry(item.1).is_none_or(depends_on_older));
        // Snapshots at or above this index have their version already.
        let mut unserved = snapshots.len();
        for index in start..end {
            let sequence = arena.key_and_sequence(items[index].1).1;
            let seen_from = snapshots[..unserved].partition_point(|snapshot| *snapshot < sequence);
            let is_newer_than_all = snapshots.last().is_none_or(|newest| sequence > *newest);
            if keeps_all || is_newer_than_all || seen_from < unserved {
                items[kept] = items[index];
                kept += 1;
                unserved = seen_from;
            }
        }
        start = end;
    }
    items.truncate(kept);
}

/// True for entries that older versions of their key are still needed beside.
fn depends_on_older(entry: ArenaEntry<'_>) -> bool {
    match entry.kind {
        EntryKind::Put
        | EntryKind::PutSpilled
        | EntryKind::PutPacked
        | EntryKind::Delete
        | EntryKind::SingleDelete => false,
        EntryKind::RangeDelete | EntryKind::Merge => true,
    }
}

#[cfg(test)]
mod tests;
