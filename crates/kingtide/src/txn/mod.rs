//! Transactions: reads at a view, writes buffered until commit, own writes seen first.

use std::{fmt, sync::Arc, time::Duration};

use kingtide_base::{EntryKind, SeqNo, limits};
use kingtide_format::Op;

use crate::{
    engine::Engine,
    error::{Error, ErrorKind, Result},
    family::{ColumnFamily, Family},
    options::{IterOptions, SyncMode, TransactionOptions},
    read::{
        Iter, Value,
        get::{Found, ReadPoint, find, newest_in_tables},
        iter::{mvcc::is_expired, own_writes::OwnWrites},
        open_iter::{IterParts, open_iter},
    },
    snapshot::SnapshotGuard,
    write::{Durability, OwnWrite, TableLookup, Validation, WriteSet},
};

/// Checks a key.
///
/// # Errors
/// `InvalidArgument` for an empty one, `TooLarge`.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid("a key has at least one byte"));
    }
    if key.len() > limits::KEY_BYTES_MAX {
        let message = format!(
            "a key has at most {} bytes, this one has {}",
            limits::KEY_BYTES_MAX,
            key.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > limits::VALUE_BYTES_MAX {
        let message = format!(
            "a value has at most {} bytes, this one has {}: store it in pieces",
            limits::VALUE_BYTES_MAX,
            value.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

/// One live value for `get`, `multi_get` and `contains`: at the snapshot, or at the newest state.
///
/// # Errors
/// What the family's checks and reading answer.
pub(crate) fn find_at(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
) -> Result<Option<Found>> {
    engine.check_family(family)?;
    check_key(key)?;
    let parts = (&**family, &*engine.files);
    let now = || engine.now();
    if let Some(snapshot) = snapshot {
        let point = ReadPoint {
            sequence: snapshot.sequence(),
            clock: Some(snapshot.clock()),
        };
        return find(&family.load(), parts, key, point, &now);
    }
    if !family.order.has_hash() {
        // Without a hash index the runs are searched, and background merges of runs keep only what is registered.
        let snapshot = acquire(engine);
        return find_at(engine, family, key, Some(&snapshot));
    }
    // Tables and memtables first, then the number: what they hold contains every version that the number sees.
    let current = family.load();
    let point = ReadPoint {
        sequence: engine.visible(),
        clock: None,
    };
    find(&current, parts, key, point, &now)
}

/// Registers a snapshot of what is visible now.
pub(crate) fn acquire(engine: &Engine) -> SnapshotGuard {
    engine
        .snapshots
        .acquire(|| engine.visible(), || engine.now())
}

/// As [`find_at`], with the value loaded.
///
/// # Errors
/// As [`find_at`].
pub(crate) fn get_at(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
) -> Result<Option<Value>> {
    match find_at(engine, family, key, snapshot)? {
        Some(found) => found
            .into_value(&engine.files, key, &family.order)
            .map(Some),
        None => Ok(None),
    }
}

/// An iterator over `family` at `snapshot`, over `own_writes`.
///
/// # Errors
/// What the family's checks, impossible bounds and opening tables answer.
pub(crate) fn iter_at(
    engine: &Engine,
    family: &Arc<Family>,
    options: &IterOptions,
    snapshot: &SnapshotGuard,
    own_writes: Option<OwnWrites>,
) -> Result<Iter> {
    engine.check_family(family)?;
    let parts = IterParts {
        current: family.load_full(),
        files: &engine.files,
        order: &family.order,
        options,
        own_writes,
    };
    let point = ReadPoint {
        sequence: snapshot.sequence(),
        clock: Some(snapshot.clock()),
    };
    open_iter(parts, point)
}

/// Called by reads that opened an iterator, so that memtables with many runs are tidied in the background.
pub(crate) type NoteRuns = dyn Fn(&Arc<Family>) + Send + Sync;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Committed,
    RolledBack,
}

/// A transaction: everything written in it is committed as a whole, over any number of column families, or not at all.
///
/// Writes are buffered until [`Transaction::commit`] and seen by the transaction's own reads. What it sees of others is
/// told by its [`IsolationLevel`](crate::IsolationLevel). A transaction that is dropped without a commit is rolled back.
///
/// It is used by one thread at a time (`Send`, not `Sync`). After a commit or a rollback it can be
/// [reset](Transaction::reset) and used again, which reuses its memory.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, FamilyOptions, Options};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let accounts = db.open_family("accounts", FamilyOptions::default())?;
/// let log = db.open_family("log", FamilyOptions::default())?;
///
/// let mut transaction = db.begin()?;
/// transaction.put(&accounts, b"alice", b"90")?;
/// transaction.put(&accounts, b"bob", b"110")?;
/// transaction.put(&log, b"1", b"alice pays bob 10")?;
/// assert!(db.get(&accounts, b"bob")?.is_none());
/// transaction.commit()?;
/// assert_eq!(db.get(&accounts, b"bob")?.expect("committed"), b"110");
/// # db.close()
/// # }
/// ```
pub struct Transaction {
    engine: Arc<Engine>,
    note_runs: Arc<NoteRuns>,
    options: TransactionOptions,
    snapshot: Option<SnapshotGuard>,
    writes: WriteSet,
    state: State,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("options", &self.options)
            .field("state", &self.state)
            .field("operations", &self.writes.op_count())
            .finish_non_exhaustive()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.engine.recycle(std::mem::take(&mut self.writes));
    }
}

impl Transaction {
    pub(crate) fn begin(
        engine: Arc<Engine>,
        note_runs: Arc<NoteRuns>,
        options: TransactionOptions,
        snapshot: Option<SnapshotGuard>,
    ) -> Self {
        let writes = engine.take_write_set();
        let mut transaction = Self {
            engine,
            note_runs,
            options,
            snapshot,
            writes,
            state: State::Active,
        };
        transaction.take_snapshot();
        transaction
    }

    fn take_snapshot(&mut self) {
        if self.options.isolation.has_one_view() && self.snapshot.is_none() {
            self.snapshot = Some(acquire(&self.engine));
        }
    }

    fn check_active(&self) -> Result<()> {
        self.engine.check_open()?;
        let how = match self.state {
            State::Active => return Ok(()),
            State::Committed => "committed",
            State::RolledBack => "rolled back",
        };
        Err(Error::new(
            ErrorKind::Closed,
            format!("the transaction was {how}: reset it, or begin another one"),
        ))
    }

    /// Sets `key` to `value`. The bytes are copied.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty key, `TooLarge` over the limits of key, value or transaction, `ReadOnly`,
    /// `NotFound` when the family was dropped, `Closed` when the transaction is finished or the database closed.
    pub fn put(&mut self, family: &ColumnFamily, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_expiring(family, key, value, 0)
    }

    /// Sets `key` to `value` until `expires_at`, in seconds since 1970; 0 or less means for ever.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_expiring(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        value: &[u8],
        expires_at: i64,
    ) -> Result<()> {
        check_value(value)?;
        let expires_at = expires_at.max(0);
        self.write(
            family,
            &Op {
                kind: EntryKind::Put,
                key,
                value,
                expires_at,
            },
        )
    }

    /// Deletes `key`. Deleting what is not there succeeds.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.write(
            family,
            &Op {
                kind: EntryKind::Delete,
                key,
                value: &[],
                expires_at: 0,
            },
        )
    }

    fn write(&mut self, family: &ColumnFamily, op: &Op<'_>) -> Result<()> {
        self.check_active()?;
        self.engine.check_writable()?;
        self.engine.check_family(&family.family)?;
        check_key(op.key)?;
        self.writes.push(&family.family, op)
    }

    /// The value of `key` as this transaction sees it: its own write, or what its isolation level shows of others.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty key, `NotFound` when the family was dropped, `Closed`, and `Io` or `Corruption`
    /// when storage fails: damage is never reported as an absent key.
    pub fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.check_active()?;
        match self.own_write(family, key) {
            Some(own) => Ok(self
                .live_value(own)
                .map(|value| Value::owned(value.to_vec()))),
            None => get_at(&self.engine, &family.family, key, self.snapshot.as_ref()),
        }
    }

    /// The values of `keys`, in their order, all read at one point in time.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        self.check_active()?;
        let fresh = self.fresh_snapshot();
        let snapshot = self.snapshot.as_ref().or(fresh.as_ref());
        keys.iter()
            .map(|key| match self.own_write(family, key.as_ref()) {
                Some(own) => Ok(self
                    .live_value(own)
                    .map(|value| Value::owned(value.to_vec()))),
                None => get_at(&self.engine, &family.family, key.as_ref(), snapshot),
            })
            .collect()
    }

    /// True when `key` has a value. Cheaper than a get of a long value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains(&self, family: &ColumnFamily, key: &[u8]) -> Result<bool> {
        self.check_active()?;
        match self.own_write(family, key) {
            Some(own) => Ok(self.live_value(own).is_some()),
            None => find_at(&self.engine, &family.family, key, self.snapshot.as_ref())
                .map(|found| found.is_some()),
        }
    }

    /// An iterator over what this transaction sees of `family` now, the writes made so far included. It does not borrow
    /// the transaction: it stays as it is while the transaction goes on, and may outlive it.
    ///
    /// # Errors
    /// `InvalidArgument` for impossible bounds, and as [`Transaction::get`].
    pub fn iter(&self, family: &ColumnFamily, options: IterOptions) -> Result<Iter> {
        self.check_active()?;
        let fresh = self.fresh_snapshot();
        let Some(snapshot) = self.snapshot.as_ref().or(fresh.as_ref()) else {
            return Err(Error::invalid(
                "the transaction has no view to iterate over",
            ));
        };
        let own_writes = self.writes.cursor(&family.family);
        let iter = iter_at(&self.engine, &family.family, &options, snapshot, own_writes)?;
        (self.note_runs)(&family.family);
        Ok(iter)
    }

    /// A snapshot of its own for one operation, when the transaction has none.
    fn fresh_snapshot(&self) -> Option<SnapshotGuard> {
        self.snapshot.is_none().then(|| acquire(&self.engine))
    }

    fn own_write(&self, family: &ColumnFamily, key: &[u8]) -> Option<OwnWrite<'_>> {
        self.writes.find(&family.family, key)
    }

    fn live_value<'a>(&self, own: OwnWrite<'a>) -> Option<&'a [u8]> {
        let is_put = own.kind == EntryKind::Put;
        let now = || {
            self.snapshot
                .as_ref()
                .map_or_else(|| self.engine.now(), SnapshotGuard::clock)
        };
        let is_live = is_put && (own.expires_at == 0 || !is_expired(own.expires_at, now()));
        is_live.then_some(own.value)
    }

    /// Commits: everything or nothing, durable as the sync mode asks. Answers the commit's place in the commit order,
    /// or [`SeqNo::ZERO`] when nothing was written.
    ///
    /// When it returns, the commit is visible to every read that begins afterwards.
    ///
    /// # Errors
    /// Nothing was written, and the transaction is rolled back: `DiskFull`, `Busy` (try again later), `NotFound` (a
    /// family was dropped), `ReadOnly`, `ReopenRequired`, `Closed`; at snapshot level `Conflict`, when a key written here
    /// was written by a transaction that committed since this one began. `OutcomeUnknown`: the log failed; the commit is
    /// wholly there or wholly absent after the next open.
    pub fn commit(&mut self) -> Result<SeqNo> {
        self.check_active()?;
        // Held until the commit is done: the tables that validation reads must keep what the snapshot pins.
        let snapshot = self.snapshot.take();
        if self.writes.is_empty() {
            self.state = State::Committed;
            return Ok(SeqNo::ZERO);
        }
        self.state = State::RolledBack;
        self.engine.check_writable()?;
        let durability = self.durability();
        let in_tables: &TableLookup<'_> = &|family, version, key, newer_than| {
            newest_in_tables((family, &self.engine.files), version, key, newer_than)
        };
        let validation = snapshot.as_ref().map(|snapshot| Validation {
            snapshot: snapshot.sequence(),
            in_tables,
        });
        let sequence = self
            .engine
            .pipeline
            .commit(&mut self.writes, durability, validation)?;
        self.state = State::Committed;
        Ok(sequence)
    }

    /// What the transaction asks for, or the strictest mode among the families it touches.
    fn durability(&self) -> Durability {
        let of = |mode: SyncMode| match mode {
            SyncMode::None => Durability::Kernel,
            SyncMode::Interval(interval) => {
                Durability::Within(interval.max(Duration::from_micros(1)))
            }
            SyncMode::Full => Durability::Device,
        };
        if let Some(mode) = self.options.sync {
            return of(mode);
        }
        let modes = self
            .writes
            .sections()
            .map(|section| of(section.family.sync_mode()));
        modes.fold(Durability::Kernel, Durability::stricter)
    }

    /// Forgets all writes. Rolling back twice succeeds.
    ///
    /// # Errors
    /// `InvalidArgument` after a commit.
    pub fn rollback(&mut self) -> Result<()> {
        if self.state == State::Committed {
            return Err(Error::invalid(
                "the transaction was committed and cannot be rolled back",
            ));
        }
        self.writes.clear();
        self.snapshot = None;
        self.state = State::RolledBack;
        Ok(())
    }

    /// Begins again with the same settings, after a commit or a rollback.
    ///
    /// # Errors
    /// `InvalidArgument` while the transaction is active, `Closed` when the database is.
    pub fn reset(&mut self) -> Result<()> {
        self.engine.check_open()?;
        if self.state == State::Active {
            return Err(Error::invalid(
                "the transaction is active: commit it or roll it back first",
            ));
        }
        self.writes.clear();
        self.snapshot = None;
        self.state = State::Active;
        self.take_snapshot();
        Ok(())
    }

    /// Operations written so far.
    #[must_use]
    pub fn operation_count(&self) -> usize {
        self.writes.op_count()
    }
}
