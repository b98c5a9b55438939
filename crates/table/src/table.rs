//! An open klog file.
//!
//! Opening reads footer, index, filter and properties, verifies them and keeps fences and filter in memory; from then
//! on a point read touches one data block (more only where versions of one key spill over). Data blocks are verified
//! when they are read from the file and cached in their stored form.

use std::sync::Arc;

use kingtide_base::{FileId, KeyOrder, SeqNo, StorageError, StorageResult, Truncated};
use kingtide_env::File;
use kingtide_format::TableMeta;
use kingtide_format::block::{BlockFault, BlockKind, BlockPlace, DataBlock, open_section};
use kingtide_format::klog::{
    FOOTER_READ_BYTES, KLOG_FOOTER_BYTES, KLOG_VERSION, KlogFooter, TailFault, decode_properties,
};

use crate::cursor::{CursorUse, TableCursor};
use crate::fences::Fences;
use crate::names::damaged;
use crate::value::TableEntry;
use kingtide_collections::{BlockCache, Filter};

/// The most bytes of index, filter and properties together: what opening a table may allocate at once.
const SECTIONS_BYTES_MAX: u64 = 2 << 30;

/// An open table; shared by all readers.
pub struct Table {
    pub(crate) file: Arc<dyn File>,
    pub(crate) name: String,
    pub(crate) meta: TableMeta,
    pub(crate) order: KeyOrder,
    pub(crate) fences: Fences,
    pub(crate) filter: Option<Filter>,
    pub(crate) footer: KlogFooter,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name)
            .field("blocks", &self.fences.blocks())
            .finish_non_exhaustive()
    }
}

/// What opening reads from a file before it is compared with anything.
pub(crate) struct Sections {
    pub(crate) footer: KlogFooter,
    pub(crate) index: Vec<u8>,
    pub(crate) filter: Option<Vec<u8>>,
    pub(crate) order_name: String,
    pub(crate) meta: TableMeta,
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
        let sections = Sections::read(&*file, &name, meta.file)?;
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
        let filter = match sections.filter {
            Some(bytes) => Some(Filter::new(bytes).map_err(|_| {
                StorageError::malformed(&*name, sections.footer.filter_offset, "filter")
            })?),
            None => None,
        };
        Ok(Self {
            file,
            name,
            meta: sections.meta,
            order,
            fences,
            filter,
            footer: sections.footer,
        })
    }

    /// The newest version of `key` with a sequence number of at most `snapshot`, of any kind, expired or not.
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

    /// A cursor over the whole table.
    #[must_use]
    pub fn cursor(
        self: &Arc<Self>,
        cache: &Arc<BlockCache<DataBlock>>,
        cursor_use: CursorUse,
    ) -> TableCursor {
        TableCursor::new(Arc::clone(self), Arc::clone(cache), cursor_use)
    }

    /// What the table keeps in memory besides cached blocks, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::memory_bytes);
        let keys = self.meta.smallest.len() + self.meta.largest.len();
        size_of::<Self>() + self.fences.memory_bytes() + filter + keys
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
        let key = (self.meta.file, self.fences.extent(index).start);
        if let Some(block) = cache.get(&key) {
            return Ok(block);
        }
        let block = Arc::new(self.read_block(index)?);
        let charge = block.memory_bytes();
        Ok(cache.insert(key, block, charge))
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
        DataBlock::decode(bytes, self.meta.file, offset)
            .map_err(|fault| self.damaged_block(index, fault))
    }

    pub(crate) fn damaged_block(&self, index: usize, fault: BlockFault) -> StorageError {
        damaged(&self.name, self.fences.extent(index).start, fault)
    }
}

/// What a table says about itself, for rebuilding a manifest: the name of its order, and the meta with which
/// [`Table::open`] accepts it. Only footer, index, filter and properties are verified; [`Table::verify`] does the rest.
///
/// # Errors
/// As [`Table::open`].
pub fn read_table_meta(
    file: &dyn File,
    name: &str,
    file_id: FileId,
) -> StorageResult<(String, TableMeta)> {
    let sections = Sections::read(file, name, file_id)?;
    Ok((sections.order_name, sections.meta))
}

impl Sections {
    pub(crate) fn read(file: &dyn File, name: &str, file_id: FileId) -> StorageResult<Self> {
        let file_bytes = file
            .len()
            .map_err(|error| StorageError::io(name, "read", error))?;
        let tail_start = file_bytes.saturating_sub(FOOTER_READ_BYTES as u64);
        let tail = read_range(file, name, tail_start, file_bytes)?;
        let footer_offset = file_bytes.saturating_sub(KLOG_FOOTER_BYTES as u64);
        let (footer, footer_checksum) = KlogFooter::decode(&tail, file_id, file_bytes)
            .map_err(|fault| tail_error(name, footer_offset, fault, KLOG_VERSION))?;

        let start = footer.index_offset;
        if footer_offset - start > SECTIONS_BYTES_MAX {
            return Err(StorageError::malformed(
                name,
                start,
                "impossible length of the index",
            ));
        }
        let bytes = if start >= tail_start {
            // Small tables: everything came with the footer.
            let range = (start - tail_start) as usize..(footer_offset - tail_start) as usize;
            tail[range].to_vec()
        } else {
            read_range(file, name, start, footer_offset)?
        };
        let open = |kind, range: std::ops::Range<u64>, checksum: u64| {
            let part = &bytes[(range.start - start) as usize..(range.end - start) as usize];
            let place = BlockPlace {
                file: file_id,
                offset: range.start,
            };
            let (raw, found) = open_section(part, kind, place)
                .map_err(|fault| damaged(name, range.start, fault))?;
            if found == checksum {
                return Ok(raw);
            }
            let fault =
                BlockFault::mismatch("section is not the one in the footer", checksum, found);
            Err(damaged(name, range.start, fault))
        };
        let filter_range = footer.filter_offset..footer.properties_offset;
        let index = open(
            BlockKind::Index,
            start..footer.filter_offset,
            footer.index_checksum,
        )?;
        let filter = if filter_range.is_empty() {
            None
        } else {
            Some(open(
                BlockKind::Filter,
                filter_range,
                footer.filter_checksum,
            )?)
        };
        let properties = open(
            BlockKind::Properties,
            footer.properties_offset..footer_offset,
            footer.properties_checksum,
        )?;
        let (order_name, mut meta) =
            decode_properties(&properties, file_id).map_err(|Truncated| {
                StorageError::malformed(name, footer.properties_offset, "properties")
            })?;
        meta.file_bytes = file_bytes;
        meta.footer_checksum = footer_checksum;
        Ok(Self {
            footer,
            index,
            filter,
            order_name,
            meta,
        })
    }
}

/// The error that reports a footer or file header that cannot be used.
pub(crate) fn tail_error(
    name: &str,
    offset: u64,
    fault: TailFault,
    supported: u32,
) -> StorageError {
    match fault {
        TailFault::Damaged(fault) => damaged(name, offset, fault),
        TailFault::Newer(found) => StorageError::NewerVersion {
            file: name.to_owned(),
            found,
            supported,
        },
    }
}

/// The bytes `start..end` of a file that must have them: an early end is damage.
pub(crate) fn read_range(
    file: &dyn File,
    name: &str,
    start: u64,
    end: u64,
) -> StorageResult<Vec<u8>> {
    const EARLY: &str = "file ends early";
    let length = usize::try_from(end.saturating_sub(start))
        .map_err(|_| StorageError::malformed(name, start, "impossible length"))?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| StorageError::malformed(name, start, "impossible length"))?;
    bytes.resize(length, 0);
    let read = file
        .read_at(&mut bytes, start)
        .map_err(|error| StorageError::io(name, "read", error))?;
    if read == length {
        Ok(bytes)
    } else {
        let fault = BlockFault::mismatch(EARLY, length as u64, read as u64);
        Err(damaged(name, start, fault))
    }
}
