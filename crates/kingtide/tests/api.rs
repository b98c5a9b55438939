//! What the manual says each call does, on a real directory.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use kingtide::{
    Db, FamilyOptions, IsolationLevel, IterOptions, Options, SeqNo, SyncMode, TransactionOptions,
};

struct Fixture {
    db: Db,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path().join("db"), Options::default()).unwrap();
        Self { db, directory }
    }

    fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = Db::open(self.directory.path().join("db"), Options::default()).unwrap();
    }
}

fn unsynced() -> FamilyOptions {
    FamilyOptions {
        sync: SyncMode::None,
        ..FamilyOptions::default()
    }
}

#[test]
fn what_was_put_is_found_until_it_is_deleted() {
    let mut fixture = Fixture::new();
    let family = fixture.db.create_family("f", unsynced()).unwrap();
    let db = &fixture.db;
    assert!(db.get(&family, b"k").unwrap().is_none());
    db.put(&family, b"k", b"1").unwrap();
    db.put(&family, b"k", b"2").unwrap();
    assert_eq!(db.get(&family, b"k").unwrap().as_deref(), Some(&b"2"[..]));
    assert!(db.contains(&family, b"k").unwrap());
    db.delete(&family, b"k").unwrap();
    assert!(!db.contains(&family, b"k").unwrap());
    db.delete(&family, b"never there").unwrap();
    db.put(&family, b"kept", b"3").unwrap();
    fixture.reopen();
    let family = fixture.db.family("f").unwrap();
    let found = fixture
        .db
        .multi_get(&family, &[&b"k"[..], b"kept"])
        .unwrap();
    assert!(found[0].is_none());
    assert_eq!(found[1].as_deref(), Some(&b"3"[..]));
    fixture.db.close().unwrap();
}

#[test]
fn values_of_all_sizes_come_back_from_memory_table_and_value_file() {
    let mut fixture = Fixture::new();
    let family = fixture.db.create_family("f", unsynced()).unwrap();
    let lengths: [usize; 8] = [0, 1, 511, 512, 513, 4096, 70_000, 3 << 20];
    let value = |length: usize| kingtide_testkit::Random::new(length as u64).bytes(length);
    for length in lengths {
        fixture
            .db
            .put(&family, &length.to_be_bytes(), &value(length))
            .unwrap();
    }
    let check = |db: &Db, when: &str| {
        let family = db.family("f").unwrap();
        for length in lengths {
            let found = db.get(&family, &length.to_be_bytes()).unwrap();
            assert!(
                found.as_deref() == Some(&value(length)[..]),
                "{length} bytes, {when}"
            );
        }
    };
    check(&fixture.db, "in memory");
    fixture.db.flush(&family).unwrap();
    check(&fixture.db, "flushed");
    fixture.db.compact(&family).unwrap();
    check(&fixture.db, "merged");
    fixture.reopen();
    check(&fixture.db, "reopened");
    fixture.db.close().unwrap();
}

// Promise: snapshot.
#[test]
fn snapshots_and_transactions_keep_their_view() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let family = db.create_family("f", unsynced()).unwrap();
    db.put(&family, b"k", b"old").unwrap();
    let snapshot = db.snapshot().unwrap();
    let repeatable = db
        .begin_with(TransactionOptions {
            isolation: IsolationLevel::Snapshot,
            ..TransactionOptions::default()
        })
        .unwrap();
    let fresh = db.begin().unwrap();
    db.put(&family, b"k", b"new").unwrap();
    db.flush(&family).unwrap();
    db.compact(&family).unwrap();
    assert_eq!(
        snapshot.get(&family, b"k").unwrap().as_deref(),
        Some(&b"old"[..])
    );
    assert_eq!(
        repeatable.get(&family, b"k").unwrap().as_deref(),
        Some(&b"old"[..])
    );
    assert_eq!(
        fresh.get(&family, b"k").unwrap().as_deref(),
        Some(&b"new"[..])
    );
    assert!(snapshot.sequence() < db.snapshot().unwrap().sequence());
    drop((snapshot, repeatable, fresh));
    db.close().unwrap();
}

// Promise: own-writes.
#[test]
fn a_transaction_sees_its_own_writes_and_commits_them_together() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let left = db.create_family("left", unsynced()).unwrap();
    let right = db.create_family("right", unsynced()).unwrap();
    db.put(&left, b"gone", b"v").unwrap();
    let mut transaction = db.begin().unwrap();
    transaction.put(&left, b"a", b"1").unwrap();
    transaction.put(&left, b"a", b"2").unwrap();
    transaction.delete(&left, b"gone").unwrap();
    transaction.put(&right, b"b", b"3").unwrap();
    assert_eq!(
        transaction.get(&left, b"a").unwrap().as_deref(),
        Some(&b"2"[..])
    );
    assert!(!transaction.contains(&left, b"gone").unwrap());
    assert!(!db.contains(&left, b"a").unwrap(), "nobody else sees them");
    let sequence = transaction.commit().unwrap();
    assert!(sequence > SeqNo::ZERO);
    assert_eq!(db.get(&left, b"a").unwrap().as_deref(), Some(&b"2"[..]));
    assert!(!db.contains(&left, b"gone").unwrap());
    assert!(db.contains(&right, b"b").unwrap());
    let mut empty = db.begin().unwrap();
    assert_eq!(empty.commit().unwrap(), SeqNo::ZERO);
    db.close().unwrap();
}

#[test]
fn iterators_visit_a_family_in_order_both_ways() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let family = db.create_family("f", unsynced()).unwrap();
    for number in (0..100).rev() {
        db.put(&family, format!("k{number:02}").as_bytes(), b"v")
            .unwrap();
        if number == 50 {
            db.flush(&family).unwrap();
        }
    }
    let prefix = IterOptions {
        prefix: Some(b"k1".to_vec()),
        ..IterOptions::default()
    };
    let mut iter = db.iter(&family, prefix).unwrap();
    let mut keys = Vec::new();
    let mut is_valid = iter.seek_to_first().unwrap();
    while is_valid {
        keys.push(String::from_utf8(iter.key().to_vec()).unwrap());
        is_valid = iter.next().unwrap();
    }
    let wanted: Vec<String> = (10..20).map(|number| format!("k{number}")).collect();
    assert_eq!(keys, wanted);
    let mut iter = db.iter(&family, IterOptions::default()).unwrap();
    assert!(iter.seek_for_prev(b"k50x").unwrap());
    for number in (0..=50).rev() {
        assert_eq!(iter.key(), format!("k{number:02}").as_bytes());
        assert_eq!(iter.prev().unwrap(), number > 0);
    }
    db.close().unwrap();
}

#[test]
fn families_are_created_renamed_cloned_and_dropped() {
    let mut fixture = Fixture::new();
    let family = fixture.db.create_family("one", unsynced()).unwrap();
    fixture.db.put(&family, b"k", b"v").unwrap();
    fixture.db.rename_family("one", "two").unwrap();
    assert_eq!(family.name(), "two");
    let clone = fixture.db.clone_family("two", "three").unwrap();
    fixture.db.put(&clone, b"k", b"w").unwrap();
    fixture.db.create_family("four", unsynced()).unwrap();
    fixture.db.drop_family("four").unwrap();
    fixture.reopen();
    let mut names = fixture.db.families();
    names.retain(|name| name != "default");
    assert_eq!(names, ["three", "two"]);
    for (name, value) in [("two", b"v"), ("three", b"w")] {
        let family = fixture
            .db
            .open_family(name, FamilyOptions::default())
            .unwrap();
        assert_eq!(
            fixture.db.get(&family, b"k").unwrap().as_deref(),
            Some(&value[..])
        );
        assert_eq!(family.options().sync, SyncMode::None, "stored settings win");
    }
    fixture.db.close().unwrap();
}

// Promise: expiry.
#[test]
fn expired_entries_hide_older_ones() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let family = db.create_family("f", unsynced()).unwrap();
    db.put(&family, b"k", b"older").unwrap();
    db.put_expiring(&family, b"k", b"expired", 1).unwrap();
    db.put_expiring(&family, b"later", b"v", i64::MAX).unwrap();
    db.put_expiring(&family, b"never", b"v", 0).unwrap();
    for step in 0..3 {
        assert!(!db.contains(&family, b"k").unwrap(), "step {step}");
        assert!(db.contains(&family, b"later").unwrap(), "step {step}");
        assert!(db.contains(&family, b"never").unwrap(), "step {step}");
        match step {
            0 => db.flush(&family).unwrap(),
            _ => db.compact(&family).unwrap(),
        }
    }
    db.close().unwrap();
}

#[test]
fn statistics_and_verify_describe_the_database() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let family = db.create_family("f", unsynced()).unwrap();
    for number in 0..1000_u32 {
        db.put(&family, &number.to_be_bytes(), &[7; 600]).unwrap();
    }
    assert_eq!(db.family_stats(&family).unwrap().memtable_entries, 1000);
    db.flush(&family).unwrap();
    db.wait_idle().unwrap();
    let stats = db.family_stats(&family).unwrap();
    assert_eq!(stats.memtable_entries, 0);
    assert_eq!(
        stats.levels.iter().map(|level| level.entries).sum::<u64>(),
        1000
    );
    let stats = db.stats().unwrap();
    assert!(stats.commits >= 1000 && stats.flushes >= 1);
    assert!(stats.families.iter().any(|family| family.name == "f"));
    let mut steps = 0;
    let report = db
        .verify(&mut |done, total| {
            assert!(done <= total);
            steps += 1;
        })
        .unwrap();
    assert!(report.damages.is_empty(), "{:?}", report.damages);
    assert!(report.files > 0 && report.bytes > 0 && report.entries >= 1000);
    assert!(steps > 0);
    db.close().unwrap();
}

/// Goal: `open_tables_max` bounds the tables that stay open, and 0 does not. Method: five families of one table each,
/// all of them read.
#[test]
fn idle_tables_stay_open_up_to_the_limit() {
    for (open_tables_max, expected) in [(2, 2), (0, 5)] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            open_tables_max,
            ..Options::default()
        };
        let db = Db::open(directory.path(), options).unwrap();
        for name in ["a", "b", "c", "d", "e"] {
            let family = db.create_family(name, unsynced()).unwrap();
            db.put(&family, b"k", b"v").unwrap();
            db.flush(&family).unwrap();
            assert_eq!(db.get(&family, b"k").unwrap().unwrap(), b"v");
        }
        db.wait_idle().unwrap();
        assert_eq!(db.stats().unwrap().open_tables, expected);
        db.close().unwrap();
    }
}

/// Goal: tables that were merged away take no memory while an iterator keeps their files, which it goes on to read. Method: a
/// merge behind an iterator that has seen its first entry.
#[test]
fn merged_tables_are_closed_although_an_iterator_keeps_them() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let family = db.create_family("f", unsynced()).unwrap();
    for part in 0..3_u32 {
        for key in part * 1000..(part + 1) * 1000 {
            db.put(&family, &key.to_be_bytes(), b"old").unwrap();
            db.put(&family, &(key % 7).to_be_bytes(), b"old").unwrap();
        }
        db.flush(&family).unwrap();
    }
    let mut iter = db.iter(&family, IterOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    assert!(db.stats().unwrap().open_tables >= 3);
    db.compact(&family).unwrap();
    // What the merge wrote is one table, which nobody needs to have asked for yet.
    assert!(db.stats().unwrap().open_tables <= 1);
    assert_eq!(db.get(&family, b"none").unwrap(), None);
    let mut count = 0;
    for entry in iter.entries() {
        assert_eq!(entry.unwrap().1, b"old");
        count += 1;
    }
    assert_eq!(count, 3000);
    db.close().unwrap();
}

// Promise: own-writes.
#[test]
fn every_way_to_read_sees_own_writes() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let family = db.create_family("f", unsynced()).unwrap();
    db.put(&family, b"b", b"below").unwrap();
    for isolation in IsolationLevel::ALL {
        let mut transaction = db
            .begin_with(TransactionOptions {
                isolation,
                ..TransactionOptions::default()
            })
            .unwrap();
        transaction.put(&family, b"a", b"own").unwrap();
        transaction.put_expiring(&family, b"e", b"gone", 1).unwrap();
        let own = |value: Option<kingtide::Value>| value.map(|value| value.to_vec());
        let found = transaction
            .multi_get(&family, &[b"a", b"b", b"c", b"e"])
            .unwrap();
        let found: Vec<_> = found.into_iter().map(own).collect();
        assert_eq!(
            found,
            [Some(b"own".to_vec()), Some(b"below".to_vec()), None, None]
        );
        assert_eq!(
            own(transaction.get_untracked(&family, b"a").unwrap()).unwrap(),
            b"own"
        );
        assert!(transaction.get_untracked(&family, b"e").unwrap().is_none());
        assert_eq!(
            own(transaction.get_for_update(&family, b"a").unwrap()).unwrap(),
            b"own"
        );
        let shown = format!("{transaction:?} {:?}", transaction.abort_handle());
        assert!(
            shown.contains("operations: 2") && shown.contains("AbortHandle"),
            "{shown}"
        );
        transaction.rollback().unwrap();
    }
    db.close().unwrap();
}
