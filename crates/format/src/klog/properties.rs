//! The properties: what the manifest knows about a table, repeated in the table so that a manifest can be rebuilt.
//!
//! ```text
//! bytes order name                          varint length, then the bytes; so for all "bytes"
//! varint entries, tombstones, raw bytes, sequence minimum, sequence maximum
//! bytes smallest key, bytes largest key
//! varint value files, then for each: varint file, records, bytes
//! ```

use kingtide_base::limits::{COMPARATOR_NAME_BYTES_MAX, KEY_BYTES_MAX};
use kingtide_base::{ByteReader, FileId, SeqNo, Truncated, write_bytes, write_varint};

use crate::{TableMeta, ValueFileUse};

/// The payload of the properties block. What the footer knows (file, length, checksum) is not in it.
#[must_use]
pub fn encode_properties(meta: &TableMeta, order_name: &str) -> Vec<u8> {
    let mut target = Vec::new();
    write_bytes(&mut target, order_name.as_bytes());
    for number in [
        meta.entries,
        meta.tombstones,
        meta.raw_bytes,
        meta.sequence_min.0,
        meta.sequence_max.0,
    ] {
        write_varint(&mut target, number);
    }
    write_bytes(&mut target, &meta.smallest);
    write_bytes(&mut target, &meta.largest);
    write_varint(&mut target, meta.value_files.len() as u64);
    for used in &meta.value_files {
        write_varint(&mut target, used.file.0);
        write_varint(&mut target, used.records);
        write_varint(&mut target, used.bytes);
    }
    target
}

/// Reads back what [`encode_properties`] wrote: the order's name, and a meta with `file` and without what the footer
/// knows (`file_bytes` and `footer_checksum` are 0).
///
/// # Errors
/// [`Truncated`] when the payload is not of that form.
pub fn decode_properties(payload: &[u8], file: FileId) -> Result<(String, TableMeta), Truncated> {
    let mut reader = ByteReader::new(payload);
    let name = std::str::from_utf8(reader.bytes(COMPARATOR_NAME_BYTES_MAX)?)
        .map_err(|_| Truncated)?
        .to_owned();
    let mut meta = TableMeta {
        file,
        file_bytes: 0,
        footer_checksum: 0,
        entries: reader.varint()?,
        tombstones: reader.varint()?,
        raw_bytes: reader.varint()?,
        sequence_min: SeqNo(reader.varint()?),
        sequence_max: SeqNo(reader.varint()?),
        smallest: reader.bytes(KEY_BYTES_MAX)?.to_vec(),
        largest: reader.bytes(KEY_BYTES_MAX)?.to_vec(),
        value_files: Vec::new(),
    };
    // Three varints are at least three bytes: the count is bounded by what is left.
    let count = reader.length(reader.rest().len() / 3 + 1)?;
    for _ in 0..count {
        meta.value_files.push(ValueFileUse {
            file: FileId(reader.varint()?),
            records: reader.varint()?,
            bytes: reader.varint()?,
        });
    }
    if reader.is_empty() {
        Ok((name, meta))
    } else {
        Err(Truncated)
    }
}
