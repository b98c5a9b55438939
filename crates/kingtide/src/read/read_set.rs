//! What a transaction read, for the check at its commit: single keys, keys read for update, and ranges of keys.
//!
//! Keys lie one behind the other in one buffer per family, which is kept for the next transaction; a read of a key that
//! was read just before is found in a small table by its hash and not kept twice. Ranges are kept as they were scanned
//! and merged where they touch only when somebody asks ([`FamilyReads::merged_ranges`]).
//!
//! Nothing here is bounded by forgetting: what does not fit the limit of the transaction is refused, and then the read
//! that asked for it must fail.

use std::{cmp::Ordering, ops::Bound, sync::Arc};

use kingtide_base::{KeyOrder, SeqNo};

use super::scan::Scan;
use crate::{
    error::{Error, ErrorKind, Result},
    family::Family,
};

/// Buffers larger than this are given back after a transaction.
const RECYCLED_BYTES_MAX: usize = 64 << 10;
/// Families whose buffers are kept after a transaction.
const RECYCLED_FAMILIES_MAX: usize = 8;
/// Entries of the table of keys that were read lately.
const RECENT: usize = 64;
/// What a range takes besides its keys, in bytes.
const RANGE_BYTES: usize = size_of::<StoredRange>();
/// What a single key takes besides its bytes.
const POINT_BYTES: usize = size_of::<StoredPoint>();

/// A set of neighbouring keys in the order of their family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange<'a> {
    pub(crate) lower: Bound<&'a [u8]>,
    pub(crate) upper: Bound<&'a [u8]>,
}

impl KeyRange<'_> {
    /// True when no key can lie in the range, because it ends before it begins.
    fn is_empty(&self, order: &KeyOrder) -> bool {
        match (self.lower, self.upper) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(lower), Bound::Included(upper)) => order.compare(lower, upper).is_gt(),
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) => order.compare(lower, upper).is_ge(),
        }
    }

    /// True when every key of `other` lies in this range.
    fn covers(&self, other: KeyRange<'_>, order: &KeyOrder) -> bool {
        compare_lower(self.lower, other.lower, order) != Ordering::Greater
            && compare_upper(self.upper, other.upper, order) != Ordering::Less
    }

    /// True when `key` lies in the range.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn contains(&self, key: &[u8], order: &KeyOrder) -> bool {
        !self.starts_behind(key, order) && !self.ends_before(key, order)
    }

    /// True when the whole range lies behind `key`.
    #[inline]
    pub(crate) fn starts_behind(&self, key: &[u8], order: &KeyOrder) -> bool {
        match self.lower {
            Bound::Unbounded => false,
            Bound::Included(lower) => order.compare(key, lower) == Ordering::Less,
            Bound::Excluded(lower) => order.compare(key, lower) != Ordering::Greater,
        }
    }

    /// True when the whole range lies at `key` or behind it.
    pub(crate) fn starts_at_or_behind(&self, key: &[u8], order: &KeyOrder) -> bool {
        match self.lower {
            Bound::Unbounded => false,
            Bound::Included(lower) | Bound::Excluded(lower) => order.compare(key, lower).is_le(),
        }
    }

    /// True when the whole range lies before `key`.
    #[inline]
    pub(crate) fn ends_before(&self, key: &[u8], order: &KeyOrder) -> bool {
        match self.upper {
            Bound::Unbounded => false,
            Bound::Included(upper) => order.compare(key, upper) == Ordering::Greater,
            Bound::Excluded(upper) => order.compare(key, upper) != Ordering::Less,
        }
    }
}

/// A single key that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PointRead<'a> {
    pub(crate) key: &'a [u8],
    /// By the family's order; 0 when it has none.
    pub(crate) hash: u64,
}

/// A key that was read for update: it counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpdateRead<'a> {
    pub(crate) key: &'a [u8],
    /// By the family's order; 0 when it has none.
    pub(crate) hash: u64,
    /// The newest commit that the read saw.
    pub(crate) since: SeqNo,
}

/// A place in the buffer.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct StoredPoint {
    hash: u64,
    key: Span,
}

#[derive(Clone, Copy, Debug)]
struct StoredUpdate {
    point: StoredPoint,
    since: SeqNo,
}

#[derive(Clone, Copy, Debug)]
struct StoredRange {
    lower: Bound<Span>,
    upper: Bound<Span>,
}

/// The memory of one family's part.
#[derive(Debug)]
struct Buffers {
    keys: Vec<u8>,
    points: Vec<StoredPoint>,
    updates: Vec<StoredUpdate>,
    ranges: Vec<StoredRange>,
    /// By the low bits of a hash: the index of a point with such a hash, which may be gone.
    recent: [u32; RECENT],
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            points: Vec::new(),
            updates: Vec::new(),
            ranges: Vec::new(),
            recent: [0; RECENT],
        }
    }
}

impl Buffers {
    fn clear(&mut self) {
        self.keys.clear();
        self.keys.shrink_to(RECYCLED_BYTES_MAX);
        self.points.clear();
        self.points.shrink_to(RECYCLED_BYTES_MAX / POINT_BYTES);
        self.updates.clear();
        self.updates.shrink_to(RECYCLED_BYTES_MAX / POINT_BYTES);
        self.ranges.clear();
        self.ranges.shrink_to(RECYCLED_BYTES_MAX / RANGE_BYTES);
    }

    fn add_key(&mut self, key: &[u8]) -> Span {
        // Both fit: the bytes of a transaction are limited to less than 4 GiB, and a key to 1 MiB.
        let span = Span {
            start: self.keys.len() as u32,
            len: key.len() as u32,
        };
        self.keys.extend_from_slice(key);
        span
    }

    #[inline]
    fn key(&self, span: Span) -> &[u8] {
        &self.keys[span.start as usize..][..span.len as usize]
    }

    fn holds_lately(&self, key: &[u8], hash: u64) -> bool {
        let index = self.recent[hash as usize % RECENT] as usize;
        self.points
            .get(index)
            .is_some_and(|point| point.hash == hash && self.key(point.key) == key)
    }
}

/// What was read of one family.
#[derive(Debug)]
pub(crate) struct FamilyReads {
    pub(crate) family: Arc<Family>,
    buffers: Buffers,
}

impl FamilyReads {
    /// The single keys, in no order, some more than once.
    pub(crate) fn points(&self) -> impl ExactSizeIterator<Item = PointRead<'_>> {
        self.buffers.points.iter().map(|point| PointRead {
            key: self.buffers.key(point.key),
            hash: point.hash,
        })
    }

    /// The keys read for update, in the order of the reads.
    pub(crate) fn updates(&self) -> impl ExactSizeIterator<Item = UpdateRead<'_>> {
        self.buffers.updates.iter().map(|update| UpdateRead {
            key: self.buffers.key(update.point.key),
            hash: update.point.hash,
            since: update.since,
        })
    }

    /// The ranges, in no order; they may overlap.
    pub(crate) fn ranges(&self) -> impl DoubleEndedIterator<Item = KeyRange<'_>> {
        let key = |span| self.buffers.key(span);
        self.buffers.ranges.iter().map(move |range| KeyRange {
            lower: range.lower.map(key),
            upper: range.upper.map(key),
        })
    }

    /// The ranges in order, those that overlap or touch as one.
    pub(crate) fn merged_ranges(&self) -> Vec<KeyRange<'_>> {
        merge(self.ranges(), &self.family.order)
    }

    /// As [`FamilyReads::merged_ranges`], the single keys among them.
    pub(crate) fn merged_with_points(&self) -> Vec<KeyRange<'_>> {
        let points = self.points().map(|point| KeyRange {
            lower: Bound::Included(point.key),
            upper: Bound::Included(point.key),
        });
        merge(self.ranges().chain(points), &self.family.order)
    }
}

/// `ranges` in order, those that overlap or touch as one.
fn merge<'a>(ranges: impl Iterator<Item = KeyRange<'a>>, order: &KeyOrder) -> Vec<KeyRange<'a>> {
    let mut ranges: Vec<KeyRange<'_>> = ranges.filter(|range| !range.is_empty(order)).collect();
    ranges.sort_by(|left, right| compare_lower(left.lower, right.lower, order));
    let mut merged: Vec<KeyRange<'_>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if touches(last.upper, range.lower, order) => {
                if compare_upper(last.upper, range.upper, order) == Ordering::Less {
                    last.upper = range.upper;
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// How the beginnings of two ranges lie to one another.
fn compare_lower(left: Bound<&[u8]>, right: Bound<&[u8]>, order: &KeyOrder) -> Ordering {
    match (left, right) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Less,
        (_, Bound::Unbounded) => Ordering::Greater,
        (
            Bound::Included(left_key) | Bound::Excluded(left_key),
            Bound::Included(right_key) | Bound::Excluded(right_key),
        ) => order.compare(left_key, right_key).then_with(|| {
            let is_open = |bound| matches!(bound, Bound::Excluded(_));
            is_open(left).cmp(&is_open(right))
        }),
    }
}

/// How the ends of two ranges lie to one another.
fn compare_upper(left: Bound<&[u8]>, right: Bound<&[u8]>, order: &KeyOrder) -> Ordering {
    match (left, right) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Greater,
        (_, Bound::Unbounded) => Ordering::Less,
        (
            Bound::Included(left_key) | Bound::Excluded(left_key),
            Bound::Included(right_key) | Bound::Excluded(right_key),
        ) => order.compare(left_key, right_key).then_with(|| {
            let is_closed = |bound| matches!(bound, Bound::Included(_));
            is_closed(left).cmp(&is_closed(right))
        }),
    }
}

/// True when no key can lie between a range that ends at `upper` and one that begins at `lower`, which begins not before
/// the first one does.
fn touches(upper: Bound<&[u8]>, lower: Bound<&[u8]>, order: &KeyOrder) -> bool {
    match (upper, lower) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(upper), Bound::Excluded(lower)) => {
            order.compare(lower, upper) == Ordering::Less
        }
        (
            Bound::Included(upper) | Bound::Excluded(upper),
            Bound::Included(lower) | Bound::Excluded(lower),
        ) => order.compare(lower, upper) != Ordering::Greater,
    }
}

/// What a transaction read. See the module.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    families: Vec<FamilyReads>,
    /// Memory of families of earlier transactions.
    spare: Vec<Buffers>,
    /// What open iterators read since their last jump.
    pub(super) scans: Vec<Scan>,
    /// Bytes that all this takes, for the limit.
    bytes: usize,
    /// Bytes of the transaction's writes, which count against the same limit.
    written: usize,
    limit: usize,
}

impl ReadSet {
    /// Bytes that the reads take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True when nothing was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// True when a key was read for update.
    pub(crate) fn has_updates(&self) -> bool {
        self.families
            .iter()
            .any(|reads| !reads.buffers.updates.is_empty())
    }

    /// What was read, by family. What open iterators read is in it after [`ReadSet::finish`].
    pub(crate) fn families(&self) -> impl ExactSizeIterator<Item = &FamilyReads> {
        self.families.iter()
    }

    /// Sets the limit that reads and `written` bytes of writes keep together.
    pub(crate) fn set_limit(&mut self, limit: usize, written: usize) {
        self.limit = limit;
        self.written = written;
    }

    /// Adds a single key of `family`.
    ///
    /// # Errors
    /// `MemoryLimit`; the set is as before.
    pub(crate) fn add_point(&mut self, family: &Arc<Family>, key: &[u8]) -> Result<()> {
        let hash = family.order.hash(key);
        let index = self.family_index(family);
        let buffers = &self.families[index].buffers;
        if hash.is_some_and(|hash| buffers.holds_lately(key, hash)) {
            return Ok(());
        }
        self.charge(key.len() + POINT_BYTES)?;
        let buffers = &mut self.families[index].buffers;
        let hash = hash.unwrap_or(0);
        buffers.recent[hash as usize % RECENT] = buffers.points.len() as u32;
        let key = buffers.add_key(key);
        buffers.points.push(StoredPoint { hash, key });
        Ok(())
    }

    /// Adds a key of `family` that was read for update, when `since` was the newest commit that the read saw.
    ///
    /// # Errors
    /// `MemoryLimit`; the set is as before.
    pub(crate) fn add_update(
        &mut self,
        family: &Arc<Family>,
        key: &[u8],
        since: SeqNo,
    ) -> Result<()> {
        self.charge(key.len() + size_of::<StoredUpdate>())?;
        let hash = family.order.hash(key).unwrap_or(0);
        let index = self.family_index(family);
        let buffers = &mut self.families[index].buffers;
        let key = buffers.add_key(key);
        let point = StoredPoint { hash, key };
        buffers.updates.push(StoredUpdate { point, since });
        Ok(())
    }

    /// Adds a range of `family`.
    ///
    /// # Errors
    /// `MemoryLimit`; the set is as before.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn add_range(&mut self, family: &Arc<Family>, range: KeyRange<'_>) -> Result<()> {
        self.charge(bound_bytes(range.lower) + bound_bytes(range.upper) + RANGE_BYTES)?;
        let index = self.family_index(family);
        self.store(index, range);
        Ok(())
    }

    /// Refuses `more` bytes over the limit, and counts them otherwise.
    pub(super) fn charge(&mut self, more: usize) -> Result<()> {
        let total = self.bytes.saturating_add(self.written).saturating_add(more);
        if total > self.limit {
            return Err(over_limit(self.limit));
        }
        self.bytes += more;
        Ok(())
    }

    /// Counts bytes of a scan that come and go with its position; they are not held against the limit.
    pub(super) fn recount(&mut self, before: usize, now: usize) {
        self.bytes = (self.bytes + now).saturating_sub(before);
    }

    /// Takes over what open iterators read; they add nothing from then on.
    pub(crate) fn finish(&mut self) {
        for scan in std::mem::take(&mut self.scans) {
            if let Some(range) = scan.range() {
                self.keep(scan.family(), range);
            }
        }
    }

    /// As [`ReadSet::add_range`], for keys that are counted already: only the range itself is, and not held against the
    /// limit. A range that the last one covers is not kept.
    pub(super) fn keep(&mut self, family: &Arc<Family>, range: KeyRange<'_>) {
        let index = self.family_index(family);
        let is_covered = self.families[index]
            .ranges()
            .next_back()
            .is_some_and(|last| last.covers(range, &family.order));
        if is_covered {
            let keys = bound_bytes(range.lower) + bound_bytes(range.upper);
            self.bytes = self.bytes.saturating_sub(keys);
            return;
        }
        self.bytes += RANGE_BYTES;
        self.store(index, range);
    }

    fn store(&mut self, index: usize, range: KeyRange<'_>) {
        let buffers = &mut self.families[index].buffers;
        let lower = range.lower.map(|key| buffers.add_key(key));
        let upper = range.upper.map(|key| buffers.add_key(key));
        buffers.ranges.push(StoredRange { lower, upper });
    }

    /// Forgets everything, keeping the memory for the next transaction.
    pub(crate) fn clear(&mut self) {
        for mut reads in self.families.drain(..) {
            if self.spare.len() < RECYCLED_FAMILIES_MAX {
                reads.buffers.clear();
                self.spare.push(reads.buffers);
            }
        }
        self.scans.clear();
        self.bytes = 0;
        self.written = 0;
    }

    fn family_index(&mut self, family: &Arc<Family>) -> usize {
        let known = self
            .families
            .iter()
            .position(|reads| Arc::ptr_eq(&reads.family, family));
        known.unwrap_or_else(|| {
            self.families.push(FamilyReads {
                family: Arc::clone(family),
                buffers: self.spare.pop().unwrap_or_default(),
            });
            self.families.len() - 1
        })
    }
}

fn bound_bytes(bound: Bound<&[u8]>) -> usize {
    match bound {
        Bound::Unbounded => 0,
        Bound::Included(key) | Bound::Excluded(key) => key.len(),
    }
}

/// The error of a transaction that would hold more than `limit` bytes.
pub(crate) fn over_limit(limit: usize) -> Error {
    Error::new(
        ErrorKind::MemoryLimit,
        format!(
            "a transaction holds at most {limit} bytes of writes and of what it must remember of its reads: work in smaller pieces"
        ),
    )
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
