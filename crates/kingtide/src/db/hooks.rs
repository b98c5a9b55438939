//! Setting and clearing commit hooks.

use super::Db;
use crate::{
    error::Result,
    family::{ColumnFamily, hook::CommitHook},
};

impl Db {
    /// Sets the commit hook of `family`, in the place of one that is there, or clears it.
    ///
    /// The hook is called once for every commit that writes to the family, with the commit's operations on it, on the
    /// thread that commits. At that moment the commit is durable as its sync mode asks, and visible. The calls of one
    /// family come one at a time in the order of commits, and a commit returns after its own calls. Hooks of several
    /// families may run side by side. What the hook returns is counted ([`FamilyStats`](crate::FamilyStats)) and changes
    /// nothing; a panic is caught and counted as a failure.
    ///
    /// It is told of exactly the commits that take their place in the order between this call and the one that replaces
    /// or clears it, and when that call returns, its last call has ended. (Called inside a hook, `set_commit_hook` does
    /// not wait for this.) Hooks are not stored with the family, and a crash may come between a commit and its call. A
    /// commit whose outcome is unknown is not told. Dropping the family or closing the database clears its hook; a clone
    /// of the family begins without one.
    ///
    /// A hook may read, and may write to other families. Calls for commits that are made inside a hook come after that
    /// hook has returned, on the same thread; so hooks that write to each other's families do not wait for each other,
    /// but two of them that always do will go on for ever. What a hook writes to its own family is refused as `Busy`. A
    /// hook must not wait for another thread that commits to a family with a hook. A hook that owns a `Db` keeps the
    /// database open until it is cleared or [`Db::close`] is called.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use std::sync::{Arc, Mutex};
    ///
    /// use kingtide::{CommitOperation, Db, FamilyOptions, Options};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let orders = db.open_family("orders", FamilyOptions::default())?;
    /// let changed = Arc::new(Mutex::new(Vec::new()));
    /// let list = Arc::clone(&changed);
    /// db.set_commit_hook(
    ///     &orders,
    ///     Some(Arc::new(move |event| {
    ///         let mut list = list.lock().map_err(|error| error.to_string())?;
    ///         for operation in event.operations() {
    ///             if let CommitOperation::Put { key, .. } = operation {
    ///                 list.push((event.sequence(), key.to_vec()));
    ///             }
    ///         }
    ///         Ok(())
    ///     })),
    /// )?;
    /// db.put(&orders, b"17", b"tea")?;
    /// assert_eq!(changed.lock().expect("no panic")[0].1, b"17");
    /// db.set_commit_hook(&orders, None)?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a family of another database, `NotFound` when it was dropped, `Closed`.
    pub fn set_commit_hook(&self, family: &ColumnFamily, hook: Option<CommitHook>) -> Result<()> {
        let engine = self.engine();
        let queue = &family.family.hooks;
        let outcome = {
            // Before the checks: what is set here after a drop or a close would not be cleared by it.
            let _commit_lock = engine.pipeline.order.lock();
            engine
                .check_open()
                .and_then(|()| engine.check_family(&family.family))
                .map(|()| queue.replace(hook))
        };
        queue.settle(outcome?);
        Ok(())
    }
}
