//! A cursor that takes the entries of another one many at a time, where that one lends them.
//!
//! A step then is an index that goes up: no call through the layers of cursors below, which are levels, tables and blocks.
//!
//! ```text
//!   source:    a  b  c  d  e  f  g  h          lent: c d e f      shown: d
//!                          ^ source
//! ```
//!
//! What was lent since the last seek of the source is kept, a few batches of it: a seek that leads there
//! ([`BatchedCursor::seek_lent`]) asks nobody. So ranges that overlap, each beginning a little behind the one before, take
//! every entry once. Of long ones that is seen when a seek leads back behind the one before, and more is kept from then on.
//!
//! Invariant: while entries are lent, the entry at `at` of the batch is shown, and the source is on the last entry of the newest batch
//! that is kept; that is the one that is shown, unless a seek went back behind it. A step back
//! returns the source to the entry shown first, and gives up what is lent. The source may have grown since (a memtable is
//! one of those that are merged), so its steps are not counted: it goes back over each entry that was lent.
//!
//! Whoever seeks often and steps little would pay for entries that are never shown: nothing is taken in the first steps
//! after a seek, unless there were as many behind the seek before; nor for some steps after the source had nothing to lend.

use kingtide_base::{Batch, Cursor, EntryKind, KeyOrder, SeqNo, StorageResult, ValueRef};

use kept::KeptBatches;

mod kept;

/// Steps after a seek before entries are taken.
const STEPS_BEFORE: u32 = 3;
/// Steps before a source is asked again that had nothing to lend.
const STEPS_BETWEEN: u32 = 16;

/// See the module's documentation.
#[derive(Debug)]
pub struct BatchedCursor<C> {
    source: C,
    batch: Batch,
    /// The entry of the batch that is shown.
    at: usize,
    /// Steps before entries may be taken.
    wait: u32,
    kept: KeptBatches,
    /// The place of the entry that the last seek led to in its batch.
    sought: usize,
    /// Entries were taken in the steps since the last seek.
    has_taken: bool,
}

impl<C: Cursor> BatchedCursor<C> {
    /// A cursor over the entries of `source`.
    #[must_use]
    pub fn new(source: C) -> Self {
        Self {
            source,
            batch: Batch::default(),
            at: 0,
            wait: STEPS_BEFORE,
            kept: KeptBatches::default(),
            sought: 0,
            has_taken: false,
        }
    }

    /// Goes to the first entry at or behind `key`, and answers true, if that is among those that were lent. What the source has got
    /// since they were lent is not seen.
    #[inline]
    pub fn seek_lent(&mut self, key: &[u8], order: &KeyOrder) -> bool {
        if !self.is_lent() {
            return false;
        }
        let Some(place) = self.kept.seek((&mut self.batch, self.at), key, order) else {
            return false;
        };
        (self.at, self.sought) = (place, place);
        self.has_taken = false;
        true
    }

    /// How many entries behind this one are lent and shown one after another as of `snapshot`: see
    /// [`Batch::shown_behind`]. 0 when nothing is lent. The steps over them cannot fail, and do not ask the source; a call of
    /// [`Cursor::value`] may, and then gives up what is lent: see [`BatchedCursor::has_lent_value`].
    #[inline]
    #[must_use]
    pub fn shown_behind(&self, snapshot: SeqNo, order: &KeyOrder, until: Option<&[u8]>) -> usize {
        if self.is_lent() {
            self.batch.shown_behind(self.at, snapshot, order, until)
        } else {
            0
        }
    }

    /// Goes to the following entry, which must be lent.
    #[inline]
    pub fn next_lent(&mut self) {
        debug_assert!(self.at + 1 < self.batch.len());
        self.at += 1;
    }

    /// Whether key and value of the entry are lent together: then [`BatchedCursor::lent_entry`] has them. Asks the source
    /// for the values of what it lent, once.
    ///
    /// # Errors
    /// When storage fails; the cursor is invalid then.
    #[inline]
    pub fn has_lent_value(&mut self) -> StorageResult<bool> {
        if self.batch.has_value(self.at) {
            return Ok(true);
        }
        self.take_values()?;
        Ok(self.batch.has_value(self.at))
    }

    /// Key and value of the entry, while [`BatchedCursor::has_lent_value`] says so.
    #[inline]
    #[must_use]
    pub fn lent_entry(&self) -> (&[u8], ValueRef<'_>) {
        (self.batch.key(self.at), self.batch.value(self.at))
    }

    /// Whether key and value are lent for every entry at hand, the values here: then [`BatchedCursor::lent_inline_entry`]
    /// has those of this one.
    #[inline]
    #[must_use]
    pub fn has_lent_inline_values(&self) -> bool {
        self.batch.has_inline_values()
    }

    /// Key and value of the entry, while [`BatchedCursor::has_lent_inline_values`] says so.
    #[inline]
    #[must_use]
    pub fn lent_inline_entry(&self) -> (&[u8], &[u8]) {
        (self.batch.key(self.at), self.batch.inline_value(self.at))
    }

    #[inline(never)]
    fn take_values(&mut self) -> StorageResult<()> {
        if self.is_lent()
            && self.kept.is_newest_shown()
            && !self.batch.has_values()
            && let Err(error) = self.source.lend_values(&mut self.batch)
        {
            self.drop_batches();
            return Err(error);
        }
        Ok(())
    }

    /// Forgets what is lent before a jump.
    fn drop_batches(&mut self) {
        if self.is_lent() {
            self.batch.clear();
        }
        self.kept.clear();
        self.at = 0;
        self.wait = STEPS_BEFORE;
        self.sought = 0;
        self.has_taken = false;
    }

    #[inline]
    fn is_lent(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Whoever seeks now has stepped far since the last seek.
    fn has_walked(&self) -> bool {
        let is_far = self.at >= self.sought + STEPS_BEFORE as usize;
        self.has_taken || is_far || self.kept.has_walked()
    }

    /// Returns the source to the entry that is shown, and gives up what is lent.
    fn return_source(&mut self) -> StorageResult<()> {
        let outcome = self.step_back();
        self.drop_batches();
        outcome
    }

    fn step_back(&mut self) -> StorageResult<()> {
        let places = |batch: &Batch, from: usize| (from..batch.len()).rev();
        let behind = self.kept.newest_first();
        let behind = behind.flat_map(|batch| places(batch, 0).map(move |index| (batch, index)));
        let shown = places(&self.batch, self.at).map(|index| (&self.batch, index));
        for (batch, index) in behind.chain(shown).skip(1) {
            let (key, sequence) = (batch.key(index), batch.sequence(index));
            self.source.prev()?;
            while self.source.is_valid()
                && (self.source.sequence() != sequence || self.source.key() != key)
            {
                self.source.prev()?;
            }
        }
        Ok(())
    }

    /// Goes beyond the batch that is shown, and takes what comes then.
    #[inline(never)]
    fn go_on(&mut self) -> StorageResult<()> {
        self.at = 0;
        if !self.kept.is_newest_shown() {
            self.kept.show_next(&mut self.batch);
            return Ok(());
        }
        if self.is_lent() {
            self.wait = 0;
            self.kept.put_away(&mut self.batch);
        } else {
            self.wait = self.wait.saturating_sub(1);
        }
        let outcome = self.source.next();
        if self.wait == 0 && self.source.is_valid() {
            self.has_taken = true;
            self.take();
        }
        if !self.is_lent() {
            self.kept.give_up();
        }
        outcome
    }

    /// Takes what the source has to lend from its entry on.
    fn take(&mut self) {
        if !self.source.lend(None, &mut self.batch) {
            self.batch.clear();
            self.wait = STEPS_BETWEEN;
        }
    }
}

impl<C: Cursor> Cursor for BatchedCursor<C> {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.drop_batches();
        self.source.seek_first()
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.drop_batches();
        self.source.seek_last()
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        let has_walked = self.has_walked();
        self.drop_batches();
        self.source.seek(key)?;
        if has_walked && self.source.is_valid() {
            self.take();
        }
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.drop_batches();
        self.source.seek_for_prev(key)
    }

    #[inline]
    fn next(&mut self) -> StorageResult<()> {
        if self.at + 1 < self.batch.len() {
            self.at += 1;
            return Ok(());
        }
        self.go_on()
    }

    fn prev(&mut self) -> StorageResult<()> {
        self.return_source()?;
        self.source.prev()
    }

    #[inline]
    fn is_valid(&self) -> bool {
        self.is_lent() || self.source.is_valid()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        if self.is_lent() {
            self.batch.key(self.at)
        } else {
            self.source.key()
        }
    }

    #[inline]
    fn sequence(&self) -> SeqNo {
        if self.is_lent() {
            self.batch.sequence(self.at)
        } else {
            self.source.sequence()
        }
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        if self.is_lent() {
            self.batch.kind(self.at)
        } else {
            self.source.kind()
        }
    }

    #[inline]
    fn expires_at(&self) -> i64 {
        if self.is_lent() {
            self.batch.expires_at(self.at)
        } else {
            self.source.expires_at()
        }
    }

    #[inline]
    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        if self.is_lent() {
            if self.has_lent_value()? {
                return Ok(self.batch.value(self.at));
            }
            // The source itself says what is wrong with it.
            self.return_source()?;
        }
        self.source.value()
    }
}

#[cfg(test)]
mod tests;
