//! Reads blocks for cursors: through the cache, or in large pieces ahead of a cursor that walks forward.
//!
//! A reader that walks on and on brings no more than a part of the cache's size into it; what it reads from then on, it reads
//! into memory of its own, block after block into the same. So a walk over everything leaves the cache to those who come back
//! to its blocks, and costs less.

use std::{mem, sync::Arc};

use kingtide_base::StorageResult;
use kingtide_format::block::DataBlock;

use crate::cursor::CursorUse;
use crate::sections::read_range_into;
use crate::table::{CachedForm, Table};
use kingtide_collections::{Account, BlockCache, Charge};

/// What a scan reads at once, in bytes, and the most that a walking reader does.
const WINDOW_BYTES_MAX: u64 = 256 << 10;
/// What a walking reader reads at once at first, in bytes; doubles as it goes on.
const WINDOW_BYTES_MIN: u64 = 16 << 10;
/// Blocks in a row that a reader must miss in the cache before it is taken to be walking, unless readers have the [`Habit`] to walk.
///
/// [`Habit`]: crate::habit::Habit
const MISSES_BEFORE: u32 = 2;
/// What is read at once at first where readers have that habit, in blocks, where that is no more than a window may be.
const FIRST_BLOCKS: usize = 4;

/// A walk brings at most one part in so many of the cache's size into it. When the same walk comes again and again, each
/// brings the next part.
const BROUGHT_DIVISOR: usize = 128;

/// A cursor's buffer takes at most one part in so many of what the memory budget has left, but the smallest window at
/// least: so cursors over many tables, each with a buffer, share what there is.
const LEFT_DIVISOR: usize = 64;

/// The most bytes that a buffer should take now.
fn affordable_bytes(table: &Table) -> u64 {
    let left = table
        .charge
        .as_ref()
        .map_or(usize::MAX, |charge| charge.budget().available());
    ((left / LEFT_DIVISOR) as u64).max(WINDOW_BYTES_MIN)
}

/// The bytes read ahead of one cursor.
#[derive(Debug, Default)]
pub struct ReadAhead {
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    start: u64,
    /// The block fetched last.
    last: Option<usize>,
    /// Bytes of blocks that the walk has brought into the cache so far; a jump begins a new walk.
    brought_bytes: usize,
    /// Consecutive blocks that came from the file.
    misses: u32,
    /// The block fetched last was jumped to, and not in the cache.
    began: bool,
    window_bytes: u64,
    /// What the buffer takes of the budget.
    charge: Option<Charge>,
}

impl ReadAhead {
    /// Forgets all but the memory, and what the walk has brought into the cache: another table comes.
    pub fn restart(&mut self) {
        self.buffer.clear();
        self.last = None;
        self.misses = 0;
        self.began = false;
        self.window_bytes = 0;
    }

    /// Data block `index` of `table`. The block that the cursor comes from gives its memory to it, where nobody shares that.
    pub fn fetch(
        &mut self,
        table: &Table,
        cache: &BlockCache<DataBlock>,
        cursor_use: CursorUse,
        (index, left): (usize, Option<Arc<DataBlock>>),
    ) -> StorageResult<Arc<DataBlock>> {
        let is_forward = self.last.is_some_and(|last| last + 1 == index);
        // From one table to the next a walk comes to one of its ends.
        let goes_on = match self.last {
            Some(last) => last.abs_diff(index) == 1,
            None => index == 0 || index + 1 == table.fences.blocks(),
        };
        self.last = Some(index);
        match cursor_use {
            CursorUse::Scan => {
                // A merge begins at the front and walks to the end.
                if is_forward || index == 0 {
                    self.window_bytes = WINDOW_BYTES_MAX;
                } else {
                    self.window_bytes = 0;
                }
                Ok(Arc::new(self.read(table, index, left)?))
            }
            CursorUse::Read => {
                if !goes_on {
                    self.brought_bytes = 0;
                }
                if mem::take(&mut self.began) && is_forward {
                    table.habit.go_on();
                }
                let has_brought_enough =
                    self.brought_bytes > cache.capacity_bytes() / BROUGHT_DIVISOR;
                let cached = if has_brought_enough {
                    table.noted_block(index, cache)
                } else {
                    table.cached_block(index, cache)
                };
                if let Some(block) = cached {
                    self.misses = 0;
                    return Ok(block);
                }
                self.note_miss(table, index, is_forward);
                if has_brought_enough {
                    return Ok(Arc::new(self.read(table, index, left)?));
                }
                let block = self.read(table, index, None)?;
                self.brought_bytes += block.memory_bytes();
                Ok(table.cache_block(index, block, (cache, CachedForm::RawWithRoom)))
            }
        }
    }

    /// Notes that block `index` must be read; sets how much is to be read with it.
    fn note_miss(&mut self, table: &Table, index: usize, is_forward: bool) {
        if is_forward {
            self.misses += 1;
        } else {
            self.misses = 0;
            self.began = true;
            table.habit.begin();
        }
        self.window_bytes = if self.misses >= MISSES_BEFORE {
            (self.window_bytes * 2).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
        } else if table.habit.is_to_go_on() {
            let last = (index + FIRST_BLOCKS).min(table.fences.blocks()) - 1;
            let bytes = table.fences.extent(last).end - table.fences.extent(index).start;
            bytes.min(WINDOW_BYTES_MAX)
        } else {
            0
        };
    }

    /// Block `index` from the buffer, which is filled first when a window is set and the block is not in it. Takes the memory
    /// of `left` for it, if that is nobody else's.
    fn read(
        &mut self,
        table: &Table,
        index: usize,
        left: Option<Arc<DataBlock>>,
    ) -> StorageResult<DataBlock> {
        let extent = table.fences.extent(index);
        let buffered = self.start..self.start + self.buffer.len() as u64;
        let is_buffered = buffered.start <= extent.start && extent.end <= buffered.end;
        if !is_buffered {
            if extent.end - extent.start >= self.window_bytes {
                return table.read_block(index);
            }
            let window_bytes = self.window_bytes.min(affordable_bytes(table));
            let block_end = extent.end.max(extent.start + window_bytes);
            let end = block_end.min(table.fences.data_end());
            let range = extent.start..end;
            read_range_into(&*table.file, &table.name, range, &mut self.buffer)?;
            self.start = extent.start;
            self.account(table);
        }
        let from = (extent.start - self.start) as usize;
        let to = (extent.end - self.start) as usize;
        let spare = left.and_then(|left| Arc::try_unwrap(left).ok());
        let mut bytes = spare.map_or_else(Vec::new, DataBlock::into_bytes);
        bytes.clear();
        bytes.extend_from_slice(&self.buffer[from..to]);
        table.decode_block(index, bytes)
    }

    fn account(&mut self, table: &Table) {
        let bytes = self.buffer.capacity();
        match (&mut self.charge, &table.charge) {
            (Some(charge), _) => charge.set(bytes),
            (None, Some(of_table)) => {
                self.charge = Some(of_table.budget().charge(Account::Buffers, bytes));
            }
            (None, None) => {}
        }
    }
}
