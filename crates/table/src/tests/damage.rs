//! Damaged, misplaced and newer files: the right answer or an error, never a wrong answer.

use std::sync::Arc;

use kingtide_base::{
    Cursor, FileId, KeyOrder, SeqNo, StorageError, StorageResult, checksum, checksum_mix,
};
use kingtide_format::klog::{KLOG_FOOTER_BYTES, KLOG_VERSION, KlogFooter};
use kingtide_format::{CodecId, TableMeta};

use super::model::{Entry, Random, World, cache};
use crate::{CursorUse, Table, TableSettings};

/// A few small blocks with every kind of column.
fn small_entries() -> Vec<Entry> {
    let mut random = Random(5);
    let mut entries: Vec<Entry> = (0..30)
        .map(|i| {
            let key = format!("key/{i:04}");
            let mut entry = Entry::put(key.as_bytes(), 1 + random.next() % 1000, &[i as u8; 24]);
            if i % 7 == 0 {
                entry.expires_at = 1_900_000_000 + i;
            }
            if i % 5 == 0 {
                entry.kind = kingtide_base::EntryKind::Delete;
                entry.value = super::model::Value::Inline(Vec::new());
            }
            entry
        })
        .collect();
    entries[3].value = super::model::Value::Separated(kingtide_base::ValuePointer {
        file: FileId(2),
        offset: 32,
        record_bytes: 700,
        value_bytes: 675,
    });
    entries
}

fn settings(codec: CodecId) -> TableSettings {
    TableSettings {
        block_bytes: 400,
        codec,
        filter_fpr: Some(0.01),
        order: KeyOrder::BYTEWISE,
    }
}

/// Refused, or right; says which. Anything else fails the test.
fn check_answer<T>(answer: StorageResult<T>, is_right: impl FnOnce(&T) -> bool) -> bool {
    match answer {
        Ok(answer) => {
            assert!(is_right(&answer));
            true
        }
        Err(StorageError::Corruption(_)) => false,
        Err(other) => panic!("neither right nor corruption: {other}"),
    }
}

fn read_all(table: &Arc<Table>, cursor_use: CursorUse) -> StorageResult<Vec<Entry>> {
    let mut cursor = table.cursor(&cache(), cursor_use);
    let mut entries = Vec::new();
    cursor.seek_first()?;
    while cursor.is_valid() {
        entries.push(Entry::at(&mut cursor)?);
        cursor.next()?;
    }
    Ok(entries)
}

/// Reads everything in every way from a file with these bytes; true when no read noticed anything.
fn read_everything(world: &World, meta: &TableMeta, bytes: &[u8], entries: &[Entry]) -> bool {
    world
        .env
        .write_file(World::path(meta.file), bytes)
        .expect("a world without faults");
    let order = KeyOrder::BYTEWISE;
    let table = match world.open(meta, &order) {
        Ok(table) => table,
        Err(StorageError::Corruption(_)) => return false,
        Err(other) => panic!("not corruption: {other}"),
    };
    let cache = cache();
    let mut is_clean = true;
    for entry in entries {
        let answer = table.get(&entry.key, order.hash(&entry.key), SeqNo::MAX, &cache);
        is_clean &= check_answer(answer, |found| {
            found.as_ref().is_some_and(|found| entry.is(found))
        });
    }
    for cursor_use in [CursorUse::Read, CursorUse::Scan] {
        is_clean &= check_answer(read_all(&table, cursor_use), |found| found == entries);
    }
    is_clean & check_answer(table.verify(&mut |_| {}), |()| true)
}

/// Goal: no single damaged byte gives a wrong answer, and none escapes `verify`. Method: every byte, changed in three
/// ways, then all reads.
#[test]
fn every_damaged_byte_is_noticed() {
    let entries = small_entries();
    for codec in [CodecId::None, CodecId::Lz4] {
        let world = World::new();
        let meta = world.build(FileId(3), &settings(codec), &entries);
        let whole = world.env.read_file(World::path(meta.file)).expect("there");
        assert!(read_everything(&world, &meta, &whole, &entries));
        for at in 0..whole.len() {
            for change in [|byte| byte ^ 1, |byte| byte ^ 0x80, |_| 0_u8] {
                let mut bytes = whole.clone();
                bytes[at] = change(bytes[at]);
                if bytes != whole {
                    let is_clean = read_everything(&world, &meta, &bytes, &entries);
                    assert!(!is_clean, "{codec:?}, byte {at} of {}", whole.len());
                }
            }
        }
    }
}

#[test]
fn every_truncation_is_noticed() {
    let entries = small_entries();
    let world = World::new();
    let meta = world.build(FileId(3), &settings(CodecId::Lz4), &entries);
    let whole = world.env.read_file(World::path(meta.file)).expect("there");
    for length in 0..whole.len() {
        assert!(!read_everything(&world, &meta, &whole[..length], &entries));
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(!read_everything(&world, &meta, &longer, &entries));
}

/// Goal: an intact block in the wrong place is refused. Method: blocks of equal length change places within one file,
/// and between two files that differ in nothing but their id.
#[test]
fn misplaced_blocks_are_refused() {
    // Equal lengths of everything make blocks of equal length.
    let entries: Vec<Entry> = (0..40)
        .map(|i| Entry::put(format!("key/{i:04}").as_bytes(), 7, &[1; 30]))
        .collect();
    let world = World::new();
    let settings = settings(CodecId::None);
    let meta = world.build(FileId(3), &settings, &entries);
    let other = world.build(FileId(4), &settings, &entries);
    let order = KeyOrder::BYTEWISE;
    let table = world.open(&meta, &order).expect("intact");
    let extents: Vec<_> = (0..table.fences.blocks())
        .map(|index| table.fences.extent(index))
        .map(|extent| extent.start as usize..extent.end as usize)
        .collect();
    let pair = extents
        .windows(2)
        .find(|pair| pair[0].len() == pair[1].len());
    let [first, second] = pair.expect("neighbours of equal length") else {
        unreachable!("windows of two");
    };
    let (first, second) = (first.clone(), second.clone());
    let whole = world.env.read_file(World::path(meta.file)).expect("there");
    let foreign = world.env.read_file(World::path(other.file)).expect("there");

    let mut swapped = whole.clone();
    swapped[first.clone()].copy_from_slice(&whole[second.clone()]);
    swapped[second].copy_from_slice(&whole[first.clone()]);
    assert!(!read_everything(&world, &meta, &swapped, &entries));

    let mut mixed = whole.clone();
    mixed[first.clone()].copy_from_slice(&foreign[first]);
    assert!(!read_everything(&world, &meta, &mixed, &entries));

    assert!(!read_everything(&world, &meta, &foreign, &entries));
}

/// Goal: a newer file is told from a damaged one. Method: the version raised and the checksum made right.
#[test]
fn newer_versions_are_refused_as_such() {
    let world = World::new();
    let mut meta = world.build(FileId(3), &settings(CodecId::Lz4), &small_entries());
    let mut bytes = world.env.read_file(World::path(meta.file)).expect("there");
    let tail = bytes.len() - 24;
    bytes[tail + 8] = KLOG_VERSION as u8 + 1;
    let footer_offset = bytes.len() - KLOG_FOOTER_BYTES;
    let mut covered = bytes[footer_offset..tail].to_vec();
    covered.extend_from_slice(&bytes[tail + 8..]);
    let sum = checksum(&covered, checksum_mix(3, footer_offset as u64));
    bytes[tail..tail + 8].copy_from_slice(&sum.to_le_bytes());
    meta.footer_checksum = sum;
    world
        .env
        .write_file(World::path(meta.file), &bytes)
        .expect("a world without faults");
    let answer = world.open(&meta, &KeyOrder::BYTEWISE);
    assert!(matches!(
        answer,
        Err(StorageError::NewerVersion { found, supported, .. })
            if found == KLOG_VERSION + 1 && supported == KLOG_VERSION
    ));
    assert_eq!(KlogFooter::TAIL.version, 5);
}

#[test]
fn a_table_of_another_meta_or_order_is_refused() {
    let world = World::new();
    let meta = world.build(FileId(3), &settings(CodecId::Lz4), &small_entries());
    let open = |meta: &TableMeta, order: &KeyOrder| world.open(meta, order).map(|_| ());
    let order = KeyOrder::BYTEWISE;
    assert!(open(&meta, &order).is_ok());
    let other = super::model::order_named("reverse_memcmp");
    assert!(open(&meta, &other).is_err());
    let mut changed = meta.clone();
    changed.footer_checksum ^= 1;
    assert!(open(&changed, &order).is_err());
    let mut changed = meta.clone();
    changed.entries += 1;
    assert!(open(&changed, &order).is_err());
    let mut changed = meta.clone();
    changed.file_bytes += 1;
    assert!(open(&changed, &order).is_err());
}

/// Goal: an error names the file, the offset and both checksums, so that an operator finds the damage.
#[test]
fn corruption_says_where_it_is() {
    let entries = small_entries();
    let world = World::new();
    let meta = world.build(FileId(3), &settings(CodecId::Lz4), &entries);
    let order = KeyOrder::BYTEWISE;
    let table = world.open(&meta, &order).expect("intact");
    let offset = table.fences.extent(1).start;
    assert!(
        world
            .env
            .corrupt(World::path(meta.file), offset + 20, |byte| *byte ^= 4)
    );
    let Err(StorageError::Corruption(corruption)) = table.verify(&mut |_| {}) else {
        panic!("damage must be noticed");
    };
    assert_eq!(corruption.file, "klog/000003.klog");
    assert_eq!(corruption.offset, offset);
    assert_eq!(corruption.what, "block checksum");
    assert_ne!(corruption.expected, corruption.found);
}

/// Goal: repair gets everything that is whole, in order, and learns what is not. Method: each block damaged in turn.
#[test]
fn salvage_leaves_out_damaged_blocks_only() {
    let entries = small_entries();
    let world = World::new();
    let meta = world.build(FileId(3), &settings(CodecId::Lz4), &entries);
    let order = KeyOrder::BYTEWISE;
    let whole = world.env.read_file(World::path(meta.file)).expect("there");
    let table = world.open(&meta, &order).expect("intact");
    let blocks = table.fences.blocks();
    let mut left_out = 0;
    for damaged in 0..blocks {
        let offset = table.fences.extent(damaged).start;
        let path = World::path(meta.file);
        assert!(world.env.corrupt(&path, offset + 30, |byte| *byte ^= 1));
        let mut kept = Vec::new();
        let damage = table
            .salvage(&mut |entry| {
                kept.push(entry.key.to_vec());
                Ok(())
            })
            .expect("no faults");
        assert_eq!(damage.len(), 1);
        assert_eq!(damage[0].offset, offset);
        let mut at = kept.iter();
        let lost = entries.iter().filter(|entry| {
            let is_kept = at.as_slice().first() == Some(&entry.key);
            if is_kept {
                at.next();
            }
            !is_kept
        });
        left_out += lost.count();
        assert!(at.as_slice().is_empty(), "in order, and nothing else");
        world.env.write_file(&path, &whole).expect("no faults");
    }
    assert_eq!(left_out, entries.len(), "each block is left out once");
}
