//! Open files by id, bounded: the part that the table cache and the value files share.
//!
//! Readers look in a list sorted by id that is replaced as a whole when a handle is opened or closed, so a look-up takes
//! no lock and writes nothing shared but, now and then, a mark. A clock closes handles over the limit: its hand takes
//! marks away and closes the first unmarked handle that nobody holds. Handles in use are never closed, so their number
//! may exceed the limit for as long as they are used. A handle is opened and closed outside of that lock, one at a time
//! for each file.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use kingtide_base::{FileId, StorageError, StorageResult};
use kingtide_env::sync::Mutex;
use kingtide_env::sync::atomic::{AtomicBool, Ordering};

/// The system's numbers for "this process has too many files open" and "this machine has".
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
/// Files of different ids are opened side by side, as a rule, with so many locks.
const OPENING_LOCKS: usize = 16;

/// True when the system refused to open a file because this process, or the machine, has too many open.
#[must_use]
pub fn has_no_more_files(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

/// Open handles of one kind.
#[derive(Debug)]
pub struct Handles<H> {
    open_max: usize,
    /// Sorted by file. Replaced under the lock of `hand`.
    open: ArcSwap<Vec<Arc<Slot<H>>>>,
    /// Held while a handle is opened, by what is left of its file's id: opening may take megabytes, which several threads
    /// that want the same file should not take at once.
    opening: [Mutex<()>; OPENING_LOCKS],
    /// Where the clock goes on; its lock serialises changes of `open`.
    hand: Mutex<usize>,
}

#[derive(Debug)]
struct Slot<H> {
    file: FileId,
    handle: Arc<H>,
    /// Relaxed: tells the clock that the handle was used, and publishes nothing.
    is_marked: AtomicBool,
}

/// Open handles of one moment, looked up without further cost for each.
#[derive(Debug)]
pub struct View<H>(Guard<Arc<Vec<Arc<Slot<H>>>>>);

impl<H> View<H> {
    /// The handle of `file`, if it is among them.
    pub fn get(&self, file: FileId) -> Option<&H> {
        let slot = find(&self.0, file)?;
        slot.mark();
        Some(&slot.handle)
    }
}

impl<H> Slot<H> {
    fn mark(&self) {
        // Looked at first, so that handles in constant use are not written to.
        if !self.is_marked.load(Ordering::Relaxed) {
            self.is_marked.store(true, Ordering::Relaxed);
        }
    }
}

impl<H> Handles<H> {
    /// Keeps up to `open_max` handles open that nobody uses; at least one.
    pub fn new(open_max: usize) -> Self {
        Self {
            open_max: open_max.max(1),
            open: ArcSwap::from_pointee(Vec::new()),
            opening: std::array::from_fn(|_| Mutex::new(())),
            hand: Mutex::new(0),
        }
    }

    /// The handle of `file`, opened with `open` when it is not open. When the system has no more files to give, idle
    /// handles are closed and `open` is called once more.
    pub fn get(&self, file: FileId, open: impl Fn() -> StorageResult<H>) -> StorageResult<Arc<H>> {
        if let Some(slot) = find(&self.open.load(), file) {
            slot.mark();
            return Ok(Arc::clone(&slot.handle));
        }
        self.open_new(file, open)
    }

    /// What `work` makes of the handle of `file`, which is opened as by [`Handles::get`]. Cheaper than `get` where many
    /// threads use the same few handles: the handle's count stays untouched.
    pub fn with<R>(
        &self,
        file: FileId,
        open: impl Fn() -> StorageResult<H>,
        work: impl FnOnce(&H) -> R,
    ) -> StorageResult<R> {
        let snapshot = self.open.load();
        if let Some(slot) = find(&snapshot, file) {
            slot.mark();
            return Ok(work(&slot.handle));
        }
        drop(snapshot);
        let handle = self.open_new(file, open)?;
        Ok(work(&handle))
    }

    /// The handles that are open now. While it lives, those in it stay open.
    pub fn view(&self) -> View<H> {
        View(self.open.load())
    }

    fn open_new(&self, file: FileId, open: impl Fn() -> StorageResult<H>) -> StorageResult<Arc<H>> {
        let _one_for_a_file = self.opening[file.0 as usize % OPENING_LOCKS].lock();
        if let Some(slot) = find(&self.open.load(), file) {
            slot.mark();
            return Ok(Arc::clone(&slot.handle));
        }
        let handle = match open() {
            Err(StorageError::Io { source, .. }) if has_no_more_files(&source) => {
                self.close_some();
                open()?
            }
            other => other?,
        };
        let handle = Arc::new(handle);
        {
            let _serialised = self.hand.lock();
            let present = self.open.load();
            let mut next = Vec::with_capacity(present.len() + 1);
            next.extend(present.iter().cloned());
            let at = next.partition_point(|slot| slot.file < file);
            let is_marked = AtomicBool::new(true);
            let slot = Slot {
                file,
                handle: Arc::clone(&handle),
                is_marked,
            };
            next.insert(at, Arc::new(slot));
            self.open.store(Arc::new(next));
        }
        self.close_idle(self.open_max);
        Ok(handle)
    }

    /// Drops the handle of `file`; who uses it may go on.
    pub fn forget(&self, file: FileId) {
        let serialised = self.hand.lock();
        let closed = self.take_out(file);
        drop(serialised);
        drop(closed);
    }

    /// How many idle handles are kept open.
    pub fn open_max(&self) -> usize {
        self.open_max
    }

    /// The sum of what `of` answers for each open handle.
    pub fn sum(&self, of: impl Fn(&H) -> usize) -> usize {
        self.open.load().iter().map(|slot| of(&slot.handle)).sum()
    }

    /// Handles that are open.
    pub fn open_count(&self) -> usize {
        self.open.load().len()
    }

    /// Closes idle handles: half of what is open, so that the next few openings need not.
    pub fn close_some(&self) {
        self.close_idle(self.open_count() / 2);
    }

    /// Closes idle handles until `keep` are left, or all that are left are in use.
    pub fn close_idle(&self, keep: usize) {
        while self.open_count() > keep {
            let closed = self.take_idle();
            if closed.is_none() {
                return;
            }
            // Closing a file is a system call, made here without the lock.
            drop(closed);
        }
    }

    /// Moves the hand around twice at most — the first round may only take marks away — and takes out the first handle
    /// on the way that is idle and not marked.
    fn take_idle(&self) -> Option<Arc<Slot<H>>> {
        let mut hand = self.hand.lock();
        let open = self.open.load_full();
        for _ in 0..2 * open.len() {
            let slot = open.get(*hand).or_else(|| {
                *hand = 0;
                open.first()
            })?;
            // The slot's own reference is the only one: no reader took the handle out.
            let is_idle = Arc::strong_count(&slot.handle) == 1;
            if is_idle && !slot.is_marked.swap(false, Ordering::Relaxed) {
                return self.take_out(slot.file);
            }
            *hand += 1;
        }
        None
    }

    /// Takes the slot of `file` out of the list. The caller holds the lock of `hand`. A reader that found the slot in an
    /// older list keeps it alive for as long as it looks at it.
    fn take_out(&self, file: FileId) -> Option<Arc<Slot<H>>> {
        let present = self.open.load();
        let slot = find(&present, file).map(Arc::clone)?;
        let next: Vec<_> = present
            .iter()
            .filter(|slot| slot.file != file)
            .cloned()
            .collect();
        self.open.store(Arc::new(next));
        Some(slot)
    }
}

fn find<H>(open: &[Arc<Slot<H>>], file: FileId) -> Option<&Arc<Slot<H>>> {
    let at = open.binary_search_by_key(&file, |slot| slot.file).ok()?;
    open.get(at)
}
