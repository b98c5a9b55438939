use kingtide_base::{EntryKind, KeyOrder, SeqNo};

use super::HashIndex;
use crate::arena::{Arena, ArenaPool, ArenaWriter, EntryOffset, NewEntry};

fn append(writer: &mut ArenaWriter, key: &[u8], previous: EntryOffset) -> EntryOffset {
    writer
        .append(&NewEntry {
            sequence: SeqNo(1),
            previous,
            kind: EntryKind::Put,
            expires_at: 0,
            key,
            value: &[],
        })
        .expect("the arena is large enough")
}

/// Goal: the memory of an index counts as its slots are used, or as a whole if it was touched at once. Method: an
/// empty index of each kind, a large one and a small one.
#[cfg(not(any(loom, miri)))]
#[test]
fn memory_counts_when_it_is_touched() {
    const KEYS: usize = 1 << 20;
    assert_eq!(HashIndex::new(KEYS).touched_bytes(), 0);
    for keys in [KEYS, 1 << 10] {
        let touched = HashIndex::to_be_filled(keys, &ArenaPool::new(0));
        assert_eq!(touched.touched_bytes(), (2 * keys) * 8);
        assert!(touched.free_keys() >= keys);
    }
}

/// Goal: an index in memory that was used before is as empty as any other, and as large as it should be. Method: indexes
/// after one another from one pool, each filled; an arena between two of them.
#[cfg(not(any(loom, miri)))]
#[test]
fn memory_that_was_used_before_holds_no_keys() {
    const KEYS: usize = 5000;
    const BYTES: usize = 8192 * 8;
    let pool = ArenaPool::new(1);
    for round in 0..4 {
        let (arena, mut writer) = Arena::new(&pool, 1 << 20);
        let index = HashIndex::to_be_filled(KEYS, &pool);
        assert_eq!(index.touched_bytes(), BYTES);
        assert_eq!(index.used_keys(), 0);
        for number in 0..KEYS as u64 {
            let key = number.to_be_bytes();
            let hash = KeyOrder::BYTEWISE
                .hash(&key)
                .expect("byte order has hashes");
            let probe = index.probe(hash, &key, &arena, &KeyOrder::BYTEWISE);
            let probe = probe.expect("there is room");
            assert!(probe.newest.is_none(), "round {round}");
            let offset = append(&mut writer, &key, EntryOffset::NONE);
            index.publish(probe, hash, offset);
        }
        drop(index);
        assert!(pool.free_bytes() >= BYTES);
        if round == 2 {
            // Of the same capacity, so it takes that memory.
            let (arena, mut writer) = Arena::new(&pool, BYTES - 8);
            let offset = append(&mut writer, b"key", EntryOffset::NONE);
            assert_eq!(arena.key(offset), b"key");
        }
    }
}

#[cfg(not(loom))]
mod models {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::{Random, orders};

    /// Goal: the index gives the newest entry of every key and tells which one it replaced. Method: random insertions and
    /// look-ups beside a map, for every order with hashes, and with hashes so poor that tags and slots collide.
    #[test]
    fn finds_the_newest_entry_like_a_map() {
        for (number, order) in orders().into_iter().filter(KeyOrder::has_hash).enumerate() {
            for hash_mask in [u64::MAX, 0xff00_0000_0000_000f, 0] {
                let seed = number as u64;
                let mut random = Random::new(seed);
                let pool = ArenaPool::new(0);
                let (arena, mut writer) = Arena::new(&pool, 1 << 20);
                let index = HashIndex::new(300);
                let mut model: HashMap<u64, EntryOffset> = HashMap::new();
                for step in 0..if cfg!(miri) { 150 } else { 2000 } {
                    let key = random.key(290);
                    let canonical = order.hash(&key).expect("has hashes");
                    let hash = canonical & hash_mask;
                    let expected = model.get(&canonical).copied().unwrap_or_default();
                    let found = index.get(hash, &key, &arena, &order);
                    assert_eq!(found, expected, "{} seed {seed} step {step}", order.name());
                    if random.chance(2) {
                        let probe = index.probe(hash, &key, &arena, &order).expect("has room");
                        assert_eq!(probe.newest, expected);
                        let offset = append(&mut writer, &key, probe.newest);
                        index.publish(probe, hash, offset);
                        if random.chance(5) {
                            // Undone, it is as it was.
                            let free_keys = index.free_keys();
                            let probe = index.published(hash, offset, probe.newest);
                            index.undo(probe.expect("just published"), hash);
                            let was_new = expected.is_none();
                            assert_eq!(index.free_keys(), free_keys + usize::from(was_new));
                        } else {
                            model.insert(canonical, offset);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_table_takes_as_many_keys_as_asked_and_then_is_full() {
        for keys_max in [0, 1, 14, 15, 100, if cfg!(miri) { 101 } else { 4096 }] {
            let order = KeyOrder::BYTEWISE;
            let pool = ArenaPool::new(0);
            let (arena, mut writer) = Arena::new(&pool, 1 << 20);
            let index = HashIndex::new(keys_max);
            let room = index.free_keys();
            assert!(room >= keys_max);
            for number in 0..room {
                let key = number.to_le_bytes();
                let hash = order.hash(&key).expect("has hashes");
                let probe = index.probe(hash, &key, &arena, &order).expect("has room");
                let offset = append(&mut writer, &key, probe.newest);
                index.publish(probe, hash, offset);
            }
            assert_eq!(index.free_keys(), 0);
            // A full table still ends its probes.
            assert!(index.get(3, b"missing", &arena, &order).is_none());
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use std::sync::Arc;

    use super::*;

    /// Goal: who finds a slot finds its whole entry, and through it the older versions. Method: all interleavings of a
    /// writer that overwrites a key and adds another, and two look-ups; loom watches the arena's memory.
    #[test]
    fn loom_slots_publish_entries_and_chains() {
        loom::model(|| {
            let order = KeyOrder::BYTEWISE;
            let pool = ArenaPool::new(0);
            let (arena, mut writer) = Arena::new(&pool, 256);
            let index = Arc::new(HashIndex::new(4));
            // All keys meet in one slot with one tag.
            let put = |writer: &mut ArenaWriter, key: &[u8]| {
                let probe = index.probe(5, key, &arena, &order).expect("has room");
                let offset = append(writer, key, probe.newest);
                index.publish(probe, 5, offset);
            };
            put(&mut writer, b"a");
            let reader = {
                let (arena, index, order) = (Arc::clone(&arena), Arc::clone(&index), order.clone());
                loom::thread::spawn(move || {
                    let second = index.get(5, b"b", &arena, &order);
                    let mut newest = index.get(5, b"a", &arena, &order);
                    if !second.is_none() {
                        assert_eq!(arena.key(second), b"b");
                    }
                    let mut versions = 0;
                    while let Some(entry) = arena.entry(newest) {
                        assert_eq!(entry.key, b"a");
                        newest = entry.previous;
                        versions += 1;
                    }
                    assert!(newest.is_none());
                    assert!(versions == 1 || versions == 2);
                    if !second.is_none() {
                        assert_eq!(versions, 2);
                    }
                })
            };
            put(&mut writer, b"a");
            put(&mut writer, b"b");
            reader.join().expect("no reader fails");
        });
    }
}
