//! Commits of a whole database whose disk is full or fails, in the world in memory.

use std::{io, sync::Arc};

use kingtide_env::{CrashImage, FaultyEnv, MemoryEnv, Operation, Rule, Times};

use crate::{ColumnFamily, Db, ErrorKind, FamilyOptions, Options, SyncMode};

const PATH: &str = "/db";

fn open(env: Arc<dyn kingtide_env::Env>) -> Db {
    let options = Options {
        env: Some(env),
        ..Options::default()
    };
    Db::open(PATH, options).expect("the database opens")
}

fn family(db: &Db, name: &str, sync: SyncMode) -> ColumnFamily {
    let options = FamilyOptions {
        sync,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    db.open_family(name, options).expect("it can be made")
}

/// A database in a world whose calls can be made to fail, with one commit in family `f`.
fn faulty(sync: SyncMode) -> (MemoryEnv, FaultyEnv, Db, ColumnFamily) {
    let env = MemoryEnv::new(1);
    let faulty = FaultyEnv::new(Arc::new(env.clone()));
    let db = open(Arc::new(faulty.clone()));
    let f = family(&db, "f", sync);
    db.put(&f, b"before", b"v").expect("healthy");
    (env, faulty, db, f)
}

fn once(operation: Operation, error: io::ErrorKind) -> Rule {
    Rule {
        operation,
        name_contains: ".wal".to_owned(),
        nth: 1,
        error,
        times: Times::Once,
    }
}

fn kind<T>(outcome: crate::Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

fn keys(db: &Db, f: &ColumnFamily, keys: &[&[u8]]) -> Vec<bool> {
    keys.iter()
        .map(|key| db.contains(f, key).expect("reads go on"))
        .collect()
}

/// What a new opening finds after a kill.
fn after_kill(env: &MemoryEnv, wanted: &[&[u8]]) -> Vec<bool> {
    let found = env.kill();
    let db = open(Arc::new(found));
    let f = db.family("f").expect("it was made");
    keys(&db, &f, wanted)
}

/// Goal: replay of a record in parts begins at its first part, whichever segment the last one is in. Method: the record
/// is the first of its memtable; the flush of another family moves the log's start up to it; the process is killed.
#[test]
fn the_log_keeps_all_parts_of_a_long_record() {
    let env = MemoryEnv::new(1);
    let db = open(Arc::new(env.clone()));
    let f = family(&db, "f", SyncMode::None);
    let other = family(&db, "other", SyncMode::None);
    db.put(&other, b"k", b"v").expect("healthy");
    let value = vec![7; 1 << 20];
    let mut transaction = db.begin().expect("open");
    for number in 0..18_u8 {
        transaction.put(&f, &[number], &value).expect("short");
    }
    transaction.commit().expect("healthy");
    db.flush(&other).expect("healthy");
    let wanted: Vec<[u8; 1]> = (0..18).map(|number| [number]).collect();
    let wanted: Vec<&[u8]> = wanted.iter().map(|key| &key[..]).collect();
    assert_eq!(after_kill(&env, &wanted), [true; 18]);
}

/// Goal: a full disk is told before anything is written, and writing goes on when there is space. Method: a record that
/// needs another segment, while the capacity does not hold one.
#[test]
fn a_full_disk_refuses_a_commit_that_needs_another_segment() {
    let env = MemoryEnv::new(2);
    let db = open(Arc::new(env.clone()));
    let f = family(&db, "f", SyncMode::Full);
    db.put(&f, b"before", b"v").expect("healthy");
    let used: usize = env
        .paths()
        .iter()
        .filter_map(|path| env.read_file(path))
        .map(|bytes| bytes.len())
        .sum();
    env.set_capacity(Some(used as u64 + (200 << 10)));
    let value = vec![1; 1 << 20];
    for _ in 0..3 {
        assert_eq!(kind(db.put(&f, b"long", &value)), Some(ErrorKind::DiskFull));
    }
    db.put(&f, b"short", b"v")
        .expect("the segment has room for it");
    assert_eq!(
        keys(&db, &f, &[b"before", b"long", b"short"]),
        [true, false, true]
    );
    env.set_capacity(None);
    db.put(&f, b"long", &value).expect("there is space again");
    let found = env.crash(CrashImage::NothingUnsynced, 0);
    assert_eq!(
        after_kill(&found, &[b"before", b"long", b"short"]),
        [true; 3]
    );
}

/// Goal: a segment that cannot be made durable is given up, and nothing else. Method: its sync fails once; the commit
/// that needed it is refused, the next one finds another.
#[test]
fn a_blank_that_cannot_be_synced_stops_nothing() {
    let (env, faulty, db, f) = faulty(SyncMode::Full);
    faulty.fail(once(Operation::Sync, io::ErrorKind::Other));
    let value = vec![1; 1 << 20];
    assert_eq!(kind(db.put(&f, b"long", &value)), Some(ErrorKind::Io));
    assert_eq!(keys(&db, &f, &[b"long"]), [false]);
    db.put(&f, b"long", &value).expect("the log goes on");
    let found = env.crash(CrashImage::NothingUnsynced, 0);
    assert_eq!(after_kill(&found, &[b"before", b"long"]), [true; 2]);
}

/// Goal: an append that fails stops the log: the commit's outcome is unknown, later ones are refused, reads go on, and
/// the next opening has the commit wholly or not at all. Method: the write of the record fails, that of a new segment's
/// header, and that of a long record's second part.
#[test]
fn a_failed_append_is_final() {
    for (nth, bytes) in [(1, 10), (1, 1 << 20), (2, 1 << 20), (4, 17 << 20)] {
        let (env, faulty, db, f) = faulty(SyncMode::None);
        faulty.fail(Rule {
            nth,
            ..once(Operation::Write, io::ErrorKind::Other)
        });
        let mut transaction = db.begin().expect("open");
        for key in [b"left".as_slice(), b"right"] {
            transaction
                .put(&f, key, &vec![1; bytes / 2])
                .expect("short");
        }
        assert_eq!(
            kind(transaction.commit()),
            Some(ErrorKind::OutcomeUnknown),
            "write {nth}"
        );
        assert_eq!(
            kind(db.put(&f, b"after", b"v")),
            Some(ErrorKind::ReopenRequired)
        );
        assert_eq!(kind(db.sync_wal()), Some(ErrorKind::ReopenRequired));
        assert_eq!(kind(db.flush(&f)), Some(ErrorKind::ReopenRequired));
        let wanted: [&[u8]; 4] = [b"before", b"left", b"right", b"after"];
        assert_eq!(keys(&db, &f, &wanted), [true, false, false, false]);
        assert_eq!(kind(db.close()), Some(ErrorKind::ReopenRequired));
        let found = after_kill(&env, &wanted);
        assert!(found[0] && !found[3], "write {nth}: {found:?}");
        assert_eq!(found[1], found[2], "write {nth}: half a transaction");
    }
}

/// Goal: a sync that fails stops the log, whoever made it. Method: the sync of a commit, and one by `sync_wal`.
#[test]
fn a_failed_sync_is_final() {
    for sync in [SyncMode::Full, SyncMode::None] {
        let (env, faulty, db, f) = faulty(sync);
        faulty.fail(once(Operation::Sync, io::ErrorKind::Other));
        match sync {
            SyncMode::Full => assert_eq!(
                kind(db.put(&f, b"during", b"v")),
                Some(ErrorKind::OutcomeUnknown)
            ),
            _ => assert_eq!(kind(db.sync_wal()), Some(ErrorKind::ReopenRequired)),
        }
        assert_eq!(
            kind(db.put(&f, b"after", b"v")),
            Some(ErrorKind::ReopenRequired)
        );
        assert_eq!(
            keys(&db, &f, &[b"before", b"during", b"after"]),
            [true, false, false]
        );
        assert_eq!(kind(db.close()), Some(ErrorKind::ReopenRequired));
        let found = after_kill(&env, &[b"before", b"after"]);
        assert_eq!(found, [true, false]);
    }
}
