//! The memory of arenas and of hash indexes, and the pool that keeps it from one memtable to the next.
//!
//! A block that was in use has had its pages touched, which makes it worth keeping; what an earlier arena left there is
//! below no published length, so nobody sees it.

use std::{fmt, ptr::NonNull, sync::Arc};

use kingtide_env::sync::Mutex;

use crate::{
    budget::{Account, MemoryBudget},
    pages::{PageSize, Pages},
};

/// A block of memory; owns it.
pub(crate) struct ArenaMemory {
    pub(super) pages: Pages,
    /// Bytes from the first on whose pages may have been touched.
    pub(super) touched_bytes: usize,
}

impl ArenaMemory {
    /// A block of so many bytes, more than 0 and at most 32 GiB, all zeros.
    pub(crate) fn new(capacity_bytes: usize, size: PageSize) -> Self {
        Self {
            pages: Pages::zeroed(capacity_bytes, size),
            touched_bytes: 0,
        }
    }

    /// The first byte.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.pages.base()
    }

    /// Bytes in the block.
    pub(super) fn capacity_bytes(&self) -> usize {
        self.pages.bytes()
    }
}

/// Keeps memory of dropped arenas, and of hash indexes that were to be filled, for new ones. What it keeps is on the budget's account [`Account::Kept`], as far as its
/// pages were touched.
pub struct ArenaPool {
    free: Mutex<Vec<ArenaMemory>>,
    free_per_capacity_max: usize,
    budget: Arc<MemoryBudget>,
}

/// Free blocks that a pool keeps in all; beyond, memory is given back.
const POOL_ARENAS_MAX: usize = 64;

impl ArenaPool {
    /// A pool that keeps up to `free_per_capacity_max` free blocks of each capacity, and at most 64 in all.
    #[must_use]
    pub fn new(free_per_capacity_max: usize) -> Arc<Self> {
        Self::with_budget(free_per_capacity_max, MemoryBudget::unlimited())
    }

    /// As [`ArenaPool::new`]; the memory of the pool, and of memtables made from it, counts in `budget`.
    #[must_use]
    pub fn with_budget(free_per_capacity_max: usize, budget: Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new(Vec::new()),
            free_per_capacity_max,
            budget,
        })
    }

    /// Where memory made from the pool counts.
    #[must_use]
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
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
        for memory in freed {
            self.budget.subtract(Account::Kept, memory.touched_bytes);
        }
    }

    /// A block of so many bytes: one of the free ones, whatever its pages, or one from the system with pages of `size`.
    pub(super) fn take(&self, capacity_bytes: usize, size: PageSize) -> ArenaMemory {
        let mut free = self.free.lock();
        let index = free
            .iter()
            .rposition(|memory| memory.capacity_bytes() == capacity_bytes);
        match index {
            Some(index) => {
                let memory = free.swap_remove(index);
                drop(free);
                self.budget.subtract(Account::Kept, memory.touched_bytes);
                memory
            }
            None => {
                drop(free);
                ArenaMemory::new(capacity_bytes, size)
            }
        }
    }

    /// A block of so many bytes, all zeros and all touched: one of the free ones, or one from the system in huge pages.
    pub(crate) fn take_touched(&self, bytes: usize) -> ArenaMemory {
        let mut memory = self.take(bytes, PageSize::Huge);
        if memory.touched_bytes > 0 {
            memory.pages.zero();
        } else {
            memory.pages.touch();
        }
        memory.touched_bytes = bytes;
        memory
    }

    /// Keeps `memory`, or gives it back to the allocator when there is enough.
    pub(crate) fn give(&self, memory: ArenaMemory) {
        let mut free = self.free.lock();
        let alike = free
            .iter()
            .filter(|other| other.capacity_bytes() == memory.capacity_bytes())
            .count();
        if alike < self.free_per_capacity_max && free.len() < POOL_ARENAS_MAX {
            self.budget.add(Account::Kept, memory.touched_bytes);
            free.push(memory);
        } else {
            // The deallocation may take long: not under the lock.
            drop(free);
            drop(memory);
        }
    }
}

impl Drop for ArenaPool {
    fn drop(&mut self) {
        self.clear();
    }
}

impl fmt::Debug for ArenaPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArenaPool")
            .field("free_bytes", &self.free_bytes())
            .finish_non_exhaustive()
    }
}
