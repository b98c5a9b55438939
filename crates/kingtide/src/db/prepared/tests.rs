//! The log while transactions are prepared and ended, in the world in memory.

use std::sync::Arc;

use kingtide_env::{CrashImage, MemoryEnv};
use kingtide_testkit::Random;

use crate::{ColumnFamily, Db, FamilyOptions, Options, SyncMode};

const PATH: &str = "/db";

fn open(env: &MemoryEnv) -> Db {
    let options = Options {
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    };
    Db::open(PATH, options).expect("the database opens")
}

fn family(db: &Db) -> ColumnFamily {
    let options = FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    db.open_family("f", options).expect("it can be made")
}

fn prepare(db: &Db, family: &ColumnFamily, xid: &[u8], bytes: usize) {
    let mut transaction = db.begin().expect("open");
    // Of bytes that do not compress.
    let mut random = Random::new(bytes as u64);
    let value: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
    transaction.put(family, xid, &value).expect("short");
    transaction.prepare(xid).expect("a healthy disk");
}

fn retained(db: &Db) -> u64 {
    db.engine().pipeline.order.lock().log.tail.retained_bytes()
}

fn xids(db: &Db) -> Vec<Vec<u8>> {
    let list = db.prepared().expect("open");
    list.into_iter().map(|prepared| prepared.xid).collect()
}

/// Goal: a log of nothing but prepares and rollbacks is given back, with what still waits copied to its end. Method:
/// many of them, one that waits from the beginning, one from the middle; then power cuts.
#[test]
fn a_log_without_commits_is_given_back() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let f = family(&db);
    prepare(&db, &f, b"first", 100);
    for number in 0..40_u32 {
        let xid = number.to_le_bytes();
        prepare(&db, &f, &xid, 200_000);
        if number != 20 {
            db.rollback_prepared(&xid).expect("a healthy disk");
        }
    }
    let before = retained(&db);
    assert!(before > 8_000_000, "{before} bytes");
    db.engine().advance_log().expect("a healthy disk");
    let after = retained(&db);
    assert!(after < 4_000_000, "{before} bytes became {after}");
    for image in [CrashImage::NothingUnsynced, CrashImage::Everything] {
        let db = open(&env.crash(image, 3));
        assert_eq!(xids(&db), [&20_u32.to_le_bytes()[..], b"first"]);
        db.commit_prepared(b"first").expect("a healthy disk");
    }
}

/// Goal: the prepare record stays in reach while a power cut could take its outcome back, although its transaction
/// waits no longer. Method: an outcome that is not synced, then the log is given back as far as it may be.
#[test]
fn an_outcome_that_may_be_lost_keeps_its_prepare_record() {
    for commits in [false, true] {
        let env = MemoryEnv::new(1);
        let db = open(&env);
        let f = family(&db);
        prepare(&db, &f, b"x", 100);
        for number in 0..20_u32 {
            let xid = number.to_le_bytes();
            prepare(&db, &f, &xid, 200_000);
            db.rollback_prepared(&xid).expect("a healthy disk");
        }
        match commits {
            true => db.commit_prepared(b"x").map(drop),
            false => db.rollback_prepared(b"x"),
        }
        .expect("a healthy disk");
        db.engine().advance_log().expect("a healthy disk");
        let db = open(&env.crash(CrashImage::NothingUnsynced, 3));
        assert!(
            xids(&db).contains(&b"x".to_vec()),
            "neither prepared nor ended"
        );
        let value = db.get(&db.family("f").expect("durable"), b"x");
        assert!(value.expect("a healthy disk").is_none());
    }
}

/// Goal: a flush makes the outcome durable whose operations it writes to a table, so that after a power cut nothing is
/// there and prepared at once.
#[test]
fn a_flushed_outcome_is_not_prepared_again() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let f = family(&db);
    prepare(&db, &f, b"x", 100);
    db.commit_prepared(b"x").expect("a healthy disk");
    db.flush(&f).expect("a healthy disk");
    let db = open(&env.crash(CrashImage::NothingUnsynced, 3));
    assert!(xids(&db).is_empty());
    let value = db.get(&db.family("f").expect("durable"), b"x");
    assert!(value.expect("a healthy disk").is_some());
}
