//! An annotated picture of a value file, for golden files and for people.

use std::ops::Range;

use kingtide_base::FileId;

use super::{
    Dictionary, DictionaryRecord, RECORD_HEADER_BYTES, RecordHeader, VLOG_FOOTER_BYTES,
    VLOG_HEADER_BYTES, VlogFooter, decode_vlog_header, open_record, peek_record_bytes,
    uses_dictionary,
};
use crate::block::{Annotated, BlockFault, BlockPlace, readable};
use crate::klog::TailFault;

/// Every byte of the value file `bytes` in hex with its meaning, and the values. Faults are shown where they are.
#[must_use]
pub fn dump_vlog(bytes: &[u8], file: FileId) -> String {
    let mut out = Annotated::new(bytes, &format!("vlog {file}"));
    out.heading("header");
    out.fields(
        0,
        &[
            (8, "magic"),
            (4, "version"),
            (4, "zero"),
            (8, "file id"),
            (8, "checksum"),
        ],
    );
    if let Err(fault) = decode_vlog_header(bytes, file) {
        tail_fault(&mut out, fault);
    }
    let (end, content) = match VlogFooter::decode(bytes, file, bytes.len() as u64) {
        Ok((footer, _)) => (bytes.len() - VLOG_FOOTER_BYTES, footer.content),
        Err(fault) => {
            tail_fault(&mut out, fault);
            (bytes.len(), None)
        }
    };
    let mut at = VLOG_HEADER_BYTES;
    while at < end {
        let length = bytes.get(at..).and_then(peek_record_bytes);
        let record_end = length
            .and_then(|length| at.checked_add(usize::try_from(length).ok()?))
            .filter(|record_end| *record_end <= end);
        let Some(record_end) = record_end else {
            out.field(at..end, "no record");
            break;
        };
        dump_record(&mut out, (bytes, at..record_end), file);
        at = record_end;
    }
    if end < bytes.len() {
        out.heading("footer");
        out.fields(
            end,
            &[
                (8, "records"),
                (
                    8,
                    content.map_or("end of the records", |_| "digest of the records"),
                ),
                (8, "checksum"),
                (4, "version"),
                (4, "footer bytes"),
                (8, "magic"),
            ],
        );
    }
    out.finish()
}

/// The record that lies at `span` of the file.
fn dump_record(out: &mut Annotated<'_>, (bytes, span): (&[u8], Range<usize>), file: FileId) {
    let (at, record) = (span.start, &bytes[span]);
    out.heading("record");
    let stored_at = out.fields(
        at,
        &[
            (8, "checksum"),
            (8, "hash of the key"),
            (4, "stored bytes"),
            (4, "raw bytes"),
            (1, "codec"),
        ],
    );
    debug_assert_eq!(stored_at, at + RECORD_HEADER_BYTES);
    let end = at + record.len();
    match uses_dictionary(record) && stored_at + 4 <= end {
        true => {
            out.field(stored_at..stored_at + 4, "offset of the dictionary");
            out.field(stored_at + 4..end, "value");
        }
        false => out.field(stored_at..end, "value"),
    }
    let place = BlockPlace {
        file,
        offset: at as u64,
    };
    let mut value = Vec::new();
    match open_in_file(bytes, (record, place), &mut value) {
        Ok(header) => {
            let how = match header.uses_dictionary {
                true => " with the dictionary",
                false => "",
            };
            out.remark(&format!("{:?}{how} {}", header.codec, readable(&value)));
        }
        Err(fault) => out.fault(&fault),
    }
}

/// Opens a record, with its dictionary if it uses one, which lies in the same file.
fn open_in_file(
    bytes: &[u8],
    (record, place): (&[u8], BlockPlace),
    value: &mut Vec<u8>,
) -> Result<RecordHeader, BlockFault> {
    if !uses_dictionary(record) {
        return open_record(record, place, value);
    }
    let record = DictionaryRecord::verify(record, place)?;
    let place = BlockPlace {
        offset: record.dictionary(),
        ..place
    };
    record.open(&Dictionary::find(bytes, place)?, value)
}

fn tail_fault(out: &mut Annotated<'_>, fault: TailFault) {
    match fault {
        TailFault::Damaged(fault) => out.fault(&fault),
        TailFault::Newer(version) => {
            out.remark(&format!(
                "FAULT: version {version} is newer than this build"
            ));
        }
    }
}
