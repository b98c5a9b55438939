//! Range deletes in tables: what a table says of its keys, and what is damage.

use std::sync::Arc;

use kingtide_base::{
    Fragments, KeyOrder, RangeTombstone, SeqNo, StorageError, limits::KEY_BYTES_MAX,
};
use kingtide_env::OpenMode;
use kingtide_format::{CodecId, TableMeta};

use super::model::{Entry, World, cache};
use crate::{CursorUse, LevelCursor, Table, TableBuilder, TableCache, TableSettings, klog_name};
use kingtide_base::{Cursor, FileId};

const ORDER: KeyOrder = KeyOrder::BYTEWISE;

fn ranges(tombstones: &[(&[u8], &[u8], u64)]) -> Fragments {
    let tombstones = tombstones
        .iter()
        .map(|(start, end, sequence)| RangeTombstone {
            start,
            end,
            sequence: SeqNo(*sequence),
        });
    Fragments::build(&ORDER, tombstones, &[])
}

fn build(world: &World, id: u64, keys: &[&[u8]], ranges: Fragments) -> (TableMeta, Arc<Table>) {
    let file = world
        .directory
        .open(&klog_name(FileId(id)), OpenMode::CreateNew)
        .expect("a new name");
    let settings = TableSettings {
        block_bytes: 256,
        codec: CodecId::Lz4,
        filter_fpr: Some(0.01),
        order: ORDER,
    };
    let mut builder = TableBuilder::new(file, FileId(id), settings);
    for key in keys {
        let entry = Entry::put(key, 5, b"value");
        builder.add(&entry.borrowed()).expect("no faults");
    }
    builder.set_ranges(ranges);
    let meta = builder.finish().expect("no faults");
    let table = world.open(&meta, &ORDER).expect("intact");
    (meta, table)
}

#[test]
fn keys_and_numbers_reach_as_far_as_the_range_deletes() {
    let world = World::new();
    let all = ranges(&[(b"a", b"d", 9), (b"c", b"f", 3)]);
    let (meta, table) = build(&world, 1, &[b"b", b"e"], all.clone());
    assert_eq!((&*meta.smallest, &*meta.largest), (&b"a"[..], &b"f"[..]));
    assert!(meta.is_largest_excluded);
    assert_eq!((meta.sequence_min, meta.sequence_max), (SeqNo(3), SeqNo(9)));
    assert_eq!((meta.entries, meta.range_deletes), (2, 4));
    assert_eq!(meta.oldest_tombstone.sequence, SeqNo(3));
    assert_eq!(**table.ranges(), all);
    assert_eq!(table.range_cover(b"c", SeqNo::MAX), SeqNo(9));
    assert_eq!(table.range_cover(b"c", SeqNo(8)), SeqNo(3));
    assert_eq!(table.range_cover(b"f", SeqNo::MAX), SeqNo::ZERO);
    table.verify(&mut |_| {}).expect("intact");

    let (meta, _) = build(&world, 2, &[b"a", b"f"], ranges(&[(b"b", b"f", 9)]));
    assert_eq!((&*meta.smallest, &*meta.largest), (&b"a"[..], &b"f"[..]));
    assert!(!meta.is_largest_excluded);
}

#[test]
fn a_table_may_hold_range_deletes_alone() {
    let world = World::new();
    let (meta, table) = build(&world, 1, &[], ranges(&[(b"b", b"d", 9)]));
    assert_eq!((meta.entries, meta.range_deletes), (0, 1));
    assert_eq!((meta.sequence_min, meta.sequence_max), (SeqNo(9), SeqNo(9)));
    assert!(
        table
            .get(b"c", ORDER.hash(b"c"), SeqNo::MAX, &cache())
            .expect("intact")
            .is_none()
    );
    let mut cursor = table.cursor(&cache(), CursorUse::Scan);
    cursor.seek_first().expect("intact");
    assert!(!cursor.is_valid());
    table.verify(&mut |_| {}).expect("intact");
}

#[test]
fn the_end_behind_the_longest_key_is_that_key() {
    let world = World::new();
    let longest = vec![0xff; KEY_BYTES_MAX];
    let end = [&longest[..], &[0]].concat();
    let (meta, table) = build(&world, 1, &[b"b"], ranges(&[(b"a", &end, 9)]));
    assert_eq!(meta.largest, longest);
    assert!(!meta.is_largest_excluded);
    assert_eq!(table.range_cover(&longest, SeqNo::MAX), SeqNo(9));
}

/// Goal: a level whose tables touch, the end of a range delete being the first key of the next table, is walked whole.
#[test]
fn levels_are_walked_over_tables_that_touch() {
    let world = World::new();
    /// Keys, start and end of a range delete.
    type Part<'a> = (&'a [&'a [u8]], &'a [u8], &'a [u8]);
    let parts: [Part<'_>; 3] = [
        (&[b"a", b"b"], b"b", b"d"),
        (&[], b"d", b"f"),
        (&[b"f", b"g"], b"g", b"k"),
    ];
    let metas: Vec<Arc<TableMeta>> = (1..)
        .zip(parts)
        .map(|(id, (keys, start, end))| {
            Arc::new(build(&world, id, keys, ranges(&[(start, end, 9)])).0)
        })
        .collect();
    let tables = Arc::new(TableCache::new(Arc::clone(&world.directory), 4));
    let mut cursor = LevelCursor::new(Arc::new(metas), tables, cache(), ORDER, CursorUse::Read);
    for target in [&b"c"[..], b"d", b"e", b"f"] {
        cursor.seek(target).expect("intact");
        assert_eq!(cursor.key(), b"f", "{target:?}");
        cursor.prev().expect("intact");
        assert_eq!(cursor.key(), b"b", "{target:?}");
        cursor.seek_for_prev(target).expect("intact");
        let wanted: &[u8] = if target == b"f" { b"f" } else { b"b" };
        assert_eq!(cursor.key(), wanted, "{target:?}");
    }
}

/// Goal: any changed byte of a file with range deletes is noticed. Method: change each, open and verify.
#[test]
fn every_damaged_byte_is_noticed() {
    let world = World::new();
    let (meta, _) = build(
        &world,
        1,
        &[b"b", b"e"],
        ranges(&[(b"a", b"d", 9), (b"c", b"f", 3)]),
    );
    let whole = world.env.read_file(World::path(meta.file)).expect("there");
    for index in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[index] ^= 0x40;
        world
            .env
            .write_file(World::path(meta.file), &bytes)
            .expect("no faults");
        let outcome = world
            .open(&meta, &ORDER)
            .and_then(|table| table.verify(&mut |_| {}));
        assert!(
            matches!(outcome, Err(StorageError::Corruption(_))),
            "byte {index}"
        );
    }
}
