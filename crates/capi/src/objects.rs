//! What stands behind the handles.

use std::{
    collections::HashMap,
    ffi::c_char,
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use kingtide::{ColumnFamily, Db, SyncMode, Transaction};

use crate::{
    border::{Failure, Outcome, code},
    comparator::Registered,
    handle::{Refused, Table},
    iter::Cursor,
    kt::{snapshot::NamedSnapshot, txn::Abort},
    pointer::{Context, Out},
    txn::Work,
    types::CommitHook,
};

/// An open database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) db: Db,
    /// Handles of families, by name: a family has one handle.
    pub(crate) families: Mutex<HashMap<String, u64>>,
    /// Held while families are created, dropped or renamed, so that `families` says the same as the engine.
    pub(crate) family_changes: Mutex<()>,
    /// Orders of the user.
    pub(crate) comparators: Mutex<Vec<Arc<Registered>>>,
    /// Replaces the sync modes of the families, with a unified memtable.
    pub(crate) unified_sync: Option<SyncMode>,
    pub(crate) is_unified: bool,
    pub(crate) is_closed: AtomicBool,
}

impl Database {
    pub(crate) fn families(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        lock(&self.families)
    }

    /// # Errors
    /// `TDB_ERR_INVALID_DB` once the database was closed.
    #[inline]
    pub(crate) fn check_open(&self) -> Outcome<()> {
        // Acquire: pairs with the store in `tidesdb_close`.
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Failure::new(code::INVALID_DB, "the database was closed"));
        }
        Ok(())
    }
}

/// A column family of an open database.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) family: ColumnFamily,
    pub(crate) database: Arc<Database>,
    /// As the user gave it.
    pub(crate) hook: Mutex<Option<(CommitHook, Context)>>,
}

pub(crate) static DATABASES: Table<Arc<Database>> = Table::new(0);
pub(crate) static FAMILIES: Table<Arc<Family>> = Table::new(1);
pub(crate) static TRANSACTIONS: Table<Box<Work>> = Table::new(2);
pub(crate) static ITERATORS: Table<Box<Cursor>> = Table::new(3);
pub(crate) static SNAPSHOTS: Table<Arc<NamedSnapshot>> = Table::new(4);
pub(crate) static ABORTS: Table<Abort> = Table::new(5);

/// A lock that does not care whether a panic left it.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name(*mut c_char);

        impl $name {
            #[inline]
            pub(crate) fn number(self) -> u64 {
                self.0.addr() as u64
            }

            /// The pointer that C sees.
            pub(crate) fn from_number(number: u64) -> Self {
                Self(ptr::without_provenance_mut(number as usize))
            }

            pub(crate) const NULL: Self = Self(ptr::null_mut());
        }
    )+};
}

handles!(
    /// `tidesdb_t *`.
    DatabaseHandle,
    /// `tidesdb_column_family_t *`.
    FamilyHandle,
    /// `tidesdb_txn_t *`.
    TransactionHandle,
    /// `tidesdb_iter_t *`.
    IteratorHandle,
    /// `kt_snapshot_t *`.
    SnapshotHandle,
    /// `kt_abort_t *`.
    AbortPointer,
);

impl DatabaseHandle {
    /// # Errors
    /// What is wrong with the handle.
    pub(crate) fn get(self) -> Outcome<Arc<Database>> {
        DATABASES
            .share(self.number(), Arc::clone)
            .map_err(|refused| Failure::handle("db", refused))
    }
}

impl FamilyHandle {
    /// # Errors
    /// What is wrong with the handle; `TDB_ERR_NOT_FOUND` for a family that was dropped or whose database was closed.
    pub(crate) fn get(self) -> Outcome<Arc<Family>> {
        FAMILIES
            .share(self.number(), Arc::clone)
            .map_err(|refused| match refused {
                Refused::Stale => Failure::new(
                    code::NOT_FOUND,
                    "cf: the family was dropped, or its database closed",
                ),
                refused => Failure::handle("cf", refused),
            })
    }
}

impl TransactionHandle {
    /// What `action` does with the transaction.
    ///
    /// # Errors
    /// What is wrong with the handle; `TDB_ERR_BUSY` while another thread uses it; what `action` answers.
    #[inline(always)]
    pub(crate) fn with<R>(self, action: impl FnOnce(&mut Work) -> Outcome<R>) -> Outcome<R> {
        let refuse = |refused| Failure::handle("txn", refused);
        TRANSACTIONS.with(self.number(), refuse, |work| action(work))
    }

    /// As [`Self::with`], for one operation of the engine.
    #[inline(always)]
    pub(crate) fn act<R>(
        self,
        operation: impl FnOnce(&mut Transaction) -> kingtide::Result<R>,
    ) -> Outcome<R> {
        self.with(|work| operation(&mut work.transaction).map_err(|error| work.failure(error)))
    }

    /// As [`Self::act`], in the family of `cf`.
    #[inline(always)]
    pub(crate) fn act_in<R>(
        self,
        cf: FamilyHandle,
        operation: impl FnOnce(&mut Transaction, &ColumnFamily) -> kingtide::Result<R>,
    ) -> Outcome<R> {
        self.with(|work| {
            let family = work.families.get(cf, &work.database)?;
            operation(&mut work.transaction, family).map_err(|error| work.failure(error))
        })
    }
}

impl IteratorHandle {
    /// What `action` does with the iterator.
    ///
    /// # Errors
    /// What is wrong with the handle; `TDB_ERR_BUSY` while another thread uses it; what `action` answers.
    #[inline(always)]
    pub(crate) fn with<R>(self, action: impl FnOnce(&mut Cursor) -> Outcome<R>) -> Outcome<R> {
        let refuse = |refused| Failure::handle("iter", refused);
        ITERATORS.with(self.number(), refuse, |cursor| action(cursor))
    }
}

impl SnapshotHandle {
    /// # Errors
    /// What is wrong with the handle.
    pub(crate) fn get(self) -> Outcome<Arc<NamedSnapshot>> {
        SNAPSHOTS
            .share(self.number(), Arc::clone)
            .map_err(|refused| Failure::handle("snapshot", refused))
    }
}

impl AbortPointer {
    /// # Errors
    /// What is wrong with the handle.
    pub(crate) fn get(self) -> Outcome<Abort> {
        ABORTS
            .share(self.number(), Arc::clone)
            .map_err(|refused| Failure::handle("abort", refused))
    }
}

/// Says that all handles of a kind are in use.
#[cold]
pub(crate) fn no_handle() -> Failure {
    Failure::new(
        code::MEMORY,
        "262,144 objects of this kind are alive: free some",
    )
}

/// The place for a handle, set to null until there is one.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS` for null.
pub(crate) fn handle_place<H>(
    out: Out<H>,
    null: H,
    name: &'static str,
) -> Outcome<crate::pointer::Place<H>> {
    let place = out.require(name)?;
    place.set(null);
    Ok(place)
}
