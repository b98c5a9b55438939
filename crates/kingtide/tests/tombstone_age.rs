//! Tombstones do not get older than the settings say: `FamilyOptions::tombstone_age_max`.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::time::Duration;

use kingtide::{ColumnFamily, Db, FamilyOptions, FamilyStats, SyncMode};
use kingtide_env::{CrashImage, Env, MemoryEnv};
use kingtide_testkit::world::{self, DATABASE};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
/// Keys of a family, far too many for what is deleted of them to count as much.
const KEYS: u32 = 6000;

fn open(env: &MemoryEnv) -> Db {
    Db::open(DATABASE, world::options(env)).expect("the database opens")
}

fn settings(age_max: Duration) -> FamilyOptions {
    FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        write_buffer_bytes: 64 << 10,
        level_size_ratio: 2,
        min_levels: 3,
        tombstone_density_trigger: 0.5,
        tombstone_age_max: age_max,
        ..FamilyOptions::default()
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

/// A database with one family of [`KEYS`] keys that lies at the bottom.
fn filled(env: &MemoryEnv, age_max: Duration) -> (Db, ColumnFamily) {
    let db = open(env);
    let family = db.create_family("f", settings(age_max)).unwrap();
    for number in 0..KEYS {
        db.put(&family, &key(number), &[7; 40]).unwrap();
    }
    db.compact(&family).unwrap();
    db.wait_idle().unwrap();
    (db, family)
}

fn delete(db: &Db, family: &ColumnFamily, numbers: impl IntoIterator<Item = u32>) {
    for number in numbers {
        db.delete(family, &key(number)).unwrap();
    }
}

fn stats(db: &Db, family: &ColumnFamily) -> FamilyStats {
    let stats = db.stats().unwrap();
    let name = family.name();
    let families = stats.families;
    families
        .into_iter()
        .find(|family| family.name == name)
        .unwrap()
}

/// Tombstones in memory and in tables, and merges so far.
fn counts(db: &Db, family: &ColumnFamily) -> (u64, u64, u64) {
    let stats = stats(db, family);
    (stats.memtable_tombstones, stats.tombstones, stats.merges)
}

/// Goal: a few tombstones in a large family go when they have the age, and not before. Method: deletes at several places,
/// one flushed at once and one left in memory; the clock stops short of the age, then passes it.
#[test]
fn few_tombstones_go_at_their_age_and_not_before() {
    for is_flushed in [true, false] {
        let env = MemoryEnv::new(1);
        let (db, family) = filled(&env, HOUR);
        delete(&db, &family, (0..KEYS).step_by(600));
        if is_flushed {
            db.flush(&family).unwrap();
        }
        db.wait_idle().unwrap();
        let before = counts(&db, &family);
        assert_eq!(before.0 + before.1, 10);
        assert_eq!(before.1, if is_flushed { 10 } else { 0 });
        env.advance(HOUR - MINUTE);
        db.wait_idle().unwrap();
        assert_eq!(counts(&db, &family), before, "too early");
        let age = stats(&db, &family).tombstone_age();
        let expected = is_flushed.then_some(59);
        assert_eq!(age.map(|age| age.as_secs() / 60), expected);
        env.advance(MINUTE * 2);
        db.wait_idle().unwrap();
        let after = stats(&db, &family);
        assert_eq!((after.memtable_tombstones, after.tombstones), (0, 0));
        assert_eq!(after.entries, u64::from(KEYS) - 10, "the values went too");
        assert_eq!(after.tombstone_age(), None);
        db.close().unwrap();
    }
}

/// The same for range deletes and single deletes.
#[test]
fn range_deletes_and_single_deletes_have_an_age_too() {
    let env = MemoryEnv::new(2);
    let (db, family) = filled(&env, HOUR);
    // A range delete counts as many tombstones.
    let options = FamilyOptions {
        tombstone_density_trigger: 0.0,
        ..settings(HOUR)
    };
    db.update_family_options(&family, options, false).unwrap();
    db.delete_range(&family, &key(100), &key(103)).unwrap();
    let mut transaction = db.begin().unwrap();
    transaction.single_delete(&family, &key(500)).unwrap();
    transaction.commit().unwrap();
    db.flush(&family).unwrap();
    db.wait_idle().unwrap();
    let entries = stats(&db, &family).entries;
    assert!(entries > u64::from(KEYS) - 4, "{entries}");
    env.advance(HOUR + MINUTE);
    db.wait_idle().unwrap();
    let after = stats(&db, &family);
    assert_eq!(after.entries, u64::from(KEYS) - 4);
    assert_eq!((after.tombstones, after.tombstone_age()), (0, None));
    db.close().unwrap();
}

/// Goal: without the setting nothing happens, and it can be given while the family is in use. Method: a year passes.
#[test]
fn the_setting_is_off_by_default_and_changes_while_in_use() {
    assert_eq!(FamilyOptions::default().tombstone_age_max, Duration::ZERO);
    let env = MemoryEnv::new(3);
    let (db, family) = filled(&env, Duration::ZERO);
    delete(&db, &family, [1, 2, 3]);
    db.flush(&family).unwrap();
    db.wait_idle().unwrap();
    let before = counts(&db, &family);
    env.advance(HOUR * 24 * 365);
    db.wait_idle().unwrap();
    assert_eq!(counts(&db, &family), before);
    db.update_family_options(&family, settings(HOUR), true)
        .unwrap();
    db.wait_idle().unwrap();
    assert_eq!(counts(&db, &family).1, 0, "the age was known");
    db.close().unwrap();
    let db = open(&env);
    let family = db.family("f").unwrap();
    assert_eq!(family.options().tombstone_age_max, HOUR);
    db.close().unwrap();
}

/// Goal: what a snapshot needs stays, nothing is merged for it again and again, and it goes once the snapshot does. Method: a
/// snapshot before the deletes, and one between two of them.
#[test]
fn tombstones_that_snapshots_need_wait_for_them() {
    let env = MemoryEnv::new(4);
    let (db, family) = filled(&env, HOUR);
    let first = db.snapshot().unwrap();
    delete(&db, &family, [10, 2000]);
    db.flush(&family).unwrap();
    let second = db.snapshot().unwrap();
    delete(&db, &family, [4000, 5000, 5500]);
    db.flush(&family).unwrap();
    db.wait_idle().unwrap();
    let before = counts(&db, &family);
    assert_eq!(before.1, 5);
    env.advance(HOUR * 2);
    for _ in 0..3 {
        db.wait_idle().unwrap();
        assert_eq!(counts(&db, &family), before, "none could go");
    }
    assert!(first.get(&family, &key(10)).unwrap().is_some());
    drop(first);
    db.wait_idle().unwrap();
    let between = counts(&db, &family);
    assert_eq!(between.1, 3, "those after the second snapshot");
    for _ in 0..3 {
        db.wait_idle().unwrap();
        assert_eq!(counts(&db, &family), between);
    }
    assert!(second.get(&family, &key(10)).unwrap().is_none());
    assert!(second.get(&family, &key(4000)).unwrap().is_some());
    drop(second);
    db.wait_idle().unwrap();
    let after = stats(&db, &family);
    assert_eq!(after.tombstones, 0);
    assert_eq!(after.entries, u64::from(KEYS) - 5);
    db.close().unwrap();
}

/// Goal: ages go on after closing, after a power cut, in a clone and in a copy. Method: forty minutes before and
/// twenty-one after.
#[test]
fn ages_survive_openings_clones_and_copies() {
    for is_crash in [false, true] {
        let env = MemoryEnv::new(5);
        let (db, family) = filled(&env, HOUR);
        delete(&db, &family, [10, 2000]);
        db.flush(&family).unwrap();
        db.sync_wal().unwrap();
        env.advance(MINUTE * 40);
        db.clone_family("f", "twin").unwrap();
        db.backup("/copy", &mut |_, _| {}).unwrap();
        let env = if is_crash {
            let after = env.crash(CrashImage::NothingUnsynced, 1);
            drop(db);
            after
        } else {
            db.close().unwrap();
            env
        };
        for path in [DATABASE, "/copy"] {
            let db = Db::open(path, world::options(&env)).unwrap();
            let of = |name: &str| stats(&db, &db.family(name).unwrap());
            for name in ["f", "twin"] {
                let age = of(name).tombstone_age().unwrap();
                assert_eq!(age.as_secs() / 60, 40, "{path} {name}");
            }
            db.close().unwrap();
        }
        env.advance(MINUTE * 21);
        for path in [DATABASE, "/copy"] {
            let db = Db::open(path, world::options(&env)).unwrap();
            db.wait_idle().unwrap();
            let after = stats(&db, &db.family("f").unwrap());
            assert_eq!(after.tombstones, 0, "{path}");
            assert_eq!(after.entries, u64::from(KEYS) - 2, "{path}");
            db.close().unwrap();
        }
    }
}

/// Goal: a clock that was wrong does no harm. Method: deletes under a clock ten years ahead; the next opening has the
/// right one, under which they come to their age like others.
#[test]
fn a_clock_that_goes_back_starts_ages_anew() {
    let wrong = MemoryEnv::new(6);
    let (db, family) = filled(&wrong, HOUR);
    let right = wrong.unix_micros();
    wrong.advance(HOUR * 24 * 3650);
    delete(&db, &family, [10, 2000]);
    db.flush(&family).unwrap();
    db.close().unwrap();
    let env = MemoryEnv::new(7);
    for path in wrong.paths() {
        if let Some(bytes) = wrong.read_file(&path) {
            env.write_file(&path, &bytes).unwrap();
        }
    }
    assert!(env.unix_micros() <= right);
    let db = open(&env);
    let family = db.family("f").unwrap();
    db.wait_idle().unwrap();
    let before = counts(&db, &family);
    assert_eq!(before.1, 2);
    env.advance(HOUR - MINUTE);
    db.wait_idle().unwrap();
    assert_eq!(counts(&db, &family), before);
    env.advance(MINUTE * 2);
    db.wait_idle().unwrap();
    assert_eq!(counts(&db, &family).1, 0);
    db.close().unwrap();
}
