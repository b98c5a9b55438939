//! Tables whose blocks are compressed with a dictionary: that they show the same, what it saves, and what damage costs.

use std::sync::Arc;

use kingtide_base::{Cursor, FamilyId, FileId, KeyOrder, SeqNo, StorageError, checksum};
use kingtide_collections::BlockCache;
use kingtide_format::block::{BlockDictionary, BlockPlace};
use kingtide_format::klog::{KLOG_VERSION, KLOG_VERSION_CONTENT, dump_klog};
use kingtide_format::{CodecId, TableMeta};

use super::model::{Entry, Random, World, cache};
use crate::scan::{ScannedTable, ScannedValue};
use crate::{CursorUse, Table, TableSettings, klog_name};

const FILE: FileId = FileId(3);
const SNAPSHOT: SeqNo = SeqNo(1 << 40);

/// Entries whose values resemble those of other blocks, and not those of their own.
fn phrases(count: usize) -> Vec<Entry> {
    let mut random = Random(3);
    let phrases: Vec<_> = (0..50).map(|_| random.bytes(80)).collect();
    let entry = |number: usize| {
        let mut value = phrases[number % phrases.len()].clone();
        value.extend_from_slice(&random.bytes(4));
        Entry::put(
            format!("key{number:06}").as_bytes(),
            1 + number as u64,
            &value,
        )
    };
    (0..count).map(entry).collect()
}

/// Entries whose values have nothing in common.
fn noise(count: usize) -> Vec<Entry> {
    let mut random = Random(4);
    let entry = |number: usize| {
        let key = format!("key{number:06}");
        Entry::put(key.as_bytes(), 1 + number as u64, &random.bytes(84))
    };
    (0..count).map(entry).collect()
}

fn settings(codec: CodecId) -> TableSettings {
    TableSettings {
        block_bytes: 4096,
        codec,
        filter_fpr: Some(0.01),
        order: KeyOrder::BYTEWISE,
    }
}

fn build(world: &World, codec: CodecId, entries: &[Entry]) -> (TableMeta, Arc<Table>) {
    let meta = world.build_of(Some(FamilyId(2)), FILE, &settings(codec), entries);
    let table = world
        .open(&meta, &KeyOrder::BYTEWISE)
        .expect("just written");
    (meta, table)
}

fn check_shows(table: &Arc<Table>, cache: &Arc<BlockCache<crate::Block>>, entries: &[Entry]) {
    let mut random = Random(9);
    for _ in 0..200 {
        let entry = &entries[random.below(entries.len())];
        let found = table
            .get(&entry.key, None, SNAPSHOT, cache)
            .expect("intact");
        assert!(entry.is(&found.expect("there")));
        let mut cursor = table.cursor(cache, CursorUse::Read);
        cursor.seek(&entry.key).expect("intact");
        assert_eq!(Entry::at(&mut cursor).expect("intact"), *entry);
    }
    for cursor_use in [CursorUse::Read, CursorUse::Scan] {
        let mut cursor = table.cursor(cache, cursor_use);
        cursor.seek_first().expect("intact");
        for entry in entries {
            assert_eq!(Entry::at(&mut cursor).expect("intact"), *entry);
            cursor.next().expect("intact");
        }
        assert!(!cursor.is_valid());
    }
    table.verify(&mut |_| {}).expect("whole");
    let mut salvaged = 0;
    let damages = table.salvage(&mut |entry| {
        assert_eq!(*entry, entries[salvaged].borrowed());
        salvaged += 1;
        Ok(())
    });
    assert_eq!(
        (damages.expect("no faults").len(), salvaged),
        (0, entries.len())
    );
}

/// Goal: a table with a dictionary shows what one without does, in every way of reading, whether its blocks stay in the cache or
/// not; and it is shorter.
#[test]
fn tables_with_a_dictionary_show_the_same_and_are_shorter() {
    let entries = phrases(4000);
    for codec in [CodecId::Lz4, CodecId::Lz4Fast] {
        let (meta, table) = build(&World::new(), codec, &entries);
        assert_eq!(table.footer.version, KLOG_VERSION);
        assert!(meta.file_bytes * 2 < 4000 * 100, "{}", meta.file_bytes);
        check_shows(&table, &cache(), &entries);
        let (_, table) = build(&World::new(), codec, &entries);
        check_shows(&table, &Arc::new(BlockCache::new(0)), &entries);
    }
}

/// Goal: where a dictionary saves little, or the codec knows none, there is none, and the table is of the version before.
#[test]
fn tables_without_a_dictionary_have_the_version_before() {
    let cases = [
        (CodecId::Lz4, noise(4000)),
        (CodecId::Lz4, phrases(300)),
        (CodecId::Zstd, phrases(4000)),
        (CodecId::None, phrases(4000)),
    ];
    for (codec, entries) in cases {
        let (_, table) = build(&World::new(), codec, &entries);
        assert_eq!(table.footer.version, KLOG_VERSION_CONTENT, "{codec:?}");
        check_shows(&table, &cache(), &entries);
    }
}

/// Goal: a table of no family has no dictionary: its properties have no place for the copy.
#[test]
fn tables_of_no_family_have_no_dictionary() {
    let (world, entries) = (World::new(), phrases(4000));
    let meta = world.build(FILE, &settings(CodecId::Lz4), &entries);
    let table = world
        .open(&meta, &KeyOrder::BYTEWISE)
        .expect("just written");
    assert_eq!(table.footer.version, KLOG_VERSION_CONTENT);
}

/// Goal: the memory of a dictionary is counted as that of its table.
#[test]
fn dictionaries_are_counted_as_memory_of_their_table() {
    let (_, with) = build(&World::new(), CodecId::Lz4, &phrases(4000));
    let (_, without) = build(&World::new(), CodecId::Zstd, &phrases(4000));
    let more = with.memory_bytes() - without.memory_bytes();
    let dictionary = BlockDictionary::BYTES_MAX;
    assert!((dictionary..dictionary + 4096).contains(&more), "{more}");
}

/// A table with a dictionary, in a file that is then changed, with the checksum of its first block made right if `is_forged`.
fn changed(
    entries: &[Entry],
    is_forged: bool,
    change: impl FnOnce(&mut Vec<u8>),
) -> (World, TableMeta) {
    let world = World::new();
    let (meta, table) = build(&world, CodecId::Lz4, entries);
    let mut bytes = world.env.read_file(World::path(FILE)).expect("there");
    change(&mut bytes);
    if is_forged {
        let place = BlockPlace {
            file: FILE,
            offset: 0,
        };
        let end = table.fences.extent(0).end as usize;
        let sum = checksum(&bytes[8..end], place.seed());
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
    }
    world
        .env
        .write_file(World::path(FILE), &bytes)
        .expect("no faults");
    (world, meta)
}

/// Goal: damage costs the block that it is in, also where the dictionary is made of that block: there is a copy.
#[test]
fn damage_to_a_block_of_the_dictionary_costs_that_block() {
    let entries = phrases(4000);
    for offset in [300, 90_000] {
        let (world, meta) = changed(&entries, false, |bytes| bytes[offset] ^= 1);
        let table = world
            .open(&meta, &KeyOrder::BYTEWISE)
            .expect("its sections are whole");
        let mut lost = 0;
        for entry in &entries {
            match table.get(&entry.key, None, SNAPSHOT, &cache()) {
                Ok(found) => assert!(entry.is(&found.expect("there"))),
                Err(StorageError::Corruption(_)) => lost += 1,
                Err(other) => panic!("neither right nor corruption: {other}"),
            }
        }
        assert!((1..50).contains(&lost), "{lost}");
        let mut kept = 0;
        let damages = table.salvage(&mut |_| {
            kept += 1;
            Ok(())
        });
        assert_eq!(damages.expect("no faults").len(), 1);
        assert_eq!(kept, entries.len() - lost);
        assert!(table.verify(&mut |_| {}).is_err());
    }
}

/// The numbers of the entries that a scan finds, and how many damages may hold entries.
fn scanned(world: &World, entries: &[Entry]) -> (Vec<usize>, usize) {
    let mode = kingtide_env::OpenMode::Read;
    let open = || world.directory.open(&klog_name(FILE), mode).expect("there");
    let scanned = ScannedTable::scan(&*open(), klog_name(FILE), FILE).expect("no faults");
    let damages = scanned.damages.iter();
    let damaged = damages.filter(|damage| damage.may_hold_entries).count();
    let mut walk = Arc::new(scanned).entries(open());
    let mut found = Vec::new();
    while let Some(entry) = walk.step().expect("not changed since") {
        let number = std::str::from_utf8(&entry.key[3..]).expect("a number");
        let number: usize = number.parse().expect("a number");
        let ScannedValue::Inline(value) = entry.value else {
            panic!("no value is separated");
        };
        assert_eq!(
            entries[number],
            Entry::put(&entry.key, entry.sequence.0, &value)
        );
        found.push(number);
    }
    assert!(found.is_sorted());
    (found, damaged)
}

/// Goal: a scan has the dictionary from the copy or from the first blocks, whichever is whole; only when neither is, blocks that use
/// it are reported as damage. Method: a table without its end; one with a byte changed in its first block; both.
#[test]
fn scans_have_the_dictionary_from_either_place() {
    let entries = phrases(4000);
    let without_end = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 88);
    let (world, _) = changed(&entries, false, without_end);
    let (found, damaged) = scanned(&world, &entries);
    assert_eq!((found.len(), damaged), (entries.len(), 0));
    let (world, _) = changed(&entries, false, |bytes| bytes[300] ^= 1);
    let (found, damaged) = scanned(&world, &entries);
    assert!(
        found.len() > entries.len() - 50 && damaged == 1,
        "{}",
        found.len()
    );
    let (world, _) = changed(&entries, false, |bytes| {
        bytes[300] ^= 1;
        without_end(bytes);
    });
    let (found, damaged) = scanned(&world, &entries);
    assert!(
        found.len() > 500 && found.len() < 1000 && damaged > 0,
        "{}",
        found.len()
    );
}

/// Goal: the copy and the blocks that it is one of must agree. Method: a byte of a value changed in the first block, whose values
/// are raw, and its checksum made right: a read of another block is right, by the copy, and `verify` tells.
#[test]
fn the_dictionary_is_what_its_blocks_have() {
    let entries = phrases(4000);
    let (world, meta) = changed(&entries, true, |bytes| bytes[2000] ^= 1);
    let table = world
        .open(&meta, &KeyOrder::BYTEWISE)
        .expect("its sections are whole");
    let found = table.get(&entries[3999].key, None, SNAPSHOT, &cache());
    assert!(entries[3999].is(&found.expect("intact").expect("there")));
    assert!(table.verify(&mut |_| {}).is_err());
}

/// Goal: a block that the dictionary is made of and that says that it uses one is damage.
#[test]
fn a_dictionary_is_not_made_of_blocks_that_use_one() {
    let entries = phrases(4000);
    let (world, meta) = changed(&entries, true, |bytes| bytes[17] = 5);
    let table = world
        .open(&meta, &KeyOrder::BYTEWISE)
        .expect("its sections are whole");
    let answer = table.get(&entries[0].key, None, SNAPSHOT, &cache());
    assert!(matches!(answer, Err(StorageError::Corruption(_))));
    assert!(table.verify(&mut |_| {}).is_err());
}

/// Goal: a dump shows the values of blocks with a dictionary, and that they have one.
#[test]
fn dumps_show_values_with_a_dictionary() {
    let world = World::new();
    build(&world, CodecId::Lz4, &phrases(1500));
    let bytes = world.env.read_file(World::path(FILE)).expect("there");
    let shown = dump_klog(&bytes, FILE);
    assert!(!shown.contains("FAULT"));
    assert!(shown.contains("dictionary blocks") && shown.contains("key001499"));
}
