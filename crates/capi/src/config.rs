//! Configuration structs: their defaults, and what they mean to the engine.
//!
//! What the interface refuses is refused here with `TDB_ERR_INVALID_ARGS`; other settings that the engine cannot take are
//! fitted to the nearest one it can, as callers expect of this interface, and the fitted value is what is reported back.

use std::{
    ffi::{c_int, c_void},
    ptr,
    time::Duration,
};

use kingtide::{Compression, FamilyOptions, IsolationLevel, Options, SyncMode, limits};

use crate::{
    border::{Failure, Outcome, answer_with},
    comparator::engine_name,
    pointer::{array_text, text_array},
    types::{Config, FamilyConfig, ObjstoreConfig},
};

pub(crate) const SYNC_NONE: c_int = 0;
pub(crate) const SYNC_FULL: c_int = 1;
pub(crate) const SYNC_INTERVAL: c_int = 2;
const SYNC_INTERVAL_DEFAULT_US: u64 = 128_000;

/// `./tidesdb`, where nobody can write.
static DEFAULT_PATH: &std::ffi::CStr = c"./tidesdb";

/// The settings of a database that a caller starts from.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_default_config() -> Config {
    Config {
        db_path: DEFAULT_PATH.as_ptr().cast_mut(),
        num_flush_threads: 0,
        num_compaction_threads: 2,
        log_level: 1,
        block_cache_size: 64 << 20,
        max_open_sstables: 256,
        log_to_file: 0,
        log_truncation_at: 24 << 20,
        max_memory_usage: 0,
        unified_memtable: 0,
        unified_memtable_write_buffer_size: 0,
        unified_memtable_skip_list_max_level: 0,
        unified_memtable_skip_list_probability: 0.0,
        unified_memtable_sync_mode: SYNC_NONE,
        unified_memtable_sync_interval_us: 0,
        object_store: ptr::null_mut(),
        object_store_config: ptr::null_mut(),
        max_concurrent_flushes: 0,
        finish_compactions_on_close: 0,
    }
}

/// The settings of a family that a caller starts from.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_default_column_family_config() -> FamilyConfig {
    default_family_config()
}

pub(crate) fn default_family_config() -> FamilyConfig {
    FamilyConfig {
        name: text_array(""),
        write_buffer_size: 64 << 20,
        level_size_ratio: 10,
        min_levels: 1,
        dividing_level_offset: 1,
        klog_value_threshold: 512,
        compression_algorithm: 2,
        enable_bloom_filter: 1,
        bloom_fpr: 0.01,
        enable_block_indexes: 1,
        index_sample_ratio: 1,
        block_index_prefix_len: 16,
        sync_mode: SYNC_NONE,
        sync_interval_us: SYNC_INTERVAL_DEFAULT_US,
        comparator_name: text_array(""),
        comparator_ctx_str: text_array(""),
        comparator_fn_cached: ptr::null_mut(),
        comparator_ctx_cached: ptr::null_mut(),
        skip_list_max_level: 12,
        skip_list_probability: 0.25,
        default_isolation_level: 1,
        min_disk_space: 100 << 20,
        l1_file_count_trigger: 4,
        l0_queue_stall_threshold: 10,
        tombstone_density_trigger: 0.0,
        tombstone_density_min_entries: 1024,
        use_btree: 0,
        commit_hook_fn: None,
        commit_hook_ctx: ptr::null_mut(),
        object_target_file_size: 0,
        object_lazy_compaction: 0,
        object_prefetch_compaction: 1,
    }
}

/// The settings of an object store that a caller starts from.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_objstore_default_config() -> ObjstoreConfig {
    ObjstoreConfig {
        local_cache_path: ptr::null(),
        local_cache_max_bytes: 0,
        cache_on_read: 1,
        cache_on_write: 1,
        max_concurrent_uploads: 4,
        max_concurrent_downloads: 8,
        multipart_threshold: 64 << 20,
        multipart_part_size: 8 << 20,
        sync_manifest_to_object: 1,
        replicate_wal: 1,
        wal_upload_sync: 0,
        wal_sync_threshold_bytes: 1 << 20,
        wal_sync_on_commit: 0,
        replica_mode: 0,
        replica_sync_interval_us: 5_000_000,
        replica_replay_wal: 1,
    }
}

/// 1 when blocks and values can be compressed with this codec, 0 when not.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_compression_available(algorithm: c_int) -> c_int {
    answer_with(|| Ok(c_int::from(compression(algorithm).is_ok())), |_| 0)
}

/// The codec of that number.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS`.
pub(crate) fn compression(number: c_int) -> Outcome<Compression> {
    Ok(match number {
        0 => Compression::None,
        1 => Compression::Snappy,
        2 => Compression::Lz4,
        3 => Compression::Zstd,
        4 => Compression::Lz4Fast,
        _ => {
            return Err(Failure::invalid(format!(
                "compression_algorithm: {number} is not a codec of this library"
            )));
        }
    })
}

fn compression_number(compression: Compression) -> c_int {
    match compression {
        Compression::None => 0,
        Compression::Snappy => 1,
        Compression::Lz4 => 2,
        Compression::Zstd => 3,
        Compression::Lz4Fast => 4,
    }
}

/// The sync mode of that number.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS`, also for an interval of nothing.
pub(crate) fn sync_mode(number: c_int, interval_us: u64) -> Outcome<SyncMode> {
    match number {
        SYNC_NONE => Ok(SyncMode::None),
        SYNC_FULL => Ok(SyncMode::Full),
        SYNC_INTERVAL if interval_us == 0 => Err(Failure::invalid(
            "sync_interval_us: must be at least 1 with TDB_SYNC_INTERVAL",
        )),
        SYNC_INTERVAL => Ok(SyncMode::Interval(Duration::from_micros(interval_us))),
        _ => Err(Failure::invalid(format!(
            "sync_mode: {number} is not one of TDB_SYNC_NONE, TDB_SYNC_FULL, TDB_SYNC_INTERVAL"
        ))),
    }
}

/// The isolation level of that number.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS`.
pub(crate) fn isolation(number: c_int) -> Outcome<IsolationLevel> {
    Ok(match number {
        0 => IsolationLevel::ReadUncommitted,
        1 => IsolationLevel::ReadCommitted,
        2 => IsolationLevel::RepeatableRead,
        3 => IsolationLevel::Snapshot,
        4 => IsolationLevel::Serializable,
        _ => {
            return Err(Failure::invalid(format!(
                "isolation: {number} is not a level, they are 0 to 4"
            )));
        }
    })
}

pub(crate) fn isolation_number(level: IsolationLevel) -> c_int {
    match level {
        IsolationLevel::ReadUncommitted => 0,
        IsolationLevel::ReadCommitted => 1,
        IsolationLevel::RepeatableRead => 2,
        IsolationLevel::Snapshot => 3,
        IsolationLevel::Serializable => 4,
    }
}

/// `number` as a count; below 0 counts as 0.
pub(crate) fn count(number: c_int) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// `number` if it is in the range, else `default`.
fn within(number: c_int, low: c_int, high: c_int, default: usize) -> usize {
    if (low..=high).contains(&number) {
        count(number)
    } else {
        default
    }
}

fn number(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// The settings of a database.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS`.
pub(crate) fn database_options(config: &Config) -> Outcome<Options> {
    if config.num_flush_threads < 0
        || config.num_compaction_threads < 0
        || config.max_concurrent_flushes < 0
    {
        return Err(Failure::invalid("a number of threads is negative"));
    }
    // Flushes beyond what may run at once would only wait for each other.
    let flush_threads = match (
        count(config.num_flush_threads),
        count(config.max_concurrent_flushes),
    ) {
        (threads, 0) => threads,
        (0, most) => most.min(4),
        (threads, most) => threads.min(most),
    };
    Ok(Options {
        flush_threads: flush_threads.min(THREADS_MAX),
        compaction_threads: count(config.num_compaction_threads).min(THREADS_MAX),
        block_cache_bytes: config.block_cache_size,
        open_tables_max: config.max_open_sstables,
        memory_bytes_max: config.max_memory_usage,
        finish_compactions_on_close: config.finish_compactions_on_close != 0,
        ..Options::default()
    })
}

/// More threads than this help nobody.
const THREADS_MAX: usize = 64;

/// The sync mode that replaces those of the families, with a unified memtable.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS`.
pub(crate) fn unified_sync(config: &Config) -> Outcome<Option<SyncMode>> {
    if config.unified_memtable == 0 {
        return Ok(None);
    }
    let interval = match config.unified_memtable_sync_interval_us {
        // The default of the struct.
        0 => SYNC_INTERVAL_DEFAULT_US,
        interval => interval,
    };
    sync_mode(config.unified_memtable_sync_mode, interval).map(Some)
}

/// The settings of a family.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS`.
pub(crate) fn family_options(config: &FamilyConfig) -> Outcome<FamilyOptions> {
    let defaults = FamilyOptions::default();
    let comparator = match array_text(&config.comparator_name, "comparator_name")? {
        "" => defaults.comparator.as_str(),
        name => engine_name(name),
    };
    let rate = config.bloom_fpr;
    let density = config.tombstone_density_trigger;
    let probability = f64::from(config.skip_list_probability);
    Ok(FamilyOptions {
        write_buffer_bytes: match config.write_buffer_size {
            0 => defaults.write_buffer_bytes,
            bytes => bytes.clamp(4096, 16 << 30),
        },
        level_size_ratio: match config.level_size_ratio {
            0 => defaults.level_size_ratio,
            ratio => ratio.clamp(2, 1000),
        },
        min_levels: count(config.min_levels).clamp(1, limits::LEVELS_MAX),
        dividing_level_offset: count(config.dividing_level_offset),
        value_threshold_bytes: config.klog_value_threshold,
        value_live_ratio_min: FamilyOptions::default().value_live_ratio_min,
        compression: compression(config.compression_algorithm)?,
        bloom_filter: config.enable_bloom_filter != 0,
        bloom_false_positive_rate: if rate > 0.0 && rate < 1.0 {
            rate
        } else {
            defaults.bloom_false_positive_rate
        },
        block_index: config.enable_block_indexes != 0,
        index_sample_ratio: count(config.index_sample_ratio).max(1),
        block_index_prefix_bytes: within(config.block_index_prefix_len, 4, 256, 16),
        sync: sync_mode(config.sync_mode, config.sync_interval_us)?,
        comparator: comparator.to_owned(),
        skip_list_level_max: within(config.skip_list_max_level, 1, 64, 12),
        skip_list_probability: if probability > 0.0 && probability < 1.0 {
            probability
        } else {
            defaults.skip_list_probability
        },
        isolation: isolation(config.default_isolation_level)?,
        disk_free_bytes_min: config.min_disk_space,
        l1_file_count_trigger: within(config.l1_file_count_trigger, 1, c_int::MAX, 4),
        l0_queue_stall_threshold: within(config.l0_queue_stall_threshold, 1, c_int::MAX, 10),
        tombstone_density_trigger: if density > 0.0 { density.min(1.0) } else { 0.0 },
        tombstone_density_entries_min: config.tombstone_density_min_entries,
        tombstone_age_max: defaults.tombstone_age_max,
        use_btree: config.use_btree != 0,
        object_target_file_bytes: config.object_target_file_size,
        object_lazy_compaction: config.object_lazy_compaction != 0,
        object_prefetch_compaction: config.object_prefetch_compaction != 0,
    })
}

/// The settings of a family as a struct.
pub(crate) fn family_config(name: &str, options: &FamilyOptions) -> FamilyConfig {
    let (sync, interval) = match options.sync {
        SyncMode::None => (SYNC_NONE, SYNC_INTERVAL_DEFAULT_US),
        SyncMode::Full => (SYNC_FULL, SYNC_INTERVAL_DEFAULT_US),
        SyncMode::Interval(interval) => (
            SYNC_INTERVAL,
            u64::try_from(interval.as_micros()).unwrap_or(u64::MAX),
        ),
    };
    FamilyConfig {
        name: text_array(name),
        write_buffer_size: options.write_buffer_bytes,
        level_size_ratio: options.level_size_ratio,
        min_levels: number(options.min_levels),
        dividing_level_offset: number(options.dividing_level_offset),
        klog_value_threshold: options.value_threshold_bytes,
        compression_algorithm: compression_number(options.compression),
        enable_bloom_filter: c_int::from(options.bloom_filter),
        bloom_fpr: options.bloom_false_positive_rate,
        enable_block_indexes: c_int::from(options.block_index),
        index_sample_ratio: number(options.index_sample_ratio),
        block_index_prefix_len: number(options.block_index_prefix_bytes),
        sync_mode: sync,
        sync_interval_us: interval,
        comparator_name: text_array(&options.comparator),
        comparator_ctx_str: text_array(""),
        comparator_fn_cached: ptr::null_mut::<c_void>(),
        comparator_ctx_cached: ptr::null_mut::<c_void>(),
        skip_list_max_level: number(options.skip_list_level_max),
        skip_list_probability: options.skip_list_probability as f32,
        default_isolation_level: isolation_number(options.isolation),
        min_disk_space: options.disk_free_bytes_min,
        l1_file_count_trigger: number(options.l1_file_count_trigger),
        l0_queue_stall_threshold: number(options.l0_queue_stall_threshold),
        tombstone_density_trigger: options.tombstone_density_trigger,
        tombstone_density_min_entries: options.tombstone_density_entries_min,
        use_btree: c_int::from(options.use_btree),
        commit_hook_fn: None,
        commit_hook_ctx: ptr::null_mut(),
        object_target_file_size: options.object_target_file_bytes,
        object_lazy_compaction: c_int::from(options.object_lazy_compaction),
        object_prefetch_compaction: c_int::from(options.object_prefetch_compaction),
    }
}
