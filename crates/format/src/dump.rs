//! Log segments and manifests as annotated hex, for people: golden tests and the command line.
//!
//! One line per field: offset, up to 16 bytes, meaning. Long fields are cut after [`ROWS_MAX`] rows. Nothing is refused:
//! the dump of a damaged file says where the frames end and why, and whether valid frames follow.

use std::{
    fmt::{self, Write},
    ops::Bound,
};

use kingtide_base::{ByteReader, Lsn};

use crate::{
    Control, Edit, FRAME_HEADER_BYTES, Frame, FrameKind, Lock, MANIFEST_HEADER_BYTES,
    ManifestHeader, Op, OpReader, RecordReader, SEGMENT_FRAMES_OFFSET, SEGMENT_HEADER_BYTES,
    SEGMENT_HEADER_COPY_OFFSET, SegmentHeader, decode_edits, decode_frame, find_frame,
    split_control,
};

/// Rows of hex of one field before it is cut.
const ROWS_MAX: usize = 8;
const ROW_BYTES: usize = 16;
/// Bytes of a key before it is cut.
const TEXT_BYTES_MAX: usize = 64;

/// A log segment, from its header to its last frame.
#[must_use]
pub fn dump_segment(bytes: &[u8]) -> String {
    let mut dump = Dump::default();
    match SegmentHeader::decode_either(bytes) {
        Ok(header) => {
            for offset in [0, SEGMENT_HEADER_COPY_OFFSET as usize] {
                dump.segment_header(bytes, offset);
            }
            let start = SEGMENT_FRAMES_OFFSET as usize;
            dump.frames(bytes, start, header.salt, header.base);
        }
        Err(fault) => dump.line(format_args!("no segment: {fault}")),
    }
    dump.text
}

/// A manifest, from its header to its last frame.
#[must_use]
pub fn dump_manifest(bytes: &[u8]) -> String {
    let mut dump = Dump::default();
    match ManifestHeader::decode(bytes) {
        Ok(header) => {
            let head = &bytes[..MANIFEST_HEADER_BYTES];
            let snapshot = format!("snapshot bytes {}", header.snapshot_bytes);
            dump.field(0, &head[..4], "magic");
            dump.field(4, &head[4..8], "version");
            dump.field(8, &head[8..16], format!("number {}", header.number));
            dump.field(16, &head[16..24], "salt");
            dump.field(24, &head[24..32], snapshot);
            dump.field(32, &head[32..56], "zero");
            dump.field(56, &head[56..], "checksum");
            let base = Lsn(MANIFEST_HEADER_BYTES as u64);
            dump.frames(bytes, MANIFEST_HEADER_BYTES, header.salt, base);
        }
        Err(fault) => dump.line(format_args!("no manifest: {fault}")),
    }
    dump.text
}

#[derive(Default)]
struct Dump {
    text: String,
}

impl Dump {
    fn line(&mut self, line: impl fmt::Display) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// One field, with its meaning on the first row.
    fn field(&mut self, offset: usize, bytes: &[u8], meaning: impl fmt::Display) {
        if bytes.is_empty() {
            self.line(format_args!("{offset:08x}  {:48} {meaning}", ""));
        }
        for (row, chunk) in bytes.chunks(ROW_BYTES).enumerate() {
            let at = offset + row * ROW_BYTES;
            if row == ROWS_MAX {
                let rest = bytes.len() - row * ROW_BYTES;
                self.line(format_args!("{at:08x}  ... {rest} bytes more"));
                return;
            }
            let hex = Hex(chunk);
            if row == 0 {
                self.line(format_args!("{at:08x}  {hex} {meaning}"));
            } else {
                self.line(format_args!("{at:08x}  {}", hex.to_string().trim_end()));
            }
        }
    }

    /// One copy of a segment's header.
    fn segment_header(&mut self, bytes: &[u8], start: usize) {
        let bytes = bytes.get(start..).unwrap_or_default();
        match (SegmentHeader::decode(bytes), bytes.first_chunk()) {
            (Ok(header), Some::<&[u8; SEGMENT_HEADER_BYTES]>(head)) => {
                let segment = format!("segment {}", header.segment);
                self.field(start, &head[..4], "magic");
                self.field(start + 4, &head[4..8], "version");
                self.field(start + 8, &head[8..16], segment);
                self.field(start + 16, &head[16..24], "salt");
                let database = match header.database {
                    Some(database) => format!("database {database}"),
                    None => "boot id".to_owned(),
                };
                self.field(start + 24, &head[24..40], database);
                self.field(start + 40, &head[40..48], format!("base {}", header.base));
                self.field(start + 48, &head[48..56], format!("bytes {}", header.bytes));
                self.field(start + 56, &head[56..], "checksum");
            }
            (Ok(_), None) => {}
            (Err(fault), _) => self.line(format_args!("{start:08x}  no header: {fault}")),
        }
    }

    /// All frames from `start`, whose position is `base`, to the first invalid one, and a word on what follows it.
    fn frames(&mut self, bytes: &[u8], start: usize, salt: u64, base: Lsn) {
        let mut offset = start;
        let position = |offset: usize| Lsn(base.0.wrapping_add((offset - start) as u64));
        while offset < bytes.len() {
            match decode_frame(&bytes[offset..], salt, position(offset)) {
                Ok(frame) => {
                    self.frame(bytes, offset, position(offset), &frame);
                    offset += frame.bytes;
                }
                Err(fault) => {
                    self.line(format_args!("\n{offset:08x}  end: {fault}"));
                    if let Some((skip, frame)) =
                        find_frame(&bytes[offset..], salt, position(offset))
                    {
                        self.line(format_args!(
                            "{:08x}  a valid frame follows; the log was durable up to {}",
                            offset + skip,
                            frame.header.durable
                        ));
                    }
                    return;
                }
            }
        }
        let end = bytes.len();
        self.line(format_args!("\n{end:08x}  end of file"));
    }

    fn frame(&mut self, bytes: &[u8], offset: usize, position: Lsn, frame: &Frame<'_>) {
        let header = &frame.header;
        let head = &bytes[offset..offset + FRAME_HEADER_BYTES];
        let payload = offset + FRAME_HEADER_BYTES;
        let payload_end = payload + frame.payload.len();
        self.line(format_args!(
            "\nframe {:?} at position {position}",
            header.kind
        ));
        self.field(offset, &head[..8], "checksum");
        self.field(
            offset + 8,
            &head[8..12],
            format_args!("payload bytes {}", header.payload_bytes),
        );
        self.field(
            offset + 12,
            &head[12..13],
            format_args!(
                "kind {:?}{}",
                header.kind,
                if header.is_packed { ", packed" } else { "" }
            ),
        );
        self.field(offset + 13, &head[13..16], "header check");
        self.field(
            offset + 16,
            &head[16..24],
            format_args!("sequence {}", header.sequence),
        );
        self.field(
            offset + 24,
            &head[24..],
            format_args!("durable {}", header.durable),
        );
        match header.kind {
            _ if header.is_packed => self.packed(payload, frame),
            FrameKind::Commit => self.record(payload, frame.payload),
            FrameKind::Edit => self.edits(payload, frame.payload),
            FrameKind::Mark | FrameKind::SegmentEnd if frame.payload.is_empty() => {}
            _ => self.field(payload, frame.payload, "payload"),
        }
        if offset + frame.bytes > payload_end {
            let padding = &bytes[payload_end..offset + frame.bytes];
            self.field(payload_end, padding, "padding");
        }
    }

    /// A packed payload, and the record in it, if it is a whole one, with places that count from its own begin.
    fn packed(&mut self, start: usize, frame: &Frame<'_>) {
        let mut scratch = Vec::new();
        match frame.unpacked(&mut scratch) {
            Ok(payload) => {
                let meaning = format!("packed payload of {} bytes", payload.len());
                self.field(start, frame.payload, meaning);
                match frame.header.kind {
                    FrameKind::Commit => self.record(0, payload),
                    _ => self.field(0, payload, "payload"),
                }
            }
            Err(fault) => self.field(start, frame.payload, fault),
        }
    }

    fn record(&mut self, start: usize, payload: &[u8]) {
        let sections = match split_control(payload) {
            Ok((None, sections)) => sections,
            Ok((Some(control), sections)) => {
                let bytes = &payload[..payload.len() - sections.len()];
                self.control(start, bytes, &control);
                sections
            }
            Err(fault) => return self.field(start, payload, fault),
        };
        let start = start + payload.len() - sections.len();
        let payload = sections;
        let mut reader = RecordReader::new(payload);
        let mut offset = start;
        while let Some(section) = reader.next() {
            let section = match section {
                Ok(section) => section,
                Err(fault) => return self.line(format_args!("no section: {fault}")),
            };
            let ops_end = start + payload.len() - reader.rest().len();
            let ops_start = ops_end - section.ops.bytes().len();
            let meaning = format!(
                "family {}, {} operations, {} bytes",
                section.family,
                section.op_count,
                ops_end - ops_start
            );
            self.field(offset, &payload[offset - start..ops_start - start], meaning);
            self.ops(ops_start, section.ops);
            offset = ops_end;
        }
    }

    /// A control section: its head, and the locks of a prepare.
    fn control(&mut self, start: usize, bytes: &[u8], control: &Control<'_>) {
        let (what, xid, mut sections) = match control {
            Control::Prepare(prepare) => ("prepare", prepare.xid, Some(prepare.locks.clone())),
            Control::Commit(xid) => ("commit prepared", *xid, None),
            Control::Rollback(xid) => ("roll back prepared", *xid, None),
        };
        let locks = sections
            .as_ref()
            .map_or(0, |sections| sections.rest().len());
        let head = bytes.len() - locks;
        let level = match control {
            Control::Prepare(prepare) => format!(
                ", isolation {}, at {} microseconds",
                prepare.isolation, prepare.prepared_at
            ),
            Control::Commit(_) | Control::Rollback(_) => String::new(),
        };
        let meaning = format!("{what} {}{level}", KeyText(xid));
        self.field(start, &bytes[..head], meaning);
        let mut offset = head;
        while let Some(section) = sections.as_mut().and_then(Iterator::next) {
            let end = bytes.len() - sections.as_ref().map_or(0, |rest| rest.rest().len());
            let meaning = match section {
                Err(fault) => fault.to_string(),
                Ok((family, locks)) => {
                    let locks: Vec<String> = locks
                        .map(|lock| {
                            lock.map_or_else(|fault| fault.to_string(), |lock| lock_text(&lock))
                        })
                        .collect();
                    format!("locks in family {family}: {}", locks.join("; "))
                }
            };
            self.field(start + offset, &bytes[offset..end], meaning);
            offset = end;
        }
    }

    fn ops(&mut self, start: usize, mut ops: OpReader<'_>) {
        let mut offset = start;
        loop {
            let before = ops.bytes();
            match ops.next() {
                Some(Ok(op)) => {
                    let bytes = &before[..before.len() - ops.bytes().len()];
                    self.field(offset, bytes, OpText(&op));
                    offset += bytes.len();
                }
                Some(Err(fault)) => return self.field(offset, before, fault),
                None => return,
            }
        }
    }

    fn edits(&mut self, start: usize, payload: &[u8]) {
        let edits = match decode_edits(payload) {
            Ok(edits) => edits,
            Err(fault) => return self.field(start, payload, fault),
        };
        let mut reader = ByteReader::new(payload);
        for edit in &edits {
            let before = reader.rest();
            // The batch was decoded, so every edit has a tag and a body.
            let _ = reader.u8().and_then(|_| reader.bytes(payload.len()));
            let bytes = &before[..before.len() - reader.rest().len()];
            self.field(start + payload.len() - before.len(), bytes, EditText(edit));
        }
    }
}

/// One row of hex, padded to the width of a full one.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x} ")?;
        }
        for _ in self.0.len()..ROW_BYTES {
            f.write_str("   ")?;
        }
        Ok(())
    }
}

struct OpText<'a>(&'a Op<'a>);

impl fmt::Display for OpText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Op {
            kind,
            key,
            value,
            expires_at,
        } = self.0;
        write!(f, "{kind:?} {}", KeyText(key))?;
        if *expires_at > 0 {
            write!(f, " expires at {expires_at}")?;
        }
        if !value.is_empty() {
            write!(f, ", value of {} bytes", value.len())?;
        }
        Ok(())
    }
}

fn lock_text(lock: &Lock<'_>) -> String {
    let end = |bound: &Bound<&[u8]>| match bound {
        Bound::Unbounded => "the end".to_owned(),
        Bound::Included(key) => format!("{} included", KeyText(key)),
        Bound::Excluded(key) => format!("{} excluded", KeyText(key)),
    };
    match lock {
        Lock::ForUpdate(key) => format!("{} for update", KeyText(key)),
        Lock::Read(key) => format!("{} read", KeyText(key)),
        Lock::ReadRange(lower, upper) => format!("{} to {} read", end(lower), end(upper)),
    }
}

struct KeyText<'a>(&'a [u8]);

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.0[..self.0.len().min(TEXT_BYTES_MAX)];
        let cut = if key.len() < self.0.len() { "..." } else { "" };
        write!(f, "\"{}\"{cut}", key.escape_ascii())
    }
}

struct EditText<'a>(&'a Edit);

impl fmt::Display for EditText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Edit::Identity(database) = self.0 {
            return write!(f, "Identity {database}");
        }
        let Edit::AddTable {
            family,
            level,
            meta,
        } = self.0
        else {
            return write!(f, "{:?}", self.0);
        };
        write!(
            f,
            "AddTable family {family} level {level} file {} of {} bytes, keys {} to {}, \
             sequences {} to {}, {} entries, {} tombstones, {} raw bytes, {} value files",
            meta.file,
            meta.file_bytes,
            KeyText(&meta.smallest),
            KeyText(&meta.largest),
            meta.sequence_min,
            meta.sequence_max,
            meta.entries,
            meta.tombstones,
            meta.raw_bytes,
            meta.value_files.len()
        )
    }
}

#[cfg(test)]
mod tests;
