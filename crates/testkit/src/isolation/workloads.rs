//! Programs with an invariant that only isolation keeps, at the lengths at which other engines lose it.
//!
//! | workload | levels | what must hold |
//! |---|---|---|
//! | [`increments()`] | repeatable read up | no increment is lost: the sum of the counters is the number of commits |
//! | [`skew()`] | serializable | of two transactions that would make a write skew, exactly one commits |
//! | [`fractured()`] | all | two keys written together are read together |
//! | [`bank()`] | repeatable read up | every view shows the same sum, whatever is transferred meanwhile |
//! | [`set()`] | all | what was inserted and acknowledged is in every later view, and views grow |
//!
//! A [`Round`] is one database with a few threads and a bounded number of operations; the next round has another seed.
//! All of them retry after conflicts, as applications do.

mod bank;
mod fractured;
mod increments;
mod set;
mod skew;

pub use bank::bank;
pub use fractured::fractured;
pub use increments::increments;
pub use set::set;
pub use skew::skew;

use std::ops::AddAssign;

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, IsolationLevel, SyncMode, Transaction,
    TransactionOptions,
};
use kingtide_env::MemoryEnv;

use crate::{
    random::Random,
    together::together,
    violation::{Checked, Violation, no_panic},
    world,
};

/// One round of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Chooses what the threads do.
    pub seed: u64,
    /// The level of the transactions that write.
    pub level: IsolationLevel,
    /// Operations of the round: what the workload counts.
    pub operations: u64,
    /// Threads.
    pub threads: usize,
}

/// What the rounds of a workload did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTally {
    /// What the workload counts: increments, pairs, reads, audits, inserts.
    pub operations: u64,
    /// Conflicts, after which a transaction began again.
    pub conflicts: u64,
}

impl AddAssign for WorkTally {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.conflicts += other.conflicts;
    }
}

/// The database of a round, and two families.
struct Bench {
    db: Db,
    left: ColumnFamily,
    right: ColumnFamily,
}

impl Bench {
    fn open(round: &Round) -> Checked<Self> {
        let mut random = Random::new(round.seed);
        let db = Db::open(world::DATABASE, world::options(&MemoryEnv::new(round.seed)))?;
        let options = FamilyOptions {
            // Small in some rounds, so that memtables are flushed and tables merged all the time.
            write_buffer_bytes: *random.pick(&[32 << 10, 256 << 10, 4 << 20]),
            l1_file_count_trigger: 2,
            disk_free_bytes_min: 0,
            sync: SyncMode::None,
            ..FamilyOptions::default()
        };
        let left = db.create_family("left", options.clone())?;
        let right = db.create_family("right", options)?;
        Ok(Self { db, left, right })
    }

    fn begin(&self, level: IsolationLevel) -> Checked<Transaction> {
        Ok(self.db.begin_with(TransactionOptions {
            isolation: level,
            ..TransactionOptions::default()
        })?)
    }
}

/// Commits; false when it was a conflict.
fn commits(mut transaction: Transaction) -> Checked<bool> {
    match transaction.commit() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The number under `key`.
fn number(transaction: &Transaction, family: &ColumnFamily, key: &[u8]) -> Checked<u64> {
    let value = transaction.get(family, key)?;
    value.map_or_else(
        || {
            Err(Violation::new(format!(
                "key \"{}\" is gone",
                key.escape_ascii()
            )))
        },
        |value| decode(&value),
    )
}

fn decode(value: &[u8]) -> Checked<u64> {
    let bytes = value
        .try_into()
        .map_err(|_| Violation::new(format!("a number of {} bytes", value.len())))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Runs `work` on several threads, each with its number, and adds up what they did.
fn on_threads(
    threads: usize,
    work: &(dyn Fn(usize) -> Checked<WorkTally> + Sync),
) -> Checked<WorkTally> {
    let bodies = (0..threads).map(|thread| {
        let body: Box<dyn FnOnce() -> Checked<WorkTally> + Send + '_> =
            Box::new(move || no_panic(|| work(thread)));
        body
    });
    let mut tally = WorkTally::default();
    for part in together(bodies.collect())? {
        tally += part?;
    }
    Ok(tally)
}

/// The share of thread `thread` in `count`.
fn share(count: u64, threads: usize, thread: usize) -> u64 {
    let (threads, thread) = (threads as u64, thread as u64);
    count * (thread + 1) / threads - count * thread / threads
}
