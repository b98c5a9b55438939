//! Flushing, merging, syncing, copying.

use std::ffi::c_int;

use kingtide::FamilyOptions;

use crate::{
    border::{Outcome, answer, answer_with, not_in_callback},
    config::family_options,
    objects::{DatabaseHandle, FamilyHandle},
    pointer::{Bytes, In, Out, Text},
    types::FamilyConfig,
};

/// Merges everything in a family to its last level.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_compact(cf: FamilyHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        let family = cf.get()?;
        Ok(family.database.db.compact(&family.family)?)
    })
}

/// An end of a range of keys; null is none.
fn end_of_range(key: &Bytes, size: usize) -> Outcome<Option<&[u8]>> {
    if key.is_null() {
        return Ok(None);
    }
    key.key(size).map(Some)
}

/// Merges what overlaps a range.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_compact_range(
    cf: FamilyHandle,
    start_key: Bytes,
    start_key_size: usize,
    end_key: Bytes,
    end_key_size: usize,
) -> c_int {
    answer(|| {
        not_in_callback()?;
        let family = cf.get()?;
        let start = end_of_range(&start_key, start_key_size)?;
        let end = end_of_range(&end_key, end_key_size)?;
        Ok(family
            .database
            .db
            .compact_range(&family.family, start, end)?)
    })
}

/// Begins to write the memtable of a family to a table.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_flush_memtable(cf: FamilyHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        let family = cf.get()?;
        Ok(family.database.db.flush_background(&family.family)?)
    })
}

/// 1 while a flush of the family is queued or running.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_is_flushing(cf: FamilyHandle) -> c_int {
    answer_with(
        || {
            let family = cf.get()?;
            let is_flushing = family.database.db.is_flushing(&family.family)?;
            Ok(c_int::from(is_flushing))
        },
        |_| 0,
    )
}

/// 1 while a merge of the family is queued or running.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_is_compacting(cf: FamilyHandle) -> c_int {
    answer_with(
        || {
            let family = cf.get()?;
            let is_compacting = family.database.db.is_compacting(&family.family)?;
            Ok(c_int::from(is_compacting))
        },
        |_| 0,
    )
}

/// Copies the database, with all bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_backup(db: DatabaseHandle, dir: Text) -> c_int {
    answer(|| {
        not_in_callback()?;
        let database = db.get()?;
        database.db.backup(dir.path("dir")?, &mut |_, _| {})?;
        Ok(())
    })
}

/// Copies the database, with links to its tables.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_checkpoint(db: DatabaseHandle, checkpoint_dir: Text) -> c_int {
    answer(|| {
        not_in_callback()?;
        let database = db.get()?;
        database
            .db
            .checkpoint(checkpoint_dir.path("checkpoint_dir")?)?;
        Ok(())
    })
}

/// Flushes and merges a family until nothing is left to do.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_purge_cf(cf: FamilyHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        let family = cf.get()?;
        Ok(family.database.db.purge_family(&family.family)?)
    })
}

/// Flushes and merges all families until nothing is left to do.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_purge(db: DatabaseHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        Ok(db.get()?.db.purge()?)
    })
}

/// Waits until nothing is left to do in the background, without waiting for the database to be idle for a while.
#[unsafe(no_mangle)]
pub extern "C" fn kt_wait_idle(db: DatabaseHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        Ok(db.get()?.db.wait_idle()?)
    })
}

/// Stops merges for the rest of this opening.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_cancel_background_work(db: DatabaseHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        Ok(db.get()?.db.cancel_background_work()?)
    })
}

/// Changes the settings of a family.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_cf_update_runtime_config(
    cf: FamilyHandle,
    new_config: In<FamilyConfig>,
    persist_to_disk: c_int,
) -> c_int {
    answer(|| {
        not_in_callback()?;
        let family = cf.get()?;
        let before = family.family.options();
        // What cannot change is not looked at.
        let options = FamilyOptions {
            comparator: before.comparator,
            value_live_ratio_min: before.value_live_ratio_min,
            tombstone_age_max: before.tombstone_age_max,
            use_btree: before.use_btree,
            object_target_file_bytes: before.object_target_file_bytes,
            object_lazy_compaction: before.object_lazy_compaction,
            object_prefetch_compaction: before.object_prefetch_compaction,
            ..family_options(new_config.require("new_config")?)?
        };
        let (db, persist) = (&family.database.db, persist_to_disk != 0);
        Ok(db.update_family_options(&family.family, options, persist)?)
    })
}

/// Forces the log to the device.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_sync_wal(cf: FamilyHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        let family = cf.get()?;
        Ok(family.database.db.sync_wal()?)
    })
}

/// What reading between two keys costs.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_range_cost(
    cf: FamilyHandle,
    key_a: Bytes,
    key_a_size: usize,
    key_b: Bytes,
    key_b_size: usize,
    cost: Out<f64>,
) -> c_int {
    answer(|| {
        let place = cost.require("cost")?;
        let (a, b) = (key_a.key(key_a_size)?, key_b.key(key_b_size)?);
        let family = cf.get()?;
        place.set(family.database.db.range_cost(&family.family, a, b)?);
        Ok(())
    })
}

/// About how many keys a family has.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_cf_estimate_cardinality(
    cf: FamilyHandle,
    out_estimate: Out<u64>,
) -> c_int {
    answer(|| {
        let place = out_estimate.require("out_estimate")?;
        let family = cf.get()?;
        place.set(family.database.db.estimate_cardinality(&family.family)?);
        Ok(())
    })
}
