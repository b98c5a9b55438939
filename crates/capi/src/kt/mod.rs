//! The additions of `kingtide.h`.

mod error;
pub mod events;
mod iter;
mod open;
mod prepared;
mod range;
pub mod snapshot;
pub mod txn;
mod verify;

/// The version of this library, as text.
#[unsafe(no_mangle)]
pub extern "C" fn kt_version() -> *const std::ffi::c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
