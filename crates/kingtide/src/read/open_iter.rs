//! From memtables and tables to an iterator: one source per memtable run, per table of level 1, and per deeper level,
//! newest first, merged.

use std::sync::Arc;

use kingtide_base::{Cursor, KeyOrder};
use kingtide_collections::MergeCursor;
use kingtide_table::{CursorUse, LevelCursor};

use super::{
    get::ReadPoint,
    iter::{Bounds, Iter, MvccCursor, own_writes::OwnWrites},
};
use crate::{
    error::Result,
    family::SuperVersion,
    files::{FamilyValues, Files},
    options::IterOptions,
    version::Version,
};

/// The sources of all tables of `version`, newest first.
///
/// # Errors
/// When a table cannot be opened.
pub(crate) fn table_cursors(
    version: &Version,
    files: &Files,
    order: &KeyOrder,
    sources: &mut Vec<Box<dyn Cursor>>,
) -> Result<()> {
    for (index, level) in version.levels().enumerate() {
        if index == 0 {
            for meta in level.tables() {
                let table = files.tables.get(meta, order)?;
                sources.push(Box::new(table.cursor(&files.blocks, CursorUse::Read)));
            }
        } else if !level.tables().is_empty() {
            sources.push(Box::new(LevelCursor::new(
                level.tables().to_vec(),
                Arc::clone(&files.tables),
                Arc::clone(&files.blocks),
                order.clone(),
                CursorUse::Read,
            )));
        }
    }
    Ok(())
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
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    if let Some(own_writes) = parts.own_writes {
        sources.push(Box::new(own_writes));
    }
    for memory in parts.current.memories() {
        sources.extend(memory.table.cursors());
    }
    table_cursors(
        &parts.current.version,
        parts.files,
        parts.order,
        &mut sources,
    )?;
    let merged: Box<dyn Cursor> = Box::new(MergeCursor::new(parts.order.clone(), sources));
    let view = MvccCursor::new(
        merged,
        parts.order.clone(),
        point.sequence,
        point.clock.unwrap_or_default(),
    )
    .with_bounds(bounds);
    let values = FamilyValues {
        files: Arc::clone(parts.files),
        order: parts.order.clone(),
    };
    Ok(Iter::new(view, Arc::new(values), Box::new(parts.current)))
}
