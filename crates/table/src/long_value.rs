//! Values of a mebibyte and more: they pass without a second copy of themselves in memory, when they are stored as they are.
//!
//! Whether such a value is compressed is decided by samples, so that one that does not shrink is not compressed as a whole
//! to find that out. Compressed ones need room for what is stored besides the value.

use kingtide_base::{StorageResult, ValuePointer, key_hash};
use kingtide_collections::{LONG_VALUE_BYTES, long_value_samples};
use kingtide_env::File;
use kingtide_format::CodecId;
use kingtide_format::block::{BlockFault, BlockPlace, compress_if_smaller};
use kingtide_format::vlog::{
    RECORD_HEADER_BYTES, RecordHeader, StoredValue, check_raw_record, encode_stored_header,
    open_record, peek_record,
};

use crate::names::damaged;
use crate::output::Output;
use crate::sections::{read_range, read_range_into};
use crate::value_chunks::checksum_of;

/// So many bytes are written without a copy of them in the buffer.
const UNBUFFERED_BYTES_MIN: usize = 128 << 10;

/// True when `value` is long and samples of it hardly shrink under `codec`.
pub(crate) fn is_stored_raw(codec: CodecId, value: &[u8]) -> bool {
    if value.len() < LONG_VALUE_BYTES {
        return false;
    }
    let mut target = Vec::new();
    long_value_samples(value).all(|sample| {
        target.clear();
        compress_if_smaller(codec, sample, &mut target) == CodecId::None
    })
}

/// Appends the record of a value that is stored like this; the record's length in bytes, and its checksum.
pub(crate) fn append_stored(
    output: &mut Output,
    key: &[u8],
    stored: &StoredValue<'_>,
    place: BlockPlace,
) -> StorageResult<(u32, u64)> {
    let header = encode_stored_header(key_hash(key), stored, place);
    output.buffer().extend_from_slice(&header);
    match stored.bytes.len() {
        0..UNBUFFERED_BYTES_MIN => output.buffer().extend_from_slice(stored.bytes),
        _ => output.write_through(stored.bytes)?,
    }
    let record_bytes = (RECORD_HEADER_BYTES + stored.bytes.len()) as u32;
    Ok((record_bytes, checksum_of(&header)))
}

/// Reads the long value that `pointer` leads to into `value`, by way of `record` unless it is stored as it is. The caller judges
/// whose it is.
///
/// # Errors
/// When reading fails, and `Corruption`.
pub(crate) fn read_long(
    (file, name): (&dyn File, &str),
    pointer: &ValuePointer,
    (record, value): (&mut Vec<u8>, &mut Vec<u8>),
) -> StorageResult<RecordHeader> {
    let start = pointer.offset;
    let fault = |fault: BlockFault| damaged(name, start, fault);
    let place = BlockPlace {
        file: pointer.file,
        offset: start,
    };
    let value_start = start.saturating_add(RECORD_HEADER_BYTES as u64);
    let end = start.saturating_add(u64::from(pointer.record_bytes));
    let head = read_range(file, name, start, value_start)?;
    let is_raw = peek_record(&head).is_ok_and(|header| header.codec == CodecId::None);
    if is_raw {
        read_range_into(file, name, value_start..end, value)?;
        return check_raw_record(&head, value, place).map_err(fault);
    }
    read_range_into(file, name, start..end, record)?;
    open_record(record, place, value).map_err(fault)
}
