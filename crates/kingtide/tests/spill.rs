//! Long values in files of their own: wherever they are read, whatever takes them back, whenever the power goes.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{
    collections::BTreeSet,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex},
};

use kingtide::{
    ColumnFamily, CommitOperation, Db, ErrorKind, FamilyOptions, IterOptions, Options,
    RepairOptions, Result, SyncMode, TransactionOptions, repair,
};
use kingtide_env::{CrashImage, Env, FaultyEnv, MemoryEnv, Operation, PosixEnv, Rule, Times};
use kingtide_testkit::Random;

const PLACE: &str = "/db";
const IMAGES: [CrashImage; 4] = [
    CrashImage::NothingUnsynced,
    CrashImage::Everything,
    CrashImage::Random,
    CrashImage::AllButOne,
];
/// A spilled value, in bytes.
const LONG: usize = 3000;

fn options(env: impl Env) -> Options {
    Options {
        env: Some(Arc::new(env)),
        spill_bytes_min: 1000,
        ..Options::default()
    }
}

fn family_options(sync: SyncMode) -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 64 << 10,
        value_threshold_bytes: 100,
        disk_free_bytes_min: 0,
        sync,
        ..FamilyOptions::default()
    }
}

fn open(env: impl Env) -> (Db, ColumnFamily) {
    let db = Db::open(PLACE, options(env)).unwrap();
    let family = db.open_family("f", family_options(SyncMode::None)).unwrap();
    (db, family)
}

fn long(seed: u64) -> Vec<u8> {
    Random::new(seed).bytes(LONG)
}

/// The value files there are.
fn value_files(env: &MemoryEnv) -> BTreeSet<String> {
    let paths = env.paths().into_iter();
    let names = paths.map(|path| path.display().to_string());
    names.filter(|name| name.ends_with(".vlog")).collect()
}

fn entries(db: &Db, family: &ColumnFamily) -> Vec<(Vec<u8>, Vec<u8>)> {
    let iter = db.iter(family, IterOptions::default()).unwrap();
    iter.entries().collect::<Result<Vec<_>>>().unwrap()
}

fn assert_whole(db: &Db) {
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert!(report.damages.is_empty(), "{report:?}");
}

/// Every way to read says that `key` has `value`.
fn assert_reads(db: &Db, family: &ColumnFamily, key: &[u8], value: Option<&[u8]>) {
    let found = db.get(family, key).unwrap();
    assert_eq!(found.as_deref(), value, "get");
    assert_eq!(db.contains(family, key).unwrap(), value.is_some());
    let mut copy = Vec::new();
    let bytes = db.get_to(family, key, &mut copy).unwrap();
    assert_eq!(bytes, value.map(|value| value.len() as u64));
    assert_eq!(copy, value.unwrap_or_default(), "get_to");
    // What a buffer held before makes no difference.
    for mut held in [Vec::new(), vec![7; 10], vec![7; 3 << 20]] {
        let is_there = db.get_into(family, key, &mut held).unwrap();
        assert_eq!(is_there.then_some(&*held), value, "get_into");
    }
    let transaction = db.begin().unwrap();
    let looked = transaction.get_with(family, key, <[u8]>::to_vec).unwrap();
    assert_eq!(looked.as_deref(), value, "get_with");
    let listed = entries(db, family);
    let listed = listed.iter().find(|(found, _)| found == key);
    assert_eq!(listed.map(|(_, value)| value.as_slice()), value, "iter");
}

/// Goal: a spilled value reads like any other, in every stage of its life, in memory and on disk.
#[test]
fn a_spilled_value_reads_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let worlds: [(Arc<dyn Env>, &Path); 2] = [
        (Arc::new(MemoryEnv::new(1)), Path::new(PLACE)),
        (Arc::new(PosixEnv::new()), directory.path()),
    ];
    for (env, path) in worlds {
        let options = || Options {
            env: Some(Arc::clone(&env)),
            spill_bytes_min: 1000,
            ..Options::default()
        };
        let db = Db::open(path, options()).unwrap();
        let family = db.open_family("f", family_options(SyncMode::None)).unwrap();
        let (first, second) = (long(1), long(2));
        let mut transaction = db.begin().unwrap();
        transaction.put(&family, b"a", &first).unwrap();
        transaction.put(&family, b"b", b"short").unwrap();
        assert_eq!(transaction.get(&family, b"a").unwrap().unwrap(), first);
        let mut own = transaction.iter(&family, IterOptions::default()).unwrap();
        assert!(own.seek_to_first().unwrap());
        assert_eq!(own.value().unwrap(), first);
        transaction.put(&family, b"a", &second).unwrap();
        assert_eq!(transaction.get(&family, b"a").unwrap().unwrap(), second);
        let mut copy = Vec::new();
        transaction.get_to(&family, b"a", &mut copy).unwrap();
        assert_eq!(copy, second);
        copy.truncate(1);
        assert!(transaction.get_into(&family, b"a", &mut copy).unwrap());
        assert_eq!(copy, second);
        transaction.commit().unwrap();
        // An iterator stays as it was.
        assert!(own.seek_to_last().unwrap());
        assert!(own.seek_to_first().unwrap());
        assert_eq!(own.value().unwrap(), first);
        drop(own);

        assert_reads(&db, &family, b"a", Some(&second));
        let snapshot = db.snapshot().unwrap();
        let mut iter = db.iter(&family, IterOptions::default()).unwrap();
        db.put(&family, b"a", &first).unwrap();
        assert_reads(&db, &family, b"a", Some(&first));
        assert_eq!(snapshot.get(&family, b"a").unwrap().unwrap(), second);
        db.flush(&family).unwrap();
        assert_reads(&db, &family, b"a", Some(&first));
        assert_eq!(snapshot.get(&family, b"a").unwrap().unwrap(), second);
        db.delete(&family, b"a").unwrap();
        db.compact(&family).unwrap();
        assert_reads(&db, &family, b"a", None);
        assert_eq!(snapshot.get(&family, b"a").unwrap().unwrap(), second);
        assert!(iter.seek_to_first().unwrap());
        assert_eq!(iter.value().unwrap(), second);
        drop((snapshot, iter));
        db.put(&family, b"c", &second).unwrap();
        db.clone_family("f", "g").unwrap();
        db.put(&family, b"c", b"other").unwrap();
        db.compact(&family).unwrap();
        let copy = db.family("g").unwrap();
        assert_reads(&db, &copy, b"c", Some(&second));
        assert_whole(&db);
        db.close().unwrap();

        let db = Db::open(path, options()).unwrap();
        assert_reads(&db, &db.family("g").unwrap(), b"c", Some(&second));
        assert_reads(&db, &db.family("f").unwrap(), b"b", Some(b"short"));
        db.drop_family("g").unwrap();
        db.drop_family("f").unwrap();
        db.wait_idle().unwrap();
        db.close().unwrap();
        drop(db);
        let root = env.open_directory(path, false).unwrap();
        let left = root.open_directory("vlog", false).unwrap().list().unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Goal: the file of a value that does not get into the database is gone at once, whatever takes it back.
#[test]
fn values_that_are_taken_back_leave_no_file() {
    let env = MemoryEnv::new(3);
    let (db, family) = open(env.clone());
    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"a", &long(1)).unwrap();
    transaction.savepoint("one").unwrap();
    transaction.put(&family, b"b", &long(2)).unwrap();
    assert_eq!(value_files(&env).len(), 2);
    transaction.rollback_to("one").unwrap();
    assert_eq!(value_files(&env).len(), 1);
    transaction.rollback().unwrap();
    assert!(value_files(&env).is_empty());

    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"a", &long(1)).unwrap();
    drop(transaction);
    assert!(value_files(&env).is_empty());

    let mut loser = db
        .begin_with(TransactionOptions {
            isolation: kingtide::IsolationLevel::Snapshot,
            ..TransactionOptions::default()
        })
        .unwrap();
    loser.put(&family, b"a", &long(1)).unwrap();
    db.put(&family, b"a", b"won").unwrap();
    assert_eq!(loser.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert!(value_files(&env).is_empty());
    assert_reads(&db, &family, b"a", Some(b"won"));

    // Of two values that one memtable took, the first is dead: gone with the flush.
    db.put(&family, b"a", &long(4)).unwrap();
    db.put(&family, b"a", &long(5)).unwrap();
    assert_eq!(value_files(&env).len(), 2);
    db.flush(&family).unwrap();
    db.wait_idle().unwrap();
    assert_eq!(value_files(&env).len(), 1);
    assert_reads(&db, &family, b"a", Some(&long(5)));
    db.delete(&family, b"a").unwrap();
    db.compact(&family).unwrap();
    db.wait_idle().unwrap();
    assert!(value_files(&env).is_empty());
    db.close().unwrap();
}

/// Goal: after a kill the log brings pointers and values back.
#[test]
fn a_kill_loses_nothing() {
    let env = MemoryEnv::new(4);
    let (db, family) = open(env.clone());
    for number in 0..5 {
        db.put(&family, &[number % 3], &long(u64::from(number)))
            .unwrap();
    }
    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"p", &long(9)).unwrap();
    transaction.prepare(b"kept").unwrap();
    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"q", &long(10)).unwrap();
    transaction.prepare(b"not kept").unwrap();
    // One that nobody will come to know of.
    let mut unknown = db.begin().unwrap();
    unknown.put(&family, b"r", &long(11)).unwrap();
    let killed = env.kill();
    drop((unknown, db));
    let reading = Options {
        read_only: true,
        ..options(killed.clone())
    };
    let db = Db::open(PLACE, reading).unwrap();
    assert_reads(&db, &db.family("f").unwrap(), &[0], Some(&long(3)));
    drop(db);
    let (db, family) = open(killed.clone());
    for (key, value) in [(0, 3), (1, 4), (2, 2)] {
        assert_reads(&db, &family, &[key], Some(&long(value)));
    }
    assert_eq!(
        value_files(&killed).len(),
        5,
        "three values and two prepared"
    );
    assert_reads(&db, &family, b"p", None);
    db.commit_prepared(b"kept").unwrap();
    assert_reads(&db, &family, b"p", Some(&long(9)));
    db.rollback_prepared(b"not kept").unwrap();
    db.flush(&family).unwrap();
    db.close().unwrap();
    let (db, family) = open(killed.clone());
    assert_eq!(value_files(&killed).len(), 4);
    assert_reads(&db, &family, b"p", Some(&long(9)));
    assert_reads(&db, &family, b"q", None);
    db.close().unwrap();
}

/// What the history below has acknowledged.
#[derive(Default)]
struct Told {
    /// Keys with the numbers of their values, in the order of the commits; `None` deletes.
    commits: Vec<Vec<(u8, Option<u64>)>>,
    /// How many of them must survive every crash.
    durable: usize,
}

/// A history of spilled values, until the power goes.
fn play(env: &MemoryEnv, told: &mut Told) -> Result<()> {
    let db = Db::open(PLACE, options(env.clone()))?;
    let family = db.open_family("f", family_options(SyncMode::None))?;
    let second = db.open_family("g", family_options(SyncMode::None))?;
    for round in 0..6_u64 {
        let sync = if round % 2 == 0 {
            SyncMode::None
        } else {
            SyncMode::Full
        };
        let mut transaction = db.begin_with(TransactionOptions {
            sync: Some(sync),
            ..TransactionOptions::default()
        })?;
        let key = (round % 3) as u8;
        transaction.put(&family, &[key], &long(round))?;
        transaction.put(&second, &[key], &long(round))?;
        transaction.savepoint("s")?;
        transaction.put(&family, b"taken back", &long(99))?;
        transaction.rollback_to("s")?;
        // Whatever becomes of the commit: it may be there.
        told.commits.push(vec![(key, Some(round))]);
        transaction.commit()?;
        if sync == SyncMode::Full {
            told.durable = told.commits.len();
        }
        match round {
            2 => db.flush(&family)?,
            4 => db.compact(&second)?,
            _ => {}
        }
    }
    told.commits.push(vec![(0, None)]);
    let mut transaction = db.begin()?;
    transaction.delete(&family, &[0])?;
    transaction.delete(&second, &[0])?;
    transaction.commit()?;
    let mut transaction = db.begin()?;
    transaction.put(&family, &[7], &long(7))?;
    transaction.prepare(b"seven")?;
    told.durable = told.commits.len();
    db.compact(&family)?;
    db.commit_prepared(b"seven")?;
    db.close()
}

/// The state after the first `count` commits.
fn state(told: &Told, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut values = std::collections::BTreeMap::new();
    for (key, value) in told.commits[..count].iter().flatten() {
        match value {
            Some(value) => values.insert(vec![*key], long(*value)),
            None => values.remove(&vec![*key]),
        };
    }
    values.into_iter().collect()
}

/// Goal: a cut of the power at any call leaves a prefix of the commits, whole values, and no file that nobody needs.
// Promise: 2.
#[test]
fn a_power_cut_at_every_call_leaves_a_prefix_and_no_stray_file() {
    let whole = MemoryEnv::new(5);
    play(&whole, &mut Told::default()).unwrap();
    let calls = whole.io_count();
    for cut in 1..calls {
        let env = MemoryEnv::new(5);
        env.halt_after(cut);
        let mut told = Told::default();
        let _ = play(&env, &mut told);
        for image in IMAGES {
            let found = env.crash(image, cut);
            check_found(
                &found,
                &told,
                &format!("cut after {cut} of {calls}, {image:?}"),
            );
        }
    }
}

fn check_found(env: &MemoryEnv, told: &Told, what: &str) {
    let db = match Db::open(PLACE, options(env.clone())) {
        Ok(db) => db,
        Err(error) => panic!("{what}: {error}"),
    };
    let (Ok(family), second) = (db.family("f"), db.family("g")) else {
        assert!(told.commits.is_empty(), "{what}");
        return;
    };
    if db.prepared().unwrap().len() == 1 {
        db.commit_prepared(b"seven").unwrap();
    }
    let mut of_first = entries(&db, &family);
    if let Some(place) = of_first.iter().position(|(key, _)| key == &[7]) {
        assert_eq!(of_first.remove(place).1, long(7), "{what}");
    }
    let of_second = second.map_or(Vec::new(), |second| entries(&db, &second));
    let counts = told.durable..=told.commits.len();
    let found = counts.rev().find(|count| state(told, *count) == of_first);
    assert!(found.is_some(), "{what}: no prefix");
    assert!(of_first == of_second, "{what}: half a transaction");
    assert_whole(&db);
    for name in db.families() {
        let family = db.family(&name).unwrap();
        db.flush(&family).unwrap();
        db.compact(&family).unwrap();
    }
    db.wait_idle().unwrap();
    let live = of_first.len() + of_second.len();
    let seven = db.get(&family, &[7]).unwrap().is_some();
    assert_eq!(value_files(env).len(), live + usize::from(seven), "{what}");
    db.close().unwrap();
}

/// Goal: whichever call fails under a put or a commit, nothing is left behind, and the database goes on or says that it must
/// be opened again.
#[test]
fn a_failing_call_leaves_no_file_behind() {
    let operations = [
        Operation::Create,
        Operation::Write,
        Operation::Sync,
        Operation::DirectorySync,
    ];
    for operation in operations {
        for nth in 1..25 {
            let memory = MemoryEnv::new(6);
            let faulty = FaultyEnv::new(Arc::new(memory.clone()));
            let (db, family) = open(faulty.clone());
            db.put(&family, b"before", &long(1)).unwrap();
            faulty.fail(Rule {
                operation,
                name_contains: String::new(),
                nth,
                error: io::ErrorKind::StorageFull,
                times: Times::Once,
            });
            let mut transaction = db.begin().unwrap();
            let done = transaction
                .put(&family, b"k", &long(2))
                .and_then(|()| transaction.put(&family, b"l", &long(3)))
                .and_then(|()| transaction.commit());
            let what = format!("{operation:?} {nth}: {done:?}");
            drop(transaction);
            faulty.clear();
            let is_in_doubt = done.as_ref().is_err_and(|error| {
                matches!(
                    error.kind(),
                    ErrorKind::OutcomeUnknown | ErrorKind::ReopenRequired
                )
            });
            // After a failed sync of the manifest the next open judges.
            if !is_in_doubt && (done.is_ok() || operation != Operation::Sync) {
                let _ = db.wait_idle();
                let wanted = if done.is_ok() { 3 } else { 1 };
                assert_eq!(value_files(&memory).len(), wanted, "{what}");
            }
            let _ = db.close();
            drop(db);
            let (db, family) = open(memory.clone());
            assert_reads(&db, &family, b"before", Some(&long(1)));
            let found = db.get(&family, b"k").unwrap();
            if let (Ok(_), None) | (Err(_), Some(_)) = (&done, &found) {
                assert!(is_in_doubt, "{what}");
            }
            let wanted = if found.is_some() { 3 } else { 1 };
            assert_eq!(value_files(&memory).len(), wanted, "{what}");
            assert_whole(&db);
            db.close().unwrap();
        }
    }
}

/// Goal: copies hold spilled values that are still in memory here, also when they go here meanwhile.
#[test]
fn copies_hold_spilled_values() {
    let env = MemoryEnv::new(7);
    let (db, family) = open(env.clone());
    db.put(&family, b"flushed", &long(1)).unwrap();
    db.flush(&family).unwrap();
    db.put(&family, b"in memory", &long(2)).unwrap();
    db.put(&family, b"replaced", &long(3)).unwrap();
    db.put(&family, b"replaced", &long(4)).unwrap();
    db.backup("/backup", &mut |_, _| {}).unwrap();
    db.checkpoint("/checkpoint").unwrap();
    db.delete(&family, b"in memory").unwrap();
    db.compact(&family).unwrap();
    db.close().unwrap();
    for path in ["/backup", "/checkpoint"] {
        let db = Db::open(path, options(env.clone())).unwrap();
        let family = db.family("f").unwrap();
        assert_reads(&db, &family, b"flushed", Some(&long(1)));
        assert_reads(&db, &family, b"in memory", Some(&long(2)));
        assert_reads(&db, &family, b"replaced", Some(&long(4)));
        assert_whole(&db);
        db.close().unwrap();
    }
}

/// Goal: a hook is told of the value itself.
#[test]
fn a_commit_hook_sees_the_value() {
    let env = MemoryEnv::new(8);
    let (db, family) = open(env);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    db.set_commit_hook(
        &family,
        Some(Arc::new(move |event| {
            for operation in event.operations() {
                if let CommitOperation::Put { key, value, .. } = operation {
                    told.lock().unwrap().push((key.to_vec(), value.to_vec()));
                }
            }
            Ok(())
        })),
    )
    .unwrap();
    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"a", b"short").unwrap();
    transaction.put(&family, b"b", &long(1)).unwrap();
    transaction.commit().unwrap();
    let wanted = vec![(b"a".to_vec(), b"short".to_vec()), (b"b".to_vec(), long(1))];
    assert_eq!(*seen.lock().unwrap(), wanted);
    db.close().unwrap();
}

/// A source that fails behind some bytes.
struct Failing(usize);

impl Read for Failing {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let bytes = self.0.min(target.len()).min(700);
        target[..bytes].fill(b'f');
        self.0 -= bytes;
        Ok(bytes)
    }
}

/// A source whose every second call is interrupted by a signal.
struct Interrupted<'a>(&'a [u8], bool);

impl Read for Interrupted<'_> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        match self.1 {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => self.0.read(target),
        }
    }
}

/// Goal: streams of every length come back, in families with and without a value log; one that fails leaves nothing, and one
/// that is interrupted goes on.
#[test]
fn values_are_put_from_sources() {
    let env = MemoryEnv::new(9);
    let (db, family) = open(env.clone());
    let plain = FamilyOptions {
        value_threshold_bytes: 0,
        ..family_options(SyncMode::None)
    };
    let plain = db.create_family("plain", plain).unwrap();
    for length in [
        0,
        1,
        99,
        100,
        999,
        1000,
        1001,
        70_000,
        (1 << 20) + 1000,
        3 << 20,
    ] {
        let value = Random::new(length as u64).bytes(length);
        for family in [&family, &plain] {
            let put = db.put_from(family, b"k", &mut value.as_slice()).unwrap();
            assert_eq!(put, length as u64);
            assert_reads(&db, family, b"k", Some(&value));
            let mut source = Interrupted(&value, false);
            let put = db.put_from(family, b"again", &mut source).unwrap();
            assert_eq!(put, length as u64);
            assert_reads(&db, family, b"again", Some(&value));
        }
    }
    db.flush(&family).unwrap();
    db.wait_idle().unwrap();
    let before = value_files(&env);
    for length in [10, 5000] {
        let failed = db.put_from(&family, b"k", &mut Failing(length));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(value_files(&env), before);
    }
    assert_eq!(db.get(&family, b"k").unwrap().unwrap().len(), 3 << 20);
    db.close().unwrap();
}

/// Goal: repair finds the values that only the log points to, of commits and of what is prepared.
#[test]
fn repair_follows_the_log_to_spilled_values() {
    let env = MemoryEnv::new(10);
    let (db, family) = open(env.clone());
    db.put(&family, b"k", &long(1)).unwrap();
    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"p", &long(2)).unwrap();
    transaction.prepare(b"waits").unwrap();
    let killed = env.kill();
    drop(db);
    let repairing = RepairOptions {
        into: Some("/repaired".into()),
        env: Some(Arc::new(killed.clone())),
        ..RepairOptions::default()
    };
    let report = repair(PLACE, &repairing, &mut |_, _| {}).unwrap();
    assert!(report.is_whole(), "{report:?}");
    let db = Db::open("/repaired", options(killed)).unwrap();
    let family = db.family("f").unwrap();
    assert_reads(&db, &family, b"k", Some(&long(1)));
    db.commit_prepared(b"waits").unwrap();
    assert_reads(&db, &family, b"p", Some(&long(2)));
    db.close().unwrap();
}
