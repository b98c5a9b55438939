//! Kingtide: an embedded transactional key-value storage engine.

mod background;
mod compaction;
mod db;
mod engine;
mod error;
mod family;
mod files;
mod flush;
mod manifest;
mod memtable;
mod options;
mod output;
mod read;
mod snapshot;
mod stats;
mod txn;
mod version;
mod wal;
mod write;

pub use db::{Db, Snapshot, VerifyReport};
pub use error::{Error, ErrorKind, Result};
pub use family::ColumnFamily;
pub use kingtide_base::{
    BUILT_IN_COMPARATORS, Comparator, ComparatorRef, Corruption, SeqNo, limits,
};
pub use options::{
    Compression, FamilyOptions, IsolationLevel, IterOptions, Options, SyncMode, TransactionOptions,
};
pub use read::{Entries, Iter, Value};
pub use stats::{FamilyStats, LevelStats, Stats};
pub use txn::Transaction;
