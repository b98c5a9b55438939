//! The header that every block of a klog file begins with, and its checksum.
//!
//! ```text
//! 0   8  checksum: XXH3-64 of bytes 8.. of the block, seeded with mix(file id, offset)
//! 8   4  payload bytes: what follows the header
//! 12  4  raw bytes: the length of the compressed part when decompressed
//! 16  1  kind
//! 17  1  codec of the compressed part
//! ```
//!
//! The compressed part is the value column of a data block (the end of its payload) and the whole payload of any other
//! block. The seed makes an intact block fail in any other file or at any other offset.

use kingtide_base::{FileId, checksum, checksum_mix};

use super::dictionary::WITH_DICTIONARY;
use super::{BlockFault, codec};
use crate::CodecId;

/// The length of the header in bytes.
pub const BLOCK_HEADER_BYTES: usize = 18;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockKind {
    /// Entries.
    Data = 1,
    /// The length and the separator of every data block.
    Index = 2,
    /// The filter over all keys.
    Filter = 3,
    /// What the manifest knows about the table.
    Properties = 4,
}

impl BlockKind {
    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Data),
            2 => Some(Self::Index),
            3 => Some(Self::Filter),
            4 => Some(Self::Properties),
            _ => None,
        }
    }
}

/// Where a block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// The file.
    pub file: FileId,
    /// Where in the file the block begins, in bytes.
    pub offset: u64,
}

impl BlockPlace {
    /// The seed of checksums of bytes that belong here.
    #[must_use]
    pub fn seed(self) -> u64 {
        checksum_mix(self.file.0, self.offset)
    }
}

/// A verified header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// The checksum that the block carries, and has.
    pub checksum: u64,
    /// What the block holds.
    pub kind: BlockKind,
    /// How its compressed part is compressed.
    pub codec: CodecId,
    /// Whether it is compressed with the dictionary of its table.
    pub uses_dictionary: bool,
    /// The length of the compressed part when decompressed, in bytes.
    pub raw_bytes: u32,
}

/// Makes room for a header at the end of `target`; the position to pass to [`end_block`].
pub fn begin_block(target: &mut Vec<u8>) -> usize {
    let start = target.len();
    target.resize(start + BLOCK_HEADER_BYTES, 0);
    start
}

/// Completes the block that began at `start`, whose payload is the rest of `target`; its checksum.
pub fn end_block(
    target: &mut [u8],
    start: usize,
    kind: BlockKind,
    compressed: (CodecId, u32),
    place: BlockPlace,
) -> u64 {
    let (codec, raw_bytes) = compressed;
    seal_block(target, start, kind, (codec as u8, raw_bytes), place)
}

/// As [`end_block`], with the number of a codec.
pub(super) fn seal_block(
    target: &mut [u8],
    start: usize,
    kind: BlockKind,
    (codec, raw_bytes): (u8, u32),
    place: BlockPlace,
) -> u64 {
    let block = &mut target[start..];
    let payload_bytes = u32::try_from(block.len() - BLOCK_HEADER_BYTES)
        .expect("blocks are cut below 4 GiB, and limits of keys and values keep one entry below");
    block[8..12].copy_from_slice(&payload_bytes.to_le_bytes());
    block[12..16].copy_from_slice(&raw_bytes.to_le_bytes());
    block[16] = kind as u8;
    block[17] = codec;
    let sum = checksum(&block[8..], place.seed());
    block[..8].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// Verifies the block `bytes` (header and payload, nothing else) and returns its header.
///
/// # Errors
/// A fault when the bytes are too few, fail their checksum, or contradict themselves.
pub fn open_block(
    bytes: &[u8],
    kind: BlockKind,
    place: BlockPlace,
) -> Result<BlockHeader, BlockFault> {
    let Some((head, payload)) = bytes.split_first_chunk::<BLOCK_HEADER_BYTES>() else {
        return Err(BlockFault::malformed("block shorter than its header"));
    };
    let [
        c0,
        c1,
        c2,
        c3,
        c4,
        c5,
        c6,
        c7,
        p0,
        p1,
        p2,
        p3,
        r0,
        r1,
        r2,
        r3,
        kind_byte,
        codec_byte,
    ] = *head;
    let expected = u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]);
    let found = checksum(&bytes[8..], place.seed());
    if expected != found {
        return Err(BlockFault::mismatch("block checksum", expected, found));
    }
    let payload_bytes = u32::from_le_bytes([p0, p1, p2, p3]);
    if payload_bytes as usize != payload.len() {
        return Err(BlockFault::mismatch(
            "block length",
            u64::from(payload_bytes),
            payload.len() as u64,
        ));
    }
    if BlockKind::from_byte(kind_byte) != Some(kind) {
        return Err(BlockFault::mismatch(
            "block kind",
            kind as u64,
            u64::from(kind_byte),
        ));
    }
    // Value columns alone know dictionaries.
    let uses_dictionary = kind == BlockKind::Data && codec_byte == WITH_DICTIONARY;
    let codec = match uses_dictionary {
        true => Some(CodecId::Lz4),
        false => CodecId::from_byte(codec_byte),
    };
    Ok(BlockHeader {
        checksum: expected,
        kind,
        codec: codec.ok_or(BlockFault::malformed("unknown codec"))?,
        uses_dictionary,
        raw_bytes: u32::from_le_bytes([r0, r1, r2, r3]),
    })
}

/// Appends a block whose whole payload is `raw`, compressed when that pays; its checksum.
///
/// # Errors
/// When `raw` is longer than any block may be.
pub fn write_section(
    target: &mut Vec<u8>,
    kind: BlockKind,
    codec: CodecId,
    raw: &[u8],
    place: BlockPlace,
) -> Result<u64, BlockFault> {
    if raw.len() > codec::RAW_BYTES_MAX {
        return Err(BlockFault::malformed(
            "section longer than any block may be",
        ));
    }
    let start = begin_block(target);
    let used = codec::compress_if_smaller(codec, raw, target);
    Ok(end_block(
        target,
        start,
        kind,
        (used, raw.len() as u32),
        place,
    ))
}

/// The verified and decompressed payload of a block that is not a data block, and its checksum.
///
/// # Errors
/// As [`open_block`], and when the payload does not decompress to its recorded length.
pub fn open_section(
    bytes: &[u8],
    kind: BlockKind,
    place: BlockPlace,
) -> Result<(Vec<u8>, u64), BlockFault> {
    let header = open_block(bytes, kind, place)?;
    let mut raw = Vec::new();
    codec::decompress(
        header.codec,
        &bytes[BLOCK_HEADER_BYTES..],
        header.raw_bytes as usize,
        &mut raw,
    )?;
    Ok((raw, header.checksum))
}
