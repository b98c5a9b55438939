use std::{ops::Range, sync::Arc, thread};

use kingtide_base::FileId;

use super::{BlockPlaces, HOT_USES};
use crate::{
    block_cache::{Admission, BlockCache, SHARD_BYTES_MIN},
    testing::Random,
};

type Cache = BlockCache<u64>;

fn get(cache: &Cache, file: u64, places: &Arc<BlockPlaces<u64>>, index: usize) -> Option<u64> {
    let key = || (FileId(file), index as u64);
    let hit = cache.get_at((places, index), key)?;
    Some(*hit.block)
}

fn insert(cache: &Cache, file: u64, places: &Arc<BlockPlaces<u64>>, index: usize, charge: usize) {
    let (key, block) = ((FileId(file), index as u64), file * 1000 + index as u64);
    let is_odd = charge % 2 == 1;
    let admission = cache.admit(&key, charge, is_odd.then_some(charge));
    if admission == Admission::Refused {
        return;
    }
    let charge = (charge, admission == Admission::TakenLoose);
    let shared = cache.insert_at(key, (places, index), Arc::new(block), charge);
    assert_eq!(*shared, block);
}

/// Exchanges a block for a longer form of the same value, whether it is hot or not, if that is admitted.
fn exchange(cache: &Cache, file: u64, places: &Arc<BlockPlaces<u64>>, index: usize, charge: usize) {
    let (key, block) = ((FileId(file), index as u64), file * 1000 + index as u64);
    if cache.admits_hot(&key, charge) {
        let shared = cache.exchange_at(key, (places, index), Arc::new(block), charge);
        assert_eq!(*shared, block);
    }
}

/// Goal: a cell holds a block only while the cache does, and a look-up by number answers what one by key would. Method:
/// random calls on caches of several sizes, through two openings of each of three files; after each call all cells are
/// compared with the cache.
#[test]
fn cells_hold_what_the_cache_holds() {
    for (seed, capacity) in [(1, 1), (2, 4000), (3, 60_000), (4, 2 << 20)] {
        let mut random = Random::new(seed);
        let cache = Cache::new(capacity);
        let mut openings: Vec<_> = (0..6).map(|_| BlockPlaces::new(40)).collect();
        for step in 0..4000_u64 {
            let opening = random.below(6);
            let (file, places) = (opening as u64 % 3, openings[opening].clone());
            let index = random.below(40);
            let is_cached = cache.get(&(FileId(file), index as u64)).is_some();
            match random.below(100) {
                0 => cache.remove_file(FileId(file)),
                1 => openings[opening] = BlockPlaces::new(40),
                2 => cache.set_limit(random.below(capacity + 1)),
                3 => cache.set_limit(capacity),
                4..50 => insert(&cache, file, &places, index, random.below(9000)),
                50..60 => exchange(&cache, file, &places, index, random.below(20_000)),
                _ => {
                    let found = get(&cache, file, &places, index);
                    assert_eq!(found, is_cached.then_some(file * 1000 + index as u64));
                }
            }
            assert!(cache.usage().bytes <= capacity, "seed {seed}, step {step}");
            for (opening, places) in openings.iter().enumerate() {
                for (index, place) in places.0.iter().enumerate() {
                    if let Some(block) = &place.lock().block {
                        let cached = cache.get(&(FileId(opening as u64 % 3), index as u64));
                        let is_same = cached.is_some_and(|cached| Arc::ptr_eq(&cached, block));
                        assert!(is_same, "seed {seed}, step {step}");
                    }
                }
            }
        }
    }
}

/// Goal: evicted blocks leave memory although readers found them by number. Method: count the references.
#[test]
fn evicted_blocks_leave_their_cells() {
    let cache = BlockCache::new(SHARD_BYTES_MIN);
    let places = BlockPlaces::new(1000);
    let block = Arc::new(0_u8);
    for index in 0..1000 {
        let key = (FileId(1), index as u64);
        if cache.admit(&key, 4096, None) == Admission::Taken {
            cache.insert_at(key, (&places, index), Arc::clone(&block), (4096, false));
        }
    }
    assert_eq!(Arc::strong_count(&block), 1 + 2 * cache.usage().entries);
    cache.set_limit(10_000);
    assert_eq!(cache.usage().entries, 2);
    assert_eq!(Arc::strong_count(&block), 5);
    cache.remove_file(FileId(1));
    assert_eq!(Arc::strong_count(&block), 1);
}

/// Goal: loose blocks leave first, used or not, while others stay, and until they are gone every newcomer comes in. Method: a
/// shard is filled with loose blocks of 8 KiB, which are looked up all the time, then with others of 4 KiB; in short form all
/// fit.
#[test]
fn loose_blocks_make_room_for_all() {
    const BLOCKS: usize = SHARD_BYTES_MIN / (4096 + 128);
    let cache = Cache::new(SHARD_BYTES_MIN);
    let places = BlockPlaces::new(BLOCKS);
    let insert = |index: usize| {
        let key = (FileId(1), index as u64);
        let admission = cache.admit(&key, 4096, Some(8192));
        assert_ne!(
            admission,
            Admission::Refused,
            "while some are loose, all come in"
        );
        let is_loose = admission == Admission::TakenLoose;
        let charge = if is_loose { 8192 } else { 4096 };
        let block = Arc::new(index as u64);
        cache.insert_at(key, (&places, index), block, (charge, is_loose));
        is_loose
    };
    let is_here = |index: usize| get(&cache, 1, &places, index).is_some();
    let loose: Vec<usize> = (0..BLOCKS).filter(|index| insert(*index)).collect();
    assert!(loose.len() > BLOCKS / 3 && loose.len() < BLOCKS * 2 / 3);
    assert!((loose.len()..BLOCKS).all(is_here), "those came later");
    let gone: Vec<usize> = (0..BLOCKS).filter(|index| !is_here(*index)).collect();
    assert!(gone.iter().all(|index| loose.contains(index)));
    for index in gone {
        assert!(!insert(index), "it is full");
    }
    // Those that had to go for these came back in turn, until all are here.
    for _ in 0..BLOCKS {
        (0..BLOCKS)
            .filter(|index| !is_here(*index))
            .for_each(|index| assert!(!insert(index)));
    }
    assert!((0..BLOCKS).all(is_here));
    assert!(cache.usage().bytes <= SHARD_BYTES_MIN);
}

/// Asks for block `index` until it is reported as hot; how often that was. Stops at a few hundred.
fn ask_until_hot(cache: &Cache, places: &Arc<BlockPlaces<u64>>, index: usize) -> Option<usize> {
    (1..500).find(|_| {
        let hit = cache.get_at((places, index), || (FileId(1), index as u64));
        hit.expect("is here").is_hot
    })
}

/// Goal: hot blocks are exchanged for their long forms in a full cache, have a part of it to themselves, and give that up to
/// others that are hot when they are not any more. Method: a shard full of blocks of 4 KiB; one half is asked for until it is
/// hot and comes back with 8 KiB and another value, as far as is admitted, then the other half.
#[test]
fn hot_blocks_share_a_part_of_a_full_cache() {
    const BLOCKS: usize = SHARD_BYTES_MIN / (4096 + 128);
    const HOT_MAX: usize = SHARD_BYTES_MIN / 4 / (8192 + 128);
    const HOT: u64 = 1 << 32;
    let cache = Cache::new(SHARD_BYTES_MIN);
    let places = BlockPlaces::new(BLOCKS);
    let key = |index: usize| (FileId(1), index as u64);
    let exchange = |index: usize| {
        if cache.admits_hot(&key(index), 8192) {
            let long = Arc::new(HOT + index as u64);
            let shared = cache.exchange_at(key(index), (&places, index), long, 8192);
            assert_eq!(*shared, HOT + index as u64);
        }
        assert!(cache.usage().bytes <= SHARD_BYTES_MIN);
    };
    let ask = |index: usize| {
        if places.holds(index) && ask_until_hot(&cache, &places, index).is_some() {
            exchange(index);
        }
    };
    // Looks at them by key, which makes nothing hot.
    let hot_of = |range: Range<usize>| {
        let is_hot = |index: &usize| cache.get(&key(*index)).is_some_and(|block| *block >= HOT);
        range.filter(is_hot).count()
    };
    (0..BLOCKS).for_each(|index| insert(&cache, 1, &places, index, 4096));
    assert_eq!(ask_until_hot(&cache, &places, 0), Some(HOT_USES.into()));
    assert_eq!(ask_until_hot(&cache, &places, 0), Some(HOT_USES.into()));
    exchange(0);
    assert_eq!(
        cache.usage().entries,
        BLOCKS - 1,
        "one that nobody used left"
    );
    (1..BLOCKS / 2).for_each(ask);
    let hot = hot_of(0..BLOCKS);
    assert!((HOT_MAX - 1..=HOT_MAX).contains(&hot), "{hot} of {HOT_MAX}");
    for _ in 0..10 {
        (BLOCKS / 2..BLOCKS).for_each(ask);
    }
    assert_eq!(hot_of(0..BLOCKS / 2), 0);
    let hot = hot_of(BLOCKS / 2..BLOCKS);
    assert!((HOT_MAX - 1..=HOT_MAX).contains(&hot), "{hot} of {HOT_MAX}");
}

/// Goal: what is used evenly is not hot where the sweep comes by. Method: all blocks of a full shard are asked for in turn while
/// newcomers have the hand go round.
#[test]
fn evenly_used_blocks_of_a_busy_cache_are_not_hot() {
    const BLOCKS: usize = SHARD_BYTES_MIN / (4096 + 128);
    let cache = Cache::new(SHARD_BYTES_MIN);
    let places = BlockPlaces::new(BLOCKS * 2);
    let mut random = Random::new(1);
    for step in 0..100_000 {
        let index = random.below(BLOCKS * 2);
        let key = || (FileId(1), index as u64);
        match cache.get_at((&places, index), key) {
            Some(hit) => assert!(!hit.is_hot, "step {step}"),
            None => insert(&cache, 1, &places, index, 4096),
        }
    }
}

/// Goal: hits by number count as use. Method: ten blocks are looked up by number while ten thousand others come.
#[test]
fn blocks_that_are_found_by_number_outlive_a_scan() {
    let cache = Cache::new(SHARD_BYTES_MIN);
    let (used, scanned) = (BlockPlaces::new(10), BlockPlaces::new(10_000));
    (0..10).for_each(|index| insert(&cache, 1, &used, index, 4096));
    for next in 0..10_000 {
        for index in 0..10 {
            assert!(get(&cache, 1, &used, index).is_some(), "after {next}");
        }
        insert(&cache, 2, &scanned, next, 4096);
    }
    let usage = cache.usage();
    assert_eq!((usage.hits, usage.misses), (100_000, 0));
}

/// Goal: a table that is opened again finds the blocks that are still there. Method: two openings, one after the other.
#[test]
fn another_opening_finds_the_blocks_of_the_first() {
    let cache = Cache::new(1 << 20);
    let first = BlockPlaces::new(3);
    (0..2).for_each(|index| insert(&cache, 1, &first, index, 100));
    drop(first);
    let second = BlockPlaces::new(3);
    assert_eq!(get(&cache, 1, &second, 0), Some(1000));
    assert!(second.holds(0) && !second.holds(1));
    assert_eq!(get(&cache, 1, &second, 2), None);
    // A number beyond the places is no cell, and no fault.
    assert_eq!(get(&cache, 1, &second, 7), None);
    let none = BlockPlaces::new(0);
    assert_eq!(get(&cache, 1, &none, 1), Some(1001));
}

/// Goal: threads that use one cache see whole blocks of their numbers. Method: four threads over the same places of three
/// files, in a cache that holds a part of them.
#[test]
fn threads_share_places() {
    let cache = Cache::new(SHARD_BYTES_MIN);
    let openings: Vec<_> = (0..3).map(|_| BlockPlaces::new(100)).collect();
    thread::scope(|scope| {
        for seed in 0..4 {
            let (cache, openings) = (&cache, &openings);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..5000 {
                    let (file, index) = (random.below(3), random.below(100));
                    let expected = file as u64 * 1000 + index as u64;
                    match get(cache, file as u64, &openings[file], index) {
                        Some(block) => assert_eq!(block, expected, "seed {seed}"),
                        None => insert(cache, file as u64, &openings[file], index, 8192),
                    }
                    if random.chance(500) {
                        cache.remove_file(FileId(file as u64));
                    }
                }
            });
        }
    });
    assert!(cache.usage().bytes <= SHARD_BYTES_MIN);
    drop(cache);
    for place in openings.iter().flat_map(|places| &places.0) {
        assert!(place.lock().block.is_none(), "nothing outlives the cache");
    }
}
