//! Values of a cursor that decompresses no more than it is asked for.

use std::sync::Arc;

use kingtide_base::{Cursor, FileId, KeyOrder};
use kingtide_collections::BlockCache;
use kingtide_format::CodecId;

use super::model::{Entry, Random, World, cache};
use crate::builder::TableSettings;
use crate::cursor::CursorUse;
use crate::table::Table;

fn table_of(entries: &[Entry], codec: CodecId, block_bytes: usize) -> Arc<Table> {
    let settings = TableSettings {
        block_bytes,
        codec,
        filter_fpr: None,
        order: KeyOrder::BYTEWISE,
    };
    let world = World::new();
    let meta = world.build(FileId(3), &settings, entries);
    let table = world.open(&meta, &KeyOrder::BYTEWISE);
    table.expect("the table was just written")
}

/// A cache that is off, and so has no room for raw values.
fn no_cache() -> Arc<BlockCache<crate::Block>> {
    Arc::new(BlockCache::new(0))
}

/// Goal: every value is the entry's own, whatever was asked for before: values asked for twice, alone, in a row or not at
/// all, after seeks within a block, to others and back, with and without compression. Method: random walks over values
/// that differ in length and compress well, so that both ways of decompressing are taken, and with a cache that keeps them
/// raw.
#[test]
fn values_are_those_of_the_entry_in_any_order_of_asking() {
    let entries: Vec<Entry> = (0..400_u64)
        .map(|number| {
            let byte = (number % 251) as u8;
            let mut value = number.to_be_bytes().to_vec();
            value.resize(20 + (number as usize * 7) % 90, byte);
            Entry::put(format!("key{number:05}").as_bytes(), number + 1, &value)
        })
        .collect();
    for codec in [CodecId::None, CodecId::Lz4, CodecId::Zstd] {
        let table = table_of(&entries, codec, 1000);
        for seed in 0..20 {
            eprintln!("codec {codec:?}, seed {seed}");
            let random = &mut Random(seed);
            let cache = if seed % 2 == 0 { cache() } else { no_cache() };
            let mut cursor = table.cursor(&cache, CursorUse::Read);
            let mut at: Option<usize> = None;
            for _ in 0..300 {
                at = match (at, random.below(4)) {
                    (Some(at), 0) if at + 1 < entries.len() => {
                        cursor.next().expect("intact");
                        Some(at + 1)
                    }
                    (Some(at), 1) if at > 0 => {
                        cursor.prev().expect("intact");
                        Some(at - 1)
                    }
                    (Some(at), 2) => {
                        let near = (at + random.below(9)).saturating_sub(4);
                        let near = near.min(entries.len() - 1);
                        cursor.seek(&entries[near].key).expect("intact");
                        Some(near)
                    }
                    _ => {
                        let far = random.below(entries.len());
                        cursor.seek(&entries[far].key).expect("intact");
                        Some(far)
                    }
                };
                let expected = &entries[at.expect("every arm has a place")];
                assert_eq!(cursor.key(), expected.key);
                for _ in 0..random.below(3) {
                    assert_eq!(Entry::at(&mut cursor).expect("intact"), *expected);
                }
            }
        }
    }
}

/// Goal: a jump decompresses one value, a walk the columns that it goes through. Method: two values of one block, which take
/// its column; then the next block by a step, and one far away by a seek.
#[test]
fn a_jump_decompresses_one_value_again() {
    let entries: Vec<Entry> = (0..100_u64)
        .map(|number| {
            let mut value = number.to_be_bytes().to_vec();
            value.resize(100, number as u8);
            Entry::put(format!("key{number:05}").as_bytes(), number + 1, &value)
        })
        .collect();
    let table = table_of(&entries, CodecId::Lz4, 1100);
    let mut cursor = table.cursor(&no_cache(), CursorUse::Read);
    cursor.seek(&entries[0].key).expect("intact");
    let mut seen = Vec::new();
    for entry in &entries[..30] {
        assert_eq!(Entry::at(&mut cursor).expect("intact"), *entry);
        seen.push(cursor.decompressed_bytes());
        cursor.next().expect("intact");
    }
    assert_eq!(seen[0], 100);
    assert!(seen[1..].iter().all(|bytes| *bytes > 100), "{seen:?}");
    for far in [90, 45] {
        cursor.seek(&entries[far].key).expect("intact");
        assert_eq!(Entry::at(&mut cursor).expect("intact"), entries[far]);
        assert_eq!(cursor.decompressed_bytes(), 100);
    }
}
