//! A cursor that ends at a commit: what was committed later is passed over.

use kingtide_base::{Cursor, SeqNo, StorageResult};

use crate::read::iter::{Pass, Passing};

/// Passes over what was committed after `last`.
pub(super) struct Later {
    last: SeqNo,
}

/// See the module.
pub(super) type Bounded<C> = Passing<C, Later>;

impl<C: Cursor> Bounded<C> {
    /// What `inner` walks, of the commits up to `last`.
    pub(super) fn new(inner: C, last: SeqNo) -> Self {
        Self::over(inner, Later { last })
    }
}

impl Later {
    fn is_beyond(&self, inner: &impl Cursor) -> bool {
        inner.is_valid() && inner.sequence() > self.last
    }
}

impl<C: Cursor> Pass<C> for Later {
    fn forward(&mut self, inner: &mut C) -> StorageResult<()> {
        while self.is_beyond(inner) {
            inner.next()?;
        }
        Ok(())
    }

    fn backward(&mut self, inner: &mut C) -> StorageResult<()> {
        while self.is_beyond(inner) {
            inner.prev()?;
        }
        Ok(())
    }
}
