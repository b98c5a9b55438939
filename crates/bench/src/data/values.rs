//! Values that an index, a version and a seed determine, cheap to make and cheaper to check.
//!
//! A value is `random | repeat`, and a long one several such pieces. The random part is words of eight bytes. The first one, the
//! *mark*, is one that only this index, version and seed have; the version can be read back from it, and the others follow from
//! it. It is the part that does not compress: `ratio * length` bytes, at least the mark. The rest repeats what came before it in
//! its piece, so a compressor that looks for matches removes it, however far back it looks: pieces are shorter than the window
//! of any of them. Every word is made by itself, without a look at memory: making and checking values beside an engine
//! under test is to disturb its caches as little as can be. The length depends on the index and not on the version.
//!
//! Values of the content `counter` are those of the published tests instead: byte number i of the value of index n is n + i,
//! modulo 256. They have one version, and a compressor that sees many of them keeps next to nothing.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::random::{Random, mix};
use crate::{ValueContent, parse_bytes};

/// Bytes of a word; the first word of a value is its mark.
const WORD_BYTES: usize = 8;
/// Bytes of a piece: LZ4 looks 64 KiB back. The last one of a value may be shorter.
const PIECE_BYTES: usize = 32 << 10;
const PIECE_WORDS: u64 = (PIECE_BYTES / WORD_BYTES) as u64;
/// After so many bytes a counter begins again.
const COUNTER_PERIOD: usize = 256;
/// Bytes of counters that are kept; all but one period are compared and copied at once.
const COUNTER_BYTES: usize = 16 << 10;
/// The ratio is kept in parts of this.
const RATIO_PARTS: f64 = (1_u64 << RATIO_BITS) as f64;
const RATIO_BITS: u32 = 32;
/// Versions are below this; a mark that says more is none.
const VERSION_MAX: u64 = 1 << 32;

/// How long values are. As text: `100`, `4K`, `uniform:64-4096`, `log-uniform:64-1M`, with powers of 1,024.
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
                "{text:?} is no size of values; write 100, 4K, uniform:64-4096 or log-uniform:64-1M (K is 1,024)"
            )
        };
        let Some((name, range)) = text.split_once(':') else {
            return parse_bytes(text).map(Self::Fixed).map_err(|_| problem());
        };
        let (min, max) = range.split_once('-').ok_or_else(problem)?;
        let (min, max) = match (parse_bytes(min), parse_bytes(max)) {
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
    /// Of [`RATIO_PARTS`].
    ratio_parts: u64,
    seed: u64,
    /// The seed, mixed.
    salt: u64,
    /// The bytes of a counter, again and again.
    counter: Vec<u8>,
}

/// What a value is known by at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueEnds {
    /// Bytes.
    pub length: usize,
    /// The first eight bytes as a little-endian number, zeros behind those of a shorter one.
    pub first: u64,
    /// The last eight bytes, likewise.
    pub last: u64,
}

impl ValueEnds {
    /// Those of `value`.
    #[inline]
    #[must_use]
    pub fn of(value: &[u8]) -> Self {
        let (first, last) = match (value.first_chunk(), value.last_chunk()) {
            (Some(first), Some(last)) => (*first, *last),
            _ => {
                let word = std::array::from_fn(|i| value.get(i).copied().unwrap_or(0));
                (word, word)
            }
        };
        Self {
            length: value.len(),
            first: u64::from_le_bytes(first),
            last: u64::from_le_bytes(last),
        }
    }
}

impl ValueMaker {
    /// Values of these lengths, of which the share `ratio` (0 to 1) does not compress; it says nothing of counters.
    #[must_use]
    pub fn new(sizes: ValueSizes, content: ValueContent, ratio: f64, seed: u64) -> Self {
        Self {
            sizes,
            content,
            ratio_parts: (ratio.clamp(0.0, 1.0) * RATIO_PARTS) as u64,
            seed,
            salt: mix(seed),
            counter: (0..=u8::MAX).cycle().take(COUNTER_BYTES).collect(),
        }
    }

    /// The length of the value of `index`, in every version.
    #[inline]
    #[must_use]
    pub fn length(&self, index: u64) -> usize {
        match self.sizes {
            ValueSizes::Fixed(bytes) => bytes,
            sizes => sizes.length(index, self.seed),
        }
    }

    /// Writes a version of the value of `index` over `target`. Versions are below 2^32; larger ones wrap.
    pub fn write(&self, index: u64, version: u64, target: &mut Vec<u8>) {
        let length = self.length(index);
        // All of it is overwritten; only what grows is zeroed.
        target.resize(length, 0);
        if self.content == ValueContent::Counter {
            for part in target.chunks_mut(COUNTER_BYTES - COUNTER_PERIOD) {
                part.copy_from_slice(&self.counter[counter_offset(index)..][..part.len()]);
            }
            return;
        }
        let mark = self.mark(index, version % VERSION_MAX);
        for (first, piece) in (0..)
            .step_by(PIECE_WORDS as usize)
            .zip(target.chunks_mut(PIECE_BYTES))
        {
            self.write_piece((mark, first), piece);
        }
    }

    /// Writes the piece whose first word has the number `first`.
    #[inline]
    fn write_piece(&self, (mark, first): (u64, u64), piece: &mut [u8]) {
        let (random, repeat) = piece.split_at_mut(self.random_bytes(piece.len()));
        let (words, rest) = random.as_chunks_mut::<WORD_BYTES>();
        let rest_number = first + words.len() as u64;
        for (number, word) in (first..).zip(words) {
            *word = word_of(mark, number).to_le_bytes();
        }
        rest.copy_from_slice(&word_of(mark, rest_number).to_le_bytes()[..rest.len()]);
        for part in repeat.chunks_mut(random.len().max(1)) {
            part.copy_from_slice(&random[..part.len()]);
        }
    }

    /// Length and ends of what [`ValueMaker::write`] writes.
    #[inline]
    #[must_use]
    pub fn ends(&self, index: u64, version: u64) -> ValueEnds {
        let length = self.length(index);
        if length < WORD_BYTES {
            let mut value = Vec::new();
            self.write(index, version, &mut value);
            return ValueEnds::of(&value);
        }
        let before_last = length - WORD_BYTES;
        if self.content == ValueContent::Counter {
            let word_at = |start: usize| {
                u64::from_le_bytes(std::array::from_fn(|i| (index as usize + start + i) as u8))
            };
            return ValueEnds {
                length,
                first: word_at(0),
                last: word_at(before_last),
            };
        }
        let mark = self.mark(index, version % VERSION_MAX);
        // Where the last piece begins, and which word is its first.
        let piece = (length - 1) / PIECE_BYTES * PIECE_BYTES;
        let first = (piece / WORD_BYTES) as u64;
        let random_bytes = self.random_bytes(length - piece);
        let start = before_last.saturating_sub(piece) % random_bytes;
        let last = if before_last < piece {
            // It goes over two pieces.
            let mut ends = [0; 2 * PIECE_BYTES];
            let (before, after) = ends.split_at_mut(PIECE_BYTES);
            let after = &mut after[..length - piece];
            self.write_piece((mark, first - PIECE_WORDS), before);
            self.write_piece((mark, first), after);
            let end = PIECE_BYTES + length - piece;
            u64::from_le_bytes(std::array::from_fn(|i| ends[end - WORD_BYTES + i]))
        } else if start + WORD_BYTES <= random_bytes {
            // Out of two words that are neighbours.
            let number = first + (start / WORD_BYTES) as u64;
            let next = u128::from(word_of(mark, number + 1)) << u64::BITS;
            let words = next | u128::from(word_of(mark, number));
            (words >> (u8::BITS as usize * (start % WORD_BYTES))) as u64
        } else {
            u64::from_le_bytes(std::array::from_fn(|i| {
                let at = (before_last - piece + i) % random_bytes;
                word_of(mark, first + (at / WORD_BYTES) as u64).to_le_bytes()[at % WORD_BYTES]
            }))
        };
        ValueEnds {
            length,
            first: mark,
            last,
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
            return self.is_counter(index, value).then_some(0);
        }
        let version = match value.first_chunk::<WORD_BYTES>() {
            Some(first) => u64::from_le_bytes(*first) ^ self.mark(index, 0),
            None => 0,
        };
        if version >= VERSION_MAX {
            return None;
        }
        let mark = self.mark(index, version);
        (0..)
            .step_by(PIECE_WORDS as usize)
            .zip(value.chunks(PIECE_BYTES))
            .all(|(first, piece)| self.is_piece((mark, first), piece))
            .then_some(version)
    }

    /// True when `piece` is what [`ValueMaker::write_piece`] writes.
    #[inline]
    fn is_piece(&self, (mark, first): (u64, u64), piece: &[u8]) -> bool {
        let (random, repeat) = piece.split_at(self.random_bytes(piece.len()));
        let (words, rest) = random.as_chunks::<WORD_BYTES>();
        let is_word = |(number, word): (u64, &[u8; WORD_BYTES])| {
            u64::from_le_bytes(*word) == word_of(mark, number)
        };
        let last = word_of(mark, first + words.len() as u64).to_le_bytes();
        // Each byte of the repeated part equals the one so many bytes before it.
        (first..).zip(words).all(is_word)
            && rest == &last[..rest.len()]
            && repeat == &piece[..repeat.len()]
    }

    fn is_counter(&self, index: u64, value: &[u8]) -> bool {
        value
            .chunks(COUNTER_BYTES - COUNTER_PERIOD)
            .all(|part| part == &self.counter[counter_offset(index)..][..part.len()])
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
        min >= WORD_BYTES
    }

    /// How long the random part is, the mark included.
    #[inline]
    fn random_bytes(&self, length: usize) -> usize {
        let parts = length as u128 * u128::from(self.ratio_parts);
        let wanted = parts.div_ceil(1 << RATIO_BITS) as usize;
        wanted.max(WORD_BYTES).min(length)
    }

    #[inline]
    fn mark(&self, index: u64, version: u64) -> u64 {
        mix(index ^ self.salt) ^ version
    }
}

/// Word `number` of the random part that begins with `mark`; the mark itself for 0.
#[inline]
fn word_of(mark: u64, number: u64) -> u64 {
    match number {
        0 => mark,
        // Odd, so that numbers stay apart.
        _ => mix(mark.wrapping_add(number.wrapping_mul(0xd6e8_feb8_6659_fd93))),
    }
}

/// Where the counter of `index` begins in those that are kept.
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
        for bytes in [0, 1, 100, 300, 3 * COUNTER_BYTES + 3] {
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
                    let may_be_version = values.tells_versions() && place < WORD_BYTES / 2;
                    if !may_be_version || value_bytes >= 2 * WORD_BYTES {
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

    /// Goal: no byte of a long value goes unchecked. Method: single bytes of all of its pieces are changed.
    #[test]
    fn every_piece_of_a_long_value_is_checked() {
        let values = marked(ValueSizes::Fixed(2 * PIECE_BYTES + 5), 0.5, 42);
        let mut value = Vec::new();
        values.write(7, 3, &mut value);
        assert_eq!(values.version(7, &value), Some(3));
        for place in (8..value.len()).step_by(997).chain([value.len() - 1]) {
            value[place] ^= 1;
            assert_eq!(values.version(7, &value), None, "{place}");
            value[place] ^= 1;
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

    /// Goal: the ends of a value are told without making it. Method: all contents, ratios and awkward lengths, against the
    /// value itself; and words of one value and of neighbours differ.
    #[test]
    fn ends_are_those_of_the_value() {
        let mut value = Vec::new();
        let around = |border: usize| border - 2..border + 20;
        let around_pieces = around(PIECE_BYTES).chain(around(2 * PIECE_BYTES));
        let others = [99, 100, 255, 256, 1000, 4096, 70_000];
        for length in (0..40).chain(others).chain(around_pieces) {
            for ratio in [0.0, 0.1, 0.3, 0.5, 1.0] {
                for content in [ValueContent::Marked, ValueContent::Counter] {
                    let values = ValueMaker::new(ValueSizes::Fixed(length), content, ratio, 9);
                    for (index, version) in [(0, 0), (7, 3), (300, VERSION_MAX + 5)] {
                        values.write(index, version, &mut value);
                        let ends = values.ends(index, version);
                        assert_eq!(ends, ValueEnds::of(&value), "{length} {ratio} {index}");
                    }
                }
            }
        }
        let values = marked(ValueSizes::Fixed(8000), 1.0, 9);
        let mut words = std::collections::HashSet::new();
        for index in 0..10 {
            values.write(index, 0, &mut value);
            words.extend(value.chunks(WORD_BYTES).map(<[u8]>::to_vec));
        }
        assert_eq!(words.len(), 10 * 1000);
    }

    /// Goal: the ratio is what a block compressor achieves. Method: LZ4 over blocks of 4 KiB of values, and over long values.
    #[test]
    fn values_compress_to_about_the_ratio_asked_for() {
        let short = [(100, 0.5), (400, 0.5), (100, 1.0), (1000, 0.25)];
        let long = [(1 << 20, 0.5), ((1 << 20) + 77, 0.1), (200_000, 1.0)];
        for (value_bytes, ratio) in short.into_iter().chain(long) {
            let values = marked(ValueSizes::Fixed(value_bytes), ratio, 3);
            let mut raw_bytes = 0;
            let mut compressed_bytes = 0;
            let mut value = Vec::new();
            for block in 0..if value_bytes < 4096 { 50 } else { 2 } {
                let mut bytes = Vec::new();
                for index in 0..(4096 / value_bytes).max(1) as u64 {
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
