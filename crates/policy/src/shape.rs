//! What the policy is told and what it answers.

use kingtide_base::{FileId, KeyOrder, limits::LEVELS_MAX};
use std::cmp::Ordering;

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
    /// True while a running merge uses the table.
    pub busy: bool,
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
}

/// The settings of a family that the policy follows. Names as in the family's options.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyOptions {
    /// How many times larger each level is than the one above; at least 2.
    pub level_size_ratio: usize,
    /// Tables on level 1 that start a merge; at least 1.
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
    /// The level that the outputs join, counted from 1; may be one more than the tree has.
    pub target_level: usize,
    /// True when no level below the target holds versions of keys between the smallest and largest input key:
    /// tombstones that no snapshot needs may go.
    pub is_bottom: bool,
    /// The size after which an output table is closed (at the next new key), in bytes. Chosen so that the outputs
    /// come out about equal instead of with a small rest.
    pub output_table_bytes: u64,
    /// True when the inputs overlap nothing, so that they change level without being rewritten.
    pub moves_only: bool,
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

    /// The last level of `shape`: the deepest one in use, not less than the settings ask for.
    pub(crate) fn last_level(&self, shape: &TreeShape) -> usize {
        shape
            .deepest()
            .max(self.min_levels)
            .clamp(2, LEVELS_MAX.max(shape.deepest()))
    }

    /// True when the share of tombstones in `table` asks for a merge.
    pub(crate) fn is_dense(&self, table: &TableShape) -> bool {
        self.tombstone_density_trigger > 0.0
            && table.tombstones > 0
            && table.entries >= self.tombstone_density_entries_min
            && table.tombstones as f64 >= self.tombstone_density_trigger * table.entries as f64
    }
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
