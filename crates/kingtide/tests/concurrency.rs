//! Several threads at a time: no lost updates, no torn reads, while memtables rotate and tables merge.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::thread;

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, IsolationLevel, IterOptions, SyncMode,
    TransactionOptions,
};
use kingtide_env::MemoryEnv;
use kingtide_testkit::{Random, world};

const ACCOUNTS: usize = 20;
const START: u64 = 1000;

fn small(sync: SyncMode) -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 8 << 10,
        l1_file_count_trigger: 2,
        disk_free_bytes_min: 0,
        sync,
        ..FamilyOptions::default()
    }
}

fn account(number: usize) -> Vec<u8> {
    format!("account{number:03}").into_bytes()
}

fn amount(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("an account holds eight bytes"))
}

fn snapshot_options() -> TransactionOptions {
    TransactionOptions {
        isolation: IsolationLevel::Snapshot,
        ..TransactionOptions::default()
    }
}

/// Moves one unit; false when another transaction was first.
fn transfer(db: &Db, accounts: &ColumnFamily, from: usize, to: usize) -> bool {
    let mut transaction = db.begin_with(snapshot_options()).unwrap();
    let read = |number: usize| {
        amount(
            &transaction
                .get(accounts, &account(number))
                .unwrap()
                .unwrap(),
        )
    };
    let (source, target) = (read(from), read(to));
    if from == to || source == 0 {
        return true;
    }
    transaction
        .put(accounts, &account(from), &(source - 1).to_le_bytes())
        .unwrap();
    transaction
        .put(accounts, &account(to), &(target + 1).to_le_bytes())
        .unwrap();
    match transaction.commit() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            false
        }
    }
}

/// The sum as one iterator sees it.
fn total(db: &Db, accounts: &ColumnFamily) -> u64 {
    let mut iter = db.iter(accounts, IterOptions::default()).unwrap();
    let mut sum = 0;
    let mut count = 0;
    let mut is_valid = iter.seek_to_first().unwrap();
    while is_valid {
        sum += amount(iter.value().unwrap());
        count += 1;
        is_valid = iter.next().unwrap();
    }
    assert_eq!(count, ACCOUNTS);
    sum
}

// Promise: snapshot.
#[test]
fn transfers_keep_the_sum_in_every_view() {
    let env = MemoryEnv::new(21);
    let db = Db::open(world::DATABASE, world::options(&env)).unwrap();
    let accounts = db.create_family("accounts", small(SyncMode::None)).unwrap();
    for number in 0..ACCOUNTS {
        db.put(&accounts, &account(number), &START.to_le_bytes())
            .unwrap();
    }
    let wanted = START * ACCOUNTS as u64;
    thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (db, accounts) = (&db, &accounts);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..4_000 {
                    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                    while !transfer(db, accounts, from, to) {}
                }
            });
        }
        let (db, accounts) = (&db, &accounts);
        scope.spawn(move || {
            for round in 0..300 {
                assert_eq!(total(db, accounts), wanted);
                if round % 20 == 0 {
                    db.flush(accounts).unwrap();
                }
            }
        });
    });
    assert_eq!(total(&db, &accounts), wanted);
    db.close().unwrap();
}

// Promise: levels.
#[test]
fn increments_are_never_lost() {
    let env = MemoryEnv::new(22);
    let db = Db::open(world::DATABASE, world::options(&env)).unwrap();
    let family = db.create_family("counters", small(SyncMode::Full)).unwrap();
    db.put(&family, b"counter", &0_u64.to_le_bytes()).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut done = 0;
                while done < 1_000 {
                    let mut transaction = db.begin_with(snapshot_options()).unwrap();
                    let value = amount(&transaction.get(&family, b"counter").unwrap().unwrap());
                    transaction
                        .put(&family, b"counter", &(value + 1).to_le_bytes())
                        .unwrap();
                    match transaction.commit() {
                        Ok(_) => done += 1,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(
        amount(&db.get(&family, b"counter").unwrap().unwrap()),
        4_000
    );
    db.close().unwrap();
}

/// An acknowledged commit is visible to everything that begins afterwards, in its own thread and others.
// Promise: snapshot.
#[test]
fn acknowledged_commits_are_visible_at_once() {
    let env = MemoryEnv::new(23);
    let db = Db::open(world::DATABASE, world::options(&env)).unwrap();
    let family = db.create_family("f", small(SyncMode::None)).unwrap();
    thread::scope(|scope| {
        for thread in 0..3 {
            let (db, family) = (&db, &family);
            scope.spawn(move || {
                let sync = [SyncMode::None, SyncMode::Full, SyncMode::None][thread];
                for number in 0..3_000_u64 {
                    let key = format!("thread{thread}").into_bytes();
                    let mut transaction = db
                        .begin_with(TransactionOptions {
                            sync: Some(sync),
                            ..TransactionOptions::default()
                        })
                        .unwrap();
                    transaction
                        .put(family, &key, &number.to_le_bytes())
                        .unwrap();
                    transaction.commit().unwrap();
                    assert_eq!(amount(&db.get(family, &key).unwrap().unwrap()), number);
                    let snapshot = db.snapshot().unwrap();
                    assert_eq!(
                        amount(&snapshot.get(family, &key).unwrap().unwrap()),
                        number
                    );
                }
            });
        }
    });
    db.close().unwrap();
}

/// Goal: families may be dropped by several threads at once, and what the background does to them meanwhile is no failure.
/// Method: two threads make families with values in the value log, and drop them while a third waits for idleness; a watch
/// for threads that wait for each other for ever.
#[test]
fn families_are_dropped_beside_each_other() {
    const ROUNDS: usize = 60;
    let env = MemoryEnv::new(5);
    let db = Db::open(world::DATABASE, world::options(&env)).unwrap();
    let options = FamilyOptions {
        value_threshold_bytes: 64,
        ..small(SyncMode::None)
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    let droppers = (0..2).map(|thread| {
        let (db, options, sender) = (db.clone(), options.clone(), sender.clone());
        thread::spawn(move || {
            for round in 0..ROUNDS {
                let name = format!("f{thread} {round}");
                let family = db.create_family(&name, options.clone()).unwrap();
                for number in 0..40_u8 {
                    db.put(&family, &[number], &[number; 300]).unwrap();
                }
                db.drop_family(&name).unwrap();
            }
            sender.send(()).unwrap();
        })
    });
    let droppers: Vec<_> = droppers.collect();
    for _ in 0..ROUNDS {
        db.wait_idle().unwrap();
    }
    for _ in 0..2 {
        let ended = receiver.recv_timeout(std::time::Duration::from_secs(120));
        ended.expect("the threads wait for each other");
    }
    for dropper in droppers {
        dropper.join().unwrap();
    }
    db.wait_idle().unwrap();
    assert!(db.families().is_empty());
    db.close().unwrap();
}
