//! Recovery of databases that were killed or lost power, in the world in memory.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use kingtide_env::{CrashImage, Env, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_testkit::Random;

use crate::{Db, ErrorKind, FamilyOptions, IterOptions, Options, Result, SyncMode};

const PATH: &str = "/db";
const IMAGES: [CrashImage; 4] = [
    CrashImage::NothingUnsynced,
    CrashImage::Everything,
    CrashImage::Random,
    CrashImage::AllButOne,
];

/// Everything in a database: family, key, value.
type Content = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn try_open(env: impl Env, read_only: bool) -> Result<Db> {
    let options = Options {
        env: Some(Arc::new(env)),
        read_only,
        ..Options::default()
    };
    Db::open(PATH, options)
}

fn open(env: &MemoryEnv) -> Db {
    try_open(env.clone(), false).expect("the database opens")
}

fn content(db: &Db) -> Content {
    let mut content = Content::new();
    for name in db.families() {
        let family = db.family(&name).expect("it is listed");
        let mut iter = db
            .iter(&family, IterOptions::default())
            .expect("it can be read");
        let mut is_there = iter.seek_to_first().expect("it can be read");
        while is_there {
            let value = iter.value().expect("it can be read").to_vec();
            let key = iter.key().to_vec();
            assert_eq!(
                db.get(&family, &key)
                    .expect("it can be read")
                    .map(|v| v.to_vec()),
                Some(value.clone()),
                "iterator and get disagree"
            );
            content.insert((name.clone(), key), value);
            is_there = iter.next().expect("it can be read");
        }
    }
    content
}

fn files(env: &MemoryEnv) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    env.paths()
        .into_iter()
        .map(|path| (path.clone(), env.read_file(path)))
        .collect()
}

fn table_files(env: &MemoryEnv) -> Vec<PathBuf> {
    let is_table = |path: &PathBuf| {
        path.extension()
            .is_some_and(|ending| ending == "klog" || ending == "vlog")
    };
    env.paths().into_iter().filter(is_table).collect()
}

/// The world of a database that is still open: two families with tables, deletions, long values and memtables enough
/// that recovery seals some before the end of the log.
fn busy_world(seed: u64) -> (MemoryEnv, Db) {
    println!("seed {seed}");
    let env = MemoryEnv::new(seed);
    let mut random = Random::new(seed);
    let db = open(&env);
    let families = ["left", "right"].map(|name| {
        let options = FamilyOptions {
            write_buffer_bytes: 64 << 10,
            value_threshold_bytes: 300,
            sync: SyncMode::None,
            disk_free_bytes_min: 0,
            ..FamilyOptions::default()
        };
        db.create_family(name, options).expect("a new name")
    });
    for step in 0..300 {
        let mut transaction = db.begin().expect("open");
        for family in &families {
            let key = format!("key {:03}", random.below(150)).into_bytes();
            if random.one_in(5) {
                transaction.delete(family, &key).expect("short");
            } else {
                let value = random.bytes(1 + step % 7 * 80);
                transaction.put(family, &key, &value).expect("short");
            }
        }
        transaction.commit().expect("healthy");
        match step {
            100 => db.flush(&families[0]).expect("healthy"),
            150 => db.sync_wal().expect("healthy"),
            _ => {}
        }
    }
    (env, db)
}

fn power_off(env: &MemoryEnv, db: &Db) {
    env.halt_after(0);
    let _ = db.close();
}

/// Goal: recovery can be cut anywhere and begun again, and gives the same. Method: one image of a power cut; recovery is
/// cut after each of its calls by a kill or by another power cut, and the next opening shows what an undisturbed one
/// shows.
#[test]
fn recovery_cut_at_every_call_gives_the_same() {
    let (env, db) = busy_world(1);
    let image = env.crash(CrashImage::Random, 1);
    power_off(&env, &db);
    // Everything in an image is durable, so this is a copy.
    let copy = || image.crash(CrashImage::Everything, 0);
    let undisturbed = copy();
    let recovered = open(&undisturbed);
    let calls = undisturbed.io_count();
    let expected = content(&recovered);
    assert!(expected.len() > 100, "too little survives to show anything");
    power_off(&undisturbed, &recovered);
    assert!(calls > 20, "recovery does {calls} calls");
    for cut in 0..calls {
        let again = copy();
        again.halt_after(cut);
        // It fails, or ends before the cut; either way the next opening decides.
        if let Ok(db) = try_open(again.clone(), false) {
            power_off(&again, &db);
        }
        let found = match cut % 3 {
            0 => again.kill(),
            _ => again.crash(IMAGES[cut as usize % IMAGES.len()], cut),
        };
        let db = open(&found);
        assert!(content(&db) == expected, "cut after call {cut} of {calls}");
        power_off(&found, &db);
    }
}

/// Goal: opening a crashed database for reading shows what recovery would, and writes nothing, as often as one likes.
/// Method: every image; all files and the count of calls that could change one before and after.
#[test]
fn a_read_only_opening_shows_what_recovery_shows_and_writes_nothing() {
    let (env, db) = busy_world(2);
    for (seed, image) in (0..).zip(IMAGES.into_iter().chain(IMAGES)) {
        let found = env.crash(image, seed);
        let (before, calls) = (files(&found), found.io_count());
        let shown: Vec<Content> = (0..2)
            .map(|_| {
                let reader = try_open(found.clone(), true).expect("the database opens");
                let shown = content(&reader);
                let family = reader.family("left").expect("it was made");
                let refused = reader
                    .put(&family, b"k", b"v")
                    .map_err(|error| error.kind());
                assert_eq!(refused, Err(ErrorKind::ReadOnly));
                reader.close().expect("there is nothing to write");
                shown
            })
            .collect();
        assert!(files(&found) == before, "{image:?}: a file changed");
        assert_eq!(
            found.io_count(),
            calls,
            "{image:?}: a changing call was made"
        );
        let db = open(&found);
        let recovered = content(&db);
        assert!(
            shown[0] == recovered && shown[1] == recovered,
            "{image:?}: a reader sees other data"
        );
        power_off(&found, &db);
    }
    power_off(&env, &db);
}

/// Goal: an opening that fails leaves no table behind, and the next one succeeds. Method: each kind of call that
/// recovery makes fails once, at its n-th time, until none is left to fail.
#[test]
fn a_failed_recovery_leaves_no_table() {
    let (env, db) = busy_world(3);
    let image = env.crash(CrashImage::Everything, 3);
    power_off(&env, &db);
    let copy = || image.crash(CrashImage::Everything, 0);
    let before = table_files(&image);
    let recovered = copy();
    let reference = open(&recovered);
    let expected = content(&reference);
    power_off(&recovered, &reference);
    for (operation, name) in [
        (Operation::Create, ".klog"),
        (Operation::Write, ".klog"),
        (Operation::Sync, ".klog"),
        (Operation::Create, ".vlog"),
        (Operation::Write, ".vlog"),
        (Operation::Sync, ".vlog"),
        (Operation::DirectorySync, "log"),
        (Operation::Create, ".wal"),
        (Operation::Allocate, ".wal"),
    ] {
        let mut failures = 0;
        for nth in 1..100 {
            let again = copy();
            let faulty = FaultyEnv::new(Arc::new(again.clone()));
            faulty.fail(Rule {
                operation,
                name_contains: name.to_owned(),
                nth,
                error: io::ErrorKind::StorageFull,
                times: Times::Once,
            });
            let Err(error) = try_open(faulty, false).map(|db| power_off(&again, &db)) else {
                break;
            };
            failures += 1;
            assert_eq!(
                error.kind(),
                ErrorKind::DiskFull,
                "{operation:?} {nth} of {name}"
            );
            assert_eq!(
                table_files(&again),
                before,
                "{operation:?} {nth} of {name} leaves files"
            );
            let db = open(&again);
            assert!(content(&db) == expected, "{operation:?} {nth} of {name}");
            power_off(&again, &db);
        }
        assert!(failures > 0, "{operation:?} of {name} has nothing to fail");
    }
}
