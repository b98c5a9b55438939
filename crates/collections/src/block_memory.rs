//! Memory for what a cache keeps: few large regions in huge pages, cut into pieces of any length.
//!
//! A cache of small blocks, each with memory of its own from the allocator, is spread over as many pages as it has blocks: a
//! read of one then waits for the address of its page too, and the process grows page by page while the cache fills. Here the
//! blocks lie beside each other in a few huge pages.
//!
//! [`BlockMemory`] lends pieces; a piece that is dropped goes back, from whatever thread. Regions come when they are needed and
//! go when nothing of them is lent, except one that is kept for what comes next. The first touch of a huge page takes long:
//! whoever is lent a piece near the end of those in use brings the next one in, outside of the lock. When there is no room,
//! [`bytes_in`] takes memory of the allocator: more memory than the regions is a matter of who counts the pieces. What regions
//! take up beyond the pieces that are lent counts in the budget, as memory of the cache.

use std::{
    fmt,
    mem::ManuallyDrop,
    ops::{Deref, Range},
    ptr::NonNull,
    slice,
    sync::Arc,
};

use kingtide_env::sync::Mutex;

use crate::{
    budget::{Account, Charge, MemoryBudget},
    pages::Pages,
};
use region::{Region, piece_bytes};

mod region;

/// Less memory than this is not worth regions: a huge page would be a large part of it.
const MEMORY_BYTES_MIN: usize = 16 << 20;
/// The least bytes of a region.
const REGION_BYTES_MIN: usize = 4 << 20;
/// The most bytes of a region; its cells are counted in 32 bits.
const REGION_BYTES_MAX: usize = 1 << 30;
/// Regions are so large that about so many hold everything.
const REGIONS: usize = 16;
/// All regions together are larger than asked for by one part in so many: between pieces that come and go, some room is lost.
const SLACK_DIVISOR: usize = 16;
/// The budget is told of what lies between the pieces in steps of so many bytes.
const SLACK_STEP_BYTES: usize = 64 << 10;

/// See the module. Shared by all who have pieces of it.
pub struct BlockMemory {
    state: Mutex<State>,
    region_bytes: usize,
    regions_max: usize,
}

struct State {
    /// By number; `None` are numbers of regions that went.
    regions: Vec<Option<Region>>,
    /// What regions take up and nobody has.
    slack: Charge,
}

impl fmt::Debug for BlockMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockMemory")
            .field("region_bytes", &self.region_bytes)
            .field("regions_max", &self.regions_max)
            .finish_non_exhaustive()
    }
}

impl BlockMemory {
    /// Memory for pieces of about `bytes` bytes altogether, none of it taken yet; `None` where that is too little to be worth
    /// it, below 16 MiB.
    #[must_use]
    pub fn new(bytes: usize, budget: &Arc<MemoryBudget>) -> Option<Arc<Self>> {
        if bytes < MEMORY_BYTES_MIN {
            return None;
        }
        let region_bytes = (bytes / REGIONS)
            .next_multiple_of(REGION_BYTES_MIN)
            .min(REGION_BYTES_MAX);
        let regions_max = bytes.saturating_add(bytes / SLACK_DIVISOR) / region_bytes + 1;
        Some(Arc::new(Self {
            state: Mutex::new(State {
                regions: Vec::new(),
                slack: budget.charge(Account::Cache, 0),
            }),
            region_bytes,
            regions_max,
        }))
    }

    /// A piece of `len` bytes with whatever was left in it, or `None` when there is no room for it.
    #[must_use]
    pub fn lend(self: &Arc<Self>, len: usize) -> Option<BlockBytes> {
        // Given up after the lock, if somebody else was faster.
        let mut spare = None;
        let mut state = self.state.lock();
        let mut lent = state.lend(len);
        let is_short = piece_bytes(len) <= self.region_bytes / 2;
        if lent.is_none() && is_short && state.vacancy(self.regions_max).is_some() {
            drop(state);
            // New pages take long: they come outside of the lock.
            spare = Some(Region::new(self.region_bytes));
            state = self.state.lock();
            lent = state.lend(len);
            if lent.is_none() {
                state.add(&mut spare, self.regions_max);
                lent = state.lend(len);
            }
        }
        let (number, cell, base) = lent?;
        let ahead = state.take_ahead(number);
        state.count_slack();
        drop(state);
        drop(spare);
        if let Some((pages, bytes)) = ahead {
            pages.populate(bytes);
        }
        Some(BlockBytes {
            base,
            len,
            home: Home::Region {
                memory: Arc::clone(self),
                number,
                cell,
            },
        })
    }

    fn give_back(&self, number: u32, cell: u32) {
        let mut state = self.state.lock();
        let freed = state.give_back(number, cell);
        state.count_slack();
        drop(state);
        // Unmapped outside of the lock.
        drop(freed);
    }
}

impl State {
    /// A piece of `len` bytes of any region: the region's number, and as [`Region::lend`].
    fn lend(&mut self, len: usize) -> Option<(u32, u32, NonNull<u8>)> {
        (0..).zip(&mut self.regions).find_map(|(number, region)| {
            let (cell, base) = region.as_mut()?.lend(len)?;
            Some((number, cell, base))
        })
    }

    /// The number that the next region would get, if there may be so many.
    fn vacancy(&self, regions_max: usize) -> Option<usize> {
        let vacant = self.regions.iter().position(Option::is_none);
        Some(vacant.unwrap_or(self.regions.len())).filter(|number| *number < regions_max)
    }

    /// Takes `region`, if there may be one more.
    fn add(&mut self, region: &mut Option<Region>, regions_max: usize) {
        let Some(number) = self.vacancy(regions_max) else {
            return;
        };
        if number == self.regions.len() {
            self.regions.push(None);
        }
        self.regions[number] = region.take();
    }

    fn take_ahead(&mut self, number: u32) -> Option<(Arc<Pages>, Range<usize>)> {
        self.regions
            .get_mut(number as usize)?
            .as_mut()?
            .take_ahead()
    }

    /// Takes a piece back. A region of which nothing is lent any more is answered, if there is another such one.
    fn give_back(&mut self, number: u32, cell: u32) -> Option<Region> {
        let region = self.regions.get_mut(number as usize)?.as_mut()?;
        region.give_back(cell);
        if region.lent_bytes() > 0 {
            return None;
        }
        let empty = |region: &&Option<Region>| region.as_ref().is_some_and(|r| r.lent_bytes() == 0);
        match self.regions.iter().filter(empty).count() {
            0 | 1 => None,
            _ => self.regions.get_mut(number as usize)?.take(),
        }
    }

    fn count_slack(&mut self) {
        let regions = self.regions.iter().flatten();
        let slack = regions.map(|region| region.touched_bytes() - region.lent_bytes());
        self.slack.follow(slack.sum(), SLACK_STEP_BYTES);
    }
}

/// Bytes of a block, in a piece of a [`BlockMemory`] or in memory from the allocator. Owned: nobody else has them.
pub struct BlockBytes {
    base: NonNull<u8>,
    len: usize,
    home: Home,
}

enum Home {
    /// What a vector of this capacity had.
    Allocator { capacity: usize },
    /// A piece.
    Region {
        memory: Arc<BlockMemory>,
        number: u32,
        cell: u32,
    },
}

// SAFETY: the bytes are owned by this value alone, and neither allocator nor regions are tied to a thread.
unsafe impl Send for BlockBytes {}
// SAFETY: a shared reference only reads the bytes.
unsafe impl Sync for BlockBytes {}

/// `len` bytes of `memory`, if there is one and it has room, with whatever was left in them; else zeros from the allocator.
#[must_use]
pub fn bytes_in(memory: Option<&Arc<BlockMemory>>, len: usize) -> BlockBytes {
    memory
        .and_then(|memory| memory.lend(len))
        .unwrap_or_else(|| vec![0; len].into())
}

impl BlockBytes {
    /// What the bytes take up, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.home {
            Home::Allocator { capacity } => *capacity,
            Home::Region { .. } => piece_bytes(self.len),
        }
    }

    /// True when they are a piece of a [`BlockMemory`].
    #[must_use]
    pub fn is_lent(&self) -> bool {
        matches!(self.home, Home::Region { .. })
    }

    /// The bytes, to change them.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialized bytes that this value owns, borrowed for as long as it is.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }

    /// The memory, if it came from the allocator, with its bytes; else an empty vector.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match &self.home {
            Home::Allocator { capacity } => {
                let capacity = *capacity;
                let bytes = ManuallyDrop::new(self);
                // SAFETY: the parts of the vector that this was made from, which goes on as a vector.
                unsafe { Vec::from_raw_parts(bytes.base.as_ptr(), bytes.len, capacity) }
            }
            Home::Region { .. } => Vec::new(),
        }
    }
}

impl From<Vec<u8>> for BlockBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        let base = NonNull::new(bytes.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Self {
            base,
            len: bytes.len(),
            home: Home::Allocator {
                capacity: bytes.capacity(),
            },
        }
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialized bytes that this value owns, and nobody changes while it is borrowed.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl Drop for BlockBytes {
    fn drop(&mut self) {
        match &self.home {
            Home::Allocator { capacity } => {
                // SAFETY: the parts of the vector that this was made from, which is dropped once, here.
                drop(unsafe { Vec::from_raw_parts(self.base.as_ptr(), self.len, *capacity) });
            }
            Home::Region {
                memory,
                number,
                cell,
            } => memory.give_back(*number, *cell),
        }
    }
}

impl fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockBytes")
            .field("len", &self.len)
            .field("is_lent", &self.is_lent())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
