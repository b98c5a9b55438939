//! Every call of a flush and of a merge fails, once and for good, in the world in memory. No thread but the test's works.

use std::{collections::BTreeSet, io, sync::Arc};

use kingtide_env::{CrashImage, Env, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_table::{parse_klog_name, parse_vlog_name};

use super::*;
use crate::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, Options, SyncMode,
    compaction::run::{Wanted, merge_once},
    engine::Engine,
    family::Family,
    flush::flush_oldest,
};

const KEYS: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Flush,
    Merge,
}

fn open(env: Arc<dyn Env>) -> (Db, ColumnFamily) {
    let options = Options {
        env: Some(env),
        ..Options::default()
    };
    let db = Db::open("/db", options).expect("the database opens");
    let options = FamilyOptions {
        sync: SyncMode::Full,
        disk_free_bytes_min: 0,
        value_threshold_bytes: 64,
        l1_file_count_trigger: 1000,
        ..FamilyOptions::default()
    };
    let family = db.open_family("f", options).expect("it can be made");
    (db, family)
}

fn value(number: usize, round: u8) -> Vec<u8> {
    let length = if number.is_multiple_of(5) { 100 } else { 20 };
    vec![round + (number % 200) as u8; length]
}

/// A transaction over all keys; every tenth is deleted in the second one.
fn put(db: &Db, family: &ColumnFamily, round: u8) {
    let mut transaction = db.begin().expect("open");
    for number in 0..KEYS {
        let key = format!("key {number:05}");
        let value = value(number, round);
        let done = match number % 10 == 3 && round == 1 {
            true => transaction.delete(family, key.as_bytes()),
            false => transaction.put(family, key.as_bytes(), &value),
        };
        done.expect("healthy");
    }
    transaction.commit().expect("healthy");
}

fn assert_holds(db: &Db, round: u8, what: &str) {
    let family = db.family("f").expect("it was made");
    for number in 0..KEYS {
        let key = format!("key {number:05}");
        let found = db.get(&family, key.as_bytes()).expect("it can be read");
        let wanted = (number % 10 != 3 || round == 0).then(|| value(number, round));
        assert_eq!(found.map(|value| value.to_vec()), wanted, "{what}: {key}");
    }
}

/// Table and value files on disk.
fn on_disk(env: &MemoryEnv) -> BTreeSet<FileId> {
    let paths = env.paths();
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    names
        .filter_map(|name| parse_klog_name(name).or_else(|| parse_vlog_name(name)))
        .collect()
}

/// Those that the manifest names.
fn named(engine: &Engine) -> BTreeSet<FileId> {
    let manifest = engine.manifest.lock();
    let state = manifest.state();
    let tables = state
        .families()
        .flat_map(|(_, family)| family.tables.keys());
    tables.chain(state.value_files().keys()).copied().collect()
}

/// Writes all memtables to tables.
fn flush_now(engine: &Engine, family: &Arc<Family>) -> Result<()> {
    let active = Arc::clone(&family.load().active);
    if !active.table.is_empty() {
        engine.pipeline.rotate(family, &active, (0, 0))?;
    }
    while flush_oldest(engine, family)? {}
    Ok(())
}

/// A database that is about to do `work`, and how many rounds it holds.
fn prepare(env: &FaultyEnv, work: Work) -> (Db, ColumnFamily, u8) {
    let (db, family) = open(Arc::new(env.clone()));
    let (engine, background) = db.inside();
    background.stop(engine);
    put(&db, &family, 0);
    if work == Work::Flush {
        return (db, family, 0);
    }
    flush_now(engine, &family.family).expect("healthy");
    put(&db, &family, 1);
    flush_now(engine, &family.family).expect("healthy");
    (db, family, 1)
}

fn perform(db: &Db, family: &ColumnFamily, work: Work) -> Result<()> {
    let engine = db.inside().0;
    match work {
        Work::Flush => flush_now(engine, &family.family),
        Work::Merge => {
            merge_once(engine, &family.family, Wanted::All, &|| false)?;
            engine.sweep_files()
        }
    }
}

/// The calls that `work` makes, by kind.
fn calls(work: Work) -> Vec<(Operation, u64)> {
    let env = FaultyEnv::new(Arc::new(MemoryEnv::new(1)));
    let (db, family, _) = prepare(&env, work);
    let before = env.counts();
    perform(&db, &family, work).expect("healthy");
    let after = env.counts().into_iter();
    after
        .map(|(operation, count)| (operation, count - before.get(&operation).unwrap_or(&0)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn fails_at(work: Work, rule: Rule) {
    let what = format!("{work:?} with {rule:?}");
    let memory = MemoryEnv::new(1);
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    let (db, family, round) = prepare(&env, work);
    env.fail(rule.clone());
    let first = perform(&db, &family, work);
    if let Err(error) = &first {
        assert_ne!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
    }
    for (seed, image) in [
        CrashImage::NothingUnsynced,
        CrashImage::Everything,
        CrashImage::Random,
    ]
    .into_iter()
    .enumerate()
    {
        let found = memory.crash(image, seed as u64);
        let (again, _) = open(Arc::new(found.clone()));
        assert_holds(&again, round, &what);
        assert_eq!(
            on_disk(&found),
            named(again.inside().0),
            "{what}: {image:?}"
        );
    }
    env.clear();
    assert_holds(&db, round, &what);
    // What failed goes on by itself, unless a sync failed: then nobody knows what is durable before the next open.
    let engine = db.inside().0;
    match perform(&db, &family, work).and_then(|()| engine.sweep_files()) {
        Ok(()) => {
            assert_eq!(on_disk(&memory), named(engine), "{what}");
            assert!(family.family.load().sealed.is_empty(), "{what}");
        }
        Err(error) => {
            let is_final = matches!(
                rule.operation,
                Operation::Sync | Operation::DirectorySync | Operation::Rename
            );
            assert!(is_final, "{what}: {error}");
        }
    }
    assert_holds(&db, round, &what);
    drop(db);
    let (again, _) = open(Arc::new(memory.clone()));
    assert_holds(&again, round, &what);
    assert_eq!(on_disk(&memory), named(again.inside().0), "{what}");
}

/// Goal: whatever call of a flush or a merge fails, once or from then on, nothing is lost, no file is lost or stays, and
/// once the system is well again the work is done; a power cut in between loses nothing either. Method: each call of each
/// kind.
#[test]
fn every_call_of_a_flush_and_of_a_merge_may_fail() {
    for work in [Work::Flush, Work::Merge] {
        let calls = calls(work);
        let of = |wanted| calls.iter().any(|(operation, _)| *operation == wanted);
        assert!(
            of(Operation::Create) && of(Operation::Write) && of(Operation::Sync),
            "{calls:?}"
        );
        for (operation, count) in calls {
            for nth in 1..=count {
                for times in [Times::Once, Times::Forever] {
                    let rule = Rule {
                        operation,
                        name_contains: String::new(),
                        nth,
                        error: io::ErrorKind::StorageFull,
                        times,
                    };
                    fails_at(work, rule);
                }
            }
        }
    }
}

/// Goal: a flush whose tables could not be installed leaves none behind, also while the manifest cannot go on: tables do
/// not pile up. Method: the manifest can neither be appended to nor replaced; many tries; then it can.
#[test]
fn tables_that_cannot_be_installed_do_not_pile_up() {
    let memory = MemoryEnv::new(1);
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    let (db, family, round) = prepare(&env, Work::Flush);
    let engine = db.inside().0;
    env.fail(Rule {
        operation: Operation::Write,
        name_contains: "MANIFEST".to_owned(),
        nth: 1,
        error: io::ErrorKind::StorageFull,
        times: Times::Forever,
    });
    for _ in 0..5 {
        let error = perform(&db, &family, Work::Flush).expect_err("the manifest is full");
        assert_eq!(error.kind(), ErrorKind::DiskFull);
    }
    assert_eq!(
        on_disk(&memory).len(),
        2,
        "a table and a value file in doubt"
    );
    assert!(named(engine).is_empty());
    // A power cut may bring the batch back: then they are needed.
    let (again, _) = open(Arc::new(memory.crash(CrashImage::Everything, 1)));
    assert_holds(&again, round, "after a power cut");
    env.clear();
    engine.settle_doubts().expect("healthy");
    assert!(on_disk(&memory).is_empty(), "nothing is in doubt any more");
    perform(&db, &family, Work::Flush).expect("healthy");
    assert_eq!(on_disk(&memory), named(engine));
    assert_holds(&db, round, "at the end");
}
