//! From versions to keys: the part of an iterator that knows what one snapshot sees.
//!
//! The source is one cursor over all versions of all keys (keys ascending, for one key the newest version first). Of
//! each key the newest version with a sequence number at or below the snapshot decides: a put that has not expired is
//! the key's value; a tombstone or an expired put hides the key, and with it every older version. Sequence number
//! [`SeqNo::MAX`] marks a transaction's own writes, which every snapshot of that transaction sees.
//!
//! Forward, the source stays on the version that is shown, and values are lent from it. The remaining versions of the
//! key are stepped over by the next move; after [`VERSION_STEPS_MAX`] of them the source seeks behind the key, where
//! the order has a successor of a key (plain byte order: the key and a zero byte).
//!
//! Backward, versions arrive oldest first, so the deciding one is known only when the source has left the key. It is
//! copied on the way, and the source then sits before the key:
//!
//! ```text
//!   source order:   a@7  a@3  b@9  b@5  c@2        snapshot 6, shown: b@5
//!   forward:                       ^ source
//!   backward:            ^ source                  key and value in the buffers
//! ```
//!
//! Where the source lends entries many at a time ([`BatchedCursor`]), it also tells how many of those behind the shown one
//! are shown one after another, so that the next moves look at nothing: this is the *run*.
//!
//! The source may grow while it is walked (an active memtable): what appears is newer than the snapshot. It must be opened
//! after the snapshot's number was read, so that it holds everything that the snapshot sees.
//!
//! Invariants: `key` holds the shown key, except in `Run`. `Forward` and `Run`: the source is on the shown version.
//! `Backward`: the source is on the last version of the preceding key, or invalid if there is none.
//!
//! A version below a newer range delete hides its key like a tombstone does.
//!
//! Not here: merging sources (the cursor comes merged), loading separated values, and the reserved kinds, which fail
//! rather than being misread as absent.

use std::sync::Arc;

use kingtide_base::{
    Cursor, EntryKind, Fragments, KeyOrder, SeqNo, StorageError, StorageResult, ValuePointer,
    ValueRef,
    planted::{self, Bug},
};

use kingtide_collections::BatchedCursor;

use super::{Bounds, RangeFinder};

/// Versions of one key that are stepped over before the source seeks behind the key.
const VERSION_STEPS_MAX: usize = 16;
/// Capacity of the value buffer that is kept from one move to the next, in bytes.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Where the source is, relative to the key that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// No key is shown; the source may be anywhere.
    Nowhere,
    /// On the version that is shown.
    Forward,
    /// On the version that is shown, which is lent; the key is there alone.
    Run,
    /// Before all versions of the key that is shown; the version is in the buffers.
    Backward,
}

/// The live keys of one snapshot, in order, in both directions. Born without a position.
///
/// Every move answers whether a key is shown afterwards. After an error no key is shown; seek to go on.
pub(crate) struct MvccCursor<C> {
    source: BatchedCursor<C>,
    order: KeyOrder,
    snapshot: SeqNo,
    /// Unix seconds: what expires at or before this is expired.
    now: i64,
    bounds: Bounds,
    /// What the snapshot sees of the range deletes.
    ranges: RangeFinder,

    position: Position,
    /// How many of the source's next entries are shown one after another.
    run: usize,
    /// The shown key, or the key whose remaining versions are being passed over.
    key: Vec<u8>,
    expires_at: i64,
    /// The value, for `Position::Backward`: in `value`, unless it is separated.
    value: Vec<u8>,
    separated: Option<ValuePointer>,
}

impl<C: Cursor> MvccCursor<C> {
    /// What `snapshot` sees of `source` when its clock says `now` (Unix seconds). `source` must be ordered by `order`.
    pub(crate) fn new(source: C, order: KeyOrder, snapshot: SeqNo, now: i64) -> Self {
        Self {
            source: BatchedCursor::new(source),
            ranges: RangeFinder::new(order.clone(), Arc::default()),
            order,
            snapshot,
            now,
            bounds: Bounds::default(),
            position: Position::Nowhere,
            run: 0,
            key: Vec::new(),
            expires_at: 0,
            value: Vec::new(),
            separated: None,
        }
    }

    /// The same, confined to `bounds`: seeks are clamped, moves end at the bounds.
    pub(crate) fn with_bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self.lose_position();
        self
    }

    /// The same, without what `ranges` hide: the range deletes that the snapshot sees (see
    /// [`merged_ranges`](super::merged_ranges)).
    pub(crate) fn with_ranges(mut self, ranges: Arc<Fragments>) -> Self {
        self.ranges = RangeFinder::new(self.order.clone(), ranges);
        self.lose_position();
        self
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// When storage fails.
    pub(crate) fn seek_to_first(&mut self) -> StorageResult<bool> {
        self.lose_position();
        match self.bounds.lower() {
            Some(lower) => self.source.seek(lower)?,
            None => self.source.seek_first()?,
        }
        self.settle_forward(false)
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// When storage fails.
    pub(crate) fn seek_to_last(&mut self) -> StorageResult<bool> {
        self.lose_position();
        match self.bounds.upper() {
            Some(upper) => self.source.seek_for_prev(upper)?,
            None => self.source.seek_last()?,
        }
        // The upper bound itself lies outside; its versions are where `seek_for_prev` stops if it exists.
        while self.source.is_valid() && self.bounds.ends_before(self.source.key(), &self.order) {
            self.source.prev()?;
        }
        self.settle_backward()
    }

    /// Goes to the first key at or after `key`.
    ///
    /// # Errors
    /// When storage fails.
    pub(crate) fn seek(&mut self, key: &[u8]) -> StorageResult<bool> {
        self.lose_position();
        if self.bounds.starts_after(key, &self.order) {
            return self.seek_to_first();
        }
        if self.bounds.ends_before(key, &self.order) {
            return Ok(false);
        }
        if !self.source.seek_lent(key, &self.order) {
            self.source.seek(key)?;
        }
        self.settle_forward(false)
    }

    /// Goes to the last key at or before `key`.
    ///
    /// # Errors
    /// When storage fails.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<bool> {
        self.lose_position();
        if self.bounds.ends_before(key, &self.order) {
            return self.seek_to_last();
        }
        if self.bounds.starts_after(key, &self.order) {
            return Ok(false);
        }
        self.source.seek_for_prev(key)?;
        self.settle_backward()
    }

    /// Goes to the following key. Without a position: stays without one.
    ///
    /// # Errors
    /// When storage fails.
    #[inline]
    pub(crate) fn next(&mut self) -> StorageResult<bool> {
        if self.next_of_run() {
            return Ok(true);
        }
        self.go_on()
    }

    /// Goes to the following key, if that is the next one of a run.
    #[inline]
    pub(crate) fn next_of_run(&mut self) -> bool {
        if self.run == 0 {
            return false;
        }
        self.run -= 1;
        self.position = Position::Run;
        self.source.next_lent();
        true
    }

    /// Whether key and value are at hand: then [`MvccCursor::run_entry`] has them. Only in a run.
    #[inline]
    pub(crate) fn has_run_entry(&self) -> bool {
        self.position == Position::Run && self.source.has_lent_inline_values()
    }

    /// Key and value, while [`MvccCursor::has_run_entry`] says so.
    #[inline]
    pub(crate) fn run_entry(&self) -> (&[u8], &[u8]) {
        self.source.lent_inline_entry()
    }

    /// Goes to the following key where more than one step may lead to it.
    fn go_on(&mut self) -> StorageResult<bool> {
        self.save_key();
        match std::mem::replace(&mut self.position, Position::Nowhere) {
            Position::Nowhere => return Ok(false),
            Position::Forward | Position::Run => self.source.next()?,
            Position::Backward if planted::is(Bug::IteratorSkips) => {
                self.seek_behind_key()?;
                if self.source.is_valid() {
                    self.source.next()?;
                }
            }
            Position::Backward if self.order.is_bytewise() => self.seek_behind_key()?,
            Position::Backward => self.source.seek(&self.key)?,
        }
        self.settle_forward(true)
    }

    /// Goes to the preceding key. Without a position: stays without one.
    ///
    /// # Errors
    /// When storage fails.
    pub(crate) fn prev(&mut self) -> StorageResult<bool> {
        self.save_key();
        self.run = 0;
        match std::mem::replace(&mut self.position, Position::Nowhere) {
            Position::Nowhere => return Ok(false),
            // Versions too new for the snapshot may lie between the source and the preceding key.
            Position::Forward | Position::Run => loop {
                self.source.prev()?;
                if !self.source_is_on_key() {
                    break;
                }
            },
            Position::Backward => {}
        }
        self.settle_backward()
    }

    /// Shows no key until the next seek.
    pub(crate) fn lose_position(&mut self) {
        self.position = Position::Nowhere;
        self.run = 0;
    }

    /// Puts the shown key into `key`, if it is not there.
    fn save_key(&mut self) {
        if self.position == Position::Run {
            self.key.clear();
            self.key.extend_from_slice(self.source.key());
            self.expires_at = 0;
            self.position = Position::Forward;
        }
    }

    /// True while a key is shown.
    #[inline]
    pub(crate) fn is_valid(&self) -> bool {
        self.position != Position::Nowhere
    }

    /// The shown key, as the shown version spells it; empty without a position.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self.position {
            Position::Nowhere => &[],
            Position::Run => self.source.key(),
            Position::Forward | Position::Backward => &self.key,
        }
    }

    /// When the shown entry expires, in Unix seconds; 0 for never, and without a position.
    #[inline]
    pub(crate) fn expires_at(&self) -> i64 {
        match self.position {
            // Of a run nothing expires.
            Position::Nowhere | Position::Run => 0,
            Position::Forward | Position::Backward => self.expires_at,
        }
    }

    /// Key and value at once, lent until the next move; both are empty without a position.
    ///
    /// # Errors
    /// When storage fails; no key is shown then.
    #[inline]
    pub(crate) fn entry(&mut self) -> StorageResult<(&[u8], ValueRef<'_>)> {
        match (self.position, self.separated) {
            (Position::Nowhere, _) => Ok((&[], ValueRef::Inline(&[]))),
            (Position::Forward | Position::Run, _) => {
                if self.has_lent_value()? {
                    Ok(self.source.lent_entry())
                } else {
                    self.entry_of_source()
                }
            }
            (Position::Backward, Some(pointer)) => Ok((&self.key, ValueRef::Separated(pointer))),
            (Position::Backward, None) => Ok((&self.key, ValueRef::Inline(&self.value))),
        }
    }

    #[inline]
    fn has_lent_value(&mut self) -> StorageResult<bool> {
        let outcome = self.source.has_lent_value();
        if outcome.is_err() {
            self.lose_position();
        }
        outcome
    }

    /// Key and value of the version that the source is on. The source gives up what it lent, and with that the run ends:
    /// what has appeared since then is not to be shown.
    fn entry_of_source(&mut self) -> StorageResult<(&[u8], ValueRef<'_>)> {
        self.save_key();
        self.run = 0;
        match self.source.value() {
            Ok(value) => Ok((&self.key, value)),
            Err(error) => {
                self.position = Position::Nowhere;
                Err(error)
            }
        }
    }

    /// Walks forward from the source's entry to the first version that is to be shown. `is_key_done`: the remaining
    /// versions of `key` are to be passed over.
    fn settle_forward(&mut self, mut is_key_done: bool) -> StorageResult<bool> {
        let mut steps = 0;
        while self.source.is_valid() {
            let key = self.source.key();
            if is_key_done && self.order.is_same(key, &self.key) {
                steps += 1;
                if steps == VERSION_STEPS_MAX && self.order.is_bytewise() {
                    self.seek_behind_key()?;
                } else {
                    self.source.next()?;
                }
                continue;
            }
            if self.bounds.ends_before(key, &self.order) {
                break;
            }
            let sequence = self.source.sequence();
            is_key_done = sees(self.snapshot, sequence);
            steps = 0;
            if is_key_done {
                self.key.clear();
                self.key.extend_from_slice(key);
                if self.source_is_live(sequence)? {
                    self.position = Position::Forward;
                    if self.ranges.is_empty() {
                        let (order, until) = (&self.order, self.bounds.upper());
                        self.run = self.source.shown_behind(self.snapshot, order, until);
                    }
                    return Ok(true);
                }
            }
            self.source.next()?;
        }
        Ok(false)
    }

    /// Walks backward, key by key, until one has a version that is to be shown. The source must be on the last version
    /// of a key, or invalid.
    fn settle_backward(&mut self) -> StorageResult<bool> {
        while self.source.is_valid() && !self.bounds.starts_after(self.source.key(), &self.order) {
            self.key.clear();
            self.key.extend_from_slice(self.source.key());
            let mut is_live = false;
            loop {
                if sees(self.snapshot, self.source.sequence()) {
                    is_live = self.save_version()?;
                }
                self.source.prev()?;
                if !self.source_is_on_key() {
                    break;
                }
            }
            if is_live {
                self.position = Position::Backward;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies the source's version into the buffers if it is live; answers whether it is.
    fn save_version(&mut self) -> StorageResult<bool> {
        if !self.source_is_live(self.source.sequence())? {
            return Ok(false);
        }
        // Keys that compare equal may differ in bytes (case-insensitive order): the shown version's spelling counts.
        self.key.clear();
        self.key.extend_from_slice(self.source.key());
        self.value.clear();
        self.value.shrink_to(BUFFER_BYTES_KEPT);
        self.separated = match self.source.value()? {
            ValueRef::Inline(bytes) => {
                self.value.extend_from_slice(bytes);
                None
            }
            ValueRef::Separated(pointer) => Some(pointer),
        };
        Ok(true)
    }

    /// Seeks the source to the first entry behind all versions of `key`. Only in plain byte order.
    fn seek_behind_key(&mut self) -> StorageResult<()> {
        debug_assert!(self.order.is_bytewise());
        self.key.push(0);
        let outcome = self.source.seek(&self.key);
        self.key.pop();
        outcome
    }

    fn source_is_on_key(&self) -> bool {
        self.source.is_valid() && self.order.is_same(self.source.key(), &self.key)
    }

    /// True when a newer range delete lies over the source's version, which has this number.
    fn source_is_covered(&mut self, sequence: SeqNo) -> bool {
        let fragment = self.ranges.find(self.source.key());
        fragment.is_some_and(|fragment| fragment.newest() > sequence)
    }

    /// True when the source's version, which has this number, is a value, false when it hides its key. Notes when it
    /// expires.
    #[inline]
    fn source_is_live(&mut self, sequence: SeqNo) -> StorageResult<bool> {
        if !self.ranges.is_empty() && self.source_is_covered(sequence) {
            return Ok(false);
        }
        match self.source.kind() {
            EntryKind::Put => {
                self.expires_at = self.source.expires_at();
                Ok(!is_expired(self.expires_at, self.now))
            }
            EntryKind::Delete | EntryKind::SingleDelete => Ok(false),
            kind @ (EntryKind::RangeDelete
            | EntryKind::Merge
            | EntryKind::PutSpilled
            | EntryKind::PutPacked) => Err(StorageError::malformed(
                "merged view of a family",
                0,
                format!(
                    "the entry of commit {sequence} has the reserved kind {kind:?}, which this version cannot read"
                ),
            )),
        }
    }
}

/// True when `snapshot` sees a version.
#[inline]
fn sees(snapshot: SeqNo, sequence: SeqNo) -> bool {
    sequence <= snapshot || sequence == SeqNo::MAX
}

/// True when an entry that expires at `expires_at` (Unix seconds, 0 for never) is expired at `now`.
#[inline]
pub(crate) fn is_expired(expires_at: i64, now: i64) -> bool {
    expires_at != 0 && expires_at <= now
}
