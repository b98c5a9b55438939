//! What the threads of all steps share.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{KeyMaker, Settings, ValueMaker, data::presence::Presence};

/// Keys, values, and which keys are there.
pub(super) struct Plan<'a> {
    pub(super) settings: &'a Settings,
    pub(super) keys: KeyMaker,
    pub(super) values: ValueMaker,
    /// Of the first family.
    pub(super) presence: Presence,
    /// Of all others, which only transactions write to.
    pub(super) in_families: Presence,
    /// Indices that may come to be.
    pub(super) indices: u64,
    /// The index that the next insert takes.
    next_insert: AtomicU64,
}

impl<'a> Plan<'a> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        let indices = settings.indices();
        Self {
            settings,
            keys: settings.key_maker(),
            values: ValueMaker::new(
                settings.value_sizes,
                settings.value_content,
                settings.compression_ratio,
                settings.seed,
            ),
            presence: Presence::new(indices),
            in_families: Presence::new(if settings.families > 1 { indices } else { 0 }),
            indices,
            next_insert: AtomicU64::new(settings.keys),
        }
    }

    /// An index that no key has yet; `None` when all are taken.
    pub(super) fn take_insert(&self) -> Option<u64> {
        // Relaxed: the counter publishes nothing but itself.
        let index = self.next_insert.fetch_add(1, Ordering::Relaxed);
        (index < self.indices).then_some(index)
    }

    /// How many indices have been taken, the keys of the beginning included.
    pub(super) fn inserted(&self) -> u64 {
        self.next_insert.load(Ordering::Relaxed).min(self.indices)
    }

    /// Bytes of the key and the value of `index`.
    pub(super) fn entry_bytes(&self, index: u64) -> u64 {
        (self.settings.key_bytes + self.values.length(index)) as u64
    }

    /// Bytes of keys and values that are there.
    pub(super) fn live_bytes(&self) -> u64 {
        let bytes = |set: &Presence| -> u64 {
            let there = (0..self.indices).filter(|index| set.contains(*index));
            there.map(|index| self.entry_bytes(index)).sum()
        };
        bytes(&self.presence) + bytes(&self.in_families) * (self.settings.families as u64 - 1)
    }

    /// The first index that is there, at or behind `from` in the order of keys.
    pub(super) fn present_from(&self, from: u64) -> Option<u64> {
        let mut next = Some(from).filter(|from| *from < self.indices);
        while let Some(index) = next {
            if self.presence.contains(index) {
                return Some(index);
            }
            next = self.keys.successor(index, self.indices);
        }
        None
    }

    /// The indices that are there, in the order of keys, from `from` on.
    pub(super) fn present(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let first = self.present_from(from);
        std::iter::successors(first, |index| {
            self.present_from(self.keys.successor(*index, self.indices)?)
        })
    }
}
