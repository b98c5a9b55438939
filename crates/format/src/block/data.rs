//! A data block: entries in columns, searched as they lie.
//!
//! ```text
//! payload = varint entries                  1 to 65,535
//!           u8 shape                        bits 0-1 keys   0 one width, 1 u16 ends, 2 u32 ends
//!                                           bit  2   kinds  0 one kind, 1 a column
//!                                           bits 3-4 values 0 one length, 1 u16 ends, 2 u32 ends
//!                                           bits 5-6 expiry 0 none, 1 u32, 2 u64
//!           u8 sequence width               0, 1, 2, 4 or 8
//!           [u8 kind]                       when all entries share it
//!           varint sequence minimum
//!           varint prefix bytes, suffix bytes, key bytes (width of one middle, or sum of all)
//!           [varint value length]           when all entries share it
//!           prefix | suffix | key ends | keys | kinds | sequences | expiries | value ends | values
//! ```
//!
//! A key is prefix + middle + suffix. The suffix is stripped only where all keys have one width. A kind byte is the
//! number of the kind, plus 0x80 when the value is a pointer into the value log. Sequence numbers are differences to
//! the minimum. The value column is compressed by itself, and its end is the end of the block. One that is compressed with
//! the [dictionary](BlockDictionary) of its table begins with a byte more; before such values can be had, the block must be
//! given that dictionary.
//!
//! [`DataBlock::decode`] verifies the checksum first and then, once, everything that later accesses rely on: that the
//! columns fill the payload exactly, that ends ascend and close with the length of their column, that kinds are known
//! and no expiry is negative. It does not check that keys are in order: that needs the family's order, and a table's
//! `verify` does it.

use std::{ops::Range, sync::Arc};

use kingtide_base::{Batch, EntryKind, FileId, SeqNo, ValueRef};
use kingtide_collections::{BlockBytes, BlockMemory, bytes_in};

use super::columns::Columns;
use super::dictionary::BlockDictionary;
use super::lz4_range::lz4_range;
use super::pointer::decode_pointer;
use super::{BlockFault, BlockKind, BlockPlace, codec, open_block};
use crate::CodecId;

/// The bit of a kind byte that says that the value is a pointer.
pub(super) const SEPARATED_BIT: u8 = 0x80;
/// A verified data block in its stored form: keys and metadata raw, values as the file has them.
#[derive(Debug)]
pub struct DataBlock {
    bytes: BlockBytes,
    columns: Columns,
    /// What the value column is compressed with, if it is with one and that was given.
    dictionary: Option<Arc<BlockDictionary>>,
}

impl DataBlock {
    /// Verifies the block `bytes` (header and payload, nothing else) that was read at `offset` of `file`.
    ///
    /// # Errors
    /// A fault that says which check failed.
    pub fn decode(bytes: Vec<u8>, file: FileId, offset: u64) -> Result<Self, BlockFault> {
        let header = open_block(&bytes, BlockKind::Data, BlockPlace { file, offset })?;
        let codec = (header.codec, header.uses_dictionary);
        let columns = Columns::decode(&bytes, codec, header.raw_bytes)?;
        let block = Self {
            bytes: bytes.into(),
            columns,
            dictionary: None,
        };
        block.check_cells()?;
        Ok(block)
    }

    fn check_cells(&self) -> Result<(), BlockFault> {
        let columns = &self.columns;
        let key_bytes = columns.kinds - columns.keys;
        self.check_ends(
            columns.key_ends,
            columns.key_ends_width,
            key_bytes,
            "key ends",
        )?;
        self.check_ends(
            columns.value_ends,
            columns.value_ends_width,
            columns.values_raw_bytes,
            "value ends",
        )?;
        let known = |byte: u8| match EntryKind::from_byte(byte & !SEPARATED_BIT) {
            // Tables say of a value where it is by a bit of its own.
            None | Some(EntryKind::PutSpilled | EntryKind::PutPacked) => false,
            Some(_) => true,
        };
        let kinds_known = if columns.kind == 0 {
            let start = columns.kinds as usize;
            self.bytes[start..start + columns.entries as usize]
                .iter()
                .all(|byte| known(*byte))
        } else {
            known(columns.kind)
        };
        if !kinds_known {
            return Err(BlockFault::malformed("unknown entry kind"));
        }
        if columns.expiry_width == 8 && (0..self.entries()).any(|i| self.expires_at(i) < 0) {
            return Err(BlockFault::malformed("negative expiry"));
        }
        Ok(())
    }

    fn check_ends(
        &self,
        start: u32,
        width: u8,
        last: u32,
        what: &'static str,
    ) -> Result<(), BlockFault> {
        if width == 0 {
            return Ok(());
        }
        let mut previous = 0;
        for i in 0..self.entries() {
            let end = self.cell(start, width, i);
            if end < previous {
                return Err(BlockFault::mismatch(what, previous, end));
            }
            previous = end;
        }
        if previous == u64::from(last) {
            Ok(())
        } else {
            Err(BlockFault::mismatch(what, u64::from(last), previous))
        }
    }

    /// True when the value column is compressed with the dictionary of the table.
    #[inline]
    #[must_use]
    pub fn uses_dictionary(&self) -> bool {
        self.columns.dictionary_blocks > 0
    }

    /// Gives the block the dictionary of its table, if it uses one.
    ///
    /// # Errors
    /// When it uses one of another number of blocks.
    pub fn set_dictionary(&mut self, dictionary: &Arc<BlockDictionary>) -> Result<(), BlockFault> {
        if self.uses_dictionary() {
            dictionary.check(self.columns.dictionary_blocks)?;
            self.dictionary = Some(Arc::clone(dictionary));
        }
        Ok(())
    }

    /// The bytes that the value column is compressed with; `None` for one without a dictionary.
    fn words(&self) -> Result<Option<&[u8]>, BlockFault> {
        match &self.dictionary {
            Some(dictionary) => Ok(Some(dictionary.bytes())),
            None if self.uses_dictionary() => {
                Err(BlockFault::malformed("dictionary of the table is missing"))
            }
            None => Ok(None),
        }
    }

    /// The number of entries; at least 1.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> usize {
        self.columns.entries as usize
    }

    /// The memory of the block for another one, if it came from the allocator; else an empty vector.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_vec()
    }

    /// What the block costs in memory, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.memory_bytes() + size_of::<Self>()
    }

    /// How the value column is compressed.
    #[must_use]
    pub fn codec(&self) -> CodecId {
        self.columns.codec
    }

    /// The cell `index` of the column that begins at `start`; 0 for columns of width 0.
    #[inline]
    fn cell(&self, start: u32, width: u8, index: usize) -> u64 {
        let at = start as usize + index * width as usize;
        match width {
            1 => u64::from(self.bytes[at]),
            2 => u64::from(u16::from_le_bytes(self.array(at))),
            4 => u64::from(u32::from_le_bytes(self.array(at))),
            8 => u64::from_le_bytes(self.array(at)),
            _ => 0,
        }
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut target = [0; N];
        target.copy_from_slice(&self.bytes[at..at + N]);
        target
    }

    /// The cells `index - 1` (0 for the first) and `index` of a column of ends.
    #[inline]
    fn ends(&self, start: u32, width: u8, index: usize) -> Range<usize> {
        let from = if index == 0 {
            0
        } else {
            self.cell(start, width, index - 1) as usize
        };
        from..self.cell(start, width, index) as usize
    }

    /// The bytes that all keys of the block begin with.
    #[inline]
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.bytes[self.columns.prefix as usize..self.columns.suffix as usize]
    }

    /// The bytes that all keys of the block end with; empty unless all have one length.
    #[inline]
    #[must_use]
    pub fn suffix(&self) -> &[u8] {
        &self.bytes[self.columns.suffix as usize..self.columns.key_ends as usize]
    }

    /// What the key of entry `index` has between prefix and suffix.
    #[inline]
    #[must_use]
    pub fn middle(&self, index: usize) -> &[u8] {
        let keys = self.columns.keys as usize;
        if self.columns.key_ends_width == 0 {
            let width = self.columns.key_width as usize;
            let start = keys + index * width;
            &self.bytes[start..start + width]
        } else {
            let range = self.ends(self.columns.key_ends, self.columns.key_ends_width, index);
            &self.bytes[keys + range.start..keys + range.end]
        }
    }

    /// True when keys lie whole in the block, so that [`DataBlock::middle`] is the key.
    #[inline]
    #[must_use]
    pub fn has_whole_keys(&self) -> bool {
        self.columns.prefix == self.columns.key_ends
    }

    /// The middle's width when all keys have one.
    #[inline]
    pub(super) fn middle_width(&self) -> Option<usize> {
        (self.columns.key_ends_width == 0).then_some(self.columns.key_width as usize)
    }

    /// The block from the key column on.
    #[inline]
    pub(super) fn fixed_keys(&self) -> &[u8] {
        &self.bytes[self.columns.keys as usize..]
    }

    /// Replaces the content of `target` by the key of entry `index`.
    pub fn copy_key(&self, index: usize, target: &mut Vec<u8>) {
        target.clear();
        target.extend_from_slice(self.prefix());
        target.extend_from_slice(self.middle(index));
        target.extend_from_slice(self.suffix());
    }

    /// Like [`DataBlock::copy_key`] for a `target` that holds another key of this block: only the middle is copied.
    #[inline]
    pub fn copy_next_key(&self, index: usize, target: &mut Vec<u8>) {
        let middle = self.middle(index);
        let prefix_bytes = self.prefix().len();
        if self.columns.key_ends_width == 0 {
            target[prefix_bytes..prefix_bytes + middle.len()].copy_from_slice(middle);
        } else {
            target.truncate(prefix_bytes);
            target.extend_from_slice(middle);
        }
    }

    /// Adds `base` to the sequence number of every entry, as the manifest asks for tables of a bulk load.
    pub fn raise_sequences(&mut self, base: SeqNo) {
        self.columns.sequence_min = self.columns.sequence_min.saturating_add(base.0);
    }

    /// The sequence number of entry `index`.
    #[inline]
    #[must_use]
    pub fn sequence(&self, index: usize) -> SeqNo {
        let columns = &self.columns;
        let delta = self.cell(columns.sequences, columns.sequence_width, index);
        SeqNo(columns.sequence_min.saturating_add(delta))
    }

    #[inline]
    fn kind_byte(&self, index: usize) -> u8 {
        if self.columns.kind == 0 {
            self.bytes[self.columns.kinds as usize + index]
        } else {
            self.columns.kind
        }
    }

    /// The kind of entry `index`.
    #[inline]
    #[must_use]
    pub fn kind(&self, index: usize) -> EntryKind {
        EntryKind::from_byte(self.kind_byte(index) & !SEPARATED_BIT)
            .expect("kinds were checked when the block was decoded")
    }

    /// True when the value of entry `index` is a pointer into the value log.
    #[inline]
    #[must_use]
    pub fn is_separated(&self, index: usize) -> bool {
        self.kind_byte(index) & SEPARATED_BIT != 0
    }

    /// When entry `index` expires, in Unix seconds; 0 means never.
    #[inline]
    #[must_use]
    pub fn expires_at(&self, index: usize) -> i64 {
        let columns = &self.columns;
        self.cell(columns.expiries, columns.expiry_width, index) as i64
    }

    /// Where the value of entry `index` lies in the raw value column.
    #[inline]
    #[must_use]
    pub fn value_range(&self, index: usize) -> Range<usize> {
        let columns = &self.columns;
        if columns.value_ends_width == 0 {
            let width = columns.value_width as usize;
            index * width..(index + 1) * width
        } else {
            self.ends(columns.value_ends, columns.value_ends_width, index)
        }
    }

    /// The raw value column, when it is stored raw.
    #[inline]
    #[must_use]
    pub fn raw_values(&self) -> Option<&[u8]> {
        (self.columns.codec == CodecId::None).then(|| &self.bytes[self.columns.values as usize..])
    }

    /// The checksum that the block carries, and has.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        let sum = self.bytes.first_chunk().copied();
        // A block that was decoded is longer than its header.
        u64::from_le_bytes(sum.unwrap_or_default())
    }

    /// What a search for a key looks at: everything before the values.
    #[must_use]
    pub fn search_bytes(&self) -> &[u8] {
        &self.bytes[..self.columns.values as usize]
    }

    /// The value column as it is stored, where it is an LZ4 block without a dictionary.
    #[must_use]
    pub fn lz4_values(&self) -> Option<&[u8]> {
        let is_plain = !self.uses_dictionary() && self.is_lz4();
        is_plain.then(|| &self.bytes[self.columns.values as usize..])
    }

    fn is_lz4(&self) -> bool {
        matches!(self.columns.codec, CodecId::Lz4 | CodecId::Lz4Fast)
    }

    /// Appends bytes `range` of the raw value column without decompressing what lies before them, where the codec is LZ4
    /// and that is the faster way. False when it is not done: the whole column, decompressed, has the bytes or says what is
    /// wrong.
    #[must_use]
    pub fn copy_lz4_range(&self, range: Range<usize>, target: &mut Vec<u8>) -> bool {
        let (true, Ok(words)) = (self.is_lz4(), self.words()) else {
            return false;
        };
        let stored = &self.bytes[self.columns.values as usize..];
        range.end <= self.values_raw_bytes()
            && lz4_range((stored, words.unwrap_or_default()), range, target)
    }

    /// The length of the raw value column in bytes.
    #[must_use]
    pub fn values_raw_bytes(&self) -> usize {
        self.columns.values_raw_bytes as usize
    }

    /// Replaces the content of `target` by the raw value column.
    ///
    /// # Errors
    /// When the column does not decompress to its recorded length.
    pub fn decompress_values(&self, target: &mut Vec<u8>) -> Result<(), BlockFault> {
        let stored = &self.bytes[self.columns.values as usize..];
        let raw_bytes = self.columns.values_raw_bytes as usize;
        match self.words()? {
            Some(words) => codec::decompress_with(words, stored, raw_bytes, target),
            None => codec::decompress(self.columns.codec, stored, raw_bytes, target),
        }
    }

    /// The block with its value column raw, in `memory` if there is room, else in memory from the allocator: larger, and its
    /// values are lent as they lie.
    ///
    /// # Errors
    /// As [`DataBlock::decompress_values`].
    pub fn with_raw_values(&self, memory: Option<&Arc<BlockMemory>>) -> Result<Self, BlockFault> {
        let head = self.search_bytes();
        let mut bytes = bytes_in(memory, head.len() + self.values_raw_bytes());
        let (before, values) = bytes.as_mut_slice().split_at_mut(head.len());
        before.copy_from_slice(head);
        let stored = &self.bytes[head.len()..];
        match self.words()? {
            Some(words) => codec::decompress_exactly_with(words, stored, values)?,
            None => codec::decompress_exactly(self.columns.codec, stored, values)?,
        }
        let columns = Columns {
            codec: CodecId::None,
            dictionary_blocks: 0,
            ..self.columns
        };
        Ok(Self {
            bytes,
            columns,
            dictionary: None,
        })
    }

    /// The bytes of memory that [`DataBlock::with_raw_values`] would take, to within some bytes of the memory's own.
    #[must_use]
    pub fn raw_memory_bytes(&self) -> usize {
        self.search_bytes().len() + self.values_raw_bytes() + size_of::<Self>()
    }

    /// The block in `memory`, if there is one and it has room; else as it is.
    #[must_use]
    pub fn moved_to(self, memory: Option<&Arc<BlockMemory>>) -> Self {
        let Some(mut bytes) = memory.and_then(|memory| memory.lend(self.bytes.len())) else {
            return self;
        };
        bytes.as_mut_slice().copy_from_slice(&self.bytes);
        Self { bytes, ..self }
    }

    /// The columns in the order in which they lie, by name and extent within the block; for dumps.
    pub(crate) fn columns(&self) -> [(&'static str, Range<usize>); 10] {
        let columns = &self.columns;
        let starts = [
            columns.prefix,
            columns.suffix,
            columns.key_ends,
            columns.keys,
            columns.kinds,
            columns.sequences,
            columns.expiries,
            columns.value_ends,
            columns.values - u32::from(self.uses_dictionary()),
            columns.values,
            self.bytes.len() as u32,
        ];
        let names = [
            "prefix",
            "suffix",
            "key ends",
            "keys",
            "kinds",
            "sequences",
            "expiries",
            "value ends",
            "dictionary blocks",
            "values",
        ];
        std::array::from_fn(|i| (names[i], starts[i] as usize..starts[i + 1] as usize))
    }

    /// Adds the entries `range` to `batch`, without values: these are to be taken from the raw value column.
    pub fn lend(&self, range: Range<usize>, batch: &mut Batch) {
        let columns = &self.columns;
        let (prefix, suffix) = (self.prefix(), self.suffix());
        let minimum = columns.sequence_min;
        let sequence = |delta: u64| SeqNo(minimum.saturating_add(delta));
        match columns.sequence_width {
            0 => batch.lend_sequences(range.clone().map(|_| sequence(0))),
            1 => {
                let cells = self.cells::<1>(columns.sequences, &range);
                batch.lend_sequences(cells.map(|cell| sequence(cell[0].into())));
            }
            2 => {
                let cells = self.cells::<2>(columns.sequences, &range);
                batch.lend_sequences(cells.map(|cell| sequence(u16::from_le_bytes(cell).into())));
            }
            4 => {
                let cells = self.cells::<4>(columns.sequences, &range);
                batch.lend_sequences(cells.map(|cell| sequence(u32::from_le_bytes(cell).into())));
            }
            _ => {
                let cells = self.cells::<8>(columns.sequences, &range);
                batch.lend_sequences(cells.map(|cell| sequence(u64::from_le_bytes(cell))));
            }
        }
        match self.middle_width() {
            Some(width) => {
                let middles = &self.fixed_keys()[range.start * width..range.end * width];
                batch.lend_keys(prefix, suffix, middles, width);
            }
            None => {
                let middles = range.clone().map(|index| self.middle(index));
                batch.lend_long_and_short_keys(prefix, suffix, middles);
            }
        }
        if columns.kind == 0 {
            let kinds = range.clone();
            batch.lend_kinds(kinds.map(|index| (self.kind(index), self.is_separated(index))));
        } else {
            batch.lend_kind(self.kind(range.start), self.is_separated(range.start));
        }
        if columns.expiry_width > 0 {
            batch.lend_expiries(range.clone().map(|index| self.expires_at(index)));
        }
        let start = self.value_range(range.start).start;
        match columns.value_ends_width {
            0 => batch.lend_value_width(columns.value_width as usize),
            2 => {
                let cells = self.cells::<2>(columns.value_ends, &range);
                batch.lend_value_ends(start, cells.map(|cell| u16::from_le_bytes(cell).into()));
            }
            _ => {
                let cells = self.cells::<4>(columns.value_ends, &range);
                let ends = cells.map(|cell| u32::from_le_bytes(cell) as usize);
                batch.lend_value_ends(start, ends);
            }
        }
    }

    /// The cells `range` of the column of `N` bytes each that begins at `start`.
    #[inline]
    fn cells<const N: usize>(
        &self,
        start: u32,
        range: &Range<usize>,
    ) -> impl Iterator<Item = [u8; N]> {
        let start = start as usize;
        let cells = &self.bytes[start + range.start * N..start + range.end * N];
        cells.as_chunks::<N>().0.iter().copied()
    }

    /// The value of entry `index`, given the raw value column.
    ///
    /// # Errors
    /// When a pointer is malformed or `column` is not of this block.
    #[inline]
    pub fn value<'a>(&self, index: usize, column: &'a [u8]) -> Result<ValueRef<'a>, BlockFault> {
        let bytes = column
            .get(self.value_range(index))
            .ok_or(BlockFault::malformed("value beyond its column"))?;
        if self.is_separated(index) {
            decode_pointer(bytes).map(ValueRef::Separated)
        } else {
            Ok(ValueRef::Inline(bytes))
        }
    }
}
