//! What a transaction pins, and its end from outside: another thread aborts it, or its time is over.
//!
//! A transaction that nobody can abort holds its snapshots itself. From the first [`AbortHandle`] on, and from the
//! beginning when there is a timeout, they stand behind a lock that it shares with the handles: aborting takes them out,
//! which releases what they pin at once, also when the transaction is never called again. A call that runs meanwhile has
//! a copy of the snapshot of its own, so that nothing is taken away under it.

use std::{fmt, sync::Arc, time::Duration};

use kingtide_env::{
    Env,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use super::Transaction;
use crate::{
    error::{Error, ErrorKind, Result},
    snapshot::SnapshotGuard,
};

/// The snapshots of one life of a transaction.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The view of all reads, from repeatable read up.
    pub(super) view: Option<SnapshotGuard>,
    /// The oldest view of a read for update, where reads have views of their own: keeps what validation must find.
    pub(super) update: Option<SnapshotGuard>,
}

/// See the module.
#[derive(Debug)]
pub(super) enum Pins {
    Own(Held),
    Shared(Arc<Abort>),
}

impl Default for Pins {
    fn default() -> Self {
        Self::Own(Held::default())
    }
}

/// What a transaction shares with its handles.
#[derive(Debug)]
pub(super) struct Abort {
    is_aborted: AtomicBool,
    /// In monotonic nanoseconds.
    deadline: Option<u64>,
    held: Mutex<Held>,
}

impl Abort {
    fn abort(&self) {
        // Release: a call that finds the snapshots gone sees why.
        self.is_aborted.store(true, Ordering::Release);
        // Dropped outside the lock.
        let held = std::mem::take(&mut *self.held.lock());
        drop(held);
    }
}

/// The view of one call.
pub(super) enum Seen<'a> {
    /// The newest committed state.
    Newest,
    Held(&'a SnapshotGuard),
    Copied(SnapshotGuard),
}

impl Seen<'_> {
    pub(super) fn snapshot(&self) -> Option<&SnapshotGuard> {
        match self {
            Self::Newest => None,
            Self::Held(snapshot) => Some(snapshot),
            Self::Copied(snapshot) => Some(snapshot),
        }
    }
}

impl Pins {
    pub(super) fn new(
        view: Option<SnapshotGuard>,
        timeout: Option<Duration>,
        env: &dyn Env,
    ) -> Self {
        let held = Held { view, update: None };
        let Some(timeout) = timeout else {
            return Self::Own(held);
        };
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Self::Shared(Arc::new(Abort {
            is_aborted: AtomicBool::new(false),
            deadline: Some(env.monotonic_nanos().saturating_add(nanos)),
            held: Mutex::new(held),
        }))
    }

    /// Refuses a transaction that was ended from outside.
    ///
    /// # Errors
    /// `Aborted`.
    #[inline]
    pub(super) fn check(&self, env: &dyn Env) -> Result<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Shared(abort) => check(abort, env),
        }
    }

    /// What the next read sees.
    ///
    /// # Errors
    /// `Aborted`, when a view was held and is gone.
    pub(super) fn seen(&self, has_one_view: bool) -> Result<Seen<'_>> {
        match self {
            Self::Own(held) => Ok(held.view.as_ref().map_or(Seen::Newest, Seen::Held)),
            Self::Shared(abort) => match abort.held.lock().view.clone() {
                Some(view) => Ok(Seen::Copied(view)),
                None if has_one_view => Err(aborted()),
                None => Ok(Seen::Newest),
            },
        }
    }

    /// Keeps `snapshot` until the end, unless an older one is kept already.
    pub(super) fn keep_for_update(&mut self, snapshot: SnapshotGuard) {
        match self {
            Self::Own(held) => {
                held.update.get_or_insert(snapshot);
            }
            Self::Shared(abort) => {
                let mut held = abort.held.lock();
                // Acquire: pairs with the store in `abort`; nothing is pinned any more after it.
                if !abort.is_aborted.load(Ordering::Acquire) {
                    held.update.get_or_insert(snapshot);
                }
            }
        }
    }

    /// Takes everything out, for the commit.
    ///
    /// # Errors
    /// `Aborted`.
    pub(super) fn take(&mut self) -> Result<Held> {
        match self {
            Self::Own(held) => Ok(std::mem::take(held)),
            Self::Shared(abort) => {
                let held = std::mem::take(&mut *abort.held.lock());
                // Acquire: pairs with the store in `abort`, which comes before it takes the snapshots.
                if abort.is_aborted.load(Ordering::Acquire) {
                    return Err(aborted());
                }
                Ok(held)
            }
        }
    }

    /// The part that handles share, made when it is first asked for.
    fn shared(&mut self) -> &Arc<Abort> {
        if let Self::Own(held) = self {
            *self = Self::Shared(Arc::new(Abort {
                is_aborted: AtomicBool::new(false),
                deadline: None,
                held: Mutex::new(std::mem::take(held)),
            }));
        }
        match self {
            Self::Shared(abort) => abort,
            Self::Own(_) => unreachable!("an own one was just replaced"),
        }
    }
}

fn check(abort: &Abort, env: &dyn Env) -> Result<()> {
    // Acquire: pairs with the store in `abort`.
    if abort.is_aborted.load(Ordering::Acquire) {
        return Err(aborted());
    }
    if abort
        .deadline
        .is_some_and(|deadline| env.monotonic_nanos() >= deadline)
    {
        abort.abort();
        return Err(aborted());
    }
    Ok(())
}

fn aborted() -> Error {
    Error::new(
        ErrorKind::Aborted,
        "the transaction was aborted by another thread, or its time was over: roll it back or reset it",
    )
}

/// Aborts one transaction from any thread. Cheap to clone.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, ErrorKind, FamilyOptions, Options};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let family = db.open_family("f", FamilyOptions::default())?;
/// let mut transaction = db.begin()?;
/// let handle = transaction.abort_handle();
/// transaction.put(&family, b"k", b"v")?;
/// std::thread::spawn(move || handle.abort()).join().expect("no panic");
/// assert_eq!(transaction.commit().expect_err("aborted").kind(), ErrorKind::Aborted);
/// assert!(db.get(&family, b"k")?.is_none());
/// # db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct AbortHandle {
    abort: Arc<Abort>,
}

impl AbortHandle {
    /// Aborts the transaction: its next call answers `Aborted`, a commit that has not begun included, and what its
    /// snapshot pins is released at once. A commit that runs already goes on. Does nothing to a transaction that has
    /// ended, nor to a later life of it after a reset.
    pub fn abort(&self) {
        self.abort.abort();
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").finish_non_exhaustive()
    }
}

impl Transaction {
    /// A handle to abort this life of the transaction with, from any thread. After a reset, ask for another one.
    pub fn abort_handle(&mut self) -> AbortHandle {
        AbortHandle {
            abort: Arc::clone(self.pins.shared()),
        }
    }
}
