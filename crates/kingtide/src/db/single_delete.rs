//! Single deletes outside of transactions.

use super::Db;
use crate::{error::Result, family::ColumnFamily};

impl Db {
    /// Deletes `key`, which was put once since it last did not exist, as a transaction of its own; see
    /// [`Transaction::single_delete`](crate::Transaction::single_delete).
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn single_delete(&self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        let mut transaction = self.begin()?;
        transaction.single_delete(family, key)?;
        transaction.commit().map(|_| ())
    }
}
