//! An annotated picture of a value file, for golden files and for people.

use kingtide_base::FileId;

use super::{
    RECORD_HEADER_BYTES, VLOG_FOOTER_BYTES, VLOG_HEADER_BYTES, VlogFooter, decode_vlog_header,
    open_record, peek_record_bytes,
};
use crate::block::{Annotated, BlockPlace, readable};
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
        dump_record(&mut out, &bytes[at..record_end], file, at);
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

fn dump_record(out: &mut Annotated<'_>, record: &[u8], file: FileId, at: usize) {
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
    out.field(stored_at..at + record.len(), "value");
    let place = BlockPlace {
        file,
        offset: at as u64,
    };
    let mut value = Vec::new();
    match open_record(record, place, &mut value) {
        Ok(header) => out.remark(&format!("{:?} {}", header.codec, readable(&value))),
        Err(fault) => out.fault(&fault),
    }
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
