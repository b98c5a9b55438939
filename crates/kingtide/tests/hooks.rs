//! Commit hooks: who is told of what, in which order, and what a hook may do.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{
    io,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

use kingtide::{
    ColumnFamily, CommitEvent, CommitHook, CommitOperation, Db, ErrorKind, FamilyOptions,
    IsolationLevel, Options, SyncMode, TransactionOptions,
};
use kingtide_env::{FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_testkit::{
    Random,
    world::{self, DATABASE},
};

fn open(env: &MemoryEnv) -> Db {
    Db::open(DATABASE, world::options(env)).expect("the database opens")
}

fn options(sync: SyncMode) -> FamilyOptions {
    FamilyOptions {
        sync,
        disk_free_bytes_min: 0,
        write_buffer_bytes: 16 << 10,
        ..FamilyOptions::default()
    }
}

fn family(db: &Db, name: &str) -> ColumnFamily {
    db.create_family(name, options(SyncMode::None)).unwrap()
}

fn hook(
    code: impl Fn(&CommitEvent<'_>) -> Result<(), String> + Send + Sync + 'static,
) -> Option<CommitHook> {
    Some(Arc::new(code))
}

/// One call, kept.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    family: String,
    sequence: u64,
    operations: Vec<String>,
}

fn words(operation: CommitOperation<'_>) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match operation {
        CommitOperation::Put {
            key,
            value,
            expires_at: 0,
        } => format!("{}={}", text(key), text(value)),
        CommitOperation::Put {
            key,
            value,
            expires_at,
        } => format!("{}={} until {expires_at}", text(key), text(value)),
        CommitOperation::Delete { key } => format!("-{}", text(key)),
        CommitOperation::SingleDelete { key } => format!("-1 {}", text(key)),
        CommitOperation::RangeDelete { start, end } => format!("-{}..{}", text(start), text(end)),
        other => panic!("unexpected: {other:?}"),
    }
}

/// A list of calls, and the hook that writes it.
fn recorder() -> (Arc<Mutex<Vec<Call>>>, Option<CommitHook>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&calls);
    let record = hook(move |event| {
        assert_eq!(event.operation_count(), event.operations().len());
        list.lock().unwrap().push(Call {
            family: event.family().to_owned(),
            sequence: event.sequence().0,
            operations: event.operations().map(words).collect(),
        });
        Ok(())
    });
    (calls, record)
}

#[test]
fn a_hook_is_told_once_a_commit_of_the_operations_as_made() {
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let (ships, ports, quiet) = (
        family(&db, "ships"),
        family(&db, "ports"),
        family(&db, "quiet"),
    );
    let (calls, record) = recorder();
    db.set_commit_hook(&ships, record.clone()).unwrap();
    db.set_commit_hook(&ports, record).unwrap();

    let mut transaction = db.begin().unwrap();
    transaction.put(&ships, b"a", b"1").unwrap();
    transaction.put(&quiet, b"q", b"1").unwrap();
    transaction.put(&ports, b"p", b"1").unwrap();
    transaction.put(&ships, b"a", b"2").unwrap();
    transaction.delete(&ships, b"a").unwrap();
    transaction.put_expiring(&ships, b"a", b"3", 7).unwrap();
    transaction.single_delete(&ships, b"b").unwrap();
    transaction.delete_range(&ships, b"a", b"c").unwrap();
    transaction.put(&ships, b"b", b"4").unwrap();
    assert!(calls.lock().unwrap().is_empty());
    let first = transaction.commit().unwrap().0;
    db.put(&quiet, b"q", b"2").unwrap();
    transaction.reset().unwrap();
    transaction.put(&ships, b"gone", b"").unwrap();
    transaction.rollback().unwrap();
    transaction.reset().unwrap();
    assert_eq!(transaction.commit().unwrap().0, 0);
    let mut behind = db
        .begin_with(TransactionOptions {
            isolation: IsolationLevel::Snapshot,
            ..TransactionOptions::default()
        })
        .unwrap();
    db.delete(&ships, b"b").unwrap();
    behind.put(&ships, b"b", b"too late").unwrap();
    assert_eq!(behind.commit().unwrap_err().kind(), ErrorKind::Conflict);

    let call = |family: &str, sequence, operations: &[&str]| Call {
        family: family.to_owned(),
        sequence,
        operations: operations.iter().map(|text| (*text).to_owned()).collect(),
    };
    let expected = [
        call(
            "ships",
            first,
            &["a=1", "a=2", "-a", "a=3 until 7", "-1 b", "-a..c", "b=4"],
        ),
        call("ports", first, &["p=1"]),
        call("ships", first + 2, &["-b"]),
    ];
    assert_eq!(*calls.lock().unwrap(), expected);
    let stats = db.family_stats(&ships).unwrap();
    assert_eq!(stats.commit_hook_calls, 2);
    assert_eq!(stats.commit_hook_failures, 0);
    db.close().unwrap();
}

const THREADS: usize = 8;
const FAMILIES: usize = 4;

/// What one thread committed: sequence number, its own number of the commit, the families.
type Committed = (u64, u64, Vec<usize>);

/// The calls of one family: sequence number, the committer's number.
type Told = Vec<(u64, u64)>;

/// Goal: calls of one family come one at a time, in order, for every commit, after it is visible and before it returns.
/// Method: threads commit to random sets of families; each hook keeps a log, which is compared with what was committed.
#[test]
fn calls_are_complete_and_in_order_whatever_runs_beside_them() {
    let env = MemoryEnv::new(2);
    let db = open(&env);
    let families: Vec<ColumnFamily> = (0..FAMILIES)
        .map(|index| {
            let sync = [SyncMode::None, SyncMode::Full][index % 2];
            db.create_family(&format!("f{index}"), options(sync))
                .unwrap()
        })
        .collect();
    let logs: Arc<Vec<Mutex<Told>>> = Arc::new((0..FAMILIES).map(|_| Mutex::default()).collect());
    for (index, handle) in families.iter().enumerate() {
        let (logs, running) = (Arc::clone(&logs), AtomicBool::new(false));
        let (db_inside, handle_inside) = (db.clone(), handle.clone());
        let record = hook(move |event| {
            assert!(!running.swap(true, Ordering::SeqCst), "one at a time");
            let operation = event.operations().next().unwrap();
            let CommitOperation::Put { key, value, .. } = operation else {
                panic!("unexpected: {operation:?}");
            };
            let seen = db_inside.get(&handle_inside, key).unwrap().unwrap();
            assert_eq!(seen, value, "the commit is visible");
            let number = u64::from_le_bytes(value.try_into().unwrap());
            logs[index]
                .lock()
                .unwrap()
                .push((event.sequence().0, number));
            running.store(false, Ordering::SeqCst);
            Ok(())
        });
        db.set_commit_hook(handle, record).unwrap();
    }
    let committed: Vec<Committed> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, families, logs) = (&db, &families, &logs);
                scope.spawn(move || commit_often(db, families, logs, thread as u64))
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    for (index, log) in logs.iter().enumerate() {
        let mut expected: Told = committed
            .iter()
            .filter(|(_, _, families)| families.contains(&index))
            .map(|(sequence, number, _)| (*sequence, *number))
            .collect();
        expected.sort_unstable();
        assert_eq!(*log.lock().unwrap(), expected, "family {index}");
        let stats = db.family_stats(&families[index]).unwrap();
        assert_eq!(stats.commit_hook_calls, expected.len() as u64);
        assert_eq!(stats.commit_hook_failures, 0, "{stats:?}");
    }
    db.close().unwrap();
}

fn commit_often(
    db: &Db,
    families: &[ColumnFamily],
    logs: &[Mutex<Told>],
    thread: u64,
) -> Vec<Committed> {
    let mut random = Random::new(thread);
    let mut committed = Vec::new();
    for round in 0..300_u64 {
        let number = thread << 32 | round;
        let mut chosen: Vec<usize> = (0..FAMILIES).filter(|_| random.one_in(2)).collect();
        if chosen.is_empty() {
            chosen.push(random.below(FAMILIES));
        }
        let mut transaction = db.begin().unwrap();
        for index in &chosen {
            transaction
                .put(
                    &families[*index],
                    format!("{thread} {round}").as_bytes(),
                    &number.to_le_bytes(),
                )
                .unwrap();
        }
        let sequence = transaction.commit().unwrap().0;
        for index in &chosen {
            let log = logs[*index].lock().unwrap();
            assert!(
                log.contains(&(sequence, number)),
                "commit returns after its call"
            );
        }
        committed.push((sequence, number, chosen));
    }
    committed
}

/// Method: the hook of each of two families writes to the other one until a counter in the value is used up, while
/// many threads commit to both. It must end, and every link of every chain must have been told.
#[test]
fn hooks_that_write_to_each_others_families_do_not_wait_for_each_other() {
    const LINKS: u8 = 3;
    const COMMITS: usize = 60;
    let env = MemoryEnv::new(3);
    let db = open(&env);
    let families = [family(&db, "left"), family(&db, "right")];
    let calls = Arc::new(AtomicUsize::new(0));
    for (index, handle) in families.iter().enumerate() {
        let (db_inside, other) = (db.clone(), families[1 - index].clone());
        let calls = Arc::clone(&calls);
        let last = AtomicU64::new(0);
        let write_on = hook(move |event| {
            calls.fetch_add(1, Ordering::SeqCst);
            let before = last.swap(event.sequence().0, Ordering::SeqCst);
            assert!(before < event.sequence().0);
            for operation in event.operations() {
                if let CommitOperation::Put { key, value, .. } = operation
                    && value[0] > 0
                {
                    db_inside.put(&other, key, &[value[0] - 1]).unwrap();
                }
            }
            Ok(())
        });
        db.set_commit_hook(handle, write_on).unwrap();
    }
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, families) = (&db, &families);
            scope.spawn(move || {
                for round in 0..COMMITS {
                    let key = format!("{thread} {round}");
                    let mut transaction = db.begin().unwrap();
                    transaction
                        .put(&families[thread % 2], key.as_bytes(), &[LINKS])
                        .unwrap();
                    transaction.commit().unwrap();
                    // The whole chain was told when the commit that began it returns.
                    let end = &families[(thread + usize::from(LINKS)) % 2];
                    assert_eq!(db.get(end, key.as_bytes()).unwrap().unwrap(), [0]);
                }
            });
        }
    });
    let links = usize::from(LINKS) + 1;
    assert_eq!(calls.load(Ordering::SeqCst), THREADS * COMMITS * links);
    for handle in &families {
        let stats = db.family_stats(handle).unwrap();
        assert_eq!(stats.commit_hook_failures, 0, "{stats:?}");
    }
    db.close().unwrap();
}

#[test]
fn a_commit_inside_a_hook_is_told_after_that_hook_with_its_own_operations() {
    let env = MemoryEnv::new(4);
    let db = open(&env);
    let (outer, inner) = (family(&db, "outer"), family(&db, "inner"));
    let (calls, record) = recorder();
    db.set_commit_hook(&inner, record).unwrap();
    let (db_inside, inner_inside, list) = (db.clone(), inner.clone(), Arc::clone(&calls));
    let write = hook(move |event| {
        let mut transaction = db_inside.begin().unwrap();
        for round in 0..2 {
            let value = event.sequence().0.to_string();
            transaction
                .put(&inner_inside, b"of", value.as_bytes())
                .unwrap();
            transaction
                .delete(&inner_inside, format!("round {round}").as_bytes())
                .unwrap();
            transaction.commit().unwrap();
            transaction.reset().unwrap();
        }
        drop(transaction);
        assert!(list.lock().unwrap().is_empty(), "not while this one runs");
        Ok(())
    });
    db.set_commit_hook(&outer, write).unwrap();
    db.put(&outer, b"k", b"v").unwrap();
    let calls = calls.lock().unwrap();
    assert_eq!(db.family_stats(&outer).unwrap().commit_hook_failures, 0);
    assert_eq!(calls.len(), 2);
    for (round, call) in calls.iter().enumerate() {
        let outer_sequence = calls[0].sequence - 1;
        assert_eq!(call.sequence, outer_sequence + 1 + round as u64);
        let expected = [format!("of={outer_sequence}"), format!("-round {round}")];
        assert_eq!(call.operations, expected);
    }
    drop(calls);
    db.close().unwrap();
}

#[test]
fn a_hook_cannot_write_to_its_own_family() {
    let env = MemoryEnv::new(5);
    let db = open(&env);
    let (own, other) = (family(&db, "own"), family(&db, "other"));
    let mut filled = db.begin().unwrap();
    filled.put(&other, b"filled", b"").unwrap();
    filled.put(&own, b"before", b"").unwrap();
    let (db_inside, own_inside, other_inside) = (db.clone(), own.clone(), other.clone());
    let (filled, ended) = (Mutex::new(filled), Arc::new(AtomicBool::new(false)));
    let has_ended = Arc::clone(&ended);
    let try_all = hook(move |_| {
        let kinds = |error: kingtide::Error| error.kind();
        let db = &db_inside;
        let busy = [
            db.put(&own_inside, b"k", b"").map_err(kinds),
            db.delete(&own_inside, b"k").map_err(kinds),
            db.single_delete(&own_inside, b"k").map_err(kinds),
            db.delete_range(&own_inside, b"a", b"z")
                .map(|_| ())
                .map_err(kinds),
            filled.lock().unwrap().commit().map(|_| ()).map_err(kinds),
        ];
        assert_eq!(busy, [Err(ErrorKind::Busy); 5]);
        // A refused write leaves the transaction as it was.
        let mut transaction = db.begin().unwrap();
        transaction.put(&other_inside, b"allowed", b"").unwrap();
        assert!(transaction.put(&own_inside, b"k", b"").is_err());
        transaction.commit().unwrap();
        assert!(db.get(&own_inside, b"k").unwrap().is_none());
        has_ended.store(true, Ordering::SeqCst);
        Ok(())
    });
    db.set_commit_hook(&own, try_all).unwrap();
    db.put(&own, b"told", b"").unwrap();
    let stats = db.family_stats(&own).unwrap();
    assert!(ended.load(Ordering::SeqCst), "{stats:?}");
    assert!(db.contains(&other, b"allowed").unwrap());
    assert!(!db.contains(&other, b"filled").unwrap());
    assert!(!db.contains(&own, b"before").unwrap());
    // Outside of the hook nothing is refused.
    db.set_commit_hook(&own, hook(|_| Ok(()))).unwrap();
    db.put(&own, b"k", b"").unwrap();
    db.close().unwrap();
}

#[test]
fn errors_and_panics_harm_neither_the_commit_nor_later_calls() {
    let env = MemoryEnv::new(6);
    let db = open(&env);
    let (shaky, other) = (family(&db, "shaky"), family(&db, "other"));
    let (calls, record) = recorder();
    db.set_commit_hook(&other, record).unwrap();
    let fail = hook(|event| {
        let operation = event.operations().next().unwrap();
        match words(operation).as_str() {
            "k=panic" => panic!("as asked"),
            "k=error" => Err("as asked".to_owned()),
            _ => Ok(()),
        }
    });
    db.set_commit_hook(&shaky, fail).unwrap();
    for (value, failures) in [("panic", 1), ("error", 2), ("fine", 2), ("panic", 3)] {
        let mut transaction = db.begin().unwrap();
        transaction.put(&shaky, b"k", value.as_bytes()).unwrap();
        transaction.put(&other, b"k", value.as_bytes()).unwrap();
        transaction.commit().unwrap();
        assert_eq!(db.get(&shaky, b"k").unwrap().unwrap(), value.as_bytes());
        let stats = db.family_stats(&shaky).unwrap();
        assert_eq!(stats.commit_hook_failures, failures);
        let said = stats.commit_hook_last_failure.unwrap();
        assert!(said.ends_with("as asked"), "{said}");
    }
    assert_eq!(calls.lock().unwrap().len(), 4);
    assert_eq!(db.family_stats(&shaky).unwrap().commit_hook_calls, 4);
    db.close().unwrap();
}

/// Method: while threads commit, hooks are set and cleared. Each hook has a flag that is raised when the call that
/// clears it has returned; a call that finds its flag up is a failure.
#[test]
fn after_a_hook_is_cleared_it_is_not_called() {
    let env = MemoryEnv::new(7);
    let db = open(&env);
    let handle = family(&db, "f");
    let (is_over, begun) = (AtomicBool::new(false), Barrier::new(5));
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (db, handle, is_over, begun) = (&db, &handle, &is_over, &begun);
            scope.spawn(move || {
                begun.wait();
                while !is_over.load(Ordering::SeqCst) {
                    db.put(handle, &[thread + 1], b"").unwrap();
                }
            });
        }
        begun.wait();
        for round in 0..200 {
            let is_cleared = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&is_cleared);
            let late = hook(move |_| {
                if flag.load(Ordering::SeqCst) {
                    return Err("called after it was cleared".to_owned());
                }
                Ok(())
            });
            db.set_commit_hook(&handle, late).unwrap();
            let next = (round % 2 == 0).then(|| hook(|_| Ok(()))).flatten();
            db.set_commit_hook(&handle, next).unwrap();
            is_cleared.store(true, Ordering::SeqCst);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let stats = db.family_stats(&handle).unwrap();
    assert_eq!(stats.commit_hook_failures, 0, "{stats:?}");
    db.close().unwrap();
}

#[test]
fn a_hook_can_clear_itself_and_is_told_of_nothing_before_it_was_set() {
    let env = MemoryEnv::new(8);
    let db = open(&env);
    let handle = family(&db, "f");
    db.put(&handle, b"before", b"").unwrap();
    let (db_inside, handle_inside) = (db.clone(), handle.clone());
    let once = hook(move |_| {
        db_inside.set_commit_hook(&handle_inside, None).unwrap();
        Ok(())
    });
    db.set_commit_hook(&handle, once).unwrap();
    for _ in 0..3 {
        db.put(&handle, b"k", b"").unwrap();
    }
    assert_eq!(db.family_stats(&handle).unwrap().commit_hook_calls, 1);
    db.close().unwrap();
}

#[test]
fn renamed_dropped_and_closed_families() {
    let env = MemoryEnv::new(9);
    let db = open(&env);
    let (renamed, dropped) = (family(&db, "old"), family(&db, "dropped"));
    let (calls, record) = recorder();
    db.set_commit_hook(&renamed, record.clone()).unwrap();
    db.rename_family("old", "new").unwrap();
    db.put(&renamed, b"k", b"v").unwrap();
    assert_eq!(calls.lock().unwrap()[0].family, "new");
    let copy = db.clone_family("new", "copy").unwrap();
    db.put(&copy, b"k", b"v").unwrap();
    assert_eq!(calls.lock().unwrap().len(), 1, "a clone has no hook");

    // What a hook owns is given back.
    let owned = Arc::new(());
    let owner = |db: &Db| {
        let kept = (Arc::clone(&owned), db.clone());
        hook(move |_| {
            let _ = &kept;
            Ok(())
        })
    };
    db.set_commit_hook(&dropped, owner(&db)).unwrap();
    assert_eq!(Arc::strong_count(&owned), 2);
    db.drop_family("dropped").unwrap();
    assert_eq!(Arc::strong_count(&owned), 1);
    let kind = |outcome: kingtide::Result<()>| outcome.unwrap_err().kind();
    assert_eq!(
        kind(db.set_commit_hook(&dropped, owner(&db))),
        ErrorKind::NotFound
    );
    db.set_commit_hook(&renamed, owner(&db)).unwrap();
    let other_env = MemoryEnv::new(10);
    let other = open(&other_env);
    assert_eq!(
        kind(other.set_commit_hook(&renamed, None)),
        ErrorKind::InvalidArgument
    );
    other.close().unwrap();
    db.close().unwrap();
    assert_eq!(Arc::strong_count(&owned), 1);
    assert_eq!(
        kind(db.set_commit_hook(&renamed, record)),
        ErrorKind::Closed
    );

    // Not stored.
    let db = open(&env);
    db.put(&db.family("new").unwrap(), b"k", b"v").unwrap();
    assert_eq!(calls.lock().unwrap().len(), 1);
    db.close().unwrap();
}

/// A database whose calls can be made to fail, and a family whose commits are synced.
fn faulty(seed: u64) -> (FaultyEnv, Db, ColumnFamily) {
    let env = FaultyEnv::new(Arc::new(MemoryEnv::new(seed)));
    let settings = Options {
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    };
    let db = Db::open(DATABASE, settings).unwrap();
    let family = db.create_family("f", options(SyncMode::Full)).unwrap();
    (env, db, family)
}

/// Method: the first sync fails while several commits wait for it. None of them is told of, and none hangs.
// Promise: 4.
#[test]
fn a_commit_of_unknown_outcome_is_not_told_of() {
    let (faulty, db, handle) = faulty(11);
    let (calls, record) = recorder();
    db.set_commit_hook(&handle, record).unwrap();
    db.put(&handle, b"k", b"v").unwrap();
    faulty.fail(Rule {
        operation: Operation::Sync,
        name_contains: ".wal".to_owned(),
        nth: 1,
        error: io::ErrorKind::Other,
        times: Times::Forever,
    });
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (db, handle) = (&db, &handle);
            scope.spawn(move || {
                let error = db.put(handle, &[thread + 1], b"").unwrap_err();
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::OutcomeUnknown | ErrorKind::ReopenRequired
                    ),
                    "{error}"
                );
            });
        }
    });
    // Waits for no ticket that was given up.
    db.set_commit_hook(&handle, None).unwrap();
    assert_eq!(calls.lock().unwrap().len(), 1);
    let _ = db.close();
}

/// Goal: a transaction whose commit failed keeps nobody waiting while the program still holds it. Method: the hook is cleared
/// meanwhile, which waits for all turns.
#[test]
fn a_failed_transaction_that_is_held_gives_its_turn_up() {
    let (faulty, db, handle) = faulty(12);
    let (calls, record) = recorder();
    db.set_commit_hook(&handle, record).unwrap();
    let mut held = db.begin().unwrap();
    held.put(&handle, b"k", b"v").unwrap();
    faulty.fail(Rule {
        operation: Operation::Sync,
        name_contains: ".wal".to_owned(),
        nth: 1,
        error: io::ErrorKind::Other,
        times: Times::Once,
    });
    let error = held.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    db.set_commit_hook(&handle, None).unwrap();
    assert!(calls.lock().unwrap().is_empty());
    drop(held);
}
