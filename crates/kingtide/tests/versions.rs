//! Which versions of a key stay, and for whom: named snapshots, and single deletes with their puts.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{collections::BTreeMap, time::Duration};

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, FamilyStats, IsolationLevel, IterOptions, Snapshot,
    SyncMode, TransactionOptions,
};
use kingtide_env::{CrashImage, Env, MemoryEnv};
use kingtide_testkit::{
    Random,
    world::{self, DATABASE},
};

fn open(env: &MemoryEnv) -> Db {
    Db::open(DATABASE, world::options(env)).expect("the database opens")
}

fn small() -> FamilyOptions {
    FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        write_buffer_bytes: 8 << 10,
        level_size_ratio: 2,
        min_levels: 3,
        l1_file_count_trigger: 2,
        tombstone_density_trigger: 0.0,
        ..FamilyOptions::default()
    }
}

fn at_snapshot() -> TransactionOptions {
    TransactionOptions {
        isolation: IsolationLevel::Snapshot,
        ..TransactionOptions::default()
    }
}

fn kind<T>(outcome: kingtide::Result<T>) -> ErrorKind {
    outcome.map(|_| ()).unwrap_err().kind()
}

#[test]
fn a_snapshot_is_found_by_its_name_while_it_lives() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let family = db.create_family("f", small()).unwrap();
    db.put(&family, b"k", b"1").unwrap();
    let first = db.named_snapshot("first").unwrap();
    assert_eq!(first.name(), Some("first"));
    assert_eq!(kind(db.named_snapshot("first")), ErrorKind::AlreadyExists);
    db.put(&family, b"k", b"2").unwrap();
    let same = db.find_snapshot("first").unwrap().unwrap();
    assert_eq!(same.sequence(), first.sequence());
    drop(first);
    // Another handle keeps it alive, and its name taken.
    assert_eq!(same.get(&family, b"k").unwrap().unwrap(), b"1");
    assert_eq!(kind(db.named_snapshot("first")), ErrorKind::AlreadyExists);
    drop(same.clone());
    drop(same);
    assert!(db.find_snapshot("first").unwrap().is_none());
    let again = db.named_snapshot("first").unwrap();
    assert_eq!(again.get(&family, b"k").unwrap().unwrap(), b"2");

    assert_eq!(kind(db.named_snapshot("")), ErrorKind::InvalidArgument);
    assert_eq!(kind(db.find_snapshot("")), ErrorKind::InvalidArgument);
    let longest = "n".repeat(127);
    assert!(db.named_snapshot(&longest).is_ok());
    let too_long = "n".repeat(128);
    assert_eq!(kind(db.named_snapshot(&too_long)), ErrorKind::TooLarge);
    assert_eq!(kind(db.find_snapshot(&too_long)), ErrorKind::TooLarge);
    db.close().unwrap();
    assert_eq!(kind(db.named_snapshot("late")), ErrorKind::Closed);
    assert_eq!(kind(db.find_snapshot("first")), ErrorKind::Closed);
    assert_eq!(kind(db.begin_at(&again, at_snapshot())), ErrorKind::Closed);
}

#[test]
fn snapshots_are_listed_with_their_age() {
    let env = MemoryEnv::new(2);
    let db = open(&env);
    let family = db.create_family("f", small()).unwrap();
    db.put(&family, b"k", b"1").unwrap();
    assert!(db.stats().unwrap().snapshots.is_empty());
    let named = db.named_snapshot("nightly").unwrap();
    env.advance(Duration::from_secs(60));
    db.put(&family, b"k", b"2").unwrap();
    let plain = db.snapshot().unwrap();
    let copy = plain.clone();
    // What a transaction, an iterator or a call pins is counted, and not listed.
    let transaction = db.begin_with(at_snapshot()).unwrap();
    db.put(&family, b"k", b"3").unwrap();
    let iter = db.iter(&family, IterOptions::default()).unwrap();
    db.multi_get(&family, &[b"k"]).unwrap();
    env.advance(Duration::from_secs(5));
    let stats = db.stats().unwrap();
    let [first, second] = &stats.snapshots[..] else {
        panic!("unexpected: {:?}", stats.snapshots);
    };
    assert_eq!(first.name.as_deref(), Some("nightly"));
    assert_eq!(first.sequence, named.sequence());
    assert!(first.age >= Duration::from_secs(65) && first.age < Duration::from_secs(70));
    assert_eq!(second.name, None);
    assert_eq!(second.sequence, plain.sequence());
    assert!(second.age >= Duration::from_secs(5) && second.age < Duration::from_secs(10));
    assert_eq!(stats.live_snapshots, 2, "two states are pinned");
    drop((named, plain, copy, transaction, iter));
    let stats = db.stats().unwrap();
    assert!(stats.snapshots.is_empty());
    assert_eq!(stats.live_snapshots, 0);
    db.close().unwrap();
}

#[test]
fn transactions_begin_at_a_snapshot_and_are_checked_against_it() {
    let env = MemoryEnv::new(3);
    let db = open(&env);
    let family = db.create_family("f", small()).unwrap();
    for key in [b"a", b"b", b"c"] {
        db.put(&family, key, b"old").unwrap();
    }
    let snapshot = db.named_snapshot("base").unwrap();
    db.put(&family, b"a", b"new").unwrap();
    let mut conflicting = db.begin_at(&snapshot, at_snapshot()).unwrap();
    let mut passing = db.begin_at(&snapshot, at_snapshot()).unwrap();
    // The transactions pin the view from here on.
    drop(snapshot);
    db.flush(&family).unwrap();
    db.compact(&family).unwrap();
    for transaction in [&conflicting, &passing] {
        assert_eq!(transaction.get(&family, b"a").unwrap().unwrap(), b"old");
    }
    conflicting.put(&family, b"a", b"mine").unwrap();
    passing.put(&family, b"b", b"mine").unwrap();
    assert_eq!(kind(conflicting.commit()), ErrorKind::Conflict);
    passing.commit().unwrap();
    passing.reset().unwrap();
    assert_eq!(passing.get(&family, b"a").unwrap().unwrap(), b"new");

    // What counts as a conflict depends on the level, all of it since the snapshot.
    let snapshot = db.snapshot().unwrap();
    db.put(&family, b"c", b"newer").unwrap();
    for (isolation, is_conflict) in [
        (IsolationLevel::RepeatableRead, true),
        (IsolationLevel::Snapshot, false),
        (IsolationLevel::Serializable, true),
    ] {
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        let mut transaction = db.begin_at(&snapshot, options).unwrap();
        assert_eq!(transaction.get(&family, b"c").unwrap().unwrap(), b"old");
        transaction
            .put(&family, format!("{isolation:?}").as_bytes(), b"")
            .unwrap();
        let outcome = transaction.commit();
        assert_eq!(outcome.is_err(), is_conflict, "{isolation:?}");
    }
    for isolation in [
        IsolationLevel::ReadUncommitted,
        IsolationLevel::ReadCommitted,
    ] {
        let below = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        assert_eq!(
            kind(db.begin_at(&snapshot, below)),
            ErrorKind::InvalidArgument
        );
    }
    let other_env = MemoryEnv::new(4);
    let other = open(&other_env);
    assert_eq!(
        kind(other.begin_at(&snapshot, at_snapshot())),
        ErrorKind::InvalidArgument
    );
    other.close().unwrap();
    db.close().unwrap();
}

#[test]
fn a_named_snapshot_pins_its_versions_through_flush_and_merge_and_no_longer() {
    let env = MemoryEnv::new(5);
    let db = open(&env);
    let family = db.create_family("f", small()).unwrap();
    let put_all = |value: &[u8]| {
        for number in 0..50_u8 {
            db.put(&family, &[b'k', number], value).unwrap();
        }
    };
    let entries = |stats: FamilyStats| stats.levels.iter().map(|level| level.entries).sum::<u64>();
    put_all(b"old");
    let snapshot = db.named_snapshot("pin").unwrap();
    put_all(b"new");
    db.flush(&family).unwrap();
    assert_eq!(entries(db.family_stats(&family).unwrap()), 100);
    for number in 0..50_u8 {
        db.delete(&family, &[b'k', number]).unwrap();
    }
    db.compact(&family).unwrap();
    let reader = db.find_snapshot("pin").unwrap().unwrap();
    for number in 0..50_u8 {
        let found = reader.get(&family, &[b'k', number]).unwrap();
        assert_eq!(found.unwrap(), b"old");
    }
    drop((reader, snapshot));
    db.compact(&family).unwrap();
    assert_eq!(entries(db.family_stats(&family).unwrap()), 0);
    db.close().unwrap();
}

/// How a test deletes.
type Delete = fn(&Db, &ColumnFamily, &[u8]);

fn single(db: &Db, family: &ColumnFamily, key: &[u8]) {
    db.single_delete(family, key).unwrap();
}

fn ordinary(db: &Db, family: &ColumnFamily, key: &[u8]) {
    db.delete(family, key).unwrap();
}

/// A family with other keys at the bottom, on both sides of all keys of the tests.
fn with_a_bottom(db: &Db, name: &str, options: FamilyOptions) -> ColumnFamily {
    let family = db.create_family(name, options).unwrap();
    // Large enough, and not to be compressed, so that level 2 is in use.
    let mut random = Random::new(0);
    for number in 0..200_u8 {
        for side in [b'a', b'z'] {
            db.put(&family, &[side, number], &random.bytes(500))
                .unwrap();
        }
    }
    db.compact(&family).unwrap();
    family
}

fn totals(db: &Db, family: &ColumnFamily) -> (u64, u64) {
    let levels = db.family_stats(family).unwrap().levels;
    let sum = |of: fn(&kingtide::LevelStats) -> u64| levels.iter().map(of).sum();
    (sum(|level| level.entries), sum(|level| level.tombstones))
}

const BOTTOM_ENTRIES: u64 = 400;

fn key(number: usize) -> Vec<u8> {
    format!("k{number:03}").into_bytes()
}

/// Method: pairs in one memtable, in a family that has other keys below. Where the put is hidden by an ordinary delete,
/// the tombstone must stay.
#[test]
fn a_pair_in_one_memtable_vanishes_in_its_flush() {
    let cases: [(&str, Delete, u64); 2] = [("single", single, 0), ("ordinary", ordinary, 20)];
    let env = MemoryEnv::new(6);
    let db = open(&env);
    for (name, delete, tombstones) in cases {
        let family = with_a_bottom(&db, name, small());
        for number in 0..20 {
            db.put(&family, &key(number), b"once").unwrap();
            delete(&db, &family, &key(number));
        }
        db.flush(&family).unwrap();
        assert_eq!(
            totals(&db, &family),
            (BOTTOM_ENTRIES + tombstones, tombstones),
            "{name}"
        );
    }
    // In one transaction nothing but the single delete reaches the memtable's readers, and it vanishes alone.
    let family = with_a_bottom(&db, "one transaction", small());
    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"k", b"once").unwrap();
    transaction.single_delete(&family, b"k").unwrap();
    assert!(transaction.get(&family, b"k").unwrap().is_none());
    transaction.commit().unwrap();
    assert!(db.get(&family, b"k").unwrap().is_none());
    db.flush(&family).unwrap();
    assert_eq!(totals(&db, &family), (BOTTOM_ENTRIES, 0));
    db.close().unwrap();
}

/// Method: the puts lie on level 2, above a bottom with other keys; their deletes come to level 1, and a merge of level
/// 1 into level 2 meets both.
#[test]
fn a_pair_on_two_levels_vanishes_above_the_bottom_with_its_value() {
    // A half of them must fit a memtable, so that every flush adds one table.
    const KEYS: usize = 6;
    let cases: [(&str, Delete, bool); 2] =
        [("single", single, true), ("ordinary", ordinary, false)];
    let env = MemoryEnv::new(7);
    let db = open(&env);
    for (name, delete, vanishes) in cases {
        let options = FamilyOptions {
            value_threshold_bytes: 600,
            // Level 2 is in use above a bottom on level 3.
            write_buffer_bytes: 24 << 10,
            ..small()
        };
        let family = with_a_bottom(&db, name, options);
        let values = |db: &Db| {
            let levels = db.family_stats(&family).unwrap().levels;
            levels.iter().map(|level| level.vlog_bytes).sum::<u64>()
        };
        let values_below = values(&db);
        let flush_in_parts = |parts: usize, write: &dyn Fn(usize)| {
            for part in 0..parts {
                (0..KEYS)
                    .filter(|number| number % parts == part)
                    .for_each(write);
                // What is read is merged as soon as it is full.
                db.contains(&family, &key(0)).unwrap();
                db.flush(&family).unwrap();
            }
            db.wait_idle().unwrap();
        };
        // The first of them goes to level 2 at once, the others overlap it and each other.
        flush_in_parts(3, &|number| {
            db.put(&family, &key(number), &[7; 700]).unwrap();
        });
        let levels = db.family_stats(&family).unwrap().levels;
        let puts = levels[1].entries;
        assert_eq!(puts, KEYS as u64, "the puts are on level 2: {levels:?}");
        flush_in_parts(2, &|number| delete(&db, &family, &key(number)));
        let levels = db.family_stats(&family).unwrap().levels;
        assert_eq!(levels[0].entries, 0, "{levels:?}");
        let left = if vanishes { 0 } else { puts };
        assert_eq!(levels[1].tombstones, left, "{name}: {levels:?}");
        assert_eq!(totals(&db, &family).0, BOTTOM_ENTRIES + left);
        assert_eq!(values(&db), values_below);
    }
    db.close().unwrap();
}

/// What was written to a key before its single delete, oldest first; `|` is a flush, `v` a merge of everything.
const ABUSED: [&str; 10] = [
    "put v put | single",
    "put v put single |",
    "put | delete | put | single",
    "put v delete put | single",
    "put v single | single",
    "put v put | put single",
    "put v delete | single",
    "put v expired | single",
    "put v put v single",
    "put | put | single | put | single",
];

/// Goal: an older version never comes back, whatever the caller does. Method: histories that break the contract of single
/// deletes, or come close to it, followed by flushes and merges, with the key read after every step.
#[test]
fn a_single_delete_never_shows_an_older_version() {
    for (index, history) in ABUSED.iter().enumerate() {
        for has_filter in [true, false] {
            let env = MemoryEnv::new(100 + index as u64);
            let db = open(&env);
            let options = FamilyOptions {
                bloom_filter: has_filter,
                ..small()
            };
            let family = with_a_bottom(&db, "f", options);
            let mut is_there = false;
            let steps = history.split(' ').chain(["|", "read", "v", "read"]);
            for step in steps {
                match step {
                    "put" => db.put(&family, b"k", b"value").unwrap(),
                    "expired" => db.put_expiring(&family, b"k", b"value", 1).unwrap(),
                    "delete" => db.delete(&family, b"k").unwrap(),
                    "single" => db.single_delete(&family, b"k").unwrap(),
                    "|" => {
                        db.flush(&family).unwrap();
                        db.wait_idle().unwrap();
                    }
                    "v" => db.compact(&family).unwrap(),
                    _ => {}
                }
                is_there = match step {
                    "put" => true,
                    "expired" | "delete" | "single" => false,
                    _ => is_there,
                };
                let found = db.contains(&family, b"k").unwrap();
                assert_eq!(found, is_there, "{history:?} at {step:?}");
            }
            assert_eq!(totals(&db, &family), (BOTTOM_ENTRIES, 0), "{history:?}");
            db.close().unwrap();
        }
    }
}

/// A pair that nobody can see any more was still written: a transaction that read before it must hear of it.
#[test]
fn a_pair_that_is_newer_than_a_transactions_view_is_a_conflict_after_flush_and_merge() {
    let env = MemoryEnv::new(8);
    let db = open(&env);
    let family = with_a_bottom(&db, "f", small());
    let mut transaction = db.begin_with(at_snapshot()).unwrap();
    assert!(transaction.get(&family, b"k").unwrap().is_none());
    db.put(&family, b"k", b"once").unwrap();
    db.single_delete(&family, b"k").unwrap();
    db.flush(&family).unwrap();
    db.compact(&family).unwrap();
    transaction.put(&family, b"k", b"mine").unwrap();
    assert_eq!(kind(transaction.commit()), ErrorKind::Conflict);
    drop(transaction);
    db.compact(&family).unwrap();
    assert_eq!(totals(&db, &family), (BOTTOM_ENTRIES, 0));
    db.close().unwrap();
}

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads everything at `snapshot`, or now.
fn read_all(db: &Db, family: &ColumnFamily, snapshot: Option<&Snapshot>) -> State {
    let options = IterOptions::default();
    let mut iter = match snapshot {
        Some(snapshot) => snapshot.iter(family, options).unwrap(),
        None => db.iter(family, options).unwrap(),
    };
    let mut state = State::new();
    let mut is_valid = iter.seek_to_first().unwrap();
    while is_valid {
        state.insert(iter.key().to_vec(), iter.value().unwrap().to_vec());
        is_valid = iter.next().unwrap();
    }
    state
}

/// Goal: reads never tell a single delete from a delete. Method: random puts, deletes and single deletes over few keys,
/// with snapshots, flushes, merges, reopening and power cuts, compared with a map.
#[test]
fn random_single_deletes_read_as_deletes() {
    for seed in 0..40 {
        random_history(seed);
    }
}

fn random_history(seed: u64) {
    let mut random = Random::new(seed);
    let mut env = MemoryEnv::new(seed);
    let mut db = open(&env);
    let comparator = *random.pick(&["memcmp", "reverse_memcmp", "case_insensitive"]);
    let options = FamilyOptions {
        bloom_filter: !random.one_in(3),
        comparator: comparator.to_owned(),
        value_threshold_bytes: *random.pick(&[0, 64]),
        sync: SyncMode::Full,
        ..small()
    };
    let mut family = db.create_family("f", options).unwrap();
    let keys = *random.pick(&[10, 60, 300]);
    let mut state = State::new();
    let mut snapshots: Vec<(Snapshot, State)> = Vec::new();
    for step in 0..1500 {
        let key = format!("k{:03}", random.below(keys)).into_bytes();
        match random.below(400) {
            0..180 => {
                let length = random.between(1, 300);
                let value = random.bytes(length);
                db.put(&family, &key, &value).unwrap();
                state.insert(key, value);
            }
            180..230 => {
                db.delete(&family, &key).unwrap();
                state.remove(&key);
            }
            230..370 => {
                db.single_delete(&family, &key).unwrap();
                state.remove(&key);
            }
            370..375 => {
                let end = format!("k{:03}", random.below(keys)).into_bytes();
                let (start, end) = (key.clone().min(end.clone()), key.max(end));
                // Keys are in lower case; the reverse order alone sorts them differently.
                let (first, last) = match comparator {
                    "reverse_memcmp" => (&end, &start),
                    _ => (&start, &end),
                };
                db.delete_range(&family, first, last).unwrap();
                state.retain(|key, _| match comparator {
                    "reverse_memcmp" => *key <= start || *key > end,
                    _ => *key < start || *key >= end,
                });
            }
            375..380 if snapshots.len() < 3 => {
                snapshots.push((db.snapshot().unwrap(), state.clone()));
            }
            380..385 if !snapshots.is_empty() => {
                let index = random.below(snapshots.len());
                snapshots.swap_remove(index);
            }
            385..393 => db.flush(&family).unwrap(),
            393..395 => db.wait_idle().unwrap(),
            395 => db.compact(&family).unwrap(),
            396 => {
                snapshots.clear();
                if random.one_in(2) {
                    env = env.crash(CrashImage::NothingUnsynced, seed);
                } else {
                    db.close().unwrap();
                }
                db = open(&env);
                family = db.family("f").unwrap();
            }
            _ => {
                let place = format!("seed {seed}, step {step}");
                assert_eq!(read_all(&db, &family, None), state, "{place}");
                let has = db.get(&family, &key).unwrap();
                assert_eq!(
                    has.as_deref(),
                    state.get(&key).map(Vec::as_slice),
                    "{place}"
                );
                for (snapshot, then) in &snapshots {
                    assert_eq!(read_all(&db, &family, Some(snapshot)), *then, "{place}");
                }
            }
        }
    }
    snapshots.clear();
    db.compact(&family).unwrap();
    assert_eq!(
        read_all(&db, &family, None),
        state,
        "seed {seed}, at the end"
    );
    let (entries, tombstones) = totals(&db, &family);
    assert_eq!(
        (entries, tombstones),
        (state.len() as u64, 0),
        "seed {seed}"
    );
    db.close().unwrap();
}

fn unix_seconds(env: &MemoryEnv) -> i64 {
    i64::try_from(env.unix_micros() / 1_000_000).unwrap()
}

/// Goal: expiry is judged at the snapshot's clock, and a merge drops what expired only when no snapshot sees it. Method: an
/// entry over an older one expires while a snapshot lives; both views are looked at in memory, in tables and merged.
// Promise: expiry.
#[test]
fn a_snapshot_goes_on_seeing_what_expires_after_it() {
    let env = MemoryEnv::new(11);
    let db = open(&env);
    let family = db.create_family("f", small()).unwrap();
    let now = unix_seconds(&env);
    db.put(&family, b"k", b"older").unwrap();
    db.put_expiring(&family, b"k", b"passing", now + 3600)
        .unwrap();
    let before = db.snapshot().unwrap();
    env.advance(Duration::from_secs(7200));
    for step in 0..3 {
        let seen = before.get(&family, b"k").unwrap();
        assert_eq!(seen.as_deref(), Some(&b"passing"[..]), "step {step}");
        assert!(db.get(&family, b"k").unwrap().is_none(), "step {step}");
        match step {
            0 => db.flush(&family).unwrap(),
            _ => db.compact(&family).unwrap(),
        }
    }
    drop(before);
    db.compact(&family).unwrap();
    assert!(db.get(&family, b"k").unwrap().is_none());
    db.close().unwrap();
}

/// Goal: the clock of an opening never goes back. Method: an entry expires, then the wall clock is turned back to before it
/// was written.
// Promise: expiry.
#[test]
fn a_clock_that_is_turned_back_brings_nothing_back() {
    let env = MemoryEnv::new(12);
    let db = open(&env);
    let family = db.create_family("f", small()).unwrap();
    let now = unix_seconds(&env);
    db.put_expiring(&family, b"k", b"passing", now + 3600)
        .unwrap();
    assert!(db.contains(&family, b"k").unwrap());
    env.advance(Duration::from_secs(7200));
    assert!(!db.contains(&family, b"k").unwrap());
    env.turn_back(Duration::from_secs(10_000));
    assert!(!db.contains(&family, b"k").unwrap());
    let snapshot = db.snapshot().unwrap();
    assert!(snapshot.get(&family, b"k").unwrap().is_none());
    db.close().unwrap();
}
