//! Packed bytes: what the log and memtables hold compressed, long payloads of frames and long values.
//!
//! | size | field |
//! |---|---|
//! | 4 | length of the raw bytes |
//! | rest | the raw bytes as an LZ4 block |
//!
//! Values are packed when they are put, so that the transaction, the log and the memtable copy and hold less, and flushes are
//! fewer. Whoever reads one unpacks it. A flush puts the LZ4 block of a long one into a value file as it is, and unpacks the others:
//! value files compress those with a dictionary, or with another codec.

use kingtide_base::{StorageError, StorageResult, limits::VALUE_BYTES_MAX};

/// Values of so many bytes are worth to be packed as tables compress: a flush can leave them as they are. Simulations come by them
/// with less.
pub const PACKED_FOR_GOOD_BYTES_MIN: usize = if cfg!(simulated) { 128 } else { (16 << 10) + 1 };
/// Where speed counts: of payloads, whose blocks nobody keeps, and where a family asks for it.
pub const FAST_ACCELERATION: i32 = 8;
/// Values of so many bytes are long: samples tell whether they shrink, so that one that does not is not compressed as a whole to
/// find that out.
pub const LONG_VALUE_BYTES: usize = 1 << 20;
/// Samples of a long value, and their length in bytes.
const SAMPLES: usize = 4;
const SAMPLE_BYTES: usize = 64 << 10;
/// No LZ4 token yields more than 255 bytes per input byte.
const EXPANSION_MAX: usize = 255;
const LENGTH_BYTES: usize = 4;

/// Packs `raw`, of less than 2^31 bytes, into the front of `target`; how many bytes it takes there, or `None` when it does not
/// fit.
#[must_use]
pub fn pack(raw: &[u8], target: &mut [u8]) -> Option<usize> {
    pack_with(FAST_ACCELERATION, raw, target)
}

fn pack_with(acceleration: i32, raw: &[u8], target: &mut [u8]) -> Option<usize> {
    let length = u32::try_from(raw.len()).ok()?;
    let (head, rest) = target.split_first_chunk_mut()?;
    *head = length.to_le_bytes();
    let mode = lz4::block::CompressionMode::FAST(acceleration);
    let stored = lz4::block::compress_to_buffer(raw, Some(mode), false, rest).ok()?;
    Some(LENGTH_BYTES + stored)
}

/// Unpacks `packed` into `target`, whose content is replaced; `None`, and `target` means nothing then, when it does not unpack
/// to the length that it says, or that is more than `raw_bytes_max` or than it can be, or there is no memory for so much.
#[must_use]
pub fn unpack<'t>(
    packed: &[u8],
    raw_bytes_max: usize,
    target: &'t mut Vec<u8>,
) -> Option<&'t [u8]> {
    let (length, stored) = packed_block(packed)?;
    if length > raw_bytes_max || length > stored.len().saturating_mul(EXPANSION_MAX) {
        return None;
    }
    // Only what grows is zeroed: a buffer used again for about the same length costs nothing.
    let longer = length.saturating_sub(target.len());
    target.try_reserve_exact(longer).ok()?;
    target.resize(length, 0);
    let length_i32 = i32::try_from(length).ok()?;
    let written = lz4::block::decompress_to_buffer(stored, Some(length_i32), target).ok()?;
    (written == length).then_some(target)
}

/// The length of the raw bytes that `packed` holds, as that claims; `None` when it is too short to say.
#[must_use]
pub fn packed_raw_bytes(packed: &[u8]) -> Option<usize> {
    packed_block(packed).map(|(length, _)| length)
}

/// The length of the raw bytes that `packed` holds, as that claims, and their LZ4 block; `None` when it is too short for both.
#[must_use]
pub fn packed_block(packed: &[u8]) -> Option<(usize, &[u8])> {
    let (length, block) = packed.split_first_chunk::<LENGTH_BYTES>()?;
    Some((u32::from_le_bytes(*length) as usize, block))
}

/// Packs `value` into `scratch`, whose content is replaced; `None` where that does not save an eighth. The larger `acceleration`,
/// from 1 on, the less it takes and saves.
///
/// ```
/// # use kingtide_collections::{pack_value, packed_raw_bytes, unpack_value};
/// let value = b"tide and tide again, ".repeat(100);
/// let (mut scratch, mut unpacked) = (Vec::new(), Vec::new());
/// let packed = pack_value(&value, 1, &mut scratch).expect("it repeats itself");
/// assert_eq!(packed_raw_bytes(packed), Some(value.len()));
/// assert_eq!(unpack_value(packed, &mut unpacked).expect("it is whole"), value);
/// ```
#[must_use]
pub fn pack_value<'s>(
    value: &[u8],
    acceleration: i32,
    scratch: &'s mut Vec<u8>,
) -> Option<&'s [u8]> {
    let mut pack = |raw: &[u8]| {
        let bytes_max = raw.len() - raw.len() / 8;
        if scratch.len() < bytes_max {
            scratch.resize(bytes_max, 0);
        }
        pack_with(acceleration, raw, &mut scratch[..bytes_max])
    };
    if value.len() >= LONG_VALUE_BYTES
        && long_value_samples(value).all(|sample| pack(sample).is_none())
    {
        return None;
    }
    let bytes = pack(value)?;
    scratch.get(..bytes)
}

/// Samples of a value of [`LONG_VALUE_BYTES`] and more, from its beginning to its end.
pub fn long_value_samples(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let last = value.len().saturating_sub(SAMPLE_BYTES);
    let starts = (0..SAMPLES).map(move |index| index * last / (SAMPLES - 1));
    starts.filter_map(|start| value.get(start..start + SAMPLE_BYTES))
}

/// The value that `packed` holds, in `target`, whose content is replaced.
///
/// # Errors
/// `Corruption`, where [`unpack`] answers nothing.
pub fn unpack_value<'t>(packed: &[u8], target: &'t mut Vec<u8>) -> StorageResult<&'t [u8]> {
    unpack(packed, VALUE_BYTES_MAX, target)
        .ok_or_else(|| StorageError::malformed("memory", 0, "a packed value that does not unpack"))
}

/// As [`unpack_value`], in memory of its own.
///
/// # Errors
/// As [`unpack_value`].
pub fn unpacked_value(packed: &[u8]) -> StorageResult<Vec<u8>> {
    let mut value = Vec::new();
    unpack_value(packed, &mut value)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Goal: what is packed is shorter by an eighth and unpacks to what it was, in scratch memory of any content; what does not
    /// compress is not packed. Method: values of all lengths up to 300 and some longer, of few different bytes and of many.
    #[test]
    fn values_unpack_to_what_they_were() {
        let (mut scratch, mut unpacked) = (vec![7; 1000], vec![9; 1000]);
        let mut random = Random::new(1);
        for length in (0..300).chain([4096, 65_536, 1 << 20]) {
            for kinds in [1, 3, 256] {
                let value: Vec<u8> = (0..length).map(|_| random.below(kinds) as u8).collect();
                for acceleration in [1, FAST_ACCELERATION] {
                    let Some(packed) = pack_value(&value, acceleration, &mut scratch) else {
                        assert!(kinds == 256 || length < 300, "{length} bytes of {kinds}");
                        continue;
                    };
                    assert!(kinds < 256 && packed.len() <= length - length / 8);
                    assert_eq!(packed_raw_bytes(packed), Some(length));
                    assert_eq!(
                        packed_block(packed),
                        Some((length, &packed[LENGTH_BYTES..]))
                    );
                    assert_eq!(unpack_value(packed, &mut unpacked).expect("whole"), value);
                }
            }
        }
    }

    /// Goal: a long value is packed when a part of it shrinks, wherever that is. Method: noise of two mebibytes, and zeros in each
    /// quarter of it in turn.
    #[test]
    fn samples_tell_whether_long_values_shrink() {
        let mut random = Random::new(2);
        let length = 2 * LONG_VALUE_BYTES;
        let noise: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        let mut scratch = Vec::new();
        assert_eq!(pack_value(&noise, 1, &mut scratch), None);
        assert!(scratch.len() < LONG_VALUE_BYTES, "the whole was compressed");
        for quarter in 0..SAMPLES {
            let mut value = noise.clone();
            value[quarter * length / SAMPLES..(quarter + 1) * length / SAMPLES].fill(0);
            assert!(pack_value(&value, 1, &mut scratch).is_some(), "{quarter}");
        }
        assert!(long_value_samples(&noise).all(|sample| sample.len() == SAMPLE_BYTES));
        assert!(noise.starts_with(long_value_samples(&noise).next().expect("the first")));
        assert!(noise.ends_with(long_value_samples(&noise).last().expect("the last")));
    }

    /// Goal: bytes that are no packed value are refused without a panic or a large allocation. Method: every prefix of a packed
    /// value, every length in front of it, and every byte of it changed.
    #[test]
    fn what_does_not_unpack_is_refused() {
        let (mut scratch, mut unpacked) = (Vec::new(), Vec::new());
        let value = b"ebb and flow, ".repeat(30);
        let packed = pack_value(&value, 1, &mut scratch).expect("short").to_vec();
        for end in 0..packed.len() {
            assert!(
                unpack_value(&packed[..end], &mut unpacked).is_err(),
                "{end}"
            );
        }
        for length in [
            0,
            1,
            value.len() - 1,
            value.len() + 1,
            1 << 30,
            u32::MAX as usize,
        ] {
            let mut forged = packed.clone();
            forged[..4].copy_from_slice(&(length as u32).to_le_bytes());
            assert!(unpack_value(&forged, &mut unpacked).is_err(), "{length}");
        }
        for at in 0..packed.len() {
            let mut forged = packed.clone();
            forged[at] ^= 0x55;
            if let Ok(found) = unpack_value(&forged, &mut unpacked) {
                assert_eq!(Some(found.len()), packed_raw_bytes(&forged));
            }
        }
        assert!(unpacked.capacity() <= packed.len() * EXPANSION_MAX);
    }
}
