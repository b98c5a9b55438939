//! Transactions.
//!
//! A transaction keeps the families that it was used with, so that an operation costs no look-up in shared memory: the
//! handle that it was given is compared with the ones it knows.

use std::{
    ffi::c_int,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kingtide::{ColumnFamily, Error, ErrorKind, IsolationLevel, Transaction, TransactionOptions};

use crate::{
    alloc::copy_bytes,
    border::{Failure, Outcome, answer, code, codes, not_in_callback},
    config::isolation,
    family::check_owner,
    objects::{
        Database, DatabaseHandle, FamilyHandle, TRANSACTIONS, TransactionHandle, handle_place,
        no_handle,
    },
    pointer::{Bytes, Out, Text},
};

/// A transaction and what it needs at hand.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) transaction: Transaction,
    pub(crate) families: KnownFamilies,
    pub(crate) database: Arc<Database>,
    /// Told to the iterators of this transaction when it ends or begins again.
    end: Option<Arc<AtomicBool>>,
}

/// The families that a transaction was used with, the last one first.
#[derive(Debug, Default)]
pub(crate) struct KnownFamilies {
    last: Option<(u64, ColumnFamily)>,
    others: Vec<(u64, ColumnFamily)>,
}

impl KnownFamilies {
    /// The family of that handle.
    ///
    /// # Errors
    /// What is wrong with the handle; `TDB_ERR_INVALID_ARGS` for a family of another database.
    #[inline]
    pub(crate) fn get(
        &mut self,
        cf: FamilyHandle,
        database: &Arc<Database>,
    ) -> Outcome<&ColumnFamily> {
        let is_last = matches!(&self.last, Some((handle, _)) if *handle == cf.number());
        if !is_last {
            self.find(cf, database)?;
        }
        match &self.last {
            Some((_, family)) => Ok(family),
            None => Err(Failure::invalid("cf: no family")),
        }
    }

    /// Makes the family of `cf` the last one.
    fn find(&mut self, cf: FamilyHandle, database: &Arc<Database>) -> Outcome<()> {
        let handle = cf.number();
        let known = self.others.iter_mut().find(|(known, _)| *known == handle);
        if let Some(place) = known {
            if let Some(last) = &mut self.last {
                std::mem::swap(last, place);
            }
            return Ok(());
        }
        let family = cf.get()?;
        check_owner(database, &family)?;
        let before = self.last.replace((handle, family.family.clone()));
        self.others.extend(before);
        Ok(())
    }
}

impl Work {
    /// What an error of the transaction means to the caller: the engine has one kind for a finished transaction and a
    /// closed database.
    #[cold]
    pub(crate) fn failure(&self, error: Error) -> Failure {
        let is_finished = error.kind() == ErrorKind::Closed && self.database.check_open().is_ok();
        let (code, kind) = codes(&error);
        let code = if is_finished {
            code::INVALID_ARGS
        } else {
            code
        };
        Failure::of_engine((code, kind), &error)
    }

    /// What the transaction's iterators watch.
    pub(crate) fn end(&mut self) -> Arc<AtomicBool> {
        Arc::clone(self.end.get_or_insert_default())
    }

    /// Ends the iterators of the transaction.
    fn end_iterators(&mut self) {
        if let Some(end) = self.end.take() {
            // Release: pairs with the load of an iterator.
            end.store(true, Ordering::Release);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.end_iterators();
    }
}

/// Makes a transaction known to C.
///
/// # Errors
/// `TDB_ERR_MEMORY` when there are too many.
pub(crate) fn adopt(
    database: Arc<Database>,
    transaction: Transaction,
) -> Outcome<TransactionHandle> {
    let work = Work {
        transaction,
        families: KnownFamilies::default(),
        database,
        end: None,
    };
    let handle = TRANSACTIONS.insert(Box::new(work)).ok_or_else(no_handle)?;
    Ok(TransactionHandle::from_number(handle))
}

/// The settings of a transaction at `isolation`.
pub(crate) fn options_at(database: &Database, isolation: IsolationLevel) -> TransactionOptions {
    TransactionOptions {
        isolation,
        sync: database.unified_sync,
        ..TransactionOptions::default()
    }
}

fn begin(db: DatabaseHandle, level: c_int, txn: Out<TransactionHandle>) -> Outcome<()> {
    let place = handle_place(txn, TransactionHandle::NULL, "txn")?;
    let level = isolation(level)?;
    let database = db.get()?;
    let options = options_at(&database, level);
    let transaction = database.db.begin_with(options)?;
    place.set(adopt(database, transaction)?);
    Ok(())
}

/// Begins a transaction at read committed.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_begin(db: DatabaseHandle, txn: Out<TransactionHandle>) -> c_int {
    answer(|| begin(db, 1, txn))
}

/// Begins a transaction at a level.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_begin_with_isolation(
    db: DatabaseHandle,
    isolation: c_int,
    txn: Out<TransactionHandle>,
) -> c_int {
    answer(|| begin(db, isolation, txn))
}

/// Sets a key to a value.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_put(
    txn: TransactionHandle,
    cf: FamilyHandle,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    ttl: libc::time_t,
) -> c_int {
    answer(|| {
        let key = key.key(key_size)?;
        let value = value.value(value_size)?;
        txn.act_in(cf, |transaction, family| {
            transaction.put_expiring(family, key, value, ttl)
        })
    })
}

/// How a value is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    Tracked,
    Untracked,
    ForUpdate,
}

/// Reads a value, as an allocation of the caller's.
///
/// # Errors
/// What is wrong with the arguments, and what the engine answers.
pub(crate) fn get(
    (txn, cf): (TransactionHandle, FamilyHandle),
    key: &[u8],
    (value, value_size): (Out<*mut u8>, Out<usize>),
    reading: Reading,
) -> Outcome<()> {
    let value_place = value.require("value")?;
    let size_place = value_size.require("value_size")?;
    let copy = |found: &[u8]| {
        value_place.set(copy_bytes(found)?);
        size_place.set(found.len());
        Ok(())
    };
    let copied = txn.act_in(cf, |transaction, family| match reading {
        Reading::Tracked => transaction.get_with(family, key, copy),
        Reading::Untracked => transaction.get_untracked_with(family, key, copy),
        Reading::ForUpdate => {
            let found = transaction.get_for_update(family, key)?;
            Ok(found.map(|found| copy(&found)))
        }
    })?;
    copied.unwrap_or_else(|| Err(Failure::new(code::NOT_FOUND, "the key has no value")))
}

/// Reads the value of a key.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_get(
    txn: TransactionHandle,
    cf: FamilyHandle,
    key: Bytes,
    key_size: usize,
    value: Out<*mut u8>,
    value_size: Out<usize>,
) -> c_int {
    answer(|| {
        let key = key.key(key_size)?;
        get((txn, cf), key, (value, value_size), Reading::Tracked)
    })
}

/// Reads the value of a key without recording the read.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_get_notrack(
    txn: TransactionHandle,
    cf: FamilyHandle,
    key: Bytes,
    key_size: usize,
    value: Out<*mut u8>,
    value_size: Out<usize>,
) -> c_int {
    answer(|| {
        let key = key.key(key_size)?;
        get((txn, cf), key, (value, value_size), Reading::Untracked)
    })
}

/// Looks whether a key has a value, without recording the read.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_contains(
    txn: TransactionHandle,
    cf: FamilyHandle,
    key: Bytes,
    key_size: usize,
) -> c_int {
    answer(|| {
        let key = key.key(key_size)?;
        if txn.act_in(cf, |transaction, family| transaction.contains(family, key))? {
            return Ok(());
        }
        Err(Failure::new(code::NOT_FOUND, "the key has no value"))
    })
}

/// Deletes a key.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_delete(
    txn: TransactionHandle,
    cf: FamilyHandle,
    key: Bytes,
    key_size: usize,
) -> c_int {
    answer(|| {
        let key = key.key(key_size)?;
        txn.act_in(cf, |transaction, family| transaction.delete(family, key))
    })
}

/// Deletes a key that was written once.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_single_delete(
    txn: TransactionHandle,
    cf: FamilyHandle,
    key: Bytes,
    key_size: usize,
) -> c_int {
    answer(|| {
        let key = key.key(key_size)?;
        txn.act_in(cf, |transaction, family| {
            transaction.single_delete(family, key)
        })
    })
}

/// Commits.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_commit(txn: TransactionHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        txn.act(Transaction::commit).map(|_| ())
    })
}

/// Forgets the writes.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_rollback(txn: TransactionHandle) -> c_int {
    answer(|| txn.act(Transaction::rollback))
}

/// Begins again.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_reset(txn: TransactionHandle, isolation_level: c_int) -> c_int {
    answer(|| {
        let level = isolation(isolation_level)?;
        txn.with(|work| {
            let options = options_at(&work.database, level);
            let outcome = work.transaction.reset_with(options);
            outcome.map_err(|error| work.failure(error))?;
            work.end_iterators();
            Ok(())
        })
    })
}

/// The longest name of a savepoint, in bytes.
const SAVEPOINT_NAME_BYTES_MAX: usize = 4096;

/// Does something with a savepoint.
fn with_savepoint(
    txn: TransactionHandle,
    name: Text,
    action: impl FnOnce(&mut Transaction, &str) -> kingtide::Result<()>,
) -> Outcome<()> {
    let name = name.name(SAVEPOINT_NAME_BYTES_MAX, "name")?;
    txn.act(|transaction| action(transaction, name))
}

/// Marks the writes made so far.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_savepoint(txn: TransactionHandle, name: Text) -> c_int {
    answer(|| with_savepoint(txn, name, Transaction::savepoint))
}

/// Undoes what was written since a mark.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_rollback_to_savepoint(txn: TransactionHandle, name: Text) -> c_int {
    answer(|| with_savepoint(txn, name, Transaction::rollback_to))
}

/// Removes a mark.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_release_savepoint(txn: TransactionHandle, name: Text) -> c_int {
    answer(|| with_savepoint(txn, name, Transaction::release))
}

/// Ends a transaction and its handle; what was not committed is forgotten.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_txn_free(txn: TransactionHandle) {
    let _ = answer(|| {
        if txn.number() == 0 {
            return Ok(());
        }
        TRANSACTIONS
            .discard(txn.number())
            .map_err(|refused| Failure::handle("txn", refused))
    });
}
