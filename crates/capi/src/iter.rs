//! Iterators.

use std::{
    ffi::c_int,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kingtide::{Iter, IterOptions};

use crate::{
    border::{Failure, Outcome, answer, answer_with, code},
    objects::{
        Database, FamilyHandle, ITERATORS, IteratorHandle, TransactionHandle, handle_place,
        no_handle,
    },
    pointer::{Bytes, Out},
};

/// An iterator and what it must not outlive.
#[derive(Debug)]
pub(crate) struct Cursor {
    iter: Iter,
    database: Arc<Database>,
    transaction_ended: Arc<AtomicBool>,
}

impl Cursor {
    #[inline]
    fn check(&self) -> Outcome<()> {
        self.database.check_open()?;
        // Acquire: pairs with the end of the transaction.
        if self.transaction_ended.load(Ordering::Acquire) {
            return Err(Failure::invalid(
                "iter: its transaction was freed or reset; free the iterator first",
            ));
        }
        Ok(())
    }

    fn check_positioned(&self) -> Outcome<()> {
        if self.iter.is_valid() {
            return Ok(());
        }
        Err(Failure::invalid("iter: not positioned: seek first"))
    }
}

/// What `action` does with an iterator whose database and transaction are there.
#[inline(always)]
fn with<R>(iter: IteratorHandle, action: impl FnOnce(&mut Cursor) -> Outcome<R>) -> Outcome<R> {
    iter.with(|cursor| {
        cursor.check()?;
        action(cursor)
    })
}

/// Makes a move; arriving nowhere is `TDB_ERR_NOT_FOUND`.
#[inline(always)]
fn go(iter: IteratorHandle, step: impl FnOnce(&mut Iter) -> kingtide::Result<bool>) -> Outcome<()> {
    with(iter, |cursor| {
        if step(&mut cursor.iter)? {
            Ok(())
        } else {
            Err(Failure::new(code::NOT_FOUND, "there is no such entry"))
        }
    })
}

/// A new iterator of a transaction.
///
/// # Errors
/// What is wrong with the arguments, and what the engine answers.
pub(crate) fn open(
    (txn, cf): (TransactionHandle, FamilyHandle),
    options: IterOptions,
) -> Outcome<IteratorHandle> {
    let cursor = txn.with(|work| {
        let family = work.families.get(cf, &work.database)?;
        let iter = work.transaction.iter(family, options);
        Ok(Cursor {
            iter: iter.map_err(|error| work.failure(error))?,
            database: Arc::clone(&work.database),
            transaction_ended: work.end(),
        })
    })?;
    let handle = ITERATORS.insert(Box::new(cursor)).ok_or_else(no_handle)?;
    Ok(IteratorHandle::from_number(handle))
}

/// When the entry under an iterator expires.
///
/// # Errors
/// What is wrong with the handle; `TDB_ERR_INVALID_ARGS` when it is not positioned.
pub(crate) fn expires_at(iter: IteratorHandle) -> Outcome<Option<i64>> {
    with(iter, |cursor| {
        cursor.check_positioned()?;
        Ok(cursor.iter.expires_at())
    })
}

/// Makes an iterator over what the transaction sees.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_new(
    txn: TransactionHandle,
    cf: FamilyHandle,
    iter: Out<IteratorHandle>,
) -> c_int {
    answer(|| {
        let place = handle_place(iter, IteratorHandle::NULL, "iter")?;
        place.set(open((txn, cf), IterOptions::default())?);
        Ok(())
    })
}

/// Goes to the first key at or after `key`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_seek(iter: IteratorHandle, key: Bytes, key_size: usize) -> c_int {
    answer(|| {
        let key = key.key(key_size)?;
        go(iter, |iter| iter.seek(key))
    })
}

/// Goes to the last key at or before `key`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_seek_for_prev(
    iter: IteratorHandle,
    key: Bytes,
    key_size: usize,
) -> c_int {
    answer(|| {
        let key = key.key(key_size)?;
        go(iter, |iter| iter.seek_for_prev(key))
    })
}

/// Goes to the first key.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_seek_to_first(iter: IteratorHandle) -> c_int {
    answer(|| go(iter, Iter::seek_to_first))
}

/// Goes to the last key.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_seek_to_last(iter: IteratorHandle) -> c_int {
    answer(|| go(iter, Iter::seek_to_last))
}

/// Goes to the following key.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_next(iter: IteratorHandle) -> c_int {
    answer(|| go(iter, Iter::next))
}

/// Goes to the preceding key.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_prev(iter: IteratorHandle) -> c_int {
    answer(|| go(iter, Iter::prev))
}

/// 1 while the iterator is on a key.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_valid(iter: IteratorHandle) -> c_int {
    answer_with(
        || with(iter, |cursor| Ok(c_int::from(cursor.iter.is_valid()))),
        |_| 0,
    )
}

/// What an empty key or value points to: some runtimes take pointers to nowhere for damage.
static NOTHING: u8 = 0;

/// Lends bytes to the caller until the iterator moves.
fn lend(bytes: &[u8], (place, size_place): (Out<*mut u8>, Out<usize>)) -> Outcome<()> {
    let (place, size_place) = (place.require("data")?, size_place.require("size")?);
    let first = bytes.first().unwrap_or(&NOTHING);
    place.set(std::ptr::from_ref(first).cast_mut());
    size_place.set(bytes.len());
    Ok(())
}

/// Lends the key.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_key(
    iter: IteratorHandle,
    key: Out<*mut u8>,
    key_size: Out<usize>,
) -> c_int {
    answer(|| {
        with(iter, |cursor| {
            cursor.check_positioned()?;
            lend(cursor.iter.key(), (key, key_size))
        })
    })
}

/// Lends the value.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_value(
    iter: IteratorHandle,
    value: Out<*mut u8>,
    value_size: Out<usize>,
) -> c_int {
    answer(|| {
        with(iter, |cursor| {
            lend(cursor.iter.value()?, (value, value_size))
        })
    })
}

/// Lends the key and the value.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_key_value(
    iter: IteratorHandle,
    key: Out<*mut u8>,
    key_size: Out<usize>,
    value: Out<*mut u8>,
    value_size: Out<usize>,
) -> c_int {
    answer(|| {
        with(iter, |cursor| {
            value.require("value")?;
            value_size.require("value_size")?;
            let (its_key, its_value) = cursor.iter.entry()?;
            lend(its_key, (key, key_size))?;
            lend(its_value, (value, value_size))
        })
    })
}

/// Ends an iterator.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_iter_free(iter: IteratorHandle) {
    let _ = answer(|| {
        if iter.number() == 0 {
            return Ok(());
        }
        ITERATORS
            .discard(iter.number())
            .map_err(|refused| Failure::handle("iter", refused))
    });
}
