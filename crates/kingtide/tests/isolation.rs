//! What each isolation level checks, call by call, and what else a transaction can do.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{sync::Arc, time::Duration};

use kingtide::{
    ColumnFamily, ConflictAccess, Db, ErrorKind, FamilyOptions, IsolationLevel, IterOptions,
    Options, Result, RetryOptions, SeqNo, SyncMode, Transaction, TransactionOptions,
};
use kingtide_env::MemoryEnv;

fn open(options: Options) -> (MemoryEnv, Db, ColumnFamily) {
    let env = MemoryEnv::new(7);
    let options = Options {
        env: Some(Arc::new(env.clone())),
        ..options
    };
    let db = Db::open("/db", options).unwrap();
    let family = FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", family).unwrap();
    (env, db, family)
}

fn database() -> (Db, ColumnFamily) {
    let (_, db, family) = open(Options::default());
    (db, family)
}

fn at(isolation: IsolationLevel) -> TransactionOptions {
    TransactionOptions {
        isolation,
        ..TransactionOptions::default()
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T>, kind: ErrorKind) {
    assert_eq!(outcome.unwrap_err().kind(), kind);
}

fn value(db: &Db, family: &ColumnFamily, key: &[u8]) -> Option<Vec<u8>> {
    db.get(family, key).unwrap().map(|value| value.to_vec())
}

/// The levels at which a read conflicts with a later write of another transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counts {
    Never,
    Serializable,
    RepeatableReadAndSerializable,
    Always,
}

impl Counts {
    fn at(self, level: IsolationLevel) -> bool {
        match self {
            Self::Never => false,
            Self::Serializable => level == IsolationLevel::Serializable,
            Self::RepeatableReadAndSerializable => {
                matches!(
                    level,
                    IsolationLevel::RepeatableRead | IsolationLevel::Serializable
                )
            }
            Self::Always => true,
        }
    }
}

type Read = fn(&mut Transaction, &ColumnFamily);

/// A read, the key that another transaction writes afterwards, and where that is a conflict. There are the keys b, d, f.
struct Case {
    name: &'static str,
    read: Read,
    written: &'static [u8],
    counts: Counts,
}

const fn case(name: &'static str, read: Read, written: &'static [u8], counts: Counts) -> Case {
    Case {
        name,
        read,
        written,
        counts,
    }
}

fn bounded(lower: &[u8], upper: &[u8]) -> IterOptions {
    IterOptions {
        lower: Some(lower.to_vec()),
        upper: Some(upper.to_vec()),
        prefix: None,
    }
}

fn get_d(t: &mut Transaction, f: &ColumnFamily) {
    t.get(f, b"d").unwrap();
}

fn get_c(t: &mut Transaction, f: &ColumnFamily) {
    assert!(t.get(f, b"c").unwrap().is_none());
}

fn look_at_d(t: &mut Transaction, f: &ColumnFamily) {
    t.get_with(f, b"d", |_| ()).unwrap().unwrap();
}

fn look_for_c(t: &mut Transaction, f: &ColumnFamily) {
    assert!(t.get_with(f, b"c", |_| ()).unwrap().is_none());
}

fn get_many(t: &mut Transaction, f: &ColumnFamily) {
    t.multi_get(f, &[b"b", b"c"]).unwrap();
}

fn get_untracked(t: &mut Transaction, f: &ColumnFamily) {
    t.get_untracked(f, b"d").unwrap();
    t.get_untracked_with(f, b"d", |_| ()).unwrap().unwrap();
    t.get_untracked_with(f, b"c", |_| ()).unwrap();
    t.contains(f, b"d").unwrap();
    t.contains(f, b"c").unwrap();
}

fn get_for_update(t: &mut Transaction, f: &ColumnFamily) {
    t.get_for_update(f, b"d").unwrap();
    t.get_for_update(f, b"c").unwrap();
}

/// Visits b and d.
fn two_steps(t: &mut Transaction, f: &ColumnFamily) {
    let mut iter = t.iter(f, IterOptions::default()).unwrap();
    assert!(iter.seek_to_first().unwrap());
    assert!(iter.next().unwrap());
}

/// Visits all, and the end.
fn to_the_end(t: &mut Transaction, f: &ColumnFamily) {
    let iter = t.iter(f, IterOptions::default()).unwrap();
    assert_eq!(iter.entries().count(), 3);
}

fn to_the_bound(t: &mut Transaction, f: &ColumnFamily) {
    let iter = t.iter(f, bounded(b"a", b"e")).unwrap();
    assert_eq!(iter.entries().count(), 2);
}

fn prefix(t: &mut Transaction, f: &ColumnFamily) {
    let options = IterOptions {
        prefix: Some(b"d".to_vec()),
        ..IterOptions::default()
    };
    assert_eq!(t.iter(f, options).unwrap().entries().count(), 1);
}

/// Visits f and d.
fn two_steps_back(t: &mut Transaction, f: &ColumnFamily) {
    let mut iter = t.iter(f, IterOptions::default()).unwrap();
    assert!(iter.seek_to_last().unwrap());
    assert!(iter.prev().unwrap());
}

fn back_to_the_start(t: &mut Transaction, f: &ColumnFamily) {
    let mut iter = t.iter(f, IterOptions::default()).unwrap();
    assert!(iter.seek_for_prev(b"b").unwrap());
    assert!(!iter.prev().unwrap());
}

fn seek_in_vain(t: &mut Transaction, f: &ColumnFamily) {
    let mut iter = t.iter(f, IterOptions::default()).unwrap();
    assert!(!iter.seek(b"g").unwrap());
}

fn two_seeks(t: &mut Transaction, f: &ColumnFamily) {
    let mut iter = t.iter(f, IterOptions::default()).unwrap();
    assert!(iter.seek(b"b").unwrap());
    assert!(iter.seek(b"e").unwrap());
}

fn no_move(t: &mut Transaction, f: &ColumnFamily) {
    t.iter(f, IterOptions::default()).unwrap();
}

fn own_write(t: &mut Transaction, f: &ColumnFamily) {
    t.savepoint("s").unwrap();
    t.put(f, b"d", b"mine").unwrap();
    assert_eq!(&*t.get(f, b"d").unwrap().unwrap(), b"mine");
    t.rollback_to("s").unwrap();
}

fn write_d(t: &mut Transaction, f: &ColumnFamily) {
    t.put(f, b"d", b"mine").unwrap();
}

use Counts::{Always, Never, RepeatableReadAndSerializable as Items, Serializable as Ranges};

const CASES: &[Case] = &[
    case("a key found", get_d, b"d", Items),
    case("a key found, another written", get_d, b"b", Never),
    case("a key missed", get_c, b"c", Ranges),
    case("a key looked at", look_at_d, b"d", Items),
    case("a key looked for", look_for_c, b"c", Ranges),
    case("keys found", get_many, b"b", Items),
    case("keys missed", get_many, b"c", Ranges),
    case("untracked", get_untracked, b"d", Never),
    case("untracked, missed", get_untracked, b"c", Never),
    case("for update, found", get_for_update, b"d", Always),
    case("for update, missed", get_for_update, b"c", Always),
    case("an item visited", two_steps, b"d", Items),
    case("the first item", two_steps, b"b", Items),
    case("a gap passed", two_steps, b"c", Ranges),
    case("the gap before the first", two_steps, b"a", Ranges),
    case("behind the position", two_steps, b"e", Never),
    case("an item not visited", two_steps, b"f", Never),
    case("the end", to_the_end, b"z", Ranges),
    case("the last item", to_the_end, b"f", Items),
    case("before the bound", to_the_bound, b"dd", Ranges),
    case("at the bound", to_the_bound, b"e", Never),
    case("at the lower bound", to_the_bound, b"a", Ranges),
    case("below the lower bound", to_the_bound, b"Z", Never),
    case("in the prefix", prefix, b"dx", Ranges),
    case("beside the prefix", prefix, b"e", Never),
    case("an item visited backward", two_steps_back, b"d", Items),
    case("a gap passed backward", two_steps_back, b"e", Ranges),
    case("the gap behind the last", two_steps_back, b"x", Ranges),
    case("before the position", two_steps_back, b"c", Never),
    case("the start", back_to_the_start, b"a", Ranges),
    case("the start, behind", back_to_the_start, b"c", Never),
    case("a seek in vain", seek_in_vain, b"g", Ranges),
    case("a seek in vain, further", seek_in_vain, b"q", Ranges),
    case("before a seek in vain", seek_in_vain, b"f", Never),
    case("between two seeks", two_seeks, b"c", Never),
    case("from a target to a key", two_seeks, b"ee", Ranges),
    case("an iterator that never moved", no_move, b"d", Never),
    case("an own write taken back", own_write, b"d", Never),
];

/// Where the other transaction's write is when the first one commits.
#[derive(Clone, Copy, Debug)]
enum Place {
    Memtable,
    Table,
    Merged,
}

/// Goal: each read conflicts at exactly the levels at which it must, wherever the other's write lies. Method: the cases
/// above, at each level, with a put and with a delete.
// Promise: serializable.
#[test]
fn reads_conflict_at_the_levels_that_say_so() {
    for level in IsolationLevel::ALL {
        for place in [Place::Memtable, Place::Table, Place::Merged] {
            let (db, family) = database();
            let other = db.create_family("g", FamilyOptions::default()).unwrap();
            for case in CASES {
                for is_delete in [false, true] {
                    for key in [b"b", b"d", b"f"] {
                        db.put(&family, key, b"1").unwrap();
                    }
                    for key in [
                        &b"a"[..],
                        b"c",
                        b"dd",
                        b"dx",
                        b"e",
                        b"ee",
                        b"g",
                        b"q",
                        b"x",
                        b"z",
                        b"Z",
                    ] {
                        db.delete(&family, key).unwrap();
                    }
                    let mut first = db.begin_with(at(level)).unwrap();
                    (case.read)(&mut first, &family);
                    first.put(&other, b"k", b"unrelated").unwrap();
                    let mut second = db.begin().unwrap();
                    if is_delete {
                        second.delete(&family, case.written).unwrap();
                    } else {
                        second.put(&family, case.written, b"2").unwrap();
                    }
                    second.commit().unwrap();
                    match place {
                        Place::Memtable => {}
                        Place::Table => db.flush(&family).unwrap(),
                        Place::Merged => db.compact(&family).unwrap(),
                    }
                    let what = format!("{level:?}, {}, {place:?}, delete {is_delete}", case.name);
                    let outcome = first.commit();
                    assert_eq!(outcome.is_err(), case.counts.at(level), "{what}");
                    if let Err(error) = outcome {
                        assert_eq!(error.kind(), ErrorKind::Conflict, "{what}");
                        let conflict = error.conflict().expect("a conflict has a place");
                        assert_eq!(conflict.key, case.written, "{what}");
                        assert_eq!(conflict.family, "f");
                        assert_ne!(conflict.access, ConflictAccess::Write);
                    }
                }
            }
            db.close().unwrap();
        }
    }
}

/// Goal: the first committer of a key wins from repeatable read up; below, the last one.
// Promise: levels.
#[test]
fn written_keys_conflict_from_repeatable_read_up() {
    for level in IsolationLevel::ALL {
        let (db, family) = database();
        let mut first = db.begin_with(at(level)).unwrap();
        write_d(&mut first, &family);
        db.put(&family, b"d", b"theirs").unwrap();
        let outcome = first.commit();
        assert_eq!(outcome.is_err(), level.has_one_view(), "{level:?}");
        let expected: &[u8] = if outcome.is_err() { b"theirs" } else { b"mine" };
        assert_eq!(value(&db, &family, b"d").unwrap(), expected);
        if let Err(error) = outcome {
            assert_eq!(error.conflict().unwrap().access, ConflictAccess::Write);
            assert!(error.to_string().contains("\"d\""), "{error}");
        }
    }
}

/// Goal: who writes nothing never gets a conflict, whatever it read and whatever others wrote.
// Promise: read-only.
#[test]
fn a_transaction_that_only_reads_never_conflicts() {
    for level in IsolationLevel::ALL {
        let (db, family) = database();
        db.put(&family, b"d", b"1").unwrap();
        let mut reader = db.begin_with(at(level)).unwrap();
        reader.get(&family, b"d").unwrap();
        reader.get(&family, b"c").unwrap();
        let iter = reader.iter(&family, IterOptions::default()).unwrap();
        assert_eq!(iter.entries().count(), 1);
        for key in [b"c", b"d"] {
            db.put(&family, key, b"2").unwrap();
        }
        reader.savepoint("s").unwrap();
        reader.put(&family, b"x", b"taken back").unwrap();
        reader.rollback_to("s").unwrap();
        assert_eq!(reader.commit().unwrap(), SeqNo::ZERO, "{level:?}");
    }
}

/// Goal: a read for update without any write is checked too; below repeatable read against what it saw itself.
// Promise: own-writes.
#[test]
fn reads_for_update_are_checked_without_writes() {
    for level in IsolationLevel::ALL {
        let (db, family) = database();
        db.put(&family, b"k", b"1").unwrap();
        let mut transaction = db.begin_with(at(level)).unwrap();
        let read = transaction.get_for_update(&family, b"k").unwrap();
        assert_eq!(read.as_deref(), Some(&b"1"[..]));
        assert_eq!(transaction.commit().unwrap(), SeqNo::ZERO);

        transaction.reset().unwrap();
        db.put(&family, b"k", b"2").unwrap();
        transaction.get_for_update(&family, b"k").unwrap();
        let outcome = transaction.commit();
        assert_eq!(outcome.is_err(), level.has_one_view(), "{level:?}");

        transaction.reset().unwrap();
        transaction.get_for_update(&family, b"k").unwrap();
        db.delete(&family, b"k").unwrap();
        db.compact(&family).unwrap();
        let error = transaction.commit().unwrap_err();
        let conflict = error.conflict().unwrap();
        assert_eq!(conflict.access, ConflictAccess::Update, "{level:?}");
    }
}

/// Goal: what was read for update stays so over a savepoint.
// Promise: own-writes.
#[test]
fn savepoints_take_back_writes_and_no_reads() {
    let (db, family) = database();
    db.put(&family, b"k", b"1").unwrap();
    let mut transaction = db.begin().unwrap();
    transaction.savepoint("s").unwrap();
    transaction.get_for_update(&family, b"k").unwrap();
    transaction.put(&family, b"k", b"mine").unwrap();
    transaction.rollback_to("s").unwrap();
    db.put(&family, b"k", b"2").unwrap();
    refused(transaction.commit(), ErrorKind::Conflict);
    assert_eq!(value(&db, &family, b"k").unwrap(), b"2");
}

/// Goal: savepoints nest, move, and are released by name. Method: one transaction, its own reads, its commit.
#[test]
fn savepoints_nest_move_and_are_released() {
    let (db, family) = database();
    let other = db.create_family("g", FamilyOptions::default()).unwrap();
    let mut t = db.begin().unwrap();
    refused(t.rollback_to("a"), ErrorKind::InvalidArgument);
    refused(t.release("a"), ErrorKind::InvalidArgument);
    t.put(&family, b"k", b"0").unwrap();
    t.savepoint("a").unwrap();
    refused(t.rollback_to("b"), ErrorKind::NotFound);
    refused(t.release("b"), ErrorKind::NotFound);
    t.put(&family, b"k", b"1").unwrap();
    t.savepoint("b").unwrap();
    t.delete(&family, b"k").unwrap();
    t.put(&other, b"o", b"2").unwrap();
    assert!(t.get(&family, b"k").unwrap().is_none());
    t.savepoint("c").unwrap();
    t.rollback_to("b").unwrap();
    refused(t.rollback_to("c"), ErrorKind::NotFound);
    refused(t.rollback_to("b"), ErrorKind::NotFound);
    assert!(t.get(&other, b"o").unwrap().is_none());
    assert_eq!(&*t.get(&family, b"k").unwrap().unwrap(), b"1");
    assert_eq!(t.operation_count(), 2);

    // A name that is used again moves.
    t.savepoint("b").unwrap();
    t.put(&family, b"l", b"3").unwrap();
    t.savepoint("a").unwrap();
    t.put(&family, b"m", b"4").unwrap();
    t.rollback_to("a").unwrap();
    assert_eq!(&*t.get(&family, b"l").unwrap().unwrap(), b"3");
    assert!(t.get(&family, b"m").unwrap().is_none());
    t.savepoint("d").unwrap();
    t.put(&family, b"n", b"5").unwrap();
    t.release("b").unwrap();
    refused(t.rollback_to("b"), ErrorKind::NotFound);
    t.rollback_to("d").unwrap();
    t.commit().unwrap();
    refused(t.savepoint("late"), ErrorKind::Closed);
    let entries: Vec<_> = db
        .iter(&family, IterOptions::default())
        .unwrap()
        .entries()
        .collect();
    let entries: Vec<_> = entries.into_iter().map(|entry| entry.unwrap()).collect();
    assert_eq!(
        entries,
        [
            (b"k".to_vec(), b"1".to_vec()),
            (b"l".to_vec(), b"3".to_vec())
        ]
    );
    assert!(value(&db, &other, b"o").is_none());
    db.close().unwrap();
}

/// Goal: going back to a savepoint restores exactly the earlier own view, also when operations are many. Method: random
/// puts, deletes, savepoints and returns against a map and a stack of its copies; reads by key and by iterator.
// Promise: own-writes.
#[test]
fn savepoints_agree_with_a_stack_of_maps() {
    use std::collections::BTreeMap;
    type Map = BTreeMap<Vec<u8>, Vec<u8>>;
    let mut seed: u64 = 0x5AFE;
    let mut below = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % bound
    };
    for _ in 0..30 {
        let (db, family) = database();
        let mut t = db.begin().unwrap();
        let mut now: Map = BTreeMap::new();
        let mut saved: Vec<(String, Map)> = Vec::new();
        for step in 0..200_u64 {
            let key = below(40).to_be_bytes().to_vec();
            match below(10) {
                0..=4 => {
                    t.put(&family, &key, &step.to_be_bytes()).unwrap();
                    now.insert(key, step.to_be_bytes().to_vec());
                }
                5 | 6 => {
                    t.delete(&family, &key).unwrap();
                    now.remove(&key);
                }
                7 | 8 => {
                    let name = format!("s{}", below(5));
                    t.savepoint(&name).unwrap();
                    saved.retain(|(known, _)| *known != name);
                    saved.push((name, now.clone()));
                }
                _ if saved.is_empty() => {}
                _ => {
                    let index = below(saved.len() as u64) as usize;
                    t.rollback_to(&saved[index].0).unwrap();
                    now = saved[index].1.clone();
                    saved.truncate(index);
                }
            }
            let probe = below(40).to_be_bytes();
            let found = t.get(&family, &probe).unwrap().map(|value| value.to_vec());
            assert_eq!(found.as_ref(), now.get(&probe[..]));
        }
        let seen =
            |iter: kingtide::Iter| -> Map { iter.entries().map(|entry| entry.unwrap()).collect() };
        assert_eq!(seen(t.iter(&family, IterOptions::default()).unwrap()), now);
        t.commit().unwrap();
        assert_eq!(seen(db.iter(&family, IterOptions::default()).unwrap()), now);
    }
}

/// Goal: a family that was read and is gone at the commit is told of, as one that was written is.
#[test]
fn a_family_that_was_read_and_dropped_refuses_the_commit() {
    let (db, family) = database();
    let read = db.create_family("g", FamilyOptions::default()).unwrap();
    db.put(&read, b"k", b"1").unwrap();
    let mut transaction = db.begin_with(at(IsolationLevel::Serializable)).unwrap();
    assert!(transaction.get(&read, b"k").unwrap().is_some());
    transaction.put(&family, b"k", b"mine").unwrap();
    db.put(&read, b"k", b"2").unwrap();
    db.flush(&read).unwrap();
    db.drop_family("g").unwrap();
    refused(transaction.commit(), ErrorKind::NotFound);
    assert!(value(&db, &family, b"k").is_none());
    db.close().unwrap();
}

/// Goal: an iterator that is used after its transaction ended, or in a later life of it, adds nothing.
#[test]
fn an_iterator_of_an_ended_transaction_tracks_nothing() {
    let (db, family) = database();
    db.put(&family, b"d", b"1").unwrap();
    let mut transaction = db.begin_with(at(IsolationLevel::Serializable)).unwrap();
    let mut iter = transaction.iter(&family, IterOptions::default()).unwrap();
    assert!(iter.seek_to_first().unwrap());
    transaction.rollback().unwrap();
    transaction.reset().unwrap();
    assert!(iter.seek_to_first().unwrap());
    assert!(!iter.next().unwrap());
    transaction.put(&family, b"x", b"mine").unwrap();
    db.put(&family, b"d", b"2").unwrap();
    transaction.commit().unwrap();
    assert!(iter.seek_to_first().unwrap());
    assert_eq!(iter.value().unwrap(), b"1");
}

/// Goal: an iterator that is open while its transaction commits counts, wherever it is used.
// Promise: serializable.
#[test]
fn an_open_iterator_counts_at_the_commit() {
    let (db, family) = database();
    for key in [b"b", b"d"] {
        db.put(&family, key, b"1").unwrap();
    }
    let mut transaction = db.begin_with(at(IsolationLevel::Serializable)).unwrap();
    let mut iter = transaction.iter(&family, IterOptions::default()).unwrap();
    let iter = std::thread::spawn(move || {
        assert!(iter.seek(b"b").unwrap());
        assert!(iter.next().unwrap());
        iter
    });
    let iter = iter.join().unwrap();
    transaction.put(&family, b"x", b"mine").unwrap();
    db.put(&family, b"c", b"theirs").unwrap();
    refused(transaction.commit(), ErrorKind::Conflict);
    drop(iter);
}

/// Goal: after a conflict, a commit or a rollback a transaction begins again at a new view, with settings of choice.
// Promise: conflict.
#[test]
fn a_transaction_can_be_reset_with_other_settings() {
    let (db, family) = database();
    let mut t = db.begin_with(at(IsolationLevel::Serializable)).unwrap();
    refused(t.reset(), ErrorKind::InvalidArgument);
    refused(
        t.reset_with(at(IsolationLevel::ReadCommitted)),
        ErrorKind::InvalidArgument,
    );
    assert_eq!(t.isolation(), IsolationLevel::Serializable);
    t.get(&family, b"k").unwrap();
    t.put(&family, b"l", b"1").unwrap();
    db.put(&family, b"k", b"1").unwrap();
    refused(t.commit(), ErrorKind::Conflict);
    refused(t.commit(), ErrorKind::Closed);
    refused(t.get(&family, b"k"), ErrorKind::Closed);
    t.reset().unwrap();
    assert_eq!(t.operation_count(), 0);
    assert_eq!(t.get(&family, b"k").unwrap().as_deref(), Some(&b"1"[..]));
    t.put(&family, b"l", b"2").unwrap();
    t.commit().unwrap();
    refused(t.rollback(), ErrorKind::InvalidArgument);
    t.reset_with(at(IsolationLevel::ReadCommitted)).unwrap();
    db.put(&family, b"k", b"2").unwrap();
    assert_eq!(t.get(&family, b"k").unwrap().as_deref(), Some(&b"2"[..]));
    t.rollback().unwrap();
    t.rollback().unwrap();
}

/// Goal: writes and remembered reads share one limit; what exceeds it is refused, and what is held stays usable.
// Promise: exact.
#[test]
fn writes_and_reads_share_one_limit() {
    let options = Options {
        transaction_bytes_max: 100_000,
        ..Options::default()
    };
    let (_, db, family) = open(options);
    for number in 0..2000_u32 {
        db.put(&family, &number.to_be_bytes(), b"v").unwrap();
    }
    // Writes alone.
    let mut t = db.begin().unwrap();
    t.put(&family, b"small", b"v").unwrap();
    refused(
        t.put(&family, b"large", &vec![0; 100_000]),
        ErrorKind::MemoryLimit,
    );
    assert!(t.get(&family, b"large").unwrap().is_none());
    t.commit().unwrap();
    assert!(value(&db, &family, b"small").is_some());

    // Reads, then a write: the sum counts.
    let mut t = db.begin_with(at(IsolationLevel::RepeatableRead)).unwrap();
    let mut iter = t.iter(&family, IterOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    while iter.is_valid() {
        iter.next().unwrap();
    }
    assert!(db.stats().unwrap().transaction_bytes < 100_000);
    refused(
        t.put(&family, b"k", &vec![0; 70_000]),
        ErrorKind::MemoryLimit,
    );
    t.put(&family, b"k", b"v").unwrap();
    t.commit().unwrap();

    // Reads that do not fit fail; the rest goes on.
    let mut t = db.begin_with(at(IsolationLevel::RepeatableRead)).unwrap();
    t.put(&family, b"k", &vec![0; 70_000]).unwrap();
    assert!(db.stats().unwrap().transaction_bytes >= 70_000);
    let mut iter = t.iter(&family, IterOptions::default()).unwrap();
    let mut outcome = iter.seek_to_first();
    while let Ok(true) = outcome {
        outcome = iter.next();
    }
    refused(outcome, ErrorKind::MemoryLimit);
    assert!(!iter.is_valid());
    let missing = t.get(&family, &1999_u32.to_be_bytes());
    refused(missing, ErrorKind::MemoryLimit);
    let read = t.get_untracked(&family, &1999_u32.to_be_bytes()).unwrap();
    assert!(read.is_some());
    t.commit().unwrap();
    assert_eq!(value(&db, &family, b"k").unwrap().len(), 70_000);
    drop(t);
    assert_eq!(db.stats().unwrap().transaction_bytes, 0);

    // A range takes next to nothing.
    let t = db.begin_with(at(IsolationLevel::Serializable)).unwrap();
    let iter = t.iter(&family, IterOptions::default()).unwrap();
    assert!(iter.entries().all(|entry| entry.is_ok()));
    db.close().unwrap();
}

/// Goal: a million operations in one transaction, at the strictest level, with own reads and a savepoint.
// Promise: exact.
#[test]
fn a_million_operations_fit_in_one_transaction() {
    let (db, family) = database();
    let mut t = db.begin_with(at(IsolationLevel::Serializable)).unwrap();
    for number in 0..500_000_u32 {
        t.put(&family, &number.to_be_bytes(), b"v").unwrap();
    }
    t.savepoint("half").unwrap();
    for number in 0..500_000_u32 {
        t.delete(&family, &number.to_be_bytes()).unwrap();
    }
    assert_eq!(t.operation_count(), 1_000_000);
    assert!(t.get(&family, &7_u32.to_be_bytes()).unwrap().is_none());
    t.rollback_to("half").unwrap();
    assert!(t.get(&family, &7_u32.to_be_bytes()).unwrap().is_some());
    for number in 500_000..1_000_000_u32 {
        t.put(&family, &number.to_be_bytes(), b"v").unwrap();
    }
    t.commit().unwrap();
    let iter = db.iter(&family, IterOptions::default()).unwrap();
    assert_eq!(iter.entries().count(), 1_000_000);
    db.close().unwrap();
}

/// Goal: after its time, every call on a transaction answers `Aborted`, except those that end or renew it.
#[test]
fn a_transaction_whose_time_is_over_is_aborted() {
    for level in IsolationLevel::ALL {
        let (env, db, family) = open(Options::default());
        db.put(&family, b"k", b"1").unwrap();
        let options = TransactionOptions {
            timeout: Some(Duration::from_secs(10)),
            ..at(level)
        };
        let mut t = db.begin_with(options).unwrap();
        t.put(&family, b"k", b"2").unwrap();
        env.advance(Duration::from_secs(9));
        t.get(&family, b"k").unwrap();
        env.advance(Duration::from_secs(1));
        refused(t.get(&family, b"k"), ErrorKind::Aborted);
        assert_eq!(
            db.stats().unwrap().live_snapshots,
            0,
            "nothing is pinned any more"
        );
        refused(t.multi_get(&family, &[b"k"]), ErrorKind::Aborted);
        refused(t.contains(&family, b"k"), ErrorKind::Aborted);
        refused(t.get_for_update(&family, b"k"), ErrorKind::Aborted);
        refused(t.iter(&family, IterOptions::default()), ErrorKind::Aborted);
        refused(t.put(&family, b"k", b"3"), ErrorKind::Aborted);
        refused(t.savepoint("s"), ErrorKind::Aborted);
        refused(t.commit(), ErrorKind::Aborted);
        t.reset().unwrap();
        t.put(&family, b"k", b"4").unwrap();
        t.commit().unwrap();
        assert_eq!(value(&db, &family, b"k").unwrap(), b"4");
    }
}

/// Goal: a handle aborts one life of a transaction from another thread and releases its snapshot at once.
#[test]
fn another_thread_can_abort_a_transaction() {
    for level in IsolationLevel::ALL {
        let (db, family) = database();
        db.put(&family, b"k", b"1").unwrap();
        let mut t = db.begin_with(at(level)).unwrap();
        t.get_for_update(&family, b"k").unwrap();
        let handle = t.abort_handle();
        let iter = t.iter(&family, IterOptions::default()).unwrap();
        t.put(&family, b"k", b"2").unwrap();
        assert_eq!(db.stats().unwrap().live_snapshots, 1, "{level:?}");
        let other = handle.clone();
        std::thread::spawn(move || other.abort()).join().unwrap();
        assert_eq!(db.stats().unwrap().live_snapshots, 0, "{level:?}");
        assert_eq!(iter.entries().count(), 1, "an open iterator goes on");
        refused(t.put(&family, b"k", b"3"), ErrorKind::Aborted);
        refused(t.commit(), ErrorKind::Aborted);
        t.rollback().unwrap();
        t.reset().unwrap();
        handle.abort();
        t.put(&family, b"k", b"4").unwrap();
        t.commit().unwrap();
        assert_eq!(value(&db, &family, b"k").unwrap(), b"4");
    }
}

/// Goal: work is done again after conflicts, at most so often as allowed, and not after other errors.
// Promise: conflict.
#[test]
fn retry_repeats_after_conflicts_only() {
    let (db, family) = database();
    let options = RetryOptions {
        attempts_max: 4,
        wait_first: Duration::ZERO,
        ..RetryOptions::default()
    };
    let snapshot = at(IsolationLevel::Snapshot);
    let mut attempts = 0;
    let answer = db.retry(&snapshot, &options, |t| {
        attempts += 1;
        t.put(&family, b"k", b"mine")?;
        if attempts < 3 {
            db.put(&family, b"k", b"theirs")?;
        }
        Ok(attempts)
    });
    assert_eq!(answer.unwrap(), 3);
    assert_eq!(value(&db, &family, b"k").unwrap(), b"mine");

    let mut attempts = 0;
    let answer = db.retry(&snapshot, &options, |t| {
        attempts += 1;
        t.put(&family, b"k", b"mine")?;
        db.put(&family, b"k", b"theirs")
    });
    refused(answer, ErrorKind::Conflict);
    assert_eq!(attempts, 4);

    let mut attempts = 0;
    let answer = db.retry(&snapshot, &options, |t| {
        attempts += 1;
        t.put(&family, b"l", b"mine")?;
        t.put(&family, b"", b"no key")
    });
    refused(answer, ErrorKind::InvalidArgument);
    assert_eq!(attempts, 1);
    assert!(value(&db, &family, b"l").is_none());

    db.retry(&snapshot, &options, |t| {
        t.put(&family, b"l", b"mine")?;
        t.rollback()
    })
    .unwrap();
    assert!(value(&db, &family, b"l").is_none(), "the work decided so");
}

/// Goal: a transaction that is idle for long stops nothing: flushes and merges go on, and of what was overwritten only
/// the versions that it sees are kept.
#[test]
fn an_idle_transaction_keeps_its_versions_and_nothing_more() {
    let (db, family) = database();
    let keys = 200_u32;
    let put_all = |round: u32| {
        for number in 0..keys {
            db.put(&family, &number.to_be_bytes(), &round.to_be_bytes())
                .unwrap();
        }
    };
    put_all(0);
    let idle = db.begin_with(at(IsolationLevel::Serializable)).unwrap();
    for round in 1..8 {
        put_all(round);
        db.flush(&family).unwrap();
    }
    db.compact(&family).unwrap();
    let stats = db.stats().unwrap();
    let entries: u64 = stats.families[0]
        .levels
        .iter()
        .map(|level| level.entries)
        .sum();
    assert_eq!(
        entries,
        2 * u64::from(keys),
        "the idle one's versions and the newest"
    );
    assert_eq!(
        idle.get(&family, &0_u32.to_be_bytes()).unwrap().as_deref(),
        Some(&0_u32.to_be_bytes()[..])
    );
    drop(idle);
    db.put(&family, b"one more", b"").unwrap();
    db.compact(&family).unwrap();
    let stats = db.stats().unwrap();
    let entries: u64 = stats.families[0]
        .levels
        .iter()
        .map(|level| level.entries)
        .sum();
    assert_eq!(entries, u64::from(keys) + 1);
    db.close().unwrap();
}

/// Goal: the levels below repeatable read remember nothing, and a transaction that is used again allocates nothing.
/// Method: allocations of this thread are counted, over transactions of one put, begun anew and reset.
#[test]
fn small_transactions_allocate_nothing_after_the_first() {
    for level in [
        IsolationLevel::ReadUncommitted,
        IsolationLevel::ReadCommitted,
    ] {
        // The world in memory allocates for its files.
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Options::default()).unwrap();
        let unsynced = FamilyOptions {
            sync: SyncMode::None,
            ..FamilyOptions::default()
        };
        let family = db.create_family("f", unsynced).unwrap();
        let mut reused = db.begin_with(at(level)).unwrap();
        let mut put = |number: u32| {
            let mut begun = db.begin_with(at(level)).unwrap();
            begun.put(&family, &number.to_be_bytes(), b"v").unwrap();
            begun.commit().unwrap();
            drop(begun);
            reused.put(&family, &number.to_be_bytes(), b"w").unwrap();
            reused.commit().unwrap();
            reused.reset().unwrap();
        };
        // The first ones make what is kept, in the memtable too.
        (0..100).for_each(&mut put);
        let counted = allocation_counter::measure(|| (100..200).for_each(&mut put));
        assert_eq!(counted.count_total, 0, "{level:?}: {counted:?}");
        db.close().unwrap();
    }
}
