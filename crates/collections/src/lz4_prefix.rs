//! The beginning of an LZ4 block: a point read wants one value out of a compressed column, and what lies behind it need
//! not be decompressed. The crate `lz4` does not offer this call of the C library that it builds and links.

use std::ffi::{c_char, c_int};

// Links the C library.
use lz4 as _;

unsafe extern "C" {
    fn LZ4_decompress_safe_partial(
        source: *const c_char,
        target: *mut c_char,
        source_bytes: c_int,
        target_bytes_wanted: c_int,
        target_bytes_max: c_int,
    ) -> c_int;
}

/// Decompresses the first `wanted_bytes` of the LZ4 block `stored`, which holds `raw_bytes`, into the beginning of
/// `target`, which is grown to `raw_bytes` if it is shorter. False when the block is damaged or ends before, or a length
/// exceeds what LZ4 can express; what `target` holds is unspecified then.
#[must_use]
pub fn lz4_prefix(
    stored: &[u8],
    wanted_bytes: usize,
    raw_bytes: usize,
    target: &mut Vec<u8>,
) -> bool {
    let (Ok(source_bytes), Ok(wanted), Ok(raw)) = (
        c_int::try_from(stored.len()),
        c_int::try_from(wanted_bytes),
        c_int::try_from(raw_bytes),
    ) else {
        return false;
    };
    if wanted > raw {
        return false;
    }
    if target.len() < raw_bytes {
        target.resize(raw_bytes, 0);
    }
    // SAFETY: the source pointer is valid for `source_bytes` initialised bytes, those of the slice `stored`; the target
    // pointer is valid for writes of `raw` bytes, because `target` has at least that length; the two do not overlap,
    // because one is borrowed exclusively; the function reads and writes within these lengths whatever the source holds.
    let written = unsafe {
        LZ4_decompress_safe_partial(
            stored.as_ptr().cast(),
            target.as_mut_ptr().cast(),
            source_bytes,
            wanted,
            raw,
        )
    };
    written >= wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Goal: every prefix of every column comes out as the whole does. Method: columns of random compressibility.
    #[test]
    fn every_prefix_is_the_beginning_of_the_whole() {
        let mut random = Random::new(7);
        for case in 0..40_usize {
            let raw: Vec<u8> = (0..case * 37)
                .map(|index| match case % 3 {
                    0 => random.below(256) as u8,
                    1 => random.below(3) as u8,
                    _ => (index / 50) as u8,
                })
                .collect();
            let stored = lz4::block::compress(&raw, None, false).expect("LZ4 compresses anything");
            let mut target = Vec::new();
            for wanted in 0..=raw.len() {
                assert!(
                    lz4_prefix(&stored, wanted, raw.len(), &mut target),
                    "{case} {wanted}"
                );
                assert_eq!(target[..wanted], raw[..wanted], "{case} {wanted}");
            }
            assert!(!lz4_prefix(&stored, raw.len() + 1, raw.len(), &mut target));
        }
    }

    /// Goal: damaged blocks never write outside of the buffer. Method: flips and cuts; run it under valgrind too.
    #[test]
    fn damaged_blocks_stay_inside_the_buffer() {
        let raw: Vec<u8> = (0..900_usize).map(|index| (index / 7) as u8).collect();
        let stored = lz4::block::compress(&raw, None, false).expect("LZ4 compresses anything");
        let mut target = Vec::new();
        for at in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[at] ^= 0xff;
            let _ = lz4_prefix(&damaged, raw.len(), raw.len(), &mut target);
            let _ = lz4_prefix(&stored[..at], raw.len(), raw.len(), &mut target);
            assert_eq!(target.len(), raw.len());
        }
    }
}
