//! The tables of one level, in the order in which a read visits them.
//!
//! Tables of level 1 may overlap; they are ordered from the newest commit to the oldest, so that the first hit of a
//! point read is the newest. That holds because the tables of a family that share keys on level 1 come from memtables,
//! or merges of neighbouring ones, that hold commits one after the other. Tables of deeper levels are disjoint and
//! ordered by their smallest key, so that a search is a binary one.

use std::{cmp::Reverse, sync::Arc};

use kingtide_base::{KeyOrder, SeqNo};
use kingtide_format::TableMeta;
use kingtide_table::LevelTables;

use super::VersionFault;

/// The tables of one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    tables: Vec<Arc<TableMeta>>,
    /// True on level 1, where tables may share keys.
    may_overlap: bool,
    /// The heads of the smallest and the largest key of each table, so that a point read passes over most tables without
    /// touching their keys; empty unless the order is bytewise.
    heads: Vec<(u64, u64)>,
    /// True when a table has range deletes.
    has_ranges: bool,
    /// The largest sequence number in the tables.
    newest: SeqNo,
}

/// The first eight bytes of a key as a number, with zeros behind a shorter key: heads of keys in byte order never fall.
fn head_of(key: &[u8]) -> u64 {
    let mut bytes = [0_u8; 8];
    let count = key.len().min(8);
    bytes[..count].copy_from_slice(&key[..count]);
    u64::from_be_bytes(bytes)
}

/// Sums over the tables of a level or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelTotals {
    /// Tables.
    pub(crate) tables: usize,
    /// Length of the klog files in bytes.
    pub(crate) file_bytes: u64,
    /// Entries, all versions and tombstones counted.
    pub(crate) entries: u64,
    /// Entries that are tombstones.
    pub(crate) tombstones: u64,
    /// Since when one of them holds tombstones or range deletes, in Unix seconds.
    pub(crate) tombstones_since: Option<u64>,
    /// Bytes of keys and values as users wrote them.
    pub(crate) raw_bytes: u64,
    /// Bytes of the value log that the tables point to.
    pub(crate) value_bytes: u64,
}

impl LevelTotals {
    fn add(&mut self, table: &TableMeta) {
        self.tables += 1;
        self.file_bytes = self.file_bytes.saturating_add(table.file_bytes);
        self.entries = self.entries.saturating_add(table.entries);
        self.tombstones = self.tombstones.saturating_add(table.tombstones);
        let since = table.oldest_tombstone.since;
        if since > 0 {
            self.tombstones_since = Some(self.tombstones_since.map_or(since, |of| of.min(since)));
        }
        self.raw_bytes = self.raw_bytes.saturating_add(table.raw_bytes);
        for used in &table.value_files {
            self.value_bytes = self.value_bytes.saturating_add(used.bytes);
        }
    }
}

impl LevelTables for Level {
    fn tables(&self) -> &[Arc<TableMeta>] {
        &self.tables
    }
}

impl Level {
    /// The level with this number, counted from 1.
    pub(super) fn new(
        number: u8,
        mut tables: Vec<Arc<TableMeta>>,
        order: &KeyOrder,
    ) -> Result<Self, VersionFault> {
        for table in &tables {
            if order.compare(&table.smallest, &table.largest).is_gt() {
                return Err(VersionFault::KeyRange { file: table.file });
            }
        }
        let may_overlap = number == 1;
        if may_overlap {
            tables.sort_by_key(|table| Reverse((table.sequence_max, table.file)));
        } else {
            tables.sort_by(|left, right| order.compare(&left.smallest, &right.smallest));
            for pair in tables.windows(2) {
                let ordering = order.compare(&pair[0].largest, &pair[1].smallest);
                if ordering.is_gt() || (ordering.is_eq() && !pair[0].is_largest_excluded) {
                    return Err(VersionFault::Overlap {
                        level: number,
                        left: pair[0].file,
                        right: pair[1].file,
                    });
                }
            }
        }
        let heads = |table: &Arc<TableMeta>| (head_of(&table.smallest), head_of(&table.largest));
        let heads = match order.is_bytewise() {
            true => tables.iter().map(heads).collect(),
            false => Vec::new(),
        };
        Ok(Self {
            has_ranges: tables.iter().any(|table| table.range_deletes > 0),
            newest: tables
                .iter()
                .map(|table| table.sequence_max)
                .max()
                .unwrap_or_default(),
            tables,
            may_overlap,
            heads,
        })
    }

    /// All tables, in read order.
    pub(crate) fn tables(&self) -> &[Arc<TableMeta>] {
        &self.tables
    }

    /// The tables with range deletes, in read order.
    pub(crate) fn tables_with_ranges(&self) -> impl Iterator<Item = &Arc<TableMeta>> {
        let tables = match self.has_ranges {
            true => &*self.tables,
            false => &[],
        };
        tables.iter().filter(|table| table.range_deletes > 0)
    }

    /// The largest sequence number in its tables; 0 without any.
    pub(crate) fn newest(&self) -> SeqNo {
        self.newest
    }

    /// The tables whose key range holds `key`, in read order. The excluded end of a table's range deletes counts as held.
    pub(super) fn for_key<'a>(
        &'a self,
        order: &'a KeyOrder,
        key: &'a [u8],
    ) -> impl Iterator<Item = &'a Arc<TableMeta>> + use<'a> {
        let head = head_of(key);
        let mut index = match (self.may_overlap, self.heads.is_empty()) {
            (true, _) => 0,
            (false, false) => self.heads.partition_point(|(_, largest)| *largest < head),
            (false, true) => self
                .tables
                .partition_point(|table| order.compare(&table.largest, key).is_lt()),
        };
        std::iter::from_fn(move || {
            loop {
                let table = self.tables.get(index)?;
                let heads = self.heads.get(index);
                index += 1;
                match heads {
                    Some((smallest, largest)) if head < *smallest || *largest < head => {
                        if !self.may_overlap && head < *smallest {
                            return None;
                        }
                    }
                    // Strictly between the heads is strictly between the keys.
                    Some((smallest, largest)) if *smallest < head && head < *largest => {
                        return Some(table);
                    }
                    _ if order.compare(&table.largest, key).is_lt() => {}
                    _ if order.compare(&table.smallest, key).is_gt() => {
                        if !self.may_overlap {
                            return None;
                        }
                    }
                    _ => return Some(table),
                }
            }
        })
    }

    /// See [`Version::has_between`](super::Version::has_between).
    pub(super) fn has_between(&self, order: &KeyOrder, (first, last): (&[u8], &[u8])) -> bool {
        let is_before = |table: &TableMeta| order.compare(&table.largest, first).is_lt();
        let is_behind = |table: &TableMeta| order.compare(&table.smallest, last).is_gt();
        if self.may_overlap {
            let mut tables = self.tables.iter();
            return tables.any(|table| !is_before(table) && !is_behind(table));
        }
        let next = self.tables.partition_point(|table| is_before(table));
        self.tables.get(next).is_some_and(|table| !is_behind(table))
    }

    /// Adds the tables of this level to `totals`.
    pub(super) fn add_to(&self, totals: &mut LevelTotals) {
        for table in &self.tables {
            totals.add(table);
        }
    }
}
