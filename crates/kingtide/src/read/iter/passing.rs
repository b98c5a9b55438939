//! A cursor that passes over some of the entries of another one, in both directions; a [`Pass`] says which.

use kingtide_base::{Cursor, EntryHead, EntryKind, SeqNo, StorageResult, ValueRef};

/// Which entries are passed over.
pub(crate) trait Pass<C>: Send {
    /// Moves `inner` forwards from an entry that is passed over to one that is not, or beyond the end.
    ///
    /// # Errors
    /// What moving answers.
    fn forward(&mut self, inner: &mut C) -> StorageResult<()>;

    /// As [`Pass::forward`], backwards.
    ///
    /// # Errors
    /// What moving answers.
    fn backward(&mut self, inner: &mut C) -> StorageResult<()>;
}

/// See the module.
pub(crate) struct Passing<C, P> {
    inner: C,
    pass: P,
}

impl<C: Cursor, P: Pass<C>> Passing<C, P> {
    /// What `inner` walks, without what `pass` passes over.
    pub(crate) fn over(inner: C, pass: P) -> Self {
        Self { inner, pass }
    }

    /// What decides.
    pub(crate) fn pass_mut(&mut self) -> &mut P {
        &mut self.pass
    }
}

impl<C: Cursor, P: Pass<C>> Cursor for Passing<C, P> {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.inner.seek_first()?;
        self.pass.forward(&mut self.inner)
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.inner.seek_last()?;
        self.pass.backward(&mut self.inner)
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.inner.seek(key)?;
        self.pass.forward(&mut self.inner)
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.inner.seek_for_prev(key)?;
        self.pass.backward(&mut self.inner)
    }

    fn next(&mut self) -> StorageResult<()> {
        self.inner.next()?;
        self.pass.forward(&mut self.inner)
    }

    fn prev(&mut self) -> StorageResult<()> {
        self.inner.prev()?;
        self.pass.backward(&mut self.inner)
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

    fn head(&self) -> EntryHead<'_> {
        self.inner.head()
    }

    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        self.inner.value()
    }

    fn packed_value(&self) -> Option<&[u8]> {
        self.inner.packed_value()
    }
}
