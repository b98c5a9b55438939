//! Which versions a flush or a merge leaves out: those that no snapshot, present or future, can tell from absence.
//!
//! The live snapshots and the newest visible sequence number, ascending, are the *boundaries*. They cut the sequence
//! numbers into stripes: all versions of a key in one stripe look alike to every boundary at or above the stripe, which
//! sees only the newest of them.
//!
//! ```text
//!   boundaries        3              7        9 (visible)
//!   stripes      0    |      1       |    2   |   beyond: not yet visible, always kept
//!   versions   1   3     5   6   7      8       10
//!   kept           *             *      *        *
//! ```
//!
//! 1. A version beyond the last boundary is kept: snapshots yet to be taken may fall anywhere behind it.
//! 2. A version with a newer one in its stripe is dropped.
//! 3. An expired put, once it is expired for the clock of the oldest live snapshot and so for all, is a tombstone.
//! 4. A tombstone in the lowest stripe hides only what rule 2 drops, or nothing, in a merge into the bottom and wherever
//!    no table below has keys around its own ([`Below`]): dropped.
//! 5. A single delete in the lowest stripe is dropped, together with the put that rule 2 drops, if no older version of
//!    its key exists below ([`exists_below`](super::below::exists_below)): it hides nothing, as in rule 4. Otherwise it
//!    is a tombstone like any other. So the pair vanishes in any pass, and an older version can never come back, however
//!    often the key was put: that is looked up and not trusted, and no mark on entries has to remember what earlier
//!    passes dropped under a put.
//! 6. Every other tombstone is kept, because it may hide a version below; an expired put is rewritten as one.
//! 7. A version with a newer range delete over its key in its stripe is dropped. Of the range deletes over a key the
//!    newest of each stripe is kept, but the one of the lowest stripe where it lies over no table below.
//!
//! Rules 4 and 5 stop at the lowest stripe although a pair above it is seen by nobody either: a transaction that reads at
//! an older snapshot must still find, when it commits, that the key was written since.
//!
//! Merge operands are reserved: they are kept, and decide nothing about other versions.
//!
//! A snapshot that is taken while the merge runs is at or above the last boundary, so the rules hold for it too, if the
//! boundaries come from [`SnapshotRegistry::boundaries`](crate::snapshot::SnapshotRegistry::boundaries). Not decided
//! here: what counts as the bottom, and what happens to separated values that are dropped.

use std::sync::Arc;

use kingtide_base::{
    EntryKind, Fragments, KeyOrder, RangeTombstone, SeqNo,
    planted::{self, Bug},
};

use super::{
    below::{Below, ExistsBelow},
    tally::Dropped,
};
use crate::{
    family::DroppedVersions,
    read::iter::{RangeFinder, mvcc::is_expired},
};

/// What becomes of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Written as it is.
    Keep,
    /// Written as a `Delete` of the same key and sequence number, without value and expiry.
    KeepAsDelete,
    /// Left out.
    Drop,
}

/// Decides version by version, in cursor order (keys ascending, for one key the newest first). All versions of a key
/// that take part in the merge must pass through one filter. Counts what it drops, by reason.
pub(crate) struct VersionFilter {
    order: KeyOrder,
    /// Ascending, without repetition.
    boundaries: Vec<SeqNo>,
    is_bottom: bool,
    now_for_expiry: i64,
    /// Where older versions may lie outside of the pass.
    below: Below,
    /// Asked for single deletes; `None`: any key may exist below.
    exists_below: Option<ExistsBelow>,
    /// The key of the last version; counts only while `stripe` is set.
    key: Vec<u8>,
    /// The stripe of the last version of `key` that was not beyond the boundaries.
    stripe: Option<usize>,
    /// The range deletes of the pass, the newest of each stripe.
    ranges: Arc<Fragments>,
    finder: RangeFinder,
    tally: DroppedVersions,
}

impl VersionFilter {
    /// A filter for one pass. `boundaries`: live snapshots and the newest visible number; without any, everything is
    /// kept. `is_bottom`: no version of the keys in this pass exists that is older than this pass and not in it.
    /// `now_for_expiry`: Unix seconds that no live or future snapshot's clock is behind.
    pub(crate) fn new(
        order: KeyOrder,
        mut boundaries: Vec<SeqNo>,
        is_bottom: bool,
        now_for_expiry: i64,
    ) -> Self {
        boundaries.sort_unstable();
        boundaries.dedup();
        Self {
            finder: RangeFinder::new(order.clone(), Arc::default()),
            order,
            boundaries,
            is_bottom,
            now_for_expiry,
            below: Below::Anywhere,
            exists_below: None,
            key: Vec::new(),
            stripe: None,
            ranges: Arc::default(),
            tally: DroppedVersions::default(),
        }
    }

    /// A filter that decides alike, for the part of the pass with the keys from `from` (`None`: the first) to before `to`
    /// (empty: to the end), for which nothing was decided yet.
    pub(crate) fn for_part(&self, from: Option<&[u8]>, to: &[u8]) -> Self {
        let ranges = match (from, to) {
            (None, []) => Arc::clone(&self.ranges),
            _ => Arc::new(self.ranges.cut(&self.order, from, to)),
        };
        Self {
            finder: RangeFinder::new(self.order.clone(), Arc::clone(&ranges)),
            order: self.order.clone(),
            boundaries: self.boundaries.clone(),
            is_bottom: self.is_bottom,
            now_for_expiry: self.now_for_expiry,
            below: self.below.clone(),
            exists_below: self.exists_below.clone(),
            key: Vec::new(),
            stripe: None,
            ranges,
            tally: DroppedVersions::default(),
        }
    }

    /// What was dropped so far.
    pub(crate) fn tally(&self) -> DroppedVersions {
        self.tally
    }

    /// True when range deletes take part: entries that they hide may then be passed over, unseen by the filter.
    pub(crate) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    fn dropped(&mut self, why: Dropped) -> Decision {
        why.note(&mut self.tally);
        Decision::Drop
    }

    /// Tells the filter of all range deletes that take part in the merge. To be called before the first version.
    pub(crate) fn set_ranges<'a>(
        &mut self,
        tombstones: impl IntoIterator<Item = RangeTombstone<'a>>,
    ) {
        let ranges = Fragments::build(&self.order, tombstones, &self.boundaries);
        self.ranges = Arc::new(ranges);
        self.finder = RangeFinder::new(self.order.clone(), Arc::clone(&self.ranges));
    }

    /// The range deletes that are to be written.
    pub(crate) fn ranges_kept(&self) -> Fragments {
        if planted::is(Bug::RangeDeleteForgotten) {
            return Fragments::default();
        }
        self.ranges.retain(&self.order, |fragment, sequence| {
            let hides = !self.is_bottom && self.below.meets(&self.order, fragment);
            hides
                || self
                    .boundaries
                    .first()
                    .is_none_or(|first| sequence > *first)
        })
    }

    /// The part of the range deletes that drops every version in its ranges, when all of these have numbers from `oldest`
    /// to `newest`: those with no boundary between.
    pub(crate) fn ranges_dropping(&self, oldest: SeqNo, newest: SeqNo) -> Fragments {
        self.ranges.retain(&self.order, |_, sequence| {
            let stripe = self.stripe_of(sequence);
            sequence > newest && stripe.is_some() && stripe == self.stripe_of(oldest)
        })
    }

    /// The stripe of a version; none for one beyond the boundaries.
    #[inline]
    fn stripe_of(&self, sequence: SeqNo) -> Option<usize> {
        let stripe = self.boundaries.partition_point(|bound| *bound < sequence);
        (stripe < self.boundaries.len()).then_some(stripe)
    }

    /// True when a newer range delete in the same stripe lies over a version.
    fn is_covered(&mut self, key: &[u8], sequence: SeqNo, stripe: usize) -> bool {
        let Some(fragment) = self.finder.find(key) else {
            return false;
        };
        let newer = fragment
            .sequences()
            .take_while(|number| *number > sequence || planted::is(Bug::RangeDeleteHidesNewer));
        let boundary = self.boundaries.get(stripe);
        let mut alike = newer.filter(|number| boundary.is_some_and(|bound| number <= bound));
        alike.next().is_some()
    }

    /// The same filter, which knows where older versions may lie outside of the pass. Elsewhere is the bottom.
    pub(crate) fn with_below(mut self, below: Below) -> Self {
        self.below = below;
        self
    }

    /// The same filter, which can tell whether a key exists outside of the pass, in an older version.
    pub(crate) fn with_lookup(mut self, exists_below: ExistsBelow) -> Self {
        self.exists_below = Some(exists_below);
        self
    }

    /// What becomes of the next version.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        key: &[u8],
        sequence: SeqNo,
        kind: EntryKind,
        expires_at: i64,
    ) -> Decision {
        self.turn_to(key);
        let is_tombstone = match kind {
            // Range deletes are no entries of a key; what a damaged table holds is not made worse.
            EntryKind::RangeDelete
            | EntryKind::Merge
            | EntryKind::PutSpilled
            | EntryKind::PutPacked => {
                return Decision::Keep;
            }
            EntryKind::Delete | EntryKind::SingleDelete => true,
            EntryKind::Put => false,
        };
        let Some(stripe) = self.stripe_of(sequence) else {
            return Decision::Keep;
        };
        if self.stripe == Some(stripe) {
            return self.dropped(Dropped::Shadowed);
        }
        if !self.finder.is_empty() && self.is_covered(key, sequence, stripe) {
            return self.dropped(Dropped::RangeDeleted);
        }
        debug_assert!(self.stripe.is_none_or(|newer| newer > stripe));
        self.stripe = Some(stripe);
        let is_expired = !is_tombstone && is_expired(expires_at, self.now_for_expiry);
        let hides_nothing = (is_tombstone || is_expired)
            && stripe == 0
            && (self.is_bottom
                || !self.below.holds(&self.order, key)
                || self.is_alone(key, kind)
                || (planted::is(Bug::TombstoneDroppedEarly) && is_tombstone)
                || (planted::is(Bug::ExpiredUncovers) && is_expired));
        if hides_nothing {
            self.dropped(match (kind, is_expired) {
                (_, true) => Dropped::Expired,
                (EntryKind::SingleDelete, _) => Dropped::SingleDelete,
                _ => Dropped::Tombstone,
            })
        } else if is_expired {
            Decision::KeepAsDelete
        } else {
            Decision::Keep
        }
    }

    /// True for a single delete whose key has no older version outside of the pass.
    fn is_alone(&self, key: &[u8], kind: EntryKind) -> bool {
        kind == EntryKind::SingleDelete
            && (planted::is(Bug::SingleDeleteTrusted)
                || self
                    .exists_below
                    .as_ref()
                    .is_some_and(|exists_below| !exists_below(key)))
    }

    /// Forgets the last key's stripe if `key` is another one.
    #[inline]
    fn turn_to(&mut self, key: &[u8]) {
        if self.stripe.is_some() && self.order.is_same(&self.key, key) {
            return;
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        self.stripe = None;
    }
}

#[cfg(test)]
mod tests;
