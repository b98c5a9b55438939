//! Range tombstones, cut into fragments.
//!
//! A range tombstone of commit s hides every version of a key in `start <= key < end` whose sequence number is below s.
//! Tombstones may overlap in any way; a reader wants to know, for one key, the newest tombstone that its snapshot sees.
//! So they are cut at each other's ends into [`Fragment`]s that do not overlap, each with the numbers of the tombstones
//! over it, descending. This is the structure that RocksDB's DeleteRange made known
//! (<https://rocksdb.org/blog/2018/11/21/delete-range.html>).
//!
//! ```text
//!   tombstones   a ----- 7 ----- m
//!                      f ----- 4 ------- t
//!   fragments    a--{7}-f--{7,4}-m--{4}--t
//! ```
//!
//! n tombstones make at most 2n - 1 fragments, but nested ones could have n numbers each. Numbers that no snapshot tells
//! apart are therefore left out when fragments are made ([`Fragments::build`]).
//!
//! An empty `end` means that there is none: every key from `start` on. Keys have at least one byte, so nothing is lost.

use std::{cmp::Ordering, collections::BTreeMap};

use crate::{KeyOrder, SeqNo};

/// One range delete, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeTombstone<'a> {
    /// The first key that it hides.
    pub start: &'a [u8],
    /// The first key behind it; empty when it has no end.
    pub end: &'a [u8],
    /// Older versions than this are hidden.
    pub sequence: SeqNo,
}

/// True when `key` lies before `end`, where an empty `end` lies behind all keys.
#[inline]
#[must_use]
pub fn is_before_end(order: &KeyOrder, key: &[u8], end: &[u8]) -> bool {
    end.is_empty() || order.compare(key, end).is_lt()
}

/// Compares two ends of ranges, where the empty one lies behind all others.
#[must_use]
pub fn compare_ends(order: &KeyOrder, left: &[u8], right: &[u8]) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (false, false) => order.compare(left, right),
        (left, right) => left.cmp(&right),
    }
}

/// A range of keys and the tombstones over the whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The first key.
    pub start: Box<[u8]>,
    /// The first key behind it; empty when it has no end.
    pub end: Box<[u8]>,
    newest: SeqNo,
    /// The others, descending.
    older: Box<[SeqNo]>,
}

impl Fragment {
    /// A fragment with the numbers `sequences`; `None` unless they descend strictly and are at least one.
    #[must_use]
    pub fn new(start: &[u8], end: &[u8], sequences: &[SeqNo]) -> Option<Self> {
        let (newest, older) = sequences.split_first()?;
        if !sequences.is_sorted_by(|left, right| left > right) {
            return None;
        }
        Some(Self {
            start: start.into(),
            end: end.into(),
            newest: *newest,
            older: older.into(),
        })
    }

    /// The number of the newest tombstone.
    #[inline]
    #[must_use]
    pub fn newest(&self) -> SeqNo {
        self.newest
    }

    /// The numbers of its tombstones, descending.
    pub fn sequences(&self) -> impl ExactSizeIterator<Item = SeqNo> {
        let count = 1 + self.older.len();
        (0..count).map(|index| match index {
            0 => self.newest,
            _ => self.older[index - 1],
        })
    }

    /// The number of the newest tombstone that `snapshot` sees; 0 when it sees none.
    #[inline]
    #[must_use]
    pub fn newest_at(&self, snapshot: SeqNo) -> SeqNo {
        if self.newest <= snapshot {
            return self.newest;
        }
        let later = self.older.partition_point(|sequence| *sequence > snapshot);
        self.older.get(later).copied().unwrap_or(SeqNo::ZERO)
    }

    /// True when it covers `key`.
    #[inline]
    #[must_use]
    pub fn covers(&self, order: &KeyOrder, key: &[u8]) -> bool {
        order.compare(&self.start, key).is_le() && is_before_end(order, key, &self.end)
    }

    fn has_numbers_of(&self, sequences: &[SeqNo]) -> bool {
        sequences.split_first() == Some((&self.newest, &*self.older))
    }
}

/// Fragments in key order, without overlaps. Immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragments {
    list: Vec<Fragment>,
    newest: SeqNo,
}

/// One end of a tombstone.
struct Edge<'a> {
    key: &'a [u8],
    is_start: bool,
    sequence: SeqNo,
}

impl Fragments {
    /// The fragments of `tombstones`, in any order.
    ///
    /// `boundaries` are the sequence numbers that readers may use, ascending: of the tombstones between two of them only
    /// the newest over a key counts for any reader, so only that one is kept; those beyond the last are all kept. Without
    /// boundaries nothing is left out.
    #[must_use]
    pub fn build<'a>(
        order: &KeyOrder,
        tombstones: impl IntoIterator<Item = RangeTombstone<'a>>,
        boundaries: &[SeqNo],
    ) -> Self {
        let mut edges = Vec::new();
        for RangeTombstone {
            start,
            end,
            sequence,
        } in tombstones
        {
            if !is_before_end(order, start, end) {
                continue;
            }
            edges.push(Edge {
                key: start,
                is_start: true,
                sequence,
            });
            if !end.is_empty() {
                edges.push(Edge {
                    key: end,
                    is_start: false,
                    sequence,
                });
            }
        }
        edges.sort_by(|left, right| order.compare(left.key, right.key));
        let mut built = Self::default();
        let mut open: BTreeMap<SeqNo, usize> = BTreeMap::new();
        let mut sequences = Vec::new();
        let mut previous: &[u8] = &[];
        for edge in &edges {
            if !open.is_empty() && order.compare(previous, edge.key).is_lt() {
                distinct(&open, boundaries, &mut sequences);
                built.push(order, previous, edge.key, &sequences);
            }
            previous = edge.key;
            if edge.is_start {
                *open.entry(edge.sequence).or_default() += 1;
            } else if let Some(count) = open.get_mut(&edge.sequence) {
                *count -= 1;
                if *count == 0 {
                    open.remove(&edge.sequence);
                }
            }
        }
        if !open.is_empty() {
            distinct(&open, boundaries, &mut sequences);
            built.push(order, previous, &[], &sequences);
        }
        built
    }

    /// The fragments `list`; `None` unless they ascend without overlaps and none is empty.
    #[must_use]
    pub fn from_list(order: &KeyOrder, list: Vec<Fragment>) -> Option<Self> {
        let is_whole = |fragment: &Fragment| is_before_end(order, &fragment.start, &fragment.end);
        let is_apart = |left: &Fragment, right: &Fragment| {
            !left.end.is_empty() && order.compare(&left.end, &right.start).is_le()
        };
        if !list.iter().all(is_whole) || !list.is_sorted_by(is_apart) {
            return None;
        }
        let newest = list.iter().map(Fragment::newest).max().unwrap_or_default();
        Some(Self { list, newest })
    }

    /// Appends a fragment behind all others; joins it with the last one where that makes no difference.
    fn push(&mut self, order: &KeyOrder, start: &[u8], end: &[u8], sequences: &[SeqNo]) {
        if let Some(last) = self.list.last_mut()
            && last.has_numbers_of(sequences)
            && !last.end.is_empty()
            && order.compare(&last.end, start).is_eq()
        {
            last.end = end.into();
            return;
        }
        if let Some(fragment) = Fragment::new(start, end, sequences) {
            self.newest = self.newest.max(fragment.newest);
            self.list.push(fragment);
        }
    }

    /// True without any.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The fragments, ascending.
    #[must_use]
    pub fn list(&self) -> &[Fragment] {
        &self.list
    }

    /// The number of the newest tombstone; 0 without any.
    #[must_use]
    pub fn newest(&self) -> SeqNo {
        self.newest
    }

    /// The number of the oldest tombstone; the maximum without any.
    #[must_use]
    pub fn oldest(&self) -> SeqNo {
        let oldest = |fragment: &Fragment| fragment.sequences().last();
        let each = self.list.iter().filter_map(oldest);
        each.min().unwrap_or(SeqNo::MAX)
    }

    /// The index of the first fragment that ends behind `key`: the one over it, or the next one.
    #[must_use]
    pub fn first_ending_after(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.list
            .partition_point(|fragment| !is_before_end(order, key, &fragment.end))
    }

    /// The fragment over `key`.
    #[must_use]
    pub fn find(&self, order: &KeyOrder, key: &[u8]) -> Option<&Fragment> {
        let fragment = self.list.get(self.first_ending_after(order, key))?;
        order
            .compare(&fragment.start, key)
            .is_le()
            .then_some(fragment)
    }

    /// The number of the newest tombstone over `key` that `snapshot` sees; 0 when there is none.
    #[must_use]
    pub fn cover(&self, order: &KeyOrder, key: &[u8], snapshot: SeqNo) -> SeqNo {
        self.find(order, key)
            .map_or(SeqNo::ZERO, |fragment| fragment.newest_at(snapshot))
    }

    /// The start of the first fragment with a newer tombstone than `since` that shares keys with the range from `start`
    /// to `end` (empty: no end), or `start` when the fragment begins before it.
    #[must_use]
    pub fn overlapping_newer<'a>(
        &'a self,
        order: &KeyOrder,
        (start, end): (&'a [u8], &[u8]),
        since: SeqNo,
    ) -> Option<&'a [u8]> {
        if self.newest <= since {
            return None;
        }
        let first = self.first_ending_after(order, start);
        let inside = self.list[first..]
            .iter()
            .take_while(|fragment| is_before_end(order, &fragment.start, end));
        let mut newer = inside.filter(|fragment| fragment.newest > since);
        newer.next().map(|fragment| {
            if order.compare(&fragment.start, start).is_lt() {
                start
            } else {
                &*fragment.start
            }
        })
    }

    /// The tombstones again, one for each number of each fragment.
    pub fn tombstones(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        self.list.iter().flat_map(|fragment| {
            fragment.sequences().map(|sequence| RangeTombstone {
                start: &fragment.start,
                end: &fragment.end,
                sequence,
            })
        })
    }

    /// What `keep` leaves of each fragment's numbers; fragments without any go.
    #[must_use]
    pub fn retain(&self, order: &KeyOrder, keep: impl Fn(&Fragment, SeqNo) -> bool) -> Self {
        let mut kept = Self::default();
        for fragment in &self.list {
            let sequences: Vec<SeqNo> = fragment
                .sequences()
                .filter(|sequence| keep(fragment, *sequence))
                .collect();
            kept.push(order, &fragment.start, &fragment.end, &sequences);
        }
        kept
    }

    /// The part from `from` (or the beginning) to `to` (empty: the end).
    #[must_use]
    pub fn cut(&self, order: &KeyOrder, from: Option<&[u8]>, to: &[u8]) -> Self {
        let mut part = Self::default();
        for fragment in &self.list {
            let start = match from {
                Some(from) if order.compare(&fragment.start, from).is_lt() => from,
                _ => &fragment.start,
            };
            let end = match compare_ends(order, &fragment.end, to) {
                Ordering::Greater => to,
                _ => &fragment.end,
            };
            if is_before_end(order, start, end) {
                let sequences: Vec<SeqNo> = fragment.sequences().collect();
                part.push(order, start, end, &sequences);
            }
        }
        part
    }

    /// Bytes of memory that they take, roughly.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let each = self.list.iter().map(|fragment| {
            size_of::<Fragment>()
                + fragment.start.len()
                + fragment.end.len()
                + size_of_val(&*fragment.older)
        });
        each.sum()
    }
}

/// Of the numbers in `open` those that `boundaries` tell apart, descending.
fn distinct(open: &BTreeMap<SeqNo, usize>, boundaries: &[SeqNo], target: &mut Vec<SeqNo>) {
    target.clear();
    let Some(last) = boundaries.last() else {
        target.extend(open.keys().rev());
        return;
    };
    let mut below = None;
    for sequence in open.keys().rev() {
        if sequence > last {
            target.push(*sequence);
        } else {
            below = Some(*sequence);
            break;
        }
    }
    // Each stripe has the newest number that is not above its boundary and above the boundary below it.
    while let Some(sequence) = below {
        target.push(sequence);
        let stripe = boundaries.partition_point(|boundary| *boundary < sequence);
        below = match stripe
            .checked_sub(1)
            .and_then(|index| boundaries.get(index))
        {
            Some(boundary) => open
                .range(..=*boundary)
                .next_back()
                .map(|(number, _)| *number),
            None => None,
        };
    }
}

#[cfg(test)]
mod tests;
