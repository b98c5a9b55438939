//! Batches that were lent before and behind the one that is shown.

use std::{collections::VecDeque, mem};

use kingtide_base::{Batch, KeyOrder};

/// So many are kept. Whoever walks further since a seek is not about to come back, as a rule, and needs the processor's cache for
/// something else.
pub(super) const KEPT_MAX: usize = 6;
/// The same once somebody has come back from further.
pub(super) const KEPT_MAX_OF_OVERLAPS: usize = 40;

/// See the module. With the one that is shown they are consecutive.
#[derive(Debug)]
pub(super) struct KeptBatches {
    /// In order, without the one that is shown.
    batches: VecDeque<Batch>,
    /// How many of them come before it.
    before: usize,
    /// How many of them come before the batch that the last seek led to.
    sought: usize,
    max: usize,
    /// Where the walk since the last seek began, if it has got too long to be kept: its entries are behind this key.
    long_since: Option<Vec<u8>>,
    /// To be used again; what they hold means nothing.
    spare: Vec<Batch>,
}

impl Default for KeptBatches {
    fn default() -> Self {
        Self {
            batches: VecDeque::new(),
            before: 0,
            sought: 0,
            max: KEPT_MAX,
            long_since: None,
            spare: Vec::new(),
        }
    }
}

impl KeptBatches {
    /// True when none lies behind the one that is shown.
    #[inline]
    pub(super) fn is_newest_shown(&self) -> bool {
        self.before == self.batches.len()
    }

    /// Those behind the one that is shown, the last one first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Batch> {
        self.batches.range(self.before..).rev()
    }

    /// Whether the walk since the last seek has left the batch that this led to.
    pub(super) fn has_walked(&self) -> bool {
        self.before > self.sought || self.long_since.is_some()
    }

    /// How many are here, spare ones included.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.batches.len() + self.spare.len()
    }

    /// Makes the one behind `shown`, which must be there, the one that is shown.
    pub(super) fn show_next(&mut self, shown: &mut Batch) {
        mem::swap(shown, &mut self.batches[self.before]);
        self.before += 1;
    }

    /// Makes the one in which the first entry at or behind `key` is the one that is shown, and answers the place of the entry in it;
    /// `None`, and nothing changes, when it is not certain to be in any. Entry `at` of `shown` is the one that was shown last.
    pub(super) fn seek(
        &mut self,
        (shown, at): (&mut Batch, usize),
        key: &[u8],
        order: &KeyOrder,
    ) -> Option<usize> {
        let is_behind = |batch: &Batch| order.compare(key, batch.key(batch.len() - 1)).is_gt();
        let oldest = match self.before {
            0 => &*shown,
            _ => &self.batches[0],
        };
        let newest = match self.is_newest_shown() {
            true => &*shown,
            false => &self.batches[self.batches.len() - 1],
        };
        // Versions of the very first key may come before it.
        if order.compare(key, oldest.key(0)).is_le() || is_behind(newest) {
            let comes_back = |start: &Vec<u8>| {
                order.compare(key, start).is_gt() && order.compare(key, shown.key(at)).is_le()
            };
            self.max = match self.long_since.as_ref().is_some_and(comes_back) {
                true => KEPT_MAX_OF_OVERLAPS,
                false => KEPT_MAX,
            };
            return None;
        }
        while self.before > 0 && !is_behind(&self.batches[self.before - 1]) {
            self.before -= 1;
            mem::swap(shown, &mut self.batches[self.before]);
        }
        while is_behind(shown) && !self.is_newest_shown() {
            self.show_next(shown);
        }
        self.sought = self.before;
        self.long_since = None;
        Some(shown.lower_bound(order, key))
    }

    /// Puts an empty batch in the place of `shown`, which is the newest, and keeps it if it may be kept.
    pub(super) fn put_away(&mut self, shown: &mut Batch) {
        if self.batches.len() >= self.max {
            match self.sought {
                0 => {
                    self.long_since = self.batches.front().map(|first| first.key(0).to_vec());
                    self.give_up();
                }
                _ => {
                    self.spare.extend(self.batches.pop_front());
                    self.before -= 1;
                    self.sought -= 1;
                }
            }
        }
        if self.long_since.is_none() {
            let next = self.spare.pop().unwrap_or_default();
            self.batches.push_back(mem::replace(shown, next));
            self.before += 1;
        }
        shown.clear();
    }

    /// Gives all up before a jump.
    pub(super) fn clear(&mut self) {
        self.give_up();
        self.long_since = None;
    }

    /// Gives all up.
    pub(super) fn give_up(&mut self) {
        self.sought = 0;
        if self.batches.is_empty() {
            return;
        }
        self.spare.extend(self.batches.drain(..));
        self.spare.truncate(self.max);
        self.before = 0;
    }
}
