//! Frames: the unit of the write-ahead log and of the manifest. The page is docs/formats/wal.md.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | checksum |
//! | 8 | 4 | payload bytes |
//! | 12 | 1 | kind; 0x80 when the payload is packed |
//! | 13 | 3 | header check: the low 24 bits of the header hash |
//! | 16 | 8 | sequence |
//! | 24 | 8 | durable: how far the log was known durable when the frame was written |
//! | 32 | payload bytes | payload |
//! | | 0 to 15 | zeros up to the next multiple of 16; not covered by the checksum |
//!
//! The *header hash* is XXH3 of bytes 8..32, with 13..16 as zero, seeded by mix(salt, position). The checksum is
//! mix(header hash, XXH3(payload)). So the payload is hashed before the position is known, and what remains for the
//! critical section that hands out positions costs some nanoseconds whatever the length of the payload.
//!
//! Salt and position make every frame valid in one place only: bytes of an earlier life of a recycled segment, or a
//! frame that a user stored as a value, never validate. The header check exists for readers that look for frames in a
//! damaged stretch: without it each of millions of places could claim a payload of 32 MiB that must be hashed to be
//! refuted.
//!
//! Frames of records may be packed (`packed`): the payload is compressed then.
//!
//! Does not know what a payload means, and does not judge sequence numbers or durable marks.

mod packed;

use std::fmt;

use kingtide_base::{Lsn, SeqNo, checksum, checksum_mix, limits::FRAME_PAYLOAD_BYTES_MAX};

use crate::header::field;

/// The length of a frame header in bytes.
pub const FRAME_HEADER_BYTES: usize = 32;
/// Frames begin at multiples of this many bytes.
pub const FRAME_ALIGN: usize = 16;

const PAYLOAD_BYTES_OFFSET: usize = 8;
const KIND_OFFSET: usize = 12;
/// In the byte of the kind: the payload is packed.
const PACKED: u8 = 0x80;
const CHECK_OFFSET: usize = 13;
const SEQUENCE_OFFSET: usize = 16;
const DURABLE_OFFSET: usize = 24;

const _: () = assert!(FRAME_HEADER_BYTES.is_multiple_of(FRAME_ALIGN));
const _: () = assert!(DURABLE_OFFSET + 8 == FRAME_HEADER_BYTES);
const _: () =
    assert!(FRAME_PAYLOAD_BYTES_MAX < u32::MAX as usize - FRAME_HEADER_BYTES - FRAME_ALIGN);

/// What a frame is for. The numbers are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A whole record: one transaction.
    Commit = 1,
    /// No content: carries the durable mark.
    Mark = 2,
    /// The first part of a record that did not fit one frame.
    PartFirst = 3,
    /// A part between the first and the last.
    PartMiddle = 4,
    /// The last part; the record counts only when all parts are there.
    PartLast = 5,
    /// A batch of manifest edits.
    Edit = 6,
    /// Nothing follows in this segment; the log goes on in the next one.
    SegmentEnd = 7,
}

impl FrameKind {
    /// The kind that `byte` stands for, or `None` for a number that this version does not know.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Commit),
            2 => Some(Self::Mark),
            3 => Some(Self::PartFirst),
            4 => Some(Self::PartMiddle),
            5 => Some(Self::PartLast),
            6 => Some(Self::Edit),
            7 => Some(Self::SegmentEnd),
            _ => None,
        }
    }

    /// True of frames with a record or a part of one: their payloads may be packed.
    #[must_use]
    pub const fn may_be_packed(self) -> bool {
        match self {
            Self::Commit | Self::PartFirst | Self::PartMiddle | Self::PartLast => true,
            Self::Mark | Self::Edit | Self::SegmentEnd => false,
        }
    }
}

/// The head of a frame, as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The length of the payload in bytes; at most [`FRAME_PAYLOAD_BYTES_MAX`].
    pub payload_bytes: u32,
    /// What the frame is for.
    pub kind: FrameKind,
    /// The payload is packed ([`Frame::unpacked`]); only where the kind allows it.
    pub is_packed: bool,
    /// In the log: the commit. In the manifest: the number of the batch.
    pub sequence: SeqNo,
    /// Everything before this position was durable when the frame was written.
    pub durable: Lsn,
}

/// A valid frame, borrowing its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its head.
    pub header: FrameHeader,
    /// Its payload, as it stands there.
    pub payload: &'a [u8],
    /// The length of the whole frame in bytes, padding included: the next frame begins that much further on.
    pub bytes: usize,
}

/// Why no valid frame begins at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The header is all zero: nothing was written here.
    Empty,
    /// The header is whole (or not even 32 bytes are left), and the frame reaches beyond the end of the bytes.
    Truncated,
    /// The header check (then both numbers are below 2^24) or the checksum does not match.
    Checksum {
        /// What the frame promises.
        expected: u64,
        /// What the bytes give.
        found: u64,
    },
    /// The checks match, but no version that this build knows writes such a frame.
    Malformed,
}

impl FrameFault {
    /// The promised and the found checksum; zeros when the fault is another one.
    #[must_use]
    pub const fn checksums(&self) -> (u64, u64) {
        match *self {
            Self::Checksum { expected, found } => (expected, found),
            Self::Empty | Self::Truncated | Self::Malformed => (0, 0),
        }
    }
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no frame begins here",
            Self::Truncated => "the frame ends before its length",
            Self::Checksum { .. } => "the frame fails its checksum",
            Self::Malformed => "the frame is of no known kind",
        })
    }
}

impl std::error::Error for FrameFault {}

/// The length in bytes of a frame with a payload of `payload_bytes`: header and payload, rounded up to 16.
#[must_use]
#[inline]
pub const fn frame_bytes(payload_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + payload_bytes).next_multiple_of(FRAME_ALIGN)
}

/// The hash of a payload.
#[must_use]
#[inline]
pub fn payload_hash(payload: &[u8]) -> u64 {
    checksum(payload, 0)
}

/// The header bytes of a frame at `position` of the log (or file) whose salt is `salt`. The caller keeps
/// `header.payload_bytes` within [`FRAME_PAYLOAD_BYTES_MAX`]; a reader refuses more.
#[must_use]
#[inline]
pub fn encode_frame_header(
    header: &FrameHeader,
    payload_hash: u64,
    salt: u64,
    position: Lsn,
) -> [u8; FRAME_HEADER_BYTES] {
    debug_assert!(header.payload_bytes as usize <= FRAME_PAYLOAD_BYTES_MAX);
    let mut bytes = [0_u8; FRAME_HEADER_BYTES];
    bytes[PAYLOAD_BYTES_OFFSET..KIND_OFFSET].copy_from_slice(&header.payload_bytes.to_le_bytes());
    debug_assert!(header.kind.may_be_packed() || !header.is_packed);
    bytes[KIND_OFFSET] = header.kind as u8 | if header.is_packed { PACKED } else { 0 };
    bytes[SEQUENCE_OFFSET..DURABLE_OFFSET].copy_from_slice(&header.sequence.0.to_le_bytes());
    bytes[DURABLE_OFFSET..].copy_from_slice(&header.durable.0.to_le_bytes());
    let hash = header_hash(&bytes, salt, position);
    bytes[CHECK_OFFSET..SEQUENCE_OFFSET].copy_from_slice(&field::<3>(&hash.to_le_bytes(), 0));
    bytes[..8].copy_from_slice(&checksum_mix(hash, payload_hash).to_le_bytes());
    bytes
}

/// Appends a whole frame, padding included, to `target`. `position` is where the frame will stand.
pub fn push_frame(
    target: &mut Vec<u8>,
    header: &FrameHeader,
    payload: &[u8],
    salt: u64,
    position: Lsn,
) {
    debug_assert_eq!(header.payload_bytes as usize, payload.len());
    let end = target.len() + frame_bytes(payload.len());
    target.reserve(frame_bytes(payload.len()));
    let head = encode_frame_header(header, payload_hash(payload), salt, position);
    target.extend_from_slice(&head);
    target.extend_from_slice(payload);
    target.resize(end, 0);
}

/// The header of the frame at the front of `bytes`, judged by the header check alone: enough to learn how much to read,
/// not enough to believe the frame.
///
/// # Errors
/// [`FrameFault`], never for the payload's sake.
#[inline]
pub fn decode_frame_header(
    bytes: &[u8],
    salt: u64,
    position: Lsn,
) -> Result<FrameHeader, FrameFault> {
    checked_header(bytes, salt, position).map(|(header, _)| header)
}

/// The frame at the front of `bytes`, which were read from `position` of the log (or file) whose salt is `salt`.
///
/// # Errors
/// [`FrameFault`] says why there is none. Whether that is the end of the log or damage is for the caller to judge.
pub fn decode_frame(bytes: &[u8], salt: u64, position: Lsn) -> Result<Frame<'_>, FrameFault> {
    let (header, hash) = checked_header(bytes, salt, position)?;
    let payload_bytes = header.payload_bytes as usize;
    let whole = bytes
        .get(..frame_bytes(payload_bytes))
        .ok_or(FrameFault::Truncated)?;
    let payload = &whole[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + payload_bytes];
    let expected = u64::from_le_bytes(field(whole, 0));
    let found = checksum_mix(hash, payload_hash(payload));
    if expected != found {
        return Err(FrameFault::Checksum { expected, found });
    }
    Ok(Frame {
        header,
        payload,
        bytes: whole.len(),
    })
}

/// The first valid frame in `bytes`, tried at every 16th byte, and its offset. `position` is that of the front of
/// `bytes`. For readers that met an invalid frame and look for a witness that durable frames once followed it.
#[must_use]
pub fn find_frame(bytes: &[u8], salt: u64, position: Lsn) -> Option<(usize, Frame<'_>)> {
    (0..bytes.len()).step_by(FRAME_ALIGN).find_map(|offset| {
        let position = Lsn(position.0.checked_add(offset as u64)?);
        let frame = decode_frame(&bytes[offset..], salt, position).ok()?;
        Some((offset, frame))
    })
}

/// The header and its hash.
#[inline]
fn checked_header(
    bytes: &[u8],
    salt: u64,
    position: Lsn,
) -> Result<(FrameHeader, u64), FrameFault> {
    let head = bytes
        .first_chunk::<FRAME_HEADER_BYTES>()
        .ok_or(FrameFault::Truncated)?;
    if *head == [0; FRAME_HEADER_BYTES] {
        return Err(FrameFault::Empty);
    }
    let hash = header_hash(head, salt, position);
    let promised: [u8; 3] = field(head, CHECK_OFFSET);
    let given: [u8; 3] = field(&hash.to_le_bytes(), 0);
    if promised != given {
        return Err(FrameFault::Checksum {
            expected: widen(promised),
            found: widen(given),
        });
    }
    let payload_bytes = u32::from_le_bytes(field(head, PAYLOAD_BYTES_OFFSET));
    let kind = FrameKind::from_byte(head[KIND_OFFSET] & !PACKED).ok_or(FrameFault::Malformed)?;
    let is_packed = head[KIND_OFFSET] & PACKED != 0;
    if payload_bytes as usize > FRAME_PAYLOAD_BYTES_MAX || is_packed && !kind.may_be_packed() {
        return Err(FrameFault::Malformed);
    }
    let header = FrameHeader {
        payload_bytes,
        kind,
        is_packed,
        sequence: SeqNo(u64::from_le_bytes(field(head, SEQUENCE_OFFSET))),
        durable: Lsn(u64::from_le_bytes(field(head, DURABLE_OFFSET))),
    };
    Ok((header, hash))
}

/// The hash of everything in the header but the checksum and the header check.
#[inline]
fn header_hash(head: &[u8; FRAME_HEADER_BYTES], salt: u64, position: Lsn) -> u64 {
    let mut covered: [u8; FRAME_HEADER_BYTES - PAYLOAD_BYTES_OFFSET] =
        field(head, PAYLOAD_BYTES_OFFSET);
    covered[CHECK_OFFSET - PAYLOAD_BYTES_OFFSET..SEQUENCE_OFFSET - PAYLOAD_BYTES_OFFSET].fill(0);
    checksum(&covered, checksum_mix(salt, position.0))
}

fn widen(bytes: [u8; 3]) -> u64 {
    u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]))
}

#[cfg(test)]
mod tests;
