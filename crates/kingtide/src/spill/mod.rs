//! Spilled values: values that were written to a value file of their own when they were put, and who holds them.
//!
//! A long value does not pass through the transaction, the log and the memtable: [`Files::spill`](crate::files::Files::spill)
//! writes it to a file, chunk by chunk, and what passes is a pointer. The life of such a file:
//!
//! 1. *Written*: whole and synced; nobody knows of it but the write set that holds it. Let go, it is removed.
//! 2. *Listed*: the durable manifest names it, its name is durable too. That is so before a record that points to it goes
//!    into the log, in every sync mode: what a durable record points to is there. Let go, it is a value file that nothing
//!    points to, and goes the way of those: first out of the manifest, then from the disk.
//! 3. *Pinned*: a record in the log may point to it. It stays whoever lets go, until the flush of the memtable with the
//!    entry is installed; from then on replay passes over that record.
//!
//! Holders are write sets, cursors over them, prepared transactions and memtables (so also every reader that holds one).
//! Tables that point to it hold it as they hold any value file. A file that is still pinned when the database is closed, or
//! that a crash left behind, is judged by the next open: what neither a table nor a prepared transaction points to then,
//! nothing does.

use std::{fmt, sync::Arc};

use kingtide_base::{FileId, StorageResult, ValuePointer};
use kingtide_env::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use kingtide_format::ValueFileMeta;

/// Where spilled values come from, and go when nobody holds them.
pub(crate) trait SpillOwner: Send + Sync {
    /// Nobody holds the file, and no manifest names it.
    fn discard(&self, file: FileId);
    /// Nobody holds the file any more that was listed; tables may.
    fn release(&self, file: FileId);
    /// The value.
    ///
    /// # Errors
    /// When reading fails.
    fn read(&self, pointer: &ValuePointer, key: &[u8]) -> StorageResult<Vec<u8>>;
}

/// One spilled value. See the module.
pub(crate) struct Spilled {
    meta: ValueFileMeta,
    pointer: ValuePointer,
    owner: Arc<dyn SpillOwner>,
    is_listed: AtomicBool,
    is_pinned: AtomicBool,
}

impl Spilled {
    /// A file that was just written.
    pub(crate) fn written(
        (meta, pointer): (ValueFileMeta, ValuePointer),
        owner: Arc<dyn SpillOwner>,
    ) -> Self {
        Self {
            meta,
            pointer,
            owner,
            is_listed: AtomicBool::new(false),
            is_pinned: AtomicBool::new(false),
        }
    }

    /// What the manifest records of it.
    pub(crate) fn meta(&self) -> &ValueFileMeta {
        &self.meta
    }

    /// Where the value is.
    pub(crate) fn pointer(&self) -> &ValuePointer {
        &self.pointer
    }

    /// True when the manifest names it.
    pub(crate) fn is_listed(&self) -> bool {
        // Relaxed, here and below: told to the last holder by the count of the `Arc`, to all others by the locks of log and
        // manifest.
        self.is_listed.load(Ordering::Relaxed)
    }

    /// The durable manifest names it, and its owner counts a holder.
    pub(crate) fn set_listed(&self) {
        self.is_listed.store(true, Ordering::Relaxed);
    }

    /// A record in the log may point to it from now on.
    pub(crate) fn pin(&self) {
        self.is_pinned.store(true, Ordering::Relaxed);
    }

    /// No record that replay looks at points to it any more, or none ever did.
    pub(crate) fn unpin(&self) {
        self.is_pinned.store(false, Ordering::Relaxed);
    }

    /// Reads the value, which was put for `key` as its order identifies it.
    ///
    /// # Errors
    /// When reading fails.
    pub(crate) fn read(&self, key: &[u8]) -> StorageResult<Vec<u8>> {
        self.owner.read(&self.pointer, key)
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        if self.is_pinned.load(Ordering::Relaxed) {
            return;
        }
        match self.is_listed() {
            true => self.owner.release(self.meta.file),
            false => self.owner.discard(self.meta.file),
        }
    }
}

impl fmt::Debug for Spilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spilled")
            .field("pointer", &self.pointer)
            .field("is_listed", &self.is_listed())
            .finish_non_exhaustive()
    }
}

/// The spilled values of one commit in one family, made ready so that a memtable takes them without allocating.
pub(crate) struct SpilledBatch {
    values: Vec<Arc<Spilled>>,
    next: Option<Box<SpilledBatch>>,
}

impl SpilledBatch {
    /// `None` when there are none.
    pub(crate) fn new(values: Vec<Arc<Spilled>>) -> Option<Box<Self>> {
        (!values.is_empty()).then(|| Box::new(Self { values, next: None }))
    }
}

/// The spilled values that a memtable holds.
#[derive(Default)]
pub(crate) struct SpilledList {
    first: Mutex<Option<Box<SpilledBatch>>>,
}

impl SpilledList {
    /// Holds the values of `batch`. Neither allocates nor waits for long.
    pub(crate) fn add(&self, mut batch: Box<SpilledBatch>) {
        let mut first = self.first.lock();
        batch.next = first.take();
        *first = Some(batch);
    }

    /// All of them, the latest commit first.
    pub(crate) fn all(&self) -> Vec<Arc<Spilled>> {
        let first = self.first.lock();
        let batches = std::iter::successors(first.as_deref(), |batch| batch.next.as_deref());
        batches
            .flat_map(|batch| batch.values.iter().cloned())
            .collect()
    }
}

impl Drop for SpilledList {
    fn drop(&mut self) {
        // One after the other: a list that drops itself needs as much stack as it is long.
        let mut next = self.first.lock().take();
        while let Some(mut batch) = next {
            next = batch.next.take();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
