//! Builds data blocks: collects entries in columns, then writes them in the narrowest shape that holds them.

use kingtide_base::{EntryRef, ValueRef, write_varint};
use kingtide_collections::Lz4Dictionary;

use super::columns::ENTRIES_MAX;
use super::data::SEPARATED_BIT;
use super::dictionary::WITH_DICTIONARY;
use super::header::seal_block;
use super::{
    BlockDictionary, BlockKind, BlockPlace, begin_block, compress_if_smaller, encode_pointer,
    saves_an_eighth,
};
use crate::CodecId;

/// What an entry counts for beyond its key and value when blocks are cut, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 4;

/// Bytes of a key that are compared at once.
const WORD_BYTES: usize = 16;
/// Middles of at most so many bytes are copied as one number.
const SHORT_BYTES: usize = 8;

/// Collects the entries of one block; used again for the next.
#[derive(Debug, Default)]
pub struct DataBlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    rows: Vec<Row>,
}

/// What an entry has beside its key and its value.
#[derive(Clone, Copy, Debug)]
struct Row {
    key_end: u32,
    value_end: u32,
    sequence: u64,
    expires_at: i64,
    kind: u8,
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
fn ends_shape(rows: &[Row], end: impl Fn(&Row) -> u32) -> (u8, u8) {
    let first = rows.first().map_or(0, &end);
    let equal = rows
        .windows(2)
        .all(|pair| end(&pair[1]) - end(&pair[0]) == first);
    match rows.last().map(&end) {
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

/// As [`DataBlockBuilder::common`], for keys that all have `width` bytes and differ in their first and in their last 16;
/// `None` for others.
fn common_of_words(keys: &[u8], width: usize) -> Option<(usize, usize)> {
    let head = |key: &[u8]| key.first_chunk().map(|word| u128::from_be_bytes(*word));
    let tail = |key: &[u8]| key.last_chunk().map(|word| u128::from_be_bytes(*word));
    let (first_head, first_tail) = (head(keys.get(..width)?)?, tail(keys.get(..width)?)?);
    if head(&keys[keys.len() - width..])? == first_head {
        return None;
    }
    let (mut heads, mut tails) = (0, 0);
    for key in keys.chunks_exact(width) {
        heads |= head(key)? ^ first_head;
        tails |= tail(key)? ^ first_tail;
    }
    (tails != 0).then(|| {
        let (prefix, suffix) = (heads.leading_zeros() / 8, tails.trailing_zeros() / 8);
        (prefix as usize, suffix as usize)
    })
}

/// Appends the bytes from `start` to before `end` of each of the keys, which all have `width` bytes.
fn push_middles(target: &mut Vec<u8>, keys: &[u8], width: usize, start: usize, end: usize) {
    if start == end {
        return;
    }
    if end - start > SHORT_BYTES || width < SHORT_BYTES {
        for key in keys.chunks_exact(width) {
            target.extend_from_slice(&key[start..end]);
        }
        return;
    }
    // A copy of a fixed length costs no call; what is too much of it is taken back.
    let from = start.min(width - SHORT_BYTES);
    let skipped_bits = (start - from) * 8;
    for key in keys.chunks_exact(width) {
        if let Some(word) = key[from..].first_chunk::<SHORT_BYTES>() {
            push_low(
                target,
                u64::from_le_bytes(*word) >> skipped_bits,
                end - start,
            );
        }
    }
}

/// Appends the lower `bytes` bytes of `word`.
#[inline]
fn push_low(target: &mut Vec<u8>, word: u64, bytes: usize) {
    let length = target.len() + bytes;
    target.extend_from_slice(&word.to_le_bytes());
    target.truncate(length);
}

fn push_cells(target: &mut Vec<u8>, width: u8, cells: impl Iterator<Item = u64>) {
    if width > 0 {
        cells.for_each(|cell| push_low(target, cell, width.into()));
    }
}

/// Appends a value column compressed with `words`; false when that does not save an eighth.
fn pack_with(
    (words, blocks): (&mut Lz4Dictionary, u8),
    values: &[u8],
    target: &mut Vec<u8>,
) -> bool {
    let start = target.len();
    target.push(blocks);
    let is_packed = words.compress(values, target);
    is_packed && saves_an_eighth(target.len() - start, values.len())
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
        self.rows.is_empty()
    }

    /// The entries added since the last block.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.rows.len()
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
        let Some(row) = self.rows.get(index) else {
            return &[];
        };
        let start = if index == 0 {
            0
        } else {
            self.rows[index - 1].key_end
        };
        &self.keys[start as usize..row.key_end as usize]
    }

    /// Adds an entry. The caller keeps the order, the limits of keys and values, and cuts blocks before
    /// [`DataBlockBuilder::is_full`] or a column of 4 GiB.
    pub fn add(&mut self, entry: &EntryRef<'_>) {
        debug_assert!(!self.is_full());
        debug_assert!(entry.expires_at >= 0);
        self.keys.extend_from_slice(entry.key);
        let mut kind = entry.kind as u8;
        match &entry.value {
            ValueRef::Inline(bytes) => self.values.extend_from_slice(bytes),
            ValueRef::Separated(pointer) => {
                kind |= SEPARATED_BIT;
                encode_pointer(&mut self.values, pointer);
            }
        }
        self.rows.push(Row {
            key_end: self.keys.len() as u32,
            value_end: self.values.len() as u32,
            sequence: entry.sequence.0,
            expires_at: entry.expires_at.max(0),
            kind,
        });
    }

    /// The lengths of what all keys begin with and of what all keys end with. They do not overlap, and there is a
    /// common end only when all keys have one length.
    fn common(&self, equal_widths: bool) -> (usize, usize) {
        let first = self.key(0);
        if equal_widths
            && first.len() >= WORD_BYTES
            && let Some(common) = common_of_words(&self.keys, first.len())
        {
            return common;
        }
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
        let pack =
            |values: &[u8], target: &mut Vec<u8>| compress_if_smaller(codec, values, target) as u8;
        self.finish_by(pack, place, target)
    }

    /// As [`DataBlockBuilder::finish`], with `words`, the [`BlockDictionary`] of so many blocks, where that saves an eighth of
    /// the value column; without it elsewhere.
    pub fn finish_with(
        &mut self,
        (words, blocks): (&mut Lz4Dictionary, u8),
        codec: CodecId,
        place: BlockPlace,
        target: &mut Vec<u8>,
    ) -> Option<u64> {
        let pack = |values: &[u8], target: &mut Vec<u8>| {
            let start = target.len();
            if pack_with((words, blocks), values, target) {
                return WITH_DICTIONARY;
            }
            target.truncate(start);
            compress_if_smaller(codec, values, target) as u8
        };
        self.finish_by(pack, place, target)
    }

    /// Appends the block, whose value column `pack` appends; that answers the number of the codec.
    fn finish_by(
        &mut self,
        pack: impl FnOnce(&[u8], &mut Vec<u8>) -> u8,
        place: BlockPlace,
        target: &mut Vec<u8>,
    ) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let start = begin_block(target);
        self.write_columns(target);
        let used = pack(&self.values, target);
        let raw_bytes = self.values.len() as u32;
        let sum = seal_block(target, start, BlockKind::Data, (used, raw_bytes), place);
        self.clear();
        Some(sum)
    }

    /// Adds the value column so far to `dictionary`.
    pub fn add_to(&self, dictionary: &mut BlockDictionary) {
        dictionary.add(&self.values);
    }

    /// How many bytes less the value column so far would take with `words` than with `codec` alone. What `scratch` holds is
    /// lost.
    #[must_use]
    pub fn saved_with(
        &self,
        words: &mut Lz4Dictionary,
        codec: CodecId,
        scratch: &mut Vec<u8>,
    ) -> usize {
        scratch.clear();
        if !pack_with((words, 1), &self.values, scratch) {
            return 0;
        }
        let with = scratch.len();
        scratch.clear();
        compress_if_smaller(codec, &self.values, scratch);
        scratch.len().saturating_sub(with)
    }

    fn write_columns(&self, target: &mut Vec<u8>) {
        let (rows, entries) = (&self.rows, self.entries());
        // Stripping a prefix only shortens the middles, so the width of the ends of whole keys is enough.
        let (key_ends_width, key_code) = ends_shape(rows, |row| row.key_end);
        let (value_ends_width, value_code) = ends_shape(rows, |row| row.value_end);
        let kind = rows[0].kind;
        let has_kinds = rows.iter().any(|row| row.kind != kind);
        let expiry_max = rows.iter().map(|row| row.expires_at).max().unwrap_or(0);
        let (expiry_width, expiry_code) = match expiry_max {
            0 => (0, 0),
            1..=0xffff_ffff => (4, 1),
            _ => (8, 2),
        };
        let sequence_min = rows.iter().map(|row| row.sequence).min().unwrap_or(0);
        let sequence_max = rows.iter().map(|row| row.sequence).max().unwrap_or(0);
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
            write_varint(target, u64::from(rows[0].value_end));
        }
        let first = self.key(0);
        target.extend_from_slice(&first[..prefix]);
        target.extend_from_slice(&first[first.len() - suffix..]);
        let middle_ends = (1_u64..)
            .zip(rows)
            .map(|(count, row)| u64::from(row.key_end) - count * prefix as u64);
        push_cells(target, key_ends_width, middle_ends);
        if key_ends_width == 0 {
            let end = first.len() - suffix;
            push_middles(target, &self.keys, first.len(), prefix, end);
        } else {
            (0..entries).for_each(|i| target.extend_from_slice(&self.key(i)[prefix..]));
        }
        if has_kinds {
            target.extend(rows.iter().map(|row| row.kind));
        }
        let deltas = rows.iter().map(|row| row.sequence - sequence_min);
        push_cells(target, sequence_width, deltas);
        let expiries = rows.iter().map(|row| row.expires_at as u64);
        push_cells(target, expiry_width, expiries);
        let value_ends = rows.iter().map(|row| u64::from(row.value_end));
        push_cells(target, value_ends_width, value_ends);
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kingtide_base::{EntryKind, SeqNo};

    /// Goal: keys that are compared in words have the same common ends as keys compared byte by byte. Method: keys of all
    /// widths around the words, which differ from one place on and up to another.
    #[test]
    fn words_find_what_bytes_find() {
        for width in WORD_BYTES - 1..=2 * WORD_BYTES + 2 {
            for from in 0..width {
                for to in from + 1..=width {
                    let mut block = DataBlockBuilder::new();
                    for byte in [1, 2, 2, 130] {
                        let mut key = vec![0; width];
                        key[from..to].fill(byte);
                        block.add(&EntryRef {
                            key: &key,
                            sequence: SeqNo(1),
                            kind: EntryKind::Put,
                            expires_at: 0,
                            value: ValueRef::Inline(&[]),
                        });
                    }
                    assert_eq!(block.common(true), (from, width - to));
                    let mut middles = Vec::new();
                    push_middles(&mut middles, &block.keys, width, from, to);
                    let wanted = [1, 2, 2, 130].map(|byte| vec![byte; to - from]);
                    assert_eq!(middles, wanted.concat());
                }
            }
        }
    }
}
