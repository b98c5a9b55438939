//! Two-phase commit: names, locks, outcomes, and what survives which crash.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

mod locks;
mod threads;

use std::sync::Arc;

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, IsolationLevel, Options, SyncMode, Transaction,
    TransactionOptions,
};
use kingtide_env::{CrashImage, Env, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_testkit::world::{self, DATABASE, IMAGES};

fn open(env: &MemoryEnv) -> Db {
    Db::open(DATABASE, world::options(env)).expect("the database opens")
}

fn family(db: &Db, name: &str, sync: SyncMode) -> ColumnFamily {
    let options = FamilyOptions {
        sync,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    db.open_family(name, options).unwrap()
}

fn begin(db: &Db, isolation: IsolationLevel) -> Transaction {
    db.begin_with(TransactionOptions {
        isolation,
        ..TransactionOptions::default()
    })
    .unwrap()
}

/// Prepares puts of `keys`, each with itself as value.
fn prepare(db: &Db, family: &ColumnFamily, xid: &[u8], keys: &[&[u8]]) -> kingtide::Result<()> {
    let mut transaction = db.begin()?;
    for key in keys {
        transaction.put(family, key, key)?;
    }
    transaction.prepare(xid)
}

fn xids(db: &Db) -> Vec<Vec<u8>> {
    let list = db.prepared().unwrap();
    list.into_iter().map(|prepared| prepared.xid).collect()
}

fn has(db: &Db, family: &ColumnFamily, key: &[u8]) -> bool {
    db.get(family, key).unwrap().is_some()
}

fn kind<T>(outcome: kingtide::Result<T>) -> ErrorKind {
    match outcome {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error.kind(),
    }
}

/// Runs a check in the world in memory and on a real file system.
fn in_both_worlds(check: impl Fn(&dyn Fn() -> Db)) {
    let env = MemoryEnv::new(1);
    check(&|| open(&env));
    let directory = tempfile::tempdir().unwrap();
    check(&|| Db::open(directory.path(), Options::default()).unwrap());
}

#[test]
fn a_prepared_transaction_is_invisible_until_its_commit() {
    in_both_worlds(|open| {
        let db = open();
        let f = family(&db, "f", SyncMode::None);
        let g = family(&db, "g", SyncMode::None);
        let mut transaction = db.begin().unwrap();
        transaction.put(&f, b"a", b"1").unwrap();
        transaction.put(&g, b"b", b"2").unwrap();
        transaction.delete(&f, b"c").unwrap();
        let before = db.stats().unwrap().sequence;
        transaction.prepare(b"x").unwrap();
        assert_eq!(db.stats().unwrap().sequence, before, "no number is taken");
        assert!(!has(&db, &f, b"a") && !has(&db, &g, b"b"));

        let list = db.prepared().unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!(db.stats().unwrap().prepared, 1);
        assert_eq!(list[0].xid, b"x");
        assert_eq!(list[0].operation_count, 3);
        assert_eq!(list[0].families, ["f", "g"]);
        assert_eq!(list[0].isolation, IsolationLevel::ReadCommitted);
        assert!(list[0].bytes > 0);

        let sequence = db.commit_prepared(b"x").unwrap();
        assert!(sequence > before);
        assert!(has(&db, &f, b"a") && has(&db, &g, b"b"));
        assert!(db.prepared().unwrap().is_empty());
        assert_eq!(db.stats().unwrap().prepared, 0);
        db.close().unwrap();

        let db = open();
        let f = db.family("f").unwrap();
        assert!(has(&db, &f, b"a"));
        assert!(db.prepared().unwrap().is_empty());
        db.close().unwrap();
    });
}

#[test]
fn a_transaction_that_was_prepared_is_finished() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let f = family(&db, "f", SyncMode::None);
    let mut transaction = begin(&db, IsolationLevel::Snapshot);
    transaction.put(&f, b"a", b"1").unwrap();
    transaction.prepare(b"x").unwrap();
    assert_eq!(kind(transaction.put(&f, b"b", b"1")), ErrorKind::Closed);
    assert_eq!(kind(transaction.get(&f, b"a")), ErrorKind::Closed);
    assert_eq!(kind(transaction.commit()), ErrorKind::Closed);
    assert_eq!(kind(transaction.prepare(b"y")), ErrorKind::Closed);
    assert_eq!(kind(transaction.rollback()), ErrorKind::InvalidArgument);
    transaction.reset().unwrap();
    assert!(transaction.get(&f, b"a").unwrap().is_none());
    transaction.put(&f, b"b", b"1").unwrap();
    transaction.commit().unwrap();
    drop(transaction);
    assert_eq!(xids(&db), [b"x"]);
    db.rollback_prepared(b"x").unwrap();
    assert!(!has(&db, &f, b"a") && has(&db, &f, b"b"));
}

// Promise: limits.
#[test]
fn names_are_checked_and_used_once() {
    in_both_worlds(|open| {
        let db = open();
        let f = family(&db, "f", SyncMode::None);
        let mut transaction = db.begin().unwrap();
        transaction.put(&f, b"a", b"1").unwrap();
        assert_eq!(kind(transaction.prepare(b"")), ErrorKind::InvalidArgument);
        assert_eq!(kind(transaction.prepare(&[7; 129])), ErrorKind::TooLarge);
        // It is as it was.
        transaction.prepare(&[7; 128]).unwrap();
        assert_eq!(kind(db.commit_prepared(b"")), ErrorKind::InvalidArgument);
        assert_eq!(kind(db.rollback_prepared(&[7; 129])), ErrorKind::TooLarge);
        assert_eq!(kind(db.commit_prepared(b"other")), ErrorKind::NotFound);
        assert_eq!(kind(db.rollback_prepared(b"other")), ErrorKind::NotFound);

        prepare(&db, &f, b"x", &[b"k"]).unwrap();
        assert_eq!(
            kind(prepare(&db, &f, b"x", &[b"l"])),
            ErrorKind::AlreadyExists
        );
        db.commit_prepared(b"x").unwrap();
        assert_eq!(kind(db.commit_prepared(b"x")), ErrorKind::NotFound);
        assert_eq!(kind(db.rollback_prepared(b"x")), ErrorKind::NotFound);
        assert_eq!(
            kind(prepare(&db, &f, b"x", &[b"l"])),
            ErrorKind::AlreadyExists
        );
        assert!(!has(&db, &f, b"l"));
        prepare(&db, &f, b"y", &[b"k"]).unwrap();
        db.rollback_prepared(b"y").unwrap();
        assert_eq!(
            kind(prepare(&db, &f, b"y", &[b"l"])),
            ErrorKind::AlreadyExists
        );
        db.rollback_prepared(&[7; 128]).unwrap();
        db.close().unwrap();
    });
}

/// What a kill leaves in the log tells the next opening which names are used up.
#[test]
fn a_name_that_is_refused_leaves_the_transaction_as_it_was() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let family = family(&db, "f", SyncMode::None);
    prepare(&db, &family, b"taken", &[b"a"]).unwrap();
    let mut transaction = begin(&db, IsolationLevel::Serializable);
    assert!(transaction.get(&family, b"b").unwrap().is_none());
    transaction.put(&family, b"c", b"1").unwrap();
    transaction.savepoint("before").unwrap();
    transaction.put(&family, b"d", b"1").unwrap();
    assert_eq!(
        kind(transaction.prepare(b"taken")),
        ErrorKind::AlreadyExists
    );
    transaction.rollback_to("before").unwrap();
    assert_eq!(transaction.get(&family, b"c").unwrap().unwrap(), b"1");

    // What was read is still remembered.
    db.put(&family, b"b", b"2").unwrap();
    assert_eq!(kind(transaction.prepare(b"free")), ErrorKind::Conflict);
    transaction.reset().unwrap();
    transaction.put(&family, b"c", b"1").unwrap();
    assert_eq!(
        kind(transaction.prepare(b"taken")),
        ErrorKind::AlreadyExists
    );
    transaction.commit().unwrap();
    assert!(has(&db, &family, b"c") && !has(&db, &family, b"d"));
    db.close().unwrap();
}

#[test]
fn names_that_the_log_still_tells_are_refused_after_a_crash() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let f = family(&db, "f", SyncMode::None);
    for xid in [b"c", b"r", b"p"] {
        prepare(&db, &f, xid, &[xid]).unwrap();
    }
    db.commit_prepared(b"c").unwrap();
    db.rollback_prepared(b"r").unwrap();
    let found = env.crash(CrashImage::Everything, 1);
    let db = open(&found);
    let f = db.family("f").unwrap();
    assert_eq!(xids(&db), [b"p"]);
    assert!(has(&db, &f, b"c") && !has(&db, &f, b"r"));
    for xid in [b"c", b"r", b"p"] {
        assert_eq!(
            kind(prepare(&db, &f, xid, &[b"z"])),
            ErrorKind::AlreadyExists
        );
    }
}

#[test]
fn written_keys_are_locked_against_every_level() {
    in_both_worlds(|open| {
        let db = open();
        let f = family(&db, "f", SyncMode::None);
        let g = family(&db, "g", SyncMode::None);
        db.put(&f, b"a", b"before").unwrap();
        prepare(&db, &f, b"x", &[b"a", b"b"]).unwrap();
        for isolation in [
            IsolationLevel::ReadUncommitted,
            IsolationLevel::ReadCommitted,
            IsolationLevel::RepeatableRead,
            IsolationLevel::Snapshot,
            IsolationLevel::Serializable,
        ] {
            for key in [b"a", b"b"] {
                let mut transaction = begin(&db, isolation);
                transaction.put(&f, b"other", b"1").unwrap();
                transaction.delete(&f, key).unwrap();
                let error = transaction.commit().expect_err("the key is locked");
                assert_eq!(error.kind(), ErrorKind::Conflict);
                let text = error.to_string();
                assert!(text.contains("\"x\"") && text.contains("\"f\""), "{text}");
                assert!(!has(&db, &f, b"other"), "nothing of it was written");
            }
        }
        // The same key elsewhere, and other keys, are free; so are reads.
        db.put(&g, b"a", b"1").unwrap();
        db.put(&f, b"c", b"1").unwrap();
        assert_eq!(db.get(&f, b"a").unwrap().unwrap(), b"before");
        // Another prepare is refused as well, and leaves nothing.
        assert_eq!(
            kind(prepare(&db, &f, b"y", &[b"d", b"b"])),
            ErrorKind::Conflict
        );
        db.put(&f, b"d", b"1").unwrap();
        prepare(&db, &f, b"y", &[b"e"]).unwrap();
        db.commit_prepared(b"x").unwrap();
        db.put(&f, b"a", b"after").unwrap();
        assert_eq!(kind(db.delete(&f, b"e")), ErrorKind::Conflict);
        db.rollback_prepared(b"y").unwrap();
        db.delete(&f, b"e").unwrap();
        db.close().unwrap();
    });
}

#[test]
fn a_prepare_is_validated_like_a_commit() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let f = family(&db, "f", SyncMode::None);
    let mut transaction = begin(&db, IsolationLevel::Snapshot);
    transaction.put(&f, b"a", b"1").unwrap();
    db.put(&f, b"a", b"first").unwrap();
    assert_eq!(kind(transaction.prepare(b"x")), ErrorKind::Conflict);
    assert!(db.prepared().unwrap().is_empty());
    transaction.reset().unwrap();
    transaction.put(&f, b"a", b"1").unwrap();
    // The name was given back.
    transaction.prepare(b"x").unwrap();
    // First committer wins against what is prepared, too: the commit counts from its outcome.
    let mut late = begin(&db, IsolationLevel::Snapshot);
    late.put(&f, b"a", b"late").unwrap();
    db.commit_prepared(b"x").unwrap();
    assert_eq!(kind(late.commit()), ErrorKind::Conflict);
}

#[test]
fn keys_that_an_order_calls_equal_are_locked_together() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let options = FamilyOptions {
        comparator: "case_insensitive".to_owned(),
        ..FamilyOptions::default()
    };
    let f = db.create_family("f", options).unwrap();
    prepare(&db, &f, b"x", &[b"Key"]).unwrap();
    assert_eq!(kind(db.put(&f, b"kEY", b"1")), ErrorKind::Conflict);
    db.put(&f, b"kEYs", b"1").unwrap();
}

#[test]
fn an_empty_transaction_is_prepared_and_ended_too() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    db.begin().unwrap().prepare(b"x").unwrap();
    db.begin().unwrap().prepare(b"y").unwrap();
    let db = open(&env.crash(CrashImage::NothingUnsynced, 1));
    assert_eq!(xids(&db), [b"x", b"y"]);
    assert_eq!(db.commit_prepared(b"x").unwrap(), kingtide::SeqNo::ZERO);
    db.rollback_prepared(b"y").unwrap();
    assert!(db.prepared().unwrap().is_empty());
}

#[test]
fn a_family_in_use_is_not_dropped() {
    in_both_worlds(|open| {
        let db = open();
        let f = family(&db, "f", SyncMode::None);
        prepare(&db, &f, b"x", &[b"a"]).unwrap();
        assert_eq!(kind(db.drop_family("f")), ErrorKind::Busy);
        db.rename_family("f", "g").unwrap();
        db.clone_family("g", "h").unwrap();
        assert_eq!(db.prepared().unwrap()[0].families, ["g"]);
        db.close().unwrap();
        let db = open();
        assert_eq!(kind(db.drop_family("g")), ErrorKind::Busy);
        db.commit_prepared(b"x").unwrap();
        assert!(has(&db, &db.family("g").unwrap(), b"a"));
        assert!(!has(&db, &db.family("h").unwrap(), b"a"));
        db.drop_family("g").unwrap();
        db.close().unwrap();
        assert_eq!(open().families(), ["h"]);
    });
}

/// Goal: what is prepared survives every crash with its locks, whatever the sync mode, any number of times. Method:
/// power cuts with each image, then a clean close, then a kill, and the outcome at the end.
// Promise: 3.
#[test]
fn prepared_transactions_survive_crashes_with_their_locks() {
    for image in IMAGES {
        let env = MemoryEnv::new(1);
        let db = open(&env);
        let f = family(&db, "f", SyncMode::None);
        db.put(&f, b"unsynced?", b"1").unwrap();
        prepare(&db, &f, b"c", &[b"a", b"b"]).unwrap();
        prepare(&db, &f, b"r", &[b"d"]).unwrap();
        let mut world = env.crash(image, 7);
        drop(db);
        for round in 0..4 {
            let db = open(&world);
            let f = db.family("f").unwrap();
            assert_eq!(xids(&db), [b"c", b"r"]);
            assert!(has(&db, &f, b"unsynced?"), "the prepare's sync covers it");
            assert!(!has(&db, &f, b"a") && !has(&db, &f, b"d"));
            for key in [b"a", b"b", b"d"] {
                assert_eq!(kind(db.put(&f, key, b"other")), ErrorKind::Conflict);
            }
            db.put(&f, b"free", b"1").unwrap();
            if round == 1 {
                db.close().unwrap();
            }
            if round < 3 {
                let cut = IMAGES[round % IMAGES.len()];
                world = world.crash(cut, round as u64);
                drop(db);
                continue;
            }
            db.commit_prepared(b"c").unwrap();
            db.rollback_prepared(b"r").unwrap();
            db.sync_wal().unwrap();
            world = world.crash(CrashImage::NothingUnsynced, 9);
            drop(db);
        }
        let db = open(&world);
        let f = db.family("f").unwrap();
        assert!(db.prepared().unwrap().is_empty());
        assert!(has(&db, &f, b"a") && has(&db, &f, b"b") && !has(&db, &f, b"d"));
    }
}

/// Goal: the outcome follows the sync mode that was asked for. Method: each mode, then a cut that takes everything
/// unsynced; what is lost is the outcome only, and the transaction is prepared again with its locks.
// Promise: 3.
#[test]
fn outcomes_are_as_durable_as_the_mode_says() {
    for (mode, is_kept) in [(SyncMode::Full, true), (SyncMode::None, false)] {
        let env = MemoryEnv::new(1);
        let db = open(&env);
        let f = family(&db, "f", SyncMode::Full);
        let n = family(&db, "n", SyncMode::None);
        prepare(&db, &f, b"c", &[b"a"]).unwrap();
        prepare(&db, &n, b"d", &[b"a"]).unwrap();
        prepare(&db, if is_kept { &f } else { &n }, b"r", &[b"b"]).unwrap();
        db.commit_prepared_with(b"c", mode).unwrap();
        if !is_kept {
            db.commit_prepared(b"d").unwrap();
        }
        db.rollback_prepared(b"r").unwrap();
        let db = open(&env.crash(CrashImage::NothingUnsynced, 1));
        let f = db.family("f").unwrap();
        let expected: &[&[u8]] = if is_kept {
            &[b"d"]
        } else {
            &[b"c", b"d", b"r"]
        };
        assert_eq!(xids(&db), expected);
        assert_eq!(has(&db, &f, b"a"), is_kept);
        assert_eq!(db.put(&f, b"a", b"1").is_ok(), is_kept);
    }
}

/// Goal: prepared transactions do not pin the log. Method: one of them, then many times its bytes are written and
/// flushed; the log stays short, and the transaction is there after a cut and can be committed.
#[test]
fn a_prepared_transaction_does_not_pin_the_log() {
    for image in IMAGES {
        let env = MemoryEnv::new(1);
        let db = open(&env);
        let f = family(&db, "f", SyncMode::None);
        prepare(&db, &f, b"old", &[b"a", b"b"]).unwrap();
        db.begin().unwrap().prepare(b"empty").unwrap();
        let mut longest = 0;
        for round in 0..40 {
            for number in 0..8 {
                let key = format!("{round:03}.{number}");
                db.put(&f, key.as_bytes(), &[round; 100_000]).unwrap();
            }
            db.flush(&f).unwrap();
            if round > 20 {
                longest = longest.max(db.stats().unwrap().log_bytes);
            }
        }
        assert!(longest < 20 << 20, "the log has {longest} bytes");
        let db = open(&env.crash(image, 5));
        let f = db.family("f").unwrap();
        assert_eq!(xids(&db), [&b"empty"[..], b"old"]);
        assert_eq!(kind(db.delete(&f, b"a")), ErrorKind::Conflict);
        db.commit_prepared(b"old").unwrap();
        db.commit_prepared(b"empty").unwrap();
        assert!(has(&db, &f, b"a") && has(&db, &f, b"000.0"));
    }
}

/// A record longer than a segment goes into the log in parts, is carried into the next life, and is applied whole.
#[test]
fn long_transactions_are_prepared_in_parts() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let f = family(&db, "f", SyncMode::None);
    let value = vec![3; 9 << 20];
    let mut transaction = db.begin().unwrap();
    for key in [b"a", b"b", b"c"] {
        transaction.put(&f, key, &value).unwrap();
    }
    transaction.prepare(b"long").unwrap();
    prepare(&db, &f, b"short", &[b"d"]).unwrap();
    let found = env.crash(CrashImage::NothingUnsynced, 1);
    drop((db, transaction));
    let db = open(&found);
    assert_eq!(xids(&db), [&b"long"[..], b"short"]);
    let found = found.crash(CrashImage::NothingUnsynced, 1);
    drop(db);
    let db = open(&found);
    let f = db.family("f").unwrap();
    db.commit_prepared(b"long").unwrap();
    assert_eq!(db.get(&f, b"c").unwrap().unwrap(), value);
    assert_eq!(xids(&db), [b"short"]);
}

#[test]
fn a_read_only_opening_lists_what_is_prepared() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let f = family(&db, "f", SyncMode::None);
    prepare(&db, &f, b"x", &[b"a"]).unwrap();
    db.close().unwrap();
    let options = Options {
        read_only: true,
        ..world::options(&env)
    };
    let db = Db::open(DATABASE, options).unwrap();
    assert_eq!(xids(&db), [b"x"]);
    assert_eq!(kind(db.commit_prepared(b"x")), ErrorKind::ReadOnly);
    assert_eq!(kind(db.rollback_prepared(b"x")), ErrorKind::ReadOnly);
    drop(db);
    assert_eq!(xids(&open(&env)), [b"x"]);
}

#[test]
fn a_closed_database_takes_no_outcome() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let f = family(&db, "f", SyncMode::None);
    prepare(&db, &f, b"x", &[b"a"]).unwrap();
    let mut transaction = db.begin().unwrap();
    db.close().unwrap();
    assert_eq!(kind(transaction.prepare(b"y")), ErrorKind::Closed);
    assert_eq!(kind(db.commit_prepared(b"x")), ErrorKind::Closed);
    assert_eq!(kind(db.rollback_prepared(b"x")), ErrorKind::Closed);
    assert_eq!(kind(db.prepared()), ErrorKind::Closed);
}

/// Goal: a sync that fails in a prepare leaves the outcome open, and stops the log as it does for commits.
// Promise: 4.
#[test]
fn a_failed_sync_leaves_the_prepare_unknown() {
    let env = MemoryEnv::new(1);
    let faulty = FaultyEnv::new(Arc::new(env.clone()));
    let options = Options {
        env: Some(Arc::new(faulty.clone()) as Arc<dyn Env>),
        ..Options::default()
    };
    let db = Db::open(DATABASE, options).unwrap();
    let f = family(&db, "f", SyncMode::None);
    prepare(&db, &f, b"x", &[b"a"]).unwrap();
    faulty.fail(Rule {
        operation: Operation::Sync,
        name_contains: ".wal".to_owned(),
        nth: 1,
        error: std::io::ErrorKind::Other,
        times: Times::Once,
    });
    assert_eq!(
        kind(prepare(&db, &f, b"y", &[b"b"])),
        ErrorKind::OutcomeUnknown
    );
    for outcome in [
        db.put(&f, b"c", b"1"),
        prepare(&db, &f, b"z", &[b"d"]),
        db.commit_prepared(b"x").map(drop),
        db.rollback_prepared(b"y"),
    ] {
        assert_eq!(kind(outcome), ErrorKind::ReopenRequired);
    }
    assert_eq!(xids(&db), [b"x"]);
    for image in IMAGES {
        let db = open(&env.crash(image, 3));
        let found = xids(&db);
        assert!(found == [b"x"] || found == [b"x", b"y"], "{found:?}");
        let f = db.family("f").unwrap();
        assert_eq!(db.put(&f, b"b", b"1").is_err(), found.len() == 2);
        db.commit_prepared(b"x").unwrap();
    }
}

/// Goal: what ended stays ended, also when it touched no family: its prepare was durable, so its outcome is. Method: a commit
/// and a rollback, and a power cut that keeps nothing unsynced.
#[test]
fn the_outcome_of_an_empty_transaction_survives_a_power_cut() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    for xid in [b"a", b"b", b"c"] {
        db.begin().unwrap().prepare(xid).unwrap();
    }
    db.commit_prepared(b"a").unwrap();
    db.rollback_prepared(b"b").unwrap();
    let db = open(&env.crash(CrashImage::NothingUnsynced, 1));
    assert_eq!(xids(&db), [b"c"]);
}
