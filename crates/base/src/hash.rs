//! Checksums and hashes: XXH3 with 64 bits, from the crate `twox-hash`, which takes the widest instructions that the processor
//! has, whatever it was compiled for.

use std::hash::Hasher;

use twox_hash::{
    XxHash3_64, XxHash3_128,
    xxhash3_64::{DEFAULT_SECRET_LENGTH, RawHasher, SecretBuffer},
};

/// The checksum of `bytes` under `seed`. The seed carries what the bytes must belong to (a file id, an offset, a
/// salt), so that intact bytes in the wrong place fail as surely as damaged ones.
#[must_use]
#[inline]
pub fn checksum(bytes: &[u8], seed: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// [`checksum`] of bytes that come one part after the other.
///
/// ```
/// use kingtide_base::{ChecksumParts, checksum};
///
/// let mut parts = ChecksumParts::new(7);
/// parts.add(b"ab");
/// parts.add(b"c");
/// assert_eq!(parts.finish(), checksum(b"abc", 7));
/// ```
pub struct ChecksumParts(RawHasher<[u8; DEFAULT_SECRET_LENGTH]>);

impl ChecksumParts {
    /// Begins with no bytes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let secret = SecretBuffer::with_seed(seed, [0; DEFAULT_SECRET_LENGTH]);
        let Ok(secret) = secret else {
            unreachable!("the array has the length of a secret")
        };
        Self(RawHasher::new(secret))
    }

    /// Adds the following bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The checksum of all bytes so far.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

impl std::fmt::Debug for ChecksumParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ChecksumParts")
            .field(&self.finish())
            .finish()
    }
}

/// Folds two 64-bit values into one seed or checksum, such that neither can cancel the other out.
#[must_use]
#[inline]
pub fn checksum_mix(first: u64, second: u64) -> u64 {
    let mut bytes = [0_u8; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    XxHash3_64::oneshot(&bytes)
}

/// The hash of a key in canonical form, for hash indexes and filters. Durable: filters on disk depend on it.
#[must_use]
#[inline]
pub fn key_hash(canonical_key: &[u8]) -> u64 {
    XxHash3_64::oneshot(canonical_key)
}

/// Stands for the name of a transaction (xid): 128 bits, so that two names of one hash are as good as impossible.
#[must_use]
pub fn xid_hash(xid: &[u8]) -> u128 {
    XxHash3_128::oneshot(xid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..5000_u32).map(|index| (index * 7) as u8).collect();
        for length in [0, 1, 16, 128, 240, 241, 1024, 5000] {
            let whole = &bytes[..length];
            for part_bytes in [1, 3, 21, 255, 256, 4999, 5000] {
                let mut parts = ChecksumParts::new(0x5eed);
                whole.chunks(part_bytes).for_each(|part| parts.add(part));
                assert_eq!(
                    parts.finish(),
                    checksum(whole, 0x5eed),
                    "{length} {part_bytes}"
                );
            }
        }
    }

    /// Of the reference implementation: files depend on these.
    #[test]
    fn hashes_are_those_of_xxh3() {
        assert_eq!(key_hash(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(key_hash(b"a"), 0xe6c6_32b6_1e96_4e1f);
    }
}
