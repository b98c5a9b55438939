//! An open klog file.
//!
//! Opening reads footer, index, filter and properties, verifies them and keeps fences and filter in memory; from then
//! on a point read touches one data block (more only where versions of one key spill over). Data blocks are verified
//! when they are read from the file, and cached in their stored form or with raw values.

use std::sync::Arc;

use kingtide_base::{Fragments, KeyOrder, SeqNo, StorageError, StorageResult, Truncated};
use kingtide_collections::{
    Admission, BlockCache, BlockPlaces, Charge, Filter, Hit, prefetch_bytes,
};
use kingtide_env::File;
use kingtide_format::TableMeta;
use kingtide_format::block::{BlockDictionary, BlockFault, DataBlock};
use kingtide_format::klog::{KLOG_FOOTER_BYTES, KlogFooter};

use crate::cursor::{CursorUse, TableCursor};
use crate::fences::Fences;
use crate::habit::Habit;
use crate::names::damaged;
use crate::sections::{Sections, read_range};
use crate::value::{TableEntry, prefetch_value};

/// How blocks come into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedForm {
    /// With raw values, where there is room for them and they do not take too much more.
    RawWithRoom,
    /// As they are stored.
    Stored,
}

/// An open table; shared by all readers.
pub struct Table {
    pub(crate) file: Arc<dyn File>,
    pub(crate) name: String,
    pub(crate) meta: TableMeta,
    pub(crate) order: KeyOrder,
    pub(crate) fences: Fences,
    /// Whether cursors that come to a block which must be read walk on.
    pub(crate) habit: Habit,
    pub(crate) filter: Option<Filter>,
    pub(crate) ranges: Arc<Fragments>,
    /// Where the cache notes its blocks.
    places: Arc<BlockPlaces<DataBlock>>,
    pub(crate) footer: KlogFooter,
    /// What blocks are compressed with.
    pub(crate) dictionary: Option<Arc<BlockDictionary>>,
    /// What the table keeps in memory, once a cache keeps it.
    pub(crate) charge: Option<Charge>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name)
            .field("blocks", &self.fences.blocks())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Opens the table that `meta` describes. `name` is for messages; `order` must be the order it was written with.
    ///
    /// # Errors
    /// When reading fails; `Corruption` when the file is not, byte for byte in what is read here, the one that `meta`
    /// describes; `NewerVersion`.
    pub fn open(
        file: Arc<dyn File>,
        name: String,
        meta: &TableMeta,
        order: KeyOrder,
    ) -> StorageResult<Self> {
        let mut sections = Sections::read(&*file, &name, meta.file)?;
        sections.meta.raise_sequences(meta.sequence_base);
        sections.meta.oldest_tombstone = meta.oldest_tombstone;
        let end = sections.meta.file_bytes;
        if end != meta.file_bytes {
            let fault = BlockFault::mismatch("length of the file", meta.file_bytes, end);
            return Err(damaged(&name, 0, fault));
        }
        let footer_offset = end - KLOG_FOOTER_BYTES as u64;
        let (expected, found) = (meta.footer_checksum, sections.meta.footer_checksum);
        if expected != found {
            let fault = BlockFault::mismatch("footer is not the one recorded", expected, found);
            return Err(damaged(&name, footer_offset, fault));
        }
        let properties_offset = sections.footer.properties_offset;
        if sections.meta != *meta {
            let fault = BlockFault::malformed("properties are not the ones recorded");
            return Err(damaged(&name, properties_offset, fault));
        }
        if sections.order_name != order.name() {
            let what = format!(
                "keys are in the order {:?}, not {:?}",
                sections.order_name,
                order.name()
            );
            return Err(StorageError::malformed(name, properties_offset, what));
        }
        if meta.sequence_base > SeqNo::ZERO && !sections.ranges.is_empty() {
            let what = "range deletes in a table of a bulk load";
            return Err(StorageError::malformed(name, properties_offset, what));
        }
        let ranges = Fragments::from_list(&order, sections.ranges).ok_or_else(|| {
            StorageError::malformed(&*name, properties_offset, "range deletes out of order")
        })?;
        let index_offset = sections.footer.index_offset;
        let fences = Fences::decode(&sections.index, &order)
            .map_err(|Truncated| StorageError::malformed(&*name, index_offset, "index"))?;
        if fences.data_end() != index_offset || fences.blocks() != sections.footer.blocks as usize {
            let fault = BlockFault::mismatch(
                "index does not describe the blocks",
                index_offset,
                fences.data_end(),
            );
            return Err(damaged(&name, index_offset, fault));
        }
        let filter_offset = sections.footer.filter_offset;
        let filter = sections.filter.map(Filter::new).transpose();
        let filter =
            filter.map_err(|_| StorageError::malformed(&*name, filter_offset, "filter"))?;
        Ok(Self {
            file,
            name,
            meta: sections.meta,
            order,
            places: BlockPlaces::new(fences.blocks()),
            fences,
            habit: Habit::default(),
            filter,
            ranges: Arc::new(ranges),
            footer: sections.footer,
            dictionary: sections.dictionary.map(Arc::new),
            charge: None,
        })
    }

    /// The newest version of `key` with a sequence number of at most `snapshot`, of any kind, expired or not, hidden by a
    /// range delete or not.
    /// `hash` is the hash of the key by the family's order; without it the filter is not asked.
    ///
    /// # Errors
    /// When reading fails, and when a block that could hold the key is damaged.
    pub fn get(
        &self,
        key: &[u8],
        hash: Option<u64>,
        snapshot: SeqNo,
        cache: &BlockCache<DataBlock>,
    ) -> StorageResult<Option<TableEntry>> {
        if let (Some(filter), Some(hash)) = (&self.filter, hash)
            && !filter.may_contain(hash)
        {
            return Ok(None);
        }
        let first = self.fences.first_at_or_after(&self.order, key);
        for index in first..self.fences.blocks() {
            let block = self.block(index, cache)?;
            let mut entry = block.lower_bound(&self.order, key);
            if entry == block.entries() {
                // The separator is after the last key, and `key` between them.
                return Ok(None);
            }
            prefetch_value(&block, entry);
            if !block.has_key(&self.order, entry, key) {
                return Ok(None);
            }
            entry = block.first_visible(&self.order, entry, key, snapshot);
            if entry < block.entries() {
                if !block.has_key(&self.order, entry, key) {
                    return Ok(None);
                }
                return TableEntry::read(&block, entry)
                    .map(Some)
                    .map_err(|fault| self.damaged_block(index, fault));
            }
            // All versions here are too new; older ones may be in the next block.
        }
        Ok(None)
    }

    /// The sequence number of the newest range delete of this table over `key` that `snapshot` sees; 0 when there is none.
    /// Versions of the key with smaller numbers are hidden, wherever they are.
    #[inline]
    #[must_use]
    pub fn range_cover(&self, key: &[u8], snapshot: SeqNo) -> SeqNo {
        if self.ranges.is_empty() {
            return SeqNo::ZERO;
        }
        self.ranges.cover(&self.order, key, snapshot)
    }

    /// The range deletes of this table.
    #[must_use]
    pub fn ranges(&self) -> &Arc<Fragments> {
        &self.ranges
    }

    /// Asks the processor to fetch what a read of a key with this hash looks at first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(filter) = &self.filter {
            filter.prefetch(hash);
        }
    }

    /// A cursor over the whole table.
    #[must_use]
    pub fn cursor(
        self: &Arc<Self>,
        cache: &Arc<BlockCache<DataBlock>>,
        cursor_use: CursorUse,
    ) -> TableCursor {
        TableCursor::new(Arc::clone(self), Arc::clone(cache), cursor_use)
    }

    /// Bytes of the data blocks that may hold keys between `first` and `last`, both included.
    #[must_use]
    pub fn bytes_between(&self, first: &[u8], last: &[u8]) -> u64 {
        let blocks = self.fences.blocks();
        let start = self.fences.first_at_or_after(&self.order, first);
        if start >= blocks || self.order.compare(first, last).is_gt() {
            return 0;
        }
        let end = self.fences.first_at_or_after(&self.order, last);
        self.fences.extent(end.min(blocks - 1)).end - self.fences.extent(start).start
    }

    /// What the table keeps in memory besides cached blocks, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::memory_bytes);
        let keys = self.meta.smallest.len() + self.meta.largest.len();
        let blocks = self.fences.memory_bytes() + self.places.memory_bytes();
        let dictionary = self.dictionary.as_ref();
        let dictionary = dictionary.map_or(0, |dictionary| dictionary.memory_bytes());
        size_of::<Self>() + blocks + self.ranges.memory_bytes() + filter + keys + dictionary
    }

    /// What the manifest records about the table.
    #[must_use]
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Data block `index`, from the cache or the file; enters the cache.
    #[inline]
    pub(crate) fn block(
        &self,
        index: usize,
        cache: &BlockCache<DataBlock>,
    ) -> StorageResult<Arc<DataBlock>> {
        if let Some(block) = self.cached_block(index, cache) {
            return Ok(block);
        }
        let block = self.read_block(index)?;
        Ok(self.cache_block(index, block, (cache, CachedForm::RawWithRoom)))
    }

    /// Data block `index`, if the cache has it.
    #[inline]
    pub(crate) fn cached_block(
        &self,
        index: usize,
        cache: &BlockCache<DataBlock>,
    ) -> Option<Arc<DataBlock>> {
        let key = || (self.meta.file, self.fences.extent(index).start);
        let hit = cache.get_at((&self.places, index), key)?;
        let block = self.take_hit(index, hit, cache);
        prefetch_bytes(block.search_bytes());
        Some(block)
    }

    /// As [`Table::cached_block`], with a look at the table's own note alone; for walks that leave the cache as it is.
    #[inline]
    pub(crate) fn noted_block(
        &self,
        index: usize,
        cache: &BlockCache<DataBlock>,
    ) -> Option<Arc<DataBlock>> {
        let hit = cache.get_noted_at(&self.places, index)?;
        Some(self.take_hit(index, hit, cache))
    }

    /// The block that was found, in a form that is read faster if it is hot and the cache has room for that.
    #[inline]
    fn take_hit(
        &self,
        index: usize,
        Hit { block, is_hot }: Hit<DataBlock>,
        cache: &BlockCache<DataBlock>,
    ) -> Arc<DataBlock> {
        match is_hot {
            true => self.exchange_hot(index, block, cache),
            false => block,
        }
    }

    /// Gives data block `index`, which is asked for often, raw values in the cache, if that is worth it and may be; answers it in
    /// the form that readers share then.
    #[cold]
    fn exchange_hot(
        &self,
        index: usize,
        block: Arc<DataBlock>,
        cache: &BlockCache<DataBlock>,
    ) -> Arc<DataBlock> {
        let key = (self.meta.file, self.fences.extent(index).start);
        let is_admitted =
            worthwhile_raw_bytes(&block).is_some_and(|raw_bytes| cache.admits_hot(&key, raw_bytes));
        if !is_admitted {
            return block;
        }
        // One whose values do not decompress stays as it is: whoever reads them is told.
        let Ok(raw) = block.with_raw_values(cache.memory()) else {
            return block;
        };
        let charge = raw.memory_bytes();
        let shared = cache.exchange_at(key, (&self.places, index), Arc::new(raw), charge);
        self.places.expect_look_at(index, shared.search_bytes());
        shared
    }

    /// Whether data block `index` is noted as cached.
    pub(crate) fn is_noted(&self, index: usize) -> bool {
        self.places.holds(index)
    }

    /// Puts data block `index` into the cache, in this form; answers the one that all readers share.
    pub(crate) fn cache_block(
        &self,
        index: usize,
        block: DataBlock,
        (cache, form): (&BlockCache<DataBlock>, CachedForm),
    ) -> Arc<DataBlock> {
        let key = (self.meta.file, self.fences.extent(index).start);
        let loose_bytes = match form {
            CachedForm::RawWithRoom => worthwhile_raw_bytes(&block),
            CachedForm::Stored => None,
        };
        let admission = cache.admit(&key, block.memory_bytes(), loose_bytes);
        let raw = match admission {
            Admission::Refused => return Arc::new(block),
            Admission::Taken => None,
            // One whose values do not decompress stays as it is: whoever reads them is told.
            Admission::TakenLoose => block.with_raw_values(cache.memory()).ok(),
        };
        let is_loose = raw.is_some();
        let block = raw.unwrap_or_else(|| block.moved_to(cache.memory()));
        let charge = (block.memory_bytes(), is_loose);
        let shared = cache.insert_at(key, (&self.places, index), Arc::new(block), charge);
        self.places.expect_look_at(index, shared.search_bytes());
        shared
    }

    /// Data block `index`, from the file.
    pub(crate) fn read_block(&self, index: usize) -> StorageResult<DataBlock> {
        let extent = self.fences.extent(index);
        let bytes = read_range(&*self.file, &self.name, extent.start, extent.end)?;
        self.decode_block(index, bytes)
    }

    /// Data block `index` from its bytes.
    pub(crate) fn decode_block(&self, index: usize, bytes: Vec<u8>) -> StorageResult<DataBlock> {
        let offset = self.fences.extent(index).start;
        let fault = |fault| self.damaged_block(index, fault);
        let mut block = DataBlock::decode(bytes, self.meta.file, offset).map_err(fault)?;
        block.raise_sequences(self.meta.sequence_base);
        if let Some(dictionary) = &self.dictionary {
            block.set_dictionary(dictionary).map_err(fault)?;
        }
        Ok(block)
    }

    pub(crate) fn damaged_block(&self, index: usize, fault: BlockFault) -> StorageError {
        damaged(&self.name, self.fences.extent(index).start, fault)
    }
}

/// A block with raw values may take so many times the memory of the stored one. Where values compress better than that, room
/// for one raw block is room for many, and a single value is put together quickly.
const RAW_TIMES_MAX: usize = 3;

/// The most memory, about, that the blocks of the table that `meta` describes take in a cache with room for all of them.
#[must_use]
pub fn cached_bytes_max(meta: &TableMeta) -> u64 {
    let raw_bytes_max = meta.file_bytes.saturating_mul(RAW_TIMES_MAX as u64);
    meta.raw_bytes.min(raw_bytes_max).max(meta.file_bytes)
}

/// What a block takes with raw values, if they are compressed and it is worth it.
fn worthwhile_raw_bytes(block: &DataBlock) -> Option<usize> {
    let bytes = block.raw_memory_bytes();
    let is_worth_it = block.raw_values().is_none() && bytes <= RAW_TIMES_MAX * block.memory_bytes();
    is_worth_it.then_some(bytes)
}
