//! The newest version of each key of a memtable: a fixed table that readers probe without locks.
//!
//! A slot is one 64-bit atomic: the upper half of the key's hash (the tag) and the offset of the newest entry; 0 is an
//! empty slot. The slot of a key is found by linear probing from the lower bits of its hash; a slot is the key's when the
//! tag is equal and the entry's key is equal in the family's order. Slots are never emptied while readers look (except to
//! undo, in reverse order, insertions that no reader may see yet), so a probe that meets an empty slot may stop.
//!
//! One writer; it stores a slot with Release after the entry is published, readers load it with Acquire. At most 7/8 of
//! the slots are used, so probing ends; the table does not grow: a memtable that would exceed it is full.

use std::{cmp::Ordering as KeyOrdering, sync::Arc};

use kingtide_base::KeyOrder;
use kingtide_env::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::arena::{Arena, ArenaPool, EntryOffset};
#[cfg(not(loom))]
use crate::{arena::ArenaMemory, pages::PageSize};

/// The fewest slots of a table.
const SLOTS_MIN: usize = 16;
/// Memory is touched by pages of this size, as a rule.
const PAGE_BYTES: usize = 4096;
/// The most slots of a table: more than the entries of the largest arena.
const SLOTS_MAX: usize = 1 << 32;

/// Where a key is in the table, or where it would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    slot: usize,
    /// The newest entry of the key, or none.
    pub newest: EntryOffset,
}

/// See the module's documentation.
pub struct HashIndex {
    slots: Slots,
    /// Slots that are not empty. Written by the writer alone.
    used: AtomicUsize,
}

impl HashIndex {
    /// An empty table for at least `keys_max` different keys. The memory is touched as slots are used.
    #[must_use]
    pub fn new(keys_max: usize) -> Self {
        Self {
            slots: Slots::empty(slots_for(keys_max)),
            used: AtomicUsize::new(0),
        }
    }

    /// As [`HashIndex::new`], for a table that will be filled: in huge pages, all of them touched at once, whatever pages the
    /// system gives. The places of slots are random, so that those of few keys would touch all of it anyway, each page first
    /// by a read and then by a write. The memory is that of an earlier one, if `pool` has some of that size, and goes back
    /// there.
    #[must_use]
    pub fn to_be_filled(keys_max: usize, pool: &Arc<ArenaPool>) -> Self {
        Self {
            slots: Slots::touched(slots_for(keys_max), pool),
            used: AtomicUsize::new(0),
        }
    }

    /// Different keys that can still be inserted.
    #[inline]
    #[must_use]
    pub fn free_keys(&self) -> usize {
        let limit = self.slots.len() / 8 * 7;
        // Relaxed: exact for the writer, who is the only one to change it; an estimate for others.
        limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Bytes of memory that slots in use may have touched: a page for each, at most all. All, if it was touched at once.
    #[must_use]
    pub fn touched_bytes(&self) -> usize {
        self.touched_by(self.used_keys())
    }

    /// How many bytes more that may become with so many keys more.
    #[must_use]
    pub fn growth(&self, keys: usize) -> usize {
        let used = self.used_keys();
        self.touched_by(used.saturating_add(keys)) - self.touched_by(used)
    }

    fn touched_by(&self, keys: usize) -> usize {
        let all = size_of_val(&*self.slots);
        match self.slots.are_touched() {
            true => all,
            false => keys.saturating_mul(PAGE_BYTES).min(all),
        }
    }

    /// Different keys inserted so far.
    #[must_use]
    pub fn used_keys(&self) -> usize {
        // Relaxed: as in `free_keys`.
        self.used.load(Ordering::Relaxed)
    }

    /// Finds `key`, whose hash is `hash`. `None` when the table has neither the key nor an empty slot.
    #[inline]
    #[must_use]
    pub fn probe(&self, hash: u64, key: &[u8], arena: &Arena, order: &KeyOrder) -> Option<Probe> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        for _ in 0..self.slots.len() {
            // Acquire: pairs with the Release in `publish`, so the entry is seen.
            let content = self.slots[slot].load(Ordering::Acquire);
            if content == 0 {
                return Some(Probe {
                    slot,
                    newest: EntryOffset::NONE,
                });
            }
            if content >> 32 == hash >> 32 {
                let newest = EntryOffset(content as u32);
                if order.compare(arena.key(newest), key) == KeyOrdering::Equal {
                    return Some(Probe { slot, newest });
                }
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    /// The newest entry of `key`, or none.
    #[inline]
    #[must_use]
    pub fn get(&self, hash: u64, key: &[u8], arena: &Arena, order: &KeyOrder) -> EntryOffset {
        self.probe(hash, key, arena, order)
            .map_or(EntryOffset::NONE, |probe| probe.newest)
    }

    /// Makes `newest` the newest entry of the key that `probe` found (or found missing). The entry must be published, and
    /// its `previous` must be what the probe found. For the one writer, with no other insertion since the probe.
    #[inline]
    pub fn publish(&self, probe: Probe, hash: u64, newest: EntryOffset) {
        debug_assert!(!newest.is_none());
        if probe.newest.is_none() {
            // Relaxed: read only by this writer and by estimates.
            let used = self.used.load(Ordering::Relaxed);
            self.used.store(used + 1, Ordering::Relaxed);
        }
        let content = (hash & !0xffff_ffff) | u64::from(newest.0);
        // Release: publishes the entry to readers that load the slot with Acquire.
        self.slots[probe.slot].store(content, Ordering::Release);
    }

    /// Undoes a `publish` of `probe`. Insertions after it must have been undone before.
    pub fn undo(&self, probe: Probe, hash: u64) {
        let content = if probe.newest.is_none() {
            let used = self.used.load(Ordering::Relaxed);
            self.used.store(used.saturating_sub(1), Ordering::Relaxed);
            0
        } else {
            (hash & !0xffff_ffff) | u64::from(probe.newest.0)
        };
        // Release: readers that find the older entry here see it as before.
        self.slots[probe.slot].store(content, Ordering::Release);
    }

    /// Where the entry `newest` of the key with `hash` is, to undo its publication: it replaced `previous`.
    #[must_use]
    pub fn published(
        &self,
        hash: u64,
        newest: EntryOffset,
        previous: EntryOffset,
    ) -> Option<Probe> {
        let mask = self.slots.len() - 1;
        let wanted = (hash & !0xffff_ffff) | u64::from(newest.0);
        (0..self.slots.len())
            .map(|step| (hash as usize).wrapping_add(step) & mask)
            .find(|slot| self.slots[*slot].load(Ordering::Acquire) == wanted)
            .map(|slot| Probe {
                slot,
                newest: previous,
            })
    }

    /// Asks the processor to fetch the slot where a probe for `hash` begins.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let slot = hash as usize & (self.slots.len() - 1);
        prefetch(self.slots.as_ptr().wrapping_add(slot).cast());
    }

    /// The entry of the slot where a probe for `hash` begins, if the tag is right; for prefetching entries.
    #[inline]
    #[must_use]
    pub fn first_guess(&self, hash: u64) -> EntryOffset {
        // Relaxed: a guess, used only to prefetch.
        let content = self.slots[hash as usize & (self.slots.len() - 1)].load(Ordering::Relaxed);
        if content >> 32 == hash >> 32 {
            EntryOffset(content as u32)
        } else {
            EntryOffset::NONE
        }
    }
}

/// Asks the processor to fetch the cache line at `address`; a hint, so any address is fine.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees and does not fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// The length of a cache line, in bytes.
const LINE_BYTES: usize = 64;
/// The most cache lines that one call of [`prefetch_bytes`] asks for: more would push out what is needed first.
const PREFETCHED_LINES_MAX: usize = 16;

/// Asks the processor to fetch the begin of `bytes`, so that a search in them waits once instead of at every step.
#[inline]
pub fn prefetch_bytes(bytes: &[u8]) {
    prefetch_lines(bytes.as_ptr().addr(), bytes.len());
}

/// The same for so many bytes at an address, where they need not be any more.
#[inline]
pub(crate) fn prefetch_lines(address: usize, bytes: usize) {
    for line in 0..bytes.div_ceil(LINE_BYTES).min(PREFETCHED_LINES_MAX) {
        prefetch(std::ptr::without_provenance(
            address.wrapping_add(line * LINE_BYTES),
        ));
    }
}

/// How many slots a table for so many keys has.
fn slots_for(keys_max: usize) -> usize {
    let wanted = keys_max.saturating_add(keys_max / 7).saturating_add(1);
    wanted.clamp(SLOTS_MIN, SLOTS_MAX).next_power_of_two()
}

/// Slots whose memory is zeroed by the system when it is first touched, or touched already.
#[cfg(not(loom))]
struct Slots {
    /// `Some` until the slots are dropped.
    memory: Option<ArenaMemory>,
    count: usize,
    /// Where touched memory goes back to.
    pool: Option<Arc<ArenaPool>>,
}

#[cfg(not(loom))]
impl Slots {
    /// So many empty slots, at least one.
    fn empty(count: usize) -> Self {
        let bytes = count * size_of::<AtomicU64>();
        Self {
            memory: Some(ArenaMemory::new(bytes, PageSize::Small)),
            count,
            pool: None,
        }
    }

    /// The same, with all their memory touched.
    fn touched(count: usize, pool: &Arc<ArenaPool>) -> Self {
        Self {
            memory: Some(pool.take_touched(count * size_of::<AtomicU64>())),
            count,
            pool: Some(Arc::clone(pool)),
        }
    }

    /// True when all the memory was touched at once.
    fn are_touched(&self) -> bool {
        self.pool.is_some()
    }
}

#[cfg(not(loom))]
impl Drop for Slots {
    fn drop(&mut self) {
        if let (Some(memory), Some(pool)) = (self.memory.take(), &self.pool) {
            pool.give(memory);
        }
    }
}

#[cfg(not(loom))]
impl std::ops::Deref for Slots {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        let Some(memory) = &self.memory else {
            return &[];
        };
        let first = memory.base().as_ptr().cast();
        // SAFETY: the block has room for `count` slots, was all zeros, and is aligned to a cache line; zeros are slots, and
        // from then on they are only accessed as atomics, for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(first, self.count) }
    }
}

#[cfg(loom)]
struct Slots {
    slots: Box<[AtomicU64]>,
    are_touched: bool,
}

#[cfg(loom)]
impl Slots {
    fn empty(count: usize) -> Self {
        Self {
            slots: (0..count).map(|_| AtomicU64::new(0)).collect(),
            are_touched: false,
        }
    }

    fn touched(count: usize, _pool: &Arc<ArenaPool>) -> Self {
        Self {
            are_touched: true,
            ..Self::empty(count)
        }
    }

    fn are_touched(&self) -> bool {
        self.are_touched
    }
}

#[cfg(loom)]
impl std::ops::Deref for Slots {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.slots
    }
}

#[cfg(not(loom))]
const _: () = assert!(align_of::<AtomicU64>() == align_of::<u64>());

#[cfg(test)]
mod tests;
