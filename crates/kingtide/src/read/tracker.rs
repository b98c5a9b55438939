//! A transaction's reads as it shares them with its iterators, which are owned by the user and may outlive it.
//!
//! The set stands behind a lock that nobody contends for: a transaction and its iterators are used by one thread at a
//! time, as a rule. Each life of the transaction has a number; an iterator of an earlier life finds another number and
//! notes nothing any more.

use std::{fmt, sync::Arc};

use kingtide_env::sync::Mutex;

use super::{iter::Bounds, read_set::ReadSet, scan::Move};
use crate::{error::Result, family::Family};

/// See the module.
#[derive(Default)]
pub(crate) struct SharedReads {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    life: u64,
    reads: ReadSet,
}

/// What iterators note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracked {
    /// The keys that they return.
    Items,
    /// Everything that their moves tell, gaps and ends included.
    Ranges,
}

impl SharedReads {
    /// Works on the set.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut ReadSet) -> R) -> R {
        work(&mut self.state.lock().reads)
    }

    /// Ends the life of the transaction: what its iterators read is in the answer, and they note nothing from now on.
    pub(crate) fn take(&self) -> ReadSet {
        let mut state = self.state.lock();
        state.life += 1;
        let mut reads = std::mem::take(&mut state.reads);
        drop(state);
        reads.finish();
        reads
    }

    /// Gives the memory of a taken set back, for the next life.
    pub(crate) fn put_back(&self, mut reads: ReadSet) {
        reads.clear();
        self.state.lock().reads = reads;
    }

    /// Ends the life of the transaction and forgets what it read.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.life += 1;
        state.reads.clear();
    }

    /// A tracker for an iterator over `bounds` of `family`.
    ///
    /// # Errors
    /// `MemoryLimit`.
    pub(crate) fn track(
        self: &Arc<Self>,
        family: &Arc<Family>,
        bounds: Bounds,
        tracked: Tracked,
    ) -> Result<Tracker> {
        let mut state = self.state.lock();
        let notes = match tracked {
            Tracked::Items => Notes::Items(Arc::clone(family)),
            Tracked::Ranges => Notes::Scan(state.reads.open_scan(family, bounds)?),
        };
        Ok(Tracker {
            life: state.life,
            shared: Arc::clone(self),
            notes,
        })
    }
}

/// Notes for a transaction what one iterator reads.
pub(crate) struct Tracker {
    shared: Arc<SharedReads>,
    life: u64,
    notes: Notes,
}

enum Notes {
    Items(Arc<Family>),
    /// The place of the scan in the set.
    Scan(usize),
}

impl Tracker {
    /// Notes a move that ended at `shown`, or nowhere. Answers false when the transaction has ended.
    ///
    /// # Errors
    /// `MemoryLimit`: the iterator must not show what could not be noted.
    pub(crate) fn note(&mut self, how: Move<'_>, shown: Option<&[u8]>) -> Result<bool> {
        let mut state = self.shared.state.lock();
        if state.life != self.life {
            return Ok(false);
        }
        match &self.notes {
            Notes::Items(family) => {
                if let Some(key) = shown {
                    state.reads.add_point(family, key)?;
                }
            }
            Notes::Scan(scan) => state.reads.note_move(*scan, how, shown)?,
        }
        Ok(true)
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        if let Notes::Scan(scan) = self.notes {
            let mut state = self.shared.state.lock();
            if state.life == self.life {
                state.reads.close_scan(scan);
            }
        }
    }
}

impl fmt::Debug for Tracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracker").finish_non_exhaustive()
    }
}
