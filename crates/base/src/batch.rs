//! Entries that a cursor lends many at a time, so that a walk asks its source once for dozens of them.

use crate::{EntryKind, KeyOrder, SeqNo, ValuePointer, ValueRef, partition};

/// Consecutive entries of one source, copied out of it in columns: see [`Cursor::lend`](crate::Cursor::lend). Used again
/// and again.
///
/// The source clears it, and gives every column as many cells as there are entries: sequence numbers first, which say how
/// many there are.
#[derive(Debug, Default)]
pub struct Batch {
    sequences: Vec<SeqNo>,
    keys: Parts,
    kinds: Kinds,
    /// Empty when nothing expires.
    expiries: Vec<i64>,
    values: Parts,
    lent: LentValues,
}

/// What is there of the values of a [`Batch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LentValues {
    #[default]
    Nothing,
    /// What the source has: each is to be looked at.
    Unchecked,
    /// All, and none of them is a pointer.
    AllInline,
}

/// Byte strings in a row.
#[derive(Debug, Default)]
struct Parts {
    bytes: Vec<u8>,
    /// Where the first one begins in `bytes`.
    start: usize,
    /// The length of each, when `ends` is empty.
    width: usize,
    ends: Vec<u32>,
}

impl Parts {
    fn clear(&mut self) {
        self.bytes.clear();
        self.clear_shape();
    }

    fn clear_shape(&mut self) {
        self.start = 0;
        self.width = 0;
        self.ends.clear();
    }

    /// Where number `index` ends, counted from the beginning of the first one.
    #[inline]
    fn end(&self, index: usize) -> usize {
        match self.ends.get(index) {
            Some(end) => *end as usize,
            None => self.width * (index + 1),
        }
    }

    #[inline]
    fn get(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = if self.ends.is_empty() {
            (self.width * index, self.width * (index + 1))
        } else {
            let start = index.checked_sub(1).map_or(0, |before| self.end(before));
            (start, self.end(index))
        };
        self.bytes.get(self.start + start..self.start + end)
    }

    /// Whether number `index`, and so each before it, lies within the bytes.
    #[inline]
    fn has(&self, index: usize) -> bool {
        self.start + self.end(index) <= self.bytes.len()
    }
}

/// Puts middles of `N` bytes each, in a row, into places of `width` bytes each, `start` bytes behind their beginnings.
fn put_middles<const N: usize>(places: (&mut [u8], usize, usize), middles: &[u8]) {
    let (bytes, width, start) = places;
    let (middles, _) = middles.as_chunks::<N>();
    for (place, middle) in bytes.chunks_exact_mut(width).zip(middles) {
        if let Some(cell) = place[start..].first_chunk_mut::<N>() {
            *cell = *middle;
        }
    }
}

/// What the entries of a [`Batch`] are.
#[derive(Debug)]
enum Kinds {
    All { kind: EntryKind, is_separated: bool },
    Each(Vec<(EntryKind, bool)>),
}

impl Default for Kinds {
    fn default() -> Self {
        Self::All {
            kind: EntryKind::Put,
            is_separated: false,
        }
    }
}

impl Batch {
    /// Forgets the entries.
    pub fn clear(&mut self) {
        self.sequences.clear();
        self.keys.clear();
        self.kinds = Kinds::default();
        self.expiries.clear();
        // Their bytes are read by nobody until others are lent, and a buffer that is swapped back is best returned filled:
        // what is written over it then need not be zeroed.
        self.values.clear_shape();
        self.lent = LentValues::Nothing;
    }

    /// The sequence numbers.
    pub fn lend_sequences(&mut self, sequences: impl Iterator<Item = SeqNo>) {
        self.sequences.extend(sequences);
    }

    /// Keys that all have a middle of `width` bytes between `prefix` and `suffix`; `middles` are these in a row.
    pub fn lend_keys(&mut self, prefix: &[u8], suffix: &[u8], middles: &[u8], width: usize) {
        let keys = &mut self.keys;
        keys.width = prefix.len() + width + suffix.len();
        if prefix.is_empty() && suffix.is_empty() {
            keys.bytes.extend_from_slice(middles);
            return;
        }
        // One key is laid down as often as there are entries, then the middles are written over it.
        let bytes = self.sequences.len() * keys.width;
        keys.bytes.extend_from_slice(prefix);
        keys.bytes.resize(prefix.len() + width, 0);
        keys.bytes.extend_from_slice(suffix);
        while keys.bytes.len() < bytes {
            let more = keys.bytes.len().min(bytes - keys.bytes.len());
            keys.bytes.extend_from_within(..more);
        }
        let places = (&mut *keys.bytes, keys.width, prefix.len());
        match width {
            0 => {}
            1 => put_middles::<1>(places, middles),
            2 => put_middles::<2>(places, middles),
            3 => put_middles::<3>(places, middles),
            4 => put_middles::<4>(places, middles),
            5 => put_middles::<5>(places, middles),
            6 => put_middles::<6>(places, middles),
            7 => put_middles::<7>(places, middles),
            8 => put_middles::<8>(places, middles),
            _ => {
                let places = keys.bytes.chunks_exact_mut(keys.width);
                for (place, middle) in places.zip(middles.chunks_exact(width)) {
                    place[prefix.len()..prefix.len() + width].copy_from_slice(middle);
                }
            }
        }
    }

    /// Keys whose middles between `prefix` and `suffix` differ in length.
    pub fn lend_long_and_short_keys<'a>(
        &mut self,
        prefix: &[u8],
        suffix: &[u8],
        middles: impl Iterator<Item = &'a [u8]>,
    ) {
        let keys = &mut self.keys;
        for middle in middles {
            keys.bytes.extend_from_slice(prefix);
            keys.bytes.extend_from_slice(middle);
            keys.bytes.extend_from_slice(suffix);
            keys.ends.push(keys.bytes.len() as u32);
        }
    }

    /// The kind of all entries, and whether their values are pointers, as [`ValuePointer::encode`] writes them.
    pub fn lend_kind(&mut self, kind: EntryKind, is_separated: bool) {
        self.kinds = Kinds::All { kind, is_separated };
    }

    /// The kind of each entry, and whether its value is a pointer, as [`ValuePointer::encode`] writes it.
    pub fn lend_kinds(&mut self, kinds: impl Iterator<Item = (EntryKind, bool)>) {
        self.kinds = Kinds::Each(kinds.collect());
    }

    /// When each entry expires, in Unix seconds; 0 means never. Not to be called when nothing expires.
    pub fn lend_expiries(&mut self, expiries: impl Iterator<Item = i64>) {
        self.expiries.extend(expiries);
    }

    /// Says that each value has `width` bytes.
    pub fn lend_value_width(&mut self, width: usize) {
        self.values.width = width;
    }

    /// Where each value ends among the source's values, of which the first one begins at `start`. They must ascend from
    /// there.
    pub fn lend_value_ends(&mut self, start: usize, ends: impl Iterator<Item = usize>) {
        let ends = ends.map(|end| end.saturating_sub(start) as u32);
        self.values.ends.extend(ends);
    }

    /// Takes over the values: `bytes` are those of all entries in a row.
    pub fn lend_values(&mut self, bytes: &[u8]) {
        self.values.bytes.clear();
        self.values.bytes.extend_from_slice(bytes);
        self.values.start = 0;
        self.judge_values();
    }

    /// Takes over the values without copying them: those of all entries begin at byte `start` of `bytes`, which becomes
    /// what the batch held before, for use again.
    pub fn swap_values(&mut self, bytes: &mut Vec<u8>, start: usize) {
        std::mem::swap(&mut self.values.bytes, bytes);
        self.values.start = start;
        self.judge_values();
    }

    fn judge_values(&mut self) {
        let last = self.len().checked_sub(1);
        let are_all_inline = matches!(
            self.kinds,
            Kinds::All {
                is_separated: false,
                ..
            }
        );
        self.lent = if are_all_inline && last.is_none_or(|last| self.values.has(last)) {
            LentValues::AllInline
        } else {
            LentValues::Unchecked
        };
    }

    /// The number of entries.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.sequences.len()
    }

    /// True when nothing is lent.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// How many bytes of values all entries have together.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        let last = self.len().checked_sub(1);
        last.map_or(0, |last| self.values.end(last))
    }

    /// Whether [`Batch::lend_values`] or [`Batch::swap_values`] was called since the entries were lent.
    #[inline]
    #[must_use]
    pub fn has_values(&self) -> bool {
        self.lent != LentValues::Nothing
    }

    /// How many entries directly behind entry `index` are shown one after another to whoever reads as of `snapshot`,
    /// without a look at any of them: puts that never expire, not newer than `snapshot`, each of another key than the one
    /// before it in `order`. None when the last entry of all is not before `until`.
    #[must_use]
    pub fn shown_behind(
        &self,
        index: usize,
        snapshot: SeqNo,
        order: &KeyOrder,
        until: Option<&[u8]>,
    ) -> usize {
        let are_lasting_puts = self.expiries.is_empty()
            && matches!(
                self.kinds,
                Kinds::All {
                    kind: EntryKind::Put,
                    ..
                }
            );
        let is_within = |until| order.compare(self.key(self.len() - 1), until).is_lt();
        if !are_lasting_puts || !until.is_none_or(is_within) {
            return 0;
        }
        let sequences = self.sequences.get(index + 1..).unwrap_or_default();
        let are_seen = sequences.iter().all(|sequence| *sequence <= snapshot);
        let seen = if are_seen {
            sequences.len()
        } else {
            let is_seen = |sequence: &&SeqNo| **sequence <= snapshot;
            sequences.iter().take_while(is_seen).count()
        };
        let (start, width) = (index * self.keys.width, self.keys.width);
        let different = if self.keys.ends.is_empty() && width > 0 {
            let keys = self.keys.bytes.get(start..).unwrap_or_default();
            let next = keys.get(width..).unwrap_or_default();
            let pairs = keys.chunks_exact(width).zip(next.chunks_exact(width));
            pairs
                .take(seen)
                .take_while(|(before, key)| !order.is_same(before, key))
                .count()
        } else {
            let is_new = |place: &usize| !order.is_same(self.key(place - 1), self.key(*place));
            let behind = index + 1..index + 1 + seen;
            behind.take_while(is_new).count()
        };
        different.min(seen)
    }

    /// The key of entry `index`; empty when there is none.
    #[inline]
    #[must_use]
    pub fn key(&self, index: usize) -> &[u8] {
        self.keys.get(index).unwrap_or_default()
    }

    /// The first entry whose key is at or behind `key`; [`Batch::len`] when there is none.
    #[must_use]
    pub fn lower_bound(&self, order: &KeyOrder, key: &[u8]) -> usize {
        partition(0..self.len(), |index| {
            order.compare(self.key(index), key).is_lt()
        })
    }

    /// The sequence number of entry `index`, which must be there.
    #[inline]
    #[must_use]
    pub fn sequence(&self, index: usize) -> SeqNo {
        self.sequences[index]
    }

    #[inline]
    fn shape(&self, index: usize) -> (EntryKind, bool) {
        match &self.kinds {
            Kinds::All { kind, is_separated } => (*kind, *is_separated),
            Kinds::Each(kinds) => kinds[index],
        }
    }

    /// The kind of entry `index`, which must be there.
    #[inline]
    #[must_use]
    pub fn kind(&self, index: usize) -> EntryKind {
        self.shape(index).0
    }

    /// When entry `index` expires, in Unix seconds; 0 means never.
    #[inline]
    #[must_use]
    pub fn expires_at(&self, index: usize) -> i64 {
        self.expiries.get(index).copied().unwrap_or_default()
    }

    /// True when the value of entry `index` is there: the values were lent, and are what their source said of them.
    #[inline]
    #[must_use]
    pub fn has_value(&self, index: usize) -> bool {
        index < self.len()
            && match self.lent {
                LentValues::Nothing => false,
                LentValues::Unchecked => {
                    self.values.has(index)
                        && (!self.shape(index).1 || self.pointer(index).is_some())
                }
                LentValues::AllInline => true,
            }
    }

    fn pointer(&self, index: usize) -> Option<ValuePointer> {
        ValuePointer::decode(self.values.get(index)?)
    }

    /// Whether the values of all entries are there, and are no pointers: then [`Batch::inline_value`] has them.
    #[inline]
    #[must_use]
    pub fn has_inline_values(&self) -> bool {
        self.lent == LentValues::AllInline
    }

    /// The value of entry `index`, while [`Batch::has_inline_values`] says so.
    #[inline]
    #[must_use]
    pub fn inline_value(&self, index: usize) -> &[u8] {
        self.values.get(index).unwrap_or_default()
    }

    /// The value of entry `index`, which must be there: see [`Batch::has_value`].
    #[inline]
    #[must_use]
    pub fn value(&self, index: usize) -> ValueRef<'_> {
        if self.lent != LentValues::AllInline
            && self.shape(index).1
            && let Some(pointer) = self.pointer(index)
        {
            return ValueRef::Separated(pointer);
        }
        ValueRef::Inline(self.values.get(index).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: entries are shown up to the first that repeats a key, for middles of every width. Method: batches with one repetition,
    /// or none, at every place.
    #[test]
    fn entries_are_shown_up_to_a_key_that_repeats() {
        let order = KeyOrder::BYTEWISE;
        for width in 1..=10 {
            for (prefix, suffix) in [(&b""[..], &b""[..]), (b"pre", b""), (b"", b"suf")] {
                for repeated in 1..=20_usize {
                    let middles: Vec<u8> = (0..20_usize)
                        .map(|index| if index < repeated { index } else { index - 1 })
                        .flat_map(|number| {
                            let mut middle = vec![7; width];
                            middle[width / 2] = number as u8;
                            middle
                        })
                        .collect();
                    let mut batch = Batch::default();
                    batch.lend_sequences((0..20).map(SeqNo));
                    batch.lend_keys(prefix, suffix, &middles, width);
                    batch.lend_kind(EntryKind::Put, false);
                    for index in 0..20 {
                        let end = if index < repeated { repeated } else { 20 };
                        let shown = batch.shown_behind(index, SeqNo(19), &order, None);
                        assert_eq!(shown, end - 1 - index, "{width} {repeated} {index}");
                        let seen = batch.shown_behind(index, SeqNo(10), &order, None);
                        assert_eq!(seen, (end.min(11).max(index + 1)) - 1 - index);
                    }
                }
            }
        }
    }
}
