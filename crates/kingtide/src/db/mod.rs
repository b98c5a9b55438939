//! The database as users hold it.
//!
//! | module | what it is |
//! |---|---|
//! | `open`, `recover` | from a directory to an engine; replay of the log |
//! | `carry` | the first segment of an opening |
//! | `prepared` | outcomes of two-phase commit |
//! | `operations`, `estimate` | maintenance on demand; estimates about families |
//! | `families` | create, drop, rename, clone, flush |
//! | `close` | nothing is lost |
//! | `snapshot`, `named_snapshot` | views of the past, with and without names |
//! | `hooks` | commit hooks |
//! | `retry` | work that is done again after conflicts |
//! | `bulk_load` | sorted entries straight into tables |
//! | `backup` | checkpoints and backups |
//! | `deferred`, `deferring`, `pending` | comparators that come after the open |
//! | `single_delete` | deletes of keys that were put once |
//! | `verify` | every byte checked |

mod backup;
mod bulk_load;
mod carry;
mod close;
mod deferred;
mod deferring;
mod estimate;
mod families;
mod hooks;
mod layout;
mod named_snapshot;
mod open;
mod operations;
mod pending;
mod prepared;
mod range_delete;
mod recover;
mod retry;
mod single_delete;
mod snapshot;
mod statistics;
mod telling;
mod verify;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use bulk_load::BulkLoader;
pub use prepared::PreparedTransaction;
pub use snapshot::Snapshot;
pub use verify::VerifyReport;

use crate::{
    background::{Background, LargestFirst, Task},
    engine::Engine,
    error::{ErrorKind, Result},
    family::ColumnFamily,
    options::{FamilyOptions, IterOptions, Options, TransactionOptions},
    read::{Iter, Value},
    stats::{FamilyStats, Stats},
    txn::{Transaction, acquire, contains_at, get_at, iter_at, with_answer},
};

/// An open database. Clones are further handles to the same one; all of them are used freely from any thread.
///
/// The database closes when [`Db::close`] is called or the last handle is dropped; closing explicitly is better, because
/// it tells what went wrong.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, FamilyOptions, Options};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let users = db.open_family("users", FamilyOptions::default())?;
/// db.put(&users, b"ada", b"countess")?;
/// assert_eq!(db.get(&users, b"ada")?.expect("was put"), b"countess");
/// db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<Engine>,
    background: Arc<Background>,
    path: PathBuf,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody is left to be told of a failure; what it means for the data, the next open finds out.
        let _ = close::close(&self.engine, &self.background);
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("path", &self.shared.path)
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database in the directory `path`, creating it if the options allow. After a crash, everything that was
    /// promised is recovered first, and made durable, before this returns.
    ///
    /// # Errors
    /// `NotFound` (nothing there and `create_if_missing` off, or read-only), `InvalidArgument` (a file in its place),
    /// `Locked` (open already, here or in another process), `Corruption` (damaged files: no data was changed),
    /// `ComparatorMissing`, `NewerVersion`, `DiskFull`, `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let engine = open::open(&path, options)?;
        let background = Background::new();
        let shared = Shared {
            engine,
            background,
            path,
        };
        shared.tell_opened();
        if !shared.engine.options.read_only {
            shared
                .engine
                .pipeline
                .set_attention(Arc::clone(&shared.background) as _);
            let early = LargestFirst(Arc::downgrade(&shared.engine));
            shared.engine.pipeline.set_early_flush(Arc::new(early));
            shared.background.start(&shared.engine)?;
            for family in shared.engine.families.all() {
                let background = &shared.background;
                background.schedule_merge(&shared.engine, &family);
                background.schedule_collection(&shared.engine, &family);
            }
        }
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// What it is made of, for tests of what works inside.
    #[cfg(test)]
    pub(crate) fn inside(&self) -> (&Arc<Engine>, &Arc<Background>) {
        (&self.shared.engine, &self.shared.background)
    }

    /// Seals the active memtable of `family`, for tests of what works inside; leaves its flush to the background.
    #[cfg(test)]
    pub(crate) fn seal(&self, family: &ColumnFamily) {
        let active = Arc::clone(&family.family.load().active);
        let (engine, _) = self.inside();
        engine.pipeline.try_rotate(&family.family, &active);
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// Closes the database: waits for running calls, syncs the log, writes memtables to tables and releases the
    /// directory. Every handle, transaction and snapshot answers `Closed` from then on; open iterators go on. Closing
    /// twice succeeds.
    ///
    /// # Errors
    /// `ReopenRequired` when the log failed in this opening, or fails now. The directory is released all the same.
    pub fn close(&self) -> Result<()> {
        close::close(self.engine(), &self.shared.background)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Creates an empty column family.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidArgument` (a name with separators, impossible settings), `TooLarge` (a name over 127
    /// bytes, too many families), `ComparatorMissing`, `ReadOnly`, `Closed`, and what storage answers.
    pub fn create_family(&self, name: &str, options: FamilyOptions) -> Result<ColumnFamily> {
        families::create(self.engine(), name, options).map(|family| ColumnFamily { family })
    }

    /// The column family `name`.
    ///
    /// # Errors
    /// `NotFound`, `Closed`.
    pub fn family(&self, name: &str) -> Result<ColumnFamily> {
        self.engine().check_open()?;
        self.engine()
            .families
            .get(name)
            .map(|family| ColumnFamily { family })
    }

    /// The column family `name`, created with `options` when there is none. The settings of one that exists stay.
    ///
    /// # Errors
    /// As [`Db::create_family`].
    pub fn open_family(&self, name: &str, options: FamilyOptions) -> Result<ColumnFamily> {
        match self.family(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match self.create_family(name, options) {
                    // Another thread was faster.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => self.family(name),
                    outcome => outcome,
                }
            }
            outcome => outcome,
        }
    }

    /// The names of all column families, sorted.
    #[must_use]
    pub fn families(&self) -> Vec<String> {
        self.engine().families.names()
    }

    /// Drops a column family with everything in it. Open iterators on it go on. A family created later under the same
    /// name is empty.
    ///
    /// # Errors
    /// `NotFound`, `ReadOnly`, `Closed`, and what storage answers.
    pub fn drop_family(&self, name: &str) -> Result<()> {
        families::drop_family(self.engine(), name)
    }

    /// Renames a column family; handles stay valid.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `InvalidArgument` or `TooLarge` for the new name, `ReadOnly`, `Closed`, and what
    /// storage answers.
    pub fn rename_family(&self, from: &str, to: &str) -> Result<()> {
        families::rename(self.engine(), from, to)
    }

    /// Copies a column family as it is now; the copy is independent. Cheap: the tables are shared until they are merged.
    ///
    /// # Errors
    /// As [`Db::rename_family`], and `InvalidArgument` for its own name.
    pub fn clone_family(&self, from: &str, to: &str) -> Result<ColumnFamily> {
        families::clone_family(self.engine(), from, to).map(|family| ColumnFamily { family })
    }

    /// Sets `key` to `value`, as a transaction of its own.
    ///
    /// # Errors
    /// As [`Transaction::put`] and [`Transaction::commit`].
    pub fn put(&self, family: &ColumnFamily, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_expiring(family, key, value, 0)
    }

    /// Sets `key` to `value` until `expires_at`, in seconds since 1970; 0 or less means for ever. An expired key is
    /// absent for every read.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, FamilyOptions, Options};
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let sessions = db.open_family("sessions", FamilyOptions::default())?;
    /// db.put_expiring(&sessions, b"long ago", b"token", 1)?;
    /// assert!(db.get(&sessions, b"long ago")?.is_none());
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn put_expiring(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        value: &[u8],
        expires_at: i64,
    ) -> Result<()> {
        let mut transaction = self.begin()?;
        transaction.put_expiring(family, key, value, expires_at)?;
        transaction.commit().map(|_| ())
    }

    /// Deletes `key`, as a transaction of its own. Deleting what is not there succeeds.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        let mut transaction = self.begin()?;
        transaction.delete(family, key)?;
        transaction.commit().map(|_| ())
    }

    /// The newest committed value of `key`, without a copy where that is possible.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty key, `NotFound` when the family was dropped, `Closed`, and `Io` or `Corruption`
    /// when storage fails: damage is never reported as an absent key.
    pub fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.engine().check_open()?;
        get_at(self.engine(), &family.family, key, None)
    }

    /// Puts the newest committed value of `key` into the place of what `value` holds, in its memory if that is enough, and is true;
    /// false when there is none. See [`Transaction::get_into`].
    ///
    /// # Errors
    /// As [`Db::get`]; what `value` holds then means nothing.
    pub fn get_into(&self, family: &ColumnFamily, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let engine = self.engine();
        engine.check_open()?;
        with_answer(engine, &family.family, key, None, |answer| {
            answer.read_into(value)
        })
    }

    /// Sets `key` to what `source` yields to its end, as a transaction of its own; how many bytes that is. See
    /// [`Transaction::put_from`].
    ///
    /// # Errors
    /// As [`Transaction::put_from`] and [`Transaction::commit`].
    pub fn put_from(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        source: &mut dyn std::io::Read,
    ) -> Result<u64> {
        let mut transaction = self.begin()?;
        let bytes = transaction.put_from(family, key, source)?;
        transaction.commit().map(|_| bytes)
    }

    /// Writes the newest committed value of `key` to `sink`: how many bytes that is, or `None` when there is none. See
    /// [`Transaction::get_to`].
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, FamilyOptions, Options};
    /// use std::io::Read;
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let films = db.open_family("films", FamilyOptions::default())?;
    /// db.put_from(&films, b"first", &mut std::io::repeat(b'x').take(20 << 20))?;
    /// let mut copy = std::io::sink(); // a file, a socket
    /// assert_eq!(db.get_to(&films, b"first", &mut copy)?, Some(20 << 20));
    /// assert_eq!(db.get_to(&films, b"second", &mut copy)?, None);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`], and `Io` when `sink` fails. What was written before stays written: it is a beginning of the value.
    pub fn get_to(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        sink: &mut dyn std::io::Write,
    ) -> Result<Option<u64>> {
        let engine = self.engine();
        engine.check_open()?;
        with_answer(engine, &family.family, key, None, |answer| {
            answer.write_to(sink)
        })
    }

    /// The values of `keys`, in their order, all read at one point in time.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        let engine = self.engine();
        engine.check_open()?;
        let snapshot = acquire(engine);
        keys.iter()
            .map(|key| get_at(engine, &family.family, key.as_ref(), Some(&snapshot)))
            .collect()
    }

    /// True when `key` has a value. Cheaper than a get of a long value.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn contains(&self, family: &ColumnFamily, key: &[u8]) -> Result<bool> {
        self.engine().check_open()?;
        contains_at(self.engine(), &family.family, key, None)
    }

    /// An iterator over what is committed now. It is not positioned at birth, and keeps what it sees alive.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, FamilyOptions, IterOptions, Options};
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("fruit", FamilyOptions::default())?;
    /// for name in ["apple", "banana", "cherry"] {
    ///     db.put(&family, name.as_bytes(), b"ripe")?;
    /// }
    /// let mut iter = db.iter(&family, IterOptions::default())?;
    /// assert!(iter.seek(b"b")?);
    /// assert_eq!(iter.key(), b"banana");
    /// assert!(iter.next()?);
    /// assert_eq!(iter.key(), b"cherry");
    /// assert!(!iter.next()?);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for impossible bounds, and as [`Db::get`].
    pub fn iter(&self, family: &ColumnFamily, options: IterOptions) -> Result<Iter> {
        self.engine().check_open()?;
        let snapshot = acquire(self.engine());
        let iter = iter_at(self.engine(), &family.family, &options, &snapshot, None)?;
        self.engine().pipeline.note_walk(&family.family);
        Ok(iter)
    }

    /// Begins a transaction at read committed.
    ///
    /// # Errors
    /// `Closed`.
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(TransactionOptions::default())
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// `Closed`.
    pub fn begin_with(&self, options: TransactionOptions) -> Result<Transaction> {
        self.engine().check_open()?;
        let engine = Arc::clone(self.engine());
        Ok(Transaction::begin(engine, options, None))
    }

    /// A view of what is committed now, to be read at later. It pins what it sees until it is dropped.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, FamilyOptions, Options};
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("f", FamilyOptions::default())?;
    /// db.put(&family, b"k", b"before")?;
    /// let snapshot = db.snapshot()?;
    /// db.put(&family, b"k", b"after")?;
    /// assert_eq!(snapshot.get(&family, b"k")?.expect("was put"), b"before");
    /// assert_eq!(db.get(&family, b"k")?.expect("was put"), b"after");
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.engine().check_open()?;
        self.list_snapshot(None)
    }

    /// Makes everything acknowledged so far durable, in every sync mode.
    ///
    /// # Errors
    /// `ReopenRequired` when the log has failed, or fails now; `ReadOnly`, `Closed`.
    pub fn sync_wal(&self) -> Result<()> {
        self.engine().check_writable()?;
        self.engine().pipeline.sync_log()
    }

    /// Writes what is in the family's memtables to tables, and returns when it is there.
    ///
    /// # Errors
    /// `DiskFull`, `Io`, `ReopenRequired`, `NotFound`, `ReadOnly`, `Closed`.
    pub fn flush(&self, family: &ColumnFamily) -> Result<()> {
        self.engine().check_writable()?;
        families::flush(self.engine(), &family.family)?;
        let background = &self.shared.background;
        background.schedule_merge(self.engine(), &family.family);
        background.schedule_collection(self.engine(), &family.family);
        Ok(())
    }

    /// Waits until no flush and no merge is queued or running, and does what an idle database does by itself after a
    /// while: has families that hold many tombstones, or tombstones that got too old, compacted, empties level 1 of those
    /// where that is little work, puts values that lie scattered over many files of the value log in the order of their keys,
    /// brings what was written into the block cache while that has room, and gives back what nobody needs: the memory of empty memtables, files of tables that were merged, and the room of the log if everything is
    /// in tables.
    ///
    /// # Errors
    /// The failure of background work that keeps failing; `Closed`.
    pub fn wait_idle(&self) -> Result<()> {
        self.engine().check_open()?;
        for family in self.engine().families.all() {
            if !family.load().sealed.is_empty() {
                self.shared.background.schedule(Task::Flush, &family);
            }
        }
        self.shared.background.schedule_overdue(self.engine());
        // Who waits here does not write. Now, so that merges do not come on top; again for what is being flushed.
        self.engine().release_memory();
        // What is running may be all that is needed.
        self.shared.background.wait_idle()?;
        // Before the cache is filled.
        self.engine().release_memory();
        self.shared.background.schedule_settling(self.engine());
        self.shared.background.wait_idle()?;
        self.engine().release_memory();
        if !self.engine().options.read_only {
            // Best effort: dead files and the log may stay longer than they need.
            let _ = self.engine().sweep_files();
            let _ = self.engine().shrink_log();
        }
        Ok(())
    }

    /// Numbers about the database.
    ///
    /// # Errors
    /// `Closed`.
    pub fn stats(&self) -> Result<Stats> {
        self.engine().check_open()?;
        Ok(statistics::of_database(
            self.engine(),
            &self.shared.background,
        ))
    }

    /// Numbers about one column family.
    ///
    /// # Errors
    /// `Closed`, `NotFound`.
    pub fn family_stats(&self, family: &ColumnFamily) -> Result<FamilyStats> {
        self.engine().check_open()?;
        self.engine().check_family(&family.family)?;
        Ok(statistics::of_family(self.engine(), &family.family))
    }

    /// Reads every byte of every table and value file and checks it. The manifest and the log were checked by the open.
    /// `progress` is told the bytes done and the bytes in all, from this thread.
    ///
    /// # Errors
    /// `Closed`. Damage is in the report.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        verify::verify(self.engine(), progress)
    }
}
