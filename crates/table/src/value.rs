//! What a point read of a table finds.

use std::{cell::RefCell, ops::Deref, ops::Range, sync::Arc};

use kingtide_base::{EntryKind, SeqNo, ValuePointer, ValueRef};
use kingtide_collections::{lz4_prefix, prefetch_bytes};
use kingtide_format::block::{BlockFault, DataBlock, decode_pointer};

/// A scratch buffer above this size is given back after use.
const SCRATCH_BYTES_KEPT: usize = 1 << 20;

thread_local! {
    // One value column at a time is decompressed here by point reads of this thread.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One version of a key, found in a table.
#[derive(Clone, Debug)]
pub struct TableEntry {
    /// The commit that wrote it.
    pub sequence: SeqNo,
    /// What it does to the key.
    pub kind: EntryKind,
    /// When it expires, in Unix seconds; 0 means never.
    pub expires_at: i64,
    /// Its value; empty for tombstones.
    pub value: TableValue,
}

/// A value in a table, or where it is in the value log.
#[derive(Clone, Debug)]
pub enum TableValue {
    /// The bytes.
    Inline(BlockValue),
    /// Where the bytes are.
    Separated(ValuePointer),
}

/// The bytes of a value: a part of a shared block where the block stores them raw, else a copy.
#[derive(Clone)]
pub struct BlockValue(Bytes);

#[derive(Clone)]
enum Bytes {
    /// `start..end` of the raw value column of the block.
    Shared(Arc<DataBlock>, u32, u32),
    Owned(Vec<u8>),
}

impl BlockValue {
    /// The bytes, copied only when they are shared with a block.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Bytes::Shared(..) => self.to_vec(),
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl Deref for BlockValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Shared(block, start, end) => block
                .raw_values()
                .and_then(|column| column.get(*start as usize..*end as usize))
                .unwrap_or_default(),
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for BlockValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockValue({} bytes)", self.len())
    }
}

/// Asks the processor to fetch the value of entry `index` of `block`, which a reader is about to look at, if it is not compressed.
#[inline]
pub(crate) fn prefetch_value(block: &DataBlock, index: usize) {
    if let Some(column) = block.raw_values() {
        prefetch_bytes(column.get(block.value_range(index)).unwrap_or_default());
    }
}

impl TableEntry {
    /// Entry `index` of `block`. Decompresses the value column when the value is in it and not empty.
    pub(crate) fn read(block: &Arc<DataBlock>, index: usize) -> Result<Self, BlockFault> {
        Ok(Self {
            sequence: block.sequence(index),
            kind: block.kind(index),
            expires_at: block.expires_at(index),
            value: Self::read_value(block, index)?,
        })
    }

    fn read_value(block: &Arc<DataBlock>, index: usize) -> Result<TableValue, BlockFault> {
        let range = block.value_range(index);
        if let Some(column) = block.raw_values() {
            return Ok(match block.value(index, column)? {
                ValueRef::Separated(pointer) => TableValue::Separated(pointer),
                ValueRef::Inline(_) => {
                    let Range { start, end } = range;
                    let bytes = Bytes::Shared(Arc::clone(block), start as u32, end as u32);
                    TableValue::Inline(BlockValue(bytes))
                }
            });
        }
        if range.is_empty() && !block.is_separated(index) {
            return Ok(TableValue::Inline(BlockValue(Bytes::Owned(Vec::new()))));
        }
        let mut bytes = Vec::new();
        let is_alone = block.entries() == 1;
        if is_alone {
            block.decompress_values(&mut bytes)?;
        } else if block.values_raw_bytes() <= SCRATCH_BYTES_KEPT {
            bytes.reserve_exact(range.len());
        }
        if is_alone || block.copy_lz4_range(range.clone(), &mut bytes) {
            return if block.is_separated(index) {
                decode_pointer(&bytes).map(TableValue::Separated)
            } else {
                Ok(TableValue::Inline(BlockValue(Bytes::Owned(bytes))))
            };
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let raw_bytes = block.values_raw_bytes();
            let is_prefix_enough = block
                .lz4_values()
                .is_some_and(|stored| lz4_prefix(stored, range.end, raw_bytes, scratch));
            if !is_prefix_enough {
                block.decompress_values(scratch)?;
            }
            let column = scratch.get(..range.end).unwrap_or(scratch);
            let value = match block.value(index, column)? {
                ValueRef::Separated(pointer) => TableValue::Separated(pointer),
                ValueRef::Inline(value) => {
                    bytes.extend_from_slice(value);
                    TableValue::Inline(BlockValue(Bytes::Owned(bytes)))
                }
            };
            if scratch.capacity() > SCRATCH_BYTES_KEPT {
                *scratch = Vec::new();
            }
            Ok(value)
        })
    }
}
