//! Which block may hold a key: the separators of all blocks, in memory, searched by binary search.
//!
//! In byte order the prefix that all separators share is kept once, the next 8 bytes of each are a number (its *head*)
//! and only a tie of heads looks at more: the length of the rest when no separator is longer than its head (13 bytes a
//! block with the offset), all bytes of the rest otherwise. Other orders keep whole separators and compare through the
//! family's order.
//!
//! Heads of real keys tend to lie evenly, at least over short distances. So the search among many begins where the head
//! would be if they did, and doubles its steps from there until it has passed the place (interpolation: Perl, Itai and
//! Avni, "Interpolation search", CACM 1978; galloping: Bentley and Yao, "An almost optimal algorithm for unbounded
//! searching", 1976). Uneven heads cost twice the steps of a binary search at worst.

use std::cmp::Ordering;
use std::ops::Range;

use kingtide_base::{KeyOrder, Truncated, partition};
use kingtide_format::klog::IndexReader;

const HEAD_BYTES: usize = 8;
/// Fewer heads are searched by halving alone.
const INTERPOLATED_MIN: usize = 32;

/// The separators and extents of the data blocks of one table.
#[derive(Debug)]
pub struct Fences {
    offsets: Offsets,
    separators: Separators,
}

/// Where blocks begin; one more than there are blocks, the last is where they end.
#[derive(Debug)]
enum Offsets {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

#[derive(Debug)]
enum Separators {
    /// Byte order; no separator is longer than prefix and head.
    Short {
        prefix: Vec<u8>,
        heads: Vec<u64>,
        /// How many bytes of the head are the separator's.
        lengths: Vec<u8>,
    },
    /// Byte order.
    Long {
        prefix: Vec<u8>,
        heads: Vec<u64>,
        rests: Strings,
    },
    /// Any other order.
    Whole(Strings),
}

/// Strings side by side.
#[derive(Debug, Default)]
struct Strings {
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Strings {
    fn push(&mut self, string: &[u8]) -> Result<(), Truncated> {
        self.bytes.extend_from_slice(string);
        let end = u32::try_from(self.bytes.len()).map_err(|_| Truncated)?;
        self.ends.push(end);
        Ok(())
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    fn memory_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<u32>() + self.bytes.capacity()
    }
}

/// The first 8 bytes as a number that sorts like them, zeros where there are fewer.
#[inline]
fn head_of(rest: &[u8]) -> u64 {
    if let Some(head) = rest.first_chunk::<HEAD_BYTES>() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; HEAD_BYTES];
    head[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(head)
}

impl Fences {
    /// The fences that the payload of an index block describes.
    ///
    /// # Errors
    /// [`Truncated`] when the payload is malformed.
    pub fn decode(payload: &[u8], order: &KeyOrder) -> Result<Self, Truncated> {
        let mut reader = IndexReader::new(payload)?;
        let blocks = usize::try_from(reader.left()).map_err(|_| Truncated)?;
        let mut offsets = Vec::with_capacity(blocks + 1);
        let mut whole = Strings::default();
        let mut offset = 0_u64;
        offsets.push(offset);
        while let Some(entry) = reader.next_block()? {
            offset = offset.checked_add(entry.block_bytes).ok_or(Truncated)?;
            offsets.push(offset);
            whole.push(entry.separator)?;
        }
        let offsets = if u32::try_from(offset).is_ok() {
            Offsets::Narrow(offsets.iter().map(|offset| *offset as u32).collect())
        } else {
            Offsets::Wide(offsets)
        };
        let separators = if order.is_bytewise() {
            Separators::with_heads(&whole)?
        } else {
            whole.bytes.shrink_to_fit();
            whole.ends.shrink_to_fit();
            Separators::Whole(whole)
        };
        Ok(Self {
            offsets,
            separators,
        })
    }

    /// The number of data blocks.
    #[inline]
    pub fn blocks(&self) -> usize {
        match &self.offsets {
            Offsets::Narrow(offsets) => offsets.len() - 1,
            Offsets::Wide(offsets) => offsets.len() - 1,
        }
    }

    /// Where block `index` lies in the file, in bytes.
    #[inline]
    pub fn extent(&self, index: usize) -> Range<u64> {
        match &self.offsets {
            Offsets::Narrow(offsets) => u64::from(offsets[index])..u64::from(offsets[index + 1]),
            Offsets::Wide(offsets) => offsets[index]..offsets[index + 1],
        }
    }

    /// Where the data blocks end, in bytes.
    pub fn data_end(&self) -> u64 {
        match &self.offsets {
            Offsets::Narrow(offsets) => offsets.last().copied().unwrap_or(0).into(),
            Offsets::Wide(offsets) => offsets.last().copied().unwrap_or(0),
        }
    }

    /// The first block that may hold `key`: the first whose separator is at or after it. [`Fences::blocks`] when there
    /// is none.
    #[inline]
    pub fn first_at_or_after(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.search(order, key, Ordering::Less)
    }

    /// The first block whose separator is after `key`: all keys of earlier blocks are at or before it.
    #[inline]
    pub fn first_after(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.search(order, key, Ordering::Equal)
    }

    /// The first block whose separator compares to `key` greater than `most`.
    #[inline]
    fn search(&self, order: &KeyOrder, key: &[u8], most: Ordering) -> usize {
        let (prefix, heads) = match &self.separators {
            Separators::Whole(whole) => {
                return partition(0..whole.ends.len(), |i| {
                    order.compare(whole.get(i), key) <= most
                });
            }
            Separators::Short { prefix, heads, .. } | Separators::Long { prefix, heads, .. } => {
                (prefix, heads)
            }
        };
        let Some(rest) = key.strip_prefix(prefix.as_slice()) else {
            return if prefix.as_slice() < key {
                heads.len()
            } else {
                0
            };
        };
        let head = head_of(rest);
        let first = lower_bound(heads, head);
        if heads.get(first) != Some(&head) {
            return first;
        }
        let ties = heads[first..].partition_point(|other| *other == head);
        partition(first..first + ties, |i| {
            self.separators.compare_rest(i, rest) <= most
        })
    }

    /// Replaces the content of `target` by the separator of block `index`.
    pub fn copy_separator(&self, index: usize, target: &mut Vec<u8>) {
        target.clear();
        match &self.separators {
            Separators::Short {
                prefix,
                heads,
                lengths,
            } => {
                target.extend_from_slice(prefix);
                let head = heads[index].to_be_bytes();
                target.extend_from_slice(&head[..usize::from(lengths[index])]);
            }
            Separators::Long { prefix, rests, .. } => {
                target.extend_from_slice(prefix);
                target.extend_from_slice(rests.get(index));
            }
            Separators::Whole(whole) => target.extend_from_slice(whole.get(index)),
        }
    }

    /// What the fences cost in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let offsets = match &self.offsets {
            Offsets::Narrow(offsets) => offsets.capacity() * size_of::<u32>(),
            Offsets::Wide(offsets) => offsets.capacity() * size_of::<u64>(),
        };
        let separators = match &self.separators {
            Separators::Short {
                prefix,
                heads,
                lengths,
            } => prefix.capacity() + heads.capacity() * size_of::<u64>() + lengths.capacity(),
            Separators::Long {
                prefix,
                heads,
                rests,
            } => prefix.capacity() + heads.capacity() * size_of::<u64>() + rests.memory_bytes(),
            Separators::Whole(whole) => whole.memory_bytes(),
        };
        offsets + separators
    }
}

impl Separators {
    fn with_heads(whole: &Strings) -> Result<Self, Truncated> {
        let count = whole.ends.len();
        let prefix = if count == 0 {
            Vec::new()
        } else {
            // Over all and not only over the first and last: the bytes come from a file and may be out of order.
            let first = whole.get(0);
            let shared = (1..count).fold(first.len(), |shared, i| {
                let pairs = first[..shared].iter().zip(whole.get(i));
                pairs.take_while(|(a, b)| a == b).count()
            });
            first[..shared].to_vec()
        };
        let rest = |i: usize| &whole.get(i)[prefix.len()..];
        let heads: Vec<u64> = (0..count).map(|i| head_of(rest(i))).collect();
        if (0..count).all(|i| rest(i).len() <= HEAD_BYTES) {
            let lengths = (0..count).map(|i| rest(i).len() as u8).collect();
            return Ok(Self::Short {
                prefix,
                heads,
                lengths,
            });
        }
        let mut rests = Strings::default();
        rests.ends.reserve_exact(count);
        for i in 0..count {
            rests.push(rest(i))?;
        }
        rests.bytes.shrink_to_fit();
        Ok(Self::Long {
            prefix,
            heads,
            rests,
        })
    }

    /// Compares separator `index` with a key, both without the prefix; only for byte order.
    fn compare_rest(&self, index: usize, rest: &[u8]) -> Ordering {
        match self {
            Self::Short { heads, lengths, .. } => {
                heads[index].to_be_bytes()[..usize::from(lengths[index])].cmp(rest)
            }
            Self::Long { rests, .. } => rests.get(index).cmp(rest),
            Self::Whole(whole) => whole.get(index).cmp(rest),
        }
    }
}

/// The number of `heads`, which ascend, below `head`.
#[inline]
fn lower_bound(heads: &[u64], head: u64) -> usize {
    let (Some(first), Some(last)) = (heads.first(), heads.last()) else {
        return 0;
    };
    if heads.len() < INTERPOLATED_MIN || head <= *first || *last < head {
        return heads.partition_point(|other| *other < head);
    }
    let share = (head - first) as f64 / (last - first) as f64;
    // The result is between the two ends, which only says where to begin.
    let guess = ((share * heads.len() as f64) as usize).min(heads.len() - 1);
    let mut step = 1;
    let (start, end) = if heads[guess] < head {
        let mut start = guess + 1;
        while start + step < heads.len() && heads[start + step] < head {
            start += step + 1;
            step *= 2;
        }
        (start, (start + step + 1).min(heads.len()))
    } else {
        let mut end = guess;
        while end > step && heads[end - step] >= head {
            end -= step;
            step *= 2;
        }
        (end.saturating_sub(step), end)
    };
    start + heads[start..end].partition_point(|other| *other < head)
}
