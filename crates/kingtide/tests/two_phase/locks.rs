//! What a prepared transaction locks besides the keys that it puts.

use kingtide::{ColumnFamily, Db, ErrorKind, IsolationLevel, SyncMode, Transaction};
use kingtide_env::{CrashImage, MemoryEnv};

use super::{begin, family, has, kind, open, prepare};

/// What `prepared` did with family `f` before it was prepared, which writes of others it must keep back and which not.
type ReadCase = (
    &'static str,
    fn(&mut Transaction, &ColumnFamily) -> kingtide::Result<()>,
    &'static [&'static str],
    &'static [&'static str],
);

/// Keys `b`, `d`, `f` are there.
const READ_CASES: [ReadCase; 6] = [
    (
        "a key",
        |transaction, f| transaction.get(f, b"b").map(drop),
        &["b"],
        &["a", "c"],
    ),
    (
        "a miss",
        |transaction, f| transaction.get(f, b"c").map(drop),
        &["c"],
        &["b", "d"],
    ),
    (
        "two keys at once",
        |transaction, f| transaction.multi_get(f, &[b"b", b"e"]).map(drop),
        &["b", "e"],
        &["c", "d"],
    ),
    (
        "a range with its gaps",
        |transaction, f| {
            let mut iter = transaction.iter(f, kingtide::IterOptions::default())?;
            iter.seek(b"b")?;
            iter.next().map(drop)
        },
        &["b", "c", "d"],
        &["a", "e", "z"],
    ),
    (
        "everything to the end",
        |transaction, f| {
            let mut iter = transaction.iter(f, kingtide::IterOptions::default())?;
            let mut is_there = iter.seek(b"c")?;
            while is_there {
                is_there = iter.next()?;
            }
            Ok(())
        },
        &["c", "d", "e", "zzz"],
        &["a", "b"],
    ),
    (
        "a key for update",
        |transaction, f| transaction.get_for_update(f, b"b").map(drop),
        &["b"],
        &["a", "c"],
    ),
];

fn with_three_keys(db: &Db) -> (ColumnFamily, ColumnFamily) {
    let f = family(db, "f", SyncMode::None);
    for key in [b"b", b"d", b"f"] {
        db.put(&f, key, b"before").unwrap();
    }
    (f, family(db, "out", SyncMode::None))
}

/// Goal: at serializable, what was read is locked until the outcome: points, misses, ranges, keys read for update; also
/// after a crash; and nothing else is. Method: each kind of read, with every write of the list.
#[test]
fn what_was_read_at_serializable_is_locked() {
    for (what, read, locked, free) in READ_CASES {
        println!("{what}");
        let mut world = MemoryEnv::new(1);
        let db = open(&world);
        let (f, out) = with_three_keys(&db);
        let mut transaction = begin(&db, IsolationLevel::Serializable);
        read(&mut transaction, &f).unwrap();
        transaction.put(&out, b"k", b"v").unwrap();
        transaction.prepare(b"x").unwrap();
        let mut db = db;
        for has_crashed in [false, true] {
            if has_crashed {
                let found = world.crash(CrashImage::NothingUnsynced, 1);
                db = open(&found);
                world = found;
            }
            let f = db.family("f").unwrap();
            assert_eq!(db.prepared().unwrap()[0].families, ["f", "out"]);
            for key in locked {
                let refused = db.put(&f, key.as_bytes(), b"other");
                let error = refused.expect_err("it is locked");
                let conflict = error.conflict().expect("a conflict");
                assert_eq!(conflict.key, key.as_bytes());
                assert_eq!(conflict.prepared.as_deref(), Some(&b"x"[..]));
                // Nor may another one prepare a write, or an update.
                assert_eq!(
                    kind(prepare(&db, &f, b"y", &[key.as_bytes()])),
                    ErrorKind::Conflict
                );
                let mut update = db.begin().unwrap();
                update.get_for_update(&f, key.as_bytes()).unwrap();
                assert_eq!(kind(update.commit()), ErrorKind::Conflict);
            }
            for key in free {
                db.put(&f, key.as_bytes(), b"free").unwrap();
            }
            assert_eq!(kind(db.drop_family("f")), ErrorKind::Busy);
            // Others may read the same, and prepare that, unless the key was read for update.
            let mut reader = begin(&db, IsolationLevel::Serializable);
            read(&mut reader, &f).unwrap();
            reader.put(&db.family("out").unwrap(), b"l", b"v").unwrap();
            let xid: &[u8] = if has_crashed { b"second" } else { b"first" };
            let outcome = reader.prepare(xid);
            if what == "a key for update" {
                assert_eq!(kind(outcome), ErrorKind::Conflict);
            } else {
                outcome.unwrap();
                db.rollback_prepared(xid).unwrap();
                db.sync_wal().unwrap();
            }
        }
        db.commit_prepared(b"x").unwrap();
        let f = db.family("f").unwrap();
        for key in locked {
            db.put(&f, key.as_bytes(), b"after").unwrap();
        }
        db.drop_family("f").unwrap();
    }
}

/// Reads of the weaker levels lock nothing, but for keys that repeatable read promises to keep.
#[test]
fn reads_lock_what_their_level_promises() {
    for (isolation, is_locked) in [
        (IsolationLevel::ReadCommitted, false),
        (IsolationLevel::RepeatableRead, true),
        (IsolationLevel::Snapshot, false),
        (IsolationLevel::Serializable, true),
    ] {
        let env = MemoryEnv::new(1);
        let db = open(&env);
        let (f, out) = with_three_keys(&db);
        let mut transaction = begin(&db, isolation);
        transaction.get(&f, b"b").unwrap();
        transaction.put(&out, b"k", b"v").unwrap();
        transaction.prepare(b"x").unwrap();
        assert_eq!(
            db.put(&f, b"b", b"other").is_err(),
            is_locked,
            "{isolation:?}"
        );
        db.commit_prepared(b"x").unwrap();
    }
}

/// A transaction that only read is checked against nobody and locks nothing, prepared or not.
// Promise: read-only.
#[test]
fn a_prepared_reader_is_in_nobodys_way() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let (f, _) = with_three_keys(&db);
    let mut transaction = begin(&db, IsolationLevel::Serializable);
    transaction.get(&f, b"b").unwrap();
    db.put(&f, b"b", b"first").unwrap();
    transaction.prepare(b"x").unwrap();
    db.put(&f, b"b", b"second").unwrap();
    assert!(db.prepared().unwrap()[0].families.is_empty());
    db.commit_prepared(b"x").unwrap();
}

/// Goal: write skew does not slip through a prepare. Method: both orders of prepare, commit and the other's steps.
// Promise: serializable.
#[test]
fn write_skew_is_refused_around_a_prepare() {
    let env = MemoryEnv::new(1);
    for other_prepares in [false, true] {
        for commits in [false, true] {
            let db = open(&env);
            let f = family(&db, "f", SyncMode::None);
            for key in [b"a", b"b"] {
                db.put(&f, key, b"on call").unwrap();
            }
            let xid = |name: &str| format!("{name} {other_prepares} {commits}").into_bytes();
            let mut first = begin(&db, IsolationLevel::Serializable);
            let mut second = begin(&db, IsolationLevel::Serializable);
            for transaction in [&mut first, &mut second] {
                transaction.get(&f, b"a").unwrap();
                transaction.get(&f, b"b").unwrap();
            }
            first.put(&f, b"a", b"off").unwrap();
            second.put(&f, b"b", b"off").unwrap();
            first.prepare(&xid("first")).unwrap();
            let outcome = if other_prepares {
                second.prepare(&xid("second"))
            } else {
                second.commit().map(drop)
            };
            assert_eq!(kind(outcome), ErrorKind::Conflict);
            if commits {
                db.commit_prepared(&xid("first")).unwrap();
                assert_eq!(db.get(&f, b"a").unwrap().unwrap(), b"off");
            } else {
                db.rollback_prepared(&xid("first")).unwrap();
            }
            assert_eq!(db.get(&f, b"b").unwrap().unwrap(), b"on call");
            db.close().unwrap();
        }
    }
}

/// A read that is not true any more when the transaction prepares is found, as by a commit.
#[test]
fn a_prepare_validates_what_was_read() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let (f, out) = with_three_keys(&db);
    let mut transaction = begin(&db, IsolationLevel::Serializable);
    transaction.get(&f, b"c").unwrap();
    transaction.put(&out, b"k", b"v").unwrap();
    db.put(&f, b"c", b"appeared").unwrap();
    assert_eq!(kind(transaction.prepare(b"x")), ErrorKind::Conflict);
    assert!(db.prepared().unwrap().is_empty());
    // And what another prepared transaction is about to write cannot be read for a prepare.
    prepare(&db, &f, b"writer", &[b"d"]).unwrap();
    transaction.reset().unwrap();
    transaction.get(&f, b"d").unwrap();
    transaction.put(&out, b"k", b"v").unwrap();
    let error = transaction
        .prepare(b"x")
        .expect_err("it is about to change");
    assert_eq!(
        error.conflict().unwrap().access,
        kingtide::ConflictAccess::Read
    );
    // An ordinary commit comes before it in the order, and is free to have read it.
    transaction.reset().unwrap();
    transaction.get(&f, b"d").unwrap();
    transaction.put(&out, b"k", b"v").unwrap();
    transaction.commit().unwrap();
    db.commit_prepared(b"writer").unwrap();
}

/// Deleted ranges are locked as ranges, with and without an end, and range deletes of others meet locks in them.
#[test]
fn deleted_ranges_are_locked() {
    let mut world = MemoryEnv::new(1);
    let mut db = open(&world);
    let (f, _) = with_three_keys(&db);
    let mut transaction = db.begin().unwrap();
    transaction.delete_range(&f, b"b", b"e").unwrap();
    transaction.put(&f, b"c", b"kept").unwrap();
    transaction.prepare(b"x").unwrap();
    let mut transaction = db.begin().unwrap();
    transaction.delete_prefix(&f, b"\xff").unwrap();
    transaction.prepare(b"to the end").unwrap();
    prepare(&db, &f, b"point", &[b"m"]).unwrap();
    for has_crashed in [false, true] {
        if has_crashed {
            let found = world.crash(CrashImage::NothingUnsynced, 1);
            db = open(&found);
            world = found;
        }
        let f = db.family("f").unwrap();
        for key in [&b"b"[..], b"c", b"dzz", b"m", b"\xff", b"\xff\xff\xff"] {
            assert_eq!(kind(db.put(&f, key, b"other")), ErrorKind::Conflict);
        }
        for (start, end) in [(b"a", b"c"), (b"d", b"f"), (b"c", b"d"), (b"l", b"n")] {
            assert_eq!(kind(db.delete_range(&f, start, end)), ErrorKind::Conflict);
        }
        assert_eq!(kind(db.delete_prefix(&f, b"")), ErrorKind::Conflict);
        for key in [&b"a"[..], b"e", b"l", b"n", b"\xfe"] {
            db.put(&f, key, b"free").unwrap();
        }
        db.delete_range(&f, b"n", b"o").unwrap();
        db.delete_range(&f, b"e", b"ee").unwrap();
        assert_eq!(db.get(&f, b"b").unwrap().unwrap(), b"before");
    }
    db.commit_prepared(b"x").unwrap();
    let f = db.family("f").unwrap();
    assert!(!has(&db, &f, b"b") && !has(&db, &f, b"d") && has(&db, &f, b"f"));
    assert_eq!(db.get(&f, b"c").unwrap().unwrap(), b"kept");
    db.put(&f, b"b", b"again").unwrap();
    db.rollback_prepared(b"to the end").unwrap();
    db.put(&f, b"\xff", b"free").unwrap();
}
