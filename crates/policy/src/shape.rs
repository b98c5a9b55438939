//! What the policy is told and what it answers.

use kingtide_base::{FileId, KeyOrder, SeqNo, limits::LEVELS_MAX};
use std::{cmp::Ordering, ops::RangeInclusive};

/// One table, as far as the policy cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Names the table.
    pub file: FileId,
    /// Its length, separated values not counted, in bytes.
    pub bytes: u64,
    /// Entries, all versions and tombstones counted.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// The smallest key.
    pub smallest: Vec<u8>,
    /// The largest key.
    pub largest: Vec<u8>,
    /// The smallest sequence number of an entry.
    pub sequence_min: SeqNo,
    /// The largest one.
    pub sequence_max: SeqNo,
    /// True while a running merge uses the table.
    pub busy: bool,
    /// True when its tombstones are older than the settings allow, and no snapshot needs them any more.
    pub is_overdue: bool,
}

/// The tables of one family.
///
/// Index 0 is level 1: outputs of flushes, which may overlap, oldest first. Deeper levels hold tables whose key
/// ranges are disjoint (all versions of a key are in one table), sorted by smallest key. A version in a shallower
/// level, or in a later table of level 1, is newer than all versions of its key in deeper and earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeShape {
    /// The levels, level 1 first.
    pub levels: Vec<Vec<TableShape>>,
    /// What running merges and installations hold.
    pub reserved: Vec<Reservation>,
    /// Nobody has read it lately: what reads find on many tables of level 1 may wait until there are more.
    pub is_unread: bool,
}

/// A range of keys, both ends included, on some levels: where somebody may put tables, and nobody else may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The first key.
    pub smallest: Vec<u8>,
    /// The last key.
    pub largest: Vec<u8>,
    /// The shallowest level, counted from 1.
    pub from_level: usize,
    /// The deepest level.
    pub to_level: usize,
}

/// The settings of a family that the policy follows. Names as in the family's options.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyOptions {
    /// How many times larger each level is than the one above; at least 2.
    pub level_size_ratio: usize,
    /// Sorted runs on level 1 that start a merge, while somebody reads; at least 1.
    pub l1_file_count_trigger: usize,
    /// Bytes of a memtable at which it is flushed.
    pub write_buffer_bytes: usize,
    /// Levels that exist even when empty.
    pub min_levels: usize,
    /// Share of tombstones, 0 to 1, over which a table is merged down; 0 switches this off.
    pub tombstone_density_trigger: f64,
    /// Tables with fewer entries are not judged by their tombstones.
    pub tombstone_density_entries_min: u64,
    /// The size that output tables should have, in bytes.
    pub table_bytes_target: u64,
    /// Levels from the last one up to the dividing level, from which on merges are partitioned.
    pub dividing_level_offset: usize,
}

/// A table that a merge reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MergeInput {
    /// The level it is on, counted from 1.
    pub level: usize,
    /// The table.
    pub file: FileId,
}

/// A merge to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergePlan {
    /// The tables that go, shallow levels first; within level 1 the oldest first.
    pub inputs: Vec<MergeInput>,
    /// The level that the outputs join, counted from 1; may be one more than the tree has, that of the inputs (tables are
    /// rewritten or gathered), or, for moves alone, one above them.
    pub target_level: usize,
    /// True when no level below the target holds versions of keys between the smallest and largest input key:
    /// tombstones that no snapshot needs may go.
    pub is_bottom: bool,
    /// The size after which an output table is closed (at the next new key), in bytes. Chosen so that the outputs
    /// come out about equal instead of with a small rest.
    pub output_table_bytes: u64,
    /// True when the inputs overlap nothing, so that they change level without being rewritten.
    pub moves_only: bool,
    /// Ascending keys: an output table that begins before one of them ends before it too.
    pub cuts: Vec<Vec<u8>>,
    /// What the merge holds while it runs; to be listed in [`TreeShape::reserved`] until then.
    pub reservation: Reservation,
}

impl Reservation {
    /// True when both hold some key on some level.
    #[must_use]
    pub fn meets(&self, other: &Self, order: &KeyOrder) -> bool {
        self.from_level <= other.to_level
            && other.from_level <= self.to_level
            && self.span().overlaps(other.span(), order)
    }

    /// True when `level` of the range from `smallest` to `largest` is not for others: everything from the shallowest level
    /// of the reservation down. Deeper levels count too, because data that was there first may only be older.
    #[must_use]
    pub fn shuts(
        &self,
        level: usize,
        (smallest, largest): (&[u8], &[u8]),
        order: &KeyOrder,
    ) -> bool {
        let span = Span { smallest, largest };
        self.from_level <= level && self.span().overlaps(span, order)
    }

    fn span(&self) -> Span<'_> {
        Span {
            smallest: &self.smallest,
            largest: &self.largest,
        }
    }
}

impl TreeShape {
    /// The tables of `level`, which counts from 1; empty for levels that the tree does not have.
    #[must_use]
    pub fn level(&self, level: usize) -> &[TableShape] {
        level
            .checked_sub(1)
            .and_then(|index| self.levels.get(index))
            .map_or(&[], Vec::as_slice)
    }

    /// Bytes on `level`, which counts from 1.
    #[must_use]
    pub fn level_bytes(&self, level: usize) -> u64 {
        self.level(level).iter().map(|table| table.bytes).sum()
    }

    /// The tables of `level` with keys in `span`. On levels below the first they are found by a search.
    pub(crate) fn overlapping<'s>(
        &'s self,
        level: usize,
        span: Span<'_>,
        order: &KeyOrder,
    ) -> impl Iterator<Item = &'s TableShape> {
        let tables = self.level(level);
        let is_before = |table: &TableShape| order.compare(&table.largest, span.smallest).is_lt();
        let is_behind = |table: &TableShape| order.compare(&table.smallest, span.largest).is_gt();
        let (start, end) = match level {
            1 => (0, tables.len()),
            _ => {
                let start = tables.partition_point(is_before);
                let count = tables[start..].partition_point(|table| !is_behind(table));
                (start, start + count)
            }
        };
        tables[start..end]
            .iter()
            .filter(move |table| Span::of(table).overlaps(span, order))
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// True when nothing lies on `level` in `span`, and no reservation shuts it.
    pub(crate) fn is_free(&self, level: usize, span: Span<'_>, order: &KeyOrder) -> bool {
        let keys = (span.smallest, span.largest);
        self.overlapping(level, span, order).next().is_none()
            && !self
                .reserved
                .iter()
                .any(|other| other.shuts(level, keys, order))
    }

    /// The deepest level with a table, counted from 1; 0 for an empty tree.
    #[must_use]
    pub fn deepest(&self) -> usize {
        (1..=self.levels.len())
            .rev()
            .find(|level| !self.level(*level).is_empty())
            .unwrap_or(0)
    }
}

impl PolicyOptions {
    /// The nominal size of level 1, in bytes: what the flushes that start a merge bring.
    pub(crate) fn base_bytes(&self) -> u64 {
        (self.write_buffer_bytes as u64)
            .saturating_mul(self.l1_file_count_trigger.max(1) as u64)
            .max(1)
    }

    /// The size ratio, guarded against settings that would make levels equal.
    pub(crate) fn ratio(&self) -> u64 {
        (self.level_size_ratio as u64).max(2)
    }

    /// The bytes that `level` may hold beside a last level, given with its bytes.
    pub(crate) fn capacity(&self, level: usize, (last, bytes): (usize, u64)) -> u64 {
        (level..last).fold(bytes, |bytes, _| bytes / self.ratio())
    }

    /// The levels below level 1 that tables go to, while the last one, `last`, holds `bytes`. Those between level 1 and the
    /// first of them would be smaller than level 1, and stay empty.
    #[must_use]
    pub fn levels_in_use(&self, last: usize, bytes: u64) -> RangeInclusive<usize> {
        let is_used = |level: &usize| self.capacity(*level, (last, bytes)) >= self.base_bytes();
        (2..last).find(is_used).unwrap_or(last)..=last
    }

    /// The last level of `shape`: the deepest one in use, not less than the settings ask for.
    pub(crate) fn last_level(&self, shape: &TreeShape) -> usize {
        last_level(shape.deepest(), self.min_levels)
    }

    /// True when the tombstones of `table` ask for a merge.
    pub(crate) fn must_shed(&self, table: &TableShape) -> bool {
        table.is_overdue || self.is_dense(table)
    }

    /// True when the share of tombstones in `table` asks for a merge.
    fn is_dense(&self, table: &TableShape) -> bool {
        self.tombstone_density_trigger > 0.0
            && table.tombstones > 0
            && table.entries >= self.tombstone_density_entries_min
            && table.tombstones as f64 >= self.tombstone_density_trigger * table.entries as f64
    }
}

/// The last level, counted from 1, of a tree whose deepest level with a table is `deepest` (0: no tables), for a family
/// that asks for `min_levels`.
///
/// ```
/// use kingtide_policy::last_level;
/// assert_eq!(last_level(0, 1), 2);
/// assert_eq!(last_level(3, 5), 5);
/// ```
#[must_use]
pub fn last_level(deepest: usize, min_levels: usize) -> usize {
    deepest.max(min_levels).clamp(2, LEVELS_MAX.max(deepest))
}

/// A closed range of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    pub smallest: &'a [u8],
    pub largest: &'a [u8],
}

impl<'a> Span<'a> {
    /// The range of one table.
    pub(crate) fn of(table: &'a TableShape) -> Self {
        Self {
            smallest: &table.smallest,
            largest: &table.largest,
        }
    }

    /// The range from the smallest to the largest key of `tables`, gaps included; `None` without tables.
    pub(crate) fn hull<'t: 'a>(
        tables: impl IntoIterator<Item = &'t TableShape>,
        order: &KeyOrder,
    ) -> Option<Self> {
        tables
            .into_iter()
            .map(Span::of)
            .reduce(|left, right| left.join(right, order))
    }

    /// The smallest range that holds both.
    pub(crate) fn join(self, other: Self, order: &KeyOrder) -> Self {
        Self {
            smallest: if order.compare(other.smallest, self.smallest) == Ordering::Less {
                other.smallest
            } else {
                self.smallest
            },
            largest: if order.compare(other.largest, self.largest) == Ordering::Greater {
                other.largest
            } else {
                self.largest
            },
        }
    }

    /// True when some key can be in both.
    pub(crate) fn overlaps(self, other: Self, order: &KeyOrder) -> bool {
        order.compare(self.smallest, other.largest) != Ordering::Greater
            && order.compare(other.smallest, self.largest) != Ordering::Greater
    }
}
