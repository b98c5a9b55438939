//! From memtables and tables to an iterator: one source per memtable run, per table of level 1, and per deeper level,
//! newest first, merged. Where ranges were deleted, the sources seek over what newer range deletes hide of them.

use std::sync::Arc;

use kingtide_base::{Cursor, Fragments, KeyOrder, SeqNo};
use kingtide_collections::MergeCursor;
use kingtide_table::{CursorUse, LevelCursor, LevelTables};

use super::{
    get::ReadPoint,
    iter::{Bounds, Iter, MvccCursor, Skipping, merged_ranges, own_writes::OwnWrites},
};
use crate::{
    error::Result,
    family::SuperVersion,
    files::{FamilyValues, Files},
    options::IterOptions,
    version::Version,
};

/// The sources of an iterator, newest first, which leave out what newer range deletes hide of them.
struct Sources<'a> {
    order: &'a KeyOrder,
    ranges: &'a Arc<Fragments>,
    cursors: Vec<Box<dyn Cursor>>,
}

impl Sources<'_> {
    /// Adds a source whose visible entries have numbers up to `newest`.
    fn add(&mut self, cursor: Box<dyn Cursor>, newest: SeqNo) {
        if self.ranges.newest() <= newest {
            self.cursors.push(cursor);
            return;
        }
        let (order, ranges) = (self.order.clone(), Arc::clone(self.ranges));
        let skipping = Skipping::new(cursor, order, ranges, newest);
        self.cursors.push(Box::new(skipping));
    }

    /// Adds all tables of `version`.
    ///
    /// # Errors
    /// When a table cannot be opened.
    fn add_tables(&mut self, version: &Version, files: &Files) -> Result<()> {
        for (index, level) in version.levels().enumerate() {
            if index == 0 {
                for meta in level.tables() {
                    let table = files.tables.get(meta, self.order)?;
                    let cursor = Box::new(table.cursor(&files.blocks, CursorUse::Read));
                    self.add(cursor, meta.sequence_max);
                }
            } else if !level.tables().is_empty() {
                let cursor = LevelCursor::new(
                    Arc::clone(level) as Arc<dyn LevelTables>,
                    Arc::clone(&files.tables),
                    Arc::clone(&files.blocks),
                    self.order.clone(),
                    CursorUse::Read,
                );
                self.add(Box::new(cursor), level.newest());
            }
        }
        Ok(())
    }
}

/// The range deletes that `snapshot` sees, and those of the transaction itself.
///
/// # Errors
/// When a table cannot be opened.
fn visible_ranges(parts: &IterParts<'_>, snapshot: SeqNo) -> Result<Arc<Fragments>> {
    let mut ranges = Vec::new();
    if let Some(own_writes) = &parts.own_writes {
        ranges.push(Arc::clone(own_writes.ranges()));
    }
    for memory in parts.current.memories() {
        ranges.extend(memory.table.range_fragments(snapshot));
    }
    for level in parts.current.version.levels() {
        for meta in level.tables_with_ranges() {
            let table = parts.files.tables.get(meta, parts.order)?;
            ranges.push(Arc::clone(table.ranges()));
        }
    }
    Ok(merged_ranges(parts.order, ranges, snapshot))
}

/// What an iterator is made of.
pub(crate) struct IterParts<'a> {
    pub(crate) current: Arc<SuperVersion>,
    pub(crate) files: &'a Arc<Files>,
    pub(crate) order: &'a KeyOrder,
    pub(crate) options: &'a IterOptions,
    pub(crate) own_writes: Option<OwnWrites>,
}

/// Opens an iterator at `point`, whose clock must be set. While it runs, the snapshot of `point` must be registered, so
/// that no background merge of memtable runs drops what it needs; afterwards the iterator holds its sources itself.
///
/// # Errors
/// `InvalidArgument` for impossible bounds; what opening tables answers.
pub(crate) fn open_iter(parts: IterParts<'_>, point: ReadPoint) -> Result<Iter> {
    let bounds = Bounds::new(parts.options, parts.order)?;
    // Before the cursors: what is deleted later is not seen.
    let ranges = visible_ranges(&parts, point.sequence)?;
    let mut sources = Sources {
        order: parts.order,
        ranges: &ranges,
        cursors: Vec::new(),
    };
    if let Some(own_writes) = parts.own_writes {
        sources.add(Box::new(own_writes), SeqNo::MAX);
    }
    for memory in parts.current.memories() {
        // What the active one gets from here on is newer than the snapshot, so it may be skipped or not.
        let newest = memory.table.largest_sequence();
        for cursor in memory.table.cursors() {
            sources.add(cursor, newest);
        }
    }
    sources.add_tables(&parts.current.version, parts.files)?;
    let merged: Box<dyn Cursor> = match <[_; 1]>::try_from(sources.cursors) {
        Ok([only]) => only,
        Err(cursors) => Box::new(MergeCursor::new(parts.order.clone(), cursors)),
    };
    let view = MvccCursor::new(
        merged,
        parts.order.clone(),
        point.sequence,
        point.clock.unwrap_or_default(),
    )
    .with_bounds(bounds)
    .with_ranges(ranges);
    let values = FamilyValues::new(parts.files, parts.order);
    Ok(Iter::new(view, Box::new(values), Box::new(parts.current)))
}
