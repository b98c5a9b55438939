//! Work that is done again after conflicts.

use super::Db;
use crate::{
    error::Result,
    options::TransactionOptions,
    txn::{RetryOptions, Transaction, retry},
};

impl Db {
    /// Runs `work` in a transaction and commits it; after a `Conflict` or `Busy`, from the work or from the commit, again
    /// in the same transaction, reset. Between attempts the thread waits for a short random time. Any other error rolls
    /// back and is answered. Work that ends the transaction itself is done when it returns.
    ///
    /// `work` may run many times: what it does besides its transaction happens as often.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, FamilyOptions, IsolationLevel, Options, RetryOptions, TransactionOptions};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("counters", FamilyOptions::default())?;
    /// let serializable = TransactionOptions {
    ///     isolation: IsolationLevel::Serializable,
    ///     ..TransactionOptions::default()
    /// };
    /// for expected in 1..=3 {
    ///     let count = db.retry(&serializable, &RetryOptions::default(), |transaction| {
    ///         let count = transaction.get(&family, b"visits")?.map_or(0, |value| value[0]) + 1;
    ///         transaction.put(&family, b"visits", &[count])?;
    ///         Ok(count)
    ///     })?;
    ///     assert_eq!(count, expected);
    /// }
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `work` and the commit answer; the last `Conflict` or `Busy` when the attempts are used up.
    pub fn retry<T>(
        &self,
        options: &TransactionOptions,
        retries: &RetryOptions,
        work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let transaction = self.begin_with(options.clone())?;
        retry(self.engine().env.as_ref(), transaction, retries, work)
    }
}
