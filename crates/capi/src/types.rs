//! The structs and callback types of the interface, as `abi/structs.tsv` lays them out. What each field means is told in
//! the headers; this file is the layout.

use std::ffi::{c_char, c_int, c_void};

use crate::pointer::Context;

/// How keys compare: negative, zero or positive.
pub type ComparatorFn =
    Option<unsafe extern "C" fn(*const u8, usize, *const u8, usize, Context) -> c_int>;

/// Told of the operations of one commit in one family.
pub type CommitHook = unsafe extern "C" fn(*const CommitOp, c_int, u64, Context) -> c_int;

/// A hook or null.
pub type CommitHookFn = Option<CommitHook>;

/// `tidesdb_objstore_config_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ObjstoreConfig {
    pub local_cache_path: *const c_char,
    pub local_cache_max_bytes: usize,
    pub cache_on_read: c_int,
    pub cache_on_write: c_int,
    pub max_concurrent_uploads: c_int,
    pub max_concurrent_downloads: c_int,
    pub multipart_threshold: usize,
    pub multipart_part_size: usize,
    pub sync_manifest_to_object: c_int,
    pub replicate_wal: c_int,
    pub wal_upload_sync: c_int,
    pub wal_sync_threshold_bytes: usize,
    pub wal_sync_on_commit: c_int,
    pub replica_mode: c_int,
    pub replica_sync_interval_us: u64,
    pub replica_replay_wal: c_int,
}

/// `tidesdb_column_family_config_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FamilyConfig {
    pub name: [c_char; 128],
    pub write_buffer_size: usize,
    pub level_size_ratio: usize,
    pub min_levels: c_int,
    pub dividing_level_offset: c_int,
    pub klog_value_threshold: usize,
    pub compression_algorithm: c_int,
    pub enable_bloom_filter: c_int,
    pub bloom_fpr: f64,
    pub enable_block_indexes: c_int,
    pub index_sample_ratio: c_int,
    pub block_index_prefix_len: c_int,
    pub sync_mode: c_int,
    pub sync_interval_us: u64,
    pub comparator_name: [c_char; 64],
    pub comparator_ctx_str: [c_char; 256],
    pub comparator_fn_cached: *mut c_void,
    pub comparator_ctx_cached: *mut c_void,
    pub skip_list_max_level: c_int,
    pub skip_list_probability: f32,
    pub default_isolation_level: c_int,
    pub min_disk_space: u64,
    pub l1_file_count_trigger: c_int,
    pub l0_queue_stall_threshold: c_int,
    pub tombstone_density_trigger: f64,
    pub tombstone_density_min_entries: u64,
    pub use_btree: c_int,
    pub commit_hook_fn: CommitHookFn,
    pub commit_hook_ctx: *mut c_void,
    pub object_target_file_size: usize,
    pub object_lazy_compaction: c_int,
    pub object_prefetch_compaction: c_int,
}

/// `tidesdb_config_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub db_path: *mut c_char,
    pub num_flush_threads: c_int,
    pub num_compaction_threads: c_int,
    pub log_level: c_int,
    pub block_cache_size: usize,
    pub max_open_sstables: usize,
    pub log_to_file: c_int,
    pub log_truncation_at: usize,
    pub max_memory_usage: usize,
    pub unified_memtable: c_int,
    pub unified_memtable_write_buffer_size: usize,
    pub unified_memtable_skip_list_max_level: c_int,
    pub unified_memtable_skip_list_probability: f32,
    pub unified_memtable_sync_mode: c_int,
    pub unified_memtable_sync_interval_us: u64,
    pub object_store: *mut c_void,
    pub object_store_config: *mut ObjstoreConfig,
    pub max_concurrent_flushes: c_int,
    pub finish_compactions_on_close: c_int,
}

/// `tidesdb_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FamilyStats {
    pub num_levels: c_int,
    pub memtable_size: usize,
    pub level_sizes: *mut usize,
    pub level_num_sstables: *mut c_int,
    pub config: *mut FamilyConfig,
    pub total_keys: u64,
    pub total_data_size: u64,
    pub avg_key_size: f64,
    pub avg_value_size: f64,
    pub level_key_counts: *mut u64,
    pub read_amp: f64,
    pub hit_rate: f64,
    pub use_btree: c_int,
    pub btree_total_nodes: u64,
    pub btree_max_height: u32,
    pub btree_avg_height: f64,
    pub total_tombstones: u64,
    pub tombstone_ratio: f64,
    pub level_tombstone_counts: *mut u64,
    pub max_sst_density: f64,
    pub max_sst_density_level: c_int,
    pub wal_bytes_written: u64,
    pub flush_bytes_written: u64,
    pub compaction_bytes_written: u64,
    pub compaction_bytes_read: u64,
    pub user_bytes_written: u64,
    pub flush_count: u64,
    pub compaction_count: u64,
}

/// `tidesdb_cache_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CacheStats {
    pub enabled: c_int,
    pub total_entries: usize,
    pub total_bytes: usize,
    pub hits: u64,
    pub misses: u64,
    pub hit_rate: f64,
    pub num_partitions: usize,
}

/// `tidesdb_db_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DbStats {
    pub num_column_families: c_int,
    pub total_memory: u64,
    pub available_memory: u64,
    pub resolved_memory_limit: usize,
    pub memory_pressure_level: c_int,
    pub flush_pending_count: c_int,
    pub total_memtable_bytes: i64,
    pub total_immutable_count: c_int,
    pub total_sstable_count: c_int,
    pub total_data_size_bytes: u64,
    pub num_open_sstables: c_int,
    pub global_seq: u64,
    pub txn_memory_bytes: i64,
    pub compaction_queue_size: usize,
    pub flush_queue_size: usize,
    pub unified_memtable_enabled: c_int,
    pub unified_memtable_bytes: i64,
    pub unified_immutable_count: c_int,
    pub unified_is_flushing: c_int,
    pub unified_next_cf_index: u32,
    pub unified_wal_generation: u64,
    pub object_store_enabled: c_int,
    pub object_store_connector: *const c_char,
    pub local_cache_bytes_used: usize,
    pub local_cache_bytes_max: usize,
    pub local_cache_num_files: c_int,
    pub last_uploaded_generation: u64,
    pub upload_queue_depth: usize,
    pub total_uploads: u64,
    pub total_upload_failures: u64,
    pub replica_mode: c_int,
    #[cfg(not(feature = "abi-9-3-6"))]
    pub primary_epoch: u64,
    #[cfg(not(feature = "abi-9-3-6"))]
    pub seen_epoch: u64,
    pub uwal_bytes_written: u64,
    pub wal_bytes_written: u64,
    pub flush_bytes_written: u64,
    pub compaction_bytes_written: u64,
    pub compaction_bytes_read: u64,
    pub user_bytes_written: u64,
    pub flush_count: u64,
    pub compaction_count: u64,
}

/// `tidesdb_commit_op_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CommitOp {
    pub key: *const u8,
    pub key_size: usize,
    pub value: *const u8,
    pub value_size: usize,
    pub ttl: i64,
    pub is_delete: c_int,
}

/// `tidesdb_objstore_s3_config_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct S3Config {
    pub endpoint: *const c_char,
    pub bucket: *const c_char,
    pub prefix: *const c_char,
    pub access_key: *const c_char,
    pub secret_key: *const c_char,
    pub region: *const c_char,
    pub use_ssl: c_int,
    pub use_path_style: c_int,
    pub tls_ca_path: *const c_char,
    pub tls_insecure_skip_verify: c_int,
    pub multipart_threshold: usize,
    pub multipart_part_size: usize,
}

macro_rules! layout {
    ($($name:ident: $size:literal),+ $(,)?) => {$(
        const _: () = assert!(size_of::<$name>() == $size);
    )+};
}

layout!(
    ObjstoreConfig: 96,
    FamilyConfig: 624,
    Config: 128,
    FamilyStats: 224,
    CacheStats: 56,
    CommitOp: 48,
    S3Config: 88,
);

#[cfg(not(feature = "abi-9-3-6"))]
layout!(DbStats: 304);
#[cfg(feature = "abi-9-3-6")]
layout!(DbStats: 288);

macro_rules! offsets {
    ($name:ident: $($field:ident $offset:literal),+ $(,)?) => {
        const _: () = {$(
            assert!(std::mem::offset_of!($name, $field) == $offset);
        )+};
    };
}

offsets!(ObjstoreConfig: local_cache_path 0, local_cache_max_bytes 8, cache_on_read 16, cache_on_write 20, max_concurrent_uploads 24, max_concurrent_downloads 28, multipart_threshold 32, multipart_part_size 40, sync_manifest_to_object 48, replicate_wal 52, wal_upload_sync 56, wal_sync_threshold_bytes 64, wal_sync_on_commit 72, replica_mode 76, replica_sync_interval_us 80, replica_replay_wal 88);
offsets!(FamilyConfig: name 0, write_buffer_size 128, level_size_ratio 136, min_levels 144, dividing_level_offset 148, klog_value_threshold 152, compression_algorithm 160, enable_bloom_filter 164, bloom_fpr 168, enable_block_indexes 176, index_sample_ratio 180, block_index_prefix_len 184, sync_mode 188, sync_interval_us 192, comparator_name 200, comparator_ctx_str 264, comparator_fn_cached 520, comparator_ctx_cached 528, skip_list_max_level 536, skip_list_probability 540, default_isolation_level 544, min_disk_space 552, l1_file_count_trigger 560, l0_queue_stall_threshold 564, tombstone_density_trigger 568, tombstone_density_min_entries 576, use_btree 584, commit_hook_fn 592, commit_hook_ctx 600, object_target_file_size 608, object_lazy_compaction 616, object_prefetch_compaction 620);
offsets!(Config: db_path 0, num_flush_threads 8, num_compaction_threads 12, log_level 16, block_cache_size 24, max_open_sstables 32, log_to_file 40, log_truncation_at 48, max_memory_usage 56, unified_memtable 64, unified_memtable_write_buffer_size 72, unified_memtable_skip_list_max_level 80, unified_memtable_skip_list_probability 84, unified_memtable_sync_mode 88, unified_memtable_sync_interval_us 96, object_store 104, object_store_config 112, max_concurrent_flushes 120, finish_compactions_on_close 124);
offsets!(FamilyStats: num_levels 0, memtable_size 8, level_sizes 16, level_num_sstables 24, config 32, total_keys 40, total_data_size 48, avg_key_size 56, avg_value_size 64, level_key_counts 72, read_amp 80, hit_rate 88, use_btree 96, btree_total_nodes 104, btree_max_height 112, btree_avg_height 120, total_tombstones 128, tombstone_ratio 136, level_tombstone_counts 144, max_sst_density 152, max_sst_density_level 160, wal_bytes_written 168, flush_bytes_written 176, compaction_bytes_written 184, compaction_bytes_read 192, user_bytes_written 200, flush_count 208, compaction_count 216);
offsets!(CacheStats: enabled 0, total_entries 8, total_bytes 16, hits 24, misses 32, hit_rate 40, num_partitions 48);
offsets!(DbStats: num_column_families 0, total_memory 8, available_memory 16, resolved_memory_limit 24, memory_pressure_level 32, flush_pending_count 36, total_memtable_bytes 40, total_immutable_count 48, total_sstable_count 52, total_data_size_bytes 56, num_open_sstables 64, global_seq 72, txn_memory_bytes 80, compaction_queue_size 88, flush_queue_size 96, unified_memtable_enabled 104, unified_memtable_bytes 112, unified_immutable_count 120, unified_is_flushing 124, unified_next_cf_index 128, unified_wal_generation 136, object_store_enabled 144, object_store_connector 152, local_cache_bytes_used 160, local_cache_bytes_max 168, local_cache_num_files 176, last_uploaded_generation 184, upload_queue_depth 192, total_uploads 200, total_upload_failures 208, replica_mode 216);
#[cfg(not(feature = "abi-9-3-6"))]
offsets!(DbStats: primary_epoch 224, seen_epoch 232, uwal_bytes_written 240, wal_bytes_written 248, flush_bytes_written 256, compaction_bytes_written 264, compaction_bytes_read 272, user_bytes_written 280, flush_count 288, compaction_count 296);
#[cfg(feature = "abi-9-3-6")]
offsets!(DbStats: uwal_bytes_written 224, wal_bytes_written 232, flush_bytes_written 240, compaction_bytes_written 248, compaction_bytes_read 256, user_bytes_written 264, flush_count 272, compaction_count 280);
offsets!(CommitOp: key 0, key_size 8, value 16, value_size 24, ttl 32, is_delete 40);
offsets!(S3Config: endpoint 0, bucket 8, prefix 16, access_key 24, secret_key 32, region 40, use_ssl 48, use_path_style 52, tls_ca_path 56, tls_insecure_skip_verify 64, multipart_threshold 72, multipart_part_size 80);
