//! Open files by id, bounded: the part that the table cache and the value files share.
//!
//! Clocks over the open handles, one for each shard: a look-up marks a handle, the hand takes marks away and closes the
//! first unmarked handle that nobody holds. The limit holds over all shards. Handles in use are never closed, so their
//! number may exceed the limit for as long as they are used. A handle is opened and closed outside of the locks; of two
//! threads that open the same one at the same time, one throws its own away.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use kingtide_base::{FileId, StorageError, StorageResult};
use kingtide_env::sync::Mutex;
use kingtide_env::sync::atomic::{AtomicUsize, Ordering};

/// The system's numbers for "this process has too many files open" and "this machine has".
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
/// Readers of different files rarely wait for each other.
const SHARDS: usize = 16;

/// Open handles of one kind.
#[derive(Debug)]
pub struct Handles<H> {
    open_max: usize,
    /// Handles in all rings. Changed under the lock of the ring that changes; a reader without it may be behind by what
    /// is under way, which costs a handle more or less for a moment. Relaxed: it publishes nothing.
    open_count: AtomicUsize,
    /// The ring where closing goes on. Relaxed: any ring will do.
    next_shard: AtomicUsize,
    shards: [Mutex<Ring<H>>; SHARDS],
}

/// Hashes file ids: one multiplication. Ids are ours, nobody chooses them to collide.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // The map takes buckets from the low bits and tags from the high ones; a product has good high bits only.
        self.0 ^ (self.0 >> 32)
    }
}

#[derive(Debug)]
struct Ring<H> {
    /// Where in `slots` the handle of a file is.
    places: HashMap<FileId, usize, BuildHasherDefault<IdHasher>>,
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
            open_count: AtomicUsize::new(0),
            next_shard: AtomicUsize::new(0),
            shards: std::array::from_fn(|_| {
                Mutex::new(Ring {
                    places: HashMap::default(),
                    slots: Vec::new(),
                    hand: 0,
                })
            }),
        }
    }

    fn shard(&self, file: FileId) -> &Mutex<Ring<H>> {
        &self.shards[(file.0 % SHARDS as u64) as usize]
    }

    /// The handle of `file`, opened with `open` when it is not open. When the system has no more files to give, idle
    /// handles are closed and `open` is called once more.
    pub fn get(&self, file: FileId, open: impl Fn() -> StorageResult<H>) -> StorageResult<Arc<H>> {
        let shard = self.shard(file);
        if let Some(handle) = shard.lock().look_up(file) {
            return Ok(handle);
        }
        let handle = match open() {
            Err(StorageError::Io { source, .. })
                if matches!(source.raw_os_error(), Some(EMFILE | ENFILE)) =>
            {
                // Half of them, so that the next few openings do not end here again.
                self.close_idle(self.open_count() / 2);
                open()?
            }
            other => other?,
        };
        let handle = Arc::new(handle);
        {
            let mut ring = shard.lock();
            if let Some(first) = ring.look_up(file) {
                return Ok(first);
            }
            ring.insert(file, Arc::clone(&handle));
            self.open_count.fetch_add(1, Ordering::Relaxed);
        }
        self.close_idle(self.open_max);
        Ok(handle)
    }

    /// Drops the handle of `file`; who uses it may go on.
    pub fn forget(&self, file: FileId) {
        let mut ring = self.shard(file).lock();
        let closed = ring.places.get(&file).copied().map(|at| ring.remove(at));
        if closed.is_some() {
            self.open_count.fetch_sub(1, Ordering::Relaxed);
        }
        drop(ring);
        drop(closed);
    }

    /// Handles in the rings.
    pub fn open_count(&self) -> usize {
        self.open_count.load(Ordering::Relaxed)
    }

    /// Closes idle handles until `keep` are left, or all that are left are in use.
    fn close_idle(&self, keep: usize) {
        // Two visits to each ring in vain: the first may only take marks away.
        let mut visits_in_vain = 0;
        while self.open_count() > keep && visits_in_vain < 2 * SHARDS {
            let index = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let closed = {
                let mut ring = self.shards[index].lock();
                let closed = ring.take_idle();
                if closed.is_some() {
                    self.open_count.fetch_sub(1, Ordering::Relaxed);
                }
                closed
            };
            visits_in_vain = if closed.is_some() {
                0
            } else {
                visits_in_vain + 1
            };
            // Closing a file is a system call, made here without a lock.
            drop(closed);
        }
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

    /// Moves the hand around once at most; takes out the first handle on the way that is idle and not marked.
    fn take_idle(&mut self) -> Option<Arc<H>> {
        for _ in 0..self.slots.len() {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let at = self.hand;
            let slot = &mut self.slots[at];
            if Arc::strong_count(&slot.handle) > 1 {
                self.hand += 1;
            } else if slot.is_marked {
                slot.is_marked = false;
                self.hand += 1;
            } else {
                return Some(self.remove(at));
            }
        }
        None
    }
}
