//! What is whole in a table file whatever else of it is damaged, for repair: found by reading the file from the front,
//! without index, footer or manifest.
//!
//! Blocks lie side by side and say how long they are, and their checksums are salted by file and offset, so a block is
//! recognised wherever it lies. Behind damage, each following offset is tried until a block is whole again; what the
//! attempts may hash in all is bounded by a multiple of the file's length, so that bytes which look like headers
//! everywhere cannot make it slow: what is left then counts as damaged.
//!
//! It does not judge what a loss means: an older version of a lost key, in this table or in another, may come to light.

use std::sync::Arc;

use kingtide_base::{EntryKind, key_hash};
use kingtide_base::{FileId, KeyOrder, SeqNo, StorageError, StorageResult, ValuePointer, ValueRef};
use kingtide_env::File;
use kingtide_format::block::{
    BLOCK_HEADER_BYTES, BlockDictionary, BlockKind, BlockPlace, DataBlock, open_block, open_section,
};
use kingtide_format::klog::{
    FOOTER_READ_BYTES, KLOG_FOOTER_BYTES, KLOG_VERSION, KlogFooter, Properties, TailFault,
    decode_properties,
};

use crate::names::damaged;
use crate::sections::{read_range, tail_error};
use crate::value_dictionary::KeptDictionary;

/// How many times its length a scan may hash of a file while it looks for the next whole block.
const SEARCH_FACTOR: u64 = 16;

/// Bytes of a table file that are no whole block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanDamage {
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub bytes: u64,
    /// False when there were no entries in them: only index, filter, properties or footer.
    pub may_hold_entries: bool,
    /// The last whole key before them.
    pub after: Option<Vec<u8>>,
    /// The first whole key behind them.
    pub before: Option<Vec<u8>>,
}

/// What a scan found.
pub struct ScannedTable {
    name: String,
    file_id: FileId,
    /// Offset and length of every whole data block, ascending.
    blocks: Vec<(u64, u64)>,
    /// What blocks may be compressed with, if the copy in the properties or all blocks that it is made of are whole.
    dictionary: Option<Arc<BlockDictionary>>,
    /// What is added to every sequence number; see [`kingtide_format::TableMeta::sequence_base`].
    pub sequence_base: SeqNo,
    /// What the table says about itself, if that is whole.
    pub properties: Option<Properties>,
    /// The first key of a whole block.
    pub first_key: Option<Vec<u8>>,
    /// The checksum of its footer, if that is whole: which table it is.
    pub footer_checksum: Option<u64>,
    /// Entries in whole blocks.
    pub entries: u64,
    /// What is not whole, ascending.
    pub damages: Vec<ScanDamage>,
}

impl std::fmt::Debug for ScannedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScannedTable")
            .field("name", &self.name)
            .field("blocks", &self.blocks.len())
            .field("damages", &self.damages)
            .finish_non_exhaustive()
    }
}

/// One entry of a whole block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedEntry {
    /// The key.
    pub key: Vec<u8>,
    /// Its sequence number, the table's base counted in.
    pub sequence: SeqNo,
    /// What it is.
    pub kind: EntryKind,
    /// When it expires, in Unix seconds; 0 for never.
    pub expires_at: i64,
    /// Its value, or where that lies.
    pub value: ScannedValue,
}

/// The value of a [`ScannedEntry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScannedValue {
    /// The bytes.
    Inline(Vec<u8>),
    /// In a value file.
    Separated(ValuePointer),
}

impl ScannedTable {
    /// Reads the file `file_id` and finds what is whole in it. Takes as much memory as the file is long, until it
    /// returns.
    ///
    /// # Errors
    /// When reading fails, and `NewerVersion` when an intact footer says so. Damage is part of the answer.
    pub fn scan(file: &dyn File, name: String, file_id: FileId) -> StorageResult<Self> {
        let file_bytes = file
            .len()
            .map_err(|error| StorageError::io(&*name, "read", error))?;
        let bytes = read_range(file, &name, 0, file_bytes)?;
        let footer = match read_footer(&bytes, file_id) {
            Err(TailFault::Newer(found)) => {
                let fault = TailFault::Newer(found);
                return Err(tail_error(&name, file_bytes, fault, KLOG_VERSION));
            }
            footer => footer.ok(),
        };
        let (footer, footer_checksum) = footer.unzip();
        let dictionary = footer
            .as_ref()
            .and_then(|footer| read_dictionary(&bytes, file_id, footer));
        let mut table = Self {
            name,
            file_id,
            blocks: Vec::new(),
            dictionary: dictionary.map(Arc::new),
            sequence_base: SeqNo::ZERO,
            properties: None,
            first_key: None,
            footer_checksum,
            entries: 0,
            damages: Vec::new(),
        };
        Scan {
            table: &mut table,
            bytes: &bytes,
            footer,
            last_key: None,
            sample: BlockDictionary::default(),
            is_behind_entries: false,
            budget: file_bytes.saturating_mul(SEARCH_FACTOR),
        }
        .run();
        Ok(table)
    }

    /// Walks the entries of the whole blocks in `file`, which is the one that was scanned, in its order.
    #[must_use]
    pub fn entries(self: Arc<Self>, file: Arc<dyn File>) -> ScannedEntries {
        ScannedEntries {
            table: self,
            file,
            next_block: 0,
            block: None,
            entry: 0,
            values: Vec::new(),
        }
    }
}

/// The footer and its checksum.
fn read_footer(bytes: &[u8], file_id: FileId) -> Result<(KlogFooter, u64), TailFault> {
    let tail = &bytes[bytes.len().saturating_sub(FOOTER_READ_BYTES)..];
    KlogFooter::decode(tail, file_id, bytes.len() as u64)
}

/// The copy of the dictionary in the properties, if these are whole and have one.
fn read_dictionary(bytes: &[u8], file: FileId, footer: &KlogFooter) -> Option<BlockDictionary> {
    let offset = footer.properties_offset;
    let end = bytes.len().checked_sub(KLOG_FOOTER_BYTES)?;
    let section = bytes.get(usize::try_from(offset).ok()?..end)?;
    let place = BlockPlace { file, offset };
    let (payload, _) = open_section(section, BlockKind::Properties, place).ok()?;
    decode_properties(&payload, file).ok()?.dictionary
}

/// A scan under way.
struct Scan<'a> {
    table: &'a mut ScannedTable,
    bytes: &'a [u8],
    footer: Option<KlogFooter>,
    last_key: Option<Vec<u8>>,
    /// The dictionary so far.
    sample: BlockDictionary,
    /// True once an index was met: data blocks lie before it.
    is_behind_entries: bool,
    /// Bytes that may still be hashed in search of a whole block.
    budget: u64,
}

impl Scan<'_> {
    fn run(mut self) {
        let end = match &self.footer {
            Some(_) => self.bytes.len() - KLOG_FOOTER_BYTES,
            None => self.bytes.len(),
        };
        let mut offset = 0;
        let mut damaged_from = None;
        while offset < end {
            match self.block(offset, end, damaged_from.is_some()) {
                Some(next) => {
                    if let Some(start) = damaged_from.take() {
                        // The block behind it was taken in already, and completes what is known of the damage.
                        self.close_damage(start, offset);
                    }
                    offset = next;
                }
                None => {
                    if damaged_from.is_none() {
                        damaged_from = Some(offset);
                        self.open_damage(offset);
                    }
                    offset += 1;
                }
            }
        }
        if let Some(start) = damaged_from {
            self.close_damage(start, end);
        }
    }

    /// The end of the whole block at `offset`, which was taken in.
    fn block(&mut self, offset: usize, end: usize, is_search: bool) -> Option<usize> {
        let head = self.bytes.get(offset..offset + BLOCK_HEADER_BYTES)?;
        let payload_bytes = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let block_end = offset
            .checked_add(BLOCK_HEADER_BYTES)?
            .checked_add(payload_bytes as usize)?;
        let is_plausible = (1..=4).contains(&head[16]) && head[17] <= 5 && block_end <= end;
        if !is_plausible {
            return None;
        }
        if is_search {
            self.budget = self.budget.checked_sub((block_end - offset) as u64)?;
        }
        let bytes = &self.bytes[offset..block_end];
        let place = BlockPlace {
            file: self.table.file_id,
            offset: offset as u64,
        };
        match head[16] {
            1 => self.data_block(bytes, place)?,
            2 => {
                open_block(bytes, BlockKind::Index, place).ok()?;
                self.is_behind_entries = true;
            }
            3 => {
                open_block(bytes, BlockKind::Filter, place).ok()?;
                self.is_behind_entries = true;
            }
            _ => {
                let (payload, _) = open_section(bytes, BlockKind::Properties, place).ok()?;
                self.table.properties = decode_properties(&payload, place.file).ok();
                self.table.properties.as_ref()?;
                self.is_behind_entries = true;
            }
        }
        Some(block_end)
    }

    fn data_block(&mut self, bytes: &[u8], place: BlockPlace) -> Option<()> {
        let mut block = DataBlock::decode(bytes.to_vec(), place.file, place.offset).ok()?;
        if let Some(dictionary) = &self.table.dictionary {
            block.set_dictionary(dictionary).ok()?;
        }
        let mut values = Vec::new();
        block.decompress_values(&mut values).ok()?;
        (0..block.entries()).try_for_each(|entry| block.value(entry, &values).ok().map(|_| ()))?;
        // It is made of the first blocks: behind damage nobody knows which these were.
        if self.table.damages.is_empty() && self.table.dictionary.is_none() {
            self.sample.add(&values);
            if self.sample.is_full() {
                let whole = std::mem::take(&mut self.sample);
                self.table.dictionary = Some(Arc::new(whole));
            }
        }
        let mut first = Vec::new();
        block.copy_key(0, &mut first);
        if let Some(damage) = self.table.damages.last_mut()
            && damage.bytes == 0
        {
            damage.before = Some(first);
        }
        if self.table.first_key.is_none() {
            let first = self.table.first_key.insert(Vec::new());
            block.copy_key(0, first);
        }
        let last = self.last_key.get_or_insert_default();
        block.copy_key(block.entries() - 1, last);
        self.table.entries += block.entries() as u64;
        self.table.blocks.push((place.offset, bytes.len() as u64));
        Some(())
    }

    /// Begins a damage, whose length is not known yet.
    fn open_damage(&mut self, offset: usize) {
        let is_behind_index = self
            .footer
            .as_ref()
            .is_some_and(|footer| offset as u64 >= footer.index_offset);
        self.table.damages.push(ScanDamage {
            offset: offset as u64,
            bytes: 0,
            may_hold_entries: !self.is_behind_entries && !is_behind_index,
            after: self.last_key.clone(),
            before: None,
        });
    }

    fn close_damage(&mut self, start: usize, end: usize) {
        if let Some(damage) = self.table.damages.last_mut() {
            damage.bytes = (end - start) as u64;
        }
    }
}

/// A walk over the entries of a scanned table.
pub struct ScannedEntries {
    table: Arc<ScannedTable>,
    file: Arc<dyn File>,
    next_block: usize,
    block: Option<DataBlock>,
    entry: usize,
    values: Vec<u8>,
}

impl std::fmt::Debug for ScannedEntries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScannedEntries")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl ScannedEntries {
    /// The next entry; `None` behind the last.
    ///
    /// # Errors
    /// When reading fails, and when the file changed since the scan.
    pub fn step(&mut self) -> StorageResult<Option<ScannedEntry>> {
        loop {
            if let Some(block) = &self.block
                && self.entry < block.entries()
            {
                let entry = read_entry(block, self.entry, &self.values)
                    .map_err(|fault| damaged(&self.table.name, 0, fault))?;
                self.entry += 1;
                return Ok(Some(entry));
            }
            let Some((offset, length)) = self.table.blocks.get(self.next_block).copied() else {
                return Ok(None);
            };
            self.next_block += 1;
            let table = &*self.table;
            let bytes = read_range(&*self.file, &table.name, offset, offset + length)?;
            let fail = |fault| damaged(&table.name, offset, fault);
            let mut block = DataBlock::decode(bytes, table.file_id, offset).map_err(fail)?;
            block.raise_sequences(table.sequence_base);
            if let Some(dictionary) = &table.dictionary {
                block.set_dictionary(dictionary).map_err(fail)?;
            }
            block.decompress_values(&mut self.values).map_err(fail)?;
            self.block = Some(block);
            self.entry = 0;
        }
    }
}

fn read_entry(
    block: &DataBlock,
    index: usize,
    values: &[u8],
) -> Result<ScannedEntry, kingtide_format::block::BlockFault> {
    let mut key = Vec::new();
    block.copy_key(index, &mut key);
    Ok(ScannedEntry {
        key,
        sequence: block.sequence(index),
        kind: block.kind(index),
        expires_at: block.expires_at(index),
        value: match block.value(index, values)? {
            ValueRef::Inline(bytes) => ScannedValue::Inline(bytes.to_vec()),
            ValueRef::Separated(pointer) => ScannedValue::Separated(pointer),
        },
    })
}

/// The value of `key` that `pointer` leads to in a value file of which only this record need be whole, and
/// the dictionary that it uses.
///
/// # Errors
/// When reading fails; `Corruption` when the record is damaged or belongs to another key.
pub fn scan_value(
    file: &dyn File,
    name: &str,
    pointer: &ValuePointer,
    (order, key): (&KeyOrder, &[u8]),
) -> StorageResult<Vec<u8>> {
    let (start, length) = (pointer.offset, u64::from(pointer.record_bytes));
    let end = start
        .checked_add(length)
        .ok_or_else(|| StorageError::malformed(name, start, "impossible value pointer"))?;
    let bytes = read_range(file, name, start, end)?;
    let place = BlockPlace {
        file: pointer.file,
        offset: start,
    };
    let mut value = Vec::new();
    // For itself alone: its dictionary, if it uses one, must be whole too, and nothing else.
    let dictionary = KeptDictionary::default();
    let header = dictionary.open_record((file, name), (&bytes, place), &mut value)?;
    if header.key_hash != key_hash(&order.identity(key)) || header.raw_bytes != pointer.value_bytes
    {
        return Err(StorageError::malformed(name, start, "value of another key"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
