//! Statistics as structs.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use kingtide::Stats;

use crate::{
    alloc::{Pending, copy_array, free_array},
    border::{Failure, Outcome, answer, code},
    config::family_config,
    objects::{DatabaseHandle, Family, FamilyHandle},
    pointer::{Out, text_array},
    types::{CacheStats, DbStats, FamilyConfig, FamilyStats},
};

fn int(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The settings of a family as it has them now.
pub(crate) fn config_of(family: &Family) -> FamilyConfig {
    let options = family.family.options();
    let mut config = family_config(&family.family.name(), &options);
    if let Some(order) = family.database.comparator(&options.comparator) {
        config.comparator_ctx_str = text_array(&order.context_text);
        config.comparator_fn_cached = order.function() as *mut c_void;
        config.comparator_ctx_cached = order.context.0;
    }
    (config.commit_hook_fn, config.commit_hook_ctx) = family.hook();
    config
}

/// Statistics of a family, in memory that `tidesdb_free_stats` frees.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_get_stats(cf: FamilyHandle, stats: Out<*mut FamilyStats>) -> c_int {
    answer(|| {
        let place = stats.require("stats")?;
        place.set(ptr::null_mut());
        let family = cf.get()?;
        let mut pending = Pending::default();
        let made = make(&family, &mut pending)?;
        let made = pending.keep(copy_array(&[made])?);
        place.set(made);
        pending.release();
        Ok(())
    })
}

fn make(family: &Family, pending: &mut Pending) -> Outcome<FamilyStats> {
    let numbers = family.database.db.family_stats(&family.family)?;
    let levels = &numbers.levels;
    let sizes: Vec<usize> = levels
        .iter()
        .map(|level| (level.bytes + level.vlog_bytes) as usize)
        .collect();
    let tables: Vec<c_int> = levels.iter().map(|level| int(level.files)).collect();
    let keys: Vec<u64> = levels.iter().map(|level| level.entries).collect();
    let tombstones: Vec<u64> = levels.iter().map(|level| level.tombstones).collect();
    let total_tombstones: u64 = tombstones.iter().sum();
    let entries: u64 = keys.iter().sum();
    Ok(FamilyStats {
        num_levels: int(levels.len()),
        memtable_size: numbers.memtable_bytes,
        level_sizes: pending.keep(copy_array(&sizes)?),
        level_num_sstables: pending.keep(copy_array(&tables)?),
        config: pending.keep(copy_array(&[config_of(family)])?),
        total_keys: entries + numbers.memtable_entries,
        total_data_size: sizes.iter().map(|size| *size as u64).sum(),
        avg_key_size: 0.0,
        avg_value_size: 0.0,
        level_key_counts: pending.keep(copy_array(&keys)?),
        read_amp: 1.0,
        hit_rate: 0.0,
        use_btree: c_int::from(family.family.options().use_btree),
        btree_total_nodes: 0,
        btree_max_height: 0,
        btree_avg_height: 0.0,
        total_tombstones,
        tombstone_ratio: share(total_tombstones, entries),
        level_tombstone_counts: pending.keep(copy_array(&tombstones)?),
        max_sst_density: 0.0,
        max_sst_density_level: 0,
        wal_bytes_written: 0,
        flush_bytes_written: 0,
        compaction_bytes_written: 0,
        compaction_bytes_read: 0,
        user_bytes_written: 0,
        flush_count: 0,
        compaction_count: 0,
    })
}

/// Frees what `tidesdb_get_stats` answered.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_free_stats(stats: StatsPointer) {
    let _ = answer(|| {
        let Some(content) = stats.get() else {
            return Ok(());
        };
        free_array(content.level_sizes);
        free_array(content.level_num_sstables);
        free_array(content.config);
        free_array(content.level_key_counts);
        free_array(content.level_tombstone_counts);
        free_array(stats.0);
        Ok(())
    });
}

/// `tidesdb_stats_t *` that `tidesdb_get_stats` handed out, or null: what the header demands.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct StatsPointer(*mut FamilyStats);

impl StatsPointer {
    /// A copy of the struct.
    fn get(self) -> Option<FamilyStats> {
        // SAFETY: null, or handed out by `tidesdb_get_stats` and not freed yet (the promise above).
        unsafe { self.0.as_ref() }.copied()
    }
}

/// Statistics of the block cache.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_get_cache_stats(db: DatabaseHandle, stats: Out<CacheStats>) -> c_int {
    answer(|| {
        let place = stats.require("stats")?;
        let numbers = db.get()?.db.stats()?;
        place.set(cache_stats(&numbers));
        Ok(())
    })
}

fn cache_stats(numbers: &Stats) -> CacheStats {
    if numbers.cache_capacity_bytes == 0 {
        return CacheStats {
            enabled: 0,
            total_entries: 0,
            total_bytes: 0,
            hits: 0,
            misses: 0,
            hit_rate: 0.0,
            num_partitions: 0,
        };
    }
    CacheStats {
        enabled: 1,
        total_entries: 0,
        total_bytes: numbers.cache_bytes,
        hits: numbers.cache_hits,
        misses: numbers.cache_misses,
        hit_rate: share(
            numbers.cache_hits,
            numbers.cache_hits + numbers.cache_misses,
        ),
        num_partitions: 0,
    }
}

/// Statistics of the database.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_get_db_stats(db: DatabaseHandle, stats: Out<DbStats>) -> c_int {
    answer(|| {
        let place = stats.require("stats")?;
        let database = db.get()?;
        let numbers = database.db.stats()?;
        place.set(db_stats(&numbers, database.is_unified)?);
        Ok(())
    })
}

fn db_stats(numbers: &Stats, is_unified: bool) -> Outcome<DbStats> {
    let families = &numbers.families;
    let memtable_bytes: usize = families.iter().map(|family| family.memtable_bytes).sum();
    let sealed: usize = families.iter().map(|family| family.sealed_memtables).sum();
    let levels = || families.iter().flat_map(|family| &family.levels);
    let memtable_bytes = i64::try_from(memtable_bytes)
        .map_err(|_| Failure::new(code::UNKNOWN, "memtables beyond all memory"))?;
    let log_bytes = numbers.log_bytes_written;
    Ok(DbStats {
        num_column_families: int(families.len()),
        total_memory: 0,
        available_memory: 0,
        resolved_memory_limit: 0,
        memory_pressure_level: 0,
        flush_pending_count: int(sealed),
        total_memtable_bytes: memtable_bytes,
        total_immutable_count: int(sealed),
        total_sstable_count: int(levels().map(|level| level.files).sum()),
        total_data_size_bytes: levels().map(|level| level.bytes + level.vlog_bytes).sum(),
        num_open_sstables: int(numbers.open_tables),
        global_seq: numbers.sequence.0,
        txn_memory_bytes: 0,
        compaction_queue_size: 0,
        flush_queue_size: sealed,
        unified_memtable_enabled: c_int::from(is_unified),
        unified_memtable_bytes: if is_unified { memtable_bytes } else { 0 },
        unified_immutable_count: if is_unified { int(sealed) } else { 0 },
        unified_is_flushing: 0,
        unified_next_cf_index: 0,
        unified_wal_generation: 0,
        object_store_enabled: 0,
        object_store_connector: ptr::null(),
        local_cache_bytes_used: 0,
        local_cache_bytes_max: 0,
        local_cache_num_files: 0,
        last_uploaded_generation: 0,
        upload_queue_depth: 0,
        total_uploads: 0,
        total_upload_failures: 0,
        replica_mode: 0,
        primary_epoch: 0,
        seen_epoch: 0,
        uwal_bytes_written: if is_unified { log_bytes } else { 0 },
        wal_bytes_written: if is_unified { 0 } else { log_bytes },
        flush_bytes_written: numbers.table_bytes_written,
        compaction_bytes_written: 0,
        compaction_bytes_read: 0,
        user_bytes_written: 0,
        flush_count: numbers.flushes,
        compaction_count: numbers.merges,
    })
}
