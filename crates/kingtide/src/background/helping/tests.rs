//! Merges that give way, in the world in memory. Threads are kept busy by locks that the test holds.

use std::{sync::Arc, thread};

use kingtide_env::MemoryEnv;

use super::*;
use crate::{ColumnFamily, Db, FamilyOptions, Options, SyncMode};

/// A database with one thread for flushes and one for merges.
fn open() -> Db {
    let options = Options {
        env: Some(Arc::new(MemoryEnv::new(1))),
        flush_threads: 1,
        compaction_threads: 1,
        ..Options::default()
    };
    Db::open("/db", options).expect("the database opens")
}

fn family(db: &Db, name: &str) -> ColumnFamily {
    let options = FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        // Merges come when the test asks for them.
        l1_file_count_trigger: 1000,
        ..FamilyOptions::default()
    };
    db.create_family(name, options).expect("a new name")
}

fn put(db: &Db, family: &ColumnFamily, count: usize) {
    for number in 0..count {
        let key = format!("key {number:06}");
        db.put(family, key.as_bytes(), &[7; 40]).expect("healthy");
    }
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

fn merge_all(db: &Db, family: &ColumnFamily) -> MergeOutcome {
    merge_once(db.inside().0, &family.family, Wanted::All, &|| false).expect("healthy")
}

/// Goal: a merge does a flush for which there is no thread, and then ends as if nothing had been. Method: the only flush
/// thread waits for a lock; another family waits for its flush; a merge runs.
#[test]
fn a_merge_gives_way_to_a_flush_without_a_thread() {
    let db = open();
    let (stuck, waiting, merged) = (
        family(&db, "stuck"),
        family(&db, "waiting"),
        family(&db, "m"),
    );
    put(&db, &merged, 500);
    db.flush(&merged).expect("healthy");
    put(&db, &merged, 500);
    db.flush(&merged).expect("healthy");
    let background = db.inside().1;
    let flushing = stuck.family.flushing.lock();
    put(&db, &stuck, 1);
    db.seal(&stuck);
    let is_running =
        |family: &ColumnFamily| background.lock().is_running(Task::Flush, family.family.id);
    wait_until(|| is_running(&stuck));
    put(&db, &waiting, 10);
    db.seal(&waiting);
    assert_eq!(waiting.family.load().sealed.len(), 1, "nobody can flush it");
    assert_eq!(merge_all(&db, &merged), MergeOutcome::Merged);
    assert!(waiting.family.load().sealed.is_empty(), "the merge did it");
    assert_eq!(
        stuck.family.load().sealed.len(),
        1,
        "that thread is still busy"
    );
    assert_eq!(merged.family.load().version.tables().count(), 1);
    drop(flushing);
    db.wait_idle().expect("healthy");
    assert!(stuck.family.load().sealed.is_empty());
}

/// Goal: a merge does not flush when a thread is free for it, nor while flushes fail. Method: the scheduler is asked
/// directly, with nothing and with a failure.
#[test]
fn a_merge_leaves_flushes_to_others_when_it_should() {
    let db = open();
    let f = family(&db, "f");
    let background = db.inside().1;
    wait_until(|| background.lock().idle_flushers == 1);
    assert!(background.take_flush().is_none(), "nothing waits");
    {
        let mut queues = background.lock();
        queues.failure = Some((crate::ErrorKind::DiskFull, "full".into()));
    }
    assert!(background.take_flush().is_none(), "flushes fail");
    background.lock().failure = None;
    put(&db, &f, 1);
    db.flush(&f).expect("healthy");
}

/// Goal: a deep merge does a merge of level 1 for which there is no thread; a merge of level 1 does not. Method: the only
/// merge thread waits for a lock; another family has tables on level 1.
#[test]
fn a_deep_merge_gives_way_to_one_of_level_1() {
    let db = open();
    let (stuck, waiting, deep) = (
        family(&db, "stuck"),
        family(&db, "waiting"),
        family(&db, "d"),
    );
    put(&db, &deep, 500);
    db.flush(&deep).expect("healthy");
    assert_eq!(merge_all(&db, &deep), MergeOutcome::Merged);
    put(&db, &stuck, 1);
    for _ in 0..5 {
        put(&db, &waiting, 20);
        db.flush(&waiting).expect("healthy");
    }
    let background = db.inside().1;
    let busy = stuck.family.busy.lock();
    background.schedule(Task::Merge, &stuck.family);
    wait_until(|| background.lock().is_running(Task::Merge, stuck.family.id));
    let options = FamilyOptions {
        l1_file_count_trigger: 4,
        ..waiting.options()
    };
    waiting.family.set_options(options);
    background.schedule(Task::Merge, &waiting.family);
    let level_one = || {
        waiting
            .family
            .load()
            .version
            .level(1)
            .map_or(0, |level| level.tables().len())
    };
    // Merged as soon as it is full, as it is read.
    waiting.family.read.note();
    // The first may lie deeper: nothing was in its way.
    let before = level_one();
    assert!(before >= 4);
    let engine = db.inside().0;
    assert!(
        !background.give_way(engine, Urgency::Shallow),
        "that is not more urgent"
    );
    assert_eq!(level_one(), before);
    assert_eq!(merge_all(&db, &deep), MergeOutcome::Merged);
    assert_eq!(level_one(), 0, "the merge did it");
    drop(busy);
    db.wait_idle().expect("healthy");
}

/// Goal: a merge that can be cut is worked on by idle threads too, and what they do counts. Method: whoever offers it takes
/// no part of it until others have taken one.
#[test]
fn idle_threads_take_parts() {
    let options = Options {
        env: Some(Arc::new(MemoryEnv::new(1))),
        compaction_threads: 3,
        ..Options::default()
    };
    let db = Db::open("/db", options).expect("the database opens");
    let f = family(&db, "f");
    put(&db, &f, 5000);
    db.flush(&f).expect("healthy");
    put(&db, &f, 5000);
    db.flush(&f).expect("healthy");
    let background = db.inside().1;
    wait_until(|| background.lock().idle_mergers == 3);
    // Only whoever offered it asks this.
    let is_cancelled = || {
        wait_until(|| {
            background
                .lock()
                .offered
                .iter()
                .all(|parts| !parts.has_work())
        });
        false
    };
    let outcome = merge_once(db.inside().0, &f.family, Wanted::All, &is_cancelled);
    assert_eq!(outcome.expect("healthy"), MergeOutcome::Merged);
    let version = Arc::clone(&f.family.load().version);
    let entries: u64 = version.tables().map(|(_, table)| table.entries).sum();
    assert_eq!(entries, 5000);
    assert!(version.tables().count() > 1, "it was cut");
    assert!(background.lock().offered.is_empty());
}
