//! The value log: what merges leave alone, and how dead values give their room back.

use std::{fs, path::Path, sync::Arc, thread};

use kingtide::{
    ColumnFamily, Compression, Db, FamilyOptions, IterOptions, Options, RepairOptions, SyncMode,
    ValueStats, repair,
};
use kingtide_testkit::Random;

const VALUE_BYTES: usize = 4096;
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Small memtables, no compression, no syncs.
fn settings() -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: WRITE_BUFFER_BYTES,
        compression: Compression::None,
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}

fn open(path: &Path) -> Db {
    Db::open(path, Options::default()).expect("the database opens")
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// The value of a key after so many writes of it.
fn value(number: usize, writes: u64) -> Vec<u8> {
    Random::new(number as u64 * 1_000_003 + writes).bytes(VALUE_BYTES)
}

fn put(db: &Db, family: &ColumnFamily, number: usize, writes: u64) {
    db.put(family, &key(number), &value(number, writes))
        .expect("a put");
}

fn bytes_in(path: &Path, folder: &str) -> u64 {
    fs::read_dir(path.join(folder))
        .expect("it is there")
        .map(|entry| entry.expect("readable").metadata().expect("there").len())
        .sum()
}

fn values_of(db: &Db, family: &ColumnFamily) -> ValueStats {
    db.family_stats(family).expect("open").values
}

/// Everything that is in memory goes to tables, and all that is due is done.
fn settle(db: &Db, family: &ColumnFamily) {
    db.flush(family).expect("a flush");
    db.wait_idle().expect("background work goes well");
}

/// Goal: a live set that is overwritten again and again takes at most twice its bytes. Method: random keys, ten times as
/// many writes as keys; the folders are measured again and again, and every value read at the end and after a reopen.
#[test]
fn overwritten_values_take_at_most_twice_the_live_bytes() {
    const KEYS: usize = 500;
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", settings()).expect("a new name");
    let mut writes = vec![0_u64; KEYS];
    for number in 0..KEYS {
        put(&db, &family, number, 0);
    }
    let live = (KEYS * VALUE_BYTES) as u64;
    let mut random = Random::new(4);
    for round in 0..20 {
        for _ in 0..KEYS / 2 {
            let number = random.below(KEYS);
            writes[number] += 1;
            put(&db, &family, number, writes[number]);
        }
        settle(&db, &family);
        let bytes = bytes_in(directory.path(), "vlog") + bytes_in(directory.path(), "klog");
        assert!(bytes <= 2 * live, "round {round}: {bytes} for {live}");
    }
    let stats = values_of(&db, &family);
    assert!(stats.live_ratio() >= 0.5, "{stats:?}");
    assert!(stats.copied_bytes > 0, "{stats:?}");
    // Copying stays in proportion: less than one byte for each that was written.
    let written = (KEYS + writes.iter().sum::<u64>() as usize) * VALUE_BYTES;
    assert!(stats.copied_bytes < written as u64, "{stats:?}");
    let check = |db: &Db, family: &ColumnFamily| {
        for (number, writes) in writes.iter().enumerate() {
            let found = db.get(family, &key(number)).expect("readable");
            assert_eq!(found.expect("there"), value(number, *writes));
        }
        let report = db.verify(&mut |_, _| ()).expect("open");
        assert!(report.damages.is_empty(), "{report:?}");
    };
    check(&db, &family);
    db.close().expect("closes");
    let db = open(directory.path());
    let family = db.family("f").expect("it was made");
    check(&db, &family);
    db.close().expect("closes");
}

/// Goal: merges carry pointers and not values. Method: distinct keys in random order, merged to the bottom five times, so
/// that nothing dies; merges write far less than flushes did.
#[test]
fn merges_do_not_write_long_values_again() {
    const ROUNDS: usize = 5;
    const KEYS: usize = 200;
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", settings()).expect("a new name");
    for round in 0..ROUNDS {
        for number in 0..KEYS {
            put(&db, &family, number * ROUNDS + round, 0);
        }
        db.compact(&family).expect("a merge");
    }
    db.wait_idle().expect("background work goes well");
    let stats = db.family_stats(&family).expect("open");
    let values = (ROUNDS * KEYS * VALUE_BYTES) as u64;
    assert!(stats.merges >= ROUNDS as u64, "{stats:?}");
    assert!(stats.flush_bytes_written >= values, "{stats:?}");
    assert_eq!(stats.values.copied_bytes, 0);
    // Not a hundredth of the values for each of the merges.
    let allowed = stats.merges * values / 100;
    assert!(stats.merge_bytes_written < allowed, "{stats:?}");
    db.close().expect("closes");
}

/// Puts short values whose keys differ by `rounds` in one value file each, and merges their tables.
fn scatter(db: &Db, family: &ColumnFamily, rounds: usize, keys: usize) {
    for round in 0..rounds {
        for index in 0..keys {
            let number = index * rounds + round;
            db.put(family, &key(number), &short_value(number))
                .expect("a put");
        }
        db.flush(family).expect("a flush");
    }
    db.compact(family).expect("a merge");
}

fn short_value(number: usize) -> Vec<u8> {
    Random::new(number as u64).bytes(600)
}

/// All that `family` has, in order.
fn assert_short_values(db: &Db, family: &ColumnFamily, keys: usize) {
    let mut iter = db.iter(family, IterOptions::default()).expect("open");
    let mut is_there = iter.seek_to_first().expect("readable");
    for number in 0..keys {
        assert!(is_there, "key {number} is missing");
        assert_eq!(iter.key(), key(number));
        assert_eq!(iter.value().expect("readable"), short_value(number));
        is_there = iter.next().expect("readable");
    }
    assert!(!is_there);
}

/// Goal: when nobody writes, values that are scattered over many files are put in the order of their keys, once, and readers notice
/// nothing. Method: files that each hold every fortieth key; an iterator from before; what is left is counted; a second rest
/// and a reopen copy nothing.
#[test]
fn scattered_values_are_put_in_order_when_the_database_is_idle() {
    const ROUNDS: usize = 40;
    const KEYS: usize = 100;
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", settings()).expect("a new name");
    scatter(&db, &family, ROUNDS, KEYS);
    let scattered = values_of(&db, &family);
    assert!(scattered.files >= ROUNDS, "{scattered:?}");
    assert_eq!(scattered.copied_bytes, 0, "merges under load copy none");
    let mut iter = db.iter(&family, IterOptions::default()).expect("open");
    assert!(iter.seek(&key(1234)).expect("readable"));
    db.wait_idle().expect("background work goes well");
    for number in 1234..ROUNDS * KEYS {
        assert_eq!(iter.value().expect("readable"), short_value(number));
        assert_eq!(
            iter.next().expect("readable"),
            number + 1 < ROUNDS * KEYS,
            "after {number}"
        );
    }
    drop(iter);
    db.wait_idle().expect("background work goes well");
    let ordered = values_of(&db, &family);
    // Half of them at a time, so that there is room for the copies.
    assert!(ordered.files <= 4, "{ordered:?}");
    assert!(
        ordered.copied_bytes <= scattered.live_bytes * 5 / 4,
        "{ordered:?}"
    );
    assert_eq!(bytes_in(directory.path(), "vlog"), ordered.bytes);
    assert!(ordered.bytes <= scattered.bytes);
    assert_short_values(&db, &family, ROUNDS * KEYS);
    db.close().expect("closes");
    let db = open(directory.path());
    let family = db.family("f").expect("it is there");
    db.wait_idle().expect("background work goes well");
    assert_eq!(values_of(&db, &family).copied_bytes, 0, "they lie in order");
    assert_short_values(&db, &family, ROUNDS * KEYS);
    db.close().expect("closes");
}

/// Goal: values are left where they are if copying them would give no room back, or is not wanted. Method: a clone that shares
/// the files; a family whose values are not to be copied; one whose values are long.
#[test]
fn values_that_are_shared_long_or_not_to_be_copied_stay_where_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let shared = db.create_family("shared", settings()).expect("a new name");
    scatter(&db, &shared, 20, 50);
    let clone = db.clone_family("shared", "clone").expect("a new name");
    let fixed = FamilyOptions {
        value_live_ratio_min: 0.0,
        ..settings()
    };
    let fixed = db.create_family("fixed", fixed).expect("a new name");
    scatter(&db, &fixed, 20, 50);
    let long = db.create_family("long", settings()).expect("a new name");
    for round in 0..20 {
        (0..50).for_each(|index| put(&db, &long, index * 20 + round, 0));
        db.flush(&long).expect("a flush");
    }
    db.compact(&long).expect("a merge");
    db.wait_idle().expect("background work goes well");
    for family in [&shared, &clone, &fixed, &long] {
        assert_eq!(values_of(&db, family).copied_bytes, 0);
    }
    for family in [&shared, &clone, &fixed] {
        assert_short_values(&db, family, 1000);
    }
    db.close().expect("closes");
}

/// Goal: deleted values vanish from an idle database, however few they are. Method: fifty long values, deleted one by one
/// or all at once; nothing else asks for a merge.
#[test]
fn deleted_values_vanish_when_the_database_is_idle() {
    for in_one in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let db = open(directory.path());
        let family = db.create_family("f", settings()).expect("a new name");
        for number in 0..50 {
            put(&db, &family, number, 0);
        }
        db.flush(&family).expect("a flush");
        assert!(bytes_in(directory.path(), "vlog") >= 50 * VALUE_BYTES as u64);
        if in_one {
            db.delete_range(&family, &key(0), &key(50))
                .expect("a range delete");
        } else {
            for number in 0..50 {
                db.delete(&family, &key(number)).expect("a delete");
            }
        }
        db.wait_idle().expect("background work goes well");
        assert_eq!(bytes_in(directory.path(), "vlog"), 0);
        assert_eq!(values_of(&db, &family), ValueStats::default());
        db.close().expect("closes");
    }
}

/// Goal: collection takes nothing from readers. Method: an iterator, a snapshot and a checkpoint from before; they read
/// what was there then, and when they are gone the room is given back.
#[test]
fn readers_keep_the_values_that_they_see() {
    const KEYS: usize = 200;
    let directory = tempfile::tempdir().expect("a directory");
    let copy = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", settings()).expect("a new name");
    for number in 0..KEYS {
        put(&db, &family, number, 0);
    }
    settle(&db, &family);
    let mut iter = db.iter(&family, IterOptions::default()).expect("open");
    db.checkpoint(copy.path().join("copy"))
        .expect("a checkpoint");
    let overwrite = |writes| {
        for number in 0..KEYS {
            put(&db, &family, number, writes);
        }
        settle(&db, &family);
    };
    overwrite(1);
    overwrite(2);
    let live = (KEYS * VALUE_BYTES) as u64;
    assert!(bytes_in(directory.path(), "vlog") >= 2 * live);
    let mut count = 0;
    assert!(iter.seek_to_first().expect("readable"));
    loop {
        assert_eq!(iter.value().expect("readable"), value(count, 0));
        count += 1;
        if !iter.next().expect("readable") {
            break;
        }
    }
    assert_eq!(count, KEYS);
    drop(iter);
    settle(&db, &family);
    let bytes = bytes_in(directory.path(), "vlog");
    assert!(bytes <= 2 * live, "{bytes}");
    db.close().expect("closes");
    let db = open(&copy.path().join("copy"));
    let family = db.family("f").expect("it was copied");
    for number in 0..KEYS {
        let found = db.get(&family, &key(number)).expect("readable");
        assert_eq!(found.expect("there"), value(number, 0));
    }
    db.close().expect("closes");
}

/// Goal: what no copy would free is not copied without end. Method: many files of one short record each, in which nothing is
/// dead, under the strictest bound: header and footer make up nearly half of them. The database must come to rest; then and
/// before it may put the values in order, each a few times at most.
#[test]
fn files_of_one_short_record_are_left_alone() {
    const COPIES_MAX: u64 = 6;
    let directory = tempfile::tempdir().expect("a directory");
    let db = Arc::new(open(directory.path()));
    let strict = FamilyOptions {
        write_buffer_bytes: 4096,
        value_threshold_bytes: 1,
        value_live_ratio_min: 0.9,
        ..settings()
    };
    let family = db.create_family("f", strict).expect("a new name");
    let assert_few_copies = || {
        let values = values_of(&db, &family);
        assert!(
            values.copied_bytes <= COPIES_MAX * values.live_bytes,
            "{values:?}"
        );
    };
    for number in 0..60 {
        db.put(&family, &key(number), &[7; 70]).expect("a put");
        db.flush(&family).expect("a flush");
        assert_few_copies();
    }
    let waiting = Arc::clone(&db);
    let waiter = thread::spawn(move || waiting.wait_idle());
    while !waiter.is_finished() {
        assert_few_copies();
        thread::yield_now();
    }
    let outcome = waiter.join().expect("no panic");
    outcome.expect("background work goes well");
    assert_few_copies();
    db.close().expect("closes");
}

/// Goal: collection can be switched off and on. Method: half of all values die; with 0 nothing is copied, with the default
/// the files are emptied as soon as the setting changes.
#[test]
fn the_bound_is_a_setting() {
    const KEYS: usize = 300;
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let off = FamilyOptions {
        value_live_ratio_min: 0.0,
        ..settings()
    };
    let family = db.create_family("f", off).expect("a new name");
    for writes in 0..3 {
        for number in 0..KEYS {
            // Every tenth is written once, and keeps the files of the first round.
            if writes == 0 || number % 10 != 0 {
                put(&db, &family, number, writes);
            }
        }
        db.flush(&family).expect("a flush");
    }
    db.compact(&family).expect("a merge");
    db.wait_idle().expect("background work goes well");
    let before = values_of(&db, &family);
    assert_eq!(before.copied_bytes, 0);
    db.update_family_options(&family, settings(), true)
        .expect("it can be changed");
    db.wait_idle().expect("background work goes well");
    let after = values_of(&db, &family);
    assert!(after.live_ratio() >= before.live_ratio());
    for wrong in [-0.1, 0.91, f64::NAN] {
        let options = FamilyOptions {
            value_live_ratio_min: wrong,
            ..settings()
        };
        let refused = db.update_family_options(&family, options, false);
        assert!(refused.is_err(), "{wrong}");
    }
    db.close().expect("closes");
}

/// A value that has most of its words in common with others.
fn document(number: usize, writes: u64) -> Vec<u8> {
    let mut random = Random::new(number as u64 * 1_000_003 + writes);
    let mut text = format!("{{\"number\":{number},\"writes\":{writes}");
    for line in 0..10 {
        let (price, count) = (random.below(100_000), random.below(9));
        text += &format!(
            ",{{\"article of line\":{line},\"price in cents\":{price},\"how many\":{count},\"currency\":\"EUR\"}}"
        );
    }
    (text + "}").into_bytes()
}

/// What every key shows, by gets and by iterators in both directions.
fn assert_shows(db: &Db, family: &ColumnFamily, expected: &[Vec<u8>]) {
    for (number, value) in expected.iter().enumerate() {
        let found = db.get(family, &key(number)).expect("readable");
        assert_eq!(found.as_deref(), Some(value.as_slice()), "{number}");
    }
    let mut iter = db.iter(family, IterOptions::default()).expect("open");
    let mut is_valid = iter.seek_to_first().expect("readable");
    for value in expected {
        assert!(is_valid && iter.value().expect("readable") == value);
        is_valid = iter.next().expect("readable");
    }
    assert!(!is_valid);
    is_valid = iter.seek_to_last().expect("readable");
    for value in expected.iter().rev() {
        assert!(is_valid && iter.value().expect("readable") == value);
        is_valid = iter.prev().expect("readable");
    }
    assert!(!is_valid);
    let report = db.verify(&mut |_, _| ()).expect("open");
    assert!(report.damages.is_empty(), "{report:?}");
}

/// Goal: values that resemble each other take less room than each compressed for itself, and stay what they are when they are
/// copied out of a file that is emptied, from a snapshot, after a reopening, in a checkpoint and in a repaired database; and
/// nothing is copied only because a dictionary counts as garbage. Method: documents, most of which are overwritten; the
/// strictest bound for garbage.
#[test]
fn values_that_resemble_each_other_share_dictionaries() {
    const KEYS: usize = 1000;
    for (compression, most) in [(Compression::Lz4, 0.8), (Compression::Lz4Fast, 0.7)] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("db");
        let db = open(&path);
        let strict = FamilyOptions {
            compression,
            value_live_ratio_min: 0.9,
            write_buffer_bytes: 2 << 20,
            ..settings()
        };
        let family = db.create_family("f", strict).expect("a new name");
        let mut expected: Vec<_> = (0..KEYS).map(|number| document(number, 0)).collect();
        let put = |number: usize, value: &[u8]| {
            db.put(&family, &key(number), value).expect("a put");
        };
        for (number, value) in expected.iter().enumerate() {
            put(number, value);
        }
        settle(&db, &family);
        let codec = match compression {
            Compression::Lz4 => kingtide_format::CodecId::Lz4,
            _ => kingtide_format::CodecId::Lz4Fast,
        };
        let mut plain = Vec::new();
        for value in &expected {
            kingtide_format::block::compress_if_smaller(codec, value, &mut plain);
            plain.extend_from_slice(&[0; kingtide_format::vlog::RECORD_HEADER_BYTES]);
        }
        let (bytes, plain) = (bytes_in(&path, "vlog") as f64, plain.len() as f64);
        assert!(bytes < plain * most, "{bytes} {plain}");
        assert_eq!(values_of(&db, &family).copied_bytes, 0);
        assert_shows(&db, &family, &expected);
        let snapshot = db.snapshot().expect("open");
        let before = expected.clone();
        for writes in 1..4 {
            for (number, value) in expected.iter_mut().enumerate() {
                if number % 5 != 0 {
                    *value = document(number, writes);
                    put(number, value);
                }
            }
            settle(&db, &family);
        }
        let found = snapshot.get(&family, &key(7)).expect("readable");
        assert_eq!(found.as_deref(), Some(before[7].as_slice()));
        drop(snapshot);
        db.compact(&family).expect("a merge");
        settle(&db, &family);
        assert!(values_of(&db, &family).copied_bytes > 0);
        assert_shows(&db, &family, &expected);
        db.checkpoint(directory.path().join("copy"))
            .expect("a checkpoint");
        db.close().expect("closes");
        let options = RepairOptions {
            into: Some(directory.path().join("repaired")),
            ..RepairOptions::default()
        };
        let report = repair(&path, &options, &mut |_, _| {}).expect("it is whole");
        assert!(report.is_whole(), "{report:?}");
        for name in ["db", "copy", "repaired"] {
            let db = open(&directory.path().join(name));
            assert_shows(&db, &db.family("f").expect("it was made"), &expected);
            db.close().expect("closes");
        }
    }
}
