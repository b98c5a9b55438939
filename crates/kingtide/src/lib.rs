//! Kingtide: an embedded transactional key-value storage engine.
mod api_stub;
mod error;
mod options;
pub use api_stub::*;
pub use error::{Error, ErrorKind, Result};
pub use kingtide_base::{Comparator, ComparatorRef, Corruption};
pub use options::{
    Compression, FamilyOptions, IsolationLevel, IterOptions, Options, SyncMode, TransactionOptions,
};
