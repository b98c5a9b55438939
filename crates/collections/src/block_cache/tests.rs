use std::{collections::HashMap, sync::Arc, thread};

use kingtide_base::FileId;

use super::{
    Admission, BlockCache, BlockCacheUsage, BlockKey, ENTRY_OVERHEAD_BYTES, PieceAnswer,
    SHARD_BYTES_MIN,
};
use crate::{
    block_memory::BlockBytes,
    budget::{Account, MemoryBudget},
    testing::Random,
};

/// Goal: the limit holds at all times, and a lookup gives what was inserted for that very block. Method: random calls on
/// caches of several sizes, with a map of everything ever inserted as the model.
#[test]
fn never_exceeds_its_limit_and_never_mixes_blocks() {
    for (seed, capacity) in [(1, 1), (2, 4000), (3, 60_000), (4, 3 << 20), (5, 20 << 20)] {
        let mut random = Random::new(seed);
        let cache: BlockCache<u64> = BlockCache::new(capacity);
        let mut model: HashMap<(FileId, u64), u64> = HashMap::new();
        let mut hits = 0;
        let mut lookups = 0;
        for step in 0..8000_u64 {
            let key = (
                FileId(random.below(5) as u64),
                random.below(200) as u64 * 4096,
            );
            match random.below(100) {
                0 => {
                    cache.remove_file(key.0);
                    model.retain(|other, _| other.0 != key.0);
                    for offset in 0..200 {
                        assert!(cache.get(&(key.0, offset * 4096)).is_none(), "seed {seed}");
                        lookups += 1;
                    }
                }
                1..50 => {
                    let value = cache.insert(key, Arc::new(step), random.below(30_000));
                    if *value != step {
                        assert_eq!(model.get(&key), Some(&*value), "seed {seed}, step {step}");
                    }
                    model.insert(key, *value);
                }
                _ => {
                    lookups += 1;
                    if let Some(value) = cache.get(&key) {
                        hits += 1;
                        assert_eq!(model.get(&key), Some(&*value), "seed {seed}, step {step}");
                    }
                }
            }
            assert!(cache.usage().bytes <= capacity, "seed {seed}, step {step}");
        }
        let usage = cache.usage();
        assert_eq!(usage.hits, hits);
        assert_eq!(usage.hits + usage.misses, lookups);
        assert_eq!(usage.capacity_bytes, capacity);
        let is_small = capacity < ENTRY_OVERHEAD_BYTES;
        assert_eq!(usage.entries == 0, is_small, "seed {seed}");
        assert_eq!(hits == 0, is_small, "seed {seed}");
    }
}

/// Asks for the piece `key` of `len` bytes, all of them its offset, and puts it into the cache if it is admitted.
fn ask_for_piece<V>(cache: &BlockCache<V>, key: BlockKey, len: usize) -> PieceAnswer {
    let answer = cache.piece(&key, len, 1);
    if matches!(answer, PieceAnswer::Admitted) {
        let piece: BlockBytes = vec![key.1 as u8; len].into();
        cache.insert_piece(key, &Arc::new(piece));
    }
    answer
}

/// The piece `key`, if it is in the cache; none comes in.
fn piece<V>(cache: &BlockCache<V>, key: &BlockKey) -> Option<Arc<BlockBytes>> {
    match cache.piece(key, usize::MAX, 1) {
        PieceAnswer::Here(piece) => Some(piece),
        PieceAnswer::Admitted | PieceAnswer::Refused => None,
    }
}

/// Goal: pieces take the room that blocks leave, and give it back: blocks come in as if there were none, and no block leaves for a
/// piece. What is found is what was put there, also under one key. Method: random calls on a cache that is too small.
#[test]
fn pieces_take_the_room_that_blocks_leave() {
    const BLOCK_BYTES: usize = 4000;
    let cache: BlockCache<u64> = BlockCache::new(SHARD_BYTES_MIN);
    let room = SHARD_BYTES_MIN / (BLOCK_BYTES + ENTRY_OVERHEAD_BYTES);
    let mut random = Random::new(3);
    let pieces = |cache: &BlockCache<u64>| {
        let keys = (0..1000).map(|offset| (FileId(2), offset));
        keys.filter(|key| piece(cache, key).is_some()).count()
    };
    for offset in 0..1000 {
        ask_for_piece(&cache, (FileId(2), offset), 1000 + random.below(2000));
    }
    let at_first = pieces(&cache);
    assert!(at_first > room, "{at_first}");
    for offset in 0..room as u64 {
        let key = (FileId(1), offset);
        assert_eq!(cache.admit(&key, BLOCK_BYTES, None), Admission::Taken);
        cache.insert(key, Arc::new(offset), BLOCK_BYTES);
        for _ in 0..3 {
            let key = (FileId(2), random.below(1000) as u64);
            ask_for_piece(&cache, key, 1000 + random.below(2000));
            if let Some(piece) = piece(&cache, &key) {
                assert!(piece.iter().all(|byte| *byte == key.1 as u8));
            }
            assert!(cache.get(&key).is_none(), "it is no block");
        }
        for before in 0..=offset {
            let key = (FileId(1), before);
            assert_eq!(cache.get(&key).as_deref(), Some(&before), "at {offset}");
            assert!(piece(&cache, &key).is_none(), "it is no piece");
        }
        assert!(cache.usage().bytes <= SHARD_BYTES_MIN);
    }
    let mut asked = (0..500).map(|offset| ask_for_piece(&cache, (FileId(3), offset), 3000));
    let refused = asked.all(|answer| matches!(answer, PieceAnswer::Refused));
    assert!(refused, "without pieces there is nothing to exchange");
    assert!(pieces(&cache) <= 2, "what is left is too small for a block");
    cache.insert_piece((FileId(3), 0), &Arc::new(vec![0; 3000].into()));
    assert!(piece(&cache, &(FileId(3), 0)).is_none());
    cache.insert_piece((FileId(1), 0), &Arc::new(vec![0; 10].into()));
    assert!(cache.get(&(FileId(1), 0)).is_some(), "the first one stays");
    cache.remove_file(FileId(1));
    cache.remove_file(FileId(2));
    assert_eq!(cache.usage().bytes, 0);
    let answer = ask_for_piece(&cache, (FileId(1), 0), 3000);
    assert!(matches!(answer, PieceAnswer::Admitted));
    assert!(piece(&cache, &(FileId(1), 0)).is_some());
}

/// Goal: a load larger than the cache exchanges few blocks, and one that has become small enough for it, or asks for some blocks
/// more often, has them in it soon. Method: the numbers of blocks that come in under uniform lookups, and of hits after a change.
#[test]
fn few_blocks_are_exchanged_and_those_that_are_asked_for_again_come_in() {
    let cache: BlockCache<u64> = BlockCache::new(SHARD_BYTES_MIN);
    let room = SHARD_BYTES_MIN / (4000 + ENTRY_OVERHEAD_BYTES);
    let mut random = Random::new(5);
    let mut look = |file: u64, blocks: usize| {
        let key = (FileId(file), random.below(blocks) as u64);
        let is_here = cache.get(&key).is_some();
        if !is_here {
            cache.insert(key, Arc::new(0), 4000);
        }
        let comes = !is_here && cache.get(&key).is_some();
        (usize::from(is_here), usize::from(comes))
    };
    let mut looks = |count: usize, file, blocks| {
        let sum = |sum: (usize, usize), (hit, comes)| (sum.0 + hit, sum.1 + comes);
        (0..count).map(|_| look(file, blocks)).fold((0, 0), sum)
    };
    looks(room * 10, 1, room * 2);
    let (hits, exchanged) = looks(20_000, 1, room * 2);
    assert!((9000..11_000).contains(&hits), "{hits} of 20,000");
    let misses = 20_000 - hits;
    let share = misses / 30..misses / 10;
    assert!(
        share.contains(&exchanged),
        "{exchanged} of {misses} came in"
    );
    let (at_first, _) = looks(room, 2, room / 2);
    looks(room * 15, 2, room / 2);
    let (later, _) = looks(room, 2, room / 2);
    assert!(at_first < room / 2, "{at_first} of {room}");
    assert!(later > room / 10 * 9, "{later} of {room}");
}

/// Goal: in a cache full of pieces those that are asked for again and again stay or come in, although thousands of others pass.
#[test]
fn pieces_that_are_used_stay_and_come_in() {
    const PIECE_BYTES: usize = 8 << 10;
    let cache: BlockCache<u64> = BlockCache::new(SHARD_BYTES_MIN);
    let used = |i: u64| (FileId(1), i);
    for i in 0..10 {
        let answer = ask_for_piece(&cache, used(i), PIECE_BYTES);
        assert!(matches!(answer, PieceAnswer::Admitted));
    }
    for passing in 0..20_000 {
        for i in 0..20 {
            let answer = ask_for_piece(&cache, used(i), PIECE_BYTES);
            let is_here = matches!(answer, PieceAnswer::Here(_));
            assert!(is_here || i >= 10, "{i}, after {passing}");
        }
        ask_for_piece(&cache, (FileId(2), passing), PIECE_BYTES);
        assert!(cache.usage().bytes <= SHARD_BYTES_MIN);
    }
    assert!((10..20).all(|i| piece(&cache, &used(i)).is_some()));
}

/// Goal: of pieces that are to come in now and then, so many come in, although there is room; and those that are in are found.
#[test]
fn one_piece_in_a_period_comes_in() {
    let cache: BlockCache<u64> = BlockCache::new(SHARD_BYTES_MIN);
    let admitted = (0..100).filter(|offset| {
        let answer = cache.piece(&(FileId(1), *offset), 100, 10);
        matches!(answer, PieceAnswer::Admitted)
    });
    assert_eq!(admitted.count(), 10);
    let key = (FileId(2), 5);
    ask_for_piece(&cache, key, 100);
    let here = (0..100).filter(|_| matches!(cache.piece(&key, 100, 10), PieceAnswer::Here(_)));
    assert_eq!(here.count(), 100);
}

/// Goal: values leave memory when they leave the cache. Method: count the references.
#[test]
fn evicted_and_removed_values_are_dropped() {
    let cache = BlockCache::new(SHARD_BYTES_MIN);
    let value = Arc::new(0_u8);
    for offset in 0..1000 {
        cache.insert((FileId(1), offset), Arc::clone(&value), 4096);
    }
    assert_eq!(Arc::strong_count(&value), 1 + cache.usage().entries);
    assert_eq!(
        cache.usage().entries,
        SHARD_BYTES_MIN / (4096 + ENTRY_OVERHEAD_BYTES)
    );
    cache.remove_file(FileId(1));
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(cache.usage().bytes, 0);
}

#[test]
fn blocks_that_are_used_outlive_a_scan() {
    let cache = BlockCache::new(SHARD_BYTES_MIN);
    for offset in 0..10 {
        cache.insert((FileId(1), offset), Arc::new(offset), 4096);
    }
    for scanned in 0..10_000 {
        for offset in 0..10 {
            assert!(cache.get(&(FileId(1), offset)).is_some(), "after {scanned}");
        }
        cache.insert((FileId(2), scanned), Arc::new(scanned), 4096);
    }
}

#[test]
fn a_cache_of_no_bytes_is_off() {
    let cache = BlockCache::new(0);
    assert_eq!(*cache.insert((FileId(1), 0), Arc::new(5), 0), 5);
    assert!(cache.get(&(FileId(1), 0)).is_none());
    cache.remove_file(FileId(1));
    assert_eq!(cache.usage(), super::BlockCacheUsage::default());
}

#[test]
fn a_value_larger_than_a_shard_is_not_cached() {
    let cache = BlockCache::new(64 << 20);
    cache.insert((FileId(1), 0), Arc::new(1), 1);
    assert_eq!(*cache.insert((FileId(1), 1), Arc::new(2), 5 << 20), 2);
    assert_eq!(*cache.insert((FileId(1), 2), Arc::new(3), usize::MAX), 3);
    assert_eq!(cache.usage().entries, 1);
}

#[test]
fn blocks_spread_over_all_shards() {
    let cache = BlockCache::new(16 * SHARD_BYTES_MIN);
    for offset in 0..1600 {
        cache.insert((FileId(9), offset * 4096), Arc::new(()), 0);
    }
    assert_eq!(cache.shards.len(), 16);
    for shard in &cache.shards {
        let mut usage = BlockCacheUsage::default();
        shard.lock().add_to(&mut usage);
        let entries = usage.entries;
        assert!(
            (50..200).contains(&entries),
            "{entries} of 1600 in one of 16"
        );
    }
}

/// Goal: threads that use one cache see whole values of their keys. Method: four threads over the same few keys.
#[test]
fn threads_share_a_cache() {
    let cache = BlockCache::new(SHARD_BYTES_MIN);
    thread::scope(|scope| {
        for seed in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..5000 {
                    let key = (FileId(random.below(3) as u64), random.below(100) as u64);
                    let expected = key.0.0 * 1000 + key.1;
                    let value = match cache.get(&key) {
                        Some(value) => value,
                        None => cache.insert(key, Arc::new(expected), 8192),
                    };
                    assert_eq!(*value, expected, "seed {seed}");
                    if random.chance(500) {
                        cache.remove_file(key.0);
                    }
                }
            });
        }
    });
    assert!(cache.usage().bytes <= SHARD_BYTES_MIN);
}

/// Goal: the cache fills what it may while there is memory, does not grow when little is left, and shrinks to its floor
/// when hardly anything is; what it holds is what the budget counts. Method: another account takes more and more.
#[test]
fn the_cache_follows_the_budget() {
    const LIMIT: usize = 16 << 20;
    let budget = MemoryBudget::new(LIMIT);
    let cache = BlockCache::with_budget(8 << 20, 1 << 20, &budget);
    let mut next = 0;
    let mut come = |count: u64| {
        for _ in 0..count {
            cache.insert((FileId(1), next), Arc::new([0_u8; 8]), 4000);
            next += 4000;
        }
        let held = cache.usage().bytes;
        assert_eq!(budget.of(Account::Cache), held);
        held
    };
    let full = come(10_000);
    assert!(full > 7 << 20 && full <= 8 << 20, "{full}");
    let mut other = budget.charge(Account::Memtables, LIMIT - full - (700 << 10));
    let unchanged = come(1000);
    assert!(
        unchanged <= full && unchanged > full - (1 << 20),
        "{unchanged}"
    );
    other.set(LIMIT - full - (100 << 10));
    let shrunk = come(2000);
    assert!(shrunk < full - (400 << 10), "{shrunk}");
    other.set(LIMIT);
    let least = come(50_000);
    assert!(least <= (1 << 20) && least > 900 << 10, "{least}");
    drop(other);
    assert!(come(10_000) > 7 << 20);
    drop(cache);
    assert_eq!(budget.used(), 0);
}
