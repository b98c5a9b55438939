//! Values that an index, a version and a seed determine, cheap to make and cheaper to check.
//!
//! A value is `mark | random | repeat`. The mark is eight bytes that only this index, version and seed have; the version
//! can be read back from it. `random` is a slice, chosen by the mark, of a pool of random bytes. Together they are the
//! part that does not compress: `ratio * length`, at least the mark. The rest repeats what came before it, so a
//! compressor that looks for matches removes it. Checking compares against the pool and the value itself: nothing is
//! generated. The length depends on the index and not on the version.
//!
//! Values of the content `counter` are those of the published tests instead: byte number i of the value of index n is n + i,
//! modulo 256. They have one version, and a compressor that sees many of them keeps next to nothing.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::random::{Random, mix};
use crate::ValueContent;

const MARK_BYTES: usize = 8;
// Larger than the window of the block compressors in use, so that slices of two values of one block seldom overlap.
const POOL_BYTES: usize = 4 << 20;
/// Versions are below this; a mark that says more is none.
const VERSION_MAX: u64 = 1 << 32;

/// How long values are. As text: `100`, `uniform:64-4096`, `log-uniform:64-1048576`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ValueSizes {
    /// All alike.
    Fixed(usize),
    /// Every length between the two, as often as any other.
    Uniform(usize, usize),
    /// Every power of two between the two as often as any other: many short values, few long ones.
    LogUniform(usize, usize),
}

impl ValueSizes {
    /// The longest.
    #[must_use]
    pub fn max(self) -> usize {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Uniform(_, max) | Self::LogUniform(_, max) => max,
        }
    }

    /// The arithmetic mean.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            Self::Fixed(bytes) => bytes as f64,
            Self::Uniform(min, max) => f64::midpoint(min as f64, max as f64),
            Self::LogUniform(min, max) => {
                let (min, max) = (min.max(1) as f64, max.max(1) as f64);
                if max > min {
                    (max - min) / (max / min).ln()
                } else {
                    min
                }
            }
        }
    }

    /// The length of the value of `index`.
    fn length(self, index: u64, seed: u64) -> usize {
        let (min, max) = match self {
            Self::Fixed(bytes) => return bytes,
            Self::Uniform(min, max) | Self::LogUniform(min, max) => (min, max),
        };
        let mut random = Random::new(mix(index) ^ seed ^ 0x7369_7a65);
        if let Self::Uniform(..) = self {
            return min + random.below((max - min) as u64 + 1) as usize;
        }
        let ratio = max.max(1) as f64 / min.max(1) as f64;
        let length = min.max(1) as f64 * ratio.powf(random.fraction());
        (length as usize).clamp(min, max)
    }
}

impl fmt::Display for ValueSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => write!(f, "{bytes}"),
            Self::Uniform(min, max) => write!(f, "uniform:{min}-{max}"),
            Self::LogUniform(min, max) => write!(f, "log-uniform:{min}-{max}"),
        }
    }
}

impl From<ValueSizes> for String {
    fn from(sizes: ValueSizes) -> Self {
        sizes.to_string()
    }
}

impl TryFrom<String> for ValueSizes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for ValueSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || {
            format!(
                "{text:?} is no size of values; write 100, uniform:64-4096 or log-uniform:64-1048576"
            )
        };
        let Some((name, range)) = text.split_once(':') else {
            return text.parse().map(Self::Fixed).map_err(|_| problem());
        };
        let (min, max) = range.split_once('-').ok_or_else(problem)?;
        let (min, max) = match (min.parse::<usize>(), max.parse::<usize>()) {
            (Ok(min), Ok(max)) if min <= max => (min, max),
            _ => return Err(problem()),
        };
        match name {
            "uniform" => Ok(Self::Uniform(min, max)),
            "log-uniform" => Ok(Self::LogUniform(min, max)),
            _ => Err(problem()),
        }
    }
}

/// Makes and checks values.
#[derive(Clone, Debug)]
pub struct ValueMaker {
    sizes: ValueSizes,
    content: ValueContent,
    ratio: f64,
    seed: u64,
    /// Random bytes, or the bytes of a counter.
    pool: Vec<u8>,
}

impl ValueMaker {
    /// Values of these lengths, of which the share `ratio` (0 to 1) does not compress; it says nothing of counters.
    #[must_use]
    pub fn new(sizes: ValueSizes, content: ValueContent, ratio: f64, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x706f_6f6c);
        let mut pool = Vec::with_capacity(POOL_BYTES);
        while pool.len() < POOL_BYTES {
            match content {
                ValueContent::Marked => {
                    pool.extend_from_slice(&random.next_u64().to_le_bytes());
                }
                ValueContent::Counter => pool.extend(0..=u8::MAX),
            }
        }
        Self {
            sizes,
            content,
            ratio: ratio.clamp(0.0, 1.0),
            seed,
            pool,
        }
    }

    /// The length of the value of `index`, in every version.
    #[must_use]
    pub fn length(&self, index: u64) -> usize {
        self.sizes.length(index, self.seed)
    }

    /// Writes a version of the value of `index` over `target`. Versions are below 2^32; larger ones wrap.
    pub fn write(&self, index: u64, version: u64, target: &mut Vec<u8>) {
        target.clear();
        let length = self.length(index);
        if self.content == ValueContent::Counter {
            self.extend_from_pool(target, length, counter_offset(index));
            return;
        }
        let fresh_bytes = self.fresh_bytes(length);
        let mark = self.mark(index, version % VERSION_MAX);
        target.reserve(length);
        target.extend_from_slice(&mark[..MARK_BYTES.min(length)]);
        self.extend_from_pool(target, fresh_bytes, self.pool_offset(mark));
        while target.len() < length {
            let count = (length - target.len()).min(fresh_bytes);
            target.extend_from_within(..count);
        }
    }

    /// The version of the value of `index` that `value` is, byte for byte; `None` when it is none. Of values shorter
    /// than eight bytes the version cannot be told, and only version 0 passes.
    #[must_use]
    pub fn version(&self, index: u64, value: &[u8]) -> Option<u64> {
        if value.len() != self.length(index) {
            return None;
        }
        if self.content == ValueContent::Counter {
            return self.is_from_pool(value, counter_offset(index)).then_some(0);
        }
        let (fresh, repeat) = value.split_at(self.fresh_bytes(value.len()));
        let (head, rest) = fresh.split_at(MARK_BYTES.min(fresh.len()));
        let mut version = 0;
        if let Ok(head) = <[u8; MARK_BYTES]>::try_from(head) {
            version = u64::from_le_bytes(head) ^ u64::from_le_bytes(self.mark(index, 0));
        }
        let mark = self.mark(index, version);
        if version >= VERSION_MAX || head != &mark[..head.len()] {
            return None;
        }
        // Each byte of the repeated part equals the one `fresh_bytes` before it.
        let is_right =
            self.is_from_pool(rest, self.pool_offset(mark)) && repeat == &value[..repeat.len()];
        is_right.then_some(version)
    }

    /// Makes `target` as long as `length` with what stands in the pool from `offset` on, and from its beginning again.
    fn extend_from_pool(&self, target: &mut Vec<u8>, length: usize, mut offset: usize) {
        while target.len() < length {
            let count = (length - target.len()).min(self.pool.len() - offset);
            target.extend_from_slice(&self.pool[offset..offset + count]);
            offset = 0;
        }
    }

    /// True when `bytes` are what stands there.
    fn is_from_pool(&self, mut bytes: &[u8], mut offset: usize) -> bool {
        while !bytes.is_empty() {
            let count = bytes.len().min(self.pool.len() - offset);
            let (part, after) = bytes.split_at(count);
            if part != &self.pool[offset..offset + count] {
                return false;
            }
            bytes = after;
            offset = 0;
        }
        true
    }

    /// True when `value` is some version of the value of `index`.
    #[must_use]
    pub fn is_value_of(&self, index: u64, value: &[u8]) -> bool {
        self.version(index, value).is_some()
    }

    /// Values too short to tell their version have only one, and so have counters.
    pub(crate) fn tells_versions(&self) -> bool {
        if self.content == ValueContent::Counter {
            return false;
        }
        let min = match self.sizes {
            ValueSizes::Fixed(bytes) => bytes,
            ValueSizes::Uniform(min, _) | ValueSizes::LogUniform(min, _) => min,
        };
        min >= MARK_BYTES
    }

    /// The mark and the random slice.
    fn fresh_bytes(&self, length: usize) -> usize {
        let wanted = (length as f64 * self.ratio).ceil() as usize;
        wanted.max(MARK_BYTES).min(length)
    }

    fn mark(&self, index: u64, version: u64) -> [u8; MARK_BYTES] {
        (mix(index ^ mix(self.seed)) ^ version).to_le_bytes()
    }

    fn pool_offset(&self, mark: [u8; MARK_BYTES]) -> usize {
        (mix(u64::from_le_bytes(mark)) % self.pool.len() as u64) as usize
    }
}

/// Where the counter of `index` begins in the pool.
const fn counter_offset(index: u64) -> usize {
    index as u8 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(sizes: ValueSizes, ratio: f64, seed: u64) -> ValueMaker {
        ValueMaker::new(sizes, ValueContent::Marked, ratio, seed)
    }

    #[test]
    fn counters_are_those_of_the_published_tests() {
        for bytes in [0, 1, 100, 300, POOL_BYTES + 3] {
            let values = ValueMaker::new(ValueSizes::Fixed(bytes), ValueContent::Counter, 0.5, 42);
            let mut value = Vec::new();
            for index in [0, 7, 250, 1000] {
                values.write(index, 9, &mut value);
                let expected: Vec<u8> = (0..bytes as u64).map(|i| (index + i) as u8).collect();
                assert!(value == expected, "{bytes} {index}");
                assert_eq!(values.version(index, &value), Some(0));
                assert_eq!(values.version(index + 1, &value).is_some(), bytes == 0);
            }
        }
    }

    #[test]
    fn only_the_value_of_an_index_passes_for_it() {
        for value_bytes in [0, 1, 7, 8, 9, 100, 1000] {
            for ratio in [0.0, 0.3, 1.0] {
                let values = marked(ValueSizes::Fixed(value_bytes), ratio, 42);
                let mut value = Vec::new();
                values.write(7, 0, &mut value);
                assert_eq!(value.len(), value_bytes);
                assert!(values.is_value_of(7, &value));
                assert!(!values.is_value_of(7, &[&value[..], b"x"].concat()));
                for place in 0..value.len() {
                    let mut damaged = value.clone();
                    damaged[place] ^= 1;
                    // A changed mark may be the mark of another version: then what follows it must be that version's.
                    // In the shortest ones nothing follows.
                    let may_be_version = values.tells_versions() && place < MARK_BYTES / 2;
                    if !may_be_version || value_bytes >= 2 * MARK_BYTES {
                        assert!(
                            !values.is_value_of(7, &damaged),
                            "{value_bytes} {ratio} {place}"
                        );
                    }
                }
                if value_bytes > 0 {
                    assert!(!values.is_value_of(8, &value));
                }
            }
        }
    }

    #[test]
    fn versions_are_told_apart() {
        let values = marked(ValueSizes::Fixed(100), 0.5, 42);
        let mut value = Vec::new();
        for version in [0, 1, 77, VERSION_MAX - 1] {
            values.write(7, version, &mut value);
            assert_eq!(values.version(7, &value), Some(version));
        }
        values.write(7, VERSION_MAX + 3, &mut value);
        assert_eq!(values.version(7, &value), Some(3));
    }

    #[test]
    fn lengths_follow_their_distribution() {
        for (text, min, max) in [
            ("uniform:10-20", 10, 20),
            ("log-uniform:8-4096", 8, 4096),
            ("log-uniform:0-4", 0, 4),
            ("uniform:5-5", 5, 5),
        ] {
            let sizes: ValueSizes = text.parse().expect("good");
            assert_eq!(sizes.to_string(), text);
            let values = marked(sizes, 0.5, 1);
            let lengths: Vec<usize> = (0..4000).map(|index| values.length(index)).collect();
            assert!(
                lengths.iter().all(|length| (min..=max).contains(length)),
                "{text}"
            );
            let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
            assert!(
                (mean - sizes.mean()).abs() < sizes.mean() * 0.15 + 1.0,
                "{text}: {mean}"
            );
            let mut value = Vec::new();
            values.write(9, 0, &mut value);
            assert!(values.is_value_of(9, &value));
        }
        for bad in [
            "",
            "x",
            "uniform:9",
            "uniform:9-1",
            "zipf:1-2",
            "uniform:1-x",
            "-1",
        ] {
            bad.parse::<ValueSizes>().expect_err(bad);
        }
    }

    #[test]
    fn a_value_longer_than_the_pool_wraps() {
        let values = marked(ValueSizes::Fixed(POOL_BYTES + 1000), 1.0, 1);
        let mut value = Vec::new();
        values.write(1, 0, &mut value);
        assert!(values.is_value_of(1, &value));
    }

    /// Goal: the ratio is what a block compressor achieves. Method: LZ4 over blocks of 4 KiB of values.
    #[test]
    fn values_compress_to_about_the_ratio_asked_for() {
        for (value_bytes, ratio) in [(100, 0.5), (400, 0.5), (100, 1.0), (1000, 0.25)] {
            let values = marked(ValueSizes::Fixed(value_bytes), ratio, 3);
            let mut raw_bytes = 0;
            let mut compressed_bytes = 0;
            let mut value = Vec::new();
            for block in 0..50 {
                let mut bytes = Vec::new();
                for index in 0..(4096 / value_bytes) as u64 {
                    values.write(block * 1000 + index, 0, &mut value);
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
