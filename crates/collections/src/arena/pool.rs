//! The memory of arenas, and the pool that keeps it from one arena to the next.
//!
//! Blocks are not zeroed. A block that was in use has had its pages touched, which makes it worth keeping; what an earlier
//! arena left there is below no published length, so nobody sees it.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    fmt,
    ptr::NonNull,
    sync::Arc,
};

use kingtide_env::sync::Mutex;

/// Alignment of an arena: a cache line.
const ALIGNMENT: usize = 64;

/// A block of memory; owns it.
pub(super) struct ArenaMemory {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned by this value alone and is not tied to a thread.
unsafe impl Send for ArenaMemory {}
// SAFETY: a shared reference gives nothing but the address; access is governed by `Arena`.
unsafe impl Sync for ArenaMemory {}

impl ArenaMemory {
    /// A block of so many bytes, more than 0 and at most 32 GiB, not initialised.
    fn new(capacity_bytes: usize) -> Self {
        assert!(capacity_bytes > 0);
        let layout = Layout::from_size_align(capacity_bytes, ALIGNMENT)
            .expect("at most 32 GiB with a small alignment is a layout");
        // SAFETY: the layout's size is not 0, by the assertion.
        let pointer = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(pointer) else {
            handle_alloc_error(layout)
        };
        Self { base, layout }
    }

    /// The first byte.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes in the block.
    pub(super) fn capacity_bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for ArenaMemory {
    fn drop(&mut self) {
        // SAFETY: `base` was allocated with `layout` in `new` and is given back once, here.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// Keeps memory of dropped arenas for new ones.
pub struct ArenaPool {
    free: Mutex<Vec<ArenaMemory>>,
    free_per_capacity_max: usize,
}

/// Free arenas that a pool keeps in all; beyond, memory is given back.
const POOL_ARENAS_MAX: usize = 64;

impl ArenaPool {
    /// A pool that keeps up to `free_per_capacity_max` free arenas of each capacity, and at most 64 in all.
    #[must_use]
    pub fn new(free_per_capacity_max: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new(Vec::new()),
            free_per_capacity_max,
        })
    }

    /// Bytes of memory that the pool holds and no arena uses.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.free
            .lock()
            .iter()
            .map(ArenaMemory::capacity_bytes)
            .sum()
    }

    /// Gives all free memory back to the allocator.
    pub fn clear(&self) {
        let freed = std::mem::take(&mut *self.free.lock());
        drop(freed);
    }

    /// A block of so many bytes, from the free ones or from the allocator.
    pub(super) fn take(&self, capacity_bytes: usize) -> ArenaMemory {
        let mut free = self.free.lock();
        let index = free
            .iter()
            .rposition(|memory| memory.capacity_bytes() == capacity_bytes);
        match index {
            Some(index) => free.swap_remove(index),
            None => {
                drop(free);
                ArenaMemory::new(capacity_bytes)
            }
        }
    }

    /// Keeps `memory`, or gives it back to the allocator when there is enough.
    pub(super) fn give(&self, memory: ArenaMemory) {
        let mut free = self.free.lock();
        let alike = free
            .iter()
            .filter(|other| other.capacity_bytes() == memory.capacity_bytes())
            .count();
        if alike < self.free_per_capacity_max && free.len() < POOL_ARENAS_MAX {
            free.push(memory);
        } else {
            // The deallocation may take long: not under the lock.
            drop(free);
            drop(memory);
        }
    }
}

impl fmt::Debug for ArenaPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArenaPool")
            .field("free_bytes", &self.free_bytes())
            .finish_non_exhaustive()
    }
}
