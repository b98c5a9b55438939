//! One shard of the cache: a CLOCK of blocks and pieces.

use std::{collections::HashMap, hash::BuildHasherDefault, sync::Arc};

use kingtide_base::FileId;

use super::{
    Admission, BlockCacheUsage, BlockHasher, BlockKey, BlockPlaces, ENTRY_OVERHEAD_BYTES,
    PieceAnswer,
    newcomers::Newcomers,
    places::{HOT_USES, Home},
};
use crate::{
    block_memory::BlockBytes,
    budget::{Account, Charge, MemoryBudget},
};

/// So many entries are looked at to exchange one piece for another.
const PIECE_SWEEP_MAX: usize = 32;
/// With less than this part of the budget left, the cache does not grow; with less than half of that, it shrinks.
const RESERVE_DIVISOR: usize = 16;
/// By one part in so many for each newcomer.
const GIVEN_WAY_DIVISOR: usize = 64;
/// Hot blocks in their long form take at most one part in so many of a shard.
const HOT_DIVISOR: usize = 4;
/// So many entries are looked at for each hot block that finds their part full.
const HOT_SWEEP_MAX: usize = 4;
/// A block stays hot with so many uses between two looks: a part of what it takes to become hot, so that few go to and fro.
const HOT_USES_MIN: u8 = HOT_USES / 4;

/// How an entry stands to those that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It takes no more memory than it has to.
    Compact,
    /// It takes more, because there was room: it leaves first.
    Loose,
    /// It takes more, because it is asked for often.
    Hot,
}

/// What an entry keeps.
pub(super) enum Kept<V> {
    Block(Arc<V>),
    Piece(Arc<BlockBytes>),
}

/// One block, or piece.
pub(super) struct Slot<V> {
    kept: Kept<V>,
    /// Bytes, overhead included.
    charge: usize,
    standing: Standing,
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
        self.take_uses() > 0
    }

    /// How often it was used since this was asked last, about: hits by number count, all others together are one.
    fn take_uses(&mut self) -> u8 {
        let by_number = self.home.as_ref().map_or(0, Home::take_uses);
        by_number.max(u8::from(std::mem::take(&mut self.is_referenced)))
    }
}

pub(super) struct Shard<V> {
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
    newcomers: Newcomers,
    /// How many entries are loose.
    loose: usize,
    /// How many of these are pieces.
    pieces: usize,
    /// The charges of hot entries.
    hot_bytes: usize,
}

impl<V> Shard<V> {
    pub(super) fn new(
        (capacity_bytes, floor_bytes): (usize, usize),
        budget: &Arc<MemoryBudget>,
    ) -> Self {
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
            newcomers: Newcomers::default(),
            loose: 0,
            pieces: 0,
            hot_bytes: 0,
        }
    }

    /// Counts what the shard has and has done.
    pub(super) fn add_to(&self, usage: &mut BlockCacheUsage) {
        usage.bytes += self.bytes;
        usage.entries += self.slots.len();
        usage.hits += self.hits;
        usage.misses += self.misses;
    }

    pub(super) fn has_room(&self, charge: usize) -> bool {
        let charge = charge.saturating_add(ENTRY_OVERHEAD_BYTES);
        self.bytes.saturating_add(charge) <= self.capacity_now()
    }

    pub(super) fn get(&mut self, key: &BlockKey) -> Option<Arc<V>> {
        let value = self.touch(key);
        self.count(value.is_some());
        value
    }

    pub(super) fn piece(&mut self, key: &BlockKey, charge: usize, period: u64) -> PieceAnswer {
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
        match found {
            Some(piece) => PieceAnswer::Here(piece),
            None if self.admits_piece(charge, period) => PieceAnswer::Admitted,
            None => PieceAnswer::Refused,
        }
    }

    fn count(&mut self, is_hit: bool) {
        match is_hit {
            true => self.hits += 1,
            false => self.misses += 1,
        }
    }

    /// What the planted bug hands out: a block at this offset of any file.
    pub(super) fn any_at(&mut self, offset: u64) -> Option<Arc<V>> {
        let mut blocks = self.slots.iter().filter(|(key, _)| key.1 == offset);
        blocks.find_map(|(_, slot)| slot.block().map(Arc::clone))
    }

    /// The block `key`, marked as used.
    pub(super) fn touch(&mut self, key: &BlockKey) -> Option<Arc<V>> {
        let slot = self.slots.get_mut(key)?;
        slot.is_referenced = true;
        slot.block().map(Arc::clone)
    }

    pub(super) fn admit(
        &mut self,
        key: &BlockKey,
        charge: usize,
        loose: Option<usize>,
    ) -> Admission {
        if loose.is_some_and(|charge| self.has_room(charge)) {
            return Admission::TakenLoose;
        }
        if self.loose > 0 || self.has_room(charge) {
            return Admission::Taken;
        }
        let shrinks = self.bytes > self.capacity_now();
        match self.newcomers.takes(key, self.slots.len(), shrinks) {
            true => Admission::Taken,
            false => Admission::Refused,
        }
    }

    fn admits_piece(&mut self, charge: usize, period: u64) -> bool {
        let has_room = self.has_room(charge);
        (has_room || self.pieces > 0) && self.newcomers.takes_piece(has_room, period)
    }

    pub(super) fn admits_hot(&mut self, charge: usize, evicted: &mut Vec<Slot<V>>) -> bool {
        let charge = charge.saturating_add(ENTRY_OVERHEAD_BYTES);
        let hot_bytes_max = self.capacity_now() / HOT_DIVISOR;
        for _ in 0..HOT_SWEEP_MAX {
            if self.hot_bytes.saturating_add(charge) <= hot_bytes_max {
                return true;
            }
            evicted.extend(self.sweep_hot());
        }
        false
    }

    /// Takes `block` in, and answers it; or the one that is here already. A hot one takes the place of the compact form.
    pub(super) fn take_block_in(
        &mut self,
        key: BlockKey,
        block: Arc<V>,
        charge: (usize, Standing),
        evicted: &mut Vec<Slot<V>>,
    ) -> Arc<V> {
        let is_compact = |slot: &Slot<V>| slot.standing == Standing::Compact;
        if charge.1 == Standing::Hot && self.slots.get(&key).is_some_and(is_compact) {
            evicted.extend(self.remove(&key));
        }
        if let Some(present) = self.touch(&key) {
            return present;
        }
        self.take_in(key, Kept::Block(Arc::clone(&block)), charge, evicted);
        block
    }

    /// Takes in what is `kept` for `key`, unless something is here for it already or no room can be made.
    pub(super) fn take_in(
        &mut self,
        key: BlockKey,
        kept: Kept<V>,
        (charge, standing): (usize, Standing),
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
            standing,
            place,
            is_referenced: false,
            home: None,
        };
        match standing {
            Standing::Compact => {}
            Standing::Loose => self.loose += 1,
            Standing::Hot => self.hot_bytes += charge,
        }
        self.pieces += usize::from(slot.is_piece());
        self.slots.insert(key, slot);
        self.bytes += charge;
        self.charge.set(self.bytes);
    }

    /// Notes the block `key`, if it is here, under `index` of `places`, and nowhere else any more.
    pub(super) fn house(&mut self, key: &BlockKey, (places, index): (&Arc<BlockPlaces<V>>, usize)) {
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

    pub(super) fn set_limit(&mut self, bytes: usize, evicted: &mut Vec<Slot<V>>) {
        self.capacity_bytes = bytes;
        while self.bytes > self.capacity_bytes {
            evicted.extend(self.sweep());
        }
        self.charge.set(self.bytes);
    }

    /// Moves the hand by one place; answers what lay there.
    fn advance_hand(&mut self) -> Option<BlockKey> {
        let place = self.hand;
        self.hand = (place + 1) % self.ring.len().max(1);
        *self.ring.get(place)?
    }

    /// Moves the hand by one place: clears a bit, or evicts an entry; while some are loose, it evicts one of them or does
    /// nothing. As long as there are entries, two rounds evict one.
    fn sweep(&mut self) -> Option<Slot<V>> {
        let key = self.advance_hand()?;
        let slot = self.slots.get_mut(&key)?;
        let stays = match self.loose {
            0 => slot.take_reference(),
            _ => slot.standing != Standing::Loose,
        };
        if stays {
            return None;
        }
        self.remove(&key)
    }

    /// Moves the hand by one place, and takes the uses of the entry there: a hot one without many of them is evicted.
    fn sweep_hot(&mut self) -> Option<Slot<V>> {
        let key = self.advance_hand()?;
        let slot = self.slots.get_mut(&key)?;
        let uses = slot.take_uses();
        if slot.standing != Standing::Hot || uses >= HOT_USES_MIN {
            slot.is_referenced = uses > 0;
            return None;
        }
        self.remove(&key)
    }

    /// Moves the hand until it meets a piece that was not asked for since it came there last, and evicts that; `None` when it meets
    /// none soon.
    pub(super) fn sweep_pieces(&mut self) -> Option<Slot<V>> {
        for _ in 0..PIECE_SWEEP_MAX {
            let Some(key) = self.advance_hand() else {
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
        match slot.standing {
            Standing::Compact => {}
            Standing::Loose => self.loose -= 1,
            Standing::Hot => self.hot_bytes -= slot.charge,
        }
        self.pieces -= usize::from(slot.is_piece());
        self.bytes -= slot.charge;
        Some(slot)
    }

    pub(super) fn remove_file(&mut self, file: FileId) -> Vec<Slot<V>> {
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
