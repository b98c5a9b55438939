//! Range deletes as transactions of their own.

use kingtide_base::SeqNo;

use super::Db;
use crate::{error::Result, family::ColumnFamily};

impl Db {
    /// Deletes every key of `family` from `start` on and before `end`, in a transaction of its own. Answers its sequence
    /// number, or [`SeqNo::ZERO`] when the two are equal. See [`Transaction::delete_range`](crate::Transaction::delete_range).
    ///
    /// # Errors
    /// As [`Transaction::delete_range`](crate::Transaction::delete_range) and
    /// [`Transaction::commit`](crate::Transaction::commit).
    pub fn delete_range(&self, family: &ColumnFamily, start: &[u8], end: &[u8]) -> Result<SeqNo> {
        let mut transaction = self.begin()?;
        transaction.delete_range(family, start, end)?;
        transaction.commit()
    }

    /// Deletes every key of `family` that begins with `prefix`, in a transaction of its own. See
    /// [`Transaction::delete_prefix`](crate::Transaction::delete_prefix).
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, FamilyOptions, Options};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let sessions = db.open_family("sessions", FamilyOptions::default())?;
    /// db.put(&sessions, b"alice/1", b"laptop")?;
    /// db.put(&sessions, b"alice/2", b"phone")?;
    /// db.put(&sessions, b"bob/1", b"desk")?;
    /// db.delete_prefix(&sessions, b"alice/")?;
    /// assert!(!db.contains(&sessions, b"alice/2")?);
    /// assert!(db.contains(&sessions, b"bob/1")?);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::delete_prefix`](crate::Transaction::delete_prefix) and
    /// [`Transaction::commit`](crate::Transaction::commit).
    pub fn delete_prefix(&self, family: &ColumnFamily, prefix: &[u8]) -> Result<SeqNo> {
        let mut transaction = self.begin()?;
        transaction.delete_prefix(family, prefix)?;
        transaction.commit()
    }
}
