//! Follows an iterator through the entries that it must visit.
//!
//! The expected entries are a sorted list; entries that expire about now may be left out by the iterator, all others
//! may not. After each move the iterator must stand on the first entry in the direction of the move that it may not
//! skip, or on an uncertain one before that.

use kingtide::{Iter, IterOptions};
use kingtide_base::KeyOrder;

use crate::{
    model::{ExpectedEntry, show},
    order::OrderedKey,
    violation::{Checked, Violation, ensure},
};

/// The expected entries and where the iterator stands.
pub(super) struct Walk {
    order: KeyOrder,
    entries: Vec<ExpectedEntry>,
    position: Option<usize>,
}

/// A move of an iterator.
#[derive(Clone, Debug)]
pub(super) enum Move {
    First,
    Last,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    Next,
    Prev,
}

impl Walk {
    /// A walk over those of `entries` that lie within `options`.
    pub(super) fn new(
        order: KeyOrder,
        mut entries: Vec<ExpectedEntry>,
        options: &IterOptions,
    ) -> Self {
        entries.retain(|entry| {
            let key = &entry.key.bytes;
            let is_above = |lower: &Vec<u8>| order.compare(key, lower).is_ge();
            let is_below = |upper: &Vec<u8>| order.compare(key, upper).is_lt();
            options.lower.as_ref().is_none_or(is_above)
                && options.upper.as_ref().is_none_or(is_below)
                && options
                    .prefix
                    .as_ref()
                    .is_none_or(|prefix| key.starts_with(prefix))
        });
        Self {
            order,
            entries,
            position: None,
        }
    }

    /// True when the iterator must stand on an entry.
    pub(super) fn is_positioned(&self) -> bool {
        self.position.is_some()
    }

    /// Makes the iterator move and checks where it stands afterwards.
    pub(super) fn step(&mut self, iter: &mut Iter, step: &Move) -> Checked {
        let is_valid = match step {
            Move::First => iter.seek_to_first(),
            Move::Last => iter.seek_to_last(),
            Move::Seek(key) => iter.seek(key),
            Move::SeekForPrev(key) => iter.seek_for_prev(key),
            Move::Next => iter.next(),
            Move::Prev => iter.prev(),
        }
        .map_err(|error| Violation::from(error).within(format_args!("{step:?}")))?;
        ensure(is_valid == iter.is_valid(), || {
            format!(
                "{step:?} answered {is_valid}, is_valid answers {}",
                iter.is_valid()
            )
        })?;
        let candidates = self.candidates(step);
        self.position = self.settle(iter, candidates, is_valid, step)?;
        Ok(())
    }

    /// Where the iterator may stand after the move, in the direction of the move.
    fn candidates(&self, step: &Move) -> Vec<usize> {
        let count = self.entries.len();
        let at_or_after = |key: &Vec<u8>| {
            let key = OrderedKey::new(&self.order, key);
            self.entries.partition_point(|entry| entry.key < key)
        };
        let up_to = |key: &Vec<u8>| {
            let key = OrderedKey::new(&self.order, key);
            self.entries.partition_point(|entry| entry.key <= key)
        };
        match step {
            Move::First => (0..count).collect(),
            Move::Last => (0..count).rev().collect(),
            Move::Seek(key) => (at_or_after(key)..count).collect(),
            Move::SeekForPrev(key) => (0..up_to(key)).rev().collect(),
            Move::Next => (self.position.map_or(count, |position| position + 1)..count).collect(),
            Move::Prev => (0..self.position.unwrap_or(0)).rev().collect(),
        }
    }

    fn settle(
        &self,
        iter: &mut Iter,
        candidates: Vec<usize>,
        is_valid: bool,
        step: &Move,
    ) -> Checked<Option<usize>> {
        let key = iter.key().to_vec();
        if !is_valid {
            ensure(key.is_empty(), || {
                format!("{step:?}: a key without a position")
            })?;
            let missed = candidates
                .iter()
                .find(|index| self.entries[**index].is_certain);
            return match missed {
                None => Ok(None),
                Some(index) => Err(Violation::new(format!(
                    "{step:?}: the iterator ended, expected {:?}",
                    self.entries[*index].key
                ))),
            };
        }
        for index in candidates {
            let entry = &self.entries[index];
            if self.order.compare(&entry.key.bytes, &key).is_eq() {
                let value = iter.value()?.to_vec();
                ensure(value == entry.value, || {
                    format!(
                        "{step:?}: {:?} holds {}, expected {}",
                        entry.key,
                        show(Some(&value)),
                        show(Some(&entry.value))
                    )
                })?;
                return Ok(Some(index));
            }
            ensure(!entry.is_certain, || {
                format!(
                    "{step:?}: the iterator stands on \"{}\", expected {:?}",
                    key.escape_ascii(),
                    entry.key
                )
            })?;
        }
        Err(Violation::new(format!(
            "{step:?}: the iterator stands on \"{}\", expected the end",
            key.escape_ascii()
        )))
    }
}
