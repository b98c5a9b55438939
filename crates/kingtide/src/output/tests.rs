use std::{collections::BTreeSet, io, path::Path, sync::Arc};

use kingtide_base::{FileId, RangeTombstone, SeqNo, StorageError};
use kingtide_collections::{MemoryBudget, MemtableOp, MergeCursor};
use kingtide_env::{Env, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_table::{klog_name, vlog_name};
use kingtide_testkit::Random;

use super::*;
use crate::{
    family::testing::{family, small},
    files::{FilesMemory, OpenFilesMax},
    options::FamilyOptions,
    version::Version,
};

/// Files in a world whose calls can be made to fail.
fn files() -> (MemoryEnv, FaultyEnv, Files) {
    let memory = MemoryEnv::new(1);
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    let open = |path: &str| {
        env.open_directory(Path::new(path), true)
            .expect("it can be made")
    };
    let unlimited = FilesMemory {
        cache_bytes: 1 << 20,
        cache_floor_bytes: 0,
        budget: MemoryBudget::unlimited(),
    };
    let files = Files::new(
        open("/db/klog"),
        open("/db/vlog"),
        OpenFilesMax {
            tables: 16,
            values: 4,
        },
        unlimited,
        FileId(1),
    );
    (memory, env, files)
}

fn names(env: &MemoryEnv) -> BTreeSet<String> {
    env.paths()
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect()
}

fn names_of(output: &Output) -> BTreeSet<String> {
    let tables = output.tables.iter().map(|table| klog_name(table.file));
    let values = output.value_files.iter().map(|file| vlog_name(file.file));
    tables.chain(values).collect()
}

/// A family whose memtable holds `versions` versions of each of `keys` keys; every third value is a long one.
fn filled(keys: u64, versions: u64) -> Arc<Family> {
    let options = FamilyOptions {
        write_buffer_bytes: 8 << 20,
        value_threshold_bytes: 100,
        ..small("memcmp")
    };
    let family = family(1, options);
    let mut random = Random::new(1);
    let memory = Arc::clone(&family.load().active);
    for number in 0..keys * versions {
        let key = format!("key {:05}", number % keys).into_bytes();
        let value = random.bytes(if number % 3 == 0 { 150 } else { 60 });
        let op = MemtableOp {
            kind: EntryKind::Put,
            expires_at: 0,
            hash: family.order.hash(&key).unwrap_or(0),
            key: &key,
            value: &value,
        };
        memory
            .table
            .insert(SeqNo(number + 1), (1, |_| op), None)
            .expect("there is room");
    }
    family
}

/// Writes the family's memtable, every version of it.
fn write(
    files: &Files,
    family: &Family,
    table_bytes_max: u64,
    is_cancelled: &dyn Fn() -> bool,
) -> StorageResult<Option<Output>> {
    let memory = Arc::clone(&family.load().active);
    let mut cursor = MergeCursor::new(family.order.clone(), memory.table.cursors());
    let boundaries = (1..=memory.table.largest_sequence().0).map(SeqNo).collect();
    let mut filter = VersionFilter::new(family.order.clone(), boundaries, false, 0);
    TableWriter::new(files, family, table_bytes_max).write(&mut cursor, &mut filter, is_cancelled)
}

/// Goal: writing that fails leaves no file. Method: each create, write, sync and directory sync fails in turn, also for
/// want of space, until one run has none left to fail; then exactly the files of the output are there.
#[test]
fn nothing_is_left_behind_when_writing_fails() {
    let family = filled(600, 1);
    for operation in [
        Operation::Create,
        Operation::Write,
        Operation::Sync,
        Operation::DirectorySync,
    ] {
        for error in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
            let mut failures = 0;
            for nth in 1.. {
                let (memory, env, files) = files();
                env.fail(Rule {
                    operation,
                    name_contains: String::new(),
                    nth,
                    error,
                    times: Times::Once,
                });
                match write(&files, &family, 8 << 10, &|| false) {
                    Err(StorageError::Io { source, .. }) => {
                        assert_eq!(source.kind(), error);
                        failures += 1;
                        assert!(
                            names(&memory).is_empty(),
                            "{operation:?} {nth} leaves files"
                        );
                    }
                    Err(other) => panic!("{operation:?} {nth}: {other}"),
                    Ok(output) => {
                        let output = output.expect("nothing cancels it");
                        assert!(output.tables.len() > 1 && !output.value_files.is_empty());
                        assert_eq!(names(&memory), names_of(&output));
                        break;
                    }
                }
            }
            assert!(failures >= 2, "{operation:?} has nothing to fail");
        }
    }
}

/// Goal: cancelled work leaves no file either.
#[test]
fn nothing_is_left_behind_when_writing_is_cancelled() {
    let family = filled(3000, 1);
    let (memory, _env, files) = files();
    let output = write(&files, &family, 8 << 10, &|| true).expect("a healthy disk");
    assert!(output.is_none());
    assert!(names(&memory).is_empty());
}

/// Goal: an output that nobody wants is removed whole, and again does nothing.
#[test]
fn an_output_is_discarded_whole() {
    let family = filled(600, 1);
    let (memory, _env, files) = files();
    let output = write(&files, &family, 8 << 10, &|| false)
        .expect("a healthy disk")
        .expect("nothing cancels it");
    assert!(!names(&memory).is_empty());
    for _ in 0..2 {
        discard_output(&files, &output);
        assert!(names(&memory).is_empty());
    }
}

/// Goal: tables follow one another in key order and never share a key. Method: 50 versions of each key, so that most
/// tables are full in the middle of one.
#[test]
fn versions_of_a_key_stay_in_one_table() {
    let family = filled(40, 50);
    let (_memory, _env, files) = files();
    let output = write(&files, &family, 4 << 10, &|| false)
        .expect("a healthy disk")
        .expect("nothing cancels it");
    assert!(output.tables.len() > 3, "too few tables to show anything");
    for pair in output.tables.windows(2) {
        assert!(pair[0].largest < pair[1].smallest);
    }
    let entries: u64 = output.tables.iter().map(|table| table.entries).sum();
    assert_eq!(entries, 40 * 50);
}

/// Goal: nothing to write makes no file. Method: an empty memtable.
#[test]
fn nothing_makes_no_table() {
    let family = filled(0, 0);
    let (memory, _env, files) = files();
    let output = write(&files, &family, 4 << 10, &|| false)
        .expect("a healthy disk")
        .expect("nothing cancels it");
    assert!(output.tables.is_empty() && output.bytes() == 0);
    assert!(names(&memory).is_empty());
}

/// Goal: range deletes are cut where tables end: every key has the cover that it had, in the one table that may be asked
/// for it, and the tables make a level. Method: overlapping range deletes over and beyond the keys of many tables, with
/// boundaries between them; all keys and the gaps between them.
#[test]
fn range_deletes_are_cut_where_tables_end() {
    let family = filled(600, 1);
    let order = &family.order;
    let (_memory, _env, files) = files();
    let memory = Arc::clone(&family.load().active);
    let tombstones = [
        (&b"a"[..], &b"key 00300"[..], 900),
        (b"key 00100", b"key 00500", 700),
        (b"key 00250", b"key 00250 and more", 950),
        (b"key 00550", b"z", 800),
    ]
    .map(|(start, end, sequence)| RangeTombstone {
        start,
        end,
        sequence: SeqNo(sequence),
    });
    let whole = Fragments::build(order, tombstones, &[]);
    // Nothing is dropped: every number has a boundary.
    let boundaries = (1..=1000).map(SeqNo).collect();
    let mut filter = VersionFilter::new(order.clone(), boundaries, false, 0);
    filter.set_ranges(tombstones);
    let mut cursor = MergeCursor::new(order.clone(), memory.table.cursors());
    let output = TableWriter::new(&files, &family, 8 << 10)
        .write(&mut cursor, &mut filter, &|| false)
        .expect("a healthy disk")
        .expect("nothing cancels it");
    assert!(output.tables.len() > 3, "too few tables to show anything");
    let tables = output.tables.iter().map(|meta| (2, Arc::new(meta.clone())));
    let version = Version::from_tables(order.clone(), tables).expect("a level");
    let keys = (0..600).map(|number| format!("key {number:05}").into_bytes());
    let gaps = keys.clone().map(|key| [&key[..], b" and"].concat());
    let ends = [&b"a"[..], b"b", b"x", b"z"].map(<[u8]>::to_vec);
    for key in keys.chain(gaps).chain(ends) {
        for snapshot in [SeqNo(750), SeqNo(850), SeqNo::MAX] {
            let covers = version.tables_for_key(2, &key).map(|meta| {
                let table = files.tables.get(meta, order).expect("intact");
                table.range_cover(&key, snapshot)
            });
            let found = covers.max().unwrap_or_default();
            let text = key.escape_ascii().to_string();
            assert_eq!(
                found,
                whole.cover(order, &key, snapshot),
                "{text} at {snapshot}"
            );
        }
    }
    for (_, meta) in version.tables() {
        let table = files.tables.get(meta, order).expect("intact");
        table.verify(&mut |_| {}).expect("intact");
    }
}

/// Goal: range deletes that are kept make a table even when no entry is.
#[test]
fn range_deletes_alone_make_a_table() {
    let family = filled(0, 0);
    let (_memory, _env, files) = files();
    let tombstone = RangeTombstone {
        start: b"a",
        end: b"b",
        sequence: SeqNo(5),
    };
    for (is_bottom, tables) in [(false, 1), (true, 0)] {
        let mut cursor = MergeCursor::new(family.order.clone(), Vec::<Box<dyn Cursor>>::new());
        let mut filter = VersionFilter::new(family.order.clone(), vec![SeqNo(9)], is_bottom, 0);
        filter.set_ranges([tombstone]);
        let output = TableWriter::new(&files, &family, 8 << 10)
            .write(&mut cursor, &mut filter, &|| false)
            .expect("a healthy disk")
            .expect("nothing cancels it");
        assert_eq!(output.tables.len(), tables);
    }
}
