//! A device without space and a process without file descriptors, in the real world.
//!
//! The first needs a small file system of its own and is passed over, with a notice, where mounting is not permitted. The
//! second runs in a process of its own, so that other tests keep their descriptors.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use kingtide::{ColumnFamily, Db, ErrorKind, FamilyOptions, Options, SyncMode};
use kingtide_testkit::Random;

const VALUE_BYTES: usize = 2000;

fn open(path: &Path) -> (Db, ColumnFamily) {
    let db = Db::open(path, Options::default()).expect("the database opens");
    let options = FamilyOptions {
        write_buffer_bytes: 1 << 20,
        value_threshold_bytes: 0,
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    let family = db.open_family("f", options).expect("it can be made");
    (db, family)
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:08}").into_bytes()
}

/// The value of a key: random, so that it takes its room.
fn value(number: usize) -> Vec<u8> {
    Random::new(number as u64 + 1).bytes(VALUE_BYTES)
}

fn assert_holds(db: &Db, family: &ColumnFamily, count: usize) {
    for number in 0..count {
        let found = db.get(family, &key(number)).expect("it can be read");
        assert!(
            found.is_some_and(|found| *found == *value(number)),
            "{number} of {count}"
        );
    }
}

fn tables(path: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(path.join("klog")).expect("it can be listed");
    entries
        .map(|entry| entry.expect("it can be listed").file_name())
        .collect()
}

/// Waits until background work has been tried again, and has succeeded.
fn until_idle(db: &Db) {
    for _ in 0..20_000_000_u64 {
        if db.wait_idle().is_ok() {
            return;
        }
        thread::yield_now();
    }
    db.wait_idle().expect("the failure is over");
}

/// After all failures are over: everything is there, also after another opening, which finds no file to remove.
fn assert_whole(path: &Path, db: Db, family: &ColumnFamily, count: usize) {
    db.flush(family).expect("healthy");
    until_idle(&db);
    db.compact(family).expect("healthy");
    assert_holds(&db, family, count);
    db.close().expect("healthy");
    let before = tables(path);
    let (db, family) = open(path);
    assert_eq!(before, tables(path), "a file stayed behind");
    assert_holds(&db, &family, count);
    db.verify(&mut |_, _| {}).expect("intact");
    db.close().expect("healthy");
}

/// A mounted file system; unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn small(path: &Path, options: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(path);
        let status = mount.output().ok()?.status;
        status.success().then(|| Self(path.to_path_buf()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// Goal: a device that is full refuses writes as such, loses nothing, and takes writes again once there is space, without
/// anybody doing anything. Method: a file system of 64 MiB, most of it taken by something else, so that merges have room once
/// that goes; writes until one is refused; the something goes; writes.
// Promise: 8.
#[test]
fn a_small_file_system_fills_and_recovers() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(mounted) = Mounted::small(directory.path(), "size=64m") else {
        println!("passed over: mounting a file system is not permitted");
        return;
    };
    let ballast = directory.path().join("ballast");
    fs::write(&ballast, vec![1; 42 << 20]).expect("there is room");
    let path = directory.path().join("db");
    let (db, family) = open(&path);
    let mut count = 0;
    let error = loop {
        match db.put(&family, &key(count), &value(count)) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
        assert!(count < 40_000, "more than the device holds");
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(count > 2000, "only {count} were taken");
    assert_holds(&db, &family, count);
    // Refused again and again, and still nothing is lost.
    for _ in 0..20 {
        if db.put(&family, &key(count), &value(count)).is_ok() {
            count += 1;
        }
        let _ = db.flush(&family);
    }
    assert_holds(&db, &family, count);
    fs::remove_file(&ballast).expect("it can be removed");
    until_idle(&db);
    for _ in 0..500 {
        db.put(&family, &key(count), &value(count))
            .expect("there is space again");
        count += 1;
    }
    assert_whole(&path, db, &family, count);
    drop(mounted);
}

/// Names the directory in the process that has few descriptors.
const INNER: &str = "KINGTIDE_TEST_FEW_FILES";

/// Goal: a process that may open no more files reads on and flushes, by closing idle tables; what fails all the same
/// succeeds once there are descriptors again, and no file is lost or stays. Method: a process of its own with a limit of
/// 96; all free descriptors are taken.
#[test]
fn a_process_without_descriptors_recovers() {
    if let Some(directory) = env::var_os(INNER) {
        few_files(Path::new(&directory));
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = env::current_exe().expect("this program");
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 96 && exec \"$0\" \"$@\""])
        .arg(program)
        .args([
            "--exact",
            "a_process_without_descriptors_recovers",
            "--nocapture",
        ])
        .env(INNER, directory.path())
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Opens files until there are no more descriptors.
fn take_all() -> Vec<File> {
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    assert!(!files.is_empty(), "there were none to take");
    files
}

fn few_files(path: &Path) {
    let (db, family) = open(path);
    let options = FamilyOptions {
        l1_file_count_trigger: 1000,
        ..family.options()
    };
    db.update_family_options(&family, options, false)
        .expect("it can be changed");
    let mut count = 0;
    let put = |count: &mut usize| {
        for _ in 0..20 {
            // The log may need another segment.
            match db.put(&family, &key(*count), &value(*count)) {
                Ok(()) => *count += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
            }
        }
    };
    for _ in 0..12 {
        put(&mut count);
        db.flush(&family).expect("healthy");
    }
    assert_holds(&db, &family, count);
    assert!(db.stats().expect("open").open_tables > 4);
    // Idle tables make room for the new one, and those that were closed are opened again.
    let taken = take_all();
    put(&mut count);
    db.flush(&family).expect("idle tables are closed");
    assert_holds(&db, &family, count);
    drop(taken);
    // Now there is nothing left to close.
    let mut taken = take_all();
    for _ in 0..20 {
        put(&mut count);
        match db.flush(&family) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
        }
        taken.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    }
    drop(taken);
    until_idle(&db);
    put(&mut count);
    assert_whole(path, db, &family, count);
}
