//! A record on its way into the log: payload bytes in the transaction's buffer, cut into frames whose payload hashes are
//! known before the commit lock is taken. Long payloads are packed, where that saves an eighth: what is not written need
//! not be copied, synced or read again.
//!
//! The payload of a short record sits behind [`HEADROOM_BYTES`] free bytes, so that the frame header is put right before
//! it and header and payload reach the log in one write.

use std::ops::Range;

use kingtide_base::limits;
use kingtide_collections::pack;
use kingtide_format::{FRAME_HEADER_BYTES, FrameKind, frame_bytes, payload_hash};

/// Free bytes that a record's buffer keeps in front of its payload: room for the frame header and a section header.
pub(crate) const HEADROOM_BYTES: usize = 64;
/// Records longer than this are split into parts of this size.
/// Simulations come by such records with less.
const PART_BYTES: usize = if cfg!(simulated) { 16 << 10 } else { 16 << 20 };

/// Shorter payloads are not packed: the codec would spend more on its table than on them.
/// Simulations come by packed ones with less.
pub(crate) const PACKED_BYTES_MIN: usize = if cfg!(simulated) { 64 } else { 4 << 10 };

const _: () = assert!(HEADROOM_BYTES >= FRAME_HEADER_BYTES + 1 + 5 + 5 + 10);
const _: () = assert!(PART_BYTES <= limits::FRAME_PAYLOAD_BYTES_MAX);
const _: () = assert!((PART_BYTES + 2048) as u64 <= limits::SEGMENT_BYTES_MAX);

/// One frame to be: which bytes, and their hash.
#[derive(Clone, Debug)]
pub(super) struct FramePlan {
    pub(super) kind: FrameKind,
    /// The bytes are in [`RecordFrames::packed`], not in the transaction's buffer.
    pub(super) is_packed: bool,
    pub(super) payload: Range<usize>,
    pub(super) hash: u64,
}

/// The frames of one record. Recycled with its transaction.
#[derive(Debug, Default)]
pub(crate) struct RecordFrames {
    pub(super) frames: Vec<FramePlan>,
    /// Packed payloads, each behind room for its frame's header. Longer than what is in use.
    pub(super) packed: Vec<u8>,
    /// Bytes of `packed` in use.
    packed_bytes: usize,
}

impl RecordFrames {
    /// Cuts `buffer[payload]` into frames and hashes them.
    pub(crate) fn prepare(&mut self, buffer: &[u8], payload: Range<usize>) {
        self.cut(buffer, payload, false);
    }

    /// As [`RecordFrames::prepare`]; long payloads are packed where that saves an eighth.
    pub(crate) fn prepare_packed(&mut self, buffer: &[u8], payload: Range<usize>) {
        self.cut(buffer, payload, true);
    }

    fn cut(&mut self, buffer: &[u8], payload: Range<usize>, packs: bool) {
        self.frames.clear();
        self.packed_bytes = 0;
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
            let packed = match packs {
                true => self.pack(&buffer[start..end]),
                false => None,
            };
            let is_packed = packed.is_some();
            let payload = packed.unwrap_or(start..end);
            let bytes = if is_packed { &self.packed } else { buffer };
            self.frames.push(FramePlan {
                kind,
                is_packed,
                hash: payload_hash(&bytes[payload.clone()]),
                payload,
            });
        }
    }

    /// Packs `payload` behind what is packed already, if it is worth it; where it is then.
    fn pack(&mut self, payload: &[u8]) -> Option<Range<usize>> {
        if payload.len() < PACKED_BYTES_MIN {
            return None;
        }
        let start = self.packed_bytes + FRAME_HEADER_BYTES;
        let room = start..start + payload.len() - payload.len() / 8;
        if self.packed.len() < room.end {
            // Zeroed by the system, so that only what is written takes up memory.
            let mut longer = vec![0; room.end.max(2 * self.packed.len())];
            longer[..self.packed_bytes].copy_from_slice(&self.packed[..self.packed_bytes]);
            self.packed = longer;
        }
        let bytes = pack(payload, &mut self.packed[room])?;
        self.packed_bytes = start + bytes;
        Some(start..self.packed_bytes)
    }

    /// Bytes of memory that packed payloads take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.packed.capacity()
    }

    /// Forgets the frames, and gives back memory beyond `kept` bytes.
    pub(crate) fn clear(&mut self, kept: usize) {
        self.frames.clear();
        self.packed_bytes = 0;
        self.packed.truncate(kept);
        self.packed.shrink_to(kept);
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
