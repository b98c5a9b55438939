#[cfg(not(loom))]
use std::{sync::Arc, thread};

use kingtide_base::{EntryKind, SeqNo};

use super::{Arena, ArenaPool, EntryOffset, NewEntry, entry_bytes};

#[cfg(not(loom))]
use crate::testing::Random;
#[cfg(not(any(loom, miri)))]
use crate::{
    budget::{Account, MemoryBudget},
    pages::PageSize,
};

#[cfg(not(loom))]
const KINDS: [EntryKind; 3] = [EntryKind::Put, EntryKind::Delete, EntryKind::SingleDelete];

#[cfg(not(loom))]
fn bytes(random: &mut Random, end: usize) -> Vec<u8> {
    (0..random.below(end))
        .map(|_| random.number() as u8)
        .collect()
}

/// A put of the commit `sequence`, without an older version.
fn put<'a>(sequence: u64, key: &'a [u8], value: &'a [u8]) -> NewEntry<'a> {
    NewEntry {
        sequence: SeqNo(sequence),
        previous: EntryOffset::NONE,
        kind: EntryKind::Put,
        expires_at: 0,
        key,
        value,
    }
}

/// Goal: every entry reads back as it was written, for ever. Method: random entries, all compared after each append of a
/// sample and at the end.
#[cfg(not(loom))]
#[test]
fn entries_read_back_as_written() {
    for seed in 0..if cfg!(miri) { 1 } else { 8 } {
        let mut random = Random::new(seed);
        let pool = ArenaPool::new(1);
        let (arena, mut writer) = Arena::new(&pool, if cfg!(miri) { 4_000 } else { 40_000 });
        let mut model = Vec::new();
        loop {
            let (key, value) = (bytes(&mut random, 50), bytes(&mut random, 300));
            let entry = NewEntry {
                sequence: SeqNo(random.number()),
                previous: EntryOffset(random.number() as u32),
                kind: KINDS[random.below(3)],
                expires_at: if random.chance(2) {
                    0
                } else {
                    random.number() as i64
                },
                key: &key,
                value: &value,
            };
            let needed = entry_bytes(key.len(), value.len(), entry.expires_at != 0);
            let free = writer.free_bytes();
            let Some(offset) = writer.append(&entry) else {
                assert!(needed > free, "seed {seed}: {needed} of {free}");
                assert_eq!(writer.free_bytes(), free);
                break;
            };
            assert_eq!(writer.free_bytes(), free - needed);
            let read = arena.entry(offset).expect("just written");
            assert_eq!(read.previous, entry.previous);
            assert_eq!(read.following(), writer.tail());
            model.push((
                offset,
                entry.sequence,
                entry.kind,
                entry.expires_at,
                key,
                value,
            ));
        }
        assert!(model.len() > 100);
        for (offset, sequence, kind, expires_at, key, value) in &model {
            let read = arena.entry(*offset).expect("written");
            assert_eq!(read.offset, *offset);
            assert_eq!(
                (read.sequence, read.kind),
                (*sequence, *kind),
                "seed {seed}"
            );
            assert_eq!(
                (read.key, read.value),
                (&key[..], &value[..]),
                "seed {seed}"
            );
            assert_eq!(read.expires_at, *expires_at, "seed {seed}");
            assert_eq!(arena.key_and_sequence(*offset), (&key[..], *sequence));
        }
    }
}

/// Goal: no offset leads outside of what is published. Method: all offsets of an arena and those around its ends.
#[cfg(not(loom))]
#[test]
fn any_offset_is_safe() {
    let pool = ArenaPool::new(1);
    let (arena, mut writer) = Arena::new(&pool, 4096);
    let mut random = Random::new(3);
    for round in 0..if cfg!(miri) { 3 } else { 30 } {
        for offset in (0..600).chain([u32::MAX - 1, u32::MAX, 1 << 31]) {
            let offset = EntryOffset(offset);
            if let Some(entry) = arena.entry(offset) {
                assert!(entry.following() <= writer.tail(), "round {round}");
            }
            assert!(arena.key(offset).len() <= 4096);
        }
        assert!(arena.entry(EntryOffset::NONE).is_none());
        assert!(arena.entry(writer.tail()).is_none());
        let value: Vec<u8> = (0..100).map(|_| random.number() as u8).collect();
        // The value holds bytes that look like headers with every kind, to be met at offsets inside of entries.
        writer.append(&NewEntry {
            sequence: SeqNo(1),
            previous: EntryOffset(0x0100_0008),
            kind: EntryKind::Put,
            expires_at: 0x0100_0001,
            key: b"key",
            value: &value,
        });
    }
}

#[test]
fn entry_bytes_are_whole_units() {
    assert_eq!(entry_bytes(0, 0, false), 24);
    assert_eq!(entry_bytes(1, 0, false), 32);
    assert_eq!(entry_bytes(3, 5, true), 40);
    assert_eq!(entry_bytes(3, 6, true), 48);
    assert!(entry_bytes(8, usize::MAX, false) > usize::MAX / 2);
}

#[cfg(not(loom))]
#[test]
fn what_the_layout_cannot_express_is_refused() {
    let pool = ArenaPool::new(0);
    let (_, mut writer) = Arena::new(&pool, 64 << 20);
    let key = vec![0; 1 << 24];
    let entry = put(1, &key, &[]);
    assert_eq!(writer.append(&entry), None);
    let shorter = NewEntry {
        key: &key[1..],
        ..entry
    };
    assert!(writer.append(&shorter).is_some());
}

/// Goal: memory comes back to the pool when the last user is gone, up to the limit, and is used again. Method: count the
/// pool's free bytes.
#[cfg(not(loom))]
#[test]
fn the_pool_keeps_memory_of_each_size_up_to_its_limit() {
    let pool = ArenaPool::new(2);
    let make = |bytes| Arena::new(&pool, bytes);
    let (first, writer) = make(992);
    drop(writer);
    assert_eq!(pool.free_bytes(), 0);
    drop(first);
    assert_eq!(pool.free_bytes(), 1000);
    let (again, mut writer) = make(992);
    assert_eq!(pool.free_bytes(), 0);
    // What an earlier arena left in the memory is not visible.
    assert_eq!(again.published_bytes(), 0);
    assert!(again.entry(EntryOffset(1)).is_none());
    assert_eq!(writer.free_bytes(), 992);
    assert!(writer.append(&put(1, &[1; 992 - 24], &[])).is_some());
    assert_eq!(writer.free_bytes(), 0);
    let others = [make(992), make(992), make(500)];
    drop((again, writer));
    drop(others);
    assert_eq!(pool.free_bytes(), 2 * 1000 + 512);
    pool.clear();
    assert_eq!(pool.free_bytes(), 0);
}

/// Goal: an arena in huge pages counts those that it touched; the memory keeps its pages in the pool, and what was touched.
/// Method: entries of 1 MiB, and an arena that takes over the memory, though it asks for small pages.
#[cfg(not(any(loom, miri)))]
#[test]
fn huge_pages_count_as_a_whole() {
    const MIB: usize = 1 << 20;
    let budget = MemoryBudget::new(1 << 30);
    let pool = ArenaPool::with_budget(1, Arc::clone(&budget));
    let (arena, mut writer) = Arena::in_pages(&pool, 9 * MIB, PageSize::Huge);
    if !arena.is_huge() {
        // The system knows no huge pages.
        assert_eq!(arena.touched_bytes(), 8);
        return;
    }
    let value = vec![1; MIB - 64];
    let mut touched = vec![arena.touched_bytes()];
    for number in 1..=9_u64 {
        let key = number.to_be_bytes();
        let entry = put(number, &key, &value);
        assert!(writer.append(&entry).is_some());
        touched.push(arena.touched_bytes());
    }
    // What is behind the last whole page is in small ones.
    let behind = 9 * (MIB - 32) + 8;
    let wanted = [2, 2, 2, 4, 4, 6, 6, 8, 8].map(|mib| mib * MIB);
    assert_eq!(touched, [&wanted[..], &[behind]].concat());
    drop((arena, writer));
    assert_eq!(budget.of(Account::Kept), behind);
    let (again, _writer) = Arena::new(&pool, 9 * MIB);
    assert!(again.is_huge());
    assert_eq!(again.touched_bytes(), behind);
    assert_eq!(budget.used(), 0);
}

/// Goal: pages that are brought in ahead count, once, up to the end of the arena, and change nothing. Method: more and more of
/// an arena is asked for, from several threads at once, while entries are appended; then for all of it and more.
#[cfg(not(any(loom, miri)))]
#[test]
fn pages_that_are_brought_in_ahead_count() {
    const MIB: usize = 1 << 20;
    for (size, step) in [(PageSize::Small, 64 << 10), (PageSize::Huge, 2 * MIB)] {
        let pool = ArenaPool::with_budget(0, MemoryBudget::new(1 << 30));
        let (arena, mut writer) = Arena::in_pages(&pool, 5 * MIB, size);
        let step = if arena.is_huge() { step } else { 64 << 10 };
        arena.populate_ahead(0);
        arena.populate_ahead(1000);
        assert_eq!(arena.touched_bytes(), step);
        arena.populate_ahead(1000);
        assert_eq!(arena.touched_bytes(), step, "they are there");
        let value = vec![7; 100_000];
        for number in 1..=40_u64 {
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| arena.populate_ahead(200_000));
                }
                let key = number.to_be_bytes();
                let entry = put(number, &key, &value);
                let offset = writer.append(&entry).expect("there is room");
                assert_eq!(arena.entry(offset).expect("whole").value, value);
            });
            let ahead = arena.published_bytes() + 200_000;
            assert!(arena.touched_bytes() <= ahead.next_multiple_of(step) + step);
        }
        arena.populate_ahead(usize::MAX);
        assert_eq!(arena.touched_bytes(), 5 * MIB + 8);
        let mut at = EntryOffset(1);
        for number in 1..=40_u64 {
            let entry = arena.entry(at).expect("whole");
            assert_eq!((entry.sequence, entry.value), (SeqNo(number), &value[..]));
            at = entry.following();
        }
    }
}

/// Goal: readers see whole entries only. Method: a reader checks every entry it can reach while a writer appends.
#[cfg(not(loom))]
#[test]
fn a_reader_sees_only_whole_entries() {
    const ENTRIES: u64 = if cfg!(miri) { 200 } else { 5000 };
    let pool = ArenaPool::new(0);
    let (arena, mut writer) = Arena::new(&pool, 1 << 20);
    let reader = Arc::clone(&arena);
    let checker = thread::spawn(move || {
        let mut offset = EntryOffset(1);
        let mut count = 0_u64;
        while count < ENTRIES {
            let Some(entry) = reader.entry(offset) else {
                thread::yield_now();
                continue;
            };
            assert_eq!(entry.sequence, SeqNo(count));
            assert_eq!(entry.key, count.to_be_bytes());
            assert!(entry.value.iter().all(|byte| *byte == count as u8));
            assert_eq!(entry.value.len() as u64, count % 90);
            offset = entry.following();
            count += 1;
        }
    });
    for count in 0..ENTRIES {
        let value = [count as u8; 90];
        writer
            .append(&put(
                count,
                &count.to_be_bytes(),
                &value[..(count % 90) as usize],
            ))
            .expect("1 MiB holds them");
    }
    checker.join().expect("the reader found nothing wrong");
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;

    /// Goal: the published length publishes the bytes below it. Method: all interleavings of two appends and a reader;
    /// loom watches the memory itself through the arena's shadow cells.
    #[test]
    fn loom_published_entries_are_whole() {
        loom::model(|| {
            let pool = ArenaPool::new(0);
            let (arena, mut writer) = Arena::new(&pool, 128);
            let reader = loom::thread::spawn(move || {
                let mut offset = EntryOffset(1);
                let mut count = 0;
                while let Some(entry) = arena.entry(offset) {
                    count += 1;
                    assert_eq!(entry.sequence, SeqNo(count));
                    offset = entry.following();
                }
                assert!(count <= 2);
            });
            for sequence in 1..=2 {
                writer.append(&put(sequence, b"key", b"value"));
            }
            reader.join().expect("no reader fails");
        });
    }
}
