//! Transactions: reads at a view, writes buffered until commit, own writes seen first.
//!
//! | module | what it is |
//! |---|---|
//! | `begin` | begin, reset, roll back |
//! | `reads`, `view` | gets and iterators over the view and the own writes; what must be remembered of them |
//! | `writes`, `range_delete` | puts and deletes, within the limit |
//! | `single_delete` | deletes of keys that were put once |
//! | `savepoint` | taking back the writes after a point |
//! | `spill` | long values: put and read piece by piece |
//! | `commit` | what is checked, how durable it must be |
//! | `prepare` | the first phase of two-phase commit |
//! | `abort` | the end from outside: abort by another thread, time over |
//! | `retry` | a piece of work again until it commits |

mod abort;
mod begin;
mod commit;
mod prepare;
mod range_delete;
mod reads;
mod retry;
mod savepoint;
mod single_delete;
mod spill;
mod view;
mod writes;

use std::{fmt, sync::Arc};

pub use abort::AbortHandle;
pub(crate) use prepare::{check_xid, durability_of, isolation_of};
pub use retry::RetryOptions;
pub(crate) use retry::retry;
pub(crate) use view::{acquire, contains_at, get_at, iter_at, with_answer};
pub(crate) use writes::{check_key, check_value};

use self::{abort::Pins, begin::Holding, savepoint::Savepoint};
use crate::{
    engine::Engine, options::TransactionOptions, read::tracker::SharedReads, write::WriteSet,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Committed,
    RolledBack,
    Prepared,
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
    options: TransactionOptions,
    pins: Pins,
    writes: WriteSet,
    /// What was read, where the level or a read for update asks for it.
    reads: Option<Arc<SharedReads>>,
    savepoints: Vec<Savepoint>,
    holding: Holding,
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
        self.holding.end(&self.engine);
        let had_spilled = self.writes.has_spilled();
        self.engine.recycle(std::mem::take(&mut self.writes));
        if had_spilled && self.state != State::Committed {
            self.engine.tidy_spilled();
        }
        if let Some(reads) = self.reads.take() {
            self.engine.recycle_reads(reads);
        }
    }
}
