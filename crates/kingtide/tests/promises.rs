//! One test per promise about durability, named by its number.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{io, sync::Arc, thread};

use kingtide::{ColumnFamily, Db, ErrorKind, FamilyOptions, Options, SyncMode, TransactionOptions};
use kingtide_env::{CrashImage, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_testkit::{
    damage::{Flip, Specimen},
    script,
    world::{self, DATABASE, IMAGES},
};

const INTERVAL: SyncMode = SyncMode::Interval(std::time::Duration::from_secs(3600));

fn open(env: &MemoryEnv) -> Db {
    Db::open(DATABASE, world::options(env)).expect("the database opens")
}

fn options(sync: SyncMode) -> FamilyOptions {
    FamilyOptions {
        sync,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Commits one transaction that puts key `number` in each family.
fn commit(db: &Db, families: &[&ColumnFamily], number: usize, sync: SyncMode) {
    let mut transaction = db
        .begin_with(TransactionOptions {
            sync: Some(sync),
            ..TransactionOptions::default()
        })
        .unwrap();
    for family in families {
        transaction
            .put(family, &key(number), format!("value {number}").as_bytes())
            .unwrap();
    }
    transaction.commit().unwrap();
}

/// Which of the keys 0 to `count` a family has.
fn present(db: &Db, name: &str, count: usize) -> Vec<bool> {
    let family = db.family(name).unwrap();
    let has = |number| db.get(&family, &key(number)).unwrap().is_some();
    (0..count).map(has).collect()
}

/// The length of the prefix that is there; fails when there is a hole.
fn prefix(present: &[bool]) -> usize {
    let length = present.iter().take_while(|is_there| **is_there).count();
    assert!(
        !present[length..].contains(&true),
        "a commit survived one that was lost before it"
    );
    length
}

fn off(env: &MemoryEnv, db: &Db) {
    world::power_off(env);
    let _ = db.close();
}

fn wal_rule(operation: Operation, times: Times) -> Rule {
    Rule {
        operation,
        name_contains: ".wal".to_owned(),
        nth: 1,
        error: io::ErrorKind::Other,
        times,
    }
}

fn faulty(env: &MemoryEnv) -> (FaultyEnv, Options) {
    let faulty = FaultyEnv::new(Arc::new(env.clone()));
    let options = Options {
        env: Some(Arc::new(faulty.clone())),
        ..Options::default()
    };
    (faulty, options)
}

/// Method: transactions over two families with sync off; one family is flushed, so its half is in a table whatever
/// becomes of the log. After a power cut either both halves of a transaction are there or none.
// Promise: 1.
#[test]
fn promise_1_a_transaction_is_there_as_a_whole_or_not_at_all() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let left = db.create_family("left", options(SyncMode::None)).unwrap();
    let right = db.create_family("right", options(SyncMode::None)).unwrap();
    for number in 0..20 {
        commit(&db, &[&left, &right], number, SyncMode::None);
    }
    db.flush(&left).unwrap();
    for number in 20..30 {
        commit(&db, &[&left, &right], number, SyncMode::None);
    }
    for seed in 0..10 {
        for image in IMAGES {
            let found = env.crash(image, seed);
            let recovered = open(&found);
            let halves = (
                present(&recovered, "left", 30),
                present(&recovered, "right", 30),
            );
            assert_eq!(halves.0, halves.1, "image {image:?}, seed {seed}");
            assert!(
                prefix(&halves.0) >= 20,
                "a flushed transaction is lost, image {image:?}, seed {seed}"
            );
            off(&found, &recovered);
        }
    }
    off(&env, &db);
}

/// Method: commits in changing modes, then power cuts with random images; what is there is a prefix.
// Promise: 2.
#[test]
fn promise_2_no_survivor_depends_on_a_loss() {
    let env = MemoryEnv::new(2);
    let db = open(&env);
    let family = db.create_family("f", options(SyncMode::None)).unwrap();
    for number in 0..60 {
        let sync = [SyncMode::None, INTERVAL, SyncMode::None][number % 3];
        commit(&db, &[&family], number, sync);
        for seed in 0..3 {
            let found = env.crash(
                IMAGES[(number + seed) % IMAGES.len()],
                (number * 3 + seed) as u64,
            );
            let recovered = open(&found);
            prefix(&present(&recovered, "f", 61));
            off(&found, &recovered);
        }
    }
    off(&env, &db);
}

// Promise: 3.
#[test]
fn promise_3_full_commits_survive_a_power_cut() {
    let env = MemoryEnv::new(3);
    let db = open(&env);
    let family = db.create_family("f", options(SyncMode::Full)).unwrap();
    for number in 0..20 {
        // The commit in mode full carries those before it.
        let sync = if number % 4 == 3 {
            SyncMode::Full
        } else {
            SyncMode::None
        };
        commit(&db, &[&family], number, sync);
        let found = env.crash(CrashImage::NothingUnsynced, number as u64);
        let recovered = open(&found);
        let floor = (number + 1) / 4 * 4;
        assert!(
            prefix(&present(&recovered, "f", 20)) >= floor,
            "after commit {number}"
        );
        off(&found, &recovered);
    }
    off(&env, &db);
}

// Promise: 3.
#[test]
fn promise_3_synced_commits_survive_a_power_cut_in_every_mode() {
    for sync in [SyncMode::None, INTERVAL] {
        let env = MemoryEnv::new(4);
        let db = open(&env);
        let family = db.create_family("f", options(sync)).unwrap();
        for number in 0..10 {
            db.put(&family, &key(number), b"v").unwrap();
        }
        db.sync_wal().unwrap();
        db.put(&family, &key(10), b"v").unwrap();
        let found = env.crash(CrashImage::NothingUnsynced, 0);
        let recovered = open(&found);
        assert!(prefix(&present(&recovered, "f", 11)) >= 10);
        off(&found, &recovered);
        off(&env, &db);
    }
}

// Promise: 3.
#[test]
fn promise_3_every_acknowledged_commit_survives_a_kill() {
    for sync in [SyncMode::None, INTERVAL, SyncMode::Full] {
        let env = MemoryEnv::new(5);
        let db = open(&env);
        let family = db.create_family("f", options(sync)).unwrap();
        for number in 0..50 {
            db.put(&family, &key(number), b"v").unwrap();
        }
        let found = env.kill();
        let recovered = open(&found);
        assert_eq!(prefix(&present(&recovered, "f", 50)), 50, "{sync:?}");
        off(&found, &recovered);
        off(&env, &db);
    }
}

/// Method: the sync of the log fails once under a commit in mode full. That commit says that its outcome is unknown,
/// nothing more is written although later syncs would succeed, reads go on below it, and the next opening finds the
/// commit wholly there or wholly absent.
// Promise: 4.
#[test]
fn promise_4_a_failed_sync_is_final() {
    let env = MemoryEnv::new(6);
    let (faulty, settings) = faulty(&env);
    let db = Db::open(DATABASE, settings).unwrap();
    let left = db.create_family("left", options(SyncMode::Full)).unwrap();
    let right = db.create_family("right", options(SyncMode::Full)).unwrap();
    commit(&db, &[&left, &right], 0, SyncMode::Full);
    faulty.fail(wal_rule(Operation::Sync, Times::Once));
    let mut transaction = db.begin().unwrap();
    transaction.put(&left, &key(1), b"v").unwrap();
    transaction.put(&right, &key(1), b"v").unwrap();
    assert_eq!(
        transaction.commit().unwrap_err().kind(),
        ErrorKind::OutcomeUnknown
    );
    for _ in 0..3 {
        assert_eq!(
            db.put(&left, &key(2), b"v").unwrap_err().kind(),
            ErrorKind::ReopenRequired
        );
    }
    assert!(db.sync_wal().is_err());
    assert_eq!(
        present(&db, "left", 3),
        [true, false, false],
        "what was not synced is visible"
    );
    assert!(db.flush(&left).is_err(), "nothing unsynced may be flushed");
    let _ = db.close();
    for (seed, image) in (0..).zip(IMAGES) {
        let found = env.crash(image, seed);
        let recovered = open(&found);
        let halves = (
            present(&recovered, "left", 3),
            present(&recovered, "right", 3),
        );
        assert_eq!(halves.0, halves.1, "{image:?}");
        assert!(halves.0[0] && !halves.0[2], "{image:?}: {halves:?}");
        db_writes_again(&recovered);
        off(&found, &recovered);
    }
}

fn db_writes_again(db: &Db) {
    let family = db.family("left").unwrap();
    db.put(&family, b"again", b"v").unwrap();
    assert!(db.contains(&family, b"again").unwrap());
}

/// When no commit waited for the failed sync, the next write and `sync_wal` tell.
// Promise: 4.
#[test]
fn promise_4_a_failed_sync_in_the_background_is_told() {
    let env = MemoryEnv::new(7);
    let (faulty, settings) = faulty(&env);
    let db = Db::open(DATABASE, settings).unwrap();
    let family = db.create_family("f", options(SyncMode::None)).unwrap();
    db.put(&family, &key(0), b"v").unwrap();
    db.sync_wal().unwrap();
    db.put(&family, &key(1), b"v").unwrap();
    faulty.fail(wal_rule(Operation::Sync, Times::Once));
    assert!(db.sync_wal().is_err());
    assert_eq!(
        db.put(&family, &key(2), b"v").unwrap_err().kind(),
        ErrorKind::ReopenRequired
    );
    assert!(
        db.sync_wal().is_err(),
        "a later sync must not pretend that all is well"
    );
    assert!(db.get(&family, &key(0)).unwrap().is_some());
    let _ = db.close();
    let found = env.crash(CrashImage::NothingUnsynced, 0);
    let recovered = open(&found);
    assert!(prefix(&present(&recovered, "f", 3)) >= 1);
    off(&found, &recovered);
}

/// Method: a share of the damage matrix that `proof corrupt` runs in full.
// Promise: 5.
#[test]
fn promise_5_corruption_is_never_not_found() {
    let specimen = Specimen::build().unwrap();
    let places = specimen.places();
    assert!(
        places.len() > 1000,
        "the specimen is too small to show anything"
    );
    for place in places.iter().step_by(places.len() / 60) {
        specimen.check(place, Flip::Invert, false).unwrap();
        specimen.check(place, Flip::OneBit, true).unwrap();
    }
}

/// A killed database whose log holds commits 0 to 9, each synced; and the path and content of the log.
fn killed_with_log() -> (MemoryEnv, std::path::PathBuf, Vec<u8>) {
    let env = MemoryEnv::new(8);
    let db = open(&env);
    let family = db.create_family("f", options(SyncMode::Full)).unwrap();
    for number in 0..10 {
        commit(&db, &[&family], number, SyncMode::Full);
    }
    let found = env.kill();
    off(&env, &db);
    let holds = |path: &std::path::PathBuf| {
        let bytes = found.read_file(path).unwrap_or_default();
        path.extension().is_some_and(|extension| extension == "wal")
            && position(&bytes, b"value 9").is_some()
    };
    let path = found
        .paths()
        .into_iter()
        .find(holds)
        .expect("a log segment holds the last commit");
    let bytes = found.read_file(&path).unwrap();
    (found, path, bytes)
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

// Promise: 6.
#[test]
fn promise_6_damage_below_the_durable_mark_is_reported() {
    let (env, path, bytes) = killed_with_log();
    for number in 0..8 {
        let at = position(&bytes, format!("value {number}").as_bytes()).unwrap();
        let damaged = env.kill();
        damaged.corrupt(&path, at as u64, |byte| *byte ^= 1);
        let error = Db::open(DATABASE, world::options(&damaged))
            .map(drop)
            .unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Corruption,
            "damage in commit {number}: {error}"
        );
    }
    let cut = position(&bytes, b"value 3").unwrap();
    let damaged = env.kill();
    let mut shortened = bytes.clone();
    shortened[cut..].fill(0);
    let middle = position(&bytes, b"value 8").unwrap();
    shortened[middle..].copy_from_slice(&bytes[middle..]);
    damaged.write_file(&path, &shortened).unwrap();
    assert!(
        Db::open(DATABASE, world::options(&damaged)).is_err(),
        "a hole in the log is damage"
    );
}

/// Method: the log is left alone until the database has written into it by itself; then the last commit, which no
/// later commit speaks for, is damaged.
// Promise: 6.
#[test]
fn promise_6_an_idle_log_witnesses_its_last_commit() {
    let env = MemoryEnv::new(15);
    let db = open(&env);
    let family = db.create_family("f", options(SyncMode::Full)).unwrap();
    commit(&db, &[&family], 9, SyncMode::Full);
    let (path, at) = env
        .paths()
        .into_iter()
        .find_map(|path| {
            let bytes = env.read_file(&path)?;
            let is_log = path.extension().is_some_and(|extension| extension == "wal");
            is_log
                .then(|| position(&bytes, b"value 9"))
                .flatten()
                .map(|at| (path, at))
        })
        .expect("a log segment holds the commit");
    let has_witness = || {
        let bytes = env.read_file(&path).unwrap_or_default();
        // The record of the commit ends within a few bytes; what stands further on was written afterwards.
        bytes[at + 32..].iter().any(|byte| *byte != 0)
    };
    let attempts = (0..1_000_000).find(|_| {
        thread::yield_now();
        has_witness()
    });
    assert!(
        attempts.is_some(),
        "an idle log gets no witness of its last commit"
    );
    let found = env.kill();
    off(&env, &db);
    found.corrupt(&path, at as u64, |byte| *byte ^= 1);
    let error = Db::open(DATABASE, world::options(&found))
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

// Promise: 6.
#[test]
fn promise_6_a_torn_tail_is_a_normal_crash() {
    let (env, path, bytes) = killed_with_log();
    let last = position(&bytes, b"value 9").unwrap();
    let torn = env.kill();
    let mut shortened = bytes.clone();
    shortened[last + 3..].fill(0);
    torn.write_file(&path, &shortened).unwrap();
    let db = open(&torn);
    assert_eq!(prefix(&present(&db, "f", 10)), 9);
    off(&torn, &db);
}

/// Method: commits are lost by a power cut, the database goes on, and what was lost never comes back, in whatever
/// state the disk is found later. And: cuts of a scripted history, each recovery cut as well.
// Promise: 7.
#[test]
fn promise_7_recovery_is_itself_durable() {
    let env = MemoryEnv::new(9);
    let db = open(&env);
    let family = db.create_family("f", options(SyncMode::None)).unwrap();
    for number in 0..30 {
        commit(&db, &[&family], number, SyncMode::None);
    }
    for (seed, image) in (0..).zip(IMAGES) {
        let first = env.crash(image, seed);
        let recovered = open(&first);
        let kept = prefix(&present(&recovered, "f", 30));
        let again = recovered.family("f").unwrap();
        recovered.put(&again, b"after", b"v").unwrap();
        for next in IMAGES {
            let second = first.crash(next, seed);
            let twice = open(&second);
            assert_eq!(
                prefix(&present(&twice, "f", 30)),
                kept,
                "{image:?}, then {next:?}"
            );
            off(&second, &twice);
        }
        off(&first, &recovered);
    }
    off(&env, &db);
    let calls = script::count_calls().unwrap();
    for cut in [calls / 3, calls / 2, calls - 5] {
        script::check_cut(cut, 9).unwrap();
    }
}

fn used_bytes(env: &MemoryEnv) -> u64 {
    let length = |path| env.read_file(path).map_or(0, |bytes| bytes.len() as u64);
    env.paths().into_iter().map(length).sum()
}

/// Flushes that failed are tried again in the background; until one has succeeded, a put may still be refused.
fn put_when_space_is_back(db: &Db, family: &ColumnFamily, key: &[u8], value: &[u8]) {
    for _ in 0..100_000_000_u64 {
        match db.put(family, key, value) {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}"),
        }
        thread::yield_now();
    }
    panic!("writing does not go on although space is back");
}

// Promise: 8.
#[test]
fn promise_8_a_full_disk_loses_nothing_and_writing_goes_on() {
    let env = MemoryEnv::new(10);
    let db = open(&env);
    let small = FamilyOptions {
        write_buffer_bytes: 32 << 10,
        ..options(SyncMode::Full)
    };
    let family = db.create_family("f", small).unwrap();
    let value = kingtide_testkit::Random::new(1).bytes(3000);
    let mut stored = 0;
    let mut refusals = 0;
    for round in 0..3 {
        env.set_capacity(Some(used_bytes(&env) + (200 << 10)));
        let kind = loop {
            assert!(stored < 10_000, "the disk never becomes full");
            match db.put(&family, &key(stored), &value) {
                Ok(()) => stored += 1,
                Err(error) => break error.kind(),
            }
        };
        assert_eq!(kind, ErrorKind::DiskFull, "round {round}");
        refusals += 1;
        for number in 0..stored {
            assert!(
                db.get(&family, &key(number)).unwrap().is_some(),
                "{number} of {stored}"
            );
        }
        env.set_capacity(None);
        put_when_space_is_back(&db, &family, &key(stored), &value);
        stored += 1;
    }
    assert_eq!(refusals, 3);
    db.flush(&family).unwrap();
    let found = env.kill();
    let recovered = open(&found);
    assert_eq!(prefix(&present(&recovered, "f", stored + 1)), stored);
    off(&found, &recovered);
    off(&env, &db);
}

// Promise: 9.
#[test]
fn promise_9_close_loses_nothing_in_any_mode() {
    for sync in [SyncMode::None, INTERVAL, SyncMode::Full] {
        let env = MemoryEnv::new(11);
        let db = open(&env);
        let family = db.create_family("f", options(sync)).unwrap();
        for number in 0..20 {
            commit(&db, &[&family], number, sync);
        }
        db.close().unwrap();
        let found = env.crash(CrashImage::NothingUnsynced, 0);
        let recovered = open(&found);
        assert_eq!(prefix(&present(&recovered, "f", 21)), 20, "{sync:?}");
        off(&found, &recovered);
    }
}

/// Tables cannot be written; the log is kept instead, and nothing is lost.
// Promise: 9.
#[test]
fn promise_9_close_keeps_the_log_when_it_cannot_flush() {
    let env = MemoryEnv::new(12);
    let (faulty, settings) = faulty(&env);
    let db = Db::open(DATABASE, settings).unwrap();
    let family = db.create_family("f", options(SyncMode::None)).unwrap();
    commit(&db, &[&family], 0, SyncMode::None);
    faulty.fail(Rule {
        name_contains: ".klog".to_owned(),
        ..wal_rule(Operation::Create, Times::Forever)
    });
    let _ = db.close();
    let found = env.crash(CrashImage::NothingUnsynced, 0);
    let recovered = open(&found);
    assert_eq!(prefix(&present(&recovered, "f", 2)), 1);
    off(&found, &recovered);
}

// Promise: 9.
#[test]
fn promise_9_a_second_opening_is_refused() {
    let env = MemoryEnv::new(13);
    let db = open(&env);
    let error = Db::open(DATABASE, world::options(&env))
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    db.close().unwrap();
    let again = open(&env);
    again.close().unwrap();
}

/// Method: a killed database with tables and a log that needs replay is opened for reading only; every file keeps its
/// bytes and no call that could change one is made.
// Promise: 9.
#[test]
fn promise_9_a_read_only_opening_writes_nothing() {
    let env = MemoryEnv::new(14);
    let db = open(&env);
    let family = db.create_family("f", options(SyncMode::None)).unwrap();
    commit(&db, &[&family], 0, SyncMode::None);
    db.flush(&family).unwrap();
    commit(&db, &[&family], 1, SyncMode::None);
    let found = env.kill();
    off(&env, &db);
    let bytes = |env: &MemoryEnv| -> Vec<_> {
        env.paths()
            .into_iter()
            .map(|path| (path.clone(), env.read_file(&path)))
            .collect()
    };
    let before = (bytes(&found), found.io_count());
    let mut settings = world::options(&found);
    settings.read_only = true;
    let reader = Db::open(DATABASE, settings).unwrap();
    assert_eq!(prefix(&present(&reader, "f", 3)), 2);
    let family = reader.family("f").unwrap();
    assert_eq!(
        reader.put(&family, b"k", b"v").unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    reader.close().unwrap();
    assert!(
        (bytes(&found), found.io_count()) == before,
        "a read-only opening changed the directory"
    );
}
