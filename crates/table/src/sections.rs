//! What opening a table reads: footer, index, filter and properties, verified and decompressed.

use std::ops::Range;

use kingtide_base::{FileId, Fragment, StorageError, StorageResult, Truncated};
use kingtide_env::File;
use kingtide_format::TableMeta;
use kingtide_format::block::{BlockDictionary, BlockFault, BlockKind, BlockPlace, open_section};
use kingtide_format::klog::{
    FOOTER_READ_BYTES, KLOG_FOOTER_BYTES, KLOG_VERSION, KLOG_VERSION_CONTENT, KLOG_VERSION_FAMILY,
    KLOG_VERSION_PLAIN, KlogFooter, Properties, TailFault, decode_properties,
};

use crate::names::damaged;

/// The most bytes of index, filter and properties together: what opening a table may allocate at once.
const SECTIONS_BYTES_MAX: u64 = 2 << 30;

/// What opening reads from a file before it is compared with anything.
pub(crate) struct Sections {
    pub(crate) footer: KlogFooter,
    pub(crate) index: Vec<u8>,
    pub(crate) filter: Option<Vec<u8>>,
    pub(crate) order_name: String,
    pub(crate) meta: TableMeta,
    /// The range deletes, not yet checked against the order.
    pub(crate) ranges: Vec<Fragment>,
    pub(crate) dictionary: Option<BlockDictionary>,
}

/// What a table says about itself, for rebuilding a manifest: the name of its order, and the meta with which
/// [`Table::open`](crate::Table::open) accepts it. Only footer, index, filter and properties are verified;
/// [`Table::verify`](crate::Table::verify) does the rest.
///
/// # Errors
/// As [`Table::open`](crate::Table::open).
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
        let part = |range: Range<u64>| {
            &bytes[(range.start - start) as usize..(range.end - start) as usize]
        };
        let open = |kind, range: Range<u64>, checksum| {
            let place = BlockPlace {
                file: file_id,
                offset: range.start,
            };
            open_pinned(part(range), kind, place, checksum)
                .map_err(|fault| damaged(name, place.offset, fault))
        };
        let filter_range = footer.filter_offset..footer.properties_offset;
        let index_range = start..footer.filter_offset;
        let index = open(BlockKind::Index, index_range, footer.index_checksum)?;
        let filter = if filter_range.is_empty() {
            None
        } else {
            Some(open(
                BlockKind::Filter,
                filter_range,
                footer.filter_checksum,
            )?)
        };
        let properties_range = footer.properties_offset..footer_offset;
        let sum = footer.properties_checksum;
        let properties = open(BlockKind::Properties, properties_range, sum)?;
        let malformed = || StorageError::malformed(name, footer.properties_offset, "properties");
        let properties =
            decode_properties(&properties, file_id).map_err(|Truncated| malformed())?;
        if !fits_version(&properties, footer.version) {
            return Err(malformed());
        }
        let mut meta = properties.meta;
        meta.file_bytes = file_bytes;
        meta.footer_checksum = footer_checksum;
        Ok(Self {
            footer,
            index,
            filter,
            order_name: properties.order_name,
            meta,
            ranges: properties.ranges,
            dictionary: properties.dictionary,
        })
    }
}

/// True when a table of this version may say of itself what it does.
fn fits_version(properties: &Properties, version: u32) -> bool {
    let has_family = properties.family.is_some();
    let has_any = properties.meta.range_deletes > 0 || has_family;
    (!has_any || version > KLOG_VERSION_PLAIN)
        && (!has_family || version >= KLOG_VERSION_FAMILY)
        && properties.dictionary.is_some() == (version > KLOG_VERSION_CONTENT)
}

/// The payload of a section that must have the checksum which the footer records for it.
fn open_pinned(
    bytes: &[u8],
    kind: BlockKind,
    place: BlockPlace,
    checksum: u64,
) -> Result<Vec<u8>, BlockFault> {
    let (raw, found) = open_section(bytes, kind, place)?;
    if found == checksum {
        Ok(raw)
    } else {
        Err(BlockFault::mismatch(
            "section is not the one in the footer",
            checksum,
            found,
        ))
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
    let mut bytes = Vec::new();
    read_range_into(file, name, start..end, &mut bytes)?;
    Ok(bytes)
}

/// The same, in place of what `bytes` holds, in its memory if that is enough. After an error `bytes` is empty.
pub(crate) fn read_range_into(
    file: &dyn File,
    name: &str,
    range: Range<u64>,
    bytes: &mut Vec<u8>,
) -> StorageResult<()> {
    let outcome = try_read_range(file, name, range, bytes);
    if outcome.is_err() {
        bytes.clear();
    }
    outcome
}

fn try_read_range(
    file: &dyn File,
    name: &str,
    Range { start, end }: Range<u64>,
    bytes: &mut Vec<u8>,
) -> StorageResult<()> {
    const EARLY: &str = "file ends early";
    let length = usize::try_from(end.saturating_sub(start))
        .map_err(|_| StorageError::malformed(name, start, "impossible length"))?;
    if bytes.capacity() < length {
        // The old memory goes first, so that there are never two.
        *bytes = Vec::new();
        bytes
            .try_reserve_exact(length)
            .map_err(|_| StorageError::malformed(name, start, "impossible length"))?;
    }
    bytes.resize(length, 0);
    let read = file
        .read_at(bytes, start)
        .map_err(|error| StorageError::io(name, "read", error))?;
    if read == length {
        Ok(())
    } else {
        let fault = BlockFault::mismatch(EARLY, length as u64, read as u64);
        Err(damaged(name, start, fault))
    }
}
