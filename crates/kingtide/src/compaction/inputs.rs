//! The tables that a merge reads: their entries, their range deletes, and where they may be cut.

use std::sync::Arc;

use kingtide_base::{Cursor, Fragments, KeyOrder, SeqNo};
use kingtide_collections::{BatchedCursor, MergeCursor};
use kingtide_format::TableMeta;
use kingtide_table::{CursorUse, LevelCursor};

use super::{
    filter::VersionFilter,
    split::{Sample, split},
    tally::Expected,
};
use crate::{error::Result, family::Family, files::Files, read::iter::Skipping};

/// Samples that are taken of a table for each part that it could be cut into.
const SAMPLES_PER_PART: u64 = 16;

/// See the module.
pub(super) struct Inputs {
    pub(super) files: Arc<Files>,
    pub(super) family: Arc<Family>,
    /// Level and table, within level 1 the oldest first.
    pub(super) tables: Vec<(u8, Arc<TableMeta>)>,
}

impl Inputs {
    fn order(&self) -> &KeyOrder {
        &self.family.order
    }

    /// How many versions a pass over all of them sees, when `filter` decides.
    pub(super) fn expected(&self, filter: &VersionFilter) -> Expected {
        let entries = self.tables.iter().map(|(_, table)| table.entries).sum();
        match filter.has_ranges() {
            true => Expected::AtMost(entries),
            false => Expected::Exactly(entries),
        }
    }

    /// Tells `filter` of the range deletes of the tables.
    pub(super) fn tell_ranges(&self, filter: &mut VersionFilter) -> Result<()> {
        let mut parts: Vec<Arc<Fragments>> = Vec::new();
        let with_ranges = self
            .tables
            .iter()
            .filter(|(_, table)| table.range_deletes > 0);
        for (_, table) in with_ranges {
            let table = self.files.tables.get(table, self.order())?;
            parts.push(Arc::clone(table.ranges()));
        }
        if !parts.is_empty() {
            filter.set_ranges(parts.iter().flat_map(|part| part.tombstones()));
        }
        Ok(())
    }

    /// Keys that cut the tables into at most `parts_max` parts of about equal bytes, none smaller than
    /// `part_bytes_min`, as a rule.
    pub(super) fn cuts(&self, parts_max: usize, part_bytes_min: u64) -> Result<Vec<Vec<u8>>> {
        let total: u64 = self.tables.iter().map(|(_, table)| table.file_bytes).sum();
        let parts = (total / part_bytes_min.max(1)).min(parts_max as u64);
        if parts < 2 {
            return Ok(Vec::new());
        }
        let sample_bytes = (total / (parts * SAMPLES_PER_PART)).max(1);
        let mut samples = Vec::new();
        for (_, table) in &self.tables {
            if table.file_bytes <= sample_bytes {
                samples.push(Sample {
                    key: table.smallest.clone(),
                    bytes: table.file_bytes,
                });
                continue;
            }
            let table = self.files.tables.get(table, self.order())?;
            let of_table = table.samples(sample_bytes).into_iter();
            samples.extend(of_table.map(|(key, bytes)| Sample { key, bytes }));
        }
        Ok(split(samples, parts as usize, self.order()))
    }

    /// `cursor`, a source of entries with the numbers `oldest` to `newest`; where range deletes drop all that a source
    /// could hold, it is not read.
    fn source(
        &self,
        cursor: Box<dyn Cursor>,
        (oldest, newest): (SeqNo, SeqNo),
        filter: &VersionFilter,
    ) -> Box<dyn Cursor> {
        let dropping = filter.ranges_dropping(oldest, newest);
        if dropping.is_empty() {
            return cursor;
        }
        let order = self.order().clone();
        Box::new(Skipping::new(cursor, order, Arc::new(dropping), newest))
    }

    /// All entries of the tables, newest source first, but for some that `filter` would drop.
    pub(super) fn cursor(&self, filter: &VersionFilter) -> Result<Box<dyn Cursor>> {
        let order = self.order();
        let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
        // Level 1 overlaps: each of its tables is a source of its own, the newest (last in the plan) first.
        for (_, table) in self.tables.iter().rev().filter(|(level, _)| *level == 1) {
            let numbers = (table.sequence_min, table.sequence_max);
            let table = self.files.tables.get(table, order)?;
            let cursor = Box::new(table.cursor(&self.files.blocks, CursorUse::Scan));
            sources.push(self.source(cursor, numbers, filter));
        }
        let deepest = self
            .tables
            .iter()
            .map(|(level, _)| *level)
            .max()
            .unwrap_or(0);
        for level in 2..=deepest {
            let mut tables: Vec<Arc<TableMeta>> = self
                .tables
                .iter()
                .filter(|(of, _)| *of == level)
                .map(|(_, table)| Arc::clone(table))
                .collect();
            if tables.is_empty() {
                continue;
            }
            tables.sort_by(|left, right| order.compare(&left.smallest, &right.smallest));
            let oldest = tables.iter().map(|table| table.sequence_min).min();
            let newest = tables.iter().map(|table| table.sequence_max).max();
            let numbers = (oldest.unwrap_or_default(), newest.unwrap_or_default());
            let cursor = Box::new(LevelCursor::new(
                Arc::new(tables),
                Arc::clone(&self.files.tables),
                Arc::clone(&self.files.blocks),
                order.clone(),
                CursorUse::Scan,
            ));
            sources.push(self.source(cursor, numbers, filter));
        }
        let sources = sources.into_iter().map(BatchedCursor::new).collect();
        Ok(Box::new(MergeCursor::new(order.clone(), sources)))
    }
}
