//! LZ4 blocks with a dictionary: bytes that writer and reader know, and that matches may reach back into as if they lay
//! right before the raw bytes.
//!
//! The stored bytes are those of any LZ4 implementation that takes dictionaries.

use super::BlockFault;

/// The most bytes that a dictionary may have: matches reach no further back.
pub const DICTIONARY_BYTES_MAX: usize = 64 << 10;
/// The most raw bytes of a block with a dictionary: of what lies further back, a dictionary is out of reach.
pub const DICTIONARY_RAW_BYTES_MAX: usize = 64 << 10;

/// Appends `raw`, compressed with `dictionary`, to `target`. False when one of them is longer than any may be; `target` is
/// then as before.
///
/// ```
/// # use kingtide_format::block::{compress_with_dictionary, decompress_with_dictionary};
/// let dictionary = b"the values of this file begin with these words";
/// let raw = b"the values of this file begin with these words, as a rule";
/// let mut stored = Vec::new();
/// assert!(compress_with_dictionary(dictionary, raw, &mut stored) && stored.len() < 20);
/// let mut found = Vec::new();
/// decompress_with_dictionary(dictionary, &stored, raw.len(), &mut found).expect("intact");
/// assert_eq!(found, raw);
/// ```
#[must_use]
pub fn compress_with_dictionary(dictionary: &[u8], raw: &[u8], target: &mut Vec<u8>) -> bool {
    if dictionary.len() > DICTIONARY_BYTES_MAX || raw.len() > DICTIONARY_RAW_BYTES_MAX {
        return false;
    }
    let start = target.len();
    let bytes_max = lz4_flex::block::get_maximum_output_size(raw.len());
    target.resize(start + bytes_max, 0);
    let written =
        lz4_flex::block::compress_into_with_dict(raw, &mut target[start..], dictionary).ok();
    target.truncate(start + written.unwrap_or(0));
    written.is_some()
}

/// Replaces the content of `target` by the `raw_bytes` bytes that the LZ4 block `stored` holds with `dictionary`.
///
/// # Errors
/// When one of the lengths is more than any may be, `stored` is not shorter than what it holds, and when it does not
/// decompress to exactly that length. `target` is then empty.
pub fn decompress_with_dictionary(
    dictionary: &[u8],
    stored: &[u8],
    raw_bytes: usize,
    target: &mut Vec<u8>,
) -> Result<(), BlockFault> {
    let is_short =
        dictionary.len() <= DICTIONARY_BYTES_MAX && raw_bytes <= DICTIONARY_RAW_BYTES_MAX;
    if !is_short || stored.len() >= raw_bytes {
        target.clear();
        return Err(BlockFault::malformed("impossible raw length"));
    }
    // Only what grows is zeroed.
    target.resize(raw_bytes, 0);
    let written = lz4_flex::block::decompress_into_with_dict(stored, target, dictionary).ok();
    if written != Some(raw_bytes) {
        target.clear();
        return Err(BlockFault::mismatch(
            "compressed bytes do not give the recorded length",
            raw_bytes as u64,
            written.unwrap_or(0) as u64,
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
