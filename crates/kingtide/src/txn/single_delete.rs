//! Single deletes in transactions.

use kingtide_base::EntryKind;
use kingtide_format::Op;

use super::Transaction;
use crate::{error::Result, family::ColumnFamily};

impl Transaction {
    /// Deletes `key`, as [`Transaction::delete`] does, with the hint that it was put once since it last did not exist.
    ///
    /// Every read takes it for a delete. What the hint changes is how soon the space is free: the put and its single
    /// delete vanish together in the first flush or merge that meets the single delete, once no snapshot is older than
    /// it, and do not have to sink to the bottom level first. To be sure of that, the flush or merge looks into the
    /// tables below, mostly into their filters. When something older of the key is there, because it was put more than
    /// once, the single delete stays and is an ordinary delete. So a wrong hint costs time, and never shows an old value
    /// again. For keys that are overwritten, [`Transaction::delete`] is the better call.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, FamilyOptions, Options};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let queue = db.open_family("queue", FamilyOptions::default())?;
    /// db.put(&queue, b"job 1", b"mend the net")?;
    /// let mut transaction = db.begin()?;
    /// transaction.single_delete(&queue, b"job 1")?;
    /// transaction.commit()?;
    /// assert!(db.get(&queue, b"job 1")?.is_none());
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn single_delete(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.write(
            family,
            &Op {
                kind: EntryKind::SingleDelete,
                key,
                value: &[],
                expires_at: 0,
            },
        )
    }
}
