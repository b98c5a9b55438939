//! Random schedules of the real engine: commits beside rotations, flushes, merges and a close, by shuttle.
//!
//! Shuttle runs every thread of a database, its background threads included, on one thread of the system and draws at every
//! lock, atomic and condition variable who goes on: half of the schedules at random, half after Burckhardt et al., "A
//! Randomized Scheduler with Probabilistic Guarantees of Finding Bugs" (2010). `cargo sim` does alike with a scheduler of
//! our own; this one knows nothing of ours, so the two do not share their mistakes. A failing schedule is printed by shuttle;
//! `KINGTIDE_SCHEDULE` runs it again.
//!
//! Compiled under `--cfg shuttle` only: `cargo xtask shuttle`.

#![cfg(shuttle)]

use std::{sync::Arc, time::Duration};

use kingtide::{
    ColumnFamily, Db, Error, ErrorKind, FamilyOptions, IsolationLevel, Options, Result, SyncMode,
    TransactionOptions,
};
use kingtide_env::MemoryEnv;
use kingtide_testkit::world;
use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler, ReplayScheduler},
    thread,
};

/// Schedules of each kind, when `KINGTIDE_SCHEDULES` says nothing: seconds of a test run.
const SCHEDULES: usize = 60;
/// Bugs that need as many threads to be interrupted at the right place are found.
const PCT_DEPTH: usize = 3;
/// Bytes of a value: three commits fill a memtable.
const PADDING_BYTES: usize = 3 << 10;
/// Transactions of each writer.
const COMMITS: u64 = 3;
/// A coroutine's stack, in bytes: what threads of the engine need in a build with checks.
const STACK_BYTES: usize = 1 << 20;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("settings of schedules are numbers"))
}

fn config(seconds: Option<u64>) -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_time = seconds.map(Duration::from_secs);
    config.silence_warnings = true;
    config
}

/// Runs `body` in as many schedules as are asked for; half of the time and of the schedules is for each scheduler.
fn explore(name: &str, body: fn()) {
    if let Ok(schedule) = std::env::var("KINGTIDE_SCHEDULE") {
        let replay = ReplayScheduler::new_from_encoded(&schedule);
        Runner::new(replay, config(None)).run(body);
        return;
    }
    let count = setting("KINGTIDE_SCHEDULES").map_or(SCHEDULES, |count| {
        usize::try_from(count).expect("a count of schedules")
    });
    let seed = setting("KINGTIDE_SEED").unwrap_or(1);
    let seconds = setting("KINGTIDE_SECONDS").map(|seconds| seconds.div_ceil(2));
    let random = RandomScheduler::new_from_seed(seed, count.div_ceil(2));
    let drawn = Runner::new(random, config(seconds)).run(body);
    let pct = PctScheduler::new_from_seed(seed, PCT_DEPTH, count.div_ceil(2));
    let ordered = Runner::new(pct, config(seconds)).run(body);
    println!("{name}: {drawn} random and {ordered} PCT schedules, seed {seed}");
}

fn family_options(sync: SyncMode) -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 8 << 10,
        l1_file_count_trigger: 2,
        disk_free_bytes_min: 0,
        sync,
        ..FamilyOptions::default()
    }
}

fn open(env: &MemoryEnv) -> Db {
    let options = Options {
        flush_threads: 1,
        compaction_threads: 1,
        ..world::options(env)
    };
    Db::open(world::DATABASE, options).expect("a healthy directory is opened")
}

/// Adds one to two counters, and puts a long value of its own. A conflict is tried again; the answer is false when the
/// database was closed before.
fn increment(db: &Db, family: &ColumnFamily, name: &str) -> bool {
    loop {
        match try_increment(db, family, name) {
            Ok(()) => return true,
            Err(error) if error.kind() == ErrorKind::Conflict => thread::yield_now(),
            Err(error) if error.kind() == ErrorKind::Closed => return false,
            Err(error) => panic!("{error}"),
        }
    }
}

fn try_increment(db: &Db, family: &ColumnFamily, name: &str) -> Result<()> {
    let mut transaction = db.begin_with(TransactionOptions {
        isolation: IsolationLevel::Snapshot,
        ..TransactionOptions::default()
    })?;
    let left = transaction.get(family, b"left")?;
    let right = transaction.get(family, b"right")?;
    assert_eq!(left, right, "a transaction is seen as a whole");
    let count = number(left.as_deref()) + 1;
    transaction.put(family, b"left", &count.to_le_bytes())?;
    transaction.put(family, name.as_bytes(), &vec![b'x'; PADDING_BYTES])?;
    transaction.put(family, b"right", &count.to_le_bytes())?;
    let sequence = transaction.commit()?;
    // A close may come between.
    let seen = db.snapshot().map(|snapshot| snapshot.sequence());
    let is_seen = seen.as_ref().is_ok_and(|seen| *seen >= sequence);
    assert!(is_seen || seen.is_err(), "what was acknowledged is seen");
    Ok(())
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| {
        u64::from_le_bytes(bytes.try_into().expect("a counter has eight bytes"))
    })
}

fn counter(db: &Db, family: &ColumnFamily) -> Result<u64> {
    let snapshot = db.snapshot()?;
    let left = snapshot.get(family, b"left")?;
    let right = snapshot.get(family, b"right")?;
    assert_eq!(left, right, "a snapshot sees transactions as a whole");
    Ok(number(left.as_deref()))
}

/// Whoever comes after the close is told so; everything else is a violation.
fn unless_closed(outcome: Result<()>) {
    let is_closed = |error: &Error| error.kind() == ErrorKind::Closed;
    assert!(
        outcome.as_ref().is_err_and(is_closed) || outcome.is_ok(),
        "{outcome:?}"
    );
}

/// Two writers, `others` beside them, a close once the writers are done; then what was acknowledged is counted.
fn race(sync: SyncMode, others: &[fn(&Db, &ColumnFamily) -> Result<()>]) {
    let env = MemoryEnv::new(7);
    let db = Arc::new(open(&env));
    let family = db.create_family("family", family_options(sync));
    let family = family.expect("a new family");
    let writers: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|writer| {
            let (db, family) = (Arc::clone(&db), family.clone());
            thread::spawn(move || {
                for round in 0..COMMITS {
                    assert!(increment(&db, &family, &format!("{writer}{round}")));
                }
            })
        })
        .collect();
    let others: Vec<_> = others
        .iter()
        .map(|&other| {
            let (db, family) = (Arc::clone(&db), family.clone());
            thread::spawn(move || unless_closed(other(&db, &family)))
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    db.close().expect("a healthy disk");
    for other in others {
        other.join().expect("no panic");
    }
    drop(db);
    check(&env);
}

fn check(env: &MemoryEnv) {
    let db = open(env);
    let family = db.family("family").expect("it was made");
    let count = counter(&db, &family).expect("a healthy disk");
    assert_eq!(
        count,
        2 * COMMITS,
        "every acknowledged commit is there, once"
    );
    for writer in ["a", "b"] {
        for round in 0..COMMITS {
            let value = db.get(&family, format!("{writer}{round}").as_bytes());
            let value = value.expect("a healthy disk").expect("it was committed");
            assert_eq!(value.len(), PADDING_BYTES);
        }
    }
    db.close().expect("a healthy disk");
}

fn watch(db: &Db, family: &ColumnFamily) -> Result<()> {
    let mut last = 0;
    for _ in 0..3 {
        let count = counter(db, family)?;
        assert!(count >= last, "later snapshots see no less");
        last = count;
    }
    Ok(())
}

fn flush(db: &Db, family: &ColumnFamily) -> Result<()> {
    db.flush(family)
}

fn merge(db: &Db, family: &ColumnFamily) -> Result<()> {
    db.flush(family)?;
    db.compact(family)
}

/// Goal: commits that fill memtables lose nothing beside a reader, a flush by hand and a close.
// Promise: 9, snapshot.
#[test]
fn commits_beside_flushes_and_a_close_lose_nothing() {
    explore("commit, rotate, flush, close", || {
        race(SyncMode::None, &[watch, flush])
    });
}

/// Goal: as above, beside merges, each commit synced with those of others.
// Promise: 3, 9.
#[test]
fn synced_commits_beside_merges_and_a_close_lose_nothing() {
    explore("synced commit, rotate, flush, merge, close", || {
        race(SyncMode::Full, &[watch, merge]);
    });
}

/// Goal: a close beside commits ends, and every commit that it let through is there when the database is opened again.
// Promise: 9.
#[test]
fn a_close_beside_commits_keeps_what_was_acknowledged() {
    explore("close beside commits", || {
        let env = MemoryEnv::new(7);
        let db = Arc::new(open(&env));
        let family = db.create_family("family", family_options(SyncMode::None));
        let family = family.expect("a new family");
        let writers: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|writer| {
                let (db, family) = (Arc::clone(&db), family.clone());
                thread::spawn(move || {
                    let rounds = 0..COMMITS;
                    let names = rounds.map(|round| format!("{writer}{round}"));
                    names
                        .take_while(|name| increment(&db, &family, name))
                        .count() as u64
                })
            })
            .collect();
        db.close().expect("a healthy disk");
        let acknowledged: u64 = writers
            .into_iter()
            .map(|writer| writer.join().expect("no panic"))
            .sum();
        drop(db);
        let db = open(&env);
        let family = db.family("family").expect("it was made");
        let count = counter(&db, &family).expect("a healthy disk");
        assert_eq!(count, acknowledged);
        db.close().expect("a healthy disk");
    });
}
