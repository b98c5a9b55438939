//! Passes in parts, in the world in memory: what is cut writes what is not cut.

use std::{collections::BTreeMap, io, sync::Arc};

use kingtide_base::{EntryKind, FileId, SeqNo, ValueRef};
use kingtide_env::{Env, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_table::CursorUse;
use kingtide_testkit::Random;

use super::*;
use crate::{
    ColumnFamily, Db, FamilyOptions, Options, SyncMode,
    compaction::run::{MergeOutcome, Wanted, merge_once},
};

const KEYS: usize = 3000;

fn open(env: Arc<dyn Env>, threads: usize, rate: u64) -> (Db, ColumnFamily) {
    open_ordered(env, threads, rate, "memcmp")
}

fn open_ordered(
    env: Arc<dyn Env>,
    threads: usize,
    rate: u64,
    comparator: &str,
) -> (Db, ColumnFamily) {
    let options = Options {
        env: Some(env),
        flush_threads: threads,
        compaction_threads: threads,
        compaction_rate_bytes_max: rate,
        ..Options::default()
    };
    let db = Db::open("/db", options).expect("the database opens");
    let options = FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        value_threshold_bytes: 200,
        comparator: comparator.to_owned(),
        // Merges come when the test asks for them.
        l1_file_count_trigger: 1000,
        ..FamilyOptions::default()
    };
    let family = db.open_family("f", options).expect("it can be made");
    (db, family)
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// Deletes the keys between two, in whatever order they come.
fn delete_range(db: &Db, family: &ColumnFamily, one: &[u8], other: &[u8]) {
    let (start, end) = match family.family.order.compare(one, other).is_le() {
        true => (one, other),
        false => (other, one),
    };
    db.delete_range(family, start, end).expect("healthy");
}

/// Writes four tables of everything that there is, some of it under snapshots, which are answered.
fn fill(db: &Db, family: &ColumnFamily, seed: u64) -> Vec<crate::Snapshot> {
    let mut random = Random::new(seed);
    let mut snapshots = Vec::new();
    for _ in 0..4 {
        for _ in 0..KEYS {
            let mut key = key(random.below(KEYS));
            // Where spellings do not count, it is the same key.
            if random.one_in(3) {
                key.make_ascii_uppercase();
            }
            match random.below(100) {
                0..70 => {
                    let length = random.below(60) + 1;
                    db.put(family, &key, &random.bytes(length))
                }
                70..72 => db.put(family, &key, &random.bytes(300)),
                72..85 => db.delete(family, &key),
                85..97 => db.single_delete(family, &key),
                97..99 => {
                    delete_range(db, family, &key, &[&key[..], b"~"].concat());
                    Ok(())
                }
                _ => {
                    snapshots.push(db.snapshot().expect("open"));
                    Ok(())
                }
            }
            .expect("healthy");
        }
        let start = random.below(KEYS);
        delete_range(db, family, &key(start), &key(start + KEYS / 5));
        db.flush(family).expect("healthy");
    }
    // Most of them go, so that most boundaries do.
    snapshots.retain(|_| random.below(4) == 0);
    snapshots
}

type Versions = Vec<(Vec<u8>, SeqNo, EntryKind, Vec<u8>)>;

/// All versions in tables, values read, and what range deletes cover each key at each of a few numbers.
fn contents(db: &Db, family: &ColumnFamily) -> (Versions, BTreeMap<(usize, usize), SeqNo>) {
    let files = &db.inside().0.files;
    let order = &family.family.order;
    let version = Arc::clone(&family.family.load().version);
    let mut versions = Vec::new();
    let mut covers = BTreeMap::new();
    for (_, meta) in version.tables() {
        let table = files.tables.get(meta, order).expect("intact");
        table.verify(&mut |_| {}).expect("intact");
        let mut cursor = table.cursor(&files.blocks, CursorUse::Scan);
        cursor.seek_first().expect("intact");
        while cursor.is_valid() {
            let (key, sequence, kind) = (cursor.key().to_vec(), cursor.sequence(), cursor.kind());
            let value = match cursor.value().expect("intact") {
                ValueRef::Inline(value) => value.to_vec(),
                ValueRef::Separated(pointer) => {
                    let mut value = Vec::new();
                    let place = (&*key, order);
                    let read = files.read_value_into(&pointer, place, &mut value);
                    read.map(|()| value).expect("intact")
                }
            };
            versions.push((key, sequence, kind, value));
            cursor.next().expect("intact");
        }
    }
    for number in (0..KEYS).step_by(11) {
        for at in (0..5 * KEYS).step_by(KEYS / 2) {
            let tables = version.tables().map(|(_, meta)| meta);
            let cover = tables.map(|meta| {
                let table = files.tables.get(meta, order).expect("intact");
                table.range_cover(&key(number), SeqNo(at as u64))
            });
            covers.insert((number, at), cover.max().unwrap_or_default());
        }
    }
    (versions, covers)
}

/// What a reader finds.
fn entries(db: &Db, family: &ColumnFamily) -> Vec<(Vec<u8>, Vec<u8>)> {
    let iter = db.iter(family, Default::default()).expect("open");
    let entries: Result<Vec<_>> = iter.entries().collect();
    let owned = entries.expect("intact").into_iter();
    owned
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// The tables.
fn tree(family: &ColumnFamily) -> Vec<(u8, FileId)> {
    let current = family.family.load();
    let tables = current.version.tables();
    tables.map(|(level, table)| (level, table.file)).collect()
}

fn compact(
    db: &Db,
    family: &ColumnFamily,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<MergeOutcome> {
    merge_once(db.inside().0, &family.family, Wanted::All, is_cancelled)
}

fn files_of(env: &MemoryEnv, ending: &str) -> usize {
    let paths = env.paths();
    let of_ending = paths
        .iter()
        .filter(|path| path.to_string_lossy().ends_with(ending));
    of_ending.count()
}

/// Goal: flushes and merges that are cut write exactly the versions and range deletes that one walk writes. Method: the
/// same random history, with snapshots, range deletes and separated values, flushed and merged to the bottom in one part
/// and in several, in several orders of keys.
#[test]
fn a_merge_in_parts_writes_what_one_walk_writes() {
    let comparators = ["memcmp", "reverse_memcmp", "case_insensitive"];
    for (seed, comparator) in (1..).zip(comparators) {
        let (mut found, mut flushed_into) = (Vec::new(), Vec::new());
        for threads in [1, 3] {
            // Everything is flushed and merged by this thread.
            PART_BYTES_MIN.set(if threads == 1 { u64::MAX } else { 8 << 10 });
            let env = MemoryEnv::new(seed);
            let (db, family) = open_ordered(Arc::new(env), threads, 0, comparator);
            let snapshots = fill(&db, &family, seed);
            let tables = || tree(&family).len();
            let flushed_tables = tables();
            let (mut flushed, _) = contents(&db, &family);
            // Tables of one flush, and of several, come in any order.
            flushed.sort_by(|left, right| (&left.0, left.1).cmp(&(&right.0, right.1)));
            let read = entries(&db, &family);
            let outcome = compact(&db, &family, &|| false).expect("healthy");
            assert_eq!(outcome, MergeOutcome::Merged);
            assert_eq!(
                tables() > 1,
                threads > 1,
                "seed {seed}: {} tables",
                tables()
            );
            assert!(read == entries(&db, &family), "seed {seed}: reads");
            let merged = contents(&db, &family);
            found.push((
                (flushed, read),
                merged,
                family.family.counters.totals().dropped,
            ));
            flushed_into.push(flushed_tables);
            drop(snapshots);
        }
        assert!(
            flushed_into[0] < flushed_into[1],
            "seed {seed}: {flushed_into:?}"
        );
        let (whole, parts) = (&found[0], &found[1]);
        assert!(!whole.0.1.is_empty() && !whole.1.0.is_empty());
        // Range deletes of a flush may be left out in pieces, where nothing lies below; what they hide is read.
        assert!(whole.0 == parts.0, "seed {seed}: flushes");
        assert!(whole.1.0 == parts.1.0, "seed {seed}: versions");
        assert!(whole.1.1 == parts.1.1, "seed {seed}: range deletes");
        assert!(whole.2.shadowed > 0 && whole.2.range_deleted > 0);
    }
}

/// Goal: all or nothing. Method: some creates, writes, syncs, directory syncs and reads of a merge in parts fail, from then
/// on; afterwards the tree and the files are as before, and the merge succeeds.
#[test]
fn a_merge_in_parts_that_fails_leaves_nothing() {
    let operations = [
        (Operation::Create, ".klog", [1, 2, 3]),
        (Operation::Write, ".klog", [1, 2, 4]),
        (Operation::Sync, ".klog", [1, 2, 3]),
        (Operation::DirectorySync, "klog", [1, 1, 1]),
        (Operation::Read, ".klog", [1, 3, 8]),
    ];
    let memory = MemoryEnv::new(1);
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    let (db, family) = open(Arc::new(env.clone()), 2, 0);
    let _snapshots = fill(&db, &family, 1);
    let before = contents(&db, &family);
    let counts = || (files_of(&memory, ".klog"), files_of(&memory, ".vlog"));
    let (counted, tables) = (counts(), tree(&family));
    for (operation, name, which) in operations {
        for nth in which {
            env.fail(Rule {
                operation,
                name_contains: name.to_owned(),
                nth,
                error: io::ErrorKind::StorageFull,
                times: Times::Forever,
            });
            let outcome = compact(&db, &family, &|| false);
            env.clear();
            assert!(outcome.is_err(), "{operation:?} {nth} has nothing to fail");
            assert_eq!(counts(), counted, "{operation:?} {nth}");
            assert_eq!(tree(&family), tables);
        }
    }
    assert!(before == contents(&db, &family), "something changed");
    compact(&db, &family, &|| false).expect("healthy");
}

/// Goal: a cancelled merge leaves nothing, wherever it is. Method: it is cancelled at its n-th checkpoint, until there are
/// no more of them.
#[test]
fn a_merge_in_parts_is_cancelled_at_any_checkpoint() {
    let memory = MemoryEnv::new(1);
    let (db, family) = open(Arc::new(memory.clone()), 2, 0);
    let _snapshots = fill(&db, &family, 1);
    let counts = (files_of(&memory, ".klog"), files_of(&memory, ".vlog"));
    let (mut cancelled, tables) = (0, tree(&family));
    for nth in [1, 2, 3, 5, 9, 17, 33, 65, 100_000] {
        let asked = std::cell::Cell::new(0);
        let is_cancelled = || {
            asked.set(asked.get() + 1);
            asked.get() >= nth
        };
        match compact(&db, &family, &is_cancelled).expect("healthy") {
            MergeOutcome::Merged => break,
            MergeOutcome::Cancelled => cancelled += 1,
            MergeOutcome::Nothing => panic!("there is something to merge"),
        }
        assert_eq!(
            counts,
            (files_of(&memory, ".klog"), files_of(&memory, ".vlog"))
        );
        assert_eq!(tree(&family), tables);
    }
    assert!(cancelled >= 3, "cancelled {cancelled} times");
}

/// Goal: merges write no faster than they may. Method: the clock of the world in memory, which moves while a merge waits for
/// its rate, and whenever another thread sleeps; the time a merge takes is at least its bytes at that rate.
#[test]
fn merges_keep_to_their_rate() {
    const RATE: u64 = 50_000;
    let env = MemoryEnv::new(1);
    let (db, family) = open(Arc::new(env.clone()), 2, RATE);
    let _snapshots = fill(&db, &family, 1);
    let before = env.monotonic_nanos();
    compact(&db, &family, &|| false).expect("healthy");
    let seconds = (env.monotonic_nanos() - before) as f64 / 1e9;
    let bytes = family.family.counters.totals().merge_bytes_written;
    let wanted = bytes as f64 / RATE as f64;
    assert!(wanted > 1.0, "too few bytes to show anything: {bytes}");
    assert!(
        seconds > 0.8 * wanted,
        "{seconds} seconds for {bytes} bytes"
    );
}

/// Goal: a merge that waits for its rate ends when it is cancelled. Method: a rate at which it would take days, and more looks
/// at whether it is cancelled than a merge takes that does not wait.
#[test]
fn a_wait_for_the_rate_ends_with_a_cancellation() {
    let env = MemoryEnv::new(1);
    let (db, family) = open(Arc::new(env), 2, 1);
    let _snapshots = fill(&db, &family, 1);
    let asked = std::cell::Cell::new(0);
    let is_cancelled = || {
        asked.set(asked.get() + 1);
        asked.get() >= 100_000
    };
    let outcome = compact(&db, &family, &is_cancelled).expect("healthy");
    assert_eq!(outcome, MergeOutcome::Cancelled);
    db.close().expect("healthy");
}

/// Goal: a merge that more urgent work came in between of lets some in again, but not at its every checkpoint.
#[test]
fn a_pass_gives_way_again_after_some_checkpoints() {
    let (db, _) = open(Arc::new(MemoryEnv::new(1)), 1, 0);
    let pacer = Pacer::new(db.inside().0, Urgency::Deep);
    pacer.until_next.set(CHECKPOINTS_BETWEEN);
    for left in (0..CHECKPOINTS_BETWEEN).rev() {
        pacer.checkpoint(1, &|| false);
        assert_eq!(pacer.until_next.get(), left);
    }
}

/// Goal: there is more than one part for each thread, or the last thread to end keeps the others waiting.
#[test]
fn there_are_two_parts_for_each_thread() {
    for (threads, parts) in [(1, 1), (2, 4), (3, 6)] {
        let (db, _) = open(Arc::new(MemoryEnv::new(1)), threads, 0);
        assert_eq!(parts_max(db.inside().0, Urgency::Flush), parts);
    }
}

/// Goal: a large commit is flushed in parts too, though it is a single run. Method: with one sample of it there is nowhere
/// to cut.
#[test]
fn a_flush_of_one_large_commit_is_cut() {
    let (db, family) = open(Arc::new(MemoryEnv::new(1)), 3, 0);
    let mut transaction = db.begin().expect("open");
    for number in 0..KEYS {
        let put = transaction.put(&family, &key(number), &[1; 60]);
        put.expect("healthy");
    }
    transaction.commit().expect("healthy");
    db.flush(&family).expect("healthy");
    assert_eq!(tree(&family).len(), 6);
}

/// Goal: once a part has failed nobody takes another. Method: a part ends without an outcome, as when its thread panics.
#[test]
fn a_failed_part_is_the_last_one_taken() {
    let (db, family) = open(Arc::new(MemoryEnv::new(1)), 1, 0);
    let engine = db.inside().0;
    let parts = Parts::new(Pass {
        files: Arc::clone(&engine.files),
        family: Arc::clone(&family.family),
        urgency: Urgency::Deep,
        table_bytes_max: u64::MAX,
        table_ends: Cuts::default(),
        filter: crate::flush::version_filter(engine, &family.family.order, true),
        sources: Box::new(|_| unreachable!("no part is written")),
        cuts: vec![key(1), key(2)],
        expected: Expected::AtMost(0),
    });
    let first = parts.take().expect("there are three");
    assert!(parts.has_work());
    drop(first);
    assert!(!parts.has_work() && parts.take().is_none());
    let outcome = parts.put_together(&engine.files, Expected::AtMost(0));
    let error = outcome.map(drop).expect_err("it failed");
    assert_eq!(error.kind(), ErrorKind::ReopenRequired);
}
