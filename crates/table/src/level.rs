//! Walks the tables of one deeper level: disjoint, sorted, opened as the walk reaches them.

use std::sync::Arc;

use kingtide_base::{
    Batch, Cursor, EntryKind, KeyOrder, SeqNo, StorageError, StorageResult, ValueRef,
};
use kingtide_format::TableMeta;
use kingtide_format::block::DataBlock;

use crate::cursor::{CursorUse, TableCursor};
use crate::handles::has_no_more_files;
use crate::table::Table;
use crate::table_cache::TableCache;
use kingtide_collections::BlockCache;

/// The tables of a level: sorted by key, no key in two of them. Shared by all cursors over it.
pub trait LevelTables: Send + Sync {
    /// The tables, always the same ones.
    fn tables(&self) -> &[Arc<TableMeta>];
}

impl LevelTables for Vec<Arc<TableMeta>> {
    fn tables(&self) -> &[Arc<TableMeta>] {
        self
    }
}

/// Tables that a reader's cursor keeps open beside the one that it is in, the last ones it was in: so seeks to and fro
/// leave the counts alone that all readers of a table share.
const TABLES_KEPT: usize = 8;
/// At most one in so many of the tables that may be open.
const TABLES_KEPT_DIVISOR: usize = 32;

/// How a cursor comes to another table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Going {
    /// It may come back.
    Seek,
    /// From the end of the one beside it.
    Walk,
}

/// A cursor over the tables of one level. It keeps a few tables open.
pub struct LevelCursor {
    tables: Arc<dyn LevelTables>,
    cache: Arc<TableCache>,
    blocks: Arc<BlockCache<DataBlock>>,
    order: KeyOrder,
    cursor_use: CursorUse,
    index: usize,
    current: Option<TableCursor>,
    /// With their indexes; the one it was in last is the last.
    kept: Vec<(usize, Arc<Table>)>,
}

impl std::fmt::Debug for LevelCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LevelCursor")
            .field("tables", &self.tables.tables().len())
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl LevelCursor {
    /// A cursor over `tables`.
    #[must_use]
    pub fn new(
        tables: Arc<dyn LevelTables>,
        cache: Arc<TableCache>,
        blocks: Arc<BlockCache<DataBlock>>,
        order: KeyOrder,
        cursor_use: CursorUse,
    ) -> Self {
        Self {
            tables,
            cache,
            blocks,
            order,
            cursor_use,
            index: 0,
            current: None,
            kept: Vec::new(),
        }
    }

    /// Opens table `index` with a cursor that has no place yet; `None` when there is no such table. After an error
    /// there is no current table, so the cursor is invalid.
    fn open(&mut self, index: usize, going: Going) -> StorageResult<Option<&mut TableCursor>> {
        let Some(meta) = self.tables.tables().get(index) else {
            self.current = None;
            return Ok(None);
        };
        if self.current.is_none() || self.index != index {
            let before = self.current.take();
            let table = match self.kept.iter().position(|(kept, _)| *kept == index) {
                Some(place) => self.kept.remove(place).1,
                None => match self.cache.get(meta, &self.order) {
                    Err(StorageError::Io { source, .. })
                        if has_no_more_files(&source) && !self.kept.is_empty() =>
                    {
                        self.kept.clear();
                        self.cache.get(meta, &self.order)?
                    }
                    outcome => outcome?,
                },
            };
            let from = std::mem::replace(&mut self.index, index);
            self.current = Some(match before {
                Some(mut cursor) => {
                    let left = cursor.change_table(table);
                    if going == Going::Seek && self.cursor_use == CursorUse::Read {
                        let most = TABLES_KEPT.min(self.cache.open_max() / TABLES_KEPT_DIVISOR);
                        self.kept.push((from, left));
                        self.kept.drain(..self.kept.len().saturating_sub(most));
                    }
                    cursor
                }
                None => table.cursor(&self.blocks, self.cursor_use),
            });
        }
        Ok(self.current.as_mut())
    }

    /// Goes on to the first entry of the following tables while the current one has no place.
    fn skip_forward(&mut self) -> StorageResult<()> {
        while self
            .current
            .as_ref()
            .is_some_and(|cursor| !cursor.is_valid())
        {
            if let Some(cursor) = self.open(self.index + 1, Going::Walk)? {
                cursor.seek_first()?;
            }
        }
        Ok(())
    }

    /// Goes back to the last entry of the preceding tables while the current one has no place.
    fn skip_backward(&mut self) -> StorageResult<()> {
        while self
            .current
            .as_ref()
            .is_some_and(|cursor| !cursor.is_valid())
        {
            let Some(previous) = self.index.checked_sub(1) else {
                self.current = None;
                return Ok(());
            };
            if let Some(cursor) = self.open(previous, Going::Walk)? {
                cursor.seek_last()?;
            }
        }
        Ok(())
    }
}

impl Cursor for LevelCursor {
    fn seek_first(&mut self) -> StorageResult<()> {
        if let Some(cursor) = self.open(0, Going::Seek)? {
            cursor.seek_first()?;
        }
        self.skip_forward()
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        let Some(last) = self.tables.tables().len().checked_sub(1) else {
            return Ok(());
        };
        if let Some(cursor) = self.open(last, Going::Seek)? {
            cursor.seek_last()?;
        }
        self.skip_backward()
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        let tables = self.tables.tables();
        let is_in = |table: &TableMeta| {
            self.order.compare(&table.smallest, key).is_lt()
                && self.order.compare(key, &table.largest).is_le()
        };
        // Neighbours are often asked for one after the other.
        let index = match tables.get(self.index) {
            Some(table) if self.current.is_some() && is_in(table) => self.index,
            _ => tables.partition_point(|table| self.order.compare(&table.largest, key).is_lt()),
        };
        if let Some(cursor) = self.open(index, Going::Seek)? {
            cursor.seek(key)?;
        }
        self.skip_forward()
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        let after = self
            .tables
            .tables()
            .partition_point(|table| self.order.compare(&table.smallest, key).is_le());
        let Some(index) = after.checked_sub(1) else {
            self.current = None;
            return Ok(());
        };
        if let Some(cursor) = self.open(index, Going::Seek)? {
            cursor.seek_for_prev(key)?;
        }
        self.skip_backward()
    }

    #[inline]
    fn next(&mut self) -> StorageResult<()> {
        let Some(cursor) = &mut self.current else {
            return Ok(());
        };
        cursor.next()?;
        if cursor.is_valid() {
            return Ok(());
        }
        self.skip_forward()
    }

    fn prev(&mut self) -> StorageResult<()> {
        let Some(cursor) = &mut self.current else {
            return Ok(());
        };
        cursor.prev()?;
        if cursor.is_valid() {
            return Ok(());
        }
        self.skip_backward()
    }

    #[inline]
    fn is_valid(&self) -> bool {
        self.current.as_ref().is_some_and(Cursor::is_valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], Cursor::key)
    }

    #[inline]
    fn sequence(&self) -> SeqNo {
        self.current.as_ref().map_or(SeqNo::ZERO, Cursor::sequence)
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.current.as_ref().map_or(EntryKind::Put, Cursor::kind)
    }

    #[inline]
    fn expires_at(&self) -> i64 {
        self.current.as_ref().map_or(0, Cursor::expires_at)
    }

    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        match &mut self.current {
            Some(cursor) => cursor.value(),
            None => Ok(ValueRef::Inline(&[])),
        }
    }

    fn lend(&mut self, until: Option<&[u8]>, batch: &mut Batch) -> bool {
        let current = self.current.as_mut();
        current.is_some_and(|cursor| cursor.lend(until, batch))
    }

    fn lend_values(&mut self, batch: &mut Batch) -> StorageResult<()> {
        match &mut self.current {
            Some(cursor) => cursor.lend_values(batch),
            None => Ok(()),
        }
    }
}
