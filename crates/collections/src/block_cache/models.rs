//! Models of the cache, run by loom in every interleaving with up to three preemptions.

use std::sync::Arc;

use kingtide_base::FileId;

use super::{BlockCache, BlockPlaces, ENTRY_OVERHEAD_BYTES};
use crate::budget::{Account, MemoryBudget};

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// Goal: readers of one block share one value, and a hit is a value of that very block. Method: two readers that both read
/// the block from disk, each with a value of its own, beside a look-up of it and of its neighbour.
#[test]
fn loom_readers_of_a_block_share_one_value() {
    model(|| {
        let cache: Arc<BlockCache<u64>> = Arc::new(BlockCache::new(10_000));
        let key = (FileId(1), 0);
        let readers: Vec<_> = [10, 20]
            .into_iter()
            .map(|value| {
                let cache = Arc::clone(&cache);
                loom::thread::spawn(move || *cache.insert(key, Arc::new(value), 100))
            })
            .collect();
        let seen = cache.get(&key).map(|value| *value);
        assert!(cache.get(&(FileId(1), 4096)).is_none());
        let answers: Vec<u64> = readers
            .into_iter()
            .map(|reader| reader.join().expect("no panic"))
            .collect();
        assert_eq!(answers[0], answers[1]);
        assert!(seen.is_none_or(|seen| seen == answers[0]));
        assert_eq!(cache.get(&key).map(|value| *value), Some(answers[0]));
        let usage = cache.usage();
        assert_eq!(
            (usage.entries, usage.bytes),
            (1, 100 + ENTRY_OVERHEAD_BYTES)
        );
    });
}

/// Goal: a block that is exchanged for its long form is found in one of both, by number and by key, and in one form alone at the
/// end. Method: two readers exchange it beside a look-up.
#[test]
fn loom_an_exchanged_block_is_found_in_one_of_its_forms() {
    model(|| {
        let cache: Arc<BlockCache<u64>> = Arc::new(BlockCache::new(10_000));
        let places = BlockPlaces::new(1);
        let key = (FileId(1), 0);
        cache.insert_at(key, (&places, 0), Arc::new(1), (100, false));
        let readers: Vec<_> = [10, 20]
            .into_iter()
            .map(|value| {
                let (cache, places) = (Arc::clone(&cache), Arc::clone(&places));
                loom::thread::spawn(move || {
                    let is_admitted = cache.admits_hot(&key, 200);
                    assert!(is_admitted);
                    *cache.exchange_at(key, (&places, 0), Arc::new(value), 200)
                })
            })
            .collect();
        let seen = cache.get_at((&places, 0), || key).map(|hit| *hit.block);
        let answers: Vec<u64> = readers
            .into_iter()
            .map(|reader| reader.join().expect("no panic"))
            .collect();
        assert_eq!(answers[0], answers[1]);
        assert!(seen == Some(1) || seen == Some(answers[0]));
        let by_number = cache.get_noted_at(&places, 0).map(|hit| *hit.block);
        assert_eq!(by_number, Some(answers[0]));
        assert_eq!(cache.get(&key).map(|value| *value), Some(answers[0]));
        let usage = cache.usage();
        assert_eq!(
            (usage.entries, usage.bytes),
            (1, 200 + ENTRY_OVERHEAD_BYTES)
        );
    });
}

/// Goal: a limit holds from the moment in which it was set, and the budget knows what is left. Method: two insertions beside
/// a limit that leaves room for one.
#[test]
fn loom_a_limit_holds_beside_insertions() {
    model(|| {
        let room = 100 + ENTRY_OVERHEAD_BYTES;
        let budget = MemoryBudget::new(1 << 20);
        let cache = BlockCache::with_budget(4 * room, 4 * room, &budget);
        let cache: Arc<BlockCache<u64>> = Arc::new(cache);
        let readers: Vec<_> = [0, 4096]
            .into_iter()
            .map(|offset| {
                let cache = Arc::clone(&cache);
                loom::thread::spawn(move || {
                    let value = cache.insert((FileId(1), offset), Arc::new(offset), 100);
                    assert_eq!(*value, offset);
                })
            })
            .collect();
        cache.set_limit(room);
        assert!(cache.usage().bytes <= room);
        for reader in readers {
            reader.join().expect("no panic");
        }
        let usage = cache.usage();
        assert!(usage.bytes <= room);
        assert_eq!(budget.of(Account::Cache), usage.bytes);
        assert_eq!(budget.used(), usage.bytes);
    });
}
