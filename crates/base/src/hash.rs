//! Checksums and hashes: XXH3 with 64 bits, from the crate `xxhash-rust`.

use xxhash_rust::xxh3;

/// The checksum of `bytes` under `seed`. The seed carries what the bytes must belong to (a file id, an offset, a
/// salt), so that intact bytes in the wrong place fail as surely as damaged ones.
#[must_use]
#[inline]
pub fn checksum(bytes: &[u8], seed: u64) -> u64 {
    xxh3::xxh3_64_with_seed(bytes, seed)
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
#[derive(Clone)]
pub struct ChecksumParts(xxh3::Xxh3);

impl ChecksumParts {
    /// Begins with no bytes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(xxh3::Xxh3::with_seed(seed))
    }

    /// Adds the following bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.digest()
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
    xxh3::xxh3_64(&bytes)
}

/// The hash of a key in canonical form, for hash indexes and filters. Durable: filters on disk depend on it.
#[must_use]
#[inline]
pub fn key_hash(canonical_key: &[u8]) -> u64 {
    xxh3::xxh3_64(canonical_key)
}

/// Stands for the name of a transaction (xid): 128 bits, so that two names of one hash are as good as impossible.
#[must_use]
pub fn xid_hash(xid: &[u8]) -> u128 {
    xxh3::xxh3_128(xid)
}
