//! Value files: a header, records side by side, a footer. `docs/formats/vlog.md` is the specification.
//!
//! ```text
//! header  0   8  magic
//!         8   4  version
//!         12  4  zero
//!         16  8  file id
//!         24  8  checksum of bytes 0..24, seeded with mix(file id, 0)
//! record  0   8  checksum of bytes 8.. of the record, seeded with mix(file id, offset of the record)
//!         8   8  hash of the key
//!         16  4  stored bytes
//!         20  4  raw bytes
//!         24  1  codec; 128: the value is in chunks, which are records (see `chunks`); 5: it is compressed with a dictionary, which
//!                is a record (see `dictionary`)
//!         25  .. the value, stored
//! footer  0   8  records
//!         8   8  digest of the records; before version 3, where they end: the offset of the footer
//!         16  24 the tail (see the klog footer)
//! ```

mod chunks;
mod dictionary;
mod dump;
mod record;

pub use chunks::{CHUNK_BYTES_MAX, CHUNK_HEADS_BYTES_MAX, ChunkWalk, encode_chunked_header};
pub use dictionary::{
    DICTIONARY_KEY_HASH, Dictionary, DictionaryRecord, encode_record_with, stored_bytes_with,
    uses_dictionary,
};
pub use dump::dump_vlog;
pub use record::{
    RECORD_HEADER_BYTES, RecordHeader, StoredValue, VLOG_FOOTER_BYTES, VLOG_HEADER_BYTES,
    VLOG_VERSION, VlogFooter, check_raw_record, decode_vlog_header, encode_record,
    encode_stored_header, encode_vlog_header, open_record, peek_record, peek_record_bytes,
    stored_in_record,
};

#[cfg(test)]
mod tests;
