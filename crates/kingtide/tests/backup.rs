//! Checkpoints and backups: what is in them, while writing goes on, and what a failure or a crash leaves.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]
#![expect(clippy::print_stdout, reason = "a test prints its seed")]

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, IterOptions, Options, Result, SyncMode,
};
use kingtide_env::{CrashImage, Env, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_testkit::Random;

const SOURCE: &str = "/place/db";
const TARGET: &str = "/place/copy";
const IMAGES: [CrashImage; 4] = [
    CrashImage::NothingUnsynced,
    CrashImage::Everything,
    CrashImage::Random,
    CrashImage::AllButOne,
];

/// Everything in a database: family, key, value.
type Content = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn small() -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 64 << 10,
        value_threshold_bytes: 300,
        l1_file_count_trigger: 3,
        disk_free_bytes_min: 0,
        sync: SyncMode::None,
        ..FamilyOptions::default()
    }
}

fn options(env: impl Env) -> Options {
    Options {
        env: Some(Arc::new(env)),
        ..Options::default()
    }
}

fn existing(env: impl Env) -> Options {
    Options {
        create_if_missing: false,
        ..options(env)
    }
}

fn content(db: &Db) -> Content {
    let mut content = Content::new();
    for name in db.families() {
        let family = db.family(&name).unwrap();
        for entry in db.iter(&family, IterOptions::default()).unwrap().entries() {
            let (key, value) = entry.unwrap();
            assert_eq!(db.get(&family, &key).unwrap().unwrap(), value, "get");
            content.insert((name.clone(), key), value);
        }
    }
    content
}

/// Writes `count` transactions over both families: puts of short and long values, and deletions.
fn fill(db: &Db, families: &[ColumnFamily], random: &mut Random, count: usize) {
    for step in 0..count {
        let mut transaction = db.begin().unwrap();
        for family in families {
            let key = format!("key {:03}", random.below(150)).into_bytes();
            if random.one_in(20) {
                let end = format!("key {:03}", random.below(150)).into_bytes();
                let (start, end) = (key.clone().min(end.clone()), key.max(end));
                transaction.delete_range(family, &start, &end).unwrap();
            } else if random.one_in(5) {
                transaction.delete(family, &key).unwrap();
            } else {
                let value = random.bytes(1 + step % 7 * 80);
                transaction.put(family, &key, &value).unwrap();
            }
        }
        transaction.commit().unwrap();
    }
}

/// An open database with tables on several levels, value files, and memtables that are not empty.
fn busy(path: &Path, options: Options, seed: u64) -> (Db, [ColumnFamily; 2]) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let db = Db::open(path, options).unwrap();
    let families = ["left", "right"].map(|name| db.create_family(name, small()).unwrap());
    fill(&db, &families, &mut random, 150);
    db.compact(&families[0]).unwrap();
    fill(&db, &families, &mut random, 100);
    db.flush(&families[0]).unwrap();
    fill(&db, &families, &mut random, 50);
    (db, families)
}

fn busy_in_memory(seed: u64) -> (MemoryEnv, Db, [ColumnFamily; 2]) {
    let env = MemoryEnv::new(seed);
    let (db, families) = busy(SOURCE.as_ref(), options(env.clone()), seed);
    (env, db, families)
}

fn check_whole(db: &Db) {
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert_eq!(report.damages, Vec::<String>::new());
}

/// What is beside the database.
fn strays(env: &MemoryEnv) -> Vec<PathBuf> {
    let mut paths = env.paths();
    paths.retain(|path| !path.starts_with(SOURCE));
    paths
}

fn table_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["klog", "vlog"] {
        for entry in fs::read_dir(directory.join(folder)).unwrap() {
            files.push(Path::new(folder).join(entry.unwrap().file_name()));
        }
    }
    files.sort();
    files
}

/// Goal: a checkpoint is the database at the moment of the call, independent of it, and shares its files. Method: on a
/// real directory; inode numbers; both are changed and merged afterwards.
#[test]
fn a_checkpoint_shows_the_moment_and_links_the_tables() {
    let place = tempfile::tempdir().unwrap();
    let (source, target) = (place.path().join("db"), place.path().join("a/b/copy"));
    let (db, families) = busy(&source, Options::default(), 1);
    let expected = content(&db);
    let report = db.checkpoint(&target).unwrap();
    assert!(
        report.files_linked >= 2 && report.files_written >= 2,
        "{report:?}"
    );
    assert_eq!(report.files_copied, 0);
    let before = table_files(&source);
    let shared = table_files(&target);
    let shared = shared.iter().filter(|name| {
        before.contains(name)
            && fs::metadata(source.join(name)).unwrap().ino()
                == fs::metadata(target.join(name)).unwrap().ino()
    });
    assert_eq!(shared.count() as u64, report.files_linked);
    assert_eq!(
        table_files(&target.join("wal").join("..")),
        table_files(&target)
    );
    assert!(
        fs::read_dir(target.join("wal")).unwrap().next().is_none(),
        "no log"
    );

    // Both go their own ways.
    fill(&db, &families, &mut Random::new(2), 100);
    let copy = Db::open(&target, Options::default()).unwrap();
    assert_eq!(content(&copy), expected);
    check_whole(&copy);
    let left = copy.family("left").unwrap();
    copy.put(&left, b"only here", b"x").unwrap();
    copy.compact(&left).unwrap();
    copy.drop_family("right").unwrap();
    copy.close().unwrap();
    db.compact(&families[1]).unwrap();
    check_whole(&db);
    let after = content(&db);
    db.close().unwrap();
    let db = Db::open(&source, Options::default()).unwrap();
    assert_eq!(content(&db), after);
    let copy = Db::open(&target, Options::default()).unwrap();
    assert_eq!(copy.families(), ["left"]);
    assert!(
        copy.contains(&copy.family("left").unwrap(), b"only here")
            .unwrap()
    );
}

/// Goal: a backup shares nothing with the database, and tells its progress. Method: link counts; the numbers.
#[test]
fn a_backup_copies_every_file() {
    let place = tempfile::tempdir().unwrap();
    let (source, target) = (place.path().join("db"), place.path().join("copy"));
    let (db, _) = busy(&source, Options::default(), 3);
    fs::create_dir(&target).unwrap();
    let mut told = Vec::new();
    let report = db
        .backup(&target, &mut |done, total| told.push((done, total)))
        .unwrap();
    assert_eq!(report.files_linked, 0);
    assert!(report.files_copied >= 2, "{report:?}");
    for name in table_files(&target) {
        assert_eq!(fs::metadata(target.join(name)).unwrap().nlink(), 1);
    }
    assert!(told.is_sorted());
    let (done, total) = *told.last().unwrap();
    assert!(done == total && total > 0 && total <= report.bytes);
    let expected = content(&db);
    let copy = Db::open(&target, Options::default()).unwrap();
    assert_eq!(content(&copy), expected);
    check_whole(&copy);
}

/// Goal: a copy of a copy, and of a database that is open for reading only, is as good. Method: chain them.
#[test]
fn copies_of_copies_and_of_readers() {
    let (env, db, _) = busy_in_memory(4);
    let expected = content(&db);
    db.sync_wal().unwrap();
    let reader_options = Options {
        read_only: true,
        ..options(env.clone())
    };
    let reader = Db::open(SOURCE, reader_options).unwrap();
    reader.checkpoint("/place/first").unwrap();
    let first = Db::open("/place/first", existing(env.clone())).unwrap();
    first.checkpoint("/place/second").unwrap();
    db.backup("/place/third", &mut |_, _| {}).unwrap();
    for path in ["/place/first", "/place/second", "/place/third"] {
        if path == "/place/first" {
            assert_eq!(content(&first), expected);
            continue;
        }
        let copy = Db::open(path, existing(env.clone())).unwrap();
        assert_eq!(content(&copy), expected, "{path}");
        check_whole(&copy);
        assert_eq!(copy.families(), ["left", "right"], "{path}");
    }
}

/// Goal: families that were cloned, renamed and dropped are in the copy as they are. Method: the names and the content.
#[test]
fn the_families_are_those_of_the_moment() {
    let (env, db, families) = busy_in_memory(5);
    db.clone_family("left", "twin").unwrap();
    db.rename_family("right", "starboard").unwrap();
    db.create_family("empty", small()).unwrap();
    db.drop_family("left").unwrap();
    db.put(&families[1], b"after", b"x").unwrap();
    let expected = content(&db);
    db.checkpoint(TARGET).unwrap();
    db.drop_family("twin").unwrap();
    let copy = Db::open(TARGET, existing(env)).unwrap();
    assert_eq!(copy.families(), ["empty", "starboard", "twin"]);
    assert_eq!(content(&copy), expected);
    check_whole(&copy);
}

/// Moves units between accounts that lie in different families, each move one transaction that also counts itself.
fn move_units(db: &Db, families: &[ColumnFamily], seed: u64, stop: &AtomicBool, done: &AtomicU64) {
    let mut random = Random::new(seed);
    let own = format!("counter {seed}").into_bytes();
    let mut count = 0_u64;
    // Each thread has accounts of its own, so that no transaction loses an update of another.
    let mut amounts = [1000_i64; 3];
    while !stop.load(Ordering::SeqCst) {
        let (from, to) = (random.below(3), random.below(3));
        let units = random.below(10) as i64;
        amounts[from] -= units;
        amounts[to] += units;
        count += 1;
        let mut transaction = db.begin().unwrap();
        for (family, amount) in families.iter().zip(amounts) {
            let key = format!("account {seed}").into_bytes();
            transaction
                .put(family, &key, &amount.to_le_bytes())
                .unwrap();
        }
        transaction
            .put(&families[0], &own, &count.to_le_bytes())
            .unwrap();
        let padding = random.bytes(random_length(count));
        transaction.put(&families[2], b"padding", &padding).unwrap();
        transaction.commit().unwrap();
        done.fetch_add(1, Ordering::SeqCst);
    }
}

fn random_length(count: u64) -> usize {
    (count % 5 * 150) as usize
}

/// Goal: a copy that is made while eight threads commit over three families shows one moment, which is not before the
/// call. Method: every thread's accounts add up; the sum of the counters is at least what was acknowledged before.
#[test]
fn a_copy_is_consistent_while_threads_commit() {
    const THREADS: u64 = 8;
    let env = MemoryEnv::new(6);
    let db = Db::open(SOURCE, options(env.clone())).unwrap();
    let families = ["a", "b", "c"].map(|name| db.create_family(name, small()).unwrap());
    for seed in 0..THREADS {
        for family in &families {
            let key = format!("account {seed}").into_bytes();
            db.put(family, &key, &1000_i64.to_le_bytes()).unwrap();
        }
    }
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (db, families, stop, done) = (&db, &families, &stop, &done);
            scope.spawn(move || move_units(db, families, seed, stop, done));
        }
        for round in 0..12 {
            let acknowledged = done.load(Ordering::SeqCst);
            let path = format!("/place/copy {round}");
            if round % 2 == 0 {
                db.checkpoint(&path).unwrap();
            } else {
                db.backup(&path, &mut |_, _| {}).unwrap();
            }
            let copy = Db::open(&path, existing(env.clone())).unwrap();
            check_sums(&copy, THREADS, acknowledged);
            check_whole(&copy);
            // So that the rounds meet different states.
            while done.load(Ordering::SeqCst) < acknowledged + 100 {
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
}

fn check_sums(copy: &Db, threads: u64, acknowledged: u64) {
    let families = ["a", "b", "c"].map(|name| copy.family(name).unwrap());
    let number = |family: &ColumnFamily, key: &str| {
        let value = copy.get(family, key.as_bytes()).unwrap();
        value.map_or(0, |value| i64::from_le_bytes((*value).try_into().unwrap()))
    };
    let mut counted = 0;
    for thread in 0..threads {
        let account = format!("account {thread}");
        let sum: i64 = families.iter().map(|family| number(family, &account)).sum();
        assert_eq!(sum, 3000, "half of a transaction");
        counted += number(&families[0], &format!("counter {thread}")) as u64;
    }
    assert!(
        counted >= acknowledged,
        "{counted} of {acknowledged} commits"
    );
}

fn refusal(outcome: Result<kingtide::BackupReport>) -> ErrorKind {
    outcome.expect_err("it must be refused").kind()
}

/// Goal: targets that must not be used are refused, and nothing is changed. Method: each of them, on a real directory.
#[test]
fn targets_that_cannot_be_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let (db, _) = busy(&path("db"), Options::default(), 7);
    fs::write(path("file"), b"x").unwrap();
    fs::create_dir(path("full")).unwrap();
    fs::write(path("full/x"), b"x").unwrap();
    std::os::unix::fs::symlink(path("db"), path("alias")).unwrap();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let before = names();
    for wrong in [
        "db",
        "db/klog/copy",
        "alias",
        "alias/wal",
        "full/../db/vlog/copy",
        "file",
        "file/copy",
        "missing/..",
    ] {
        let kind = refusal(db.checkpoint(path(wrong)));
        assert_eq!(kind, ErrorKind::InvalidArgument, "{wrong}");
    }
    for wrong in ["", "/"] {
        let kind = refusal(db.checkpoint(wrong));
        assert!(
            matches!(kind, ErrorKind::InvalidArgument | ErrorKind::AlreadyExists),
            "{wrong:?}: {kind:?}"
        );
    }
    assert_eq!(
        refusal(db.checkpoint(path("full"))),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        refusal(db.checkpoint(place.path())),
        ErrorKind::AlreadyExists
    );
    assert_eq!(names(), before);
    // Beside the database's own files there is room for copies: bindings of the C interface make them there.
    db.checkpoint(path("db/copies/one")).unwrap();
    let copy = Db::open(path("db/copies/one"), Options::default()).unwrap();
    check_whole(&copy);
    copy.close().unwrap();
    db.close().unwrap();
    assert_eq!(refusal(db.checkpoint(path("new"))), ErrorKind::Closed);
    assert_eq!(names(), before);
}

fn fault(operation: Operation, nth: u64, error: io::ErrorKind, times: Times) -> Rule {
    Rule {
        operation,
        name_contains: String::new(),
        nth,
        error,
        times,
    }
}

/// Goal: where links cannot be made, a checkpoint copies. Method: every link is refused, in each of the ways there are.
#[test]
fn a_checkpoint_copies_where_it_cannot_link() {
    for error in [
        io::ErrorKind::CrossesDevices,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::TooManyLinks,
        io::ErrorKind::Unsupported,
    ] {
        let memory = MemoryEnv::new(8);
        let env = FaultyEnv::new(Arc::new(memory.clone()));
        let (db, _) = busy(SOURCE.as_ref(), options(env.clone()), 8);
        env.fail(fault(Operation::Link, 1, error, Times::Forever));
        let report = db.checkpoint(TARGET).unwrap();
        assert!(report.files_linked == 0 && report.files_copied > 0);
        let copy = Db::open(TARGET, existing(memory)).unwrap();
        assert_eq!(content(&copy), content(&db));
    }
}

/// Goal: a copy that fails leaves nothing, and the database is as before. Method: each kind of call fails once, at its
/// n-th time, until none is left to fail.
#[test]
fn a_failed_copy_leaves_nothing() {
    let kinds = [
        Operation::Create,
        Operation::Open,
        Operation::Read,
        Operation::Write,
        Operation::Sync,
        Operation::Link,
        Operation::Rename,
        Operation::DirectorySync,
        Operation::Lock,
        Operation::List,
    ];
    let memory = MemoryEnv::new(9);
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    let (db, _) = busy(SOURCE.as_ref(), options(env.clone()), 9);
    db.wait_idle().unwrap();
    let expected = content(&db);
    let mut failures = 0;
    for operation in kinds {
        for nth in 1.. {
            let is_backup = nth % 2 == 0;
            env.fail(fault(operation, nth, io::ErrorKind::Other, Times::Once));
            let target = format!("/place/{operation:?} {nth}");
            let outcome = match is_backup {
                true => db.backup(&target, &mut |_, _| {}),
                false => db.checkpoint(&target),
            };
            env.clear();
            let is_past_the_last = nth > 40 && outcome.is_ok();
            if let Err(error) = outcome {
                assert_eq!(error.kind(), ErrorKind::Io, "{operation:?} {nth}: {error}");
                failures += 1;
                // When the last sync of all fails the copy has its name and stays.
                if !strays(&memory).is_empty() {
                    assert_eq!(operation, Operation::DirectorySync, "{nth}: {error}");
                    let copy = Db::open(&target, existing(memory.clone())).unwrap();
                    assert_eq!(content(&copy), expected, "{operation:?} {nth}");
                    copy.close().unwrap();
                }
            }
            remove_all(&memory, Path::new(&target));
            assert_eq!(
                strays(&memory),
                Vec::<PathBuf>::new(),
                "{operation:?} {nth}"
            );
            if is_past_the_last {
                break;
            }
        }
    }
    assert!(failures > 30, "only {failures} failures");
    assert_eq!(content(&db), expected);
    check_whole(&db);
}

fn remove_all(env: &MemoryEnv, top: &Path) {
    let Ok(directory) = env.open_directory(top, false) else {
        return;
    };
    for entry in directory.list().unwrap() {
        if entry.is_directory {
            remove_all(env, &top.join(&entry.name));
        } else {
            directory.remove(&entry.name).unwrap();
        }
    }
    let parent = env.open_directory(top.parent().unwrap(), false).unwrap();
    let name = top.file_name().unwrap().to_str().unwrap();
    parent.remove_directory(name).unwrap();
}

/// Goal: a full device is told as such, leaves nothing, and stops nothing. Method: less and less space.
#[test]
fn a_full_device_leaves_nothing() {
    let (env, db, families) = busy_in_memory(10);
    db.wait_idle().unwrap();
    let used = (1 << 40)
        - env
            .open_directory("/".as_ref(), false)
            .unwrap()
            .available_bytes()
            .unwrap();
    for spare in [0, 1 << 10, 8 << 10] {
        env.set_capacity(Some(used + spare));
        assert_eq!(
            refusal(db.checkpoint(TARGET)),
            ErrorKind::DiskFull,
            "{spare}"
        );
        let backup = db.backup(TARGET, &mut |_, _| {});
        assert_eq!(refusal(backup), ErrorKind::DiskFull, "{spare}");
        assert_eq!(strays(&env), Vec::<PathBuf>::new());
    }
    env.set_capacity(None);
    db.put(&families[0], b"k", b"v").unwrap();
    db.checkpoint(TARGET).unwrap();
}

/// Goal: damage is found when the backup is made. Method: a byte of each file is changed.
#[test]
fn a_backup_of_damaged_files_is_refused() {
    let (env, db, families) = busy_in_memory(11);
    for family in &families {
        db.compact(family).unwrap();
    }
    db.wait_idle().unwrap();
    let files = env.paths();
    let files = files.iter().filter(|path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("klog" | "vlog"))
    });
    let mut count = 0;
    for file in files {
        assert!(env.corrupt(file, 100, |byte| *byte ^= 1));
        let backup = db.backup(TARGET, &mut |_, _| {});
        assert_eq!(refusal(backup), ErrorKind::Corruption, "{file:?}");
        assert_eq!(strays(&env), Vec::<PathBuf>::new());
        assert!(env.corrupt(file, 100, |byte| *byte ^= 1));
        count += 1;
    }
    assert!(count >= 2);
    db.backup(TARGET, &mut |_, _| {}).unwrap();
}

/// Goal: after a power cut anywhere in a checkpoint or a backup, the database is as it was, and the target is absent or
/// whole; a second attempt succeeds and removes what the first one left. Method: cut after each call, every image.
#[test]
fn a_power_cut_leaves_the_source_whole_and_the_target_whole_or_absent() {
    for method in ["checkpoint", "backup"] {
        let copy_with = |db: &Db| match method {
            "backup" => db.backup(TARGET, &mut |_, _| {}),
            _ => db.checkpoint(TARGET),
        };
        let (base, db, _) = busy_in_memory(12);
        db.close().unwrap();
        // Everything is durable from here on; what the openings below do is the same each time.
        let base = base.crash(CrashImage::Everything, 12);
        let fresh = || {
            let env = base.crash(CrashImage::Everything, 0);
            let db = Db::open(SOURCE, existing(env.clone())).unwrap();
            let family = db.family("left").unwrap();
            db.put(&family, b"in memory", b"x").unwrap();
            db.sync_wal().unwrap();
            db.wait_idle().unwrap();
            (env, db)
        };
        let (env, db) = fresh();
        let expected = content(&db);
        let first = env.io_count();
        copy_with(&db).unwrap();
        let calls = env.io_count() - first;
        assert!(calls > 20, "{calls} calls");
        let mut outcomes = [0; 2];
        for cut in 0..=calls {
            let (env, db) = fresh();
            env.halt_after(env.io_count() + cut);
            let outcome = copy_with(&db);
            env.halt_after(0);
            let _ = db.close();
            let image = IMAGES[cut as usize % IMAGES.len()];
            let found = env.crash(image, cut);
            let source = Db::open(SOURCE, existing(found.clone())).unwrap();
            assert_eq!(content(&source), expected, "{method}, cut {cut}, {image:?}");
            let copy = Db::open(TARGET, existing(found.clone()));
            outcomes[usize::from(copy.is_ok())] += 1;
            match copy {
                Ok(copy) => {
                    assert_eq!(content(&copy), expected, "{method}, cut {cut}, {image:?}");
                    check_whole(&copy);
                }
                Err(error) => {
                    assert!(
                        outcome.is_err(),
                        "{method}, cut {cut}, {image:?}: it was acknowledged"
                    );
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                    copy_with(&source).unwrap();
                    let strays = strays(&found);
                    assert!(
                        strays.iter().all(|path| path.starts_with(TARGET)),
                        "{strays:?}"
                    );
                }
            }
        }
        assert!(
            outcomes[0] > 10 && outcomes[1] > 0,
            "{method}: {outcomes:?}"
        );
    }
}

/// Goal: copies for the same target at the same time do not harm each other: one gets the name. Method: four threads.
#[test]
fn of_several_copies_to_one_target_one_succeeds() {
    let (env, db, _) = busy_in_memory(13);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| db.checkpoint(TARGET)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let succeeded = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(succeeded, 1);
    for outcome in outcomes.into_iter().filter(Result::is_err) {
        assert_eq!(refusal(outcome), ErrorKind::AlreadyExists);
    }
    assert!(strays(&env).iter().all(|path| path.starts_with(TARGET)));
    let copy = Db::open(TARGET, existing(env)).unwrap();
    assert_eq!(content(&copy), content(&db));
    check_whole(&copy);
}

/// Goal: range deletes that are only in memory are in the copy, with and without an end, and later ones are not. Method:
/// tables below them; the keys that are left.
#[test]
fn range_deletes_in_memory_are_copied() {
    let env = MemoryEnv::new(14);
    let db = Db::open(SOURCE, options(env.clone())).unwrap();
    let families = ["bounded", "unbounded"].map(|name| db.create_family(name, small()).unwrap());
    for family in &families {
        for key in [&b"a"[..], b"b", b"c", b"\xff\xff"] {
            db.put(family, key, b"v").unwrap();
        }
        db.flush(family).unwrap();
    }
    db.delete_range(&families[0], b"b", b"c").unwrap();
    db.delete_prefix(&families[1], b"\xff").unwrap();
    let expected = content(&db);
    assert_eq!(expected.len(), 6);
    db.checkpoint(TARGET).unwrap();
    db.delete_prefix(&families[0], b"").unwrap();
    let copy = Db::open(TARGET, existing(env)).unwrap();
    assert_eq!(content(&copy), expected);
    check_whole(&copy);
}

/// Where the file `WITNESS` says of which database it is.
fn identity(env: &MemoryEnv, path: &str) -> Vec<u8> {
    let witness = env.read_file(format!("{path}/WITNESS")).unwrap();
    witness[24..40].to_vec()
}

/// Goal: copies are the same database, whose log goes on in them; others are others. Method: the identities of a database, of
/// its checkpoint and backup after writes and another opening, and of a new one in the same world.
#[test]
fn copies_carry_the_identity_of_their_original() {
    let (env, db, _) = busy_in_memory(3);
    db.checkpoint(TARGET).unwrap();
    db.backup("/place/backup", &mut |_, _| {}).unwrap();
    db.close().unwrap();
    let original = identity(&env, SOURCE);
    assert_ne!(original, [0; 16]);
    for path in [SOURCE, TARGET, "/place/backup"] {
        for _ in 0..2 {
            let db = Db::open(path, existing(env.clone())).unwrap();
            db.put(&db.family("left").unwrap(), b"more", b"v").unwrap();
            drop(db);
            assert_eq!(identity(&env, path), original, "{path}");
        }
    }
    Db::open("/place/new", options(env.clone()))
        .unwrap()
        .close()
        .unwrap();
    assert_ne!(identity(&env, "/place/new"), original);
}
