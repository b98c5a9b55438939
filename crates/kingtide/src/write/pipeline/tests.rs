//! Commits of a whole database whose disk is full or fails, and of a pipeline alone, in the world in memory.

use std::{cell::Cell, io, path::Path};

use kingtide_base::{DatabaseId, EntryKind, SegmentId, limits};
use kingtide_collections::MemoryBudget;
use kingtide_env::{CrashImage, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_format::Op;
use kingtide_policy::ValueRoom;

use super::*;
use crate::{
    ColumnFamily, Compression, Db, FamilyOptions, Options, SyncMode, budget::Plan, family::testing,
    read::newer::Answering, version::Version, wal::Blank,
};

const PATH: &str = "/db";

fn open(env: Arc<dyn kingtide_env::Env>) -> Db {
    let options = Options {
        env: Some(env),
        // Long values are to go through the log.
        spill_bytes_min: 0,
        ..Options::default()
    };
    Db::open(PATH, options).expect("the database opens")
}

/// A family whose values take in the log what they are long.
fn family(db: &Db, name: &str, sync: SyncMode) -> ColumnFamily {
    let options = FamilyOptions {
        compression: Compression::None,
        sync,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    db.open_family(name, options).expect("it can be made")
}

/// A database in a world whose calls can be made to fail, with one commit in family `f`.
fn faulty(sync: SyncMode) -> (MemoryEnv, FaultyEnv, Db, ColumnFamily) {
    let env = MemoryEnv::new(1);
    let faulty = FaultyEnv::new(Arc::new(env.clone()));
    let db = open(Arc::new(faulty.clone()));
    let f = family(&db, "f", sync);
    db.put(&f, b"before", b"v").expect("healthy");
    (env, faulty, db, f)
}

fn once(operation: Operation, error: io::ErrorKind) -> Rule {
    Rule {
        operation,
        name_contains: ".wal".to_owned(),
        nth: 1,
        error,
        times: Times::Once,
    }
}

fn kind<T>(outcome: crate::Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

fn keys(db: &Db, f: &ColumnFamily, keys: &[&[u8]]) -> Vec<bool> {
    keys.iter()
        .map(|key| db.contains(f, key).expect("reads go on"))
        .collect()
}

/// What a new opening finds after a kill.
fn after_kill(env: &MemoryEnv, wanted: &[&[u8]]) -> Vec<bool> {
    let found = env.kill();
    let db = open(Arc::new(found));
    let f = db.family("f").expect("it was made");
    keys(&db, &f, wanted)
}

/// Goal: replay of a record in parts begins at its first part, whichever segment the last one is in. Method: the record
/// is the first of its memtable; the flush of another family moves the log's start up to it; the process is killed.
#[test]
fn the_log_keeps_all_parts_of_a_long_record() {
    let env = MemoryEnv::new(1);
    let db = open(Arc::new(env.clone()));
    let f = family(&db, "f", SyncMode::None);
    let other = family(&db, "other", SyncMode::None);
    db.put(&other, b"k", b"v").expect("healthy");
    let value = vec![7; 1 << 20];
    let mut transaction = db.begin().expect("open");
    for number in 0..18_u8 {
        transaction.put(&f, &[number], &value).expect("short");
    }
    transaction.commit().expect("healthy");
    db.flush(&other).expect("healthy");
    let wanted: Vec<[u8; 1]> = (0..18).map(|number| [number]).collect();
    let wanted: Vec<&[u8]> = wanted.iter().map(|key| &key[..]).collect();
    assert_eq!(after_kill(&env, &wanted), [true; 18]);
}

/// Goal: a full disk is told before anything is written, and writing goes on when there is space. Method: a record that
/// needs another segment, while the capacity does not hold one.
#[test]
fn a_full_disk_refuses_a_commit_that_needs_another_segment() {
    let env = MemoryEnv::new(2);
    let db = open(Arc::new(env.clone()));
    let f = family(&db, "f", SyncMode::Full);
    db.put(&f, b"before", b"v").expect("healthy");
    let used: usize = env
        .paths()
        .iter()
        .filter_map(|path| env.read_file(path))
        .map(|bytes| bytes.len())
        .sum();
    env.set_capacity(Some(used as u64 + (200 << 10)));
    let value = vec![1; 1 << 20];
    for _ in 0..3 {
        assert_eq!(kind(db.put(&f, b"long", &value)), Some(ErrorKind::DiskFull));
    }
    db.put(&f, b"short", b"v")
        .expect("the segment has room for it");
    assert_eq!(
        keys(&db, &f, &[b"before", b"long", b"short"]),
        [true, false, true]
    );
    env.set_capacity(None);
    db.put(&f, b"long", &value).expect("there is space again");
    let found = env.crash(CrashImage::NothingUnsynced, 0);
    assert_eq!(
        after_kill(&found, &[b"before", b"long", b"short"]),
        [true; 3]
    );
}

/// Goal: a segment that cannot be made durable is given up, and nothing else. Method: its sync fails once; the commit
/// that needed it is refused, the next one finds another.
#[test]
fn a_blank_that_cannot_be_synced_stops_nothing() {
    let (env, faulty, db, f) = faulty(SyncMode::Full);
    faulty.fail(once(Operation::Sync, io::ErrorKind::Other));
    let value = vec![1; 1 << 20];
    assert_eq!(kind(db.put(&f, b"long", &value)), Some(ErrorKind::Io));
    assert_eq!(keys(&db, &f, &[b"long"]), [false]);
    db.put(&f, b"long", &value).expect("the log goes on");
    let found = env.crash(CrashImage::NothingUnsynced, 0);
    assert_eq!(after_kill(&found, &[b"before", b"long"]), [true; 2]);
}

/// Goal: an append that fails stops the log: the commit's outcome is unknown, later ones are refused, reads go on, and
/// the next opening has the commit wholly or not at all. Method: the write of the record fails, that of a new segment's
/// header, and that of a long record's second part.
#[test]
fn a_failed_append_is_final() {
    for (nth, bytes) in [(1, 10), (1, 1 << 20), (2, 1 << 20), (4, 17 << 20)] {
        let (env, faulty, db, f) = faulty(SyncMode::None);
        faulty.fail(Rule {
            nth,
            ..once(Operation::Write, io::ErrorKind::Other)
        });
        let mut transaction = db.begin().expect("open");
        for key in [b"left".as_slice(), b"right"] {
            transaction
                .put(&f, key, &vec![1; bytes / 2])
                .expect("short");
        }
        assert_eq!(
            kind(transaction.commit()),
            Some(ErrorKind::OutcomeUnknown),
            "write {nth}"
        );
        assert_eq!(
            kind(db.put(&f, b"after", b"v")),
            Some(ErrorKind::ReopenRequired)
        );
        assert_eq!(kind(db.sync_wal()), Some(ErrorKind::ReopenRequired));
        assert_eq!(kind(db.flush(&f)), Some(ErrorKind::ReopenRequired));
        let wanted: [&[u8]; 4] = [b"before", b"left", b"right", b"after"];
        assert_eq!(keys(&db, &f, &wanted), [true, false, false, false]);
        assert_eq!(kind(db.close()), Some(ErrorKind::ReopenRequired));
        let found = after_kill(&env, &wanted);
        assert!(found[0] && !found[3], "write {nth}: {found:?}");
        assert_eq!(found[1], found[2], "write {nth}: half a transaction");
    }
}

/// Goal: a sync that fails stops the log, whoever made it. Method: the sync of a commit, and one by `sync_wal`.
#[test]
fn a_failed_sync_is_final() {
    for sync in [SyncMode::Full, SyncMode::None] {
        let (env, faulty, db, f) = faulty(sync);
        faulty.fail(once(Operation::Sync, io::ErrorKind::Other));
        match sync {
            SyncMode::Full => assert_eq!(
                kind(db.put(&f, b"during", b"v")),
                Some(ErrorKind::OutcomeUnknown)
            ),
            _ => assert_eq!(kind(db.sync_wal()), Some(ErrorKind::ReopenRequired)),
        }
        assert_eq!(
            kind(db.put(&f, b"after", b"v")),
            Some(ErrorKind::ReopenRequired)
        );
        assert_eq!(
            keys(&db, &f, &[b"before", b"during", b"after"]),
            [true, false, false]
        );
        assert_eq!(kind(db.close()), Some(ErrorKind::ReopenRequired));
        let found = after_kill(&env, &[b"before", b"after"]);
        assert_eq!(found, [true, false]);
    }
}

/// A pipeline without a database, and a family to write to.
fn pipeline() -> (Pipeline, Arc<Family>) {
    let options = FamilyOptions {
        compression: Compression::None,
        ..testing::small("memcmp")
    };
    let pipeline = pipeline_within(MemoryRoom::unlimited());
    (pipeline, testing::family(1, options))
}

fn pipeline_within(memory: MemoryRoom) -> Pipeline {
    let env = MemoryEnv::new(3);
    let log_directory = env
        .open_directory(Path::new("/wal"), true)
        .expect("it can be made");
    let blank = Blank::create(&env, log_directory.as_ref(), 1, 0, false).expect("there is room");
    let tail =
        Tail::begin(blank, SegmentId(1), Lsn(0), DatabaseId(1)).expect("the header is written");
    Pipeline::new(PipelineParts {
        env: Arc::new(env),
        log_directory,
        log: CommitLog::new(tail, 2, LockTable::default()),
        last: SeqNo(10),
        memory,
        wait_max: Duration::from_secs(60),
        memtables: MemtableSource::unbounded(),
        prepared: PreparedNames::default(),
    })
}

fn write_set(family: &Arc<Family>, key: &[u8], value: &[u8]) -> WriteSet {
    let mut writes = WriteSet::default();
    let op = Op {
        kind: EntryKind::Put,
        key,
        value,
        expires_at: 0,
    };
    writes.push(family, &op).expect("short");
    writes
}

/// Goal: a commit is packed while memory holds it twice, and written as it is when it is short. Method: commits of one kind,
/// with ever less left of the budget.
#[test]
fn commits_are_packed_while_memory_is_ample() {
    const LIMIT: usize = 16 << 20;
    const BYTES: usize = 20_000;
    let plan = Plan::of(LIMIT, 0);
    let budget = MemoryBudget::new(LIMIT);
    let ample = plan.ample_bytes;
    let pipeline = pipeline_within(MemoryRoom::new(plan, Arc::clone(&budget), None));
    let family = testing::family(1, testing::small("memcmp"));
    let log_bytes = |left: usize| {
        let _held = budget.charge(Account::Transactions, ample - left - budget.used());
        let before = pipeline.order.lock().log.tail.bytes_written();
        let mut writes = write_set(&family, b"key", &[1; 1000]);
        for number in 1..BYTES / 1000 {
            let op = Op {
                kind: EntryKind::Put,
                key: &number.to_be_bytes(),
                value: &[1; 1000],
                expires_at: 0,
            };
            writes.push(&family, &op).expect("short");
        }
        pipeline
            .commit(&mut writes, Durability::Kernel, None)
            .expect("there is room");
        pipeline.order.lock().log.tail.bytes_written() - before
    };
    assert!(log_bytes(3 * BYTES) < 1000);
    assert!(log_bytes(BYTES + BYTES / 2) > BYTES as u64);
}

/// Goal: nothing is looked up for a commit that nobody came before since its snapshot, and everything is for the next one
/// at the same snapshot, which the first one came before. Method: the lookup in tables is counted.
#[test]
fn a_commit_that_nobody_came_before_looks_nothing_up() {
    let (pipeline, family) = pipeline();
    let looks = Cell::new(0);
    let tables = Answering(|_: &Family, _: &Version, _: (&[u8], _), _| {
        looks.set(looks.get() + 1);
        Ok(None)
    });
    let validation = Validation {
        snapshot: Some(SeqNo(10)),
        reads: None,
        tables: &tables,
    };
    let commit = |key: &[u8]| {
        let mut writes = write_set(&family, key, b"v");
        pipeline.commit(&mut writes, Durability::Kernel, Some(validation))
    };
    assert_eq!(commit(b"key").expect("nobody came before"), SeqNo(11));
    assert_eq!(looks.get(), 0);
    assert_eq!(commit(b"other").expect("another key"), SeqNo(12));
    assert_eq!(looks.get(), 1);
    assert_eq!(kind(commit(b"key")), Some(ErrorKind::Conflict));
}

/// Goal: a memtable that waits for its flush counts by what of it is not written yet, beside the active one. Method: its
/// entries are told as written, half of them and then all.
#[test]
fn what_waits_counts_by_what_is_left_to_write() {
    let (pipeline, family) = pipeline();
    while family.load().sealed.is_empty() {
        let mut writes = write_set(&family, b"key", &[1; 1000]);
        pipeline
            .commit(&mut writes, Durability::Kernel, None)
            .expect("there is room");
    }
    let current = family.load_full();
    let sealed = &current.sealed[0].table;
    let backlog = || {
        let standing = pipeline.standing(&family, 0.0);
        assert_eq!(standing.room, 11.0, "ten may wait beside the active one");
        standing.backlog.expect("one waits") - current.active.table.fill()
    };
    let whole = backlog();
    assert!((0.9..1.1).contains(&whole), "{whole} memtables");
    let half = sealed.entries() / 2;
    sealed.note_passed(half);
    let some = backlog();
    assert!((0.5..0.6).contains(&(some / whole)), "{some} of {whole}");
    sealed.note_passed(sealed.entries() - half);
    let least = backlog();
    assert!(
        (0.05..0.15).contains(&(least / whole)),
        "{least} of {whole}"
    );
}

/// Goal: a memtable of many runs is told of, by the commits that add them and not by the small ones in between.
#[test]
fn many_runs_are_told_of() {
    #[derive(Default)]
    struct Told(AtomicU64);
    impl Attention for Told {
        fn sealed(&self, _: &Arc<Family>) {}
        fn many_runs(&self, _: &Arc<Family>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn read_again(&self, _: &Arc<Family>) {}
    }
    let (pipeline, _) = pipeline();
    let told = Arc::new(Told::default());
    pipeline.set_attention(Arc::clone(&told) as _);
    let options = FamilyOptions {
        write_buffer_bytes: 16 << 20,
        ..testing::small("memcmp")
    };
    let family = testing::family(2, options);
    let commit = |count: usize| {
        let mut writes = WriteSet::default();
        for number in 0..count {
            let op = Op {
                kind: EntryKind::Put,
                key: &number.to_be_bytes(),
                value: b"v",
                expires_at: 0,
            };
            writes.push(&family, &op).expect("short");
        }
        let commit = pipeline.commit(&mut writes, Durability::Kernel, None);
        let sequence = commit.expect("there is room");
        assert!(sequence.0 < RUN_CHECK_PERIOD, "every so often all look");
        told.0.load(Ordering::Relaxed)
    };
    for _ in 1..RUNS_MAX {
        assert_eq!(commit(limits::RUN_ENTRIES_MIN), 0, "not many yet");
    }
    assert_eq!(commit(limits::RUN_ENTRIES_MIN), 1);
    assert_eq!(commit(1), 1, "adds no run");
    assert_eq!(commit(limits::RUN_ENTRIES_MIN), 2);
}

/// Goal: value files that take more than they may hold writers back, and only as long as somebody sees to them. Method: the
/// room is told, and taken back.
#[test]
fn full_value_files_hold_writers_back() {
    let (pipeline, family) = pipeline();
    let writes = write_set(&family, b"key", b"v");
    let admission = || {
        pipeline.note_backlog(&family);
        // Relaxed: one thread.
        let is_behind = family.is_behind.load(Ordering::Relaxed);
        let admission = pipeline.admission(&writes, 0);
        assert_eq!(is_behind, admission.is_some());
        admission
    };
    let room = |taken, most| family.value_room.note(ValueRoom { taken, most });
    assert_eq!(admission(), None);
    room(100, 200);
    assert_eq!(admission(), None);
    room(160, 200);
    let close = admission().expect("close to the bound");
    room(210, 200);
    let beyond = admission().expect("beyond it");
    assert!(close < 1.0 && beyond < 0.1, "{close}, {beyond}");
    family.value_room.clear();
    assert_eq!(admission(), None);
}

/// Goal: when tables are installed between validation and the ordered step, validation is done again, and what it finds
/// then counts. Method: the lookup in tables installs others itself, the first two times; the third look finds nothing,
/// or a newer commit.
#[test]
fn validation_is_repeated_until_the_tables_stand_still() {
    for newest in [None, Some(SeqNo(9)), Some(SeqNo(10))] {
        let (pipeline, family) = pipeline();
        let looks = Cell::new(0);
        let tables = Answering(|family: &Family, _: &Version, _: (&[u8], _), _| {
            looks.set(looks.get() + 1);
            if looks.get() > 2 {
                return Ok(newest);
            }
            let version = Arc::new(Version::empty(family.order.clone()));
            family.update(|current| current.with_version(version, None));
            Ok(None)
        });
        let validation = Validation {
            snapshot: Some(SeqNo(9)),
            reads: None,
            tables: &tables,
        };
        let mut writes = write_set(&family, b"key", b"v");
        let outcome = pipeline.commit(&mut writes, Durability::Kernel, Some(validation));
        assert_eq!(looks.get(), 3);
        let is_conflict = newest > Some(SeqNo(9));
        if is_conflict {
            assert_eq!(kind(outcome), Some(ErrorKind::Conflict));
            assert!(
                family.load().active.table.is_empty(),
                "something was written"
            );
            assert_eq!(pipeline.order.lock().log.tail.position(), Lsn(0));
        } else {
            assert_eq!(outcome.expect("no conflict"), SeqNo(11));
            assert_eq!(pipeline.order.visible(), SeqNo(11));
        }
    }
}

/// Goal: the first committer wins, whether or not its memtable was sealed since; a transaction that began afterwards is
/// not disturbed.
#[test]
fn the_first_committer_wins() {
    let (pipeline, family) = pipeline();
    let at = |snapshot: u64| Validation {
        snapshot: Some(SeqNo(snapshot)),
        reads: None,
        tables: &Answering(|_: &Family, _: &Version, _: (&[u8], _), _| Ok(None)),
    };
    let commit = |snapshot: u64| {
        let mut writes = write_set(&family, b"key", b"v");
        pipeline.commit(&mut writes, Durability::Kernel, Some(at(snapshot)))
    };
    assert_eq!(commit(10).expect("the first"), SeqNo(11));
    assert_eq!(kind(commit(10)), Some(ErrorKind::Conflict));
    assert_eq!(commit(11).expect("it saw the first"), SeqNo(12));
    let full = Arc::clone(&family.load().active);
    pipeline
        .rotate(&family, &full, (0, 0))
        .expect("there is room");
    assert_eq!(family.load().sealed.len(), 1);
    assert_eq!(kind(commit(11)), Some(ErrorKind::Conflict));
    assert_eq!(commit(12).expect("it saw the second"), SeqNo(13));
}

/// Goal: a full memtable is sealed once and a larger one takes a transaction that no usual one holds; where each
/// record lies in the log is known. Method: short commits, then one of four times the memtable's size.
#[test]
fn a_full_memtable_is_sealed_and_a_large_transaction_gets_its_own() {
    let (pipeline, family) = pipeline();
    let mut ends = Vec::new();
    for bytes in [100, 200, 256 << 10, 100] {
        let start = pipeline.order.lock().log.tail.position();
        let mut writes = write_set(&family, b"key", &vec![1; bytes]);
        pipeline
            .commit(&mut writes, Durability::Device, None)
            .expect("there is room");
        ends.push((start, pipeline.order.lock().log.tail.position()));
    }
    let current = family.load_full();
    let spans: Vec<_> = current
        .memories()
        .filter_map(|memory| memory.span())
        .map(|span| (span.start, span.end))
        .collect();
    assert_eq!(
        spans,
        [ends[3], ends[2], (ends[0].0, ends[1].1)],
        "newest first"
    );
    assert_eq!(pipeline.order.durable(), ends[3].1);
    assert_eq!(pipeline.counts(), (4, 4));
    let stale = Arc::clone(current.sealed.last().expect("it was sealed"));
    pipeline
        .rotate(&family, &stale, (0, 0))
        .expect("somebody was faster");
    assert_eq!(family.load().sealed.len(), 2, "sealed twice");
}

/// Goal: a memtable is in huge pages if the one before it was filled and there is ample memory; a family's first one is not,
/// nor is one that follows after little was written. Method: commits of 1 MiB until a memtable is sealed, then memtables that
/// are replaced by hand.
#[test]
#[cfg(not(miri))]
fn the_memtable_after_a_full_one_is_in_huge_pages() {
    let (mut pipeline, _) = pipeline();
    let family = testing::family(
        2,
        FamilyOptions {
            write_buffer_bytes: 16 << 20,
            ..testing::small("memcmp")
        },
    );
    let key_order = family.order.clone();
    let pool = kingtide_collections::ArenaPool::new(0);
    // False where the system knows no huge pages.
    let wanted =
        kingtide_collections::Memtable::in_pages(PageSize::Huge, key_order, &pool, 16 << 20, 1)
            .is_huge();
    let active = || Arc::clone(&family.load().active);
    let value = vec![1; 1 << 20];
    let first = active();
    let put = |pipeline: &Pipeline| {
        let mut writes = write_set(&family, b"key", &value);
        pipeline
            .commit(&mut writes, Durability::Kernel, None)
            .expect("there is room");
    };
    while family.load().sealed.is_empty() {
        assert!(!active().table.is_huge());
        put(&pipeline);
    }
    assert!(first.table.fill() > 0.8);
    assert_eq!(active().table.is_huge(), wanted);
    assert!(active().takes_room);
    pipeline.replace_active(&family, &active(), (0, 0));
    assert!(!active().table.is_huge(), "after 1 of 7 MiB");

    for _ in 0..5 {
        put(&pipeline);
    }
    let budget = kingtide_collections::MemoryBudget::new(64 << 20);
    budget.add(kingtide_collections::Account::Memtables, 50 << 20);
    let plan = crate::budget::Plan::of(64 << 20, 0);
    pipeline.memory = MemoryRoom::new(plan, budget, None);
    pipeline.replace_active(&family, &active(), (0, 0));
    assert_eq!(family.load().sealed.len(), 3);
    assert!(!active().table.is_huge(), "memory is short");
}

/// Goal: no memtable is made in new memory while that of one that was flushed is about to be free. Method: the moments of a
/// flush, by hand: the last sealed memtable has left, then its memory is there.
#[test]
fn the_next_memtable_waits_for_the_memory_of_one_that_was_flushed() {
    let (pipeline, family) = pipeline();
    let giving_back = |is| family.is_giving_back.store(is, Ordering::Relaxed);
    assert!(pipeline.may_seal(&family));
    giving_back(true);
    assert!(!pipeline.may_seal(&family));
    let active = Arc::clone(&family.load().active);
    pipeline.try_rotate(&family, &active);
    assert!(Arc::ptr_eq(&family.load().active, &active), "not yet");
    giving_back(false);
    assert!(pipeline.may_seal(&family));
    pipeline.try_rotate(&family, &active);
    assert!(!Arc::ptr_eq(&family.load().active, &active));
}

/// Goal: writers wait for room beside each other, not each for the bound of the one before, and one of them exchanges the memtable.
/// Method: both have begun to wait before there is room.
#[test]
fn writers_wait_for_room_beside_each_other() {
    let (pipeline, family) = pipeline();
    let full = Arc::clone(&family.load().active);
    family.is_giving_back.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let waiting = [(); 2].map(|()| scope.spawn(|| pipeline.rotate(&family, &full, (0, 0))));
        while pipeline.stall.counts().0 < 2 {
            std::thread::yield_now();
        }
        assert!(Arc::ptr_eq(&family.load().active, &full));
        family.is_giving_back.store(false, Ordering::Relaxed);
        pipeline.stall.add();
        pipeline.stall.subtract();
        for waiting in waiting {
            let outcome = waiting.join().expect("no panic");
            outcome.expect("there is room");
        }
    });
    assert!(!Arc::ptr_eq(&family.load().active, &full));
}

/// Goal: after a close nothing is committed, and a dropped family takes nothing.
#[test]
fn closed_and_dropped_are_refused() {
    let (pipeline, family) = pipeline();
    let other = testing::family(2, testing::small("memcmp"));
    other.set_dropped();
    let commit = |family: &Arc<Family>| {
        let mut writes = write_set(family, b"key", b"v");
        pipeline.commit(&mut writes, Durability::Kernel, None)
    };
    assert_eq!(kind(commit(&other)), Some(ErrorKind::NotFound));
    commit(&family).expect("open");
    pipeline.close();
    assert_eq!(kind(commit(&family)), Some(ErrorKind::Closed));
}

/// Goal: of two wishes for durability the stricter one counts.
#[test]
fn the_stricter_durability_counts() {
    let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    let ordered = [
        Durability::Kernel,
        Durability::Within(minute),
        Durability::Within(second),
        Durability::Device,
    ];
    for (left, one) in ordered.into_iter().enumerate() {
        for (right, other) in ordered.into_iter().enumerate() {
            assert_eq!(one.stricter(other), ordered[left.max(right)]);
        }
    }
}

/// Goal: the next segment is secured ahead of need, once, and not before. Method: more than half a segment is written.
#[test]
fn a_blank_is_made_when_half_of_the_segment_is_used() {
    let (pipeline, family) = pipeline();
    let prepare = || {
        pipeline.prepare_blank().expect("there is room");
        pipeline.log_directory.list().expect("healthy").len()
    };
    let before = prepare();
    assert_eq!(prepare(), before, "not needed yet");
    let mut writes = write_set(&family, b"key", &vec![1; 600 << 10]);
    pipeline
        .commit(&mut writes, Durability::Kernel, None)
        .expect("there is room");
    assert_eq!(prepare(), before + 1);
    assert_eq!(prepare(), before + 1, "one is there");
}

/// Goal: a commit wakes a keeper that sleeps because the log is quiet, and leaves one alone that is at work.
#[test]
fn a_commit_wakes_the_keeper_that_sleeps_for_long() {
    let (pipeline, family) = pipeline();
    let claim = || pipeline.order.lock().log.tail.claim_window();
    while let Some((segment, offset)) = claim() {
        segment.prepare_window(offset);
    }
    let commit_wakes = || {
        let mut writes = write_set(&family, b"key", b"value");
        pipeline
            .commit(&mut writes, Durability::Kernel, None)
            .expect("there is room");
        pipeline.keeper.is_nudged.load(Ordering::Relaxed)
    };
    assert!(!commit_wakes());
    pipeline.keeper.set_idle(true);
    assert!(commit_wakes());
}
