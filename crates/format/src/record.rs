//! The payload of a commit: operations, grouped by family. The page is docs/formats/wal.md.
//!
//! ```text
//! record  = section*
//! section = varint family | varint op count | varint bytes of ops | op*
//! op      = u8 kind (low 4 bits) and 0x80 when it expires
//!         | varint key bytes | varint value bytes (kinds with a value) | i64 expiry (0x80) | key | value
//! ```
//!
//! A transaction appends each operation once, in this form, to a buffer per family; the same bytes go into the log and
//! serve the memtable, which remembers only where key and value lie ([`OpSpan`]). Kinds with a value are put, spilled put
//! (its value is a pointer to a value file), packed put (its value is compressed), merge operand and range delete (its value is
//! the end of the range; both are reserved).
//!
//! Readers are total: lengths are checked against the limits and against what is left, and a section's count of
//! operations is bounded by its length, so that a caller may reserve by it.

use std::{fmt, ops::Range};

use kingtide_base::{
    ByteReader, EntryKind, FamilyId, Truncated,
    limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    write_varint,
};

use crate::two_phase::CONTROL_FAMILY;

const KIND_MASK: u8 = 0x0f;
const EXPIRES: u8 = 0x80;
/// Kind, key length and a key of one byte.
const OP_BYTES_MIN: u64 = 3;
/// Kind, two lengths of at most five bytes each, and an expiry.
const OP_HEAD_BYTES_MAX: usize = 1 + 5 + 5 + 8;

/// One operation of a transaction on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op<'a> {
    /// What it does.
    pub kind: EntryKind,
    /// The key; 1 to [`KEY_BYTES_MAX`] bytes.
    pub key: &'a [u8],
    /// The value, at most [`VALUE_BYTES_MAX`] bytes; empty for kinds without one.
    pub value: &'a [u8],
    /// When it expires, in Unix seconds; 0 means never. Never negative.
    pub expires_at: i64,
}

/// Where the parts of an operation lie in the buffer that it was written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpSpan {
    /// Where the operation begins; [`decode_op`] reads it from here.
    pub start: usize,
    /// The key.
    pub key: Range<usize>,
    /// The value; empty for kinds without one.
    pub value: Range<usize>,
}

/// Why a record was refused. Its frame's checksum matched, so this is a defect of the writer, or forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// A number or a length reaches beyond the end, or a length exceeds its limit.
    Truncated,
    /// The first byte of an operation has an unknown kind or a reserved bit.
    UnknownKind(u8),
    /// A key without bytes.
    EmptyKey,
    /// An expiry that is not positive.
    Expiry(i64),
    /// A family id that does not fit 32 bits.
    Family(u64),
    /// A section's count of operations contradicts its bytes.
    Count,
    /// A control section that no version that this build knows writes.
    Control,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a length in the record exceeds its limit or its rest"),
            Self::UnknownKind(byte) => write!(f, "unknown operation {byte:#04x} in the record"),
            Self::EmptyKey => f.write_str("an operation without a key in the record"),
            Self::Expiry(expiry) => write!(f, "expiry {expiry} in the record"),
            Self::Family(id) => write!(f, "family id {id} in the record"),
            Self::Count => f.write_str("a section's operations contradict its length"),
            Self::Control => f.write_str("a malformed control section in the record"),
        }
    }
}

impl std::error::Error for RecordFault {}

impl From<Truncated> for RecordFault {
    fn from(Truncated: Truncated) -> Self {
        Self::Truncated
    }
}

/// True for the kinds whose operations carry a value.
const fn has_value(kind: EntryKind) -> bool {
    matches!(
        kind,
        EntryKind::Put
            | EntryKind::Merge
            | EntryKind::RangeDelete
            | EntryKind::PutSpilled
            | EntryKind::PutPacked
    )
}

/// The most bytes that [`write_op`] appends for a key and a value of these lengths (within their limits).
#[must_use]
#[inline]
pub const fn op_bytes_max(key_bytes: usize, value_bytes: usize) -> usize {
    OP_HEAD_BYTES_MAX
        .saturating_add(key_bytes)
        .saturating_add(value_bytes)
}

/// Appends an operation. The caller has checked the lengths against the limits.
#[inline]
pub fn write_op(target: &mut Vec<u8>, op: &Op<'_>) -> OpSpan {
    debug_assert!(!op.key.is_empty());
    debug_assert!(op.key.len() <= KEY_BYTES_MAX);
    debug_assert!(op.value.len() <= VALUE_BYTES_MAX);
    debug_assert!(op.expires_at >= 0);
    debug_assert!(has_value(op.kind) || op.value.is_empty());
    let start = target.len();
    let expires = op.expires_at > 0;
    target.reserve(op_bytes_max(op.key.len(), op.value.len()));
    target.push(op.kind as u8 | if expires { EXPIRES } else { 0 });
    write_varint(target, op.key.len() as u64);
    if has_value(op.kind) {
        write_varint(target, op.value.len() as u64);
    }
    if expires {
        target.extend_from_slice(&op.expires_at.to_le_bytes());
    }
    let key = target.len()..target.len() + op.key.len();
    target.extend_from_slice(op.key);
    if has_value(op.kind) {
        target.extend_from_slice(op.value);
    }
    let value = key.end..target.len();
    OpSpan { start, key, value }
}

/// The operation at the front of `bytes` and its length in bytes.
///
/// # Errors
/// [`RecordFault`] when there is none.
#[inline]
pub fn decode_op(bytes: &[u8]) -> Result<(Op<'_>, usize), RecordFault> {
    let mut reader = ByteReader::new(bytes);
    let first = reader.u8()?;
    if first & !(KIND_MASK | EXPIRES) != 0 {
        return Err(RecordFault::UnknownKind(first));
    }
    let kind = EntryKind::from_byte(first & KIND_MASK).ok_or(RecordFault::UnknownKind(first))?;
    let key_bytes = reader.length(KEY_BYTES_MAX)?;
    if key_bytes == 0 {
        return Err(RecordFault::EmptyKey);
    }
    let value_bytes = if has_value(kind) {
        reader.length(VALUE_BYTES_MAX)?
    } else {
        0
    };
    let expires_at = if first & EXPIRES == 0 {
        0
    } else {
        let expiry = reader.u64()?.cast_signed();
        if expiry <= 0 {
            return Err(RecordFault::Expiry(expiry));
        }
        expiry
    };
    let op = Op {
        kind,
        key: reader.take(key_bytes)?,
        value: reader.take(value_bytes)?,
        expires_at,
    };
    Ok((op, bytes.len() - reader.rest().len()))
}

/// Appends the head of a section; `ops_bytes` bytes of operations must follow.
pub fn write_section_header(target: &mut Vec<u8>, family: FamilyId, op_count: u32, ops_bytes: u64) {
    write_varint(target, u64::from(family.0));
    write_varint(target, u64::from(op_count));
    write_varint(target, ops_bytes);
}

/// The operations of one family in a record.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// The family.
    pub family: FamilyId,
    /// How many operations there are; bounded by the length of the record.
    pub op_count: u32,
    /// Walks the operations, in the order in which they were made.
    pub ops: OpReader<'a>,
}

/// Walks the sections of a record. Ends after the first fault.
#[derive(Clone, Debug)]
pub struct RecordReader<'a> {
    reader: ByteReader<'a>,
    failed: bool,
}

impl<'a> RecordReader<'a> {
    /// A reader at the first section of `payload`.
    #[must_use]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self {
            reader: ByteReader::new(payload),
            failed: false,
        }
    }

    /// What has not been read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    fn section(&mut self) -> Result<Section<'a>, RecordFault> {
        let id = self.reader.varint()?;
        let family = u32::try_from(id).map_err(|_| RecordFault::Family(id))?;
        if family == CONTROL_FAMILY.0 {
            return Err(RecordFault::Family(id));
        }
        let count = self.reader.varint()?;
        let ops_bytes = self.reader.length(self.reader.rest().len())?;
        let bytes = self.reader.take(ops_bytes)?;
        let op_count = u32::try_from(count).map_err(|_| RecordFault::Count)?;
        if count > ops_bytes as u64 / OP_BYTES_MIN {
            return Err(RecordFault::Count);
        }
        Ok(Section {
            family: FamilyId(family),
            op_count,
            ops: OpReader {
                bytes,
                rest_count: op_count,
            },
        })
    }
}

impl<'a> Iterator for RecordReader<'a> {
    type Item = Result<Section<'a>, RecordFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.reader.is_empty() {
            return None;
        }
        let section = self.section();
        self.failed = section.is_err();
        Some(section)
    }
}

/// Walks the operations of a section. Ends after the first fault; a count that does not agree with the bytes is one.
#[derive(Clone, Debug)]
pub struct OpReader<'a> {
    bytes: &'a [u8],
    rest_count: u32,
}

impl<'a> OpReader<'a> {
    /// What has not been read yet; before the first step, the operations as they were written.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn op(&mut self) -> Result<Op<'a>, RecordFault> {
        if self.rest_count == 0 || self.bytes.is_empty() {
            return Err(RecordFault::Count);
        }
        let (op, length) = decode_op(self.bytes)?;
        self.bytes = &self.bytes[length..];
        self.rest_count -= 1;
        Ok(op)
    }
}

impl<'a> Iterator for OpReader<'a> {
    type Item = Result<Op<'a>, RecordFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest_count == 0 && self.bytes.is_empty() {
            return None;
        }
        let op = self.op();
        if op.is_err() {
            *self = Self {
                bytes: &[],
                rest_count: 0,
            };
        }
        Some(op)
    }
}

#[cfg(test)]
mod tests;
