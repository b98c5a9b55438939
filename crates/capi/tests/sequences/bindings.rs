//! The functions of the library as C declares them, without the headers' types: handles are pointers to nowhere, structs
//! are arrays of their size.

use std::ffi::{c_char, c_double, c_int, c_long, c_void};

/// Any handle.
pub type Handle = *mut c_void;

/// A comparator.
pub type Compare = unsafe extern "C" fn(*const u8, usize, *const u8, usize, *mut c_void) -> c_int;

/// A commit hook.
pub type Hook = unsafe extern "C" fn(*const c_void, c_int, u64, *mut c_void) -> c_int;

/// A struct of settings or statistics of `N` words.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Words<const N: usize>(pub [u64; N]);

impl<const N: usize> Words<N> {
    /// All zero.
    pub const ZERO: Self = Self([0; N]);

    /// Sets the `int` at byte `offset`.
    pub fn set_int(&mut self, offset: usize, value: c_int) {
        let shift = 32 * (offset % 8 / 4);
        let word = &mut self.0[offset / 8];
        *word = *word & !(0xffff_ffff << shift) | u64::from(value.cast_unsigned()) << shift;
    }

    /// Sets the eight bytes at byte `offset`.
    pub fn set_word(&mut self, offset: usize, value: u64) {
        self.0[offset / 8] = value;
    }
}

/// `tidesdb_config_t`.
pub type Config = Words<16>;
/// `tidesdb_column_family_config_t`.
pub type FamilyConfig = Words<78>;
/// `tidesdb_objstore_config_t`.
pub type ObjstoreConfig = Words<12>;
/// `tidesdb_db_stats_t`, with room.
pub type DbStats = Words<40>;
/// `tidesdb_cache_stats_t`.
pub type CacheStats = Words<7>;
/// `kt_open_options_t`.
pub type OpenOptions = Words<7>;
/// `kt_txn_options_t`.
pub type TxnOptions = Words<5>;
/// `kt_iter_options_t`.
pub type IterOptions = Words<7>;
/// `kt_prepared_t`.
pub type Prepared = Words<7>;

const _: () = assert!(cfg!(target_pointer_width = "64"));

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)+) => {
        unsafe extern "C" {
            $(pub fn $name($($argument: $type),*) $(-> $result)?;)+
            pub fn tidesdb_log_write(level: c_int, file: *const c_char, line: c_int, format: *const c_char, ...);
        }
        /// The names of all functions that are declared here.
        pub const NAMES: &[&str] = &["tidesdb_log_write", $(stringify!($name)),+];
    };
}

functions! {
    tidesdb_objstore_default_config() -> ObjstoreConfig;
    tidesdb_default_column_family_config() -> FamilyConfig;
    tidesdb_default_config() -> Config;
    tidesdb_raise_open_file_limit(desired: c_long) -> c_long;
    tidesdb_init(malloc: *const c_void, calloc: *const c_void, realloc: *const c_void, free: *const c_void) -> c_int;
    tidesdb_finalize();
    tidesdb_open(config: *const Config, db: *mut Handle) -> c_int;
    tidesdb_close(db: Handle) -> c_int;
    tidesdb_register_comparator(db: Handle, name: *const c_char, compare: Option<Compare>, text: *const c_char, ctx: *mut c_void) -> c_int;
    tidesdb_get_comparator(db: Handle, name: *const c_char, compare: *mut Option<Compare>, ctx: *mut *mut c_void) -> c_int;
    tidesdb_create_column_family(db: Handle, name: *const c_char, config: *const FamilyConfig) -> c_int;
    tidesdb_drop_column_family(db: Handle, name: *const c_char) -> c_int;
    tidesdb_delete_column_family(db: Handle, cf: Handle) -> c_int;
    tidesdb_rename_column_family(db: Handle, old: *const c_char, new: *const c_char) -> c_int;
    tidesdb_get_column_family(db: Handle, name: *const c_char) -> Handle;
    tidesdb_list_column_families(db: Handle, names: *mut *mut *mut c_char, count: *mut c_int) -> c_int;
    tidesdb_txn_begin(db: Handle, txn: *mut Handle) -> c_int;
    tidesdb_txn_begin_with_isolation(db: Handle, level: c_int, txn: *mut Handle) -> c_int;
    tidesdb_txn_put(txn: Handle, cf: Handle, key: *const u8, key_size: usize, value: *const u8, value_size: usize, ttl: i64) -> c_int;
    tidesdb_txn_get(txn: Handle, cf: Handle, key: *const u8, key_size: usize, value: *mut *mut u8, value_size: *mut usize) -> c_int;
    tidesdb_txn_get_notrack(txn: Handle, cf: Handle, key: *const u8, key_size: usize, value: *mut *mut u8, value_size: *mut usize) -> c_int;
    tidesdb_txn_contains(txn: Handle, cf: Handle, key: *const u8, key_size: usize) -> c_int;
    tidesdb_txn_delete(txn: Handle, cf: Handle, key: *const u8, key_size: usize) -> c_int;
    tidesdb_txn_single_delete(txn: Handle, cf: Handle, key: *const u8, key_size: usize) -> c_int;
    tidesdb_txn_commit(txn: Handle) -> c_int;
    tidesdb_txn_rollback(txn: Handle) -> c_int;
    tidesdb_txn_reset(txn: Handle, level: c_int) -> c_int;
    tidesdb_txn_free(txn: Handle);
    tidesdb_txn_savepoint(txn: Handle, name: *const c_char) -> c_int;
    tidesdb_txn_rollback_to_savepoint(txn: Handle, name: *const c_char) -> c_int;
    tidesdb_txn_release_savepoint(txn: Handle, name: *const c_char) -> c_int;
    tidesdb_iter_new(txn: Handle, cf: Handle, iter: *mut Handle) -> c_int;
    tidesdb_iter_seek(iter: Handle, key: *const u8, key_size: usize) -> c_int;
    tidesdb_iter_seek_for_prev(iter: Handle, key: *const u8, key_size: usize) -> c_int;
    tidesdb_iter_seek_to_first(iter: Handle) -> c_int;
    tidesdb_iter_seek_to_last(iter: Handle) -> c_int;
    tidesdb_iter_next(iter: Handle) -> c_int;
    tidesdb_iter_prev(iter: Handle) -> c_int;
    tidesdb_iter_valid(iter: Handle) -> c_int;
    tidesdb_iter_key(iter: Handle, key: *mut *mut u8, key_size: *mut usize) -> c_int;
    tidesdb_iter_value(iter: Handle, value: *mut *mut u8, value_size: *mut usize) -> c_int;
    tidesdb_iter_key_value(iter: Handle, key: *mut *mut u8, key_size: *mut usize, value: *mut *mut u8, value_size: *mut usize) -> c_int;
    tidesdb_iter_free(iter: Handle);
    tidesdb_comparator_memcmp(a: *const u8, a_size: usize, b: *const u8, b_size: usize, ctx: *mut c_void) -> c_int;
    tidesdb_comparator_lexicographic(a: *const u8, a_size: usize, b: *const u8, b_size: usize, ctx: *mut c_void) -> c_int;
    tidesdb_comparator_uint64(a: *const u8, a_size: usize, b: *const u8, b_size: usize, ctx: *mut c_void) -> c_int;
    tidesdb_comparator_int64(a: *const u8, a_size: usize, b: *const u8, b_size: usize, ctx: *mut c_void) -> c_int;
    tidesdb_comparator_reverse_memcmp(a: *const u8, a_size: usize, b: *const u8, b_size: usize, ctx: *mut c_void) -> c_int;
    tidesdb_comparator_case_insensitive(a: *const u8, a_size: usize, b: *const u8, b_size: usize, ctx: *mut c_void) -> c_int;
    tidesdb_cf_set_commit_hook(cf: Handle, hook: Option<Hook>, ctx: *mut c_void) -> c_int;
    tidesdb_compact(cf: Handle) -> c_int;
    tidesdb_compact_range(cf: Handle, start: *const u8, start_size: usize, end: *const u8, end_size: usize) -> c_int;
    tidesdb_flush_memtable(cf: Handle) -> c_int;
    tidesdb_is_flushing(cf: Handle) -> c_int;
    tidesdb_is_compacting(cf: Handle) -> c_int;
    tidesdb_backup(db: Handle, directory: *const c_char) -> c_int;
    tidesdb_checkpoint(db: Handle, directory: *const c_char) -> c_int;
    tidesdb_clone_column_family(db: Handle, source: *const c_char, target: *const c_char) -> c_int;
    tidesdb_purge_cf(cf: Handle) -> c_int;
    tidesdb_purge(db: Handle) -> c_int;
    tidesdb_cancel_background_work(db: Handle) -> c_int;
    tidesdb_cf_config_load_from_ini(file: *const c_char, section: *const c_char, config: *mut FamilyConfig) -> c_int;
    tidesdb_cf_config_save_to_ini(file: *const c_char, section: *const c_char, config: *const FamilyConfig) -> c_int;
    tidesdb_cf_update_runtime_config(cf: Handle, config: *const FamilyConfig, persist: c_int) -> c_int;
    tidesdb_get_stats(cf: Handle, stats: *mut *mut c_void) -> c_int;
    tidesdb_free_stats(stats: *mut c_void);
    tidesdb_cf_estimate_cardinality(cf: Handle, estimate: *mut u64) -> c_int;
    tidesdb_get_db_stats(db: Handle, stats: *mut DbStats) -> c_int;
    tidesdb_get_cache_stats(db: Handle, stats: *mut CacheStats) -> c_int;
    tidesdb_range_cost(cf: Handle, a: *const u8, a_size: usize, b: *const u8, b_size: usize, cost: *mut c_double) -> c_int;
    tidesdb_free(pointer: *mut c_void);
    tidesdb_sync_wal(cf: Handle) -> c_int;
    tidesdb_objstore_fs_create(root: *const c_char) -> *mut c_void;
    tidesdb_objstore_s3_create(endpoint: *const c_char, bucket: *const c_char, prefix: *const c_char, access: *const c_char, secret: *const c_char, region: *const c_char, use_ssl: c_int, use_path_style: c_int) -> *mut c_void;
    tidesdb_objstore_s3_create_config(config: *const c_void) -> *mut c_void;
    tidesdb_promote_to_primary(db: Handle) -> c_int;
    tidesdb_compression_available(codec: c_int) -> c_int;
    kt_version() -> *const c_char;
    kt_last_error_code() -> c_int;
    kt_last_error_kind() -> c_int;
    kt_last_error_message() -> *const c_char;
    kt_clear_last_error();
    kt_last_conflict(family: *mut *const c_char, key: *mut *const u8, key_size: *mut usize) -> c_int;
    kt_log_text(level: c_int, file: *const c_char, line: c_int, text: *const c_char);
    kt_open(config: *const Config, options: *const OpenOptions, db: *mut Handle) -> c_int;
    kt_snapshot_create(db: Handle, name: *const c_char, snapshot: *mut Handle) -> c_int;
    kt_snapshot_find(db: Handle, name: *const c_char, snapshot: *mut Handle) -> c_int;
    kt_snapshot_sequence(snapshot: Handle) -> u64;
    kt_snapshot_free(snapshot: Handle);
    kt_txn_begin(db: Handle, options: *const TxnOptions, txn: *mut Handle) -> c_int;
    kt_txn_get_for_update(txn: Handle, cf: Handle, key: *const u8, key_size: usize, value: *mut *mut u8, value_size: *mut usize) -> c_int;
    kt_txn_multi_get(txn: Handle, cf: Handle, count: usize, keys: *const *const u8, key_sizes: *const usize, values: *mut *mut u8, value_sizes: *mut usize) -> c_int;
    kt_txn_delete_range(txn: Handle, cf: Handle, start: *const u8, start_size: usize, end: *const u8, end_size: usize) -> c_int;
    kt_txn_delete_prefix(txn: Handle, cf: Handle, prefix: *const u8, prefix_size: usize) -> c_int;
    kt_txn_abort_handle(txn: Handle, abort: *mut Handle) -> c_int;
    kt_abort(abort: Handle) -> c_int;
    kt_abort_free(abort: Handle);
    kt_txn_prepare(txn: Handle, xid: *const u8, xid_size: usize) -> c_int;
    kt_commit_prepared(db: Handle, xid: *const u8, xid_size: usize) -> c_int;
    kt_rollback_prepared(db: Handle, xid: *const u8, xid_size: usize) -> c_int;
    kt_recover_prepared(db: Handle, list: *mut *mut Prepared, count: *mut usize) -> c_int;
    kt_free_prepared(list: *mut Prepared, count: usize);
    kt_iter_new(txn: Handle, cf: Handle, options: *const IterOptions, iter: *mut Handle) -> c_int;
    kt_iter_expires_at(iter: Handle, ttl: *mut i64) -> c_int;
    kt_wait_idle(db: Handle) -> c_int;
    kt_verify(db: Handle, progress: Option<unsafe extern "C" fn(u64, u64, *mut c_void)>, damage: Option<unsafe extern "C" fn(*const c_char, *mut c_void)>, ctx: *mut c_void, damaged: *mut usize) -> c_int;
}

/// Calls a function of the library.
macro_rules! c {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: what is not a handle points to slices, C strings or places of the caller, with their sizes; sizes that
        // lie are beyond the limits, and refused before anything is read. Handles may be any number.
        unsafe { $crate::sequences::bindings::$function($($argument),*) }
    }};
}
pub(crate) use c;
