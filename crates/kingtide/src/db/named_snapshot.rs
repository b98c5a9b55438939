//! Snapshots with names, and transactions that begin at a snapshot.

use std::sync::Arc;

use super::{Db, Snapshot};
use crate::{
    error::{Error, ErrorKind, Result},
    options::TransactionOptions,
    snapshot::ListedSnapshot,
    txn::{Transaction, acquire},
};

/// The longest name of a snapshot, in bytes.
pub(super) const SNAPSHOT_NAME_BYTES_MAX: usize = 127;

impl Db {
    /// A view of what is committed now, as [`Db::snapshot`], that other parts of the program find by its name. `name`
    /// has 1 to 127 bytes. It is free again when the last handle to the snapshot is dropped: every handle that
    /// [`Db::find_snapshot`] gives out, and every clone, keeps the snapshot alive.
    ///
    /// A snapshot is not stored: it ends with the opening of the database.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, FamilyOptions, IsolationLevel, Options, TransactionOptions};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("f", FamilyOptions::default())?;
    /// db.put(&family, b"k", b"audited")?;
    /// let audit = db.named_snapshot("audit")?;
    /// db.put(&family, b"k", b"later")?;
    ///
    /// let same = db.find_snapshot("audit")?.expect("it is alive");
    /// assert_eq!(same.get(&family, b"k")?.expect("was put"), b"audited");
    /// // Any number of transactions begin at it.
    /// let options = TransactionOptions {
    ///     isolation: IsolationLevel::Snapshot,
    ///     ..TransactionOptions::default()
    /// };
    /// let transaction = db.begin_at(&audit, options)?;
    /// assert_eq!(transaction.get(&family, b"k")?.expect("was put"), b"audited");
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists` while a snapshot of that name is alive, `InvalidArgument` for an empty name, `TooLarge` for one of
    /// more than 127 bytes, `Closed`.
    pub fn named_snapshot(&self, name: &str) -> Result<Snapshot> {
        check_name(name)?;
        self.engine().check_open()?;
        self.list_snapshot(Some(name))
    }

    /// Another handle to the snapshot `name`; `None` when none of that name is alive.
    ///
    /// # Errors
    /// `InvalidArgument` and `TooLarge` as [`Db::named_snapshot`], `Closed`.
    pub fn find_snapshot(&self, name: &str) -> Result<Option<Snapshot>> {
        check_name(name)?;
        self.engine().check_open()?;
        let listed = self.engine().snapshot_list.find(name);
        Ok(listed.map(|listed| self.handle_to(listed)))
    }

    /// Begins a transaction that reads at `snapshot`, as any number of others may. Its commit is checked against
    /// everything that was committed since the snapshot was taken. The snapshot may be dropped meanwhile. A
    /// [`reset`](Transaction::reset) begins at what is committed then, not at the snapshot.
    ///
    /// # Errors
    /// `InvalidArgument` below repeatable read, where every operation has a view of its own, and for a snapshot of
    /// another database; `Closed`.
    pub fn begin_at(
        &self,
        snapshot: &Snapshot,
        options: TransactionOptions,
    ) -> Result<Transaction> {
        self.engine().check_open()?;
        if !snapshot.is_of(self.engine()) {
            return Err(Error::invalid(
                "the snapshot belongs to another open database",
            ));
        }
        if !options.isolation.has_one_view() {
            return Err(Error::invalid(format!(
                "a transaction at {:?} has a view of its own for each operation: begin it without a snapshot",
                options.isolation
            )));
        }
        Ok(Transaction::begin(
            Arc::clone(self.engine()),
            options,
            Some(snapshot.guard().clone()),
        ))
    }

    /// Takes a snapshot for the user.
    pub(super) fn list_snapshot(&self, name: Option<&str>) -> Result<Snapshot> {
        let engine = self.engine();
        let guard = acquire(engine);
        let taken_at = engine.env.monotonic_nanos();
        let listed = engine.snapshot_list.add(name, guard, taken_at)?;
        Ok(self.handle_to(listed))
    }

    fn handle_to(&self, listed: Arc<ListedSnapshot>) -> Snapshot {
        Snapshot::new(Arc::clone(self.engine()), listed)
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(
            "the name of a snapshot has at least one byte",
        ));
    }
    if name.len() > SNAPSHOT_NAME_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the name of a snapshot has at most {SNAPSHOT_NAME_BYTES_MAX} bytes, this one has {}",
                name.len()
            ),
        ));
    }
    Ok(())
}
