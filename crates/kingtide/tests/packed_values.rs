//! Long values that compress: packed in transactions, the log and memtables, and whole to whoever reads them.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{
    cell::RefCell,
    sync::{Arc, Mutex},
};

use kingtide::{
    ColumnFamily, CommitOperation, Compression, Db, FamilyOptions, IterOptions, Options,
    RepairOptions, SyncMode, Transaction, repair,
};
use kingtide_env::{CrashImage, MemoryEnv};
use kingtide_testkit::{
    Random,
    world::{self, DATABASE},
};

const KEYS: usize = 300;

/// As the world has them, but that nothing is spilled.
fn options(env: &MemoryEnv) -> Options {
    Options {
        spill_bytes_min: 0,
        ..world::options(env)
    }
}

fn open(env: &MemoryEnv) -> Db {
    Db::open(DATABASE, options(env)).unwrap()
}

fn settings() -> FamilyOptions {
    FamilyOptions {
        sync: SyncMode::Full,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

/// Bytes that do not compress.
fn noise(seed: usize, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed as u64);
    (0..bytes).map(|_| random.below(256) as u8).collect()
}

/// Every third compresses well, every third to a half, every third not at all; lengths around the bound of what is packed, longer
/// ones, and some that value files keep packed.
fn value(number: usize) -> Vec<u8> {
    let longer = if number.is_multiple_of(10) {
        number * 170
    } else {
        0
    };
    let bytes = 1900 + number * 37 % 6000 + longer;
    let mut value = match number % 3 {
        0 => format!("{number} high and low, ").into_bytes(),
        1 => noise(number, bytes / 2),
        _ => noise(number, bytes),
    };
    if number.is_multiple_of(3) {
        value = value.repeat(bytes / value.len());
    }
    value.resize(bytes, b'.');
    value
}

/// A database, a family with `settings`, and a transaction that has put every value into it.
fn filled(env: &MemoryEnv, settings: FamilyOptions) -> (Db, ColumnFamily, Transaction) {
    let db = open(env);
    let family = db.create_family("f", settings).unwrap();
    let mut transaction = db.begin().unwrap();
    for number in 0..KEYS {
        transaction
            .put(&family, &key(number), &value(number))
            .unwrap();
    }
    (db, family, transaction)
}

fn assert_all(get: impl Fn(&[u8]) -> Option<Vec<u8>>, walked: &[(Vec<u8>, Vec<u8>)]) {
    assert_eq!(walked.len(), KEYS);
    for (number, (walked_key, walked_value)) in walked.iter().enumerate() {
        assert_eq!(get(&key(number)), Some(value(number)), "{number}");
        assert_eq!(*walked_key, key(number));
        assert_eq!(*walked_value, value(number), "{number}");
    }
}

/// Everything in both directions, as keys and values; the directions agree.
fn walked(mut iter: kingtide::Iter) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    iter.seek_to_first().unwrap();
    while iter.is_valid() {
        forward.push((iter.key().to_vec(), iter.value().unwrap().to_vec()));
        iter.next().unwrap();
    }
    iter.seek_to_last().unwrap();
    while iter.is_valid() {
        backward.push((iter.key().to_vec(), iter.value().unwrap().to_vec()));
        iter.prev().unwrap();
    }
    backward.reverse();
    assert!(forward == backward, "the directions differ");
    forward
}

fn assert_shown(db: &Db, family: &ColumnFamily) {
    let get = |key: &[u8]| db.get(family, key).unwrap().map(Vec::from);
    let walked = walked(db.iter(family, IterOptions::default()).unwrap());
    assert_all(get, &walked);
    let transaction = db.begin().unwrap();
    let look = |key: &[u8]| transaction.get_with(family, key, <[u8]>::to_vec).unwrap();
    assert_all(look, &walked);
    let mut held = Vec::new();
    for (key, value) in &walked {
        assert!(db.get_into(family, key, &mut held).unwrap());
        assert!(held == *value, "get_into");
    }
}

fn memtable_bytes(db: &Db, family: &ColumnFamily) -> usize {
    db.family_stats(family).unwrap().memtable_bytes
}

/// Goal: values are what was put, to every reader, from the put on: in the transaction, in memory, after a power cut, and in
/// tables; and those that compress take less memory. Method: one commit of values of all kinds; reads of each way in between.
#[test]
fn packed_values_are_whole_to_every_reader() {
    let env = MemoryEnv::new(1);
    let (db, f, mut transaction) = filled(&env, settings());
    let own = |key: &[u8]| transaction.get(&f, key).unwrap().map(Vec::from);
    assert_all(
        own,
        &walked(transaction.iter(&f, IterOptions::default()).unwrap()),
    );
    let streamed = |key: &[u8]| {
        let mut sink = Vec::new();
        transaction.get_to(&f, key, &mut sink).unwrap()?;
        Some(sink)
    };
    assert_eq!(streamed(&key(0)), Some(value(0)));
    let held = RefCell::new(Vec::new());
    let read_into = |key: &[u8]| {
        let mut held = held.borrow_mut();
        let is_there = transaction.get_into(&f, key, &mut held).unwrap();
        is_there.then(|| held.clone())
    };
    for number in 0..KEYS {
        assert_eq!(read_into(&key(number)), Some(value(number)));
    }
    transaction.commit().unwrap();
    assert_shown(&db, &f);
    let mut sink = Vec::new();
    db.begin().unwrap().get_to(&f, &key(3), &mut sink).unwrap();
    assert_eq!(sink, value(3));
    let raw: usize = (0..KEYS).map(|number| value(number).len()).sum();
    let held = memtable_bytes(&db, &f);
    assert!(held < raw * 3 / 4, "{held} bytes for {raw}");
    drop((transaction, db));

    let db = open(&env.crash(CrashImage::NothingUnsynced, 5));
    let f = db.family("f").unwrap();
    assert_shown(&db, &f);
    db.flush(&f).unwrap();
    assert_eq!(memtable_bytes(&db, &f), 0);
    assert_shown(&db, &f);
}

/// Goal: tables hold values whole, whatever compresses them, and whatever the family was set to when they were put. Method: every
/// codec at the put and at the flush; every reader; every file is verified.
#[test]
fn packed_values_are_whole_in_tables_of_every_codec() {
    let codecs = [
        Compression::Lz4,
        Compression::Lz4Fast,
        Compression::Zstd,
        Compression::Snappy,
        Compression::None,
    ];
    for put in codecs {
        for flushed in codecs {
            let env = MemoryEnv::new(1);
            let of = |compression| FamilyOptions {
                compression,
                ..settings()
            };
            let (db, f, mut transaction) = filled(&env, of(put));
            transaction.commit().unwrap();
            db.update_family_options(&f, of(flushed), true).unwrap();
            db.flush(&f).unwrap();
            assert_eq!(memtable_bytes(&db, &f), 0);
            assert_shown(&db, &f);
            let report = db.verify(&mut |_, _| {}).unwrap();
            assert!(report.damages.is_empty(), "{put:?} {flushed:?}");
        }
    }
}

/// Goal: a family that compresses nothing, or has no value log, holds values as they are. Method: the memory of its memtable.
#[test]
fn values_are_packed_where_tables_would_compress_them_apart() {
    let raw: usize = (0..KEYS).map(|number| value(number).len()).sum();
    for (compression, value_threshold_bytes) in [(Compression::None, 512), (Compression::Lz4, 0)] {
        let settings = FamilyOptions {
            compression,
            value_threshold_bytes,
            ..settings()
        };
        let (db, f, mut transaction) = filled(&MemoryEnv::new(1), settings);
        transaction.commit().unwrap();
        let held = memtable_bytes(&db, &f);
        assert!(held >= raw, "{held} bytes for {raw}");
        assert_shown(&db, &f);
    }
}

/// Goal: a commit hook is told the values that were put. Method: long ones, packed and not, between short ones.
#[test]
fn hooks_are_told_whole_values() {
    let db = open(&MemoryEnv::new(1));
    let f = db.create_family("f", settings()).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let hook = move |event: &kingtide::CommitEvent<'_>| {
        for operation in event.operations() {
            if let CommitOperation::Put { key, value, .. } = operation {
                sink.lock().unwrap().push((key.to_vec(), value.to_vec()));
            }
        }
        Ok(())
    };
    db.set_commit_hook(&f, Some(Arc::new(hook))).unwrap();
    let mut transaction = db.begin().unwrap();
    let mut expected = Vec::new();
    for number in 0..9 {
        for (key, value) in [
            (key(number), value(number)),
            (format!("short{number}").into_bytes(), vec![7; number]),
        ] {
            transaction.put(&f, &key, &value).unwrap();
            expected.push((key, value));
        }
    }
    transaction.commit().unwrap();
    assert_eq!(*told.lock().unwrap(), expected);
}

/// Goal: a transaction that waits keeps its packed values through a power cut, a repair and its commit, and a savepoint takes
/// them back.
#[test]
fn packed_values_wait_and_are_taken_back() {
    let env = MemoryEnv::new(1);
    let (db, f, mut transaction) = filled(&env, settings());
    transaction.savepoint("before").unwrap();
    transaction.put(&f, &key(0), &value(3)).unwrap();
    transaction.rollback_to("before").unwrap();
    transaction.prepare(b"waits").unwrap();
    drop((transaction, f, db));
    let killed = env.crash(CrashImage::NothingUnsynced, 5);
    let repairing = RepairOptions {
        into: Some("/repaired".into()),
        env: Some(Arc::new(killed.clone())),
        ..RepairOptions::default()
    };
    repair(DATABASE, &repairing, &mut |_, _| {}).unwrap();
    let repaired = Db::open("/repaired", options(&killed)).unwrap();
    repaired.commit_prepared(b"waits").unwrap();
    assert_shown(&repaired, &repaired.family("f").unwrap());

    let db = open(&killed);
    let f = db.family("f").unwrap();
    assert_eq!(db.get(&f, &key(0)).unwrap(), None);
    db.commit_prepared(b"waits").unwrap();
    assert_shown(&db, &f);
}
