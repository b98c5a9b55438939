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
    env, ffi, fs,
    path::{Path, PathBuf},
};

use libloading::Library;

use crate::{BenchError, Result};

const FOLDERS: [&str; 8] = [
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/opt/homebrew/lib",
];

/// What the C functions hand out and take: never looked into here.
pub(super) type Opaque = *mut ffi::c_void;
/// Where a C function leaves a message, allocated with `malloc`, when it fails.
pub(super) type ErrPtr = *mut *mut ffi::c_char;
type Bytes = *const ffi::c_char;
type Byte = ffi::c_uchar;
type Int = ffi::c_int;

macro_rules! api {
    ($($field:ident = $symbol:literal : fn($($argument:ty),*) $(-> $result:ty)?;)+) => {
        /// The functions in use, each with the type that the header gives it.
        #[derive(Clone, Copy)]
        pub(super) struct Api {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
        }

        impl Api {
            fn resolve(library: &Library) -> std::result::Result<Self, libloading::Error> {
                Ok(Self {
                    $(
                        // SAFETY: the symbol, if the library has it, is the C function of this name, and the type
                        // written beside it in the list below is the one that rocksdb/c.h declares for it.
                        $field: *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }?,
                    )+
                })
            }
        }
    };
}

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
    /// [`BenchError::Missing`] that says where it was looked for, or which symbol a library lacks.
    pub(super) fn load(path: Option<&Path>) -> Result<(Self, PathBuf)> {
        let candidates = match path {
            Some(path) => vec![path.to_owned()],
            None => match env::var_os("KINGTIDE_ROCKSDB") {
                Some(path) => vec![PathBuf::from(path)],
                None => usual_places(),
            },
        };
        let mut refused = Vec::new();
        for candidate in &candidates {
            match Self::load_file(candidate) {
                Ok(api) => {
                    let file = fs::canonicalize(candidate).unwrap_or_else(|_| candidate.clone());
                    return Ok((api, file));
                }
                Err(source) => refused.push(format!("{}: {source}", candidate.display())),
            }
        }
        let looked = if refused.is_empty() {
            format!("no librocksdb.so* in {}", FOLDERS.join(", "))
        } else {
            refused.join("; ")
        };
        Err(BenchError::Missing(format!(
            "RocksDB is not on this machine: {looked}. Install it, or name the library in KINGTIDE_ROCKSDB"
        )))
    }

    fn load_file(path: &Path) -> std::result::Result<Self, libloading::Error> {
        // SAFETY: loading runs the library's initialisers. The file is the one the user named or the system's own
        // librocksdb, whose initialisers have no preconditions.
        let library = unsafe { Library::new(path) }?;
        let api = Self::resolve(&library)?;
        // Never unloaded: RocksDB keeps threads and statics that outlive a database.
        std::mem::forget(library);
        Ok(api)
    }
}

/// Every librocksdb in the usual folders: the plain name first, then versions, the newest first.
fn usual_places() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(version) = library_version(&name) {
                found.push((version, entry.path()));
            }
        }
    }
    found.sort_by(|left, right| right.cmp(left));
    found.into_iter().map(|(_, path)| path).collect()
}

/// The version in a name like `librocksdb.so.7.8`; the unversioned name, which names the one the administrator
/// prefers, counts as the newest. `None` for other files.
fn library_version(name: &str) -> Option<Vec<u32>> {
    if name == "librocksdb.dylib" {
        return Some(vec![u32::MAX]);
    }
    let rest = name.strip_prefix("librocksdb.so")?;
    if rest.is_empty() {
        return Some(vec![u32::MAX]);
    }
    rest.strip_prefix('.')?
        .split('.')
        .map(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_number_and_other_files_are_left_alone() {
        assert!(library_version("librocksdb.so.10.2") > library_version("librocksdb.so.7.8.3"));
        assert!(library_version("librocksdb.so") > library_version("librocksdb.so.11"));
        assert_eq!(library_version("librocksdb.so.7.8"), Some(vec![7, 8]));
        assert_eq!(library_version("librocksdb.so.old"), None);
        assert_eq!(library_version("librocksdbjni.so"), None);
    }

    #[test]
    fn a_library_that_is_not_there_is_named_in_the_error() {
        let message = Api::load(Some(Path::new("/nowhere/librocksdb.so")))
            .err()
            .expect("no such file")
            .to_string();
        assert!(message.contains("/nowhere/librocksdb.so"), "{message}");
    }
}
