//! Flushing, merging, syncing, copying.

use std::ffi::c_int;

use crate::{
    border::{Failure, answer, answer_with, code, not_in_callback},
    family::is_missing,
    objects::{DatabaseHandle, FamilyHandle},
    pointer::{Bytes, In, Out, Text},
    types::FamilyConfig,
};

fn not_yet(what: &'static str) -> Failure {
    Failure::new(code::UNKNOWN, format!("{what} is not there yet"))
}

/// Merges everything in a family to its last level.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_compact(cf: FamilyHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        let family = cf.get()?;
        Ok(family.database.db.compact(&family.family)?)
    })
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
        cf.get()?;
        let end_of = |key: &Bytes, size: usize| {
            if key.is_null() {
                Ok(None)
            } else {
                key.key(size).map(|key| Some(key.to_vec()))
            }
        };
        let start = end_of(&start_key, start_key_size)?;
        let end = end_of(&end_key, end_key_size)?;
        if start.is_none() && end.is_none() {
            return Err(Failure::invalid("start_key, end_key: give at least one"));
        }
        Err(not_yet("merging a range"))
    })
}

/// Begins to write the memtable of a family to a table.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_flush_memtable(cf: FamilyHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        let family = cf.get()?;
        Ok(family.database.db.flush(&family.family)?)
    })
}

/// 1 while a flush of the family is queued or running.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_is_flushing(cf: FamilyHandle) -> c_int {
    answer_with(
        || {
            let family = cf.get()?;
            let stats = family.database.db.family_stats(&family.family)?;
            Ok(c_int::from(stats.sealed_memtables > 0))
        },
        |_| 0,
    )
}

/// 1 while a merge of the family is queued or running.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_is_compacting(cf: FamilyHandle) -> c_int {
    answer_with(
        || {
            cf.get()?;
            Ok(0)
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
        family.database.db.compact(&family.family)?;
        Ok(family.database.db.wait_idle()?)
    })
}

/// Flushes and merges all families until nothing is left to do.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_purge(db: DatabaseHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        let database = db.get()?;
        for name in database.db.families() {
            let compacted = database
                .db
                .family(&name)
                .and_then(|family| database.db.compact(&family));
            match compacted {
                // Dropped meanwhile.
                Err(error) if is_missing(&error) => {}
                outcome => outcome?,
            }
        }
        Ok(database.db.wait_idle()?)
    })
}

/// Stops merges for the rest of this opening.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_cancel_background_work(db: DatabaseHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        db.get()?;
        Err(not_yet("cancelling merges"))
    })
}

/// Changes the settings of a family.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_cf_update_runtime_config(
    cf: FamilyHandle,
    new_config: In<FamilyConfig>,
    _persist_to_disk: c_int,
) -> c_int {
    answer(|| {
        not_in_callback()?;
        cf.get()?;
        crate::config::family_options(new_config.require("new_config")?)?;
        Err(not_yet("changing settings"))
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
        cost.require("cost")?;
        key_a.key(key_a_size)?;
        key_b.key(key_b_size)?;
        cf.get()?;
        Err(not_yet("the cost of a range"))
    })
}

/// About how many keys a family has.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_cf_estimate_cardinality(
    cf: FamilyHandle,
    out_estimate: Out<u64>,
) -> c_int {
    answer(|| {
        out_estimate.require("out_estimate")?;
        cf.get()?;
        Err(not_yet("the estimate of keys"))
    })
}
