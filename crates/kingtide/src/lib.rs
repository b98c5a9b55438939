//! Kingtide: an embedded transactional key-value storage engine.
//!
//! A database is a directory. It holds any number of *column families*: ordered maps from keys (1 byte to 1 MiB) to
//! values (up to 1 GiB), each with settings of its own. A transaction writes to any of them and is committed as a whole
//! or not at all, whatever crashes. It is a log-structured merge tree: commits go to one log and to memory, memory is
//! written to sorted tables in the background, and tables are merged.
//!
//! ```
//! # fn main() -> kingtide::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let path = directory.path();
//! use kingtide::{Db, FamilyOptions, IterOptions, Options};
//!
//! let db = Db::open(path, Options::default())?;
//! let ports = db.open_family("ports", FamilyOptions::default())?;
//! let ships = db.open_family("ships", FamilyOptions::default())?;
//!
//! // One transaction over two families: both writes, or none.
//! let mut transaction = db.begin()?;
//! transaction.put(&ports, b"brest/berths", b"12")?;
//! transaction.put(&ships, b"aurora", b"brest")?;
//! transaction.commit()?;
//!
//! assert_eq!(db.get(&ships, b"aurora")?.expect("was put"), b"brest");
//!
//! // All keys that begin alike, in order.
//! let in_brest = IterOptions {
//!     prefix: Some(b"brest/".to_vec()),
//!     ..IterOptions::default()
//! };
//! let mut iter = db.iter(&ports, in_brest)?;
//! assert!(iter.seek_to_first()?);
//! assert_eq!(iter.key(), b"brest/berths");
//! assert_eq!(iter.value()?, b"12");
//!
//! db.close()
//! # }
//! ```
//!
//! # The main types
//!
//! | type | what it is |
//! |---|---|
//! | [`Db`] | an open database: families, single reads and writes, maintenance |
//! | [`ColumnFamily`] | a handle to one family, passed to every read and write |
//! | [`Transaction`] | writes that are committed together, and reads that see them |
//! | [`Snapshot`] | the database as it was, for reading |
//! | [`CommitHook`], [`CommitEvent`] | user code that is told of every commit to a family |
//! | [`Iter`], [`Entries`] | the keys of a family in order, as a cursor and as an [`Iterator`] |
//! | [`Value`] | the bytes of a value, where possible without a copy |
//! | [`Options`], [`FamilyOptions`], [`TransactionOptions`], [`IterOptions`] | settings, as plain data |
//! | [`Stats`] | counts and sizes |
//! | [`Layout`] | which files there are, and which keys they cover |
//! | [`Error`], [`ErrorKind`] | what went wrong, by what the caller can do about it |
//!
//! # What survives
//!
//! Every acknowledged commit survives the kill of the process. What survives a power cut is the family's [`SyncMode`]:
//! by default (`Full`) every acknowledged commit. Damaged files are reported as [`ErrorKind::Corruption`], never as
//! absent keys.
//!
//! # Threads
//!
//! [`Db`], [`ColumnFamily`], [`Snapshot`] and [`Value`] are cheap to clone and used from any number of threads at once.
//! A [`Transaction`] and an [`Iter`] may be sent to another thread, but are used by one at a time. Reads wait for no
//! writer. Calls may wait for the disk: do not make them where blocking is forbidden, as in an async task. The database
//! runs threads of its own for flushing, merging and keeping the log; [`Db::close`] ends them. A database is open once at
//! a time: a second open, by this process or another, is refused as [`ErrorKind::Locked`].

mod background;
mod backup;
mod budget;
mod bulk;
mod compaction;
mod db;
mod engine;
mod error;
mod events;
mod family;
mod files;
mod flush;
mod layout;
mod manifest;
mod memtable;
mod options;
mod output;
mod read;
mod repair;
mod snapshot;
mod spill;
mod stats;
mod txn;
mod version;
mod vlog;
mod wal;
mod write;

pub use backup::BackupReport;
pub use bulk::BulkLoadReport;
pub use db::{BulkLoader, Db, PreparedTransaction, Snapshot, VerifyReport};
pub use error::{Conflict, ConflictAccess, Error, ErrorKind, Result};
pub use events::{Event, Listener, LogLevel, LogOptions};
pub use family::{
    ColumnFamily, DroppedVersions,
    hook::{CommitEvent, CommitHook, CommitOperation},
};
pub use kingtide_base::{
    BUILT_IN_COMPARATORS, Comparator, ComparatorRef, Corruption, SeqNo, limits,
};
pub use kingtide_env::raise_open_file_limit;
pub use layout::{FamilyLayout, Layout, SegmentLayout, SegmentState, TableLayout, ValueFileLayout};
pub use options::{
    Compression, FamilyOptions, IsolationLevel, IterOptions, Options, SyncMode, TransactionOptions,
};
pub use read::{Entries, Iter, Value};
pub use repair::{ManifestFound, RepairLoss, RepairOptions, RepairReport, RepairedFamily, repair};
pub use stats::{
    CacheStats, FamilyStats, LevelStats, MemoryPressure, MemoryStats, SnapshotStats, Stats,
    ValueStats,
};
pub use txn::{AbortHandle, RetryOptions, Transaction};

// The thread rules of the crate's documentation.
const _: () = {
    const fn is_shared<T: Clone + Send + Sync>() {}
    const fn is_sent<T: Send>() {}
    is_shared::<Db>();
    is_shared::<ColumnFamily>();
    is_shared::<Snapshot>();
    is_shared::<Value>();
    is_shared::<AbortHandle>();
    is_sent::<Transaction>();
    is_sent::<Iter>();
    is_sent::<Entries>();
};
