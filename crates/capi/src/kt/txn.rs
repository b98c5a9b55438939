//! Transactions with options; reads for update and of many keys; aborting from another thread.

use std::{ffi::c_int, mem, sync::Arc, time::Duration};

use kingtide::{AbortHandle, SyncMode, TransactionOptions};

use crate::{
    alloc::{Pending, copy_bytes},
    border::{Failure, Outcome, answer},
    config::{isolation, sync_mode},
    objects::{
        ABORTS, AbortPointer, Database, DatabaseHandle, FamilyHandle, SnapshotHandle,
        TransactionHandle, handle_place, no_handle,
    },
    pointer::{Bytes, GrowingStruct, In, InSized, Out},
    txn::{Reading, adopt, get},
};

/// `kt_txn_options_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TxnOptions {
    size: usize,
    isolation: c_int,
    sync_mode: c_int,
    sync_interval_us: u64,
    timeout_us: u64,
    snapshot: SnapshotHandle,
}

// SAFETY: repr(C), begins with its size; integers and a handle, which may be any number.
unsafe impl GrowingStruct for TxnOptions {
    fn defaults() -> Self {
        Self {
            size: mem::size_of::<Self>(),
            isolation: 1,
            sync_mode: SYNC_OF_FAMILIES,
            sync_interval_us: 0,
            timeout_us: 0,
            snapshot: SnapshotHandle::NULL,
        }
    }
}

/// The strictest mode of the families that the transaction touches.
const SYNC_OF_FAMILIES: c_int = -1;

/// The sync mode that options ask for.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS`.
pub(crate) fn wanted_sync(
    database: &Database,
    mode: c_int,
    interval_us: u64,
) -> Outcome<Option<SyncMode>> {
    if mode == SYNC_OF_FAMILIES {
        Ok(database.unified_sync)
    } else {
        sync_mode(mode, interval_us).map(Some)
    }
}

/// Begins a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn kt_txn_begin(
    db: DatabaseHandle,
    options: InSized<TxnOptions>,
    txn: Out<TransactionHandle>,
) -> c_int {
    answer(|| {
        let place = handle_place(txn, TransactionHandle::NULL, "txn")?;
        let given = options.read("options")?;
        let database = db.get()?;
        let options = TransactionOptions {
            isolation: isolation(given.isolation)?,
            sync: wanted_sync(&database, given.sync_mode, given.sync_interval_us)?,
            timeout: (given.timeout_us > 0).then(|| Duration::from_micros(given.timeout_us)),
        };
        let transaction = if given.snapshot.number() == 0 {
            database.db.begin_with(options)?
        } else {
            let snapshot = given.snapshot.get()?;
            if !Arc::ptr_eq(&snapshot.database, &database) {
                return Err(Failure::invalid("snapshot: belongs to another database"));
            }
            database.db.begin_at(&snapshot.snapshot, options)?
        };
        place.set(adopt(database, transaction)?);
        Ok(())
    })
}

/// Reads a value and treats the key as written at commit.
#[unsafe(no_mangle)]
pub extern "C" fn kt_txn_get_for_update(
    txn: TransactionHandle,
    cf: FamilyHandle,
    key: Bytes,
    key_size: usize,
    value: Out<*mut u8>,
    value_size: Out<usize>,
) -> c_int {
    answer(|| {
        let key = key.key(key_size)?;
        get((txn, cf), key, (value, value_size), Reading::ForUpdate)
    })
}

/// Reads many values at one moment.
#[unsafe(no_mangle)]
pub extern "C" fn kt_txn_multi_get(
    txn: TransactionHandle,
    cf: FamilyHandle,
    count: usize,
    keys: In<Bytes>,
    key_sizes: In<usize>,
    values: Out<*mut u8>,
    value_sizes: Out<usize>,
) -> c_int {
    answer(|| {
        let (keys, sizes) = (
            keys.array(count, "keys")?,
            key_sizes.array(count, "key_sizes")?,
        );
        let value_places = values.array(count, "values")?;
        let size_places = value_sizes.array(count, "value_sizes")?;
        let keys = keys.iter().zip(sizes).map(|(key, size)| key.key(*size));
        let keys: Vec<&[u8]> = keys.collect::<Outcome<_>>()?;
        let found = txn.act_in(cf, |transaction, family| {
            transaction.multi_get(family, &keys)
        })?;
        let mut pending = Pending::default();
        let mut copies = Vec::with_capacity(found.len());
        for value in &found {
            copies.push(match value {
                Some(value) => (pending.keep(copy_bytes(value)?), value.len()),
                None => (std::ptr::null_mut(), 0),
            });
        }
        for (index, (value, size)) in copies.into_iter().enumerate() {
            value_places.set(index, value);
            size_places.set(index, size);
        }
        pending.release();
        Ok(())
    })
}

/// What a transaction can be aborted with.
pub(crate) type Abort = Arc<AbortHandle>;

/// Makes what a transaction can be aborted with.
#[unsafe(no_mangle)]
pub extern "C" fn kt_txn_abort_handle(txn: TransactionHandle, abort: Out<AbortPointer>) -> c_int {
    answer(|| {
        let place = handle_place(abort, AbortPointer::NULL, "abort")?;
        let handle = Arc::new(txn.with(|work| Ok(work.transaction.abort_handle()))?);
        let handle = ABORTS.insert(handle).ok_or_else(no_handle)?;
        place.set(AbortPointer::from_number(handle));
        Ok(())
    })
}

/// Aborts a transaction, from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn kt_abort(abort: AbortPointer) -> c_int {
    answer(|| {
        abort.get()?.abort();
        Ok(())
    })
}

/// Ends what a transaction can be aborted with; the transaction goes on.
#[unsafe(no_mangle)]
pub extern "C" fn kt_abort_free(abort: AbortPointer) {
    let _ = answer(|| {
        if abort.number() == 0 {
            return Ok(());
        }
        let removed = ABORTS.remove(abort.number());
        removed
            .map(drop)
            .map_err(|refused| Failure::handle("abort", refused))
    });
}
