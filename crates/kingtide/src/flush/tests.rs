//! Flushes of a whole database, in the world in memory.

use std::{io, sync::Arc};

use kingtide_env::{
    CrashImage, FaultyEnv, MemoryEnv, Operation, Rule, Times, sync::atomic::Ordering,
};

use crate::{ColumnFamily, Db, ErrorKind, FamilyOptions, IterOptions, Options, SyncMode};

fn open(env: Arc<dyn kingtide_env::Env>) -> Db {
    let options = Options {
        env: Some(env),
        ..Options::default()
    };
    Db::open("/db", options).expect("the database opens")
}

fn settings(comparator: &str) -> FamilyOptions {
    FamilyOptions {
        sync: SyncMode::None,
        value_threshold_bytes: 64,
        disk_free_bytes_min: 0,
        comparator: comparator.to_owned(),
        ..FamilyOptions::default()
    }
}

fn get(db: &Db, family: &ColumnFamily, key: &[u8]) -> Option<Vec<u8>> {
    db.get(family, key)
        .expect("it can be read")
        .map(|value| value.to_vec())
}

fn first(db: &Db, family: &ColumnFamily, from: &[u8]) -> Option<Vec<u8>> {
    let mut iter = db
        .iter(family, IterOptions::default())
        .expect("it can be read");
    iter.seek(from)
        .expect("it can be read")
        .then(|| iter.value().expect("it can be read").to_vec())
}

fn files(env: &MemoryEnv, ending: &str) -> usize {
    env.paths()
        .iter()
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .count()
}

/// Goal: a separated value is found under every spelling of its key. Method: long values of one key under several
/// spellings, read from the memtable, after each flush, after a merge, and after a new opening.
#[test]
fn separated_values_are_read_under_another_spelling() {
    let env = MemoryEnv::new(1);
    let db = open(Arc::new(env.clone()));
    let family = db
        .create_family("f", settings("case_insensitive"))
        .expect("a new name");
    let check = |db: &Db, family: &ColumnFamily, value: &[u8]| {
        for spelling in [b"straw berry".as_slice(), b"Straw Berry", b"STRAW BERRY"] {
            assert_eq!(get(db, family, spelling).as_deref(), Some(value));
            assert_eq!(first(db, family, spelling).as_deref(), Some(value));
        }
        assert_eq!(get(db, family, b"short").as_deref(), Some(b"s".as_slice()));
    };
    db.put(&family, b"Short", b"s").expect("healthy");
    for (number, spelling) in (1..).zip([b"Straw berry", b"sTRAW bERRY", b"straw BERRY"]) {
        let value = vec![number; 500];
        db.put(&family, spelling, &value).expect("healthy");
        check(&db, &family, &value);
        db.flush(&family).expect("healthy");
        assert!(files(&env, ".vlog") > 0, "the value is separated");
        check(&db, &family, &value);
    }
    db.compact(&family).expect("healthy");
    check(&db, &family, &[3; 500]);
    db.close().expect("healthy");
    let again = open(Arc::new(env));
    let family = again.family("f").expect("it was made");
    check(&again, &family, &[3; 500]);
}

/// Goal: a flush that fails can be tried again, loses nothing and leaves nothing. Method: creating, writing, syncing of
/// tables and value files fails once.
#[test]
fn a_failed_flush_is_tried_again() {
    for (operation, ending) in [
        (Operation::Create, ".klog"),
        (Operation::Create, ".vlog"),
        (Operation::Write, ".klog"),
        (Operation::Write, ".vlog"),
        (Operation::Sync, ".klog"),
        (Operation::Sync, ".vlog"),
        (Operation::DirectorySync, "klog"),
        (Operation::DirectorySync, "vlog"),
    ] {
        let env = MemoryEnv::new(2);
        let faulty = FaultyEnv::new(Arc::new(env.clone()));
        let db = open(Arc::new(faulty.clone()));
        let family = db
            .create_family("f", settings("memcmp"))
            .expect("a new name");
        db.put(&family, b"short", b"s").expect("healthy");
        db.put(&family, b"long", &[1; 100]).expect("healthy");
        // What the background is told of, it would flush by itself: the first try here is the only one that fails.
        faulty.fail(Rule {
            operation,
            name_contains: ending.to_owned(),
            nth: 1,
            error: io::ErrorKind::StorageFull,
            times: Times::Once,
        });
        let mut refusals = 0;
        while let Err(error) = db.flush(&family) {
            assert_eq!(
                error.kind(),
                ErrorKind::DiskFull,
                "{operation:?} of {ending}: {error}"
            );
            refusals += 1;
        }
        // The background may have been the one that failed.
        assert!(refusals <= 1, "{operation:?} of {ending}");
        assert!(!family.family.is_giving_back.load(Ordering::Relaxed));
        assert_eq!(
            get(&db, &family, b"short").as_deref(),
            Some(b"s".as_slice())
        );
        assert_eq!(
            get(&db, &family, b"long").as_deref(),
            Some([1; 100].as_slice())
        );
        db.wait_idle().ok();
        assert_eq!(
            (files(&env, ".klog"), files(&env, ".vlog")),
            (1, 1),
            "{operation:?} of {ending}"
        );
        let found = env.crash(CrashImage::NothingUnsynced, 0);
        let again = open(Arc::new(found));
        let family = again.family("f").expect("it was made");
        assert!(
            get(&again, &family, b"long").is_some() && get(&again, &family, b"short").is_some()
        );
    }
}
