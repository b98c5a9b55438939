//! What happens inside, told: to a listener of the program, as lines of the file `LOG`, and as a trace.
//!
//! | file | what it is |
//! |---|---|
//! | `queue` | from wherever something happens to the one thread that tells it |
//! | `log_file` | the file `LOG` |
//! | `text` | an event as a line |
//! | `trace` | events as spans, for a viewer of traces |
//!
//! Events hold names of families and files, counts and messages of errors: never keys and values.

mod log_file;
mod queue;
mod text;
mod trace;

use std::fmt;

pub(crate) use log_file::LogFile;
pub(crate) use queue::{Audience, Events};
pub(crate) use trace::TraceFile;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Every step.
    Debug,
    /// Work that begins and ends.
    Info,
    /// Something that slows the database down, or may soon fail.
    Warn,
    /// Something failed.
    Error,
    /// The database cannot go on.
    Fatal,
    /// Above every event: as a limit, nothing is told.
    None,
}

/// Settings of the file `LOG` in the directory of the database.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, LogLevel, LogOptions, Options};
///
/// let log = LogOptions { to_file: true, level: LogLevel::Info, ..LogOptions::default() };
/// let db = Db::open(directory.path(), Options { log, ..Options::default() })?;
/// db.log(LogLevel::Warn, "the tide is high");
/// db.close()?;
/// let lines = std::fs::read_to_string(directory.path().join("LOG")).expect("it was written");
/// assert!(lines.contains("WARN  the tide is high"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Write the file at all. A read-only opening never does. Default: false.
    pub to_file: bool,
    /// Events below this level leave no line. Default: `Info`.
    pub level: LogLevel,
    /// When the file has reached this length, in bytes, it becomes `LOG.old`, in place of the one before, and a new one
    /// begins; 0 lets it grow. Default: 24 MiB.
    pub truncate_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            to_file: false,
            level: LogLevel::Info,
            truncate_bytes: 24 << 20,
        }
    }
}

/// Is told of events; see [`Options::listener`](crate::Options::listener).
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, Event, FamilyOptions, Listener, Options};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// #[derive(Default)]
/// struct Flushed(AtomicU64);
///
/// impl Listener for Flushed {
///     fn event(&self, _unix_micros: u64, event: &Event) {
///         if let Event::FlushEnd { bytes, .. } = event {
///             self.0.fetch_add(*bytes, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let flushed = Arc::new(Flushed::default());
/// let options = Options { listener: Some(flushed.clone()), ..Options::default() };
/// let db = Db::open(directory.path(), options)?;
/// let family = db.create_family("f", FamilyOptions::default())?;
/// db.put(&family, b"k", b"v")?;
/// db.flush(&family)?;
/// db.close()?; // everything was told when this returns
/// assert!(flushed.0.load(Ordering::Relaxed) > 0);
/// # Ok(())
/// # }
/// ```
pub trait Listener: Send + Sync {
    /// Something happened at `unix_micros`, in microseconds since 1970. Called on a thread of the database that does
    /// nothing else, one event after the other, in the order in which they happened; no lock is held, so every call on
    /// the database is allowed. While a listener takes its time, events wait, up to 4096 of them; what comes then is
    /// counted and told as [`Event::Lost`]. A panic is caught, and the next event is told all the same.
    fn event(&self, unix_micros: u64, event: &Event);
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The database is open.
    Opened {
        /// Column families.
        families: usize,
        /// Tables of all families.
        tables: usize,
        /// Tables that were written from the log.
        recovered_tables: usize,
        /// The newest commit.
        sequence: u64,
        /// Only for reading.
        is_read_only: bool,
    },
    /// The database is closed; the last event.
    Closed {
        /// What went wrong, if anything did.
        failure: Option<String>,
    },
    /// A memtable was closed for writes and waits for its flush.
    MemtableSealed {
        /// Of which column family.
        family: String,
        /// The entries' bytes in memory.
        bytes: u64,
    },
    /// A memtable is being written to tables.
    FlushBegin {
        /// Of which column family.
        family: String,
        /// The entries' bytes in memory.
        bytes: u64,
    },
    /// A memtable is in tables.
    FlushEnd {
        /// Of which column family.
        family: String,
        /// Tables written.
        tables: usize,
        /// Bytes of tables and value files written.
        bytes: u64,
        /// How long it took.
        micros: u64,
    },
    /// A flush failed, or its family was dropped; it left nothing behind.
    FlushGivenUp {
        /// Of which column family.
        family: String,
    },
    /// Tables are being merged.
    MergeBegin {
        /// Of which column family.
        family: String,
        /// Tables read.
        tables: usize,
        /// Their bytes.
        bytes: u64,
        /// The level that takes the result, counted from 1.
        target_level: u8,
    },
    /// Merged tables have taken the place of others.
    MergeEnd {
        /// Of which column family.
        family: String,
        /// Tables written.
        tables: usize,
        /// Bytes of tables and value files written.
        bytes: u64,
        /// Their level, counted from 1.
        target_level: u8,
        /// How long it took.
        micros: u64,
    },
    /// A merge failed, was cancelled, or its family was dropped; it left nothing behind.
    MergeGivenUp {
        /// Of which column family.
        family: String,
    },
    /// A writer waits because memtables fill faster than they are flushed.
    StallBegin {
        /// Of which column family.
        family: String,
    },
    /// A writer has waited.
    StallEnd {
        /// Of which column family.
        family: String,
        /// How long it waited.
        micros: u64,
    },
    /// A writer has waited because the memory budget was used up; it goes on, or was refused.
    MemoryWaited {
        /// How long it waited.
        micros: u64,
    },
    /// A writer was held back for a moment because flushing falls behind or memory is short. Left out while many events
    /// wait.
    WriterDelayed {
        /// How long.
        micros: u64,
    },
    /// The log was synced, in a second or less. Left out while many events wait.
    LogSynced {
        /// How long it took.
        micros: u64,
    },
    /// A sync of the log took more than a second.
    LogSyncSlow {
        /// How long it took.
        micros: u64,
    },
    /// A sync of the log failed: no more is written in this opening.
    LogSyncFailed {
        /// The system's answer.
        message: String,
    },
    /// Background work failed; it is tried again. Told once until something succeeds.
    BackgroundError {
        /// What failed.
        work: &'static str,
        /// Of which column family.
        family: String,
        /// Why.
        message: String,
    },
    /// A file that nothing needs any more was removed.
    FileRemoved {
        /// Its path below the database's directory.
        file: String,
    },
    /// A backup or a checkpoint was made.
    CopyMade {
        /// The newest commit in it.
        sequence: u64,
        /// Files that are links.
        files_linked: u64,
        /// Files that were copied or written.
        files_written: u64,
        /// How long it took.
        micros: u64,
    },
    /// A comparator was registered, and the families that waited for it are open.
    ComparatorRegistered {
        /// Its name.
        name: String,
        /// Families that are open since.
        families: usize,
    },
    /// A line of the program; see [`Db::log`](crate::Db::log).
    Message {
        /// How much it matters.
        level: LogLevel,
        /// The line.
        text: String,
    },
    /// Events that were not told because too many waited.
    Lost {
        /// How many.
        count: u64,
    },
}

impl Event {
    /// How much the event matters.
    #[must_use]
    pub fn level(&self) -> LogLevel {
        match self {
            Self::MemtableSealed { .. }
            | Self::FileRemoved { .. }
            | Self::WriterDelayed { .. }
            | Self::LogSynced { .. } => LogLevel::Debug,
            Self::FlushGivenUp { .. }
            | Self::StallBegin { .. }
            | Self::StallEnd { .. }
            | Self::MemoryWaited { .. }
            | Self::LogSyncSlow { .. }
            | Self::Lost { .. } => LogLevel::Warn,
            Self::BackgroundError { .. } => LogLevel::Error,
            Self::LogSyncFailed { .. } => LogLevel::Fatal,
            Self::Closed { failure } if failure.is_some() => LogLevel::Error,
            Self::Message { level, .. } => *level,
            _ => LogLevel::Info,
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::None => "NONE",
        })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(test)]
#[cfg(not(loom))]
mod trace_tests;
