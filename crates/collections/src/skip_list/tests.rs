use kingtide_base::{EntryKind, KeyOrder, SeqNo};

use super::{HEIGHT_MAX, SkipList, height_of, relative_head};
use crate::arena::{Arena, ArenaPool, ArenaWriter, EntryOffset, NewEntry};

fn append(writer: &mut ArenaWriter, key: &[u8], sequence: u64) -> EntryOffset {
    writer
        .append(&NewEntry {
            sequence: SeqNo(sequence),
            previous: EntryOffset::NONE,
            kind: EntryKind::Put,
            expires_at: 0,
            key,
            value: &[],
        })
        .expect("the arena is large enough")
}

#[test]
fn heights_are_those_of_a_skip_list() {
    for capacity in [1_usize, 2, 3, 64, 100, 4096] {
        let heights: Vec<usize> = (1..=capacity)
            .map(|node| height_of(node, capacity))
            .collect();
        assert!(
            heights
                .iter()
                .all(|height| (1..=HEIGHT_MAX).contains(height))
        );
    }
    let mut counts = [0; HEIGHT_MAX + 1];
    for node in 1..=4096 {
        counts[height_of(node, 4096)] += 1;
    }
    assert_eq!(counts, [0, 3072, 768, 192, 48, 12, 3, 1]);
}

/// Goal: heads sort like keys, whatever the base. Method: all pairs of awkward keys, with each as the base.
#[test]
fn heads_sort_like_keys() {
    let mut keys: Vec<Vec<u8>> = vec![Vec::new(), vec![0], vec![0; 9], vec![0xff; 9], vec![0xff]];
    for text in [
        "user1",
        "user10",
        "user2",
        "user20000009",
        "user20000010",
        "u",
        "v",
        "userz",
    ] {
        keys.push(text.as_bytes().to_vec());
        keys.push([text.as_bytes(), &[0]].concat());
    }
    // Around the longest shared part that a head can express.
    for bytes in [0x7ffe, 0x7fff, 0x8000, 0x9000] {
        for last in [0, b'a', b'b', 0xff] {
            keys.push([&vec![b'a'; bytes][..], &[last]].concat());
        }
    }
    for base in &keys {
        for left in &keys {
            for right in &keys {
                let heads = relative_head(left, base).cmp(&relative_head(right, base));
                if heads.is_ne() {
                    assert_eq!(heads, left.cmp(right), "{left:?} {right:?} {base:?}");
                }
            }
        }
    }
    assert!(relative_head(b"user12", b"user99") < relative_head(b"user13", b"user99"));
}

#[cfg(not(loom))]
mod models {
    use std::{sync::Arc, thread};

    use super::*;
    use crate::testing::{ModelEntry, Random, orders, sort_model};

    /// The list and, sorted, what is in it.
    fn check(
        list: &SkipList,
        model: &mut [ModelEntry],
        arena: &Arena,
        order: &KeyOrder,
        random: &mut Random,
    ) {
        sort_model(model, order);
        let offset_of = |entry: &ModelEntry| EntryOffset(entry.age as u32);
        let wanted: Vec<EntryOffset> = model.iter().map(offset_of).collect();
        assert_eq!(list.offsets().collect::<Vec<_>>(), wanted);
        assert_eq!(list.len(), wanted.len());
        let mut backwards = Vec::new();
        let mut node = list.last();
        while node != 0 {
            backwards.push(list.offset(node));
            node = list.previous(node, arena, order);
        }
        backwards.reverse();
        assert_eq!(backwards, wanted);
        for _ in 0..50 {
            let key = random.key(80);
            let snapshot = SeqNo(random.below(12) as u64);
            let after = model.iter().find(|e| order.compare(&e.key, &key).is_ge());
            let found = list.offset(list.seek(&key, arena, order));
            assert_eq!(found, after.map(offset_of).unwrap_or_default());
            let before = model.iter().rfind(|e| order.compare(&e.key, &key).is_le());
            let found = list.offset(list.seek_for_previous(&key, arena, order));
            assert_eq!(found, before.map(offset_of).unwrap_or_default());
            let visible = model
                .iter()
                .find(|e| order.compare(&e.key, &key).is_eq() && e.sequence <= snapshot);
            let found = list.get(&key, snapshot, arena, order);
            assert_eq!(found, visible.map(offset_of).unwrap_or_default());
        }
    }

    /// Goal: the list is a sorted set of entries. Method: random insertions beside a sorted vector.
    #[test]
    fn is_like_a_sorted_vector() {
        for (number, order) in orders().into_iter().enumerate() {
            for capacity in [1, 2, 17, if cfg!(miri) { 30 } else { 300 }] {
                let mut random = Random::new(number as u64);
                let pool = ArenaPool::new(0);
                let (arena, mut writer) = Arena::new(&pool, 1 << 16);
                let list = SkipList::new(capacity);
                let mut model = Vec::new();
                check(&list, &mut model, &arena, &order, &mut random);
                for inserted in 0..capacity {
                    assert!(!list.is_full());
                    let key = random.key(80);
                    let sequence = random.below(10) as u64;
                    let offset = append(&mut writer, &key, sequence);
                    assert!(list.insert(offset, &arena, &order));
                    model.push(ModelEntry {
                        key,
                        sequence: SeqNo(sequence),
                        age: offset.0 as usize,
                        kind: EntryKind::Put,
                        expires_at: 0,
                        value: Vec::new(),
                    });
                    if inserted % 40 == 0 {
                        check(&list, &mut model, &arena, &order, &mut random);
                    }
                }
                check(&list, &mut model, &arena, &order, &mut random);
                assert!(list.is_full());
                let offset = append(&mut writer, b"one too many", 1);
                assert!(!list.insert(offset, &arena, &order));
                check(&list, &mut model, &arena, &order, &mut random);
            }
        }
    }

    /// Goal: a reader beside the writer sees a sorted list that only grows, and every entry it was told of. Method: a
    /// thread walks and seeks while another inserts.
    #[test]
    fn a_reader_beside_the_writer_sees_a_sorted_list() {
        const ENTRIES: usize = if cfg!(miri) { 100 } else { 4000 };
        let pool = ArenaPool::new(0);
        let (arena, mut writer) = Arena::new(&pool, 1 << 18);
        let list = Arc::new(SkipList::new(ENTRIES));
        let reader = {
            let (arena, list) = (Arc::clone(&arena), Arc::clone(&list));
            thread::spawn(move || {
                let order = KeyOrder::BYTEWISE;
                loop {
                    let len = list.len();
                    let keys: Vec<&[u8]> = list.offsets().map(|offset| arena.key(offset)).collect();
                    assert!(keys.len() >= len);
                    assert!(keys.is_sorted_by(|left, right| left < right));
                    for key in keys.iter().step_by(97) {
                        let node = list.seek(key, &arena, &order);
                        assert_eq!(arena.key(list.offset(node)), *key);
                        let before = list.previous(node, &arena, &order);
                        assert!(before == 0 || arena.key(list.offset(before)) < *key);
                    }
                    if len == ENTRIES {
                        return;
                    }
                }
            })
        };
        for number in 0..ENTRIES as u64 {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let offset = append(&mut writer, &key, number);
            assert!(list.insert(offset, &arena, &KeyOrder::BYTEWISE));
        }
        reader.join().expect("the reader found nothing wrong");
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use std::sync::Arc;

    use super::*;

    /// Goal: a node is seen whole or not at all, whatever level led to it, from the first one on. Method: all interleavings of
    /// insertions into an empty list, before and after the first, and a reader that seeks and walks; loom watches the
    /// arena's memory.
    #[test]
    fn loom_nodes_are_seen_whole() {
        loom::model(|| {
            let order = KeyOrder::BYTEWISE;
            let pool = ArenaPool::new(0);
            let (arena, mut writer) = Arena::new(&pool, 128);
            let list = Arc::new(SkipList::new(3));
            let reader = {
                let (arena, list, order) = (Arc::clone(&arena), Arc::clone(&list), order.clone());
                loom::thread::spawn(move || {
                    let key_of = |node| arena.key(list.offset(node));
                    let sought = list.seek(b"m", &arena, &order);
                    // The key was inserted first: there is no other at or after it without it.
                    assert!(sought == 0 || key_of(sought) == b"m");
                    let len = list.len();
                    let keys: Vec<&[u8]> = list.offsets().map(|offset| arena.key(offset)).collect();
                    assert!(keys.len() >= len);
                    assert!(keys.is_sorted_by(|left, right| left < right));
                    if keys.contains(&&b"z"[..]) {
                        assert_eq!(key_of(list.seek(b"n", &arena, &order)), b"z");
                        assert_eq!(key_of(list.last()), b"z");
                    }
                })
            };
            for key in [b"m", b"a", b"z"] {
                let offset = append(&mut writer, key, 1);
                assert!(list.insert(offset, &arena, &order));
            }
            reader.join().expect("no reader fails");
        });
    }
}
