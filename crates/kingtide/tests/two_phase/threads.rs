//! Two-phase commit under concurrency.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, IsolationLevel, IterOptions, SyncMode, Transaction,
    TransactionOptions,
};
use kingtide_env::{CrashImage, MemoryEnv};
use kingtide_testkit::{
    Random,
    world::{self, DATABASE},
};

const ACCOUNTS: usize = 24;
const OPENING_BALANCE: i64 = 1000;

fn key(account: usize) -> Vec<u8> {
    format!("account {account:02}").into_bytes()
}

fn balance(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn begin(db: &Db, isolation: IsolationLevel, sync: SyncMode) -> Transaction {
    db.begin_with(TransactionOptions {
        isolation,
        sync: Some(sync),
        ..TransactionOptions::default()
    })
    .unwrap()
}

/// Moves `amount` between two accounts within the transaction, which must be at a level that validates reads or writes.
fn transfer(
    transaction: &mut Transaction,
    family: &ColumnFamily,
    (from, to): (usize, usize),
    amount: i64,
) -> kingtide::Result<()> {
    for (account, change) in [(from, -amount), (to, amount)] {
        let found = transaction.get(family, &key(account))?;
        let now = balance(&found.expect("it was opened")) + change;
        transaction.put(family, &key(account), &now.to_le_bytes())?;
    }
    Ok(())
}

/// The sum over all accounts in one view.
fn sum(db: &Db, family: &ColumnFamily) -> i64 {
    let mut iter = db.iter(family, IterOptions::default()).unwrap();
    let mut total = 0;
    let mut is_there = iter.seek_to_first().unwrap();
    while is_there {
        total += balance(iter.value().unwrap());
        is_there = iter.next().unwrap();
    }
    total
}

/// What a prepared transfer will leave in its two accounts.
struct Pending {
    xid: Vec<u8>,
    accounts: (usize, usize),
}

struct Bank {
    db: Db,
    family: ColumnFamily,
    pending: Mutex<Vec<Pending>>,
    names: AtomicU64,
    prepared: AtomicU64,
    refused: AtomicU64,
}

impl Bank {
    fn open(env: &MemoryEnv) -> Arc<Self> {
        let db = Db::open(DATABASE, world::options(env)).unwrap();
        let options = FamilyOptions {
            // Small, so that memtables are flushed and tables merged meanwhile.
            write_buffer_bytes: 16 << 10,
            l1_file_count_trigger: 2,
            sync: SyncMode::None,
            disk_free_bytes_min: 0,
            ..FamilyOptions::default()
        };
        let family = db.open_family("bank", options).unwrap();
        let mut transaction = db.begin().unwrap();
        for account in 0..ACCOUNTS {
            let bytes = OPENING_BALANCE.to_le_bytes();
            transaction.put(&family, &key(account), &bytes).unwrap();
        }
        transaction.commit().unwrap();
        Arc::new(Self {
            db,
            family,
            pending: Mutex::default(),
            names: AtomicU64::new(0),
            prepared: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    fn step(&self, random: &mut Random) {
        let accounts = (random.below(ACCOUNTS), random.below(ACCOUNTS));
        if accounts.0 == accounts.1 {
            return self.end_one(random);
        }
        let levels = [
            IsolationLevel::RepeatableRead,
            IsolationLevel::Snapshot,
            IsolationLevel::Serializable,
        ];
        let mut transaction = begin(&self.db, *random.pick(&levels), SyncMode::None);
        let amount = random.below(50) as i64;
        transfer(&mut transaction, &self.family, accounts, amount).unwrap();
        if random.one_in(3) {
            let number = self.names.fetch_add(1, Ordering::Relaxed);
            let xid = format!("transfer {number}").into_bytes();
            if self.is_done(transaction.prepare(&xid)) {
                self.prepared.fetch_add(1, Ordering::Relaxed);
                self.check_locked(&xid, accounts.0);
                let pending = Pending { xid, accounts };
                self.pending.lock().unwrap().push(pending);
            }
        } else {
            self.is_done(transaction.commit());
        }
        if random.one_in(2) {
            self.end_one(random);
        }
    }

    /// True unless another transaction was first.
    fn is_done<T>(&self, outcome: kingtide::Result<T>) -> bool {
        match outcome {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                self.refused.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    /// Nobody else ends it before it is in the list, so its locks must hold.
    fn check_locked(&self, xid: &[u8], account: usize) {
        let error = self
            .db
            .delete(&self.family, &key(account))
            .expect_err("the account is locked");
        let conflict = error.conflict().expect("a conflict");
        assert_eq!(conflict.prepared.as_deref(), Some(xid), "{error}");
    }

    /// Ends one of those that are prepared, as one of several threads that may want to end the same.
    fn end_one(&self, random: &mut Random) {
        let pending = {
            let mut pending = self.pending.lock().unwrap();
            if pending.is_empty() {
                return;
            }
            let index = random.below(pending.len());
            pending.swap_remove(index)
        };
        self.check_locked(&pending.xid, pending.accounts.1);
        if random.one_in(3) {
            self.db.rollback_prepared(&pending.xid).unwrap();
        } else {
            let sync = *random.pick(&[SyncMode::None, SyncMode::Full]);
            self.db.commit_prepared_with(&pending.xid, sync).unwrap();
        }
        let again = self.db.rollback_prepared(&pending.xid);
        assert!(again.is_err_and(|error| error.kind() == ErrorKind::NotFound));
    }

    /// Every view shows the same sum, as long as the bank is in use.
    fn watch(&self, is_over: &AtomicBool) {
        let total = OPENING_BALANCE * ACCOUNTS as i64;
        while !is_over.load(Ordering::Acquire) {
            assert_eq!(sum(&self.db, &self.family), total);
            let listed = self.db.prepared().unwrap();
            assert!(listed.iter().all(|prepared| prepared.operation_count == 2));
        }
    }
}

/// Goal: money is neither made nor lost by transfers that are prepared, committed and rolled back by several threads
/// beside ordinary ones at all levels that validate, and no account changes under a lock. Method: the sum in every
/// view, meanwhile, at the end, and after a power cut with everything that was prepared then ended.
#[test]
fn transfers_keep_their_sum_beside_prepared_ones() {
    let env = MemoryEnv::new(1);
    let bank = Bank::open(&env);
    let is_over = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (bank, is_over) = (Arc::clone(&bank), Arc::clone(&is_over));
        thread::spawn(move || bank.watch(&is_over))
    };
    let workers: Vec<_> = (0..4)
        .map(|seed| {
            let bank = Arc::clone(&bank);
            thread::spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..500 {
                    bank.step(&mut random);
                }
            })
        })
        .collect();
    let finished: Vec<_> = workers.into_iter().map(thread::JoinHandle::join).collect();
    is_over.store(true, Ordering::Release);
    watcher.join().expect("the sum was always right");
    assert!(finished.iter().all(Result::is_ok), "a worker failed");
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert!(
        count(&bank.prepared) > 100,
        "{} prepared",
        count(&bank.prepared)
    );
    assert!(
        count(&bank.refused) > 100,
        "{} refused",
        count(&bank.refused)
    );

    let total = OPENING_BALANCE * ACCOUNTS as i64;
    for (image, commits) in [
        (CrashImage::NothingUnsynced, true),
        (CrashImage::Everything, false),
        (CrashImage::Random, true),
    ] {
        let found = env.crash(image, 7);
        let db = Db::open(DATABASE, world::options(&found)).unwrap();
        let family = db.family("bank").unwrap();
        assert_eq!(sum(&db, &family), total, "{image:?}");
        for prepared in db.prepared().unwrap() {
            match commits {
                true => db.commit_prepared(&prepared.xid).map(drop).unwrap(),
                false => db.rollback_prepared(&prepared.xid).unwrap(),
            }
        }
        assert_eq!(sum(&db, &family), total, "{image:?}, ended");
        for account in 0..ACCOUNTS {
            let mut transaction = begin(&db, IsolationLevel::Snapshot, SyncMode::None);
            let other = (account + 1) % ACCOUNTS;
            transfer(&mut transaction, &family, (account, other), 1).unwrap();
            transaction.commit().expect("no lock is left");
        }
    }
}

/// Goal: an xid is prepared once and ended once, however many threads want to. Method: all threads use the same names.
#[test]
fn one_of_many_threads_wins_each_name() {
    let env = MemoryEnv::new(2);
    let bank = Bank::open(&env);
    let wins: Vec<_> = (0..4_u8)
        .map(|thread| {
            let bank = Arc::clone(&bank);
            thread::spawn(move || {
                let (mut prepared, mut ended) = (0, 0);
                for number in 0..100_u32 {
                    let xid = number.to_le_bytes();
                    let mut transaction = bank.db.begin().unwrap();
                    transaction.put(&bank.family, &[thread], &xid).unwrap();
                    match transaction.prepare(&xid) {
                        Ok(()) => prepared += 1,
                        // Conflict: the one before is prepared still, and has locked the key.
                        Err(error) => assert!(matches!(
                            error.kind(),
                            ErrorKind::AlreadyExists | ErrorKind::Conflict
                        )),
                    }
                    let outcome = match thread % 2 {
                        0 => bank.db.commit_prepared(&xid).map(drop),
                        _ => bank.db.rollback_prepared(&xid),
                    };
                    match outcome {
                        Ok(()) => ended += 1,
                        Err(error) => {
                            assert!(matches!(
                                error.kind(),
                                ErrorKind::NotFound | ErrorKind::Busy
                            ));
                        }
                    }
                }
                (prepared, ended)
            })
        })
        .collect();
    let wins: Vec<(u32, u32)> = wins.into_iter().map(|win| win.join().unwrap()).collect();
    let prepared: u32 = wins.iter().map(|(prepared, _)| prepared).sum();
    let ended: u32 = wins.iter().map(|(_, ended)| ended).sum();
    let left = bank.db.prepared().unwrap().len() as u32;
    assert_eq!(prepared, ended + left);
    assert!(
        (1..=100).contains(&prepared),
        "{prepared} names were prepared"
    );
}
