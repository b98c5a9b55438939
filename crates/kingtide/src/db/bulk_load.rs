//! Bulk loads, as users see them.

use super::{Db, Shared};
use crate::{
    bulk::{BulkLoadReport, Load},
    error::Result,
    family::ColumnFamily,
    txn::{check_key, check_value},
};

/// Loads entries in ascending order straight into tables of one column family: each byte is written once, not to the log
/// first, and never merged as long as nothing overlaps it. Made by [`Db::bulk_load`].
///
/// The load is one commit, newer than every commit before [`BulkLoader::finish`] and older than every one after it;
/// snapshots that were taken before do not see it, and transactions that wrote or read keys of it conflict as with any
/// other commit. It hides older values of its keys and leaves all other keys alone. It is atomic and durable in every
/// sync mode. Commit hooks are not called. While it lasts the database is used as always; the last moment of
/// `finish`, a flush of what was written meanwhile and a few syncs, holds back commits to all families.
///
/// Dropped without `finish`, it leaves nothing behind; after a crash the next opening removes its files.
#[must_use = "nothing is loaded before `finish`"]
pub struct BulkLoader<'a> {
    shared: &'a Shared,
    family: &'a ColumnFamily,
    load: Load<'a>,
}

impl std::fmt::Debug for BulkLoader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkLoader")
            .field("family", &self.family)
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Begins to load sorted entries into `family`. Any number of loads may run beside each other and beside writers.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, ErrorKind, FamilyOptions, Options};
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("f", FamilyOptions::default())?;
    /// let mut loader = db.bulk_load(&family)?;
    /// for number in 0..10_000 {
    ///     loader.put(format!("{number:06}").as_bytes(), b"value")?;
    /// }
    /// let error = loader.put(b"000007", b"again").expect_err("out of order");
    /// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    /// let report = loader.finish()?;
    /// assert_eq!(report.entries, 10_000);
    /// assert_eq!(db.get(&family, b"000007")?.expect("was loaded"), b"value");
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` when the family was dropped, `ComparatorMissing` while it waits for its order, `ReadOnly`, `Closed`.
    pub fn bulk_load<'a>(&'a self, family: &'a ColumnFamily) -> Result<BulkLoader<'a>> {
        Ok(BulkLoader {
            shared: &self.shared,
            family,
            load: Load::begin(self.engine(), &family.family)?,
        })
    }
}

impl BulkLoader<'_> {
    /// Adds `key` with `value`. Keys ascend strictly in the family's order.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty key and for one that does not come behind the one before, both of which are named;
    /// `TooLarge` over the limits of key or value: nothing was added, and others may follow. `DiskFull` when the device
    /// has less room than the family's `disk_free_bytes_min`: nothing was added. `DiskFull` and `Io` when writing fails:
    /// the load has failed, and answers `Closed` from then on. `NotFound` when the family was dropped, `Closed`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_expiring(key, value, 0)
    }

    /// Adds `key` with `value` until `expires_at`, in seconds since 1970; 0 or less means for ever.
    ///
    /// # Errors
    /// As [`BulkLoader::put`].
    pub fn put_expiring(&mut self, key: &[u8], value: &[u8], expires_at: i64) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        self.load.add(key, value, expires_at)
    }

    /// Makes everything that was added part of the database. Without any entry nothing happens.
    ///
    /// # Errors
    /// `Busy` when memtables could not be flushed in time, and when a prepared transaction uses the family; `DiskFull`,
    /// `Io`, `ReopenRequired`, `NotFound`, `Closed`: nothing was loaded, and nothing is left behind. `OutcomeUnknown`
    /// when the manifest or the log failed at the last moment: the load is wholly there or wholly absent after the next
    /// open.
    pub fn finish(self) -> Result<BulkLoadReport> {
        let report = self.load.finish()?;
        let (background, engine) = (&self.shared.background, &self.shared.engine);
        background.schedule_merge(engine, &self.family.family);
        Ok(report)
    }
}
