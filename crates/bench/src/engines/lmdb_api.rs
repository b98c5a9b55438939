//! The C interface of LMDB, as its public header `lmdb.h` documents it, loaded at run time.
//!
//! The library is looked for at the path that the settings name, else at the one in the environment variable
//! `KINGTIDE_LMDB`, else under its usual names in the usual folders. Once loaded it stays loaded until the process ends,
//! so the function pointers in [`Api`] are always good to call.
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
type Text = *const ffi::c_char;
type Int = ffi::c_int;
/// The number of a database inside an environment.
pub(super) type Dbi = ffi::c_uint;

/// `MDB_val`: bytes of the caller, or of the library until the transaction ends.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Slice {
    pub(super) bytes: usize,
    pub(super) start: *const ffi::c_void,
}

/// Flags and codes of the header.
pub(super) mod number {
    pub(in crate::engines) const NO_SYNC: u32 = 0x1_0000;
    pub(in crate::engines) const READ_ONLY: u32 = 0x2_0000;
    pub(in crate::engines) const NO_TLS: u32 = 0x20_0000;
    pub(in crate::engines) const CREATE: u32 = 0x4_0000;
    pub(in crate::engines) const NOT_FOUND: i32 = -30_798;
    /// `EIO` of the system, which is also what it makes of a write that was cut short.
    pub(in crate::engines) const INPUT_OUTPUT: i32 = 5;
    pub(in crate::engines) const CURSOR_FIRST: u32 = 0;
    pub(in crate::engines) const CURSOR_NEXT: u32 = 8;
    pub(in crate::engines) const CURSOR_SET_RANGE: u32 = 17;
}

api! {
    env_create = "mdb_env_create": fn(*mut Opaque) -> Int;
    env_set_mapsize = "mdb_env_set_mapsize": fn(Opaque, usize) -> Int;
    env_set_maxreaders = "mdb_env_set_maxreaders": fn(Opaque, ffi::c_uint) -> Int;
    env_set_maxdbs = "mdb_env_set_maxdbs": fn(Opaque, ffi::c_uint) -> Int;
    env_open = "mdb_env_open": fn(Opaque, Text, ffi::c_uint, ffi::c_uint) -> Int;
    env_sync = "mdb_env_sync": fn(Opaque, Int) -> Int;
    env_close = "mdb_env_close": fn(Opaque);
    txn_begin = "mdb_txn_begin": fn(Opaque, Opaque, ffi::c_uint, *mut Opaque) -> Int;
    txn_commit = "mdb_txn_commit": fn(Opaque) -> Int;
    txn_abort = "mdb_txn_abort": fn(Opaque);
    txn_reset = "mdb_txn_reset": fn(Opaque);
    txn_renew = "mdb_txn_renew": fn(Opaque) -> Int;
    dbi_open = "mdb_dbi_open": fn(Opaque, Text, ffi::c_uint, *mut Dbi) -> Int;
    put = "mdb_put": fn(Opaque, Dbi, *mut Slice, *mut Slice, ffi::c_uint) -> Int;
    get = "mdb_get": fn(Opaque, Dbi, *mut Slice, *mut Slice) -> Int;
    del = "mdb_del": fn(Opaque, Dbi, *mut Slice, *mut Slice) -> Int;
    cursor_open = "mdb_cursor_open": fn(Opaque, Dbi, *mut Opaque) -> Int;
    cursor_close = "mdb_cursor_close": fn(Opaque);
    cursor_get = "mdb_cursor_get": fn(Opaque, *mut Slice, *mut Slice, ffi::c_uint) -> Int;
    strerror = "mdb_strerror": fn(Int) -> Text;
    version = "mdb_version": fn(*mut Int, *mut Int, *mut Int) -> Text;
}

impl Api {
    /// Loads the library; answers the functions and the file they came from, symbolic links resolved.
    ///
    /// # Errors
    /// [`crate::BenchError::Missing`] that says where it was looked for, or which symbol a library lacks.
    pub(super) fn load(path: Option<&Path>) -> Result<(Self, PathBuf)> {
        let peer = PeerLibrary {
            name: "LMDB",
            variable: "KINGTIDE_LMDB",
            stem: "liblmdb",
        };
        peer_library::load(&peer, path, Self::resolve)
    }
}
