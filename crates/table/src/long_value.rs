//! Values of a mebibyte and more: they pass without a second copy of themselves in memory, when they are stored as they are.
//!
//! Whether such a value is compressed is decided by samples, so that one that does not shrink is not compressed as a whole
//! to find that out. Compressed ones need room for what is stored besides the value.

use kingtide_base::{StorageResult, ValuePointer, key_hash};
use kingtide_env::File;
use kingtide_format::CodecId;
use kingtide_format::block::{BlockFault, BlockPlace, compress_if_smaller};
use kingtide_format::vlog::{
    RECORD_HEADER_BYTES, RecordHeader, check_raw_record, encode_raw_header, open_record,
    peek_record,
};

use crate::names::damaged;
use crate::output::Output;
use crate::sections::{read_range, read_range_into};
use crate::value_chunks::checksum_of;

/// Values of so many bytes are long.
pub(crate) const LONG_VALUE_BYTES: usize = 1 << 20;
/// Samples that are compressed, and their length in bytes.
const SAMPLES: usize = 4;
const SAMPLE_BYTES: usize = 64 << 10;

/// True when `value` is long and samples of it hardly shrink under `codec`.
pub(crate) fn is_stored_raw(codec: CodecId, value: &[u8]) -> bool {
    if value.len() < LONG_VALUE_BYTES {
        return false;
    }
    let step = (value.len() - SAMPLE_BYTES) / (SAMPLES - 1);
    let mut target = Vec::new();
    (0..SAMPLES).all(|index| {
        let sample = &value[index * step..index * step + SAMPLE_BYTES];
        target.clear();
        compress_if_smaller(codec, sample, &mut target) == CodecId::None
    })
}

/// Appends the record of a value as it is; the record's length in bytes, and its checksum.
pub(crate) fn append_raw(
    output: &mut Output,
    key: &[u8],
    value: &[u8],
    place: BlockPlace,
) -> StorageResult<(u32, u64)> {
    let header = encode_raw_header(key_hash(key), value, place);
    output.buffer().extend_from_slice(&header);
    output.write_through(value)?;
    let record_bytes = (RECORD_HEADER_BYTES + value.len()) as u32;
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
