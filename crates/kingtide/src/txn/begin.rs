//! From the beginning of a transaction to its end without a commit.

use std::{cell::Cell, sync::Arc};

use kingtide_collections::Account;

use super::{State, Transaction, abort::Pins, acquire};
use crate::{
    engine::Engine,
    error::{Error, ErrorKind, Result},
    options::{IsolationLevel, TransactionOptions},
    read::tracker::{SharedReads, Tracked},
    snapshot::SnapshotGuard,
    write::WriteSet,
};

/// Bytes by which what a transaction holds must change before the sum over all transactions is told.
const HOLDING_STEP: usize = 4096;

/// What of a transaction's memory is counted in the engine's sum.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// Bytes of writes and reads.
    bytes: Cell<usize>,
    /// What these take of the memory budget, buffers that are not full yet included.
    charged: Cell<usize>,
}

impl Holding {
    /// The transaction holds `bytes` now, those of `writes` included.
    #[inline]
    pub(super) fn note(&self, engine: &Engine, bytes: usize, writes: &WriteSet) {
        if bytes.abs_diff(self.bytes.get()) >= HOLDING_STEP {
            let of_reads = bytes.saturating_sub(writes.bytes());
            self.set(engine, bytes, of_reads + writes.memory_bytes());
        }
    }

    /// Sees to it that there is memory for `bytes` in all.
    ///
    /// # Errors
    /// `MemoryLimit` when all transactions together would hold too much; `Busy` when memory stays used up.
    #[inline]
    pub(super) fn admit(&self, engine: &Engine, bytes: usize) -> Result<()> {
        if bytes < self.bytes.get().saturating_add(HOLDING_STEP) {
            return Ok(());
        }
        engine.admit_transaction(bytes - self.bytes.get())
    }

    /// The transaction holds nothing any more.
    pub(super) fn end(&self, engine: &Engine) {
        if self.bytes.get() != 0 {
            self.set(engine, 0, 0);
        }
    }

    #[cold]
    fn set(&self, engine: &Engine, bytes: usize, charged: usize) {
        engine.count_transaction_bytes(self.bytes.replace(bytes), bytes);
        let before = self.charged.replace(charged);
        let budget = &engine.files.budget;
        budget.change(Account::Transactions, before, charged);
    }
}

impl Transaction {
    pub(crate) fn begin(
        engine: Arc<Engine>,
        options: TransactionOptions,
        snapshot: Option<SnapshotGuard>,
    ) -> Self {
        let writes = engine.take_write_set();
        let mut transaction = Self {
            engine,
            options,
            pins: Pins::default(),
            writes,
            reads: None,
            savepoints: Vec::new(),
            holding: Holding::default(),
            state: State::Active,
        };
        transaction.start(snapshot);
        transaction
    }

    /// Takes the view that the level asks for, unless it is given.
    fn start(&mut self, snapshot: Option<SnapshotGuard>) {
        let has_one_view = self.options.isolation.has_one_view();
        let snapshot = snapshot.or_else(|| has_one_view.then(|| acquire(&self.engine)));
        self.pins = Pins::new(snapshot, self.options.timeout, self.engine.env.as_ref());
        if self.tracked().is_some() {
            self.remembered();
        }
    }

    /// What the level remembers of reads.
    pub(super) fn tracked(&self) -> Option<Tracked> {
        match self.options.isolation {
            IsolationLevel::RepeatableRead => Some(Tracked::Items),
            IsolationLevel::Serializable => Some(Tracked::Ranges),
            _ => None,
        }
    }

    /// The set of reads, ready to take more.
    pub(super) fn remembered(&mut self) -> &Arc<SharedReads> {
        let (limit, written) = (self.engine.transaction_bytes_max(), self.writes.bytes());
        let engine = &self.engine;
        let reads = self.reads.get_or_insert_with(|| engine.take_reads());
        reads.with(|reads| reads.set_limit(limit, written));
        reads
    }

    /// The level at which it runs.
    #[must_use]
    pub fn isolation(&self) -> IsolationLevel {
        self.options.isolation
    }

    /// True until the transaction is committed, prepared or rolled back. One that was aborted is active until then.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    pub(super) fn check_active(&self) -> Result<()> {
        self.engine.check_open()?;
        let how = match self.state {
            State::Active => return self.pins.check(self.engine.env.as_ref()),
            State::Committed => "committed",
            State::RolledBack => "rolled back",
            State::Prepared => "prepared",
        };
        Err(Error::new(
            ErrorKind::Closed,
            format!("the transaction was {how}: reset it, or begin another one"),
        ))
    }

    /// Forgets what is held for the present life, keeping memory for the next.
    pub(super) fn forget(&mut self) {
        let had_spilled = self.writes.has_spilled();
        self.writes.clear();
        if had_spilled && self.state != State::Committed {
            self.engine.tidy_spilled();
        }
        self.savepoints.clear();
        self.pins = Pins::default();
        if let Some(reads) = &self.reads {
            reads.end();
        }
        self.holding.end(&self.engine);
    }

    /// Forgets all writes, and everything that was remembered of reads. Rolling back twice succeeds.
    ///
    /// # Errors
    /// `InvalidArgument` after a commit or a prepare.
    pub fn rollback(&mut self) -> Result<()> {
        if self.state == State::Committed {
            return Err(Error::invalid(
                "the transaction was committed and cannot be rolled back",
            ));
        }
        if self.state == State::Prepared {
            return Err(Error::invalid(
                "the transaction is prepared: roll it back by its xid",
            ));
        }
        self.forget();
        self.state = State::RolledBack;
        Ok(())
    }

    /// Begins again with the same settings, after a commit, a prepare, a rollback, a conflict or an abort. The memory is used again.
    ///
    /// # Errors
    /// `InvalidArgument` while the transaction is active, `Closed` when the database is.
    pub fn reset(&mut self) -> Result<()> {
        self.engine.check_open()?;
        let is_over = self.pins.check(self.engine.env.as_ref()).is_err();
        if self.state == State::Active && !is_over {
            return Err(Error::invalid(
                "the transaction is active: commit it or roll it back first",
            ));
        }
        self.forget();
        self.state = State::Active;
        self.start(None);
        Ok(())
    }

    /// As [`Transaction::reset`], with other settings.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, IsolationLevel, Options, TransactionOptions};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let mut transaction = db.begin()?;
    /// transaction.commit()?;
    /// transaction.reset_with(TransactionOptions {
    ///     isolation: IsolationLevel::Serializable,
    ///     ..TransactionOptions::default()
    /// })?;
    /// assert_eq!(transaction.isolation(), IsolationLevel::Serializable);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::reset`]; the settings are then as before.
    pub fn reset_with(&mut self, options: TransactionOptions) -> Result<()> {
        let before = std::mem::replace(&mut self.options, options);
        let outcome = self.reset();
        if outcome.is_err() {
            self.options = before;
        }
        outcome
    }
}
