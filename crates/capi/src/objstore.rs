//! Object stores: not supported yet. Creating a connector answers null, with the reason as the last error.

use std::ffi::{c_int, c_void};

use kingtide::LogLevel;

use crate::{
    border::{Failure, answer_with, code},
    log,
    pointer::{In, Text},
    types::S3Config,
};

fn refuse(name: &'static str) -> *mut c_void {
    answer_with(
        || {
            log::write(LogLevel::Error, "object stores are not supported yet");
            Err(Failure::new(
                code::UNKNOWN,
                format!("{name}: object stores are not supported yet"),
            ))
        },
        |_| std::ptr::null_mut(),
    )
}

/// A connector to a directory.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_objstore_fs_create(_root_dir: Text) -> *mut c_void {
    refuse("tidesdb_objstore_fs_create")
}

/// A connector to S3.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_objstore_s3_create(
    _endpoint: Text,
    _bucket: Text,
    _prefix: Text,
    _access_key: Text,
    _secret_key: Text,
    _region: Text,
    _use_ssl: c_int,
    _use_path_style: c_int,
) -> *mut c_void {
    refuse("tidesdb_objstore_s3_create")
}

/// A connector to S3, with its settings in a struct.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_objstore_s3_create_config(_config: In<S3Config>) -> *mut c_void {
    refuse("tidesdb_objstore_s3_create_config")
}
