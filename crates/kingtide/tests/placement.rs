//! Tables go where nothing is in their way, are not rewritten for nothing, and hold no tombstone that hides nothing.

use std::path::Path;

use kingtide::{
    ColumnFamily, Compression, Db, FamilyOptions, FamilyStats, IterOptions, Options, SyncMode,
};
use kingtide_testkit::Random;

fn open(path: &Path) -> Db {
    Db::open(path, Options::default()).expect("a fresh directory")
}

fn small() -> FamilyOptions {
    FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        // Shared by two memtables; an eighth of one is more than the smallest table that a flush cuts off.
        write_buffer_bytes: 8 << 20,
        value_threshold_bytes: 0,
        compression: Compression::None,
        ..FamilyOptions::default()
    }
}

fn stats(db: &Db, family: &ColumnFamily) -> FamilyStats {
    db.wait_idle().expect("healthy");
    db.family_stats(family).expect("open")
}

/// Bytes that flushes and merges wrote to tables for each byte that flushes wrote.
fn amplification(stats: &FamilyStats) -> f64 {
    let flushed = stats.flush_bytes_written as f64;
    1.0 + stats.merge_bytes_written as f64 / flushed
}

fn key(range: u64, number: u64) -> Vec<u8> {
    format!("{range}/{number:09}").into_bytes()
}

/// Goal: writers that each load ascending keys of their own range cost one write to tables. Method: eight ranges in turns,
/// in small transactions, so that every memtable holds a stretch of each.
#[test]
fn ascending_ranges_are_written_once() {
    const BATCHES: u64 = 500;
    const BATCH: u64 = 10;
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", small()).expect("a new name");
    let mut random = Random::new(1);
    for batch in 0..BATCHES {
        for range in 0..8 {
            let mut transaction = db.begin().expect("open");
            for number in 0..BATCH {
                let value = random.bytes(1000);
                transaction
                    .put(&family, &key(range, batch * BATCH + number), &value)
                    .expect("a put");
            }
            transaction.commit().expect("no conflict");
        }
    }
    db.flush(&family).expect("healthy");
    let stats = stats(&db, &family);
    assert!(stats.flushes >= 8, "{} flushes", stats.flushes);
    let cost = amplification(&stats);
    assert!(cost <= 1.05, "written {cost} times: {:?}", stats.levels);
    let entries = db
        .iter(&family, IterOptions::default())
        .expect("open")
        .entries();
    let read = entries.map(|entry| entry.expect("readable").0);
    let written =
        (0..8).flat_map(|range| (0..BATCHES * BATCH).map(move |number| key(range, number)));
    assert!(read.eq(written));
    db.close().expect("closes");
}

#[test]
fn one_ascending_load_is_never_merged() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", small()).expect("a new name");
    let mut random = Random::new(2);
    for number in 0..30_000 {
        db.put(&family, &key(0, number), &random.bytes(1000))
            .expect("a put");
    }
    db.flush(&family).expect("healthy");
    let stats = stats(&db, &family);
    assert!(stats.flushes >= 5);
    assert_eq!(stats.merge_bytes_written, 0);
    assert_eq!(stats.levels[0].files, 0, "{:?}", stats.levels);
    db.close().expect("closes");
}

/// Method: two tables with a gap between; deletes of keys in the gap hide nothing, those of keys in a table may.
#[test]
fn tombstones_over_nothing_are_not_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", small()).expect("a new name");
    for range in [1, 5] {
        for number in 0..10 {
            db.put(&family, &key(range, number), b"value")
                .expect("a put");
        }
        db.flush(&family).expect("healthy");
    }
    let before = stats(&db, &family);
    assert_eq!(
        before.levels.iter().map(|level| level.files).sum::<usize>(),
        2
    );
    for number in 0..10 {
        db.delete(&family, &key(3, number)).expect("a delete");
    }
    db.delete_range(&family, &key(2, 0), &key(4, 0))
        .expect("a range delete");
    db.flush(&family).expect("healthy");
    let after = stats(&db, &family);
    assert_eq!((after.entries, after.tombstones), (before.entries, 0));
    // One key within a table, though it is not there: nobody looks.
    db.delete(&family, b"1/000000000x").expect("a delete");
    db.flush(&family).expect("healthy");
    assert_eq!(stats(&db, &family).tombstones, 1);
    db.close().expect("closes");
}

#[test]
fn tombstones_that_a_snapshot_needs_stay() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", small()).expect("a new name");
    let snapshot = db.snapshot().expect("open");
    db.delete(&family, b"k").expect("a delete");
    db.flush(&family).expect("healthy");
    assert_eq!(stats(&db, &family).tombstones, 1);
    drop(snapshot);
    db.compact(&family).expect("healthy");
    assert_eq!(stats(&db, &family).tombstones, 0);
    db.close().expect("closes");
}

/// Goal: when writing has ended, level 1 is emptied, as far as that is little work. Method: three memtables of keys between
/// each other, too few for a merge under load; then a few keys more, which are not worth writing the rest again.
#[test]
fn reads_of_a_tree_at_rest_look_into_one_table() {
    const KEYS: u64 = 3000;
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", small()).expect("a new name");
    let mut random = Random::new(3);
    let level_one = || db.family_stats(&family).expect("open").levels[0].files;
    for round in 0..3 {
        for number in 0..KEYS / 3 {
            let value = random.bytes(100);
            db.put(&family, &key(0, 3 * number + round), &value)
                .expect("a put");
        }
        db.flush(&family).expect("healthy");
    }
    assert_eq!(level_one(), 2);
    let at_rest = stats(&db, &family);
    assert_eq!(level_one(), 0, "{:?}", at_rest.levels);
    assert!(at_rest.merge_bytes_written < 2 * at_rest.flush_bytes_written);
    for number in [0, KEYS - 1] {
        db.put(&family, &key(0, number), b"newer").expect("a put");
    }
    db.flush(&family).expect("healthy");
    let after = stats(&db, &family);
    assert_eq!(level_one(), 1);
    assert_eq!(after.merge_bytes_written, at_rest.merge_bytes_written);
    let entries = db.iter(&family, IterOptions::default()).expect("open");
    let read = entries.entries().map(|entry| entry.expect("readable").0);
    assert!(read.eq((0..KEYS).map(|number| key(0, number))));
    db.close().expect("closes");
}

/// Goal: while nobody reads, level 1 is merged at four times as many tables, and at once when somebody does. Method: a bottom
/// level; above it tables of two keys each, too small to be merged for rest.
#[test]
fn level_one_is_merged_later_while_nobody_reads() {
    const KEYS: u64 = 3000;
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", small()).expect("a new name");
    let put = |number: u64, value: &[u8]| db.put(&family, &key(0, number), value).expect("a put");
    (0..KEYS).for_each(|number| put(number, &[1; 100]));
    db.flush(&family).expect("healthy");
    db.compact(&family).expect("healthy");
    let add_table = || {
        put(0, b"newer");
        put(KEYS - 1, b"newer");
        db.flush(&family).expect("healthy");
        stats(&db, &family).levels[0].files
    };
    let trigger = small().l1_file_count_trigger;
    assert_eq!(add_table(), 0, "what was flushed pays for rest once");
    for tables in 1..4 * trigger {
        assert_eq!(add_table(), tables, "nobody reads");
    }
    assert_eq!(add_table(), 0, "too many by now");
    for tables in 1..=trigger {
        assert_eq!(add_table(), tables);
    }
    let value = db.get(&family, &key(0, 0)).expect("healthy");
    assert_eq!(value.as_deref(), Some(&b"newer"[..]));
    assert_eq!(stats(&db, &family).levels[0].files, 0, "somebody reads");
    for tables in 1..trigger {
        db.contains(&family, &key(0, 0)).expect("healthy");
        assert_eq!(add_table(), tables);
    }
    assert_eq!(add_table(), 0, "somebody has read lately");
    db.close().expect("closes");
}

/// Goal: a load that has ended comes to rest in one sorted level, also if little of it is on level 1; a few later writes do not
/// have all of it written anew. Method: a bottom level, and above it a twentieth of its keys again, twice.
#[test]
fn what_was_flushed_pays_for_emptying_level_one_once() {
    const KEYS: u64 = 20_000;
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", small()).expect("a new name");
    let mut random = Random::new(4);
    let mut put_each = |step: usize| {
        for number in (0..KEYS).step_by(step) {
            let value = random.bytes(100);
            db.put(&family, &key(0, number), &value).expect("a put");
        }
        db.flush(&family).expect("healthy");
    };
    put_each(1);
    db.compact(&family).expect("healthy");
    put_each(20);
    let level_one = || db.family_stats(&family).expect("open").levels[0].bytes;
    let below = || db.family_stats(&family).expect("open").levels[1].bytes;
    let small_part = level_one();
    assert!(small_part > 64 << 10 && small_part * 10 < below());
    let at_rest = stats(&db, &family);
    assert_eq!(level_one(), 0, "{:?}", at_rest.levels);
    put_each(20);
    let after = stats(&db, &family);
    assert!(level_one() > 64 << 10 && level_one() * 10 < below());
    assert_eq!(after.merge_bytes_written, at_rest.merge_bytes_written);
    db.close().expect("closes");
}
