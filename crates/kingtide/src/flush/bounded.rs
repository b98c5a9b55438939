//! A cursor that ends at a commit: what was committed later is passed over.

use std::sync::Arc;

use kingtide_base::{Cursor, SeqNo, StorageResult};
use kingtide_collections::Memtable;

use crate::read::iter::{Pass, Passing};

/// How many entries are passed between two tellings of how far the cursor has come.
const ENTRIES_PER_TELLING: usize = 128;

/// Passes over what was committed after `last`.
pub(super) struct Later {
    last: SeqNo,
    /// Is told how far the cursor has come.
    told: Option<Arc<Memtable>>,
    /// Entries that it was not told of yet.
    untold: usize,
}

/// See the module.
pub(super) type Bounded<C> = Passing<C, Later>;

impl<C: Cursor> Bounded<C> {
    /// What `inner` walks, of the commits up to `last`.
    pub(super) fn new(inner: C, last: SeqNo) -> Self {
        let later = Later {
            last,
            told: None,
            untold: 0,
        };
        Self::over(inner, later)
    }

    /// Tells the only one of `memtables` how far it has come; nobody when there are several.
    pub(super) fn telling(mut self, memtables: &[Arc<Memtable>]) -> Self {
        if let [only] = memtables {
            self.pass_mut().told = Some(Arc::clone(only));
        }
        self
    }
}

impl Later {
    fn note_step(&mut self) {
        self.untold += 1;
        if self.untold >= ENTRIES_PER_TELLING {
            if let Some(memtable) = &self.told {
                memtable.note_passed(self.untold);
            }
            self.untold = 0;
        }
    }

    fn is_beyond(&self, inner: &impl Cursor) -> bool {
        inner.is_valid() && inner.sequence() > self.last
    }
}

impl<C: Cursor> Pass<C> for Later {
    fn forward(&mut self, inner: &mut C) -> StorageResult<()> {
        self.note_step();
        while self.is_beyond(inner) {
            self.note_step();
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
