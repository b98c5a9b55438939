//! A record on its way into the log: payload bytes in the transaction's buffer, cut into frames whose payload hashes are
//! known before the commit lock is taken.
//!
//! The payload of a short record sits behind [`HEADROOM_BYTES`] free bytes, so that the frame header is put right before
//! it and header and payload reach the log in one write.

use std::ops::Range;

use kingtide_base::limits;
use kingtide_format::{FRAME_HEADER_BYTES, FrameKind, frame_bytes, payload_hash};

/// Free bytes that a record's buffer keeps in front of its payload: room for the frame header and a section header.
pub(crate) const HEADROOM_BYTES: usize = 64;
/// Records longer than this are split into parts of this size.
/// Simulations come by such records with less.
const PART_BYTES: usize = if cfg!(simulated) { 16 << 10 } else { 16 << 20 };

const _: () = assert!(HEADROOM_BYTES >= FRAME_HEADER_BYTES + 1 + 5 + 5 + 10);
const _: () = assert!(PART_BYTES <= limits::FRAME_PAYLOAD_BYTES_MAX);
const _: () = assert!((PART_BYTES + 2048) as u64 <= limits::SEGMENT_BYTES_MAX);

/// One frame to be: which bytes of the buffer, and their hash.
#[derive(Clone, Debug)]
pub(super) struct FramePlan {
    pub(super) kind: FrameKind,
    pub(super) payload: Range<usize>,
    pub(super) hash: u64,
}

/// The frames of one record. Recycled with its transaction.
#[derive(Debug, Default)]
pub(crate) struct RecordFrames {
    pub(super) frames: Vec<FramePlan>,
}

impl RecordFrames {
    /// Cuts `buffer[payload]` into frames and hashes them.
    pub(crate) fn prepare(&mut self, buffer: &[u8], payload: Range<usize>) {
        self.frames.clear();
        let parts = payload.len().div_ceil(PART_BYTES).max(1);
        for part in 0..parts {
            let start = payload.start + part * PART_BYTES;
            let end = payload.end.min(start + PART_BYTES);
            let kind = match (parts, part) {
                (1, _) => FrameKind::Commit,
                (_, 0) => FrameKind::PartFirst,
                (_, part) if part + 1 == parts => FrameKind::PartLast,
                _ => FrameKind::PartMiddle,
            };
            self.frames.push(FramePlan {
                kind,
                payload: start..end,
                hash: payload_hash(&buffer[start..end]),
            });
        }
    }

    /// Bytes that the frames take in the log, one after the other.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.frames
            .iter()
            .map(|frame| frame_bytes(frame.payload.len()) as u64)
    }

    /// Bytes that the record takes in the log.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes().sum()
    }

    /// The longest frame in bytes.
    pub(super) fn largest(&self) -> u64 {
        self.sizes().max().unwrap_or(0)
    }
}
