//! A cursor that ends at a commit: what was committed later is passed over.

use kingtide_base::{Cursor, EntryKind, SeqNo, StorageResult, ValueRef};

/// See the module.
pub(super) struct Bounded<C> {
    inner: C,
    last: SeqNo,
}

impl<C: Cursor> Bounded<C> {
    /// What `inner` walks, of the commits up to `last`.
    pub(super) fn new(inner: C, last: SeqNo) -> Self {
        Self { inner, last }
    }

    fn is_beyond(&self) -> bool {
        self.inner.is_valid() && self.inner.sequence() > self.last
    }

    fn skip_forward(&mut self) -> StorageResult<()> {
        while self.is_beyond() {
            self.inner.next()?;
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> StorageResult<()> {
        while self.is_beyond() {
            self.inner.prev()?;
        }
        Ok(())
    }
}

impl<C: Cursor> Cursor for Bounded<C> {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.inner.seek_first()?;
        self.skip_forward()
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.inner.seek_last()?;
        self.skip_backward()
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.inner.seek(key)?;
        self.skip_forward()
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.inner.seek_for_prev(key)?;
        self.skip_backward()
    }

    fn next(&mut self) -> StorageResult<()> {
        self.inner.next()?;
        self.skip_forward()
    }

    fn prev(&mut self) -> StorageResult<()> {
        self.inner.prev()?;
        self.skip_backward()
    }

    fn is_valid(&self) -> bool {
        self.inner.is_valid()
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn sequence(&self) -> SeqNo {
        self.inner.sequence()
    }

    fn kind(&self) -> EntryKind {
        self.inner.kind()
    }

    fn expires_at(&self) -> i64 {
        self.inner.expires_at()
    }

    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        self.inner.value()
    }
}
