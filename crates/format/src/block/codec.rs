//! Compression of blocks and values.
//!
//! The stored bytes carry no length of their own: the reader passes the raw length that was recorded (and checksummed)
//! beside them, and anything that does not decompress to exactly that length is a fault. No length from outside is
//! believed beyond [`RAW_BYTES_MAX`] nor beyond what the codec can expand to, so that a forged length cannot make the
//! process allocate a gigabyte for ten bytes.
//!
//! Contexts of Zstandard and Snappy are kept per thread: making one costs more than compressing a block.

use std::cell::RefCell;

use kingtide_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use kingtide_collections::{FAST_ACCELERATION, lz4_with_dictionary, lz4_with_dictionary_into};

use super::BlockFault;
use crate::CodecId;

/// The most bytes that one compressed unit may hold raw: the largest value and a key's worth of slack.
pub const RAW_BYTES_MAX: usize = VALUE_BYTES_MAX + KEY_BYTES_MAX;

/// The Zstandard level: 1, the fastest; blocks are too small for the higher ones to find more.
const ZSTD_LEVEL: i32 = 1;
/// No LZ4 token yields more than 255 bytes per input byte.
const LZ4_EXPANSION_MAX: usize = 255;
/// A Snappy copy of three bytes yields at most 64.
const SNAPPY_EXPANSION_MAX: usize = 22;
/// A Zstandard block of four bytes yields at most 128 KiB.
const ZSTD_EXPANSION_MAX: usize = 32 << 10;

const DICTIONARY_FAULT: BlockFault =
    BlockFault::malformed("compressed bytes do not give the recorded length");

const _: () = assert!(RAW_BYTES_MAX < i32::MAX as usize);

thread_local! {
    static SNAPPY: RefCell<snap::raw::Encoder> = RefCell::new(snap::raw::Encoder::new());
    static ZSTD_WRITER: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static ZSTD_READER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends `raw`, compressed with `codec`, to `target`.
///
/// # Errors
/// When the codec refuses (out of memory, input above [`RAW_BYTES_MAX`]); `target` is then as before.
pub fn compress(codec: CodecId, raw: &[u8], target: &mut Vec<u8>) -> Result<(), BlockFault> {
    const FAULT: BlockFault = BlockFault::malformed("the codec refused to compress");
    if raw.len() > RAW_BYTES_MAX {
        return Err(FAULT);
    }
    let bound = match codec {
        CodecId::None => {
            target.extend_from_slice(raw);
            return Ok(());
        }
        CodecId::Snappy => snap::raw::max_compress_len(raw.len()),
        CodecId::Lz4 | CodecId::Lz4Fast => {
            lz4::block::compress_bound(raw.len()).map_err(|_| FAULT)?
        }
        CodecId::Zstd => zstd::zstd_safe::compress_bound(raw.len()),
    };
    let start = target.len();
    target.resize(start + bound, 0);
    let stored = compress_into(codec, raw, &mut target[start..]);
    target.truncate(start + stored.unwrap_or(0));
    stored.map(|_| ()).ok_or(FAULT)
}

/// Compresses into a slice; the length written, or `None` when the codec refuses or that is too short.
fn compress_into(codec: CodecId, raw: &[u8], target: &mut [u8]) -> Option<usize> {
    match codec {
        CodecId::None => None,
        CodecId::Snappy => SNAPPY.with_borrow_mut(|encoder| encoder.compress(raw, target).ok()),
        CodecId::Lz4 => lz4::block::compress_to_buffer(raw, None, false, target).ok(),
        CodecId::Lz4Fast => {
            let mode = lz4::block::CompressionMode::FAST(FAST_ACCELERATION);
            lz4::block::compress_to_buffer(raw, Some(mode), false, target).ok()
        }
        CodecId::Zstd => ZSTD_WRITER.with_borrow_mut(|writer| {
            if writer.is_none() {
                *writer = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
            }
            writer.as_mut()?.compress_to_buffer(raw, target).ok()
        }),
    }
}

/// Appends `raw` to `target`, compressed with `codec` when that saves an eighth, as it is otherwise; tells which.
/// A codec that refuses counts as one that saves nothing.
pub fn compress_if_smaller(codec: CodecId, raw: &[u8], target: &mut Vec<u8>) -> CodecId {
    let start = target.len();
    if codec != CodecId::None && !raw.is_empty() && compress(codec, raw, target).is_ok() {
        if saves_an_eighth(target.len() - start, raw.len()) {
            return codec;
        }
        target.truncate(start);
    }
    target.extend_from_slice(raw);
    CodecId::None
}

/// Whether it is worth it to store `stored_bytes` in the place of `raw_bytes`, and to decompress them at every read.
pub(crate) fn saves_an_eighth(stored_bytes: usize, raw_bytes: usize) -> bool {
    stored_bytes < raw_bytes && stored_bytes <= raw_bytes - raw_bytes / 8
}

/// Replaces the content of `target` by the `raw_bytes` bytes that `stored` holds.
///
/// # Errors
/// When `raw_bytes` is more than any unit may hold or than `stored` can expand to, when memory for it is refused, and
/// when the bytes do not decompress to exactly that length. `target` is then empty.
pub fn decompress(
    codec: CodecId,
    stored: &[u8],
    raw_bytes: usize,
    target: &mut Vec<u8>,
) -> Result<(), BlockFault> {
    target.truncate(raw_bytes);
    decompress_behind(codec, (stored, raw_bytes), target, 0)
}

/// Puts the `raw_bytes` bytes that `stored` holds behind the first `start` bytes of `target`, which must be there, over what
/// lies there. `target` grows where that is too short, and keeps what lies behind.
///
/// # Errors
/// As [`decompress`].
pub(crate) fn decompress_behind(
    codec: CodecId,
    (stored, raw_bytes): (&[u8], usize),
    target: &mut Vec<u8>,
    start: usize,
) -> Result<(), BlockFault> {
    let expansion_max = match codec {
        CodecId::None => 1,
        CodecId::Snappy => SNAPPY_EXPANSION_MAX,
        CodecId::Lz4 | CodecId::Lz4Fast => LZ4_EXPANSION_MAX,
        CodecId::Zstd => ZSTD_EXPANSION_MAX,
    };
    if raw_bytes > RAW_BYTES_MAX || raw_bytes > stored.len().saturating_mul(expansion_max) {
        target.clear();
        return Err(BlockFault::malformed("impossible raw length"));
    }
    // Only what grows is zeroed: a buffer used again for a column of about the same length costs nothing.
    let end = start + raw_bytes;
    if end > target.len() {
        if target.try_reserve_exact(end - target.len()).is_err() {
            target.clear();
            return Err(BlockFault::malformed("no memory to decompress into"));
        }
        target.resize(end, 0);
    }
    decompress_exactly(codec, stored, &mut target[start..end]).inspect_err(|_| target.clear())
}

/// Decompresses `stored` into `target`, which has the recorded length.
///
/// # Errors
/// When the bytes do not decompress to exactly that length.
pub(super) fn decompress_exactly(
    codec: CodecId,
    stored: &[u8],
    target: &mut [u8],
) -> Result<(), BlockFault> {
    let raw_bytes = target.len();
    match decompress_into(codec, stored, target) {
        Some(written) if written == raw_bytes => Ok(()),
        written => Err(BlockFault::mismatch(
            "compressed bytes do not give the recorded length",
            raw_bytes as u64,
            written.unwrap_or(0) as u64,
        )),
    }
}

/// As [`decompress`], of an LZ4 block that is compressed with the dictionary `words`; at most 64 KiB.
///
/// # Errors
/// As [`decompress`].
pub(super) fn decompress_with(
    words: &[u8],
    stored: &[u8],
    raw_bytes: usize,
    target: &mut Vec<u8>,
) -> Result<(), BlockFault> {
    match lz4_with_dictionary(words, stored, raw_bytes, target) {
        true => Ok(()),
        false => Err(DICTIONARY_FAULT),
    }
}

/// As [`decompress_exactly`], of an LZ4 block that is compressed with the dictionary `words`.
///
/// # Errors
/// As [`decompress_exactly`].
pub(super) fn decompress_exactly_with(
    words: &[u8],
    stored: &[u8],
    target: &mut [u8],
) -> Result<(), BlockFault> {
    match lz4_with_dictionary_into(words, stored, target) {
        true => Ok(()),
        false => Err(DICTIONARY_FAULT),
    }
}

/// Decompresses into a slice of the recorded length; the length written, or `None` when the bytes are not of `codec`.
fn decompress_into(codec: CodecId, stored: &[u8], target: &mut [u8]) -> Option<usize> {
    match codec {
        CodecId::None => {
            target
                .get_mut(..stored.len())
                .map(|part| part.copy_from_slice(stored))?;
            Some(stored.len())
        }
        CodecId::Snappy => snap::raw::Decoder::new().decompress(stored, target).ok(),
        CodecId::Lz4 | CodecId::Lz4Fast => {
            let raw_bytes = i32::try_from(target.len()).ok()?;
            lz4::block::decompress_to_buffer(stored, Some(raw_bytes), target).ok()
        }
        CodecId::Zstd => ZSTD_READER.with_borrow_mut(|reader| {
            if reader.is_none() {
                *reader = zstd::bulk::Decompressor::new().ok();
            }
            reader.as_mut()?.decompress_to_buffer(stored, target).ok()
        }),
    }
}
