//! Keys and values that an index and a seed determine, cheap to make and cheaper to check.
//!
//! A key is its index, big-endian, in the first eight bytes (the last bytes of it when the key is shorter), then a
//! padding of `0`: keys sort as their indices do.
//!
//! A value of `value_bytes` is `mark | random | repeat`. The mark is eight bytes that only this index and seed have.
//! `random` is a slice, chosen by the mark, of a pool of random bytes. Together they are the part that does not
//! compress: `ratio * value_bytes`, at least the mark. The rest repeats what came before it, so a compressor that looks
//! for matches removes it. Checking compares against the pool and the value itself: nothing is generated.

use crate::random::{Random, mix};

const MARK_BYTES: usize = 8;
// Larger than the window of the block compressors in use, so that slices of two values of one block seldom overlap.
const POOL_BYTES: usize = 4 << 20;

/// Makes keys of one length.
#[derive(Clone, Debug)]
pub struct KeyMaker {
    key_bytes: usize,
}

impl KeyMaker {
    /// Keys of `key_bytes` bytes, at least 1. See [`KeyMaker::count_max`] for how many there are.
    #[must_use]
    pub fn new(key_bytes: usize) -> Self {
        Self {
            key_bytes: key_bytes.max(1),
        }
    }

    /// How many different keys of this length there are (saturating).
    #[must_use]
    pub fn count_max(&self) -> u64 {
        if self.key_bytes >= 8 {
            u64::MAX
        } else {
            1_u64 << (8 * self.key_bytes)
        }
    }

    /// Writes the key of `index` over `target`.
    pub fn write(&self, index: u64, target: &mut Vec<u8>) {
        target.clear();
        let bytes = index.to_be_bytes();
        if self.key_bytes < bytes.len() {
            target.extend_from_slice(&bytes[bytes.len() - self.key_bytes..]);
        } else {
            target.extend_from_slice(&bytes);
            target.resize(self.key_bytes, b'0');
        }
    }

    /// The index of `key`, or `None` when no index has this key.
    #[must_use]
    pub fn index(&self, key: &[u8]) -> Option<u64> {
        if key.len() != self.key_bytes {
            return None;
        }
        let (head, padding) = key.split_at(key.len().min(8));
        if padding.iter().any(|byte| *byte != b'0') {
            return None;
        }
        let mut bytes = [0; 8];
        bytes[8 - head.len()..].copy_from_slice(head);
        Some(u64::from_be_bytes(bytes))
    }
}

/// Makes and checks values of one length.
#[derive(Clone, Debug)]
pub struct ValueMaker {
    value_bytes: usize,
    /// The mark and the random slice.
    fresh_bytes: usize,
    seed: u64,
    pool: Vec<u8>,
}

impl ValueMaker {
    /// Values of `value_bytes` bytes of which the share `ratio` (0 to 1) does not compress.
    #[must_use]
    pub fn new(value_bytes: usize, ratio: f64, seed: u64) -> Self {
        let wanted = (value_bytes as f64 * ratio.clamp(0.0, 1.0)).ceil() as usize;
        let mut random = Random::new(seed ^ 0x706f_6f6c);
        let mut pool = Vec::with_capacity(POOL_BYTES);
        while pool.len() < POOL_BYTES {
            pool.extend_from_slice(&random.next_u64().to_le_bytes());
        }
        Self {
            value_bytes,
            fresh_bytes: wanted.max(MARK_BYTES).min(value_bytes),
            seed,
            pool,
        }
    }

    /// Writes the value of `index` over `target`.
    pub fn write(&self, index: u64, target: &mut Vec<u8>) {
        target.clear();
        let mark = self.mark(index);
        target.extend_from_slice(&mark[..MARK_BYTES.min(self.value_bytes)]);
        let mut offset = self.pool_offset(mark);
        while target.len() < self.fresh_bytes {
            let count = (self.fresh_bytes - target.len()).min(self.pool.len() - offset);
            target.extend_from_slice(&self.pool[offset..offset + count]);
            offset = 0;
        }
        while target.len() < self.value_bytes {
            let count = (self.value_bytes - target.len()).min(self.fresh_bytes);
            target.extend_from_within(..count);
        }
    }

    /// True when `value` is the value of `index`, byte for byte.
    #[must_use]
    pub fn is_value_of(&self, index: u64, value: &[u8]) -> bool {
        if value.len() != self.value_bytes {
            return false;
        }
        let mark = self.mark(index);
        let (fresh, repeat) = value.split_at(self.fresh_bytes);
        let (head, mut rest) = fresh.split_at(MARK_BYTES.min(fresh.len()));
        if head != &mark[..head.len()] {
            return false;
        }
        let mut offset = self.pool_offset(mark);
        while !rest.is_empty() {
            let count = rest.len().min(self.pool.len() - offset);
            let (part, after) = rest.split_at(count);
            if part != &self.pool[offset..offset + count] {
                return false;
            }
            rest = after;
            offset = 0;
        }
        // Each byte of the repeated part equals the one `fresh_bytes` before it.
        repeat == &value[..repeat.len()]
    }

    fn mark(&self, index: u64) -> [u8; MARK_BYTES] {
        mix(index ^ mix(self.seed)).to_le_bytes()
    }

    fn pool_offset(&self, mark: [u8; MARK_BYTES]) -> usize {
        (mix(u64::from_le_bytes(mark)) % self.pool.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_indices_and_name_them() {
        for key_bytes in [1, 2, 7, 8, 9, 16, 100] {
            let keys = KeyMaker::new(key_bytes);
            let mut previous = Vec::new();
            for index in 0..keys.count_max().min(1000) {
                let mut key = Vec::new();
                keys.write(index, &mut key);
                assert_eq!(key.len(), key_bytes);
                assert!(key > previous, "{key_bytes} {index}");
                assert_eq!(keys.index(&key), Some(index));
                previous = key;
            }
        }
        assert_eq!(KeyMaker::new(16).index(b"short"), None);
        assert_eq!(KeyMaker::new(9).index(b"12345678x"), None);
    }

    #[test]
    fn only_the_value_of_an_index_passes_for_it() {
        for value_bytes in [0, 1, 7, 8, 9, 100, 1000] {
            for ratio in [0.0, 0.3, 1.0] {
                let values = ValueMaker::new(value_bytes, ratio, 42);
                let mut value = Vec::new();
                values.write(7, &mut value);
                assert_eq!(value.len(), value_bytes);
                assert!(values.is_value_of(7, &value));
                assert!(!values.is_value_of(7, &[&value[..], b"x"].concat()));
                for place in 0..value.len() {
                    let mut damaged = value.clone();
                    damaged[place] ^= 1;
                    assert!(!values.is_value_of(7, &damaged), "{value_bytes} {place}");
                }
                if value_bytes > 0 {
                    assert!(!values.is_value_of(8, &value));
                }
            }
        }
    }

    #[test]
    fn a_value_longer_than_the_pool_wraps() {
        let values = ValueMaker::new(POOL_BYTES + 1000, 1.0, 1);
        let mut value = Vec::new();
        values.write(1, &mut value);
        assert!(values.is_value_of(1, &value));
    }

    /// Goal: the ratio is what a block compressor achieves. Method: LZ4 over blocks of 4 KiB of values.
    #[test]
    fn values_compress_to_about_the_ratio_asked_for() {
        for (value_bytes, ratio) in [(100, 0.5), (400, 0.5), (100, 1.0), (1000, 0.25)] {
            let values = ValueMaker::new(value_bytes, ratio, 3);
            let mut raw_bytes = 0;
            let mut compressed_bytes = 0;
            let mut value = Vec::new();
            for block in 0..50 {
                let mut bytes = Vec::new();
                for index in 0..(4096 / value_bytes) as u64 {
                    values.write(block * 1000 + index, &mut value);
                    bytes.extend_from_slice(&value);
                }
                raw_bytes += bytes.len();
                compressed_bytes += lz4::block::compress(&bytes, None, false)
                    .expect("compression into memory")
                    .len();
            }
            let achieved = compressed_bytes as f64 / raw_bytes as f64;
            assert!(
                (achieved - ratio).abs() < 0.1,
                "{value_bytes} {ratio}: {achieved}"
            );
        }
    }
}
