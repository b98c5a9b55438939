//! A cursor that takes the entries of another one many at a time, where that one lends them.
//!
//! A step then is an index that goes up: no call through the layers of cursors below, which are levels, tables and blocks.
//!
//! ```text
//!   source:    a  b  c  d  e  f  g  h          lent: c d e f      shown: d
//!                          ^ source
//! ```
//!
//! Invariant: while entries are lent, the source is on the last of them, and the entry at `at` is shown. A step back
//! returns the source to the entry shown first, and gives up what is lent. The source may have grown since (a memtable is
//! one of those that are merged), so its steps are not counted: it goes back over each entry that was lent.
//!
//! Whoever seeks often and steps little would pay for entries that are never shown: nothing is taken in the first steps
//! after a seek, nor for some steps after the source had nothing to lend.

use kingtide_base::{Batch, Cursor, EntryKind, KeyOrder, SeqNo, StorageResult, ValueRef};

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
        }
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
            && !self.batch.has_values()
            && let Err(error) = self.source.lend_values(&mut self.batch)
        {
            self.drop_batch();
            return Err(error);
        }
        Ok(())
    }

    /// Forgets what is lent before a jump.
    fn drop_batch(&mut self) {
        self.batch.clear();
        self.at = 0;
        self.wait = STEPS_BEFORE;
    }

    #[inline]
    fn is_lent(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Returns the source to the entry that is shown, and gives up what is lent.
    fn return_source(&mut self) -> StorageResult<()> {
        let outcome = self.step_back();
        self.drop_batch();
        outcome
    }

    fn step_back(&mut self) -> StorageResult<()> {
        let last = self.batch.len().saturating_sub(1);
        for index in (self.at..last).rev() {
            let (key, sequence) = (self.batch.key(index), self.batch.sequence(index));
            self.source.prev()?;
            while self.source.is_valid()
                && (self.source.sequence() != sequence || self.source.key() != key)
            {
                self.source.prev()?;
            }
        }
        Ok(())
    }

    /// Goes beyond what is lent, and takes what comes then.
    #[inline(never)]
    fn go_on(&mut self) -> StorageResult<()> {
        self.wait = if self.is_lent() {
            0
        } else {
            self.wait.saturating_sub(1)
        };
        self.batch.clear();
        self.at = 0;
        self.source.next()?;
        if self.wait == 0 && self.source.is_valid() && !self.source.lend(None, &mut self.batch) {
            self.batch.clear();
            self.wait = STEPS_BETWEEN;
        }
        Ok(())
    }
}

impl<C: Cursor> Cursor for BatchedCursor<C> {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.drop_batch();
        self.source.seek_first()
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.drop_batch();
        self.source.seek_last()
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.drop_batch();
        self.source.seek(key)
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.drop_batch();
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
