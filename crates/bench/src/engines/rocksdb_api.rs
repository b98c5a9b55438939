//! The C interface of `RocksDB`, as its public header `rocksdb/c.h` documents it, loaded at run time.
//!
//! The library is looked for at the path that the settings name, else at the one in the environment variable
//! `KINGTIDE_ROCKSDB`, else under its usual names in the usual folders. Once loaded it stays loaded until the process
//! ends, so the function pointers in [`Api`] are always good to call.
#![expect(
    unsafe_code,
    reason = "loading a C library and resolving its symbols cannot be checked by the compiler"
)]

use std::{
    ffi,
    path::{Path, PathBuf},
};

use super::peer_library::{self, PeerLibrary, api};
use crate::Result;

/// What the C functions hand out and take: never looked into here.
pub(super) type Opaque = *mut ffi::c_void;
/// Where a C function leaves a message, allocated with `malloc`, when it fails.
pub(super) type ErrPtr = *mut *mut ffi::c_char;
type Bytes = *const ffi::c_char;
type Byte = ffi::c_uchar;
type Int = ffi::c_int;

api! {
    options_create = "rocksdb_options_create": fn() -> Opaque;
    options_destroy = "rocksdb_options_destroy": fn(Opaque);
    options_set_create_if_missing = "rocksdb_options_set_create_if_missing": fn(Opaque, Byte);
    options_set_write_buffer_size = "rocksdb_options_set_write_buffer_size": fn(Opaque, usize);
    options_set_compression = "rocksdb_options_set_compression": fn(Opaque, Int);
    options_set_max_background_jobs = "rocksdb_options_set_max_background_jobs": fn(Opaque, Int);
    options_set_block_based_table_factory = "rocksdb_options_set_block_based_table_factory": fn(Opaque, Opaque);
    block_based_options_create = "rocksdb_block_based_options_create": fn() -> Opaque;
    block_based_options_destroy = "rocksdb_block_based_options_destroy": fn(Opaque);
    block_based_options_set_filter_policy = "rocksdb_block_based_options_set_filter_policy": fn(Opaque, Opaque);
    block_based_options_set_block_cache = "rocksdb_block_based_options_set_block_cache": fn(Opaque, Opaque);
    block_based_options_set_no_block_cache = "rocksdb_block_based_options_set_no_block_cache": fn(Opaque, Byte);
    filterpolicy_create_bloom_full = "rocksdb_filterpolicy_create_bloom_full": fn(f64) -> Opaque;
    cache_create_lru = "rocksdb_cache_create_lru": fn(usize) -> Opaque;
    cache_destroy = "rocksdb_cache_destroy": fn(Opaque);
    open = "rocksdb_open": fn(Opaque, Bytes, ErrPtr) -> Opaque;
    close = "rocksdb_close": fn(Opaque);
    free = "rocksdb_free": fn(Opaque);
    writeoptions_create = "rocksdb_writeoptions_create": fn() -> Opaque;
    writeoptions_destroy = "rocksdb_writeoptions_destroy": fn(Opaque);
    writeoptions_set_sync = "rocksdb_writeoptions_set_sync": fn(Opaque, Byte);
    readoptions_create = "rocksdb_readoptions_create": fn() -> Opaque;
    readoptions_destroy = "rocksdb_readoptions_destroy": fn(Opaque);
    writebatch_create = "rocksdb_writebatch_create": fn() -> Opaque;
    writebatch_destroy = "rocksdb_writebatch_destroy": fn(Opaque);
    writebatch_clear = "rocksdb_writebatch_clear": fn(Opaque);
    writebatch_put = "rocksdb_writebatch_put": fn(Opaque, Bytes, usize, Bytes, usize);
    writebatch_delete = "rocksdb_writebatch_delete": fn(Opaque, Bytes, usize);
    writebatch_put_cf = "rocksdb_writebatch_put_cf": fn(Opaque, Opaque, Bytes, usize, Bytes, usize);
    create_column_family = "rocksdb_create_column_family": fn(Opaque, Opaque, Bytes, ErrPtr) -> Opaque;
    column_family_handle_destroy = "rocksdb_column_family_handle_destroy": fn(Opaque);
    flush_cf = "rocksdb_flush_cf": fn(Opaque, Opaque, Opaque, ErrPtr);
    get_pinned_cf = "rocksdb_get_pinned_cf": fn(Opaque, Opaque, Opaque, Bytes, usize, ErrPtr) -> Opaque;
    write = "rocksdb_write": fn(Opaque, Opaque, Opaque, ErrPtr);
    get_pinned = "rocksdb_get_pinned": fn(Opaque, Opaque, Bytes, usize, ErrPtr) -> Opaque;
    pinnableslice_value = "rocksdb_pinnableslice_value": fn(Opaque, *mut usize) -> Bytes;
    pinnableslice_destroy = "rocksdb_pinnableslice_destroy": fn(Opaque);
    create_iterator = "rocksdb_create_iterator": fn(Opaque, Opaque) -> Opaque;
    iter_destroy = "rocksdb_iter_destroy": fn(Opaque);
    iter_valid = "rocksdb_iter_valid": fn(Opaque) -> Byte;
    iter_seek_to_first = "rocksdb_iter_seek_to_first": fn(Opaque);
    iter_seek = "rocksdb_iter_seek": fn(Opaque, Bytes, usize);
    iter_next = "rocksdb_iter_next": fn(Opaque);
    iter_key = "rocksdb_iter_key": fn(Opaque, *mut usize) -> Bytes;
    iter_value = "rocksdb_iter_value": fn(Opaque, *mut usize) -> Bytes;
    iter_get_error = "rocksdb_iter_get_error": fn(Opaque, ErrPtr);
    flushoptions_create = "rocksdb_flushoptions_create": fn() -> Opaque;
    flushoptions_destroy = "rocksdb_flushoptions_destroy": fn(Opaque);
    flushoptions_set_wait = "rocksdb_flushoptions_set_wait": fn(Opaque, Byte);
    flush = "rocksdb_flush": fn(Opaque, Opaque, ErrPtr);
    flush_wal = "rocksdb_flush_wal": fn(Opaque, Byte, ErrPtr);
    property_int = "rocksdb_property_int": fn(Opaque, Bytes, *mut u64) -> Int;
}

impl Api {
    /// Loads the library; answers the functions and the file they came from, symbolic links resolved.
    ///
    /// # Errors
    /// [`crate::BenchError::Missing`] that says where it was looked for, or which symbol a library lacks.
    pub(super) fn load(path: Option<&Path>) -> Result<(Self, PathBuf)> {
        let peer = PeerLibrary {
            name: "RocksDB",
            variable: "KINGTIDE_ROCKSDB",
            stem: "librocksdb",
        };
        peer_library::load(&peer, path, Self::resolve)
    }
}
