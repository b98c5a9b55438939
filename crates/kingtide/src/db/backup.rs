//! Copies of an open database.

use std::path::Path;

use super::Db;
use crate::{
    backup::{self, BackupReport, Method},
    error::Result,
};

impl Db {
    /// Makes a copy of the database in `directory`, all column families as of one moment, while writing goes on. Every
    /// commit that was acknowledged before the call is in it. Tables and value files are hard links where the file
    /// system allows it, so that a checkpoint costs little time and, until the database merges them away, little space;
    /// elsewhere they are copied and verified. What is not in tables yet is written to tables of the copy; the
    /// database's own memtables and log are left alone.
    ///
    /// The copy opens as a database of its own. It appears under its name only when it is whole and durable: until then
    /// it is a work directory beside it, which is removed on failure and, after a crash, by the next attempt. `directory`
    /// must be missing or empty; missing parents are made. Transactions that are only prepared are not in the copy. Any
    /// number of copies may be made at the same time, also of a database that is open for reading only.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, FamilyOptions, Options};
    /// let db = Db::open(directory.path().join("database"), Options::default())?;
    /// let family = db.open_family("f", FamilyOptions::default())?;
    /// db.put(&family, b"k", b"then")?;
    /// let report = db.checkpoint(directory.path().join("copy"))?;
    /// db.put(&family, b"k", b"later")?;
    ///
    /// let copy = Db::open(directory.path().join("copy"), Options::default())?;
    /// let family = copy.family("f")?;
    /// assert_eq!(copy.get(&family, b"k")?.expect("was put"), b"then");
    /// assert_eq!(report.files_written, 1, "the memtable");
    /// # copy.close()?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` (the database's own directory or one of its folders, a file), `AlreadyExists` (not empty), `DiskFull`,
    /// `Io`, `Corruption` (a file that had to be copied is damaged), `Closed`. Nothing is left behind then.
    pub fn checkpoint(&self, directory: impl AsRef<Path>) -> Result<BackupReport> {
        let paths = (self.path(), directory.as_ref());
        backup::run(self.engine(), paths, Method::Link, &mut |_, _| {})
    }

    /// As [`Db::checkpoint`], but every file is copied, so that the copy shares nothing with the database and may lie on
    /// another device; every copied file is read back and verified. `progress` is told the bytes done and the bytes in
    /// all, from this thread.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, FamilyOptions, Options};
    /// let db = Db::open(directory.path().join("database"), Options::default())?;
    /// let family = db.open_family("f", FamilyOptions::default())?;
    /// db.put(&family, b"k", b"v")?;
    /// db.backup(directory.path().join("backup"), &mut |done, total| println!("{done} of {total}"))?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::checkpoint`].
    pub fn backup(
        &self,
        directory: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<BackupReport> {
        let paths = (self.path(), directory.as_ref());
        backup::run(self.engine(), paths, Method::Copy, progress)
    }
}
