//! What one prepared transaction locks until its outcome: keys and ranges, per family, each shared (it was read) or
//! exclusive (it was written, or read for update).
//!
//! A [`LockSet`] is built outside every lock and never changes: points sorted by the family's order, each once, and two
//! lists of disjoint ranges in ascending order, so that every question is a binary search. All lock sets that are in
//! force are in the `lock_table`.

use std::{cmp::Ordering, ops::Bound, sync::Arc};

use kingtide_base::{FamilyId, KeyOrder};

use crate::family::Family;

/// How much of a key or range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockMode {
    /// Nobody else may write it.
    Shared,
    /// Nobody else may write it, and no other prepared transaction may have read it.
    Exclusive,
}

impl LockMode {
    /// True when the two cannot be held by different transactions.
    const fn excludes(self, other: Self) -> bool {
        matches!(self, Self::Exclusive) || matches!(other, Self::Exclusive)
    }
}

/// The ends of a range of keys.
pub(super) type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Where a key lies in the bytes of its family's locks.
#[derive(Clone, Copy, Debug)]
struct KeySpan {
    start: usize,
    end: usize,
}

/// A locked key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    key: KeySpan,
    /// 0 when the order has no hash.
    pub(super) hash: u64,
    mode: LockMode,
}

impl Point {
    /// How it is locked.
    pub(super) const fn mode(&self) -> LockMode {
        self.mode
    }
}

type RangeSpan = (Bound<KeySpan>, Bound<KeySpan>);

/// The locks in one family.
#[derive(Debug)]
pub(super) struct FamilyLocks {
    pub(super) family: Arc<Family>,
    bytes: Vec<u8>,
    pub(super) points: Vec<Point>,
    shared: Vec<RangeSpan>,
    exclusive: Vec<RangeSpan>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LockSet {
    /// By family id.
    families: Vec<FamilyLocks>,
}

impl LockSet {
    /// Locks a key.
    pub(super) fn add_point(&mut self, family: &Arc<Family>, mode: LockMode, key: &[u8]) {
        let locks = self.family_mut(family);
        let point = Point {
            hash: family.order.hash(key).unwrap_or(0),
            key: locks.keep(key),
            mode,
        };
        locks.points.push(point);
    }

    /// Locks a range.
    pub(super) fn add_range(&mut self, family: &Arc<Family>, mode: LockMode, range: KeyRange<'_>) {
        let locks = self.family_mut(family);
        let span = (locks.keep_bound(range.0), locks.keep_bound(range.1));
        match mode {
            LockMode::Shared => locks.shared.push(span),
            LockMode::Exclusive => locks.exclusive.push(span),
        }
    }

    /// Sorts everything; nothing is added afterwards, and nothing asked before.
    pub(super) fn seal(&mut self) {
        for locks in &mut self.families {
            locks.seal();
        }
        self.families.retain(|locks| !locks.is_empty());
        self.families.sort_by_key(|locks| locks.family.id);
    }

    fn family_mut(&mut self, family: &Arc<Family>) -> &mut FamilyLocks {
        let found = self
            .families
            .iter()
            .position(|locks| locks.family.id == family.id);
        let index = found.unwrap_or_else(|| {
            self.families.push(FamilyLocks {
                family: Arc::clone(family),
                bytes: Vec::new(),
                points: Vec::new(),
                shared: Vec::new(),
                exclusive: Vec::new(),
            });
            self.families.len() - 1
        });
        &mut self.families[index]
    }

    /// The locks, family by family.
    pub(super) fn families(&self) -> &[FamilyLocks] {
        &self.families
    }

    /// The locks in one family.
    pub(super) fn of_family(&self, id: FamilyId) -> Option<&FamilyLocks> {
        let index = self
            .families
            .binary_search_by_key(&id, |locks| locks.family.id)
            .ok()?;
        Some(&self.families[index])
    }

    /// Locked keys.
    pub(crate) fn point_count(&self) -> usize {
        self.families.iter().map(|locks| locks.points.len()).sum()
    }

    /// True when a range is locked, or a key that no hash finds.
    pub(super) fn needs_search(&self) -> bool {
        self.families.iter().any(|locks| {
            let has_points = !locks.points.is_empty() && !locks.family.order.has_hash();
            has_points || !locks.shared.is_empty() || !locks.exclusive.is_empty()
        })
    }
}

impl FamilyLocks {
    fn keep(&mut self, key: &[u8]) -> KeySpan {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        KeySpan {
            start,
            end: self.bytes.len(),
        }
    }

    fn keep_bound(&mut self, bound: Bound<&[u8]>) -> Bound<KeySpan> {
        bound.map(|key| self.keep(key))
    }

    fn is_empty(&self) -> bool {
        self.points.is_empty() && self.shared.is_empty() && self.exclusive.is_empty()
    }

    fn seal(&mut self) {
        let order = &self.family.order;
        let bytes = &self.bytes;
        let key = |span: KeySpan| &bytes[span.start..span.end];
        // The strongest mode first, so that it is the one that stays.
        self.points.sort_by(|left, right| {
            order
                .compare(key(left.key), key(right.key))
                .then(right.mode.cmp(&left.mode))
        });
        self.points
            .dedup_by(|next, kept| order.compare(key(next.key), key(kept.key)) == Ordering::Equal);
        for ranges in [&mut self.shared, &mut self.exclusive] {
            coalesce(order, bytes, ranges);
        }
    }

    /// The bytes of a locked key.
    pub(super) fn key(&self, point: &Point) -> &[u8] {
        &self.bytes[point.key.start..point.key.end]
    }

    fn bound(&self, bound: Bound<KeySpan>) -> Bound<&[u8]> {
        bound.map(|span| &self.bytes[span.start..span.end])
    }

    /// The ranges locked in a mode.
    pub(super) fn ranges(&self, mode: LockMode) -> impl Iterator<Item = KeyRange<'_>> {
        self.range_spans(mode)
            .iter()
            .map(|(lower, upper)| (self.bound(*lower), self.bound(*upper)))
    }

    fn range_spans(&self, mode: LockMode) -> &[RangeSpan] {
        match mode {
            LockMode::Shared => &self.shared,
            LockMode::Exclusive => &self.exclusive,
        }
    }

    /// True when the lock on `point` keeps others from taking `key` in `mode`. Their hashes agree.
    pub(super) fn point_blocks(&self, point: &Point, mode: LockMode, key: &[u8]) -> bool {
        let is_same = || self.family.order.compare(self.key(point), key) == Ordering::Equal;
        point.mode.excludes(mode) && is_same()
    }

    /// True when a point in `range` is locked such that others may not take the range in `mode`.
    pub(super) fn points_block(&self, mode: LockMode, range: KeyRange<'_>) -> bool {
        let order = &self.family.order;
        let at = |point: &Point| Bound::Included(self.key(point));
        let first = self
            .points
            .partition_point(|point| !reaches(order, range.0, at(point)));
        self.points[first..]
            .iter()
            .take_while(|point| reaches(order, at(point), range.1))
            .any(|point| point.mode.excludes(mode))
    }

    /// True when a locked range overlaps `range` such that others may not take that in `mode`.
    pub(super) fn ranges_block(&self, mode: LockMode, range: KeyRange<'_>) -> bool {
        [LockMode::Shared, LockMode::Exclusive]
            .into_iter()
            .filter(|held| held.excludes(mode))
            .any(|held| self.overlaps(self.range_spans(held), range))
    }

    fn overlaps(&self, spans: &[RangeSpan], range: KeyRange<'_>) -> bool {
        let order = &self.family.order;
        // The first that does not end before the range begins; those before it cannot overlap, those behind begin later.
        let first =
            spans.partition_point(|(_, upper)| !reaches(order, range.0, self.bound(*upper)));
        spans
            .get(first)
            .is_some_and(|(lower, _)| reaches(order, self.bound(*lower), range.1))
    }
}

/// What a range delete deletes; an empty `end` stands for none.
pub(super) fn deleted_range<'a>(start: &'a [u8], end: &'a [u8]) -> KeyRange<'a> {
    let upper = match end {
        [] => Bound::Unbounded,
        end => Bound::Excluded(end),
    };
    (Bound::Included(start), upper)
}

/// True unless everything from `lower` on lies behind `upper`: a range of these ends is empty then.
pub(super) fn reaches(order: &KeyOrder, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    let (Bound::Included(low) | Bound::Excluded(low)) = lower else {
        return true;
    };
    let (Bound::Included(high) | Bound::Excluded(high)) = upper else {
        return true;
    };
    match order.compare(low, high) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => {
            matches!(lower, Bound::Included(_)) && matches!(upper, Bound::Included(_))
        }
    }
}

/// Sorts ranges and joins those that overlap; empty ones go.
fn coalesce(order: &KeyOrder, bytes: &[u8], ranges: &mut Vec<RangeSpan>) {
    let get = |bound: &Bound<KeySpan>| bound.map(|span| &bytes[span.start..span.end]);
    ranges.retain(|(lower, upper)| reaches(order, get(lower), get(upper)));
    ranges.sort_by(|left, right| compare_lower(order, get(&left.0), get(&right.0)));
    ranges.dedup_by(|next, kept| {
        let joins = reaches(order, get(&next.0), get(&kept.1));
        if joins && compare_upper(order, get(&next.1), get(&kept.1)) == Ordering::Greater {
            kept.1 = next.1;
        }
        joins
    });
}

/// Which of two lower ends comes first.
fn compare_lower(order: &KeyOrder, left: Bound<&[u8]>, right: Bound<&[u8]>) -> Ordering {
    compare_ends(order, left, right, Ordering::Less)
}

/// Which of two upper ends comes first.
fn compare_upper(order: &KeyOrder, left: Bound<&[u8]>, right: Bound<&[u8]>) -> Ordering {
    compare_ends(order, left, right, Ordering::Greater)
}

/// `outward`: where an end without a key lies; at one key the end that includes it lies there too.
fn compare_ends(
    order: &KeyOrder,
    left: Bound<&[u8]>,
    right: Bound<&[u8]>,
    outward: Ordering,
) -> Ordering {
    let (Bound::Included(low) | Bound::Excluded(low)) = left else {
        return match right {
            Bound::Unbounded => Ordering::Equal,
            _ => outward,
        };
    };
    let (Bound::Included(high) | Bound::Excluded(high)) = right else {
        return outward.reverse();
    };
    order.compare(low, high).then_with(|| match (left, right) {
        (Bound::Included(_), Bound::Excluded(_)) => outward,
        (Bound::Excluded(_), Bound::Included(_)) => outward.reverse(),
        _ => Ordering::Equal,
    })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
