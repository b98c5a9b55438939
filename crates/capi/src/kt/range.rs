//! Deleting many keys at once.

use std::ffi::c_int;

use crate::{
    border::answer,
    objects::{FamilyHandle, TransactionHandle},
    pointer::Bytes,
};

/// Deletes all keys of a range.
#[unsafe(no_mangle)]
pub extern "C" fn kt_txn_delete_range(
    txn: TransactionHandle,
    cf: FamilyHandle,
    start: Bytes,
    start_size: usize,
    end: Bytes,
    end_size: usize,
) -> c_int {
    answer(|| {
        let start = start.key(start_size)?;
        let end = end.key(end_size)?;
        txn.act_in(cf, |transaction, family| {
            transaction.delete_range(family, start, end)
        })
    })
}

/// Deletes all keys that begin alike.
#[unsafe(no_mangle)]
pub extern "C" fn kt_txn_delete_prefix(
    txn: TransactionHandle,
    cf: FamilyHandle,
    prefix: Bytes,
    prefix_size: usize,
) -> c_int {
    answer(|| {
        let prefix = prefix.key(prefix_size)?;
        txn.act_in(cf, |transaction, family| {
            transaction.delete_prefix(family, prefix)
        })
    })
}
