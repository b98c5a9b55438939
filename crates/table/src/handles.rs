//! Open files by id, bounded: the part that the table cache and the value files share.
//!
//! A clock over the open handles: a look-up marks a handle, the hand takes marks away and closes the first unmarked
//! handle that nobody holds. Handles in use are never closed, so their number may exceed the limit for as long as they
//! are used. A handle is opened outside of the lock; of two threads that open the same one at the same time, one throws
//! its own away.

use std::collections::HashMap;
use std::sync::Arc;

use kingtide_base::{FileId, StorageError, StorageResult};
use kingtide_env::sync::Mutex;

/// The system's numbers for "this process has too many files open" and "this machine has".
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// Open handles of one kind.
#[derive(Debug)]
pub struct Handles<H> {
    open_max: usize,
    ring: Mutex<Ring<H>>,
}

#[derive(Debug)]
struct Ring<H> {
    /// Where in `slots` the handle of a file is.
    places: HashMap<FileId, usize>,
    slots: Vec<Slot<H>>,
    hand: usize,
}

#[derive(Debug)]
struct Slot<H> {
    file: FileId,
    handle: Arc<H>,
    is_marked: bool,
}

impl<H> Handles<H> {
    /// Keeps up to `open_max` handles open that nobody uses; at least one.
    pub fn new(open_max: usize) -> Self {
        Self {
            open_max: open_max.max(1),
            ring: Mutex::new(Ring {
                places: HashMap::new(),
                slots: Vec::new(),
                hand: 0,
            }),
        }
    }

    /// The handle of `file`, opened with `open` when it is not open. When the system has no more files to give, idle
    /// handles are closed and `open` is called once more.
    pub fn get(&self, file: FileId, open: impl Fn() -> StorageResult<H>) -> StorageResult<Arc<H>> {
        if let Some(handle) = self.ring.lock().look_up(file) {
            return Ok(handle);
        }
        let handle = match open() {
            Err(StorageError::Io { source, .. })
                if matches!(source.raw_os_error(), Some(EMFILE | ENFILE)) =>
            {
                // Half of them, so that the next few openings do not end here again.
                let closed = {
                    let mut ring = self.ring.lock();
                    let keep = ring.slots.len() / 2;
                    ring.close_idle(keep)
                };
                drop(closed);
                open()?
            }
            other => other?,
        };
        let mut ring = self.ring.lock();
        if let Some(first) = ring.look_up(file) {
            return Ok(first);
        }
        let handle = Arc::new(handle);
        ring.insert(file, Arc::clone(&handle));
        let closed = ring.close_idle(self.open_max);
        drop(ring);
        drop(closed);
        Ok(handle)
    }

    /// Drops the handle of `file`; who uses it may go on.
    pub fn forget(&self, file: FileId) {
        let mut ring = self.ring.lock();
        let closed = ring.places.get(&file).copied().map(|at| ring.remove(at));
        drop(ring);
        drop(closed);
    }

    /// Handles in the ring.
    pub fn open_count(&self) -> usize {
        self.ring.lock().slots.len()
    }
}

impl<H> Ring<H> {
    fn look_up(&mut self, file: FileId) -> Option<Arc<H>> {
        let slot = &mut self.slots[*self.places.get(&file)?];
        slot.is_marked = true;
        Some(Arc::clone(&slot.handle))
    }

    fn insert(&mut self, file: FileId, handle: Arc<H>) {
        self.places.insert(file, self.slots.len());
        self.slots.push(Slot {
            file,
            handle,
            is_marked: true,
        });
    }

    fn remove(&mut self, at: usize) -> Arc<H> {
        let slot = self.slots.swap_remove(at);
        self.places.remove(&slot.file);
        if let Some(moved) = self.slots.get(at) {
            self.places.insert(moved.file, at);
        }
        slot.handle
    }

    /// Takes idle handles out until `keep` are left, or all that are left are in use. The caller drops them after the
    /// lock: closing a file is a system call.
    fn close_idle(&mut self, keep: usize) -> Vec<Arc<H>> {
        let mut closed = Vec::new();
        // Two rounds: the first may only take marks away.
        let mut steps = 2 * self.slots.len();
        while self.slots.len() > keep && steps > 0 {
            steps -= 1;
            self.hand = if self.hand < self.slots.len() {
                self.hand
            } else {
                0
            };
            let at = self.hand;
            let slot = &mut self.slots[at];
            if Arc::strong_count(&slot.handle) > 1 {
                self.hand += 1;
            } else if slot.is_marked {
                slot.is_marked = false;
                self.hand += 1;
            } else {
                closed.push(self.remove(at));
            }
        }
        closed
    }
}
