//! A session: one database, some threads, some windows of transactions, each checked when it is over.

use std::{
    ops::AddAssign,
    sync::atomic::{AtomicU64, Ordering},
};

use kingtide::{ColumnFamily, Db, IsolationLevel, IterOptions, Options};
use kingtide_env::MemoryEnv;

use super::{
    check::check_window,
    client::{Client, Shared, key_bytes, key_number, value_bytes, value_number},
    independent,
    profile::{FAMILIES, Profile},
    record::{Ending, Key, Log, Number, Window},
};
use crate::{
    order,
    together::together,
    violation::{Checked, Violation},
    world,
};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Chooses everything but the order in which the threads run.
    pub seed: u64,
    /// The level of all transactions; each has one of its own when there is none.
    pub level: Option<IsolationLevel>,
    /// Windows.
    pub windows: u64,
    /// Transactions of a window.
    pub transactions: u64,
    /// One of so many windows that the independent checker can judge is shown to it.
    pub independent_one_in: u64,
}

/// What was checked.
#[derive(Clone, Debug, Default)]
pub struct HistoryTally {
    /// Transactions.
    pub transactions: u64,
    /// Those that committed and wrote.
    pub committed: u64,
    /// Those that only read.
    pub read_only: u64,
    /// Those that were conflicts.
    pub conflicts: u64,
    /// Keys read, and keys of ranges that were scanned.
    pub reads: u64,
    /// Transactions that the independent checker judged as well.
    pub independent: u64,
}

impl AddAssign for HistoryTally {
    fn add_assign(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.committed += other.committed;
        self.read_only += other.read_only;
        self.conflicts += other.conflicts;
        self.reads += other.reads;
        self.independent += other.independent;
    }
}

impl std::fmt::Display for HistoryTally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} transactions checked ({} committed, {} only read, {} conflicts, {} keys read), {} of them by adya too",
            self.transactions,
            self.committed,
            self.read_only,
            self.conflicts,
            self.reads,
            self.independent
        )
    }
}

/// Runs a session and checks all its windows.
///
/// # Errors
/// The first violation, with the seed and what is known about the transaction.
pub fn run(session: &Session) -> Checked<HistoryTally> {
    let profile = Profile::new(session.seed, session.level);
    run_profile(session, &profile)
        .map_err(|violation| violation.within(format!("seed {}, {profile:?}", session.seed)))
}

fn run_profile(session: &Session, profile: &Profile) -> Checked<HistoryTally> {
    let directory = tempfile::tempdir()?;
    let db = if profile.is_on_disk {
        let options = Options {
            comparators: order::registered(),
            ..Options::default()
        };
        Db::open(directory.path(), options)?
    } else {
        Db::open(
            world::DATABASE,
            world::options(&MemoryEnv::new(session.seed)),
        )?
    };
    let create = |name| db.create_family(name, profile.family_options());
    let families = [create("left")?, create("right")?];
    let (before, sequence) = fill(&db, &families, profile)?;
    let shared = Shared {
        db: &db,
        families: &families,
        profile,
        stamps: AtomicU64::new(1),
        acknowledged: AtomicU64::new(sequence),
        left: AtomicU64::new(0),
    };
    let mut clients: Vec<Client> = (0..profile.threads)
        .map(|thread| Client::new(&shared, thread, session.seed))
        .collect();
    let mut window = Window {
        after: before,
        ..Window::default()
    };
    let mut tally = HistoryTally::default();
    for number in 0..session.windows {
        window.before = std::mem::take(&mut window.after);
        window.sequence_before = shared.acknowledged.load(Ordering::SeqCst);
        shared.left.store(session.transactions, Ordering::SeqCst);
        window.log = run_window(&mut clients)?;
        window.after = state(&db, &families, profile)?;
        check_window(&window)?;
        tally += count(&window.log);
        let is_chosen = number.is_multiple_of(session.independent_one_in.max(1));
        if let Some(level) = session.level.filter(|_| is_chosen && profile.is_plain) {
            tally.independent += independent::check(&window, level)?;
        }
    }
    drop(clients);
    db.close()?;
    Ok(tally)
}

/// Every key gets a value; the profile's transactions may delete it.
pub(super) fn fill(
    db: &Db,
    families: &[ColumnFamily; FAMILIES],
    profile: &Profile,
) -> Checked<(Vec<Option<Number>>, u64)> {
    let mut transaction = db.begin()?;
    let mut numbers = Vec::new();
    for key in 0..profile.key_count() {
        // The process 0 writes the numbers from 1 on.
        let number = key as Number + 1;
        let family = &families[key / usize::from(profile.keys)];
        transaction.put(family, &key_bytes(key as Key), &value_bytes(number))?;
        numbers.push(Some(number));
    }
    let sequence = transaction.commit()?;
    Ok((numbers, sequence.0))
}

pub(super) fn run_window(clients: &mut [Client<'_>]) -> Checked<Log> {
    let bodies = clients.iter_mut().map(|client| {
        let body: Box<dyn FnOnce() -> Checked<Log> + Send + '_> = Box::new(|| client.run());
        body
    });
    let mut log = Log::default();
    let mut outcome = Ok(());
    for part in together(bodies.collect())? {
        match part {
            Ok(mut part) => log.append(&mut part),
            Err(violation) => outcome = outcome.and(Err(violation)),
        }
    }
    outcome.map(|()| log)
}

/// What the database holds now, as one iterator for each family finds it.
pub(super) fn state(
    db: &Db,
    families: &[ColumnFamily; FAMILIES],
    profile: &Profile,
) -> Checked<Vec<Option<Number>>> {
    let mut numbers = vec![None; profile.key_count()];
    for family in families {
        let mut iter = db.iter(family, IterOptions::default())?;
        let mut is_valid = iter.seek_to_first()?;
        while is_valid {
            let key = usize::from(key_number(iter.key())?);
            let number = value_number(iter.value()?)?;
            let place = numbers
                .get_mut(key)
                .ok_or_else(|| Violation::new(format!("key {key}, which nobody wrote")))?;
            *place = Some(number);
            is_valid = iter.next()?;
        }
    }
    Ok(numbers)
}

fn count(log: &Log) -> HistoryTally {
    let mut tally = HistoryTally {
        transactions: log.records.len() as u64,
        reads: log.reads(),
        ..HistoryTally::default()
    };
    for record in &log.records {
        match record.ending {
            Ending::Committed(0) => tally.read_only += 1,
            Ending::Committed(_) => tally.committed += 1,
            Ending::Conflict => tally.conflicts += 1,
            Ending::RolledBack => {}
        }
    }
    tally
}
