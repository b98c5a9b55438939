//! Which keys a table may hold: a blocked Bloom filter that touches one cache line for a probe.
//!
//! After Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2007): the hash chooses one block
//! of 512 bits, and all bits of a key are set in that block. Blocks hold uneven numbers of keys, which costs accuracy, so
//! a filter needs a little more memory than a plain one of the same rate; the builder computes how much from the paper's
//! formula (the plain rate, averaged over the Poisson distribution of keys in a block) and picks the best number of bits
//! set by a key.
//!
//! The bytes are durable: docs/formats/filter.md. A checksum around them is the container's business. A filter is decoded
//! into aligned memory, so that a block is one cache line wherever the bytes came from.

use kingtide_base::planted::{self, Bug};
use std::fmt;

/// First bytes of a filter.
const MAGIC: [u8; 4] = *b"KTBF";
/// The version that this build writes, and the newest that it reads.
const VERSION: u8 = 1;
/// Bytes before the first block.
const HEADER_BYTES: usize = 16;
/// Bytes of a block: a cache line.
const BLOCK_BYTES: usize = 64;
/// Bits of a block.
const BLOCK_BITS: usize = BLOCK_BYTES * 8;
/// The most bits that a key sets.
const PROBES_MAX: u8 = 16;
/// How many keys ahead of the one whose bits are set a block is fetched.
const PREFETCH_KEYS: usize = 8;
/// Rates are brought into this range.
const RATE_MIN: f64 = 1e-6;
const RATE_MAX: f64 = 0.5;
/// The most bits that are spent for a key, whatever the rate.
const BITS_PER_KEY_MAX: f64 = 64.0;
/// Bits for a key are chosen in steps of this.
const BITS_PER_KEY_STEP: f64 = 0.25;
/// The multiplier from which the bits of a key are drawn; durable. 2^64 divided by the golden ratio, odd.
const PROBE_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// One cache line of bits.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Block([u64; 8]);

/// The number of the block of `hash`, out of `count` blocks.
#[inline]
fn block_index(hash: u64, count: u32) -> usize {
    (((hash >> 32) * u64::from(count)) >> 32) as usize
}

/// The bits that `hash` sets in its block, each below 512.
#[inline]
fn probe_bits(hash: u64, probes: u8) -> impl Iterator<Item = usize> {
    let mut state = hash;
    (0..probes).map(move |_| {
        state = state.wrapping_mul(PROBE_MULTIPLIER);
        (state >> 55) as usize
    })
}

/// Collects the hashes of a table's keys.
#[derive(Clone, Debug)]
pub struct FilterBuilder {
    rate: f64,
    hashes: Vec<u64>,
}

impl FilterBuilder {
    /// A builder of filters that say "maybe" for the share `false_positive_rate` of missing keys. Rates outside 0.000001
    /// to 0.5 are brought into that range.
    #[must_use]
    pub fn new(false_positive_rate: f64) -> Self {
        let rate = if false_positive_rate.is_nan() {
            RATE_MAX
        } else {
            false_positive_rate.clamp(RATE_MIN, RATE_MAX)
        };
        Self {
            rate,
            hashes: Vec::new(),
        }
    }

    /// Adds the key with this hash. The versions of one key, which come together, count once.
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Keys added so far.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.hashes.len()
    }

    /// Bytes of memory that the builder takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
    }

    /// The filter's bytes.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let (bits_per_key, probes) = choose_parameters(self.rate);
        let blocks = (self.hashes.len() as f64 * bits_per_key / BLOCK_BITS as f64).ceil();
        // The conversion saturates: beyond 2^32 blocks (256 GiB) a filter loses accuracy, never keys.
        let count = blocks as u32;
        let mut blocks = vec![Block([0; 8]); count as usize];
        for (i, hash) in self.hashes.iter().enumerate() {
            if let Some(ahead) = self.hashes.get(i + PREFETCH_KEYS) {
                let block = &raw const blocks[block_index(*ahead, count)];
                crate::hash_index::prefetch(block.cast());
            }
            let Block(words) = &mut blocks[block_index(*hash, count)];
            for bit in probe_bits(*hash, probes) {
                words[bit / 64] |= 1 << (bit % 64);
            }
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + size_of_val(&*blocks));
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = VERSION;
        header[5] = probes;
        header[8..12].copy_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&header);
        for Block(words) in blocks {
            bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
        }
        bytes
    }
}

/// Why bytes are not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterFault {
    /// The bytes break the named rule of the format.
    Malformed(&'static str),
    /// The filter has this version, which is newer than what this build reads.
    NewerVersion(u8),
}

impl fmt::Display for FilterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(rule) => write!(f, "not a filter: {rule}"),
            Self::NewerVersion(version) => {
                write!(
                    f,
                    "filter of version {version}, this build reads up to {VERSION}"
                )
            }
        }
    }
}

impl std::error::Error for FilterFault {}

/// A decoded filter.
pub struct Filter {
    probes: u8,
    blocks: Box<[Block]>,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter")
            .field("probes", &self.probes)
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

impl Filter {
    /// Decodes what [`FilterBuilder::finish`] gave.
    ///
    /// # Errors
    /// [`FilterFault`] when `bytes` are not a whole filter of a known version.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, FilterFault> {
        let (header, bits) = bytes
            .as_ref()
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(FilterFault::Malformed("shorter than its header"))?;
        if header[..4] != MAGIC {
            return Err(FilterFault::Malformed("wrong magic"));
        }
        let [version, probes] = [header[4], header[5]];
        match version {
            VERSION => {}
            0 => return Err(FilterFault::Malformed("version 0")),
            _ => return Err(FilterFault::NewerVersion(version)),
        }
        if !(1..=PROBES_MAX).contains(&probes) {
            return Err(FilterFault::Malformed("number of bits for a key"));
        }
        if header[6..8] != [0; 2] || header[12..16] != [0; 4] {
            return Err(FilterFault::Malformed("reserved bytes are not zero"));
        }
        let count = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let (blocks, rest) = bits.as_chunks::<BLOCK_BYTES>();
        if !rest.is_empty() || blocks.len() as u64 != u64::from(count) {
            return Err(FilterFault::Malformed("length contradicts the block count"));
        }
        let blocks = blocks.iter().map(|block| {
            let mut words = [0; 8];
            let (bytes, _) = block.as_chunks::<8>();
            for (word, bytes) in words.iter_mut().zip(bytes) {
                *word = u64::from_le_bytes(*bytes);
            }
            Block(words)
        });
        Ok(Self {
            probes,
            blocks: blocks.collect(),
        })
    }

    /// False when no key with this hash was added; true when there was one, and now and then when there was none.
    #[inline]
    #[must_use]
    pub fn may_contain(&self, hash: u64) -> bool {
        if planted::is(Bug::FilterForgetsKey) && hash.is_multiple_of(7) {
            return false;
        }
        let Some(Block(words)) = self.blocks.get(block_index(hash, self.blocks.len() as u32))
        else {
            return false;
        };
        probe_bits(hash, self.probes).all(|bit| words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// Asks the processor to fetch the line that [`Filter::may_contain`] will look at.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(block) = self.blocks.get(block_index(hash, self.blocks.len() as u32)) {
            crate::hash_index::prefetch(std::ptr::from_ref(block).cast());
        }
    }

    /// Bytes of memory that the decoded filter takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.blocks)
    }
}

/// The fewest bits for a key, and how many of them a key sets, that reach `rate`.
fn choose_parameters(rate: f64) -> (f64, u8) {
    // What a plain filter needs; a blocked one needs more.
    let plain = -rate.ln() / std::f64::consts::LN_2.powi(2);
    let mut bits_per_key = (plain / BITS_PER_KEY_STEP).floor() * BITS_PER_KEY_STEP;
    loop {
        let (probes, reached) = best_probes(bits_per_key);
        if reached <= rate || bits_per_key >= BITS_PER_KEY_MAX {
            return (bits_per_key, probes);
        }
        bits_per_key += BITS_PER_KEY_STEP;
    }
}

/// The number of bits set by a key that gives the lowest rate, and that rate.
fn best_probes(bits_per_key: f64) -> (u8, f64) {
    let mut best = (1, blocked_rate(bits_per_key, 1));
    for probes in 2..=PROBES_MAX {
        let rate = blocked_rate(bits_per_key, probes);
        // The rate falls and then rises with the number of bits.
        if rate >= best.1 {
            break;
        }
        best = (probes, rate);
    }
    best
}

/// The rate of a blocked filter: that of a plain filter of one block, averaged over how many keys a block gets.
fn blocked_rate(bits_per_key: f64, probes: u8) -> f64 {
    let mean = BLOCK_BITS as f64 / bits_per_key;
    let keys_end = (mean + 12.0 * mean.sqrt() + 12.0) as usize;
    let unset_by_one = (1.0 - 1.0 / BLOCK_BITS as f64).powi(i32::from(probes));
    let mut share = (-mean).exp();
    let mut unset = 1.0;
    let mut rate = 0.0;
    for keys in 1..keys_end {
        share *= mean / keys as f64;
        unset *= unset_by_one;
        rate += share * (1.0_f64 - unset).powi(i32::from(probes));
    }
    rate
}

#[cfg(test)]
mod tests;
