//! Decoded blocks of tables, within a hard byte limit; one cache for a database.
//!
//! The cache is split into shards by the hash of the key; each shard is a CLOCK: entries lie in a ring of slots with a
//! reference bit, a hit sets the bit, and whoever needs room sweeps the ring, clearing bits and evicting entries whose bit
//! is clear. New entries begin with a clear bit, so blocks that are read once leave before blocks that were hit.
//!
//! Invariant: the charges of a shard's entries, each with the cache's own overhead, never exceed the shard's share of the
//! limit, so the whole never exceeds the limit. Values that readers still hold after eviction are theirs to account for.
//!
//! A full shard takes in only every fourth newcomer ([`BlockCache::admit`]): under a load much larger than the cache, most would
//! leave unread, and exchanging blocks costs more than reading them; a block that is asked for again and again still comes in
//! soon (bimodal insertion: Qureshi et al., "Adaptive Insertion Policies for High Performance Caching", ISCA 2007).
//!
//! A value may come *loose*: it takes more memory than it has to, because there was room. As long as there are such entries in a
//! full shard, they are what is evicted, used or not, and every newcomer is taken in: so a cache that is too small for all blocks
//! in their long form, but not in their short one, comes to hold them all.
//!
//! Besides blocks the cache keeps *pieces* of other files, as bytes. Blocks come before them: pieces are loose, and exchanged for
//! each other alone ([`BlockCache::admits_piece`]), so they take the room that blocks leave.
//!
//! A value that is larger than a shard's share is not cached. Values are dropped outside the locks. A cache that never has to give
//! way has [memory](BlockMemory) of its own for what it keeps.
//!
//! Readers of a table find blocks in its [`BlockPlaces`], without the lock of a shard; a hit there leaves a mark that the
//! sweep takes for the reference bit.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

use kingtide_base::{
    FileId,
    planted::{self, Bug},
};
use kingtide_env::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use crate::{
    block_memory::{BlockBytes, BlockMemory},
    budget::{Account, Charge, MemoryBudget},
};
use hits::Hits;
use places::Home;

pub use places::BlockPlaces;

mod hits;
mod places;

/// Names a block: the file and where in it the block begins, in bytes.
pub type BlockKey = (FileId, u64);

/// The most shards.
const SHARDS_MAX: usize = 16;
/// A cache has fewer shards rather than smaller ones: a shard holds many blocks of 4 KiB.
const SHARD_BYTES_MIN: usize = 512 << 10;
/// Of the blocks that come to a full shard, one in so many is taken in.
const ADMITTED_PERIOD: u64 = 4;
/// The same for pieces, which are exchanged for pieces.
const ADMITTED_PIECE_PERIOD: u64 = 32;
/// So many entries are looked at to exchange one piece for another.
const PIECE_SWEEP_MAX: usize = 32;
/// With less than this part of the budget left, the cache does not grow; with less than half of that, it shrinks.
const RESERVE_DIVISOR: usize = 16;
/// By one part in so many for each newcomer.
const GIVEN_WAY_DIVISOR: usize = 64;
/// What an entry costs besides its value: slot, map entry at the map's usual load, and counts of the `Arc`.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// Numbers of a cache, summed over its shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCacheUsage {
    /// What it was made for.
    pub capacity_bytes: usize,
    /// The limit of this moment; see [`BlockCache::set_limit`].
    pub limit_bytes: usize,
    /// Bytes that entries are charged with, overhead included; at most the limit.
    pub bytes: usize,
    /// Entries.
    pub entries: usize,
    /// Lookups that found their block.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Shards; none when the cache is off.
    pub shards: usize,
}

/// What becomes of a block that is not in the cache yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It stays outside.
    Refused,
    /// It may come in.
    Taken,
    /// It may come in in the form that takes more memory than it has to.
    TakenLoose,
}

/// See the module's documentation.
pub struct BlockCache<V> {
    shards: Box<[Mutex<Shard<V>>]>,
    memory: Option<Arc<BlockMemory>>,
    capacity_bytes: usize,
    /// At most the capacity.
    limit_bytes: AtomicUsize,
    /// Blocks that were found by number.
    hits: Hits,
}

impl<V> fmt::Debug for BlockCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}

impl<V> BlockCache<V> {
    /// An empty cache of at most `bytes` bytes; 0 switches it off.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self::with_budget(bytes, bytes, &MemoryBudget::unlimited())
    }

    /// As [`BlockCache::new`]; what it holds counts in `budget`. Where less than 1/16 of the budget is left, it does not
    /// grow beyond `floor_bytes`, but exchanges blocks, and with less than 1/32 it shrinks.
    #[must_use]
    pub fn with_budget(bytes: usize, floor_bytes: usize, budget: &Arc<MemoryBudget>) -> Self {
        let shards = if bytes == 0 {
            0
        } else {
            let wanted = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
            // A power of two, so that a shard is chosen by a mask.
            1 << wanted.ilog2()
        };
        // Memory that comes in regions does not go back piece by piece: only for a cache that keeps its size.
        let keeps_its_size = floor_bytes >= bytes;
        Self {
            memory: keeps_its_size
                .then(|| BlockMemory::new(bytes, budget))
                .flatten(),
            shards: (0..shards)
                .map(|_| Mutex::new(Shard::new((bytes / shards, floor_bytes / shards), budget)))
                .collect(),
            capacity_bytes: bytes,
            limit_bytes: AtomicUsize::new(bytes),
            hits: Hits::default(),
        }
    }

    /// The block that `key` names, if it is here. It is looked for under `index` of `places` first, where its table's opening
    /// finds it without a hash; otherwise by its key, and noted there.
    #[inline]
    #[must_use]
    pub fn get_at(
        &self,
        (places, index): (&Arc<BlockPlaces<V>>, usize),
        key: impl FnOnce() -> BlockKey,
    ) -> Option<Arc<V>> {
        if planted::is(Bug::CacheMixesFiles) {
            return self.get(&key());
        }
        if let Some(block) = places.get(index) {
            self.hits.raise();
            return Some(block);
        }
        self.get_noted((places, index), &key())
    }

    /// As [`BlockCache::get_at`], for a reader that does without a block that is noted elsewhere or nowhere: it looks at one
    /// place, and a miss counts nowhere.
    #[inline]
    #[must_use]
    pub fn get_noted_at(&self, places: &BlockPlaces<V>, index: usize) -> Option<Arc<V>> {
        let block = places.get(index)?;
        self.hits.raise();
        Some(block)
    }

    /// What the cache was made for, in bytes.
    #[inline]
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    #[cold]
    fn get_noted(&self, place: (&Arc<BlockPlaces<V>>, usize), key: &BlockKey) -> Option<Arc<V>> {
        let mut slots = self.shard(key)?.lock();
        let block = slots.get(key)?;
        slots.house(key, place);
        Some(block)
    }

    /// The memory for what the cache keeps, if it has any of its own.
    #[must_use]
    pub fn memory(&self) -> Option<&Arc<BlockMemory>> {
        self.memory.as_ref()
    }

    /// Whether a value of `key` that takes `charge` bytes of memory could come in at this moment without an eviction. Counts as
    /// nothing.
    #[must_use]
    pub fn has_room(&self, key: &BlockKey, charge: usize) -> bool {
        self.shard(key)
            .is_some_and(|shard| shard.lock().has_room(charge))
    }

    /// What becomes of a value of `key` that takes `charge` bytes of memory, or `loose` if there is room for so many without an
    /// eviction; at this moment. Counts as its coming.
    #[must_use]
    pub fn admit(&self, key: &BlockKey, charge: usize, loose: Option<usize>) -> Admission {
        self.shard(key).map_or(Admission::Refused, |shard| {
            shard.lock().admit(charge, loose)
        })
    }

    /// Puts `value`, which was [admitted](BlockCache::admit), into the cache, and notes it under `index` of `places`; answers it,
    /// or the value that is there for `key` already. A value that `is_loose` could take less memory than it does, and leaves
    /// before those that could not.
    pub fn insert_at(
        &self,
        key: BlockKey,
        (places, index): (&Arc<BlockPlaces<V>>, usize),
        value: Arc<V>,
        (charge, is_loose): (usize, bool),
    ) -> Arc<V> {
        let Some(shard) = self.shard(&key) else {
            return value;
        };
        let mut evicted = Vec::new();
        let mut slots = shard.lock();
        let value = slots.take_block_in(key, value, (charge, is_loose), &mut evicted);
        slots.house(&key, (places, index));
        drop(slots);
        drop(evicted);
        value
    }

    /// The block `key`, if it is here.
    #[must_use]
    pub fn get(&self, key: &BlockKey) -> Option<Arc<V>> {
        if planted::is(Bug::CacheMixesFiles) {
            let mut slots = self.shard(key)?.lock();
            return slots.any_at(key.1);
        }
        self.shard(key)?.lock().get(key)
    }

    /// Puts `value`, which takes `charge` bytes of memory, into the cache, unless it is refused, and answers it; or answers the
    /// value that is there for `key` already, so that all readers of a block share one.
    pub fn insert(&self, key: BlockKey, value: Arc<V>, charge: usize) -> Arc<V> {
        let Some(shard) = self.shard(&key) else {
            return value;
        };
        let mut evicted = Vec::new();
        let mut slots = shard.lock();
        let value = match slots.touch(&key) {
            Some(present) => present,
            None if slots.admit(charge, None) == Admission::Refused => value,
            None => slots.take_block_in(key, value, (charge, false), &mut evicted),
        };
        drop(slots);
        drop(evicted);
        value
    }

    /// The piece that `key` names, if it is here.
    #[must_use]
    pub fn piece(&self, key: &BlockKey) -> Option<Arc<BlockBytes>> {
        self.shard(key)?.lock().piece(key)
    }

    /// Whether a piece of `key` that takes `charge` bytes of memory may come in: when there is room for it; and else now and then,
    /// in the place of another piece. Counts as its coming.
    #[must_use]
    pub fn admits_piece(&self, key: &BlockKey, charge: usize) -> bool {
        self.shard(key)
            .is_some_and(|shard| shard.lock().admits_piece(charge))
    }

    /// Puts `piece`, which was [admitted](BlockCache::admits_piece), into the cache, unless one is there for `key` already or no
    /// room can be made without giving up a block.
    pub fn insert_piece(&self, key: BlockKey, piece: &Arc<BlockBytes>) {
        let Some(shard) = self.shard(&key) else {
            return;
        };
        let charge = piece.memory_bytes();
        let mut evicted = Vec::new();
        let mut slots = shard.lock();
        while !slots.has_room(charge) {
            let Some(slot) = slots.sweep_pieces() else {
                break;
            };
            evicted.push(slot);
        }
        if slots.has_room(charge) {
            let piece = Kept::Piece(Arc::clone(piece));
            slots.take_in(key, piece, (charge, true), &mut evicted);
        }
        drop(slots);
        drop(evicted);
    }

    /// Makes the cache hold at most `bytes` from now on, and never more than it was made for. Blocks beyond that are
    /// dropped before this returns, oldest unused ones first.
    pub fn set_limit(&self, bytes: usize) {
        let bytes = bytes.min(self.capacity_bytes);
        // Relaxed: each shard has its own limit, which is what counts.
        if self.limit_bytes.swap(bytes, Ordering::Relaxed) == bytes {
            return;
        }
        for shard in &self.shards {
            let mut evicted = Vec::new();
            shard
                .lock()
                .set_limit(bytes / self.shards.len(), &mut evicted);
            drop(evicted);
        }
    }

    /// Forgets all blocks of `file`. Looks at every entry.
    pub fn remove_file(&self, file: FileId) {
        for shard in &self.shards {
            let removed = shard.lock().remove_file(file);
            drop(removed);
        }
    }

    /// How full the cache is and how it has done. The shards are asked one after the other.
    #[must_use]
    pub fn usage(&self) -> BlockCacheUsage {
        let mut usage = BlockCacheUsage {
            capacity_bytes: self.capacity_bytes,
            limit_bytes: self.limit_bytes.load(Ordering::Relaxed),
            shards: self.shards.len(),
            ..BlockCacheUsage::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            usage.bytes += shard.bytes;
            usage.entries += shard.slots.len();
            usage.hits += shard.hits;
            usage.misses += shard.misses;
        }
        usage.hits += self.hits.sum();
        usage
    }

    /// `None` when the cache is off.
    fn shard(&self, key: &BlockKey) -> Option<&Mutex<Shard<V>>> {
        let mut hasher = BlockHasher::default();
        std::hash::Hash::hash(key, &mut hasher);
        // Bits that the maps use neither for buckets (the low ones) nor for tags (the highest seven).
        let bits = (hasher.finish() >> 48) as usize;
        self.shards.get(bits & self.shards.len().wrapping_sub(1))
    }
}

/// What an entry keeps.
enum Kept<V> {
    Block(Arc<V>),
    Piece(Arc<BlockBytes>),
}

/// One block, or piece.
struct Slot<V> {
    kept: Kept<V>,
    /// Bytes, overhead included.
    charge: usize,
    /// It could take less.
    is_loose: bool,
    /// Where in the ring its key is.
    place: usize,
    /// Set by hits, cleared by the sweep.
    is_referenced: bool,
    /// Where else the block is.
    home: Option<Home<V>>,
}

impl<V> Slot<V> {
    fn is_piece(&self) -> bool {
        matches!(self.kept, Kept::Piece(_))
    }

    fn block(&self) -> Option<&Arc<V>> {
        match &self.kept {
            Kept::Block(block) => Some(block),
            Kept::Piece(_) => None,
        }
    }

    /// Takes the reference bit, wherever a hit has set it.
    fn take_reference(&mut self) -> bool {
        let is_marked = self.home.as_ref().is_some_and(Home::take_mark);
        std::mem::take(&mut self.is_referenced) || is_marked
    }
}

struct Shard<V> {
    /// The blocks lie in the map itself: a hit looks at one place less than it would through the ring.
    slots: HashMap<BlockKey, Slot<V>, BuildHasherDefault<BlockHasher>>,
    /// The order of the sweep; `None` are free places.
    ring: Vec<Option<BlockKey>>,
    /// Every free place of the ring.
    free: Vec<usize>,
    /// Where the sweep goes on.
    hand: usize,
    /// The charges of all slots; at most `capacity_bytes`.
    bytes: usize,
    capacity_bytes: usize,
    /// Up to here it grows even when memory is short.
    floor_bytes: usize,
    charge: Charge,
    hits: u64,
    misses: u64,
    /// Those that came while the shard was full, and nothing was there that leaves for them at once.
    newcomers: u64,
    /// How many entries are loose.
    loose: usize,
    /// How many of these are pieces.
    pieces: usize,
}

impl<V> Shard<V> {
    fn new((capacity_bytes, floor_bytes): (usize, usize), budget: &Arc<MemoryBudget>) -> Self {
        Self {
            floor_bytes,
            charge: budget.charge(Account::Cache, 0),
            slots: HashMap::default(),
            ring: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            capacity_bytes,
            hits: 0,
            misses: 0,
            newcomers: 0,
            loose: 0,
            pieces: 0,
        }
    }

    fn has_room(&self, charge: usize) -> bool {
        let charge = charge.saturating_add(ENTRY_OVERHEAD_BYTES);
        self.bytes.saturating_add(charge) <= self.capacity_now()
    }

    fn get(&mut self, key: &BlockKey) -> Option<Arc<V>> {
        let value = self.touch(key);
        self.count(value.is_some());
        value
    }

    fn piece(&mut self, key: &BlockKey) -> Option<Arc<BlockBytes>> {
        let found = match self.slots.get_mut(key) {
            Some(Slot {
                kept: Kept::Piece(piece),
                is_referenced,
                ..
            }) => {
                *is_referenced = true;
                Some(Arc::clone(piece))
            }
            _ => None,
        };
        self.count(found.is_some());
        found
    }

    fn count(&mut self, is_hit: bool) {
        match is_hit {
            true => self.hits += 1,
            false => self.misses += 1,
        }
    }

    /// What the planted bug hands out: a block at this offset of any file.
    fn any_at(&mut self, offset: u64) -> Option<Arc<V>> {
        let mut blocks = self.slots.iter().filter(|(key, _)| key.1 == offset);
        blocks.find_map(|(_, slot)| slot.block().map(Arc::clone))
    }

    /// The block `key`, marked as used.
    fn touch(&mut self, key: &BlockKey) -> Option<Arc<V>> {
        let slot = self.slots.get_mut(key)?;
        slot.is_referenced = true;
        slot.block().map(Arc::clone)
    }

    fn admit(&mut self, charge: usize, loose: Option<usize>) -> Admission {
        if loose.is_some_and(|charge| self.has_room(charge)) {
            return Admission::TakenLoose;
        }
        if self.loose > 0 || self.has_room(charge) {
            return Admission::Taken;
        }
        match self.is_turn(ADMITTED_PERIOD) {
            true => Admission::Taken,
            false => Admission::Refused,
        }
    }

    fn admits_piece(&mut self, charge: usize) -> bool {
        self.has_room(charge) || self.pieces > 0 && self.is_turn(ADMITTED_PIECE_PERIOD)
    }

    /// Counts a newcomer; true for one in a `period`.
    fn is_turn(&mut self, period: u64) -> bool {
        self.newcomers += 1;
        self.newcomers.is_multiple_of(period)
    }

    /// Takes `block` in, and answers it; or the one that is here already.
    fn take_block_in(
        &mut self,
        key: BlockKey,
        block: Arc<V>,
        charge: (usize, bool),
        evicted: &mut Vec<Slot<V>>,
    ) -> Arc<V> {
        if let Some(present) = self.touch(&key) {
            return present;
        }
        self.take_in(key, Kept::Block(Arc::clone(&block)), charge, evicted);
        block
    }

    /// Takes in what is `kept` for `key`, unless something is here for it already or no room can be made.
    fn take_in(
        &mut self,
        key: BlockKey,
        kept: Kept<V>,
        (charge, is_loose): (usize, bool),
        evicted: &mut Vec<Slot<V>>,
    ) {
        let charge = charge.saturating_add(ENTRY_OVERHEAD_BYTES);
        let capacity_bytes = self.capacity_now();
        if charge > capacity_bytes || self.slots.contains_key(&key) {
            return;
        }
        while self.bytes + charge > capacity_bytes {
            evicted.extend(self.sweep());
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.ring[place] = Some(key);
                place
            }
            None => {
                self.ring.push(Some(key));
                self.ring.len() - 1
            }
        };
        let slot = Slot {
            kept,
            charge,
            is_loose,
            place,
            is_referenced: false,
            home: None,
        };
        self.loose += usize::from(is_loose);
        self.pieces += usize::from(slot.is_piece());
        self.slots.insert(key, slot);
        self.bytes += charge;
        self.charge.set(self.bytes);
    }

    /// Notes the block `key`, if it is here, under `index` of `places`, and nowhere else any more.
    fn house(&mut self, key: &BlockKey, (places, index): (&Arc<BlockPlaces<V>>, usize)) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if slot
            .home
            .as_ref()
            .is_some_and(|home| home.is(places, index))
        {
            return;
        }
        slot.home = None;
        slot.home = Home::new(places, index);
        if let (Some(home), Some(block)) = (&slot.home, slot.block()) {
            home.fill(block);
        }
    }

    /// The most bytes of this moment.
    fn capacity_now(&self) -> usize {
        let budget = self.charge.budget();
        let (left, reserve) = (budget.available(), budget.limit_bytes() / RESERVE_DIVISOR);
        let kept = if left >= reserve {
            return self.capacity_bytes;
        } else if left >= reserve / 2 {
            self.bytes
        } else {
            // Each newcomer makes some more room than it takes.
            self.bytes - self.bytes / GIVEN_WAY_DIVISOR
        };
        self.capacity_bytes.min(kept.max(self.floor_bytes))
    }

    fn set_limit(&mut self, bytes: usize, evicted: &mut Vec<Slot<V>>) {
        self.capacity_bytes = bytes;
        while self.bytes > self.capacity_bytes {
            evicted.extend(self.sweep());
        }
        self.charge.set(self.bytes);
    }

    /// Moves the hand by one place: clears a bit, or evicts an entry; while some are loose, it evicts one of them or does
    /// nothing. As long as there are entries, two rounds evict one.
    fn sweep(&mut self) -> Option<Slot<V>> {
        let place = self.hand;
        self.hand = (place + 1) % self.ring.len().max(1);
        let key = (*self.ring.get(place)?)?;
        let slot = self.slots.get_mut(&key)?;
        let stays = match self.loose {
            0 => slot.take_reference(),
            _ => !slot.is_loose,
        };
        if stays {
            return None;
        }
        self.remove(&key)
    }

    /// Moves the hand until it meets a piece that was not asked for since it came there last, and evicts that; `None` when it meets
    /// none soon.
    fn sweep_pieces(&mut self) -> Option<Slot<V>> {
        for _ in 0..PIECE_SWEEP_MAX {
            let place = self.hand;
            self.hand = (place + 1) % self.ring.len().max(1);
            let Some(key) = self.ring.get(place).copied().flatten() else {
                continue;
            };
            let slot = self.slots.get_mut(&key)?;
            if slot.is_piece() && !slot.take_reference() {
                return self.remove(&key);
            }
        }
        None
    }

    fn remove(&mut self, key: &BlockKey) -> Option<Slot<V>> {
        let mut slot = self.slots.remove(key)?;
        if let Some(place) = self.ring.get_mut(slot.place) {
            *place = None;
        }
        self.free.push(slot.place);
        // Now, and not when the slot is dropped: then the block may be back.
        slot.home = None;
        self.loose -= usize::from(slot.is_loose);
        self.pieces -= usize::from(slot.is_piece());
        self.bytes -= slot.charge;
        Some(slot)
    }

    fn remove_file(&mut self, file: FileId) -> Vec<Slot<V>> {
        let keys: Vec<BlockKey> = self
            .slots
            .keys()
            .filter(|key| key.0 == file)
            .copied()
            .collect();
        let removed = keys.iter().filter_map(|key| self.remove(key)).collect();
        self.charge.set(self.bytes);
        removed
    }
}

/// Mixes the two numbers of a key. Keys come from the database itself, so the hash need not resist an attacker.
#[derive(Default)]
struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let product =
            u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, loom))]
mod models;
