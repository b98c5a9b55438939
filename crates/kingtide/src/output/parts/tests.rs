//! Passes in parts, in the world in memory: what is cut writes what is not cut.

use std::{collections::BTreeMap, io, sync::Arc};

use kingtide_base::{EntryKind, SeqNo, ValueRef};
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
    let options = Options {
        env: Some(env),
        compaction_threads: threads,
        compaction_rate_bytes_max: rate,
        ..Options::default()
    };
    let db = Db::open("/db", options).expect("the database opens");
    let options = FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        value_threshold_bytes: 200,
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

/// Writes four tables of everything that there is, some of it under snapshots, which are answered.
fn fill(db: &Db, family: &ColumnFamily, seed: u64) -> Vec<crate::Snapshot> {
    let mut random = Random::new(seed);
    let mut snapshots = Vec::new();
    for _ in 0..4 {
        for _ in 0..KEYS {
            let key = key(random.below(KEYS));
            match random.below(100) {
                0..70 => {
                    let length = random.below(60) + 1;
                    db.put(family, &key, &random.bytes(length))
                }
                70..72 => db.put(family, &key, &random.bytes(300)),
                72..85 => db.delete(family, &key),
                85..97 => db.single_delete(family, &key),
                97..99 => {
                    let end = [&key[..], b"~"].concat();
                    db.delete_range(family, &key, &end).map(|_| ())
                }
                _ => {
                    snapshots.push(db.snapshot().expect("open"));
                    Ok(())
                }
            }
            .expect("healthy");
        }
        let start = random.below(KEYS);
        db.delete_range(family, &key(start), &key(start + KEYS / 5))
            .expect("healthy");
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
                    files.read_value(&pointer, &key, order).expect("intact")
                }
            };
            versions.push((key, sequence, kind, value));
            cursor.next().expect("intact");
        }
    }
    for number in 0..KEYS {
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

/// Goal: a merge that is cut writes exactly the versions and range deletes that one walk writes. Method: the same random
/// history, with snapshots, range deletes and separated values, merged to the bottom in one part and in several.
#[test]
fn a_merge_in_parts_writes_what_one_walk_writes() {
    for seed in 1..=6 {
        let mut found = Vec::new();
        for threads in [1, 3] {
            let env = MemoryEnv::new(seed);
            let (db, family) = open(Arc::new(env), threads, 0);
            let snapshots = fill(&db, &family, seed);
            let outcome = compact(&db, &family, &|| false).expect("healthy");
            assert_eq!(outcome, MergeOutcome::Merged);
            let tables = family.family.load().version.tables().count();
            assert_eq!(tables > 1, threads > 1, "seed {seed}: {tables} tables");
            found.push((
                contents(&db, &family),
                family.family.counters.totals().dropped,
            ));
            drop(snapshots);
        }
        let (whole, parts) = (&found[0], &found[1]);
        assert!(
            !whole.0.0.is_empty() && whole.0.0 == parts.0.0,
            "seed {seed}: versions"
        );
        assert_eq!(whole.0.1, parts.0.1, "seed {seed}: range deletes");
        assert!(whole.1.shadowed > 0 && whole.1.range_deleted > 0);
    }
}

/// Goal: all or nothing. Method: each create, write, sync and directory sync of a merge in parts fails in turn; afterwards
/// the tree and the files are as before, and the merge succeeds.
#[test]
fn a_merge_in_parts_that_fails_leaves_nothing() {
    let memory = MemoryEnv::new(1);
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    let (db, family) = open(Arc::new(env.clone()), 2, 0);
    let _snapshots = fill(&db, &family, 1);
    let before = contents(&db, &family);
    let counts = (files_of(&memory, ".klog"), files_of(&memory, ".vlog"));
    let operations = [
        (Operation::Create, ".klog"),
        (Operation::Write, ".klog"),
        (Operation::Sync, ".klog"),
        (Operation::DirectorySync, "klog"),
        (Operation::Read, ".klog"),
    ];
    for (operation, name) in operations {
        for nth in [1, 2, 4, 8] {
            env.fail(Rule {
                operation,
                name_contains: name.to_owned(),
                nth,
                error: io::ErrorKind::StorageFull,
                times: Times::Forever,
            });
            let outcome = compact(&db, &family, &|| false);
            env.clear();
            if outcome.is_ok() {
                // Not that many calls.
                assert!(nth > 1, "{operation:?} has nothing to fail");
                break;
            }
            assert_eq!(
                counts,
                (files_of(&memory, ".klog"), files_of(&memory, ".vlog"))
            );
        }
        if family.family.load().version.depth() > 1 {
            continue;
        }
        assert!(
            before == contents(&db, &family),
            "{operation:?} changed something"
        );
    }
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
    let depth = || family.family.load().version.depth();
    let before = depth();
    let mut cancelled = 0;
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
        assert_eq!(depth(), before);
    }
    assert!(cancelled >= 3, "cancelled {cancelled} times");
}

/// Goal: merges write no faster than they may. Method: the simulated clock, which moves while a merge waits for its rate;
/// the time a merge takes is at least its bytes at that rate, and not much more.
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
    // Several threads sleep on one clock, each of which moves it.
    assert!(
        seconds < 4.0 * wanted,
        "{seconds} seconds for {bytes} bytes"
    );
}

/// Goal: a merge that waits for its rate ends when it is cancelled. Method: a rate at which it would take days.
#[test]
fn a_wait_for_the_rate_ends_with_a_cancellation() {
    let env = MemoryEnv::new(1);
    let (db, family) = open(Arc::new(env.clone()), 2, 1);
    let _snapshots = fill(&db, &family, 1);
    let before = env.monotonic_nanos();
    let is_cancelled = || env.monotonic_nanos() - before > 5_000_000_000;
    let outcome = compact(&db, &family, &is_cancelled).expect("healthy");
    assert_eq!(outcome, MergeOutcome::Cancelled);
    let seconds = (env.monotonic_nanos() - before) / 1_000_000_000;
    assert!(seconds < 60, "{seconds} seconds");
    db.close().expect("healthy");
}
