//! Decoded blocks of tables, within a hard byte limit; one cache for a database.
//!
//! The cache is split into shards by the hash of the key; each shard is a CLOCK: entries lie in a ring of slots with a
//! reference bit, a hit sets the bit, and whoever needs room sweeps the ring, clearing bits and evicting entries whose bit
//! is clear. New entries begin with a clear bit, so blocks that are read once leave before blocks that were hit.
//!
//! Invariant: the charges of a shard's entries, each with the cache's own overhead, never exceed the shard's share of the
//! limit, so the whole never exceeds the limit. Values that readers still hold after eviction are theirs to account for.
//!
//! A full shard takes in few of those that come ([`BlockCache::admit`]): now and then one, and those that come again soon
//! (`block_cache/newcomers`).
//!
//! A value may come *loose*: it takes more memory than it has to, because there was room. As long as there are such entries in a
//! full shard, they are what is evicted, used or not, and every newcomer is taken in: so a cache that is too small for all blocks
//! in their long form, but not in their short one, comes to hold them all.
//!
//! Besides blocks the cache keeps *pieces* of other files, as bytes. Blocks come before them: pieces are loose, and exchanged for
//! each other alone, so they take the room that blocks leave. Who asks for one is told whether to bring it
//! ([`BlockCache::piece`]): under one lock, as most that are not here stay outside.
//!
//! A value that is larger than a shard's share is not cached. Values are dropped outside the locks. A cache that never has to give
//! way has [memory](BlockMemory) of its own for what it keeps.
//!
//! Readers of a table find blocks in its [`BlockPlaces`], without the lock of a shard; a hit there is counted, and the
//! sweep takes the count for the reference bit.

use std::{
    fmt,
    hash::{BuildHasher, BuildHasherDefault, Hasher},
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
    budget::MemoryBudget,
};
use hits::Hits;
use shard::{Kept, Shard, Standing};

pub use places::{BlockPlaces, Hit};

mod hits;
mod newcomers;
mod places;
mod shard;

/// Names a block: the file and where in it the block begins, in bytes.
pub type BlockKey = (FileId, u64);

/// The most shards.
const SHARDS_MAX: usize = 16;
/// A cache has fewer shards rather than smaller ones: a shard holds many blocks of 4 KiB.
const SHARD_BYTES_MIN: usize = 512 << 10;
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

/// What becomes of who asks for a piece.
#[derive(Debug)]
pub enum PieceAnswer {
    /// It is in the cache.
    Here(Arc<BlockBytes>),
    /// It is not, and may [come in](BlockCache::insert_piece).
    Admitted,
    /// It is not, and stays outside.
    Refused,
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
    ) -> Option<Hit<V>> {
        if planted::is(Bug::CacheMixesFiles) {
            return self.get(&key()).map(Hit::of);
        }
        if let Some(hit) = places.get(index) {
            self.hits.raise();
            return Some(hit);
        }
        self.get_noted((places, index), &key()).map(Hit::of)
    }

    /// As [`BlockCache::get_at`], for a reader that does without a block that is noted elsewhere or nowhere: it looks at one
    /// place, and a miss counts nowhere.
    #[inline]
    #[must_use]
    pub fn get_noted_at(&self, places: &BlockPlaces<V>, index: usize) -> Option<Hit<V>> {
        let hit = places.get(index)?;
        self.hits.raise();
        Some(hit)
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
            shard.lock().admit(key, charge, loose)
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
        let standing = match is_loose {
            true => Standing::Loose,
            false => Standing::Compact,
        };
        self.take_in_at(key, (places, index), value, (charge, standing))
    }

    /// Whether the block `key`, which [is hot](Hit::is_hot), may take `charge` bytes of memory in place of what it takes. Where the
    /// part of the cache that is for such blocks is full, those leave that are asked for less often by now; some are looked at for
    /// each that comes.
    #[must_use]
    pub fn admits_hot(&self, key: &BlockKey, charge: usize) -> bool {
        let mut evicted = Vec::new();
        let is_admitted = self
            .shard(key)
            .is_some_and(|shard| shard.lock().admits_hot(charge, &mut evicted));
        drop(evicted);
        is_admitted
    }

    /// Puts `value`, which was [admitted](BlockCache::admits_hot), in the place of the form that the cache has of the block `key`,
    /// and notes it under `index` of `places`; answers it, or what another reader has put there meanwhile.
    pub fn exchange_at(
        &self,
        key: BlockKey,
        (places, index): (&Arc<BlockPlaces<V>>, usize),
        value: Arc<V>,
        charge: usize,
    ) -> Arc<V> {
        self.take_in_at(key, (places, index), value, (charge, Standing::Hot))
    }

    fn take_in_at(
        &self,
        key: BlockKey,
        place: (&Arc<BlockPlaces<V>>, usize),
        value: Arc<V>,
        charge: (usize, Standing),
    ) -> Arc<V> {
        let Some(shard) = self.shard(&key) else {
            return value;
        };
        let mut evicted = Vec::new();
        let mut slots = shard.lock();
        let value = slots.take_block_in(key, value, charge, &mut evicted);
        slots.house(&key, place);
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
            None if slots.admit(&key, charge, None) == Admission::Refused => value,
            None => slots.take_block_in(key, value, (charge, Standing::Compact), &mut evicted),
        };
        drop(slots);
        drop(evicted);
        value
    }

    /// The piece that `key` names; or else whether one that takes `charge` bytes of memory may come in. Where there is room, one
    /// in `period` of those that are asked for may; else one now and then, in the place of another piece.
    #[must_use]
    pub fn piece(&self, key: &BlockKey, charge: usize, period: u64) -> PieceAnswer {
        match self.shard(key) {
            Some(shard) => shard.lock().piece(key, charge, period),
            None => PieceAnswer::Refused,
        }
    }

    /// Puts `piece`, which was [admitted](BlockCache::piece), into the cache, unless one is there for `key` already or no
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
            slots.take_in(key, piece, (charge, Standing::Loose), &mut evicted);
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
            shard.lock().add_to(&mut usage);
        }
        usage.hits += self.hits.sum();
        usage
    }

    /// `None` when the cache is off.
    fn shard(&self, key: &BlockKey) -> Option<&Mutex<Shard<V>>> {
        // Bits that the maps use neither for buckets (the low ones) nor for tags (the highest seven).
        let bits = (hash_of(key) >> 48) as usize;
        self.shards.get(bits & self.shards.len().wrapping_sub(1))
    }
}

fn hash_of(key: &BlockKey) -> u64 {
    BuildHasherDefault::<BlockHasher>::default().hash_one(key)
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
