//! What went wrong in the last call of this thread that failed.

use std::ffi::{c_char, c_int};

use crate::border::{forget_last, last_code, last_kind, last_message};

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
