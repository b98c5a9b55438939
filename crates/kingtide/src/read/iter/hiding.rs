//! Range deletes as iterators and merges use them.
//!
//! A [`RangeFinder`] answers which fragment lies over a key; keys that are asked for in order cost a few comparisons. A
//! [`Skipping`] cursor leaves out a source's entries below the range deletes that are newer than everything in the source:
//! it seeks over each such fragment at once, so that walking over a million deleted keys costs a seek.
//!
//! [`merged_ranges`] brings the range deletes of several places together for one snapshot. Which of the entries that are
//! left is hidden is judged entry by entry, in [`mvcc`](super::mvcc) and in the drop rule of merges.

use std::sync::Arc;

use kingtide_base::{Cursor, Fragment, Fragments, KeyOrder, SeqNo, StorageResult, is_before_end};

use super::{
    own_writes::OWN_RANGES,
    passing::{Pass, Passing},
};

/// Fragments that are passed one by one before the list is searched.
const STEPS_MAX: usize = 4;

/// What `snapshot` and a transaction itself see of `parts`: fragments of which the newest number counts.
pub(crate) fn merged_ranges(
    order: &KeyOrder,
    mut parts: Vec<Arc<Fragments>>,
    snapshot: SeqNo,
) -> Arc<Fragments> {
    let is_seen = |sequence: SeqNo| sequence <= snapshot || sequence == OWN_RANGES;
    parts.retain(|part| !part.is_empty());
    match &*parts {
        [] => Arc::default(),
        [only] if is_seen(only.newest()) => Arc::clone(only),
        _ => {
            let tombstones = parts.iter().flat_map(|part| part.tombstones());
            let seen = tombstones.filter(|tombstone| is_seen(tombstone.sequence));
            Arc::new(Fragments::build(order, seen, &[SeqNo::MAX]))
        }
    }
}

/// Finds the fragment over a key, from where it found the last one.
pub(crate) struct RangeFinder {
    order: KeyOrder,
    ranges: Arc<Fragments>,
    /// Where the last search ended.
    at: usize,
}

impl RangeFinder {
    /// A finder in `ranges`.
    pub(crate) fn new(order: KeyOrder, ranges: Arc<Fragments>) -> Self {
        Self {
            order,
            ranges,
            at: 0,
        }
    }

    /// True when there is nothing to be found.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The fragment over `key`.
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<&Fragment> {
        self.place(key);
        let fragment = self.ranges.list().get(self.at)?;
        self.order
            .compare(&fragment.start, key)
            .is_le()
            .then_some(fragment)
    }

    /// Goes to the first fragment that ends behind `key`.
    fn place(&mut self, key: &[u8]) {
        let list = self.ranges.list();
        let ends_behind = |fragment: &Fragment| is_before_end(&self.order, key, &fragment.end);
        for _ in 0..STEPS_MAX {
            if list
                .get(self.at)
                .is_some_and(|fragment| !ends_behind(fragment))
            {
                self.at += 1;
            } else if self.at > 0 && list.get(self.at - 1).is_some_and(ends_behind) {
                self.at -= 1;
            } else {
                return;
            }
        }
        self.at = self.ranges.first_ending_after(&self.order, key);
    }
}

/// Passes over the entries that lie in fragments with newer numbers than all of them.
pub(crate) struct Hidden {
    finder: RangeFinder,
    /// No entry has a larger number, but for those that nobody sees.
    newest_entry: SeqNo,
}

/// A cursor without the entries that lie in fragments with newer numbers than all of them.
pub(crate) type Skipping<C> = Passing<C, Hidden>;

impl<C: Cursor> Skipping<C> {
    /// `inner` without what lies in those of `ranges` that are newer than `newest_entry`, the number of the newest entry
    /// that counts.
    pub(crate) fn new(
        inner: C,
        order: KeyOrder,
        ranges: Arc<Fragments>,
        newest_entry: SeqNo,
    ) -> Self {
        let finder = RangeFinder::new(order, ranges);
        Self::over(
            inner,
            Hidden {
                finder,
                newest_entry,
            },
        )
    }
}

impl Hidden {
    /// The fragment that hides the current entry.
    fn hiding(&mut self, inner: &impl Cursor) -> Option<&Fragment> {
        if !inner.is_valid() {
            return None;
        }
        let newest_entry = self.newest_entry;
        let fragment = self.finder.find(inner.key());
        fragment.filter(|fragment| fragment.newest() > newest_entry)
    }
}

impl<C: Cursor> Pass<C> for Hidden {
    fn forward(&mut self, inner: &mut C) -> StorageResult<()> {
        while let Some(end) = self.hiding(inner).map(|fragment| fragment.end.clone()) {
            if end.is_empty() {
                inner.seek_last()?;
                return inner.next();
            }
            inner.seek(&end)?;
        }
        Ok(())
    }

    fn backward(&mut self, inner: &mut C) -> StorageResult<()> {
        while let Some(start) = self.hiding(inner).map(|fragment| fragment.start.clone()) {
            inner.seek_for_prev(&start)?;
            let order = &self.finder.order;
            while inner.is_valid() && order.compare(inner.key(), &start).is_ge() {
                inner.prev()?;
            }
        }
        Ok(())
    }
}
