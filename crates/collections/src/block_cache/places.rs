//! Where a reader finds the cached blocks of one table: a cell for each, under the block's number.
//!
//! The cache looks blocks up by a hash, under the lock of a shard. Who asks for the same few tables again and again, as every
//! read does, knows better: a table numbers its blocks, and the cache notes in the cell of a number that the block is here.
//! A hit by number takes the lock of that cell alone, so readers meet only at the very same block, and nothing is hashed.
//!
//! Invariant: a cell holds a block only while the cache does, and both the same one; cells are written under the lock of the
//! block's shard too, which comes first. So what is in cells is within the cache's limit. A cell may be empty although the
//! cache has the block (the table was closed in between): then the look-up by hash finds it and fills the cell.

use std::{fmt, sync::Arc};

use kingtide_env::sync::Mutex;

use crate::hash_index::prefetch_lines;

/// A block with so many hits between two looks of the sweep is hot.
pub(super) const HOT_USES: u8 = 64;
/// How far behind the begin of a value another line than that of its counts begins, in bytes.
const BEHIND_COUNTS_BYTES: usize = 48;
/// What is fetched of where a reader looks first, in bytes.
const FIRST_LOOK_BYTES: usize = 256;

/// See the module. Made by whoever opens a table, one for each opening.
pub struct BlockPlaces<V>(Box<[Mutex<Place<V>>]>);

struct Place<V> {
    block: Option<Arc<V>>,
    /// Where the bytes lie that a reader of the block looks at first: for the processor alone, which fetches them while the
    /// count of the block is raised. Nothing is read through it, so it may be that of a former block.
    first_look: usize,
    /// Hits since the sweep was here last; no more are counted than fit.
    uses: u8,
}

/// A block that was found.
#[derive(Clone, Debug)]
pub struct Hit<V> {
    /// The block.
    pub block: Arc<V>,
    /// Now and then true for a block that is found far more often than the sweep comes by: a good time to ask whether it may be
    /// [exchanged](super::BlockCache::admits_hot) for a form that takes more memory and is read faster.
    pub is_hot: bool,
}

impl<V> Hit<V> {
    /// A block of which nothing else is known.
    pub(super) fn of(block: Arc<V>) -> Self {
        Self {
            block,
            is_hot: false,
        }
    }
}

impl<V> BlockPlaces<V> {
    /// Empty places for so many blocks.
    #[must_use]
    pub fn new(blocks: usize) -> Arc<Self> {
        let empty = |_| {
            Mutex::new(Place {
                block: None,
                first_look: 0,
                uses: 0,
            })
        };
        Arc::new(Self((0..blocks).map(empty).collect()))
    }

    /// What they cost in memory, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// The block under `index`, marked as used.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<Hit<V>> {
        let mut place = self.0.get(index)?.lock();
        let block = place.block.as_ref()?;
        // What the count does not lie in the line of, and the first lines only: with more, the count would wait behind them.
        prefetch_lines(
            Arc::as_ptr(block).addr() + BEHIND_COUNTS_BYTES,
            size_of::<V>().saturating_sub(BEHIND_COUNTS_BYTES),
        );
        prefetch_lines(place.first_look, FIRST_LOOK_BYTES);
        let block = Arc::clone(block);
        let before = place.uses;
        place.uses = before.saturating_add(1);
        let is_hot = place.uses != before && place.uses.is_multiple_of(HOT_USES);
        Some(Hit { block, is_hot })
    }

    /// Whether a block is noted under `index`. It counts as used by nobody.
    #[must_use]
    pub fn holds(&self, index: usize) -> bool {
        self.0
            .get(index)
            .is_some_and(|place| place.lock().block.is_some())
    }

    /// Tells which bytes of the block that was noted under `index` a reader looks at first.
    pub fn expect_look_at(&self, index: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get(index) {
            place.lock().first_look = bytes.as_ptr().addr();
        }
    }
}

impl<V> fmt::Debug for BlockPlaces<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockPlaces({})", self.0.len())
    }
}

/// The cell of a block that is in the cache; dropped under the lock of the block's shard, which empties the cell.
pub(super) struct Home<V> {
    places: Arc<BlockPlaces<V>>,
    index: u32,
}

impl<V> Home<V> {
    /// The cell `index` of `places`; `None` when there is no such cell.
    pub(super) fn new(places: &Arc<BlockPlaces<V>>, index: usize) -> Option<Self> {
        let number = u32::try_from(index).ok()?;
        places.0.get(index).map(|_| Self {
            places: Arc::clone(places),
            index: number,
        })
    }

    fn place(&self) -> Option<&Mutex<Place<V>>> {
        self.places.0.get(self.index as usize)
    }

    /// True when both are the same cell.
    pub(super) fn is(&self, places: &Arc<BlockPlaces<V>>, index: usize) -> bool {
        Arc::ptr_eq(&self.places, places) && self.index as usize == index
    }

    pub(super) fn fill(&self, block: &Arc<V>) {
        if let Some(place) = self.place() {
            place.lock().block = Some(Arc::clone(block));
        }
    }

    /// Takes the count of hits, which begins anew.
    pub(super) fn take_uses(&self) -> u8 {
        self.place()
            .map_or(0, |place| std::mem::take(&mut place.lock().uses))
    }
}

impl<V> Drop for Home<V> {
    fn drop(&mut self) {
        if let Some(place) = self.place() {
            let mut place = place.lock();
            place.block = None;
            place.uses = 0;
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
