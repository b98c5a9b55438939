//! Choices that have a name: on the command line, in suites and in result files it is the same.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::KeyForm;

/// Declares an enumeration whose variants have names, and other spellings that are understood.
macro_rules! choice {
    (
        $(#[$meta:meta])* $type:ident, $what:literal,
        $($(#[$variant_meta:meta])* $variant:ident = $name:literal $(| $other:literal)*;)+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub enum $type {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $type {
            /// Every choice, in the order of the manual.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the command line and in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(name: &str) -> std::result::Result<Self, String> {
                match name {
                    $($name $(| $other)* => Ok(Self::$variant),)+
                    _ => Err(format!(
                        concat!("{:?} is not ", $what, "; it is one of: {}"),
                        name,
                        [$($name),+].join(", ")
                    )),
                }
            }
        }

        impl From<$type> for String {
            fn from(choice: $type) -> Self {
                choice.name().to_owned()
            }
        }

        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(name: String) -> std::result::Result<Self, String> {
                name.parse()
            }
        }
    };
}

choice! {
    /// An engine that can be measured.
    EngineKind, "an engine",
    /// This project's engine, linked in.
    Kingtide = "kingtide";
    /// Any library with the C interface of `TidesDB` 9, `libkingtide.so` included, loaded at run time.
    CAbi = "c-abi";
    /// LMDB through its C interface, loaded at run time.
    Lmdb = "lmdb";
    /// `RocksDB` through its C interface, loaded at run time.
    RocksDb = "rocksdb";
    /// fjall 3, run by the program `kingtide-bench-peers`.
    Fjall = "fjall";
    /// redb 4, run by the program `kingtide-bench-peers`.
    Redb = "redb";
    /// `TidesDB` 10, run by the program `kingtide-bench-peers`.
    TidesDb = "tidesdb";
}

impl EngineKind {
    /// Whether it exists as a crate only, so that a program of its own runs it.
    #[must_use]
    pub fn is_crate(self) -> bool {
        matches!(self, Self::Fjall | Self::Redb | Self::TidesDb)
    }
}

choice! {
    /// The order of keys, in writing and in asking for them.
    Pattern, "a pattern",
    /// Ascending.
    Sequential = "sequential";
    /// A random permutation: every key once before any comes again.
    Random = "random";
    /// A counter whose bytes stand in the key in reverse order.
    ByteReversed = "byte-reversed";
    /// Independent draws, all keys alike: some come often, some never.
    Uniform = "uniform";
    /// Independent draws, few keys often and most seldom, scattered over the order of keys.
    Zipfian = "zipfian";
    /// Microseconds, about ascending: threads take them in turn.
    Timestamp = "timestamp";
    /// Descending.
    Reverse = "reverse";
}

impl Pattern {
    pub(crate) fn key_form(self) -> KeyForm {
        match self {
            Self::ByteReversed => KeyForm::ByteReversed,
            Self::Timestamp => KeyForm::Timestamp,
            _ => KeyForm::Ordered,
        }
    }

    /// Whether every key comes once before any comes again.
    pub(crate) fn visits_every_key(self) -> bool {
        !matches!(self, Self::Uniform | Self::Zipfian)
    }
}

choice! {
    /// What values consist of.
    ValueContent, "a content of values",
    /// A mark that only this key and version have, random bytes, and repetitions of both: it tells every wrong value, and
    /// compresses as far as asked for.
    Marked = "marked";
    /// Byte number i of the value of key number n is n + i, modulo 256, as in the published tests.
    Counter = "counter";
}

choice! {
    /// When a write batch is made durable.
    SyncChoice, "a sync mode",
    /// Never by itself; it still goes through the log, into the kernel.
    None = "none";
    /// In the background, every [`crate::Settings::sync_interval_millis`].
    Interval = "interval";
    /// Before the call returns.
    Full = "full";
}

choice! {
    /// Block compression.
    Codec, "a codec",
    /// Blocks are stored as they are.
    None = "none";
    /// Snappy.
    Snappy = "snappy";
    /// LZ4.
    Lz4 = "lz4";
    /// Zstandard at the engine's default level.
    Zstd = "zstd";
}

choice! {
    /// What a step does.
    Workload, "a workload",
    /// Writes keys in batches; the wait for background work afterwards is timed apart.
    Write = "write" | "fill";
    /// Point reads of keys, one a call.
    Read = "read";
    /// Point reads of keys that were never written.
    Missing = "missing";
    /// Batches of writes and point reads, interleaved at random.
    Mixed = "mixed";
    /// Deletes keys in batches.
    Delete = "delete";
    /// Goes to a key and reads the entry there.
    Seek = "seek";
    /// Goes to a key and reads entries from there on.
    Range = "range" | "ranges";
    /// Every entry once, forwards; each thread walks its own share.
    Iterate = "iterate" | "scan";
    /// Reads a key and writes it again.
    Rmw = "rmw";
    /// Transactions that write one key in several column families.
    Txn = "txn";
    /// YCSB A: half reads, half updates, zipfian.
    YcsbA = "ycsb-a";
    /// YCSB B: 95 % reads, 5 % updates, zipfian.
    YcsbB = "ycsb-b";
    /// YCSB C: reads, zipfian.
    YcsbC = "ycsb-c";
    /// YCSB D: 95 % reads of the newest keys, 5 % inserts.
    YcsbD = "ycsb-d";
    /// YCSB E: 95 % ranges, 5 % inserts, zipfian.
    YcsbE = "ycsb-e";
    /// YCSB F: half reads, half read-modify-writes, zipfian.
    YcsbF = "ycsb-f";
}

impl Workload {
    /// Whether it changes the database.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(
            self,
            Self::Read | Self::Missing | Self::Seek | Self::Range | Self::Iterate | Self::YcsbC
        )
    }

    /// What its calls do, as far as rows tell it; behind them all together, where there are several.
    #[must_use]
    pub fn operations(self) -> &'static [OperationKind] {
        use OperationKind::{All, Delete, Get, Insert, Iter, Put, Range, Rmw, Seek, Txn};
        match self {
            Self::Write => &[Put],
            Self::Read | Self::Missing | Self::YcsbC => &[Get],
            Self::Delete => &[Delete],
            Self::Seek => &[Seek],
            Self::Range => &[Range],
            Self::Iterate => &[Iter],
            Self::Rmw => &[Rmw],
            Self::Txn => &[Txn],
            Self::Mixed | Self::YcsbA | Self::YcsbB => &[Get, Put, All],
            // When all keys are there, they are written again.
            Self::YcsbD => &[Get, Insert, Put, All],
            Self::YcsbE => &[Range, Insert, Put, All],
            Self::YcsbF => &[Get, Rmw, All],
        }
    }

    /// Whether it draws from a zipfian distribution, whatever the pattern.
    #[must_use]
    pub fn is_ycsb(self) -> bool {
        matches!(
            self,
            Self::YcsbA | Self::YcsbB | Self::YcsbC | Self::YcsbD | Self::YcsbE | Self::YcsbF
        )
    }

    /// Whether it needs keys to be there.
    #[must_use]
    pub fn needs_data(self) -> bool {
        !matches!(self, Self::Write | Self::Txn)
    }
}

choice! {
    /// What a call does, as it stands in result files.
    OperationKind, "an operation",
    /// A write of a key, new or not.
    Put = "PUT";
    /// A point read.
    Get = "GET";
    /// A delete.
    Delete = "DELETE";
    /// A seek with one entry.
    Seek = "SEEK";
    /// A range.
    Range = "RANGE";
    /// An entry of an iteration.
    Iter = "ITER";
    /// A read and a write of the same key.
    Rmw = "RMW";
    /// A transaction over several column families.
    Txn = "TXN";
    /// A write of a key that was not there.
    Insert = "INSERT";
    /// All kinds of a mixed workload together.
    All = "ALL";
}

/// An engine on the command line: `NAME`, `NAME=PATH` with the shared library to load, or `LABEL:NAME=PATH` with what it
/// is to be called in reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineChoice {
    /// What it is called in reports.
    pub label: String,
    /// Which engine.
    pub kind: EngineKind,
    /// The library of a peer, or the program that runs it; looked for in the usual places when `None`.
    pub library: Option<PathBuf>,
}

impl FromStr for EngineChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, path) = match text.split_once('=') {
            None => (text, None),
            Some((name, path)) => (name, Some(PathBuf::from(path))),
        };
        let (label, name) = name.split_once(':').unwrap_or((name, name));
        let kind: EngineKind = name.parse()?;
        if label.is_empty() {
            return Err(format!(
                "{text:?}: the label in front of the colon is empty"
            ));
        }
        match (kind, &path) {
            (EngineKind::Kingtide, Some(_)) => Err(
                "kingtide is linked in and takes no library; measure one with c-abi=PATH".into(),
            ),
            _ => Ok(Self {
                label: label.to_owned(),
                kind,
                library: path,
            }),
        }
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.label != self.kind.name() {
            write!(f, "{}:", self.label)?;
        }
        match &self.library {
            None => f.write_str(self.kind.name()),
            Some(path) => write!(f, "{}={}", self.kind.name(), path.display()),
        }
    }
}
