//! Entries of small commits that are in no source yet.
//!
//! Finding the place of a single entry in a skip list costs more than everything else that an insertion does, and nobody
//! needs it until somebody walks: point reads go through the hash index. So entries that come without a run stay *loose* at
//! first. They are *arranged* when there are as many as a skip list holds, by the thread that wrote the last one and
//! outside of the ordered step, or when a walk begins: many become a sorted run, few go into the skip list, so that walks
//! between single writes do not leave a source each behind.
//!
//! ```text
//!   insert           loose += n          (the writer lock)
//!   arrange          take what is loose  (the writer lock)
//!                    sort it             (no lock that a writer waits for)
//!                    append the run, loose -= n   (the writer lock)
//!   a walk begins    loose > 0: arrange, or wait for whoever does
//! ```
//!
//! Orders without hashes have no loose entries: there every read needs the sources.

use std::{mem, sync::Arc};

use kingtide_env::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use super::{Memtable, sources::Source};
use crate::{arena::EntryOffset, sorted_run::SortedRun};

/// So many loose entries become a sorted run when a walk begins; fewer go into the skip list.
pub(super) const SORTED_MIN: usize = 32;

/// What is counted for a loose entry: its place, and what it will take of a run, so that a walk, which sorts what is loose and
/// asks nobody for memory, does not exceed the budget.
pub(super) const ENTRY_BYTES: usize = size_of::<EntryOffset>() + SortedRun::ENTRY_BYTES;

/// How many entries are loose, and who arranges them. Which ones they are is the writer's.
pub(super) struct Loose {
    /// Entries that no source has, those that are being sorted included. Written under the writer lock.
    count: AtomicUsize,
    /// Held by whoever arranges: the memory for the entries to come while these are arranged.
    arranging: Mutex<Vec<EntryOffset>>,
}

impl Loose {
    pub(super) fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            arranging: Mutex::new(Vec::new()),
        }
    }

    /// For the holder of the writer lock.
    pub(super) fn add(&self, entries: usize) {
        let count = self.count.load(Ordering::Relaxed);
        // Release: who sees the entries counted sees them.
        self.count.store(count + entries, Ordering::Release);
    }

    /// For the holder of the writer lock, after the sources have the entries.
    fn subtract(&self, entries: usize) {
        let count = self.count.load(Ordering::Relaxed);
        // Release: who does not see them counted any more sees the sources that have them.
        self.count
            .store(count.saturating_sub(entries), Ordering::Release);
    }

    fn count(&self) -> usize {
        // Acquire: pairs with both of the above.
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.count() * ENTRY_BYTES
    }
}

impl Memtable {
    /// True when so many entries of small commits have come that they should be arranged: see [`Memtable::arrange`].
    #[inline]
    #[must_use]
    pub fn is_unarranged(&self) -> bool {
        self.loose.count() >= self.list_entries
    }

    /// Sorts the entries of small commits that came since the last time, so that the next walk need not. To be called
    /// outside of the commit's critical section when [`Memtable::is_unarranged`] says so. Does nothing while another thread
    /// does it.
    pub fn arrange(&self) {
        if let Some(mut spare) = self.loose.arranging.try_lock() {
            self.arrange_all(&mut spare);
        }
    }

    /// Sees to it that the sources have everything that was inserted before the call.
    pub(super) fn complete_sources(&self) {
        if self.loose.count() > 0 {
            self.arrange_all(&mut self.loose.arranging.lock());
        }
    }

    /// For the holder of `arranging`; `taken`, which is empty, is what that holds.
    fn arrange_all(&self, taken: &mut Vec<EntryOffset>) {
        let mut writer = self.writer.lock();
        mem::swap(&mut writer.loose, taken);
        if taken.len() < SORTED_MIN.min(self.list_entries) {
            self.insert_into_list(&mut writer, taken);
        } else {
            drop(writer);
            let run = SortedRun::of_entries(taken, &self.arena, &self.order);
            writer = self.writer.lock();
            writer.source_bytes += run.index_bytes();
            self.sources.append(Source::Run(Arc::new(run)));
        }
        self.loose.subtract(taken.len());
        self.account(&mut writer);
        taken.clear();
    }
}
