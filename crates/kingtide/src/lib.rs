//! Kingtide: an embedded transactional key-value storage engine.
mod api_stub;
mod error;
#[expect(unused_imports, reason = "the paths that use it come with the engine")]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the paths that use it come with the engine")
)]
mod manifest;
mod options;
#[expect(unused_imports, reason = "the paths that use it come with the engine")]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the paths that use it come with the engine")
)]
mod version;
pub use api_stub::*;
pub use error::{Error, ErrorKind, Result};
pub use kingtide_base::{Comparator, ComparatorRef, Corruption};
pub use options::{
    Compression, FamilyOptions, IsolationLevel, IterOptions, Options, SyncMode, TransactionOptions,
};
