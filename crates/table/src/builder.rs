//! Writes a klog file from entries in order: data blocks as they fill, then index, filter, properties and footer.
//!
//! Separators between blocks are as short as byte order allows; other orders keep the last key. The file is complete
//! and durable when [`TableBuilder::finish`] returns; its *name* becomes durable when the caller syncs the directory.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use kingtide_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use kingtide_base::{
    EntryRef, FamilyId, FileId, Fragments, KeyOrder, SeqNo, StorageError, StorageResult, ValueRef,
    checksum_mix,
};
use kingtide_env::File;
use kingtide_format::block::{BlockKind, BlockPlace, DataBlockBuilder, write_section};
use kingtide_format::klog::{
    IndexBuilder, KLOG_VERSION, KLOG_VERSION_CONTENT, KlogFooter, encode_properties,
    shortest_separator,
};
use kingtide_format::{CodecId, OldestTombstone, TableMeta, ValueFileUse};

use crate::block_dictionary::BlockPacker;
use crate::names::{damaged, klog_path};
use crate::output::{Output, Unsynced};
use kingtide_collections::{FilterBuilder, MemoryBudget};

/// The smallest and the largest target for the raw bytes of a block.
const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 256..=1 << 20;

/// How a table is written.
#[derive(Clone, Debug)]
pub struct TableSettings {
    /// Raw bytes after which a block is cut; about 4096. Values outside 256 B to 1 MiB are brought inside.
    pub block_bytes: usize,
    /// How value columns, index and properties are compressed.
    pub codec: CodecId,
    /// The false positive rate of the filter; `None` for no filter.
    pub filter_fpr: Option<f64>,
    /// The family's order.
    pub order: KeyOrder,
}

/// Writes one table. Dropping it without [`TableBuilder::finish`] leaves an incomplete file to be removed.
pub struct TableBuilder {
    output: Output,
    settings: TableSettings,
    block: DataBlockBuilder,
    packer: BlockPacker,
    index: IndexBuilder,
    /// The digest of the data blocks so far.
    content: u64,
    filter: Option<FilterBuilder>,
    hash_last: Option<u64>,
    /// What is known so far; `file_bytes`, `footer_checksum`, `largest` and `value_files` come at the end.
    meta: TableMeta,
    value_files: BTreeMap<FileId, (u64, u64)>,
    ranges: Fragments,
    family: Option<(FamilyId, String)>,
    separator: Vec<u8>,
    /// The last entry, for the check of the order in debug builds.
    previous: Option<(Vec<u8>, SeqNo)>,
}

impl std::fmt::Debug for TableBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableBuilder")
            .field("file", &self.meta.file)
            .field("entries", &self.meta.entries)
            .finish_non_exhaustive()
    }
}

impl TableBuilder {
    /// Begins the table `file_id` in `file`, which must be new and empty.
    #[must_use]
    pub fn new(file: Arc<dyn File>, file_id: FileId, settings: TableSettings) -> Self {
        let mut settings = settings;
        settings.block_bytes = settings
            .block_bytes
            .clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        let filter = settings
            .filter_fpr
            .filter(|_| settings.order.has_hash())
            .map(FilterBuilder::new);
        Self {
            output: Output::new(file, klog_path(file_id)),
            block: DataBlockBuilder::new(),
            packer: BlockPacker::without_dictionary(settings.codec),
            settings,
            index: IndexBuilder::new(),
            content: 0,
            filter,
            hash_last: None,
            meta: TableMeta {
                file: file_id,
                file_bytes: 0,
                footer_checksum: 0,
                smallest: Vec::new(),
                largest: Vec::new(),
                is_largest_excluded: false,
                sequence_min: SeqNo::MAX,
                sequence_max: SeqNo::ZERO,
                sequence_base: SeqNo::ZERO,
                entries: 0,
                tombstones: 0,
                oldest_tombstone: OldestTombstone::default(),
                range_deletes: 0,
                raw_bytes: 0,
                value_files: Vec::new(),
            },
            value_files: BTreeMap::new(),
            ranges: Fragments::default(),
            family: None,
            separator: Vec::new(),
            previous: None,
        }
    }

    /// Counts the memory that the builder takes in `budget`.
    #[must_use]
    pub fn with_budget(mut self, budget: &Arc<MemoryBudget>) -> Self {
        self.output.set_budget(budget);
        self
    }

    /// Bytes of memory that grow with the table: filter and index.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, FilterBuilder::memory_bytes);
        filter + self.index.bytes()
    }

    /// Adds the next entry: keys ascending, for one key the newest version first.
    ///
    /// # Errors
    /// When writing fails, and (`InvalidInput`) when key, value or expiry are outside the limits. The table is then
    /// unusable.
    pub fn add(&mut self, entry: &EntryRef<'_>) -> StorageResult<()> {
        self.check_limits(entry)?;
        if cfg!(debug_assertions) {
            self.check_order(entry);
        }
        let raw_bytes = self.block.raw_bytes() + DataBlockBuilder::entry_raw_bytes(entry);
        let is_over = raw_bytes > self.settings.block_bytes || self.block.is_full();
        if is_over && !self.block.is_empty() {
            self.cut_block(Some(entry.key))?;
        }
        if self.meta.entries == 0 {
            self.meta.smallest = entry.key.to_vec();
        }
        self.count(entry);
        if let Some(filter) = &mut self.filter {
            let hash = self.settings.order.hash(entry.key);
            if let Some(new) = hash.filter(|_| hash != self.hash_last) {
                filter.add_hash(new);
                self.hash_last = hash;
            }
        }
        self.block.add(entry);
        Ok(())
    }

    /// Tells the table, before its first entry, for which family it is written, so that a manifest can be rebuilt. Only tables of
    /// a family may have a dictionary.
    pub fn set_family(&mut self, id: FamilyId, name: String) {
        self.family = Some((id, name));
        self.packer = BlockPacker::new(self.settings.codec);
    }

    /// Gives the table its range deletes, which the caller has cut to its keys; each has an end. They may begin before the
    /// first entry and end behind the last.
    pub fn set_ranges(&mut self, ranges: Fragments) {
        self.ranges = ranges;
    }

    /// What the file would be long now, roughly, in bytes.
    #[must_use]
    pub fn file_bytes_estimate(&self) -> u64 {
        self.output.position() + (self.block.raw_bytes() + self.index.bytes()) as u64
    }

    /// Entries added so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.meta.entries
    }

    /// Writes what is missing and syncs the file. The caller syncs the directory.
    ///
    /// # Errors
    /// When writing or syncing fails; the file is then unusable.
    pub fn finish(self) -> StorageResult<TableMeta> {
        let (meta, unsynced) = self.finish_unsynced()?;
        unsynced.sync()?;
        Ok(meta)
    }

    /// As [`TableBuilder::finish`]; leaves syncing the file to the caller, who can have several on their way to the device at the
    /// same time.
    ///
    /// # Errors
    /// When writing fails; the file is then unusable.
    pub fn finish_unsynced(mut self) -> StorageResult<(TableMeta, Unsynced)> {
        self.meta.largest = self.block.last_key().to_vec();
        widen_by_ranges(&mut self.meta, &self.ranges, &self.settings.order);
        self.cut_block(None)?;
        if self.meta.entries == 0 && self.ranges.is_empty() {
            self.meta.sequence_min = SeqNo::ZERO;
        }
        let uses = std::mem::take(&mut self.value_files);
        self.meta.value_files = uses
            .into_iter()
            .map(|(file, (records, bytes))| ValueFileUse {
                file,
                records,
                bytes,
            })
            .collect();
        let (blocks, codec) = (self.index.blocks(), self.settings.codec);
        let index = std::mem::take(&mut self.index).finish();
        let filter = self.filter.take().map(FilterBuilder::finish);
        let dictionary = self.packer.dictionary();
        let family = self.family.as_ref();
        let family = family.map(|(id, name)| (*id, name.as_str(), dictionary.as_ref()));
        let order_name = self.settings.order.name();
        let properties = encode_properties(&self.meta, order_name, &self.ranges, family);

        let (index_offset, index_checksum) = self.section(BlockKind::Index, codec, &index)?;
        let (filter_offset, filter_checksum) = match filter {
            // Bits of a filter at its best density do not compress.
            Some(bytes) => self.section(BlockKind::Filter, CodecId::None, &bytes)?,
            None => (self.output.position(), 0),
        };
        let (properties_offset, properties_checksum) =
            self.section(BlockKind::Properties, codec, &properties)?;
        let footer = KlogFooter {
            index_offset,
            filter_offset,
            properties_offset,
            index_checksum,
            filter_checksum,
            properties_checksum,
            blocks,
            codec,
            content: self.content,
            version: match dictionary {
                Some(_) => KLOG_VERSION,
                None => KLOG_VERSION_CONTENT,
            },
        };
        let (bytes, sum) = footer.encode(self.meta.file, self.output.position());
        self.output.buffer().extend_from_slice(&bytes);
        self.meta.footer_checksum = sum;
        let (bytes, unsynced) = self.output.end()?;
        self.meta.file_bytes = bytes;
        Ok((self.meta, unsynced))
    }

    fn section(
        &mut self,
        kind: BlockKind,
        codec: CodecId,
        raw: &[u8],
    ) -> StorageResult<(u64, u64)> {
        let place = self.place();
        let sum = write_section(self.output.buffer(), kind, codec, raw, place)
            .map_err(|fault| damaged(self.output.name(), place.offset, fault))?;
        self.output.flush_if_full()?;
        Ok((place.offset, sum))
    }

    fn place(&self) -> BlockPlace {
        BlockPlace {
            file: self.meta.file,
            offset: self.output.position(),
        }
    }

    /// Writes the collected block. `next` is the key that follows, if any.
    fn cut_block(&mut self, next: Option<&[u8]>) -> StorageResult<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let place = self.place();
        let mut shortened = std::mem::take(&mut self.separator);
        let last = self.block.last_key();
        let separator = match next {
            Some(next) if self.settings.order.is_bytewise() => {
                shortest_separator(last, next, &mut shortened).to_vec()
            }
            _ => last.to_vec(),
        };
        let written = self
            .packer
            .finish(&mut self.block, place, self.output.buffer());
        self.content = written.map_or(self.content, |sum| checksum_mix(self.content, sum));
        self.index
            .add(self.output.position() - place.offset, &separator);
        self.separator = shortened;
        let packed = self.packer.memory_bytes();
        self.output.account(self.memory_bytes() + packed);
        self.output.flush_if_full()
    }

    fn count(&mut self, entry: &EntryRef<'_>) {
        let meta = &mut self.meta;
        let value_bytes = match &entry.value {
            ValueRef::Inline(bytes) => bytes.len() as u64,
            ValueRef::Separated(pointer) => {
                let used = self.value_files.entry(pointer.file).or_default();
                used.0 += 1;
                used.1 += u64::from(pointer.record_bytes);
                u64::from(pointer.value_bytes)
            }
        };
        meta.entries += 1;
        if entry.kind.is_tombstone() {
            meta.tombstones += 1;
            note_tombstone(meta, entry.sequence);
        }
        meta.raw_bytes += entry.key.len() as u64 + value_bytes;
        meta.sequence_min = meta.sequence_min.min(entry.sequence);
        meta.sequence_max = meta.sequence_max.max(entry.sequence);
    }

    fn check_limits(&self, entry: &EntryRef<'_>) -> StorageResult<()> {
        let is_value_long = match &entry.value {
            ValueRef::Inline(bytes) => bytes.len() > VALUE_BYTES_MAX,
            ValueRef::Separated(_) => false,
        };
        if entry.key.len() <= KEY_BYTES_MAX && !is_value_long && entry.expires_at >= 0 {
            return Ok(());
        }
        Err(StorageError::io(
            self.output.name(),
            "write",
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "entry outside the limits of keys, values or expiry",
            ),
        ))
    }

    fn check_order(&mut self, entry: &EntryRef<'_>) {
        if let Some((key, sequence)) = &self.previous {
            let is_ordered = match self.settings.order.compare(key, entry.key) {
                Ordering::Less => true,
                Ordering::Equal => *sequence >= entry.sequence,
                Ordering::Greater => false,
            };
            debug_assert!(is_ordered, "entries must be added in order");
        }
        let (key, sequence) = self.previous.get_or_insert_default();
        key.clear();
        key.extend_from_slice(entry.key);
        *sequence = entry.sequence;
    }
}

/// Notes a tombstone, or range delete, with this number.
pub(crate) fn note_tombstone(meta: &mut TableMeta, sequence: SeqNo) {
    let oldest = &mut meta.oldest_tombstone.sequence;
    if *oldest == SeqNo::ZERO || sequence < *oldest {
        *oldest = sequence;
    }
}

/// Widens what `meta` knows of the keys and numbers of the entries by the range deletes beside them.
pub(crate) fn widen_by_ranges(meta: &mut TableMeta, ranges: &Fragments, order: &KeyOrder) {
    let (Some(first), Some(last)) = (ranges.list().first(), ranges.list().last()) else {
        return;
    };
    let has_entries = meta.entries > 0;
    if !has_entries || order.compare(&first.start, &meta.smallest).is_lt() {
        meta.smallest = first.start.to_vec();
    }
    if !has_entries || order.compare(&last.end, &meta.largest).is_gt() {
        meta.largest = last.end.to_vec();
        // The successor of the longest key is too long for a key: then that key itself is the largest.
        meta.is_largest_excluded = last.end.len() <= KEY_BYTES_MAX;
        meta.largest.truncate(KEY_BYTES_MAX);
    }
    note_tombstone(meta, ranges.oldest());
    meta.sequence_min = meta.sequence_min.min(ranges.oldest());
    meta.sequence_max = meta.sequence_max.max(ranges.newest());
    let numbers = ranges
        .list()
        .iter()
        .map(|fragment| fragment.sequences().len());
    meta.range_deletes = numbers.sum::<usize>() as u64;
}
