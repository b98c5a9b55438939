//! Which of those that come to a full shard are taken in.
//!
//! Under a load much larger than the cache most would leave unread, and to exchange one for another takes longer than to read it: so
//! only now and then one is taken in, whatever it is (bimodal insertion: Qureshi et al., "Adaptive Insertion Policies for High
//! Performance Caching", ISCA 2007). One that comes again soon after it was refused is taken in then: so those that are asked for
//! more often than others, and all of a load that is not larger than the cache, need not wait for that.

use super::{BlockKey, hash_of};

/// Of the blocks that come to a full shard, one in so many is taken in; of pieces too, which are exchanged for pieces.
const TAKEN_PERIOD: u64 = 32;
/// The same while the shard has to shrink, which it does for those that are taken in.
const TAKEN_PERIOD_SHRINKING: u64 = 4;
/// A shard remembers one of those that were refused for so many of its entries.
const REMEMBERED_DIVISOR: usize = 32;

/// Those that came to a full shard where nothing was there that leaves for them at once.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    count: u64,
    /// A part of the hash of those that were refused, each where it falls, until another falls there; 0 is nobody.
    refused: Vec<u32>,
}

impl Newcomers {
    /// Counts the block `key`, which comes to a shard of so many entries, that has to shrink or not; whether it is taken in.
    pub(super) fn takes(&mut self, key: &BlockKey, entries: usize, shrinks: bool) -> bool {
        if shrinks {
            return self.is_turn(TAKEN_PERIOD_SHRINKING);
        }
        self.is_turn(TAKEN_PERIOD) || self.comes_again(key, entries)
    }

    /// Counts a piece; whether it is taken in: one in `period` where there is room for it.
    pub(super) fn takes_piece(&mut self, has_room: bool, period: u64) -> bool {
        self.is_turn(if has_room { period } else { TAKEN_PERIOD })
    }

    fn is_turn(&mut self, period: u64) -> bool {
        self.count += 1;
        self.count.is_multiple_of(period)
    }

    /// Whether `key` was refused lately; it is remembered if not.
    fn comes_again(&mut self, key: &BlockKey, entries: usize) -> bool {
        if self.refused.len() < entries / REMEMBERED_DIVISOR {
            self.refused.resize(entries / REMEMBERED_DIVISOR, 0);
        }
        // Bits below those that choose the shard.
        let tag = (hash_of(key) >> 16) as u32;
        let place = (u64::from(tag) * self.refused.len() as u64) >> 32;
        let Some(refused) = self.refused.get_mut(place as usize) else {
            return false;
        };
        let comes_again = *refused == tag;
        *refused = if comes_again { 0 } else { tag };
        comes_again
    }
}
