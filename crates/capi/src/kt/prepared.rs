//! Two-phase commit.

use std::{
    ffi::{c_char, c_int},
    ptr,
};

use kingtide::PreparedTransaction;

use crate::{
    alloc::{Pending, copy_array, copy_bytes, copy_text, free_array},
    border::{Outcome, answer, not_in_callback},
    config::isolation_number,
    objects::{DatabaseHandle, TransactionHandle},
    pointer::{Bytes, Out},
};

/// The longest xid, in bytes; a longer one is refused before it is looked at.
const XID_BYTES_MAX: usize = 128;

/// `kt_prepared_t`. Handed out by this library alone, so it needs no size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    xid: *mut u8,
    xid_size: usize,
    operation_count: u64,
    bytes: u64,
    age_us: u64,
    isolation: c_int,
    family_count: c_int,
    families: *mut *mut c_char,
}

fn xid_of(xid: &Bytes, size: usize) -> Outcome<&[u8]> {
    if size == 0 {
        return Err(crate::border::Failure::invalid("xid: empty"));
    }
    xid.at_most(size, XID_BYTES_MAX, "xid")
}

/// Prepares a transaction under a name.
#[unsafe(no_mangle)]
pub extern "C" fn kt_txn_prepare(txn: TransactionHandle, xid: Bytes, xid_size: usize) -> c_int {
    answer(|| {
        not_in_callback()?;
        let xid = xid_of(&xid, xid_size)?;
        txn.act(|transaction| transaction.prepare(xid))
    })
}

/// Commits a prepared transaction.
#[unsafe(no_mangle)]
pub extern "C" fn kt_commit_prepared(db: DatabaseHandle, xid: Bytes, xid_size: usize) -> c_int {
    answer(|| {
        not_in_callback()?;
        let xid = xid_of(&xid, xid_size)?;
        let database = db.get()?;
        match database.unified_sync {
            Some(sync) => database.db.commit_prepared_with(xid, sync)?,
            None => database.db.commit_prepared(xid)?,
        };
        Ok(())
    })
}

/// Rolls a prepared transaction back.
#[unsafe(no_mangle)]
pub extern "C" fn kt_rollback_prepared(db: DatabaseHandle, xid: Bytes, xid_size: usize) -> c_int {
    answer(|| {
        not_in_callback()?;
        let xid = xid_of(&xid, xid_size)?;
        Ok(db.get()?.db.rollback_prepared(xid)?)
    })
}

/// The prepared transactions that wait for their outcome.
#[unsafe(no_mangle)]
pub extern "C" fn kt_recover_prepared(
    db: DatabaseHandle,
    list: Out<*mut Prepared>,
    count: Out<usize>,
) -> c_int {
    answer(|| {
        let list_place = list.require("list")?;
        let count_place = count.require("count")?;
        list_place.set(ptr::null_mut());
        count_place.set(0);
        let found = db.get()?.db.prepared()?;
        let mut pending = Pending::default();
        let mut copies = Vec::with_capacity(found.len());
        for one in &found {
            copies.push(copy(one, &mut pending)?);
        }
        list_place.set(pending.keep(copy_array(&copies)?));
        count_place.set(copies.len());
        pending.release();
        Ok(())
    })
}

fn copy(one: &PreparedTransaction, pending: &mut Pending) -> Outcome<Prepared> {
    let mut families = Vec::with_capacity(one.families.len());
    for name in &one.families {
        families.push(pending.keep(copy_text(name)?));
    }
    Ok(Prepared {
        xid: pending.keep(copy_bytes(&one.xid)?),
        xid_size: one.xid.len(),
        operation_count: one.operation_count as u64,
        bytes: one.bytes,
        age_us: u64::try_from(one.age.as_micros()).unwrap_or(u64::MAX),
        isolation: isolation_number(one.isolation),
        family_count: c_int::try_from(families.len()).unwrap_or(c_int::MAX),
        families: pending.keep(copy_array(&families)?),
    })
}

/// `kt_prepared_t *` that `kt_recover_prepared` handed out with this count, or null: what the header demands.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct PreparedList(*mut Prepared);

impl PreparedList {
    fn items(&self, count: usize) -> &[Prepared] {
        if self.0.is_null() {
            return &[];
        }
        // SAFETY: handed out by `kt_recover_prepared` with this count and not freed yet (the promise above).
        unsafe { std::slice::from_raw_parts(self.0, count) }
    }
}

/// Frees what `kt_recover_prepared` answered.
#[unsafe(no_mangle)]
pub extern "C" fn kt_free_prepared(list: PreparedList, count: usize) {
    let _ = answer(|| {
        for item in list.items(count) {
            let count = usize::try_from(item.family_count).unwrap_or(0);
            // SAFETY: made by `copy` with this many names.
            for name in unsafe { std::slice::from_raw_parts(item.families, count) } {
                free_array(*name);
            }
            free_array(item.families);
            free_array(item.xid);
        }
        free_array(list.0);
        Ok(())
    });
}
