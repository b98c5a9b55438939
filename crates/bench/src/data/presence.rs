//! Which keys are in the database: one bit each, set after the write was acknowledged, cleared before the delete.
//!
//! While others write, a set bit says "there" and a clear one says nothing. While nobody writes, the bits are exact.

use std::sync::atomic::{AtomicU64, Ordering};

/// A set of indices that threads share.
#[derive(Debug)]
pub(crate) struct Presence {
    words: Vec<AtomicU64>,
}

impl Presence {
    /// The empty set, for indices below `count`.
    pub(crate) fn new(count: u64) -> Self {
        let words = usize::try_from(count.div_ceil(64)).unwrap_or(usize::MAX);
        let mut set = Vec::new();
        set.resize_with(words, AtomicU64::default);
        Self { words: set }
    }

    fn place(&self, index: u64) -> Option<(&AtomicU64, u64)> {
        let word = self.words.get(usize::try_from(index / 64).ok()?)?;
        Some((word, 1 << (index % 64)))
    }

    /// Adds `index`; beyond the count nothing happens.
    pub(crate) fn insert(&self, index: u64) {
        if let Some((word, bit)) = self.place(index) {
            // Release: who sees the bit sees that the write was acknowledged before.
            word.fetch_or(bit, Ordering::Release);
        }
    }

    pub(crate) fn remove(&self, index: u64) {
        if let Some((word, bit)) = self.place(index) {
            word.fetch_and(!bit, Ordering::Release);
        }
    }

    pub(crate) fn contains(&self, index: u64) -> bool {
        // Acquire: pairs with the release above.
        self.place(index)
            .is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    pub(crate) fn len(&self) -> u64 {
        self.words
            .iter()
            .map(|word| u64::from(word.load(Ordering::Acquire).count_ones()))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_not_taken_out() {
        let set = Presence::new(130);
        for index in [0, 63, 64, 129, 500] {
            set.insert(index);
        }
        set.remove(64);
        set.remove(1000);
        let members: Vec<u64> = (0..600).filter(|index| set.contains(*index)).collect();
        assert_eq!(members, [0, 63, 129]);
        assert_eq!(set.len(), 3);
    }
}
