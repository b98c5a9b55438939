//! The C interface of TidesDB 9, as its public header documents it, loaded at run time from the file that the user
//! names (a `libtidesdb.so` of version 9, or Kingtide's own `libkingtide.so`, which has the same interface), else from
//! the environment variable `KINGTIDE_TIDESDB`, else from the usual places.
//!
//! The configuration structs are handled as bytes of the documented size, with the documented offset of every field
//! that is set, so that what is not set stays as the library's own defaults. Once loaded the library stays loaded until
//! the process ends, so the function pointers in [`Api`] are always good to call.
#![expect(
    unsafe_code,
    reason = "loading a C library and resolving its symbols cannot be checked by the compiler"
)]

use std::{
    ffi,
    path::{Path, PathBuf},
};

use libloading::Library;

use super::peer_library::{self, PeerLibrary, api};
use crate::Result;

/// What the C functions hand out and take: never looked into here.
pub(super) type Opaque = *mut ffi::c_void;
type Text = *const ffi::c_char;
type Bytes = *const u8;
type Int = ffi::c_int;

/// `tidesdb_config_t`.
#[repr(C, align(8))]
#[derive(Clone)]
pub(super) struct DatabaseConfig([u8; 128]);

/// `tidesdb_column_family_config_t`.
#[repr(C, align(8))]
#[derive(Clone)]
pub(super) struct FamilyConfig([u8; 624]);

/// The offset of a field of [`DatabaseConfig`].
pub(super) mod database_field {
    pub(in crate::engines) const DB_PATH: usize = 0;
    pub(in crate::engines) const NUM_FLUSH_THREADS: usize = 8;
    pub(in crate::engines) const NUM_COMPACTION_THREADS: usize = 12;
    pub(in crate::engines) const LOG_LEVEL: usize = 16;
    pub(in crate::engines) const BLOCK_CACHE_SIZE: usize = 24;
}

/// The offset of a field of [`FamilyConfig`].
pub(super) mod family_field {
    pub(in crate::engines) const WRITE_BUFFER_SIZE: usize = 128;
    pub(in crate::engines) const LEVEL_SIZE_RATIO: usize = 136;
    pub(in crate::engines) const MIN_LEVELS: usize = 144;
    pub(in crate::engines) const KLOG_VALUE_THRESHOLD: usize = 152;
    pub(in crate::engines) const COMPRESSION_ALGORITHM: usize = 160;
    pub(in crate::engines) const ENABLE_BLOOM_FILTER: usize = 164;
    pub(in crate::engines) const BLOOM_FPR: usize = 168;
    pub(in crate::engines) const ENABLE_BLOCK_INDEXES: usize = 176;
    pub(in crate::engines) const SYNC_MODE: usize = 188;
    pub(in crate::engines) const SYNC_INTERVAL_US: usize = 192;
    pub(in crate::engines) const COMPARATOR_NAME: usize = 200;
    pub(in crate::engines) const L1_FILE_COUNT_TRIGGER: usize = 560;
    pub(in crate::engines) const L0_QUEUE_STALL_THRESHOLD: usize = 564;
    pub(in crate::engines) const TOMBSTONE_DENSITY_TRIGGER: usize = 568;
    pub(in crate::engines) const TOMBSTONE_DENSITY_MIN_ENTRIES: usize = 576;
}

impl DatabaseConfig {
    /// Writes `bytes` over the field at `offset`; the caller names a field and its size.
    pub(super) fn set(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

impl FamilyConfig {
    /// As [`DatabaseConfig::set`].
    pub(super) fn set(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

impl FamilyConfig {
    /// The field of `N` bytes at `offset`; the caller names a field and its size.
    pub(super) fn get<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[offset..offset + N]);
        field
    }
}

/// `TDB_ERR_NOT_FOUND`.
pub(super) const NOT_FOUND: Int = -3;
/// `TDB_ERR_IO`.
pub(super) const INPUT_OUTPUT: Int = -4;
/// `TDB_ERR_BUSY`.
pub(super) const BUSY: Int = -14;

/// The errors of the header: code, name, what it means.
const ERRORS: [(Int, &str, &str); 15] = [
    (-1, "TDB_ERR_MEMORY", "out of memory"),
    (-2, "TDB_ERR_INVALID_ARGS", "invalid arguments"),
    (NOT_FOUND, "TDB_ERR_NOT_FOUND", "not found"),
    (INPUT_OUTPUT, "TDB_ERR_IO", "input or output failed"),
    (-5, "TDB_ERR_CORRUPTION", "damaged files"),
    (-6, "TDB_ERR_EXISTS", "it exists already"),
    (-7, "TDB_ERR_CONFLICT", "another transaction came first"),
    (-8, "TDB_ERR_TOO_LARGE", "too large"),
    (-9, "TDB_ERR_MEMORY_LIMIT", "the memory limit is reached"),
    (-10, "TDB_ERR_INVALID_DB", "not a database of this library"),
    (-11, "TDB_ERR_UNKNOWN", "unknown error"),
    (-12, "TDB_ERR_LOCKED", "another program has it open"),
    (-13, "TDB_ERR_READONLY", "it is read-only"),
    (BUSY, "TDB_ERR_BUSY", "busy"),
    (
        -15,
        "TDB_ERR_PRECONDITION",
        "a key order that only the program defines",
    ),
];

/// An error as text: what it means, its name and its code.
pub(super) fn error_text(code: Int) -> String {
    match ERRORS.iter().find(|(known, ..)| *known == code) {
        Some((_, name, meaning)) => format!("{meaning} ({name}, {code})"),
        None => format!("error {code}, which the header does not name"),
    }
}

/// The beginning of `tidesdb_stats_t`, which is only ever read through the pointer that the library hands out.
#[repr(C)]
pub(super) struct FamilyStatsHead {
    pub(super) num_levels: Int,
    pub(super) memtable_size: usize,
    pub(super) level_sizes: *const usize,
    pub(super) level_num_sstables: *const Int,
    pub(super) config: *const FamilyConfig,
    pub(super) total_keys: u64,
}

/// `tidesdb_iter_key_value`, which came during version 9.
pub(super) type IterKeyValue =
    unsafe extern "C" fn(Opaque, *mut *mut u8, *mut usize, *mut *mut u8, *mut usize) -> Int;

/// Functions that a library may have or not.
pub(super) struct Optional {
    pub(super) iter_key_value: Option<IterKeyValue>,
    pub(super) additions: Option<Additions>,
}

/// Functions of `kingtide.h`, which only Kingtide's library has.
pub(super) struct Additions {
    pub(super) iter_expires_at: unsafe extern "C" fn(Opaque, *mut i64) -> Int,
    pub(super) wait_idle: unsafe extern "C" fn(Opaque) -> Int,
}

api! {
    default_config = "tidesdb_default_config": fn() -> DatabaseConfig;
    default_family_config = "tidesdb_default_column_family_config": fn() -> FamilyConfig;
    open = "tidesdb_open": fn(*const DatabaseConfig, *mut Opaque) -> Int;
    close = "tidesdb_close": fn(Opaque) -> Int;
    create_family = "tidesdb_create_column_family": fn(Opaque, Text, *const FamilyConfig) -> Int;
    get_family = "tidesdb_get_column_family": fn(Opaque, Text) -> Opaque;
    txn_begin = "tidesdb_txn_begin": fn(Opaque, *mut Opaque) -> Int;
    txn_reset = "tidesdb_txn_reset": fn(Opaque, Int) -> Int;
    txn_free = "tidesdb_txn_free": fn(Opaque);
    txn_put = "tidesdb_txn_put": fn(Opaque, Opaque, Bytes, usize, Bytes, usize, i64) -> Int;
    txn_get = "tidesdb_txn_get": fn(Opaque, Opaque, Bytes, usize, *mut *mut u8, *mut usize) -> Int;
    txn_delete = "tidesdb_txn_delete": fn(Opaque, Opaque, Bytes, usize) -> Int;
    txn_commit = "tidesdb_txn_commit": fn(Opaque) -> Int;
    iter_new = "tidesdb_iter_new": fn(Opaque, Opaque, *mut Opaque) -> Int;
    iter_free = "tidesdb_iter_free": fn(Opaque);
    iter_seek = "tidesdb_iter_seek": fn(Opaque, Bytes, usize) -> Int;
    iter_seek_to_first = "tidesdb_iter_seek_to_first": fn(Opaque) -> Int;
    iter_next = "tidesdb_iter_next": fn(Opaque) -> Int;
    iter_valid = "tidesdb_iter_valid": fn(Opaque) -> Int;
    iter_key = "tidesdb_iter_key": fn(Opaque, *mut *mut u8, *mut usize) -> Int;
    iter_value = "tidesdb_iter_value": fn(Opaque, *mut *mut u8, *mut usize) -> Int;
    list_families = "tidesdb_list_column_families": fn(Opaque, *mut *mut *mut ffi::c_char, *mut Int) -> Int;
    get_stats = "tidesdb_get_stats": fn(Opaque, *mut *mut FamilyStatsHead) -> Int;
    free_stats = "tidesdb_free_stats": fn(*mut FamilyStatsHead);
    flush_memtable = "tidesdb_flush_memtable": fn(Opaque) -> Int;
    is_flushing = "tidesdb_is_flushing": fn(Opaque) -> Int;
    is_compacting = "tidesdb_is_compacting": fn(Opaque) -> Int;
    free = "tidesdb_free": fn(Opaque);
}

const PEER: PeerLibrary = PeerLibrary {
    name: "A library with the C interface of TidesDB 9",
    variable: "KINGTIDE_TIDESDB",
    stem: "libtidesdb",
};

impl Api {
    /// Loads the library at `path`.
    ///
    /// # Errors
    /// [`crate::BenchError::Missing`] when it cannot be loaded, or lacks a function.
    pub(super) fn load(path: Option<&Path>) -> Result<(Self, Optional, PathBuf)> {
        let resolve = |library: &Library| Ok((Self::resolve(library)?, Optional::resolve(library)));
        let ((api, optional), file) = peer_library::load(&PEER, path, resolve)?;
        Ok((api, optional, file))
    }
}

impl Optional {
    fn resolve(library: &Library) -> Self {
        // SAFETY: the function of the public header, whose type this is.
        let iter_key_value = unsafe { library.get(b"tidesdb_iter_key_value\0") };
        Self {
            iter_key_value: iter_key_value.ok().map(|function| *function),
            additions: Additions::resolve(library),
        }
    }
}

impl Additions {
    /// `None` when the library lacks any of them.
    fn resolve(library: &Library) -> Option<Self> {
        // SAFETY: a function of kingtide.h, whose type this is.
        let iter_expires_at = unsafe { library.get(b"kt_iter_expires_at\0") };
        // SAFETY: as above.
        let wait_idle = unsafe { library.get(b"kt_wait_idle\0") };
        Some(Self {
            iter_expires_at: *iter_expires_at.ok()?,
            wait_idle: *wait_idle.ok()?,
        })
    }
}
