//! Range deletes against an ordered map of versions, through memtables, tables, merges and openings.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{collections::BTreeMap, ops::Bound};

use kingtide::{
    ColumnFamily, Compression, Db, ErrorKind, FamilyOptions, IsolationLevel, Iter, IterOptions,
    Options, Snapshot, SyncMode, Transaction, TransactionOptions,
};
use kingtide_env::{CrashImage, MemoryEnv};
use kingtide_testkit::{
    Random,
    world::{self, DATABASE},
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn small() -> FamilyOptions {
    FamilyOptions {
        sync: SyncMode::Full,
        write_buffer_bytes: 1 << 16,
        l1_file_count_trigger: 3,
        level_size_ratio: 2,
        value_threshold_bytes: 24,
        compression: Compression::None,
        ..FamilyOptions::default()
    }
}

/// Keys of one or two letters, so that some are prefixes of others.
fn key(random: &mut Random) -> Vec<u8> {
    let letters = 1 + random.below(2);
    (0..letters).map(|_| b'a' + random.below(7) as u8).collect()
}

fn delete_from(model: &mut Model, start: &[u8], end: &[u8]) {
    model.retain(|key, _| !(start <= &key[..] && &key[..] < end));
}

/// A database in memory beside the map that it should be, with old views of both.
struct World {
    env: MemoryEnv,
    db: Option<Db>,
    family: Option<ColumnFamily>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    iterators: Vec<(Iter, Model)>,
    random: Random,
}

impl World {
    fn new(seed: u64) -> Self {
        let env = MemoryEnv::new(seed);
        let db = Db::open(DATABASE, world::options(&env)).unwrap();
        let family = db.create_family("f", small()).unwrap();
        Self {
            env,
            db: Some(db),
            family: Some(family),
            model: Model::new(),
            snapshots: Vec::new(),
            iterators: Vec::new(),
            random: Random::new(seed),
        }
    }

    fn parts(&self) -> (&Db, &ColumnFamily) {
        (self.db.as_ref().unwrap(), self.family.as_ref().unwrap())
    }

    fn begin(&self, random: &mut Random) -> Transaction {
        let isolation = *random.pick(&[IsolationLevel::ReadCommitted, IsolationLevel::Snapshot]);
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        self.parts().0.begin_with(options).unwrap()
    }

    /// One transaction of a few operations, looked at before its commit, sometimes rolled back.
    fn commit_some(&mut self) {
        let mut random = Random::new(self.random.draw());
        let family = self.family.clone().unwrap();
        let mut transaction = self.begin(&mut random);
        let mut model = self.model.clone();
        let count = match random.below(12) {
            0 => 60,
            many => 1 + many / 3,
        };
        for _ in 0..count {
            operate(&mut transaction, &family, &mut model, &mut random);
        }
        for _ in 0..4 {
            let key = key(&mut random);
            let found = transaction.get(&family, &key).unwrap();
            assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice));
        }
        let mut iter = transaction.iter(&family, IterOptions::default()).unwrap();
        walk(&mut iter, &model, &mut random);
        if random.one_in(6) {
            transaction.rollback().unwrap();
        } else {
            transaction.commit().unwrap();
            self.model = model;
        }
    }

    fn check(&mut self) {
        let mut random = Random::new(self.random.draw());
        let (db, family) = self.parts();
        for _ in 0..6 {
            let key = key(&mut random);
            let found = db.get(family, &key).unwrap();
            assert_eq!(
                found.as_deref(),
                self.model.get(&key).map(Vec::as_slice),
                "{key:?}"
            );
        }
        let bounds = random_bounds(&mut random);
        let mut iter = db.iter(family, bounds.clone()).unwrap();
        walk(&mut iter, &clip(&self.model, &bounds), &mut random);
        if let Some((snapshot, model)) = self.snapshots.last() {
            let key = key(&mut random);
            let found = snapshot.get(family, &key).unwrap();
            assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice));
            let mut iter = snapshot.iter(family, bounds.clone()).unwrap();
            walk(&mut iter, &clip(model, &bounds), &mut random);
        }
        for (iter, model) in &mut self.iterators {
            walk(iter, model, &mut random);
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.iterators.clear();
        self.family = None;
        let db = self.db.take().unwrap();
        if self.random.one_in(2) {
            db.close().unwrap();
        } else {
            let images = [CrashImage::NothingUnsynced, CrashImage::Random];
            let image = *self.random.pick(&images);
            let after = self.env.crash(image, self.random.draw());
            world::power_off(&self.env);
            drop(db);
            self.env = after;
        }
        let db = Db::open(DATABASE, world::options(&self.env)).unwrap();
        self.family = Some(db.family("f").unwrap());
        self.db = Some(db);
    }

    fn step(&mut self) {
        match self.random.below(24) {
            0..=1 => self.parts().0.flush(self.parts().1).unwrap(),
            2 => self.parts().0.compact(self.parts().1).unwrap(),
            3 => self.parts().0.wait_idle().unwrap(),
            4 => self.reopen(),
            5 => {
                let snapshot = self.parts().0.snapshot().unwrap();
                self.snapshots.push((snapshot, self.model.clone()));
            }
            6 if !self.snapshots.is_empty() => {
                let index = self.random.below(self.snapshots.len());
                self.snapshots.swap_remove(index);
            }
            7 => {
                let (db, family) = self.parts();
                let iter = db.iter(family, IterOptions::default()).unwrap();
                self.iterators.truncate(2);
                self.iterators.push((iter, self.model.clone()));
            }
            _ => self.commit_some(),
        }
        self.check();
    }
}

fn operate(
    transaction: &mut Transaction,
    family: &ColumnFamily,
    model: &mut Model,
    random: &mut Random,
) {
    let key = key(random);
    match random.below(8) {
        0 => {
            let end = self::key(random);
            let (start, end) = if key <= end { (key, end) } else { (end, key) };
            transaction.delete_range(family, &start, &end).unwrap();
            delete_from(model, &start, &end);
        }
        1 if random.one_in(3) => {
            let prefix = if random.one_in(3) { Vec::new() } else { key };
            transaction.delete_prefix(family, &prefix).unwrap();
            model.retain(|key, _| !key.starts_with(&prefix));
        }
        1..=2 => {
            transaction.delete(family, &key).unwrap();
            model.remove(&key);
        }
        _ => {
            let length = random.below(40);
            let value = random.bytes(length);
            transaction.put(family, &key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

fn random_bounds(random: &mut Random) -> IterOptions {
    let mut bounds = IterOptions::default();
    if random.one_in(3) {
        bounds.lower = Some(key(random));
    }
    if random.one_in(3) {
        bounds.upper = Some(key(random));
    }
    bounds
}

fn clip(model: &Model, bounds: &IterOptions) -> Model {
    let is_inside = |key: &Vec<u8>| {
        bounds.lower.as_ref().is_none_or(|lower| lower <= key)
            && bounds.upper.as_ref().is_none_or(|upper| key < upper)
    };
    model
        .iter()
        .filter(|(key, _)| is_inside(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Compares a walk of seeks and moves in both directions with the map.
fn walk(iter: &mut Iter, model: &Model, random: &mut Random) {
    let mut at: Option<Vec<u8>> = None;
    for _ in 0..14 {
        let target = key(random);
        let first = |range: (Bound<&[u8]>, Bound<&[u8]>)| {
            model
                .range::<[u8], _>(range)
                .next()
                .map(|(key, _)| key.clone())
        };
        let last = |range: (Bound<&[u8]>, Bound<&[u8]>)| {
            model
                .range::<[u8], _>(range)
                .next_back()
                .map(|(key, _)| key.clone())
        };
        use Bound::{Excluded, Included, Unbounded};
        let (found, wanted) = match (random.below(10), &at) {
            (0, _) => (iter.seek_to_first(), first((Unbounded, Unbounded))),
            (1, _) => (iter.seek_to_last(), last((Unbounded, Unbounded))),
            (2, _) => (iter.seek(&target), first((Included(&target), Unbounded))),
            (3, _) => (
                iter.seek_for_prev(&target),
                last((Unbounded, Included(&target))),
            ),
            (4..=7, Some(key)) => (iter.next(), first((Excluded(key), Unbounded))),
            (_, Some(key)) => (iter.prev(), last((Unbounded, Excluded(key)))),
            (_, None) => (iter.seek_to_first(), first((Unbounded, Unbounded))),
        };
        assert_eq!(found.unwrap(), wanted.is_some());
        if let Some(key) = &wanted {
            assert_eq!(iter.key(), key);
            assert_eq!(iter.value().unwrap(), model[key]);
        }
        at = wanted;
    }
}

/// Goal: gets and iterators answer as an ordered map does, now and at every snapshot, whatever is deleted by ranges and
/// wherever it lies. Method: random histories with flushes, merges, closes and power cuts.
#[test]
fn reads_answer_as_an_ordered_map_does() {
    for seed in 0..40 {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..150 {
                world.step();
            }
            world.parts().0.verify(&mut |_, _| {}).unwrap()
        });
        let report = outcome.unwrap_or_else(|_| panic!("the history of seed {seed}"));
        assert!(
            report.damages.is_empty(),
            "seed {seed}: {:?}",
            report.damages
        );
    }
}

fn open(directory: &tempfile::TempDir) -> Db {
    Db::open(directory.path().join("db"), Options::default()).unwrap()
}

fn unsynced() -> FamilyOptions {
    FamilyOptions {
        sync: SyncMode::None,
        ..FamilyOptions::default()
    }
}

fn number(index: u32) -> [u8; 4] {
    index.to_be_bytes()
}

fn fill(db: &Db, family: &ColumnFamily, count: u32) {
    let mut transaction = db.begin().unwrap();
    for index in 0..count {
        transaction.put(family, &number(index), b"value").unwrap();
    }
    transaction.commit().unwrap();
}

// Promise: limits.
#[test]
fn bounds_that_make_no_range_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let family = db.create_family("f", unsynced()).unwrap();
    let kind = |start: &[u8], end: &[u8]| db.delete_range(&family, start, end).unwrap_err().kind();
    assert_eq!(kind(b"b", b"a"), ErrorKind::InvalidArgument);
    assert_eq!(kind(b"", b"a"), ErrorKind::InvalidArgument);
    assert_eq!(kind(b"a", b""), ErrorKind::InvalidArgument);
    assert_eq!(kind(b"a", &vec![b'a'; (1 << 20) + 1]), ErrorKind::TooLarge);
    assert_eq!(db.delete_range(&family, b"a", b"a").unwrap().0, 0);
    let reverse = FamilyOptions {
        comparator: "reverse_memcmp".to_owned(),
        ..unsynced()
    };
    let reverse = db.create_family("reverse", reverse).unwrap();
    assert_eq!(
        db.delete_prefix(&reverse, b"a").unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    for key in [b"a", b"b", b"c"] {
        db.put(&reverse, key, b"1").unwrap();
    }
    // In the family's order "c" comes first.
    db.delete_range(&reverse, b"c", b"a").unwrap();
    let left = db.iter(&reverse, IterOptions::default()).unwrap().entries();
    assert_eq!(
        left.map(|entry| entry.unwrap().0).collect::<Vec<_>>(),
        [b"a"]
    );
    db.close().unwrap();
}

/// Goal: the longest keys are deleted too, by ranges and by prefixes that have no end, and survive in tables.
#[test]
fn ranges_without_an_end_reach_the_largest_keys() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let family = db.create_family("f", unsynced()).unwrap();
    let longest = vec![0xff; 1 << 20];
    let count = |db: &Db, family: &ColumnFamily| {
        db.iter(family, IterOptions::default())
            .unwrap()
            .entries()
            .count()
    };
    for flushes in 0..4 {
        db.put(&family, &longest, b"1").unwrap();
        db.put(&family, &[0xff, 7], b"2").unwrap();
        db.put(&family, b"\xfe", b"3").unwrap();
        db.put(&family, b"\0", b"4").unwrap();
        if flushes % 2 == 1 {
            db.flush(&family).unwrap();
        }
        // Keeps the deletes alive in their tables.
        let _before = db.snapshot().unwrap();
        db.delete_prefix(&family, &[0xff]).unwrap();
        assert_eq!(count(&db, &family), 2);
        if flushes >= 2 {
            db.flush(&family).unwrap();
            assert_eq!(count(&db, &family), 2);
        }
        db.delete_prefix(&family, b"").unwrap();
        assert_eq!(count(&db, &family), 0);
        db.flush(&family).unwrap();
        assert_eq!(count(&db, &family), 0);
        assert!(db.verify(&mut |_, _| {}).unwrap().damages.is_empty());
    }
    db.close().unwrap();
    let db = open(&directory);
    assert_eq!(count(&db, &db.family("f").unwrap()), 0);
    db.close().unwrap();
}

/// Goal: deleting many keys costs about what deleting one costs. Method: count the bytes of the log and of the table.
#[test]
fn deleting_many_keys_writes_as_little_as_deleting_one() {
    const KEYS: u32 = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let family = db.create_family("f", unsynced()).unwrap();
    fill(&db, &family, KEYS);
    db.flush(&family).unwrap();
    let logged = |db: &Db| db.stats().unwrap().log_bytes_written;
    let before = logged(&db);
    db.delete_range(&family, &number(10), &number(KEYS))
        .unwrap();
    let by_range = logged(&db) - before;
    db.delete(&family, &number(5)).unwrap();
    let by_key = logged(&db) - before - by_range;
    assert!(
        by_range <= by_key + 16,
        "{by_range} bytes, one key {by_key}"
    );
    let mut iter = db.iter(&family, IterOptions::default()).unwrap();
    assert!(iter.seek_to_last().unwrap());
    assert_eq!(iter.key(), number(9));
    drop(iter);
    db.compact(&family).unwrap();
    let stats = db.family_stats(&family).unwrap();
    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
    assert_eq!(entries, 9);
    db.close().unwrap();
}

/// Goal: a snapshot sees what is deleted after it, through flush and merge, and the space goes when it does.
#[test]
fn snapshots_keep_what_was_deleted_later() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let family = db.create_family("f", unsynced()).unwrap();
    fill(&db, &family, 1000);
    let snapshot = db.snapshot().unwrap();
    db.delete_range(&family, &number(100), &number(900))
        .unwrap();
    let seen = |db: &Db| {
        let now = db.iter(&family, IterOptions::default()).unwrap();
        let then = snapshot.iter(&family, IterOptions::default()).unwrap();
        (now.entries().count(), then.entries().count())
    };
    assert_eq!(seen(&db), (200, 1000));
    db.flush(&family).unwrap();
    assert_eq!(seen(&db), (200, 1000));
    db.compact(&family).unwrap();
    assert_eq!(seen(&db), (200, 1000));
    drop(snapshot);
    db.compact(&family).unwrap();
    let stats = db.family_stats(&family).unwrap();
    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
    assert_eq!(entries, 200);
    db.close().unwrap();
}

/// Goal: a copied family keeps its own range deletes, and what is deleted in one stays in the other.
#[test]
fn clones_share_range_deletes_made_before_and_none_made_after() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let family = db.create_family("f", unsynced()).unwrap();
    fill(&db, &family, 100);
    db.flush(&family).unwrap();
    db.delete_range(&family, &number(10), &number(20)).unwrap();
    let copy = db.clone_family("f", "copy").unwrap();
    db.delete_range(&family, &number(30), &number(40)).unwrap();
    let count = |family: &ColumnFamily| {
        db.iter(family, IterOptions::default())
            .unwrap()
            .entries()
            .count()
    };
    assert_eq!((count(&family), count(&copy)), (80, 90));
    db.compact(&copy).unwrap();
    assert_eq!((count(&family), count(&copy)), (80, 90));
    db.close().unwrap();
}

/// Goal: a key that a range delete covered since a transaction began is a conflict for it, from memtable and table.
#[test]
fn keys_that_were_deleted_by_range_since_are_conflicts() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let family = db.create_family("f", unsynced()).unwrap();
    fill(&db, &family, 100);
    for flushes in [false, true] {
        let mut inside = db.begin_with(at(IsolationLevel::Snapshot)).unwrap();
        let mut outside = db.begin_with(at(IsolationLevel::Snapshot)).unwrap();
        inside.put(&family, &number(15), b"late").unwrap();
        outside.put(&family, &number(20), b"fine").unwrap();
        db.delete_range(&family, &number(10), &number(20)).unwrap();
        if flushes {
            db.flush(&family).unwrap();
        }
        assert_eq!(inside.commit().unwrap_err().kind(), ErrorKind::Conflict);
        outside.commit().unwrap();
    }
    db.close().unwrap();
}

fn at(isolation: IsolationLevel) -> TransactionOptions {
    TransactionOptions {
        isolation,
        ..TransactionOptions::default()
    }
}

/// Goal: a range delete conflicts with whatever was written or deleted in its range since, and with nothing else. Method:
/// every kind of other write, committed after the snapshot, left in the memtable or flushed, inside and outside.
#[test]
fn range_deletes_conflict_with_what_was_written_in_them_since() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let family = db.create_family("f", unsynced()).unwrap();
    type Write = fn(&Db, &ColumnFamily);
    let writes: [(Write, bool); 9] = [
        (|db, family| db.put(family, b"g", b"1").unwrap(), true),
        (|db, family| db.delete(family, b"m").unwrap(), true),
        (|db, family| db.put(family, b"s", b"1").unwrap(), false),
        (|db, family| db.put(family, b"f", b"1").unwrap(), false),
        (
            |db, family| assert!(db.delete_range(family, b"a", b"h").is_ok()),
            true,
        ),
        (
            |db, family| assert!(db.delete_range(family, b"r", b"x").is_ok()),
            true,
        ),
        (
            |db, family| assert!(db.delete_range(family, b"a", b"g").is_ok()),
            false,
        ),
        (
            |db, family| assert!(db.delete_range(family, b"s", b"x").is_ok()),
            false,
        ),
        (
            |db, family| assert!(db.delete_prefix(family, b"").is_ok()),
            true,
        ),
    ];
    for flushes in [false, true] {
        for (index, (write, is_conflict)) in writes.iter().enumerate() {
            for key in [b"b", b"g", b"s", b"y"] {
                db.put(&family, key, b"0").unwrap();
            }
            let mut mine = db.begin_with(at(IsolationLevel::Snapshot)).unwrap();
            mine.delete_range(&family, b"g", b"s").unwrap();
            write(&db, &family);
            if flushes {
                db.flush(&family).unwrap();
            }
            match mine.commit() {
                Ok(_) => assert!(!is_conflict, "write {index}"),
                Err(error) => {
                    assert!(is_conflict, "write {index}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                }
            }
        }
    }
    db.close().unwrap();
}

/// Goal: what a serializable transaction read, found or missed, alone or in a range, conflicts with a range delete over it.
// Promise: serializable.
#[test]
fn reads_conflict_with_range_deletes_over_them() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let family = db.create_family("f", unsynced()).unwrap();
    type Read = fn(&Transaction, &ColumnFamily);
    let reads: [(Read, bool); 6] = [
        (
            |mine, family| assert!(mine.get(family, b"g").unwrap().is_some()),
            true,
        ),
        (
            |mine, family| assert!(mine.get(family, b"h").unwrap().is_none()),
            true,
        ),
        (
            |mine, family| assert!(mine.get(family, b"k").unwrap().is_none()),
            false,
        ),
        (|mine, family| scan(mine, family, b"a", b"h"), true),
        (|mine, family| scan(mine, family, b"k", b"z"), false),
        (|mine, family| scan(mine, family, b"a", b"c"), false),
    ];
    for flushes in [false, true] {
        for (index, (read, is_conflict)) in reads.iter().enumerate() {
            db.put(&family, b"g", b"0").unwrap();
            let mut mine = db.begin_with(at(IsolationLevel::Serializable)).unwrap();
            read(&mine, &family);
            mine.put(&family, b"elsewhere", b"1").unwrap();
            db.delete_range(&family, b"f", b"k").unwrap();
            if flushes {
                db.flush(&family).unwrap();
            }
            assert_eq!(mine.commit().is_err(), *is_conflict, "read {index}");
        }
    }
    db.close().unwrap();
}

fn scan(transaction: &Transaction, family: &ColumnFamily, lower: &[u8], upper: &[u8]) {
    let bounds = IterOptions {
        lower: Some(lower.to_vec()),
        upper: Some(upper.to_vec()),
        ..IterOptions::default()
    };
    let entries = transaction.iter(family, bounds).unwrap().entries();
    entries.for_each(|entry| drop(entry.unwrap()));
}

/// Goal: going back to a savepoint takes range deletes back, for own reads and for the commit.
#[test]
fn savepoints_take_range_deletes_back() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let family = db.create_family("f", unsynced()).unwrap();
    fill(&db, &family, 60);
    let mut mine = db.begin().unwrap();
    mine.delete_range(&family, &number(0), &number(10)).unwrap();
    mine.savepoint("s").unwrap();
    for index in 10..40 {
        mine.delete_range(&family, &number(index), &number(index + 1))
            .unwrap();
    }
    assert!(!mine.contains(&family, &number(20)).unwrap());
    mine.rollback_to("s").unwrap();
    assert!(mine.contains(&family, &number(20)).unwrap());
    assert!(!mine.contains(&family, &number(9)).unwrap());
    mine.put(&family, &number(5), b"after").unwrap();
    mine.delete_range(&family, &number(50), &number(60))
        .unwrap();
    let count = |iter: Iter| iter.entries().count();
    assert_eq!(
        count(mine.iter(&family, IterOptions::default()).unwrap()),
        41
    );
    mine.commit().unwrap();
    assert_eq!(count(db.iter(&family, IterOptions::default()).unwrap()), 41);
    db.close().unwrap();
}
