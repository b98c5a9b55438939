//! Builds data blocks: collects entries in columns, then writes them in the narrowest shape that holds them.

use kingtide_base::{EntryRef, ValueRef, write_varint};

use super::columns::ENTRIES_MAX;
use super::data::SEPARATED_BIT;
use super::{BlockKind, BlockPlace, begin_block, compress_if_smaller, encode_pointer, end_block};
use crate::CodecId;

/// What an entry counts for beyond its key and value when blocks are cut, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 4;

/// Collects the entries of one block; used again for the next.
#[derive(Debug, Default)]
pub struct DataBlockBuilder {
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    kinds: Vec<u8>,
    sequences: Vec<u64>,
    expiries: Vec<i64>,
    values: Vec<u8>,
    value_ends: Vec<u32>,
}

/// The width in bytes of the narrowest column that holds `max`.
const fn narrowest(max: u64) -> u8 {
    match max {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// The width of a column of ends (0 when all parts have one length) and the code of that width.
fn ends_shape(ends: &[u32]) -> (u8, u8) {
    let first = ends.first().copied().unwrap_or(0);
    let equal = ends.windows(2).all(|pair| pair[1] - pair[0] == first);
    match ends.last() {
        _ if equal => (0, 0),
        Some(0..=0xffff) => (2, 1),
        _ => (4, 2),
    }
}

fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    let pairs = left.iter().zip(right);
    pairs.take_while(|(a, b)| a == b).count()
}

fn common_suffix(left: &[u8], right: &[u8]) -> usize {
    let pairs = left.iter().rev().zip(right.iter().rev());
    pairs.take_while(|(a, b)| a == b).count()
}

fn push_cells(target: &mut Vec<u8>, width: u8, cells: impl Iterator<Item = u64>) {
    let width = usize::from(width);
    if width > 0 {
        for cell in cells {
            target.extend_from_slice(&cell.to_le_bytes()[..width]);
        }
    }
}

impl DataBlockBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True when no entry was added since the last block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.key_ends.is_empty()
    }

    /// The entries added since the last block.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.key_ends.len()
    }

    /// True when no further entry fits, whatever its size.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.entries() == ENTRIES_MAX
    }

    /// What the entries so far count for, in bytes.
    #[must_use]
    pub fn raw_bytes(&self) -> usize {
        self.keys.len() + self.values.len() + self.entries() * ENTRY_OVERHEAD_BYTES
    }

    /// What `entry` would add to [`DataBlockBuilder::raw_bytes`]; a pointer counts as its widest form.
    #[must_use]
    pub fn entry_raw_bytes(entry: &EntryRef<'_>) -> usize {
        let value = match entry.value {
            ValueRef::Inline(bytes) => bytes.len(),
            ValueRef::Separated(_) => 16,
        };
        entry.key.len() + value + ENTRY_OVERHEAD_BYTES
    }

    /// The key added last; empty when there is none.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        self.key(self.entries().wrapping_sub(1))
    }

    fn key(&self, index: usize) -> &[u8] {
        let Some(end) = self.key_ends.get(index) else {
            return &[];
        };
        let start = if index == 0 {
            0
        } else {
            self.key_ends[index - 1]
        };
        &self.keys[start as usize..*end as usize]
    }

    /// Adds an entry. The caller keeps the order, the limits of keys and values, and cuts blocks before
    /// [`DataBlockBuilder::is_full`] or a column of 4 GiB.
    pub fn add(&mut self, entry: &EntryRef<'_>) {
        debug_assert!(!self.is_full());
        debug_assert!(entry.expires_at >= 0);
        self.keys.extend_from_slice(entry.key);
        self.key_ends.push(self.keys.len() as u32);
        let mut kind = entry.kind as u8;
        match &entry.value {
            ValueRef::Inline(bytes) => self.values.extend_from_slice(bytes),
            ValueRef::Separated(pointer) => {
                kind |= SEPARATED_BIT;
                encode_pointer(&mut self.values, pointer);
            }
        }
        self.kinds.push(kind);
        self.sequences.push(entry.sequence.0);
        self.expiries.push(entry.expires_at.max(0));
        self.value_ends.push(self.values.len() as u32);
    }

    /// The lengths of what all keys begin with and of what all keys end with. They do not overlap, and there is a
    /// common end only when all keys have one length.
    fn common(&self, equal_widths: bool) -> (usize, usize) {
        let first = self.key(0);
        let mut prefix = common_prefix(first, self.last_key());
        for i in 1..self.entries() {
            // As a rule nothing is shorter than what the first and the last key share: one comparison of slices each.
            if !self.key(i).starts_with(&first[..prefix]) {
                prefix = common_prefix(&first[..prefix], self.key(i));
            }
        }
        if !equal_widths {
            return (prefix, 0);
        }
        let mut suffix = common_suffix(&first[prefix..], self.last_key());
        for i in 1..self.entries() {
            if !self.key(i).ends_with(&first[first.len() - suffix..]) {
                suffix = common_suffix(&first[first.len() - suffix..], self.key(i));
            }
        }
        (prefix, suffix)
    }

    /// Appends the block to `target` and empties the builder; the block's checksum, `None` when there was nothing to append.
    pub fn finish(
        &mut self,
        codec: CodecId,
        place: BlockPlace,
        target: &mut Vec<u8>,
    ) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let start = begin_block(target);
        self.write_columns(target);
        let used = compress_if_smaller(codec, &self.values, target);
        let raw_bytes = self.values.len() as u32;
        let sum = end_block(target, start, BlockKind::Data, (used, raw_bytes), place);
        self.clear();
        Some(sum)
    }

    fn write_columns(&self, target: &mut Vec<u8>) {
        let entries = self.entries();
        let (key_ends_width, key_code) = self.middle_shape();
        let (value_ends_width, value_code) = ends_shape(&self.value_ends);
        let kind = self.kinds[0];
        let has_kinds = self.kinds.iter().any(|other| *other != kind);
        let expiry_max = self.expiries.iter().copied().max().unwrap_or(0);
        let (expiry_width, expiry_code) = match expiry_max {
            0 => (0, 0),
            1..=0xffff_ffff => (4, 1),
            _ => (8, 2),
        };
        let sequence_min = self.sequences.iter().copied().min().unwrap_or(0);
        let sequence_max = self.sequences.iter().copied().max().unwrap_or(0);
        let sequence_width = narrowest(sequence_max - sequence_min);
        let (prefix, suffix) = self.common(key_ends_width == 0);
        let middles_bytes = self.keys.len() - entries * (prefix + suffix);

        write_varint(target, entries as u64);
        target.push(key_code | u8::from(has_kinds) << 2 | value_code << 3 | expiry_code << 5);
        target.push(sequence_width);
        if !has_kinds {
            target.push(kind);
        }
        write_varint(target, sequence_min);
        write_varint(target, prefix as u64);
        write_varint(target, suffix as u64);
        if key_ends_width == 0 {
            write_varint(target, (middles_bytes / entries) as u64);
        } else {
            write_varint(target, middles_bytes as u64);
        }
        if value_ends_width == 0 {
            write_varint(target, u64::from(self.value_ends[0]));
        }
        let first = self.key(0);
        target.extend_from_slice(&first[..prefix]);
        target.extend_from_slice(&first[first.len() - suffix..]);
        let middle_ends = (1_u64..)
            .zip(&self.key_ends)
            .map(|(count, end)| u64::from(*end) - count * prefix as u64);
        push_cells(target, key_ends_width, middle_ends);
        for i in 0..entries {
            let key = self.key(i);
            target.extend_from_slice(&key[prefix..key.len() - suffix]);
        }
        if has_kinds {
            target.extend_from_slice(&self.kinds);
        }
        let deltas = self.sequences.iter().map(|number| number - sequence_min);
        push_cells(target, sequence_width, deltas);
        push_cells(
            target,
            expiry_width,
            self.expiries.iter().map(|at| *at as u64),
        );
        push_cells(
            target,
            value_ends_width,
            self.value_ends.iter().map(|end| u64::from(*end)),
        );
    }

    /// The shape of the key ends. Stripping a prefix only shortens them, so the width of whole keys is enough.
    fn middle_shape(&self) -> (u8, u8) {
        ends_shape(&self.key_ends)
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.key_ends.clear();
        self.kinds.clear();
        self.sequences.clear();
        self.expiries.clear();
        self.values.clear();
        self.value_ends.clear();
    }
}
