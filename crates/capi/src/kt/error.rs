//! What went wrong in the last call of this thread that failed.

use std::ffi::{c_char, c_int};

use crate::{
    border::{forget_last, last_code, last_conflict, last_kind, last_message},
    pointer::Out,
};

/// The code of the last failure.
#[unsafe(no_mangle)]
pub extern "C" fn kt_last_error_code() -> c_int {
    last_code()
}

/// The exact kind of the last failure.
#[unsafe(no_mangle)]
pub extern "C" fn kt_last_error_kind() -> c_int {
    last_kind()
}

/// The text of the last failure, for people; lent until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn kt_last_error_message() -> *const c_char {
    last_message()
}

/// Forgets the last failure.
#[unsafe(no_mangle)]
pub extern "C" fn kt_clear_last_error() {
    forget_last();
}

/// The family and the key of the last failure when it was a conflict: 1; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn kt_last_conflict(
    family: Out<*const c_char>,
    key: Out<*const u8>,
    key_size: Out<usize>,
) -> c_int {
    let (name, bytes, size, is_known) = match last_conflict() {
        Some((name, bytes, size)) => (name, bytes, size, 1),
        None => (std::ptr::null(), std::ptr::null(), 0, 0),
    };
    family.set_if_any(name);
    key.set_if_any(bytes);
    key_size.set_if_any(size);
    is_known
}
