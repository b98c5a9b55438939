//! The list of sources of a memtable: the writer appends, a merge replaces, readers walk it without locks.
//!
//! The list is an array with spare room. Appending fills a slot and then raises the length; nothing is allocated. A full
//! array, or one in which neighbours were merged, is replaced by another one; readers keep the array they began with.
//! Both changes are made under the memtable's writer lock, so they never meet.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use kingtide_env::sync::atomic::{AtomicUsize, Ordering};

use crate::{skip_list::SkipList, sorted_run::SortedRun};

/// The fewest slots of an array.
const SLOTS_MIN: usize = 64;

/// One ordered index over entries of the arena.
#[derive(Clone)]
pub(super) enum Source {
    /// Immutable.
    Run(Arc<SortedRun>),
    /// Immutable once it is full.
    List(Arc<SkipList>),
}

impl Source {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Run(run) => run.len(),
            Self::List(list) => list.len(),
        }
    }

    /// Bytes of memory that the index takes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Run(run) => run.index_bytes(),
            Self::List(list) => list.memory_bytes(),
        }
    }

    /// True when it never changes again.
    pub(super) fn is_frozen(&self) -> bool {
        match self {
            Self::Run(_) => true,
            Self::List(list) => list.is_full(),
        }
    }
}

/// An array of sources, oldest first, that is filled from the front.
pub(super) struct SourceArray {
    slots: Box<[OnceLock<Source>]>,
    len: AtomicUsize,
}

impl SourceArray {
    /// An array that holds `sources` and has room for `spare` more.
    fn new(sources: impl ExactSizeIterator<Item = Source>, spare: usize) -> Self {
        let len = sources.len();
        let slots: Vec<OnceLock<Source>> = sources
            .map(OnceLock::from)
            .chain((0..spare).map(|_| OnceLock::new()))
            .collect();
        Self {
            slots: slots.into_boxed_slice(),
            len: AtomicUsize::new(len),
        }
    }

    /// The sources appended so far.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Source> {
        // Acquire: pairs with the Release in `append`, so the slots below the length are filled.
        let len = self.len.load(Ordering::Acquire);
        self.slots[..len].iter().map(|slot| {
            slot.get()
                .expect("slots below the length are filled before it is raised")
        })
    }

    /// Gives `source` back when there is no room. For the writer.
    fn append(&self, source: Source) -> Result<(), Source> {
        // Relaxed: only the writer changes it.
        let len = self.len.load(Ordering::Relaxed);
        match self.slots.get(len) {
            Some(slot) => slot.set(source)?,
            None => return Err(source),
        }
        // Release: publishes the slot.
        self.len.store(len + 1, Ordering::Release);
        Ok(())
    }
}

/// See the module's documentation.
pub(super) struct SourceList {
    array: Shared<SourceArray>,
}

impl SourceList {
    pub(super) fn new(first: Source) -> Self {
        Self {
            array: Shared::new(SourceArray::new([first].into_iter(), SLOTS_MIN - 1)),
        }
    }

    /// Calls `visit` for every source, oldest first.
    pub(super) fn for_each(&self, visit: impl FnMut(&Source)) {
        self.array.with(|array| array.iter().for_each(visit));
    }

    /// The sources as they are now, oldest first.
    pub(super) fn snapshot(&self) -> Vec<Source> {
        self.array.with(|array| array.iter().cloned().collect())
    }

    /// Appends `source`. For the holder of the writer lock. Allocates only when the array is full, which doubles it.
    pub(super) fn append(&self, source: Source) {
        let rejected = self.array.with(|array| array.append(source).err());
        if let Some(source) = rejected {
            let mut sources = self.snapshot();
            sources.push(source);
            let spare = sources.len().max(SLOTS_MIN);
            self.array.set(SourceArray::new(sources.into_iter(), spare));
        }
    }

    /// Replaces each range of sources by one source (or by nothing, when that is empty). The ranges are ascending, apart
    /// and within the list. Answers how many bytes the sources take afterwards. For the holder of the writer lock.
    pub(super) fn replace(&self, replacements: Vec<(Range<usize>, Source)>) -> usize {
        let mut sources = self.snapshot();
        for (range, merged) in replacements.into_iter().rev() {
            let merged = (!merged.is_empty()).then_some(merged);
            drop(sources.splice(range, merged));
        }
        let bytes = sources.iter().map(Source::memory_bytes).sum();
        self.array
            .set(SourceArray::new(sources.into_iter(), SLOTS_MIN));
        bytes
    }
}

/// A value that is replaced while others read it.
#[cfg(not(loom))]
pub(super) struct Shared<T>(arc_swap::ArcSwap<T>);

#[cfg(not(loom))]
impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self(arc_swap::ArcSwap::from_pointee(value))
    }

    fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.0.load())
    }

    pub(super) fn get(&self) -> Arc<T> {
        self.0.load_full()
    }

    pub(super) fn set(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

/// As above, of parts that loom knows.
#[cfg(loom)]
pub(super) struct Shared<T>(kingtide_env::sync::Mutex<Arc<T>>);

#[cfg(loom)]
impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self(kingtide_env::sync::Mutex::new(Arc::new(value)))
    }

    fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.get())
    }

    pub(super) fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.lock())
    }

    pub(super) fn set(&self, value: T) {
        *self.0.lock() = Arc::new(value);
    }
}
