//! Walks one table in both directions.
//!
//! The cursor holds one block. A key that lies whole in the block is borrowed from it; otherwise it is put together in
//! a buffer that is used again, and from one entry of a block to the next only its middle is copied. Values are
//! decompressed when they are asked for, so a walk that looks at keys never pays for them: the first one alone, where that
//! is the faster way, and at the second one the whole column of the block. Whoever needed a block's whole column and walks on
//! to the next one is given that one's at once; a jump begins anew.
//!
//! A seek looks into the block that the cursor is in first.

use std::sync::Arc;

use kingtide_base::{Batch, Cursor, EntryKind, SeqNo, StorageResult, ValueRef};
use kingtide_format::block::{DataBlock, decode_pointer};

use crate::read_ahead::ReadAhead;
use crate::table::Table;
use crate::value::prefetch_value;
use kingtide_collections::BlockCache;

/// The least and the most entries that are lent at once.
const LENT_MIN: usize = 4;
const LENT_MAX: usize = 64;
/// The most bytes of keys that are lent at once, about; values of blocks with longer columns are not lent at all: copying
/// them would cost more than asking for each.
const LENT_BYTES_MAX: usize = 64 << 10;

/// What a cursor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorUse {
    /// Reads of users: blocks come from the cache and enter it.
    Read,
    /// Merges: blocks are read ahead in large pieces and leave the cache as it is.
    Scan,
}

/// A cursor over one table.
pub struct TableCursor {
    table: Arc<Table>,
    cache: Arc<BlockCache<DataBlock>>,
    cursor_use: CursorUse,
    read_ahead: ReadAhead,
    /// The block the cursor is in. It may be held while the cursor is invalid.
    block: Option<Arc<DataBlock>>,
    block_index: usize,
    entry: usize,
    is_valid: bool,
    /// True when the keys of the block are borrowed from it.
    has_whole_keys: bool,
    key: Vec<u8>,
    /// What `decompressed` says, when the block stores its value column compressed.
    values: Vec<u8>,
    decompressed: Decompressed,
    /// Whether the block before needed its whole column.
    wants_column: bool,
}

/// What a cursor has of the values of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decompressed {
    Nothing,
    /// The value of one entry.
    Entry(usize),
    /// The whole column.
    Column,
}

impl std::fmt::Debug for TableCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableCursor")
            .field("table", &self.table.name)
            .field("block", &self.block_index)
            .field("entry", &self.entry)
            .field("is_valid", &self.is_valid)
            .finish_non_exhaustive()
    }
}

/// Which entry of a block.
#[derive(Clone, Copy)]
enum At {
    First,
    Last,
}

impl TableCursor {
    pub(crate) fn new(
        table: Arc<Table>,
        cache: Arc<BlockCache<DataBlock>>,
        cursor_use: CursorUse,
    ) -> Self {
        Self {
            table,
            cache,
            cursor_use,
            read_ahead: ReadAhead::default(),
            block: None,
            block_index: 0,
            entry: 0,
            is_valid: false,
            has_whole_keys: false,
            key: Vec::new(),
            values: Vec::new(),
            decompressed: Decompressed::Nothing,
            wants_column: false,
        }
    }

    /// Goes over to another table, without a place in it; what it needs to work is kept. Answers the table that it was in.
    pub(crate) fn change_table(&mut self, table: Arc<Table>) -> Arc<Table> {
        let left = std::mem::replace(&mut self.table, table);
        self.read_ahead.restart();
        self.block = None;
        self.is_valid = false;
        self.decompressed = Decompressed::Nothing;
        left
    }

    /// Bytes of values that were decompressed last.
    #[cfg(test)]
    pub(crate) fn decompressed_bytes(&self) -> usize {
        self.values.len()
    }

    /// The table it walks.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Makes block `index` the current one, without an entry yet; the cursor is invalid until it has one.
    fn load(&mut self, index: usize) -> StorageResult<&DataBlock> {
        self.is_valid = false;
        if self.block.is_none() || self.block_index != index {
            // Only a walk goes on as it did: after a jump, one value is wanted until a second one is.
            let is_walk = self.block.is_some() && index.abs_diff(self.block_index) == 1;
            self.wants_column = is_walk
                && match self.decompressed {
                    Decompressed::Nothing => self.wants_column,
                    Decompressed::Entry(_) => false,
                    Decompressed::Column => true,
                };
            self.decompressed = Decompressed::Nothing;
            let left = self.block.take();
            let block =
                self.read_ahead
                    .fetch(&self.table, &self.cache, self.cursor_use, (index, left))?;
            self.has_whole_keys = block.has_whole_keys();
            self.block_index = index;
            self.block = Some(block);
        }
        Ok(self
            .block
            .as_deref()
            .expect("the branch above has just set it, or it was set"))
    }

    /// Goes to `entry` of the current block.
    fn set_entry(&mut self, entry: usize) {
        if let Some(block) = &self.block {
            if !self.has_whole_keys {
                block.copy_key(entry, &mut self.key);
            }
            self.entry = entry;
            self.is_valid = true;
        }
    }

    /// Goes to the first or last entry of block `index`; invalid when there is no such block.
    fn enter(&mut self, index: usize, at: At) -> StorageResult<()> {
        self.is_valid = false;
        if index >= self.table.fences.blocks() {
            return Ok(());
        }
        let entries = self.load(index)?.entries();
        self.set_entry(match at {
            At::First => 0,
            At::Last => entries - 1,
        });
        Ok(())
    }

    /// Decompresses the whole value column of the current block, if it is not stored raw. After an error the cursor is
    /// invalid.
    fn decompress_column(&mut self) -> StorageResult<()> {
        let Some(block) = self.block.as_deref() else {
            return Ok(());
        };
        if block.raw_values().is_some() || self.decompressed == Decompressed::Column {
            return Ok(());
        }
        self.decompressed = Decompressed::Nothing;
        if let Err(fault) = block.decompress_values(&mut self.values) {
            self.is_valid = false;
            return Err(self.table.damaged_block(self.block_index, fault));
        }
        self.decompressed = Decompressed::Column;
        Ok(())
    }

    #[inline]
    fn current(&self) -> Option<&DataBlock> {
        self.block.as_deref().filter(|_| self.is_valid)
    }
}

impl Cursor for TableCursor {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.enter(0, At::First)
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        match self.table.fences.blocks().checked_sub(1) {
            Some(last) => self.enter(last, At::Last),
            None => Ok(()),
        }
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.is_valid = false;
        if let Some(block) = &self.block {
            let entry = block.lower_bound(&self.table.order, key);
            // Behind the first entry and not behind the last: newer versions of the key are in no block before this one.
            if 0 < entry && entry < block.entries() {
                self.set_entry(entry);
                return Ok(());
            }
        }
        let index = self.table.fences.first_at_or_after(&self.table.order, key);
        if index >= self.table.fences.blocks() {
            return Ok(());
        }
        self.load(index)?;
        let Some(block) = &self.block else {
            return Ok(());
        };
        let entry = block.lower_bound(&self.table.order, key);
        if entry < block.entries() {
            prefetch_value(block, entry);
            self.set_entry(entry);
            Ok(())
        } else {
            // `key` is between the last key of the block and its separator.
            self.enter(index + 1, At::First)
        }
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.is_valid = false;
        let table = Arc::clone(&self.table);
        let index = table.fences.first_after(&table.order, key);
        if index >= table.fences.blocks() {
            return self.seek_last();
        }
        let block = self.load(index)?;
        let after = block.upper_bound(&table.order, key);
        match (after.checked_sub(1), index.checked_sub(1)) {
            (Some(entry), _) => {
                self.set_entry(entry);
                Ok(())
            }
            (None, Some(previous)) => self.enter(previous, At::Last),
            (None, None) => Ok(()),
        }
    }

    #[inline]
    fn next(&mut self) -> StorageResult<()> {
        let Some(block) = self.block.as_deref().filter(|_| self.is_valid) else {
            return Ok(());
        };
        let entry = self.entry + 1;
        if entry < block.entries() {
            if !self.has_whole_keys {
                block.copy_next_key(entry, &mut self.key);
            }
            self.entry = entry;
            return Ok(());
        }
        self.enter(self.block_index + 1, At::First)
    }

    fn prev(&mut self) -> StorageResult<()> {
        let Some(block) = self.block.as_deref().filter(|_| self.is_valid) else {
            return Ok(());
        };
        if let Some(entry) = self.entry.checked_sub(1) {
            if !self.has_whole_keys {
                block.copy_next_key(entry, &mut self.key);
            }
            self.entry = entry;
            return Ok(());
        }
        if let Some(index) = self.block_index.checked_sub(1) {
            return self.enter(index, At::Last);
        }
        self.is_valid = false;
        Ok(())
    }

    #[inline]
    fn is_valid(&self) -> bool {
        self.is_valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self.current() {
            Some(block) if self.has_whole_keys => block.middle(self.entry),
            Some(_) => &self.key,
            None => &[],
        }
    }

    #[inline]
    fn sequence(&self) -> SeqNo {
        self.current()
            .map_or(SeqNo::ZERO, |block| block.sequence(self.entry))
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.current()
            .map_or(EntryKind::Put, |block| block.kind(self.entry))
    }

    #[inline]
    fn expires_at(&self) -> i64 {
        self.current()
            .map_or(0, |block| block.expires_at(self.entry))
    }

    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        let Some(block) = self.block.as_deref().filter(|_| self.is_valid) else {
            return Ok(ValueRef::Inline(&[]));
        };
        let entry = self.entry;
        if block.raw_values().is_none()
            && self.decompressed != Decompressed::Column
            && self.decompressed != Decompressed::Entry(entry)
        {
            self.values.clear();
            let is_first = self.decompressed == Decompressed::Nothing && !self.wants_column;
            if is_first && block.copy_lz4_range(block.value_range(entry), &mut self.values) {
                self.decompressed = Decompressed::Entry(entry);
            } else {
                self.decompress_column()?;
            }
        }
        let Some(block) = self.block.as_deref() else {
            return Ok(ValueRef::Inline(&[]));
        };
        let value = match (block.raw_values(), self.decompressed) {
            (Some(column), _) => block.value(entry, column),
            (None, Decompressed::Entry(_)) if block.is_separated(entry) => {
                decode_pointer(&self.values).map(ValueRef::Separated)
            }
            (None, Decompressed::Entry(_)) => Ok(ValueRef::Inline(&self.values)),
            (None, _) => block.value(entry, &self.values),
        };
        match value {
            Ok(value) => Ok(value),
            Err(fault) => {
                self.is_valid = false;
                Err(self.table.damaged_block(self.block_index, fault))
            }
        }
    }

    /// Lends entries of the block that the cursor is in.
    fn lend(&mut self, until: Option<&[u8]>, batch: &mut Batch) -> bool {
        let Some(block) = self.block.as_deref().filter(|_| self.is_valid) else {
            return false;
        };
        let end = until.map_or(block.entries(), |until| {
            block.lower_bound(&self.table.order, until)
        });
        let key_bytes = block.prefix().len() + block.middle(self.entry).len();
        let end = end.min(self.entry + LENT_MAX.min(LENT_BYTES_MAX / key_bytes.max(1)));
        let is_worth_it = end >= self.entry + LENT_MIN;
        if is_worth_it && block.values_raw_bytes() <= LENT_BYTES_MAX {
            batch.clear();
            block.lend(self.entry..end, batch);
            self.set_entry(end - 1);
            return true;
        }
        false
    }

    fn lend_values(&mut self, batch: &mut Batch) -> StorageResult<()> {
        self.decompress_column()?;
        if let Some(block) = self.block.as_deref() {
            // The cursor is on the last entry that was lent.
            let end = block.value_range(self.entry).end;
            let start = end.saturating_sub(batch.value_bytes());
            // What lies beyond the column is not there: each value that is missing will be asked for by itself.
            match block.raw_values() {
                Some(column) => batch.lend_values(column.get(start..end).unwrap_or_default()),
                // The last of the block: nothing else is wanted of its column.
                None if self.entry + 1 == block.entries() => {
                    batch.swap_values(&mut self.values, start);
                    self.decompressed = Decompressed::Nothing;
                    self.wants_column = true;
                }
                None => batch.lend_values(self.values.get(start..end).unwrap_or_default()),
            }
        }
        Ok(())
    }
}
