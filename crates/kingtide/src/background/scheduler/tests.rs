//! Background work that fails, in the world in memory.

use std::{io, sync::Arc, thread, time::Duration};

use kingtide_env::{CrashImage, FaultyEnv, MemoryEnv, Operation, Rule, Times};

use super::Task;
use crate::{ColumnFamily, Db, Error, ErrorKind, FamilyOptions, Options, SyncMode};

fn open(env: Arc<dyn kingtide_env::Env>) -> Db {
    let options = Options {
        env: Some(env),
        ..Options::default()
    };
    Db::open("/db", options).expect("the database opens")
}

/// A database with small memtables, of which two may wait, and whose tables cannot be made for want of space.
fn full_disk() -> (MemoryEnv, FaultyEnv, Db, ColumnFamily) {
    let env = MemoryEnv::new(1);
    let faulty = FaultyEnv::new(Arc::new(env.clone()));
    let db = open(Arc::new(faulty.clone()));
    let options = FamilyOptions {
        write_buffer_bytes: 64 << 10,
        l0_queue_stall_threshold: 2,
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", options).expect("a new name");
    faulty.fail(Rule {
        operation: Operation::Create,
        name_contains: ".klog".to_owned(),
        nth: 1,
        error: io::ErrorKind::StorageFull,
        times: Times::Forever,
    });
    (env, faulty, db, family)
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// Puts until a put is refused; answers how many were not.
fn fill(db: &Db, family: &ColumnFamily) -> usize {
    for number in 0..10_000 {
        if let Err(error) = db.put(family, &key(number), &[1; 200]) {
            assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
            return number;
        }
    }
    panic!("memtables take everything");
}

/// Waits for what a background thread brings about.
fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..20_000_000_u64 {
        if is_so() {
            return;
        }
        thread::yield_now();
    }
    panic!("the background does not do it");
}

fn assert_holds(db: &Db, count: usize) {
    let family = db.family("f").expect("it was made");
    for number in 0..count {
        assert!(
            db.contains(&family, &key(number)).expect("it can be read"),
            "{number} of {count}"
        );
    }
    assert!(
        !db.contains(&family, &key(count)).expect("it can be read"),
        "a refused put is there"
    );
}

/// Goal: a flush that fails tells everyone who waits for it, and is tried again without being asked. Method: tables
/// cannot be made; writers, `flush` and `wait_idle` get the error; then they can, and the memtables go.
#[test]
fn a_failing_flush_is_told_and_tried_again() {
    let (_env, faulty, db, family) = full_disk();
    let stored = fill(&db, &family);
    assert!(stored > 100, "only {stored} puts before memtables are full");
    let told = [db.flush(&family), db.wait_idle()];
    for outcome in told {
        let error = outcome.expect_err("tables cannot be made");
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    }
    assert_holds(&db, stored);
    faulty.clear();
    // Nothing asks for a flush here: the scheduler's own retry is what empties the queue.
    wait_until(|| family.family.load().sealed.is_empty());
    // The failure is over once the thread that flushed has said so.
    wait_until(|| db.wait_idle().is_ok());
    db.put(&family, &key(stored), &[1; 200])
        .expect("there is room again");
    assert_holds(&db, stored + 1);
}

/// Goal: a failure ends with the first success, for writers too. Method: as above, `flush` is asked for at once.
#[test]
fn a_flush_that_succeeds_ends_the_failure() {
    let (_env, faulty, db, family) = full_disk();
    let stored = fill(&db, &family);
    faulty.clear();
    db.flush(&family).expect("tables can be made");
    db.put(&family, &key(stored), &[1; 200])
        .expect("there is room again");
    assert_holds(&db, stored + 1);
}

/// Goal: a close whose flushes fail ends, keeps the log and loses nothing. Method: memtables wait, tables cannot be
/// made; after the close a power cut takes everything that was not synced.
#[test]
fn a_close_that_cannot_flush_keeps_the_log() {
    let (env, _faulty, db, family) = full_disk();
    let stored = fill(&db, &family);
    db.close().expect("the log is synced");
    for image in [CrashImage::NothingUnsynced, CrashImage::Everything] {
        let found = env.crash(image, 0);
        let again = open(Arc::new(found));
        assert_holds(&again, stored);
        again.close().expect("a healthy disk");
    }
    // Without a crash as well.
    let again = open(Arc::new(env));
    assert_holds(&again, stored);
}

/// Goal: a close whose manifest fails keeps the log as well. Method: the flush of the close writes its tables and then
/// cannot install them.
#[test]
fn a_close_that_cannot_install_keeps_the_log() {
    for operation in [Operation::Write, Operation::Sync] {
        let (env, faulty, db, family) = full_disk();
        faulty.clear();
        for number in 0..20 {
            db.put(&family, &key(number), b"v").expect("healthy");
        }
        faulty.fail(Rule {
            operation,
            name_contains: "MANIFEST".to_owned(),
            nth: 1,
            error: io::ErrorKind::Other,
            times: Times::Forever,
        });
        db.close().expect("the log is synced");
        for (seed, image) in (0..).zip([
            CrashImage::NothingUnsynced,
            CrashImage::Everything,
            CrashImage::Random,
        ]) {
            let again = open(Arc::new(env.crash(image, seed)));
            assert_holds(&again, 20);
        }
    }
}

/// Goal: nobody waits for the pause after a failure, which is long when merges failed often. Method: tables cannot be made;
/// merges have failed and pause while flushes go on failing, and a merge by hand comes to its own failure.
#[test]
fn a_merge_by_hand_does_not_wait_for_the_pause_of_another() {
    let (_env, _faulty, db, family) = full_disk();
    fill(&db, &family);
    let background = db.inside().1;
    let failing = Arc::clone(&family.family);
    for _ in 0..4 {
        let error = Error::new(ErrorKind::DiskFull, "a merge that failed");
        let background = Arc::clone(background);
        let env = Arc::clone(&db.inside().0.env);
        let failing = Arc::clone(&failing);
        thread::spawn(move || {
            background.lock().begin(Task::Merge, failing.id);
            background.finish((Task::Merge, env.as_ref()), &failing, Err(error));
        });
    }
    wait_until(|| background.lock().paused.len() >= 4);
    let (sender, receiver) = std::sync::mpsc::channel();
    let db = Arc::new(db);
    let compacting = (Arc::clone(&db), family.clone());
    thread::spawn(move || sender.send(compacting.0.compact(&compacting.1)));
    let outcome = receiver.recv_timeout(Duration::from_secs(120));
    let error = outcome
        .expect("compact ends")
        .expect_err("tables cannot be made");
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
}
