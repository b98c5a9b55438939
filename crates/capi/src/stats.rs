//! Statistics as structs.

use std::{
    ffi::{c_int, c_void},
    fs, ptr,
};

use kingtide::{MemoryPressure, Stats};

use crate::{
    alloc::{Pending, copy_array, free_array},
    border::{Outcome, answer},
    config::family_config,
    objects::{DatabaseHandle, Family, FamilyHandle},
    pointer::{Out, text_array},
    types::{CacheStats, DbStats, FamilyConfig, FamilyStats},
};

fn int(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// A count of bytes as the field has it; a machine's memory is no larger.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
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
    let cache = family.database.db.stats()?.cache;
    let levels = &numbers.levels;
    let sizes: Vec<usize> = levels
        .iter()
        .map(|level| size(level.bytes + level.vlog_bytes))
        .collect();
    let tables: Vec<c_int> = levels.iter().map(|level| int(level.files)).collect();
    let keys: Vec<u64> = levels.iter().map(|level| level.entries).collect();
    let tombstones: Vec<u64> = levels.iter().map(|level| level.tombstones).collect();
    let config = config_of(family);
    Ok(FamilyStats {
        num_levels: int(levels.len()),
        memtable_size: numbers.memtable_bytes,
        level_sizes: pending.keep(copy_array(&sizes)?),
        level_num_sstables: pending.keep(copy_array(&tables)?),
        config: pending.keep(copy_array(&[config])?),
        total_keys: numbers.entries,
        total_data_size: numbers.data_bytes,
        avg_key_size: numbers.key_bytes_average,
        avg_value_size: numbers.value_bytes_average,
        level_key_counts: pending.keep(copy_array(&keys)?),
        read_amp: numbers.read_amplification,
        hit_rate: cache.hit_rate(),
        use_btree: config.use_btree,
        btree_total_nodes: 0,
        btree_max_height: 0,
        btree_avg_height: 0.0,
        total_tombstones: numbers.tombstones,
        tombstone_ratio: numbers.tombstone_ratio(),
        level_tombstone_counts: pending.keep(copy_array(&tombstones)?),
        max_sst_density: numbers.tombstone_density_max,
        max_sst_density_level: int(numbers.tombstone_density_max_level),
        wal_bytes_written: if family.database.is_unified {
            0
        } else {
            numbers.log_bytes_written
        },
        flush_bytes_written: numbers.flush_bytes_written,
        compaction_bytes_written: numbers.merge_bytes_written,
        compaction_bytes_read: numbers.merge_bytes_read,
        user_bytes_written: numbers.user_bytes_written,
        flush_count: numbers.flushes,
        compaction_count: numbers.merges,
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
    let cache = &numbers.cache;
    CacheStats {
        enabled: c_int::from(cache.enabled),
        total_entries: cache.entries,
        total_bytes: cache.bytes,
        hits: cache.hits,
        misses: cache.misses,
        hit_rate: cache.hit_rate(),
        num_partitions: cache.shards,
    }
}

/// Statistics of the database.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_get_db_stats(db: DatabaseHandle, stats: Out<DbStats>) -> c_int {
    answer(|| {
        let place = stats.require("stats")?;
        let database = db.get()?;
        let numbers = database.db.stats()?;
        place.set(db_stats(&numbers, database.is_unified));
        Ok(())
    })
}

/// The machine's memory and what is available of it, in bytes; zeros when the system does not tell.
fn machine_memory() -> (u64, u64) {
    let Ok(text) = fs::read_to_string("/proc/meminfo") else {
        return (0, 0);
    };
    let bytes_of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or(0).saturating_mul(1024)
    };
    (bytes_of("MemTotal:"), bytes_of("MemAvailable:"))
}

fn db_stats(numbers: &Stats, is_unified: bool) -> DbStats {
    let memory = &numbers.memory;
    let (total_memory, available_memory) = machine_memory();
    let of_unified = |number: u64| if is_unified { number } else { 0 };
    let sealed = int(numbers.sealed_memtables);
    let families = numbers.families.iter();
    let entries_in_memory: u64 = families.map(|family| family.memtable_bytes as u64).sum();
    DbStats {
        num_column_families: int(numbers.families.len()),
        total_memory,
        available_memory,
        resolved_memory_limit: size(memory.limit_bytes),
        memory_pressure_level: match memory.pressure {
            MemoryPressure::Normal => 0,
            MemoryPressure::Elevated => 1,
            MemoryPressure::High => 2,
            MemoryPressure::Critical => 3,
        },
        flush_pending_count: sealed,
        total_memtable_bytes: signed(entries_in_memory),
        total_immutable_count: sealed,
        total_sstable_count: int(numbers.tables),
        total_data_size_bytes: numbers.data_bytes,
        num_open_sstables: int(numbers.open_tables),
        global_seq: numbers.sequence.0,
        txn_memory_bytes: signed(memory.transaction_bytes),
        compaction_queue_size: numbers.merges_queued,
        flush_queue_size: numbers.flushes_queued,
        unified_memtable_enabled: c_int::from(is_unified),
        unified_memtable_bytes: signed(of_unified(entries_in_memory)),
        unified_immutable_count: if is_unified { sealed } else { 0 },
        unified_is_flushing: c_int::from(is_unified && numbers.flushes_running > 0),
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
        #[cfg(not(feature = "abi-9-3-6"))]
        primary_epoch: 0,
        #[cfg(not(feature = "abi-9-3-6"))]
        seen_epoch: 0,
        uwal_bytes_written: of_unified(numbers.log_bytes_written),
        wal_bytes_written: numbers.log_bytes_written - of_unified(numbers.log_bytes_written),
        flush_bytes_written: numbers.flush_bytes_written,
        compaction_bytes_written: numbers.merge_bytes_written,
        compaction_bytes_read: numbers.merge_bytes_read,
        user_bytes_written: numbers.user_bytes_written,
        flush_count: numbers.flushes,
        compaction_count: numbers.merges,
    }
}
