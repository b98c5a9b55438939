//! Kingtide: an embedded transactional key-value storage engine.
mod api_stub;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the database that uses it is not wired up yet")
)]
mod compaction;
mod error;
mod options;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the database that uses it is not wired up yet")
)]
mod read;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the database that uses it is not wired up yet")
)]
mod snapshot;
pub use api_stub::*;
pub use error::{Error, ErrorKind, Result};
pub use kingtide_base::{Comparator, ComparatorRef, Corruption};
pub use options::{
    Compression, FamilyOptions, IsolationLevel, IterOptions, Options, SyncMode, TransactionOptions,
};
pub use read::{Entries, Iter, Value};
