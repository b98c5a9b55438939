//! Bulk loads: what they show to whom, that they are all or nothing, and that they take their place in the order.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, IsolationLevel, IterOptions, Options, SyncMode,
    TransactionOptions,
};
use kingtide_env::{CrashImage, Env, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_testkit::Random;

const PLACE: &str = "/db";

fn small() -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 64 << 10,
        value_threshold_bytes: 300,
        disk_free_bytes_min: 0,
        sync: SyncMode::None,
        ..FamilyOptions::default()
    }
}

fn options(env: impl Env) -> Options {
    Options {
        env: Some(Arc::new(env)),
        ..Options::default()
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn content(db: &Db, family: &ColumnFamily) -> Content {
    let mut found = Content::new();
    let mut iter = db.iter(family, IterOptions::default()).unwrap();
    let mut has = iter.seek_to_first().unwrap();
    while has {
        found.insert(iter.key().to_vec(), iter.value().unwrap().to_vec());
        has = iter.next().unwrap();
    }
    for (key, value) in &found {
        assert_eq!(&*db.get(family, key).unwrap().unwrap(), value.as_slice());
    }
    found
}

fn files(path: &Path) -> usize {
    ["klog", "vlog"]
        .iter()
        .map(|folder| fs::read_dir(path.join(folder)).unwrap().count())
        .sum()
}

/// Goal: what is loaded is there, also later. Method: values in and out of the tables, reads, a reopening, `verify`.
#[test]
fn a_load_is_there_now_and_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    let family = db.create_family("f", small()).unwrap();
    let mut wanted = Content::new();
    let mut loader = db.bulk_load(&family).unwrap();
    for number in 0..3000 {
        let value = vec![number as u8; if number % 10 == 0 { 1000 } else { 50 }];
        loader.put(&key(number), &value).unwrap();
        wanted.insert(key(number), value);
    }
    loader.put_expiring(b"z", b"gone long ago", 1).unwrap();
    let report = loader.finish().unwrap();
    assert_eq!((report.entries, report.tables), (3001, 1));
    assert_eq!(content(&db, &family), wanted);
    assert_eq!(db.stats().unwrap().sequence, report.sequence);
    db.put(&family, &key(7), b"later").unwrap();
    wanted.insert(key(7), b"later".to_vec());
    db.close().unwrap();

    let db = Db::open(directory.path(), Options::default()).unwrap();
    let family = db.family("f").unwrap();
    assert_eq!(content(&db, &family), wanted);
    assert!(db.verify(&mut |_, _| {}).unwrap().damages.is_empty());
    let copy = directory.path().join("copy");
    db.clone_family("f", "g").unwrap();
    db.backup(&copy, &mut |_, _| {}).unwrap();
    db.compact(&family).unwrap();
    assert_eq!(content(&db, &family), wanted);
    assert_eq!(content(&db, &db.family("g").unwrap()), wanted);
    db.close().unwrap();
    let db = Db::open(&copy, Options::default()).unwrap();
    assert_eq!(content(&db, &db.family("f").unwrap()), wanted);
    db.put(&db.family("f").unwrap(), &key(1), b"in the copy")
        .unwrap();
    wanted.insert(key(1), b"in the copy".to_vec());
    assert_eq!(content(&db, &db.family("f").unwrap()), wanted);
    db.close().unwrap();
}

/// Goal: wrong keys are refused and named, and do not spoil the rest.
#[test]
fn keys_out_of_order_are_refused_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    let family = db.create_family("f", small()).unwrap();
    let mut loader = db.bulk_load(&family).unwrap();
    loader.put(b"m", b"1").unwrap();
    for wrong in [&b"m"[..], b"a"] {
        let error = loader.put(wrong, b"2").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(
            text.contains("\"m\"") && text.contains(&format!("\"{}\"", wrong.escape_ascii())),
            "{text}"
        );
    }
    assert_eq!(
        loader.put(b"", b"").unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    loader.put(b"n", b"3").unwrap();
    assert_eq!(loader.finish().unwrap().entries, 2);
    assert_eq!(content(&db, &family).len(), 2);
    // An order of its own: the reverse of bytes.
    let backwards = FamilyOptions {
        comparator: "reverse_memcmp".to_owned(),
        ..small()
    };
    let family = db.create_family("backwards", backwards).unwrap();
    let mut loader = db.bulk_load(&family).unwrap();
    loader.put(b"b", b"").unwrap();
    loader.put(b"a", b"").unwrap();
    assert!(loader.put(b"c", b"").is_err());
    loader.finish().unwrap();
    assert!(db.get(&family, b"a").unwrap().is_some());
    db.close().unwrap();
}

/// Goal: without `finish` nothing is left; an empty load does nothing; closed, dropped and read-only are refused.
#[test]
fn a_load_that_is_not_finished_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    let family = db.create_family("f", small()).unwrap();
    let before = files(directory.path());
    let mut loader = db.bulk_load(&family).unwrap();
    for number in 0..1000 {
        loader.put(&key(number), &[1; 400]).unwrap();
    }
    assert!(files(directory.path()) > before);
    drop(loader);
    assert_eq!(files(directory.path()), before);
    assert!(content(&db, &family).is_empty());
    let report = db.bulk_load(&family).unwrap().finish().unwrap();
    assert_eq!(report, kingtide::BulkLoadReport::default());

    let mut loader = db.bulk_load(&family).unwrap();
    loader.put(b"k", b"v").unwrap();
    db.drop_family("f").unwrap();
    assert_eq!(
        loader.put(b"l", b"v").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(loader.finish().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(files(directory.path()), before);

    let family = db.create_family("g", small()).unwrap();
    let mut loader = db.bulk_load(&family).unwrap();
    loader.put(b"k", b"v").unwrap();
    db.clone().close().unwrap();
    assert_eq!(
        loader.put(b"l", b"v").unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(loader.finish().unwrap_err().kind(), ErrorKind::Closed);
    let read_only = Options {
        read_only: true,
        ..Options::default()
    };
    let db = Db::open(directory.path(), read_only).unwrap();
    let family = db.family("g").unwrap();
    assert_eq!(
        db.bulk_load(&family).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert!(content(&db, &family).is_empty());
}

/// Goal: a load is newer than everything before it, wherever that lies, and older than everything after it.
#[test]
fn a_load_takes_its_place_in_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    let family = db.create_family("f", small()).unwrap();
    db.put(&family, &key(0), b"deep").unwrap();
    db.compact(&family).unwrap();
    db.put(&family, &key(1), b"in a table").unwrap();
    db.flush(&family).unwrap();
    db.put(&family, &key(2), b"in memory").unwrap();
    db.delete_range(&family, &key(3), &key(5)).unwrap();
    let mut loader = db.bulk_load(&family).unwrap();
    for number in 0..5 {
        loader.put(&key(number), b"loaded").unwrap();
    }
    // Between begin and finish is before the load too.
    db.put(&family, &key(4), b"meanwhile").unwrap();
    db.put(&family, &key(9), b"elsewhere").unwrap();
    let before = db.snapshot().unwrap();
    loader.finish().unwrap();
    for number in 0..5 {
        assert_eq!(db.get(&family, &key(number)).unwrap().unwrap(), b"loaded");
    }
    assert_eq!(before.get(&family, &key(0)).unwrap().unwrap(), b"deep");
    assert_eq!(
        before.get(&family, &key(1)).unwrap().unwrap(),
        b"in a table"
    );
    assert_eq!(before.get(&family, &key(2)).unwrap().unwrap(), b"in memory");
    assert!(before.get(&family, &key(3)).unwrap().is_none());
    assert_eq!(before.get(&family, &key(4)).unwrap().unwrap(), b"meanwhile");
    db.delete(&family, &key(1)).unwrap();
    db.delete_range(&family, &key(3), &key(9)).unwrap();
    let wanted = [(0, &b"loaded"[..]), (2, b"loaded"), (9, b"elsewhere")];
    let wanted: Content = wanted
        .iter()
        .map(|(number, value)| (key(*number), value.to_vec()))
        .collect();
    assert_eq!(content(&db, &family), wanted);
    db.flush(&family).unwrap();
    assert_eq!(content(&db, &family), wanted);
    db.compact(&family).unwrap();
    assert_eq!(content(&db, &family), wanted);
    assert_eq!(before.get(&family, &key(4)).unwrap().unwrap(), b"meanwhile");
    db.close().unwrap();
}

/// Goal: where nothing is in the way a load goes to the bottom at once; where something is, it stays above it.
#[test]
fn a_load_lies_as_deep_as_it_may() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    let family = db.create_family("f", small()).unwrap();
    let load = |numbers: std::ops::Range<u64>| {
        let mut loader = db.bulk_load(&family).unwrap();
        for number in numbers {
            loader.put(&key(number), b"v").unwrap();
        }
        loader.finish().unwrap();
    };
    let shape = || -> Vec<usize> {
        let stats = db.family_stats(&family).unwrap();
        stats.levels.iter().map(|level| level.files).collect()
    };
    load(0..100);
    let first = shape();
    let bottom = first.iter().rposition(|files| *files > 0).unwrap();
    assert!(bottom > 0, "{first:?}");
    load(200..300);
    assert_eq!(shape()[bottom], 2, "beside the first");
    load(50..150);
    assert_eq!(shape()[bottom], 2);
    assert_eq!(shape()[bottom - 1], 1, "above the first");
    assert_eq!(content(&db, &family).len(), 250);
    db.close().unwrap();
}

/// Goal: transactions conflict with a load as with a commit. Method: each level, keys in and beside the load.
#[test]
fn transactions_conflict_with_a_load() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    let family = db.create_family("f", small()).unwrap();
    let begin = |isolation| {
        db.begin_with(TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        })
        .unwrap()
    };
    let mut writer = begin(IsolationLevel::Snapshot);
    let mut bystander = begin(IsolationLevel::Serializable);
    let mut reader = begin(IsolationLevel::Serializable);
    let mut scanner = begin(IsolationLevel::Serializable);
    writer.put(&family, &key(5), b"mine").unwrap();
    assert!(bystander.get(&family, &key(50)).unwrap().is_none());
    bystander.put(&family, &key(51), b"mine").unwrap();
    assert!(reader.get(&family, &key(6)).unwrap().is_none());
    reader.put(&family, &key(52), b"mine").unwrap();
    let mut iter = scanner
        .iter(
            &family,
            IterOptions {
                prefix: Some(b"key".to_vec()),
                ..IterOptions::default()
            },
        )
        .unwrap();
    assert!(!iter.seek_to_first().unwrap());
    drop(iter);
    scanner.put(&family, &key(53), b"mine").unwrap();

    let mut loader = db.bulk_load(&family).unwrap();
    for number in 0..10 {
        loader.put(&key(number), b"loaded").unwrap();
    }
    loader.finish().unwrap();
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(scanner.commit().unwrap_err().kind(), ErrorKind::Conflict);
    bystander.commit().unwrap();
    assert_eq!(content(&db, &family).len(), 11);

    // What is prepared keeps its keys.
    let mut prepared = db.begin().unwrap();
    prepared.put(&family, &key(3), b"prepared").unwrap();
    prepared.prepare(b"x").unwrap();
    let mut loader = db.bulk_load(&family).unwrap();
    loader.put(&key(3), b"loaded again").unwrap();
    assert_eq!(loader.finish().unwrap_err().kind(), ErrorKind::Busy);
    db.commit_prepared(b"x").unwrap();
    assert_eq!(db.get(&family, &key(3)).unwrap().unwrap(), b"prepared");
    db.close().unwrap();
}

/// Goal: beside writers a load is one commit. Method: threads that increment counters over all keys in transactions that
/// may not lose one another, while loads set all counters to a round number; the writers' last numbers tell the order.
#[test]
fn loads_beside_writers_are_commits() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    let family = db.create_family("f", small()).unwrap();
    let is_done = AtomicBool::new(false);
    let (loads, writers) = thread::scope(|scope| {
        let writer = |thread: u64| {
            let (db, family, is_done) = (&db, &family, &is_done);
            move || {
                let mut random = Random::new(thread);
                let mut written: BTreeMap<Vec<u8>, (u64, Vec<u8>)> = BTreeMap::new();
                let mut count = 0_u64;
                while !is_done.load(Ordering::Relaxed) {
                    count += 1;
                    let key = key(random.below(50) as u64);
                    let value = format!("{thread} {count}").into_bytes();
                    let options = TransactionOptions {
                        isolation: IsolationLevel::Snapshot,
                        ..TransactionOptions::default()
                    };
                    let mut transaction = db.begin_with(options).unwrap();
                    transaction.put(family, &key, &value).unwrap();
                    match transaction.commit() {
                        Ok(sequence) => {
                            written.insert(key, (sequence.0, value));
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
                    }
                }
                written
            }
        };
        let threads: Vec<_> = (0..3).map(|thread| scope.spawn(writer(thread))).collect();
        let mut loads: BTreeMap<Vec<u8>, (u64, Vec<u8>)> = BTreeMap::new();
        for round in 0..20 {
            let mut loader = db.bulk_load(&family).unwrap();
            for number in (round % 3..50).step_by(3) {
                loader
                    .put(&key(number), format!("load {round}").as_bytes())
                    .unwrap();
            }
            let sequence = loader.finish().unwrap().sequence.0;
            for number in (round % 3..50).step_by(3) {
                loads.insert(
                    key(number),
                    (sequence, format!("load {round}").into_bytes()),
                );
            }
        }
        is_done.store(true, Ordering::Relaxed);
        let writers: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        (loads, writers)
    });
    let mut newest = loads;
    for (key, written) in writers.into_iter().flatten() {
        let known = newest.entry(key).or_default();
        assert_ne!(known.0, written.0, "a number is given once");
        if known.0 < written.0 {
            *known = written;
        }
    }
    let wanted: Content = newest
        .into_iter()
        .map(|(key, (_, value))| (key, value))
        .collect();
    assert_eq!(content(&db, &family), wanted);
    db.close().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    assert_eq!(content(&db, &db.family("f").unwrap()), wanted);
    db.close().unwrap();
}

/// The history of the crash tests: commits to two families, loads between them.
fn play(env: &MemoryEnv, steps: &mut Vec<(&'static str, Content)>) -> kingtide::Result<()> {
    let db = Db::open(PLACE, options(env.clone()))?;
    let loaded = db.create_family("loaded", small())?;
    let other = db.create_family("other", small())?;
    steps.push(("created", Content::new()));
    let mut state = Content::new();
    let mut put = |steps: &mut Vec<_>, family: &ColumnFamily, key: &[u8], value: &[u8]| {
        let name = [family.name().as_bytes(), b" ", key].concat();
        db.put(family, key, value)?;
        state.insert(name, value.to_vec());
        steps.push(("put", state.clone()));
        Ok::<_, kingtide::Error>(())
    };
    put(steps, &loaded, b"b", b"before")?;
    put(steps, &other, b"b", b"before")?;
    let mut last = steps
        .last()
        .map(|(_, state)| state.clone())
        .unwrap_or_default();
    let mut loader = db.bulk_load(&loaded)?;
    for (index, key) in [b"a", b"b", b"c"].iter().enumerate() {
        let value = vec![index as u8; 100 + 300 * index];
        loader.put(*key, &value)?;
        last.insert([b"loaded ", &key[..]].concat(), value);
    }
    loader.finish()?;
    steps.push(("load", last.clone()));
    for (family, name) in [(&other, "other"), (&loaded, "loaded")] {
        db.put(family, b"z", b"after")?;
        last.insert(format!("{name} z").into_bytes(), b"after".to_vec());
        steps.push(("put", last.clone()));
    }
    let mut loader = db.bulk_load(&loaded)?;
    loader.put(b"z", b"loaded")?;
    last.insert(b"loaded z".to_vec(), b"loaded".to_vec());
    loader.finish()?;
    steps.push(("load", last));
    db.close()
}

fn recovered(env: &MemoryEnv) -> Content {
    let db = Db::open(PLACE, options(env.clone())).unwrap();
    let mut found = Content::new();
    for name in db.families() {
        let family = db.family(&name).unwrap();
        for (key, value) in content(&db, &family) {
            found.insert([name.as_bytes(), b" ", &key[..]].concat(), value);
        }
    }
    db.close().unwrap();
    found
}

/// Goal: after a power cut anywhere, what is there is a prefix of the order, loads as a whole; a load that was answered
/// is there. Method: cuts at every call, four images.
// Promise: 1, 2.
#[test]
fn a_power_cut_leaves_a_prefix_with_whole_loads() {
    let env = MemoryEnv::new(1);
    let mut steps = Vec::new();
    play(&env, &mut steps).unwrap();
    let calls = env.io_count();
    for cut in 0..=calls {
        let env = MemoryEnv::new(1);
        env.halt_after(cut);
        let mut reached = Vec::new();
        let _ = play(&env, &mut reached);
        let answered = reached
            .iter()
            .rposition(|(what, _)| *what == "load")
            .unwrap_or(0);
        for image in [
            CrashImage::NothingUnsynced,
            CrashImage::Everything,
            CrashImage::Random,
            CrashImage::AllButOne,
        ] {
            let found = env.crash(image, cut);
            let state = recovered(&found);
            let allowed = steps
                .iter()
                .skip(answered)
                .any(|(_, allowed)| *allowed == state)
                || (answered == 0 && state.is_empty());
            assert!(allowed, "cut {cut}, {image:?}: {state:?}");
            let leftover = found.paths().len();
            assert!(recovered(&found) == state && found.paths().len() <= leftover);
        }
    }
}

/// Goal: a load that fails leaves the database as it was, and it works on. Method: each kind of call fails once, at
/// each of its turns during the load.
#[test]
fn a_load_that_fails_leaves_the_database_as_it_was() {
    for operation in [
        Operation::Create,
        Operation::Write,
        Operation::Sync,
        Operation::DirectorySync,
    ] {
        for nth in 1.. {
            let memory = MemoryEnv::new(2);
            let env = FaultyEnv::new(Arc::new(memory.clone()));
            let db = Db::open(PLACE, options(env.clone())).unwrap();
            let family = db.create_family("f", small()).unwrap();
            db.put(&family, b"b", b"before").unwrap();
            db.wait_idle().unwrap();
            let before = *env.counts().get(&operation).unwrap_or(&0);
            env.fail(Rule {
                operation,
                name_contains: String::new(),
                nth,
                error: io::ErrorKind::StorageFull,
                times: Times::Once,
            });
            let load = || {
                let mut loader = db.bulk_load(&family)?;
                loader.put(b"a", &[7; 500])?;
                loader.put(b"b", b"loaded")?;
                loader.finish()
            };
            let outcome = load();
            let has_struck = env.counts().get(&operation).unwrap_or(&0) - before >= nth;
            env.clear();
            let expected = if outcome.is_ok() { 2 } else { 1 };
            if outcome.is_ok() {
                assert_eq!(content(&db, &family).len(), 2);
            }
            let is_unknown = outcome.is_err_and(|error| error.kind() == ErrorKind::OutcomeUnknown);
            let _ = db.put(&family, b"c", b"after");
            drop(db);
            let db = Db::open(PLACE, options(memory.clone())).unwrap();
            let mut state = content(&db, &db.family("f").unwrap());
            state.remove(&b"c"[..]);
            assert!(state.len() == expected || (is_unknown && state.len() == 2));
            assert!(db.verify(&mut |_, _| {}).unwrap().damages.is_empty());
            let report = db.stats().unwrap();
            let on_disk = memory
                .paths()
                .iter()
                .filter(|path| path.extension().is_some_and(|kind| kind == "klog"))
                .count();
            assert_eq!(on_disk, report.tables, "no table is left over");
            drop(db);
            if !has_struck {
                break;
            }
        }
    }
}
