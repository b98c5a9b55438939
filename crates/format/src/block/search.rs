//! Search in a data block without decoding it.
//!
//! In byte order the prefix is compared once and the binary search runs over the middles where they lie. Any other
//! order sees whole keys, put together on the stack; stripping is a matter of storage and says nothing about order.

use std::cmp::Ordering;

use kingtide_base::{KeyOrder, SeqNo, partition};

use super::DataBlock;

/// Keys up to this length are put together on the stack.
const STACK_KEY_BYTES: usize = 256;

/// Middles of up to this width are compared as numbers.
const NUMBER_BYTES: usize = 8;

/// The `width` bytes at `at`, at most 8, as a number that sorts like them. Reads all 8 where there are as many: the
/// bytes behind a column are other columns of the same block.
#[inline]
fn number_at(bytes: &[u8], at: usize, width: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    let tail = &bytes[at..];
    if let Some(eight) = tail.first_chunk::<NUMBER_BYTES>() {
        return u64::from_be_bytes(*eight) >> (8 * (NUMBER_BYTES - width));
    }
    tail[..width]
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl DataBlock {
    /// The first entry whose key is at or after `key`; [`DataBlock::entries`] when there is none.
    #[must_use]
    pub fn lower_bound(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.bound(order, key, Ordering::Less)
    }

    /// The first entry whose key is after `key`; [`DataBlock::entries`] when there is none.
    #[must_use]
    pub fn upper_bound(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.bound(order, key, Ordering::Equal)
    }

    /// The first entry that compares to `key` greater than `most`.
    #[inline]
    fn bound(&self, order: &KeyOrder, key: &[u8], most: Ordering) -> usize {
        let entries = self.entries();
        if !order.is_bytewise() {
            return partition(0..entries, |i| self.compare_whole(order, i, key) <= most);
        }
        let prefix = self.prefix();
        let shared = prefix.len().min(key.len());
        match prefix[..shared].cmp(&key[..shared]) {
            Ordering::Less => return entries,
            Ordering::Greater => return 0,
            Ordering::Equal if key.len() < prefix.len() => return 0,
            Ordering::Equal => {}
        }
        let rest = &key[prefix.len()..];
        let suffix = self.suffix();
        match self.middle_width() {
            Some(width) if rest.len() >= width => {
                // Equal widths: the middles decide, and on a tie the shared suffix does, the same for all of them.
                let (rest_middle, rest_suffix) = rest.split_at(width);
                let counts_ties = suffix.cmp(rest_suffix) <= most;
                if width <= NUMBER_BYTES {
                    let wanted = number_at(rest_middle, 0, width);
                    let keys = self.fixed_keys();
                    return partition(0..entries, |i| {
                        let middle = number_at(keys, i * width, width);
                        middle < wanted || (counts_ties && middle == wanted)
                    });
                }
                if counts_ties {
                    partition(0..entries, |i| self.middle(i) <= rest_middle)
                } else {
                    partition(0..entries, |i| self.middle(i) < rest_middle)
                }
            }
            // A key shorter than the middles equals none of them: a middle that it begins is greater.
            _ => partition(0..entries, |i| self.middle(i).cmp(rest) <= most),
        }
    }

    /// The first entry at or after `from` that is not (a version of `key` newer than `snapshot`). `from` must be the
    /// first version of `key` in the block.
    #[must_use]
    pub fn first_visible(
        &self,
        order: &KeyOrder,
        from: usize,
        key: &[u8],
        snapshot: SeqNo,
    ) -> usize {
        if self.sequence(from) <= snapshot {
            return from;
        }
        partition(from..self.entries(), |i| {
            self.has_key(order, i, key) && self.sequence(i) > snapshot
        })
    }

    /// True when the key of entry `index` equals `key`.
    #[inline]
    #[must_use]
    pub fn has_key(&self, order: &KeyOrder, index: usize, key: &[u8]) -> bool {
        if !order.is_bytewise() {
            return self.compare_whole(order, index, key).is_eq();
        }
        let middle = self.middle(index);
        let (prefix, suffix) = (self.prefix(), self.suffix());
        key.len() == prefix.len() + middle.len() + suffix.len()
            && key[prefix.len()..prefix.len() + middle.len()] == *middle
            && key[..prefix.len()] == *prefix
            && key[key.len() - suffix.len()..] == *suffix
    }

    fn compare_whole(&self, order: &KeyOrder, index: usize, key: &[u8]) -> Ordering {
        let middle = self.middle(index);
        if self.has_whole_keys() {
            return order.compare(middle, key);
        }
        let (prefix, suffix) = (self.prefix(), self.suffix());
        let length = prefix.len() + middle.len() + suffix.len();
        if length <= STACK_KEY_BYTES {
            let mut buffer = [0_u8; STACK_KEY_BYTES];
            buffer[..prefix.len()].copy_from_slice(prefix);
            buffer[prefix.len()..prefix.len() + middle.len()].copy_from_slice(middle);
            buffer[length - suffix.len()..length].copy_from_slice(suffix);
            order.compare(&buffer[..length], key)
        } else {
            let mut whole = Vec::with_capacity(length);
            self.copy_key(index, &mut whole);
            order.compare(&whole, key)
        }
    }
}
