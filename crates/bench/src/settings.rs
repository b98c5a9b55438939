//! What is run, as plain data: the same for every engine, sent as JSON to the process that runs it.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{BenchError, KeyMaker, Result};

/// An engine that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// This project's engine, linked in.
    Kingtide,
    /// Any library with the C interface of `TidesDB` 9, `libkingtide.so` included, loaded at run time.
    #[serde(rename = "c-abi")]
    CAbi,
    /// LMDB through its C interface, loaded at run time.
    Lmdb,
    /// `RocksDB` through its C interface, loaded at run time.
    RocksDb,
}

/// An engine on the command line: `NAME`, or `NAME=PATH` with the shared library to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineChoice {
    /// Which engine.
    pub kind: EngineKind,
    /// The library of a peer; looked for in the usual places when `None`.
    pub library: Option<PathBuf>,
}

impl FromStr for EngineChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, path) = match text.split_once('=') {
            None => (text, None),
            Some((name, path)) => (name, Some(PathBuf::from(path))),
        };
        let kind: EngineKind = name.parse()?;
        match (kind, &path) {
            (EngineKind::Kingtide, Some(_)) => Err(
                "kingtide is linked in and takes no library; measure one with c-abi=PATH".into(),
            ),
            _ => Ok(Self {
                kind,
                library: path,
            }),
        }
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.library {
            None => f.write_str(self.kind.name()),
            Some(path) => write!(f, "{}={}", self.kind.name(), path.display()),
        }
    }
}

/// The order in which keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Ascending.
    Sequential,
    /// A random permutation: every key once.
    Random,
}

/// When a write batch is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncChoice {
    /// Never by itself; it still goes through the log, into the kernel.
    None,
    /// In the background, every [`Settings::sync_interval_millis`].
    Interval,
    /// Before the call returns.
    Full,
}

/// Block compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// Blocks are stored as they are.
    None,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard at the engine's default level.
    Zstd,
}

/// One measured part of a run. The phases of a run share its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Writes every key once, in [`Settings::pattern`] order; the wait for background work afterwards is timed apart.
    Fill,
    /// Random point reads of keys that were written.
    Read,
    /// Every key once, forwards; each thread walks its own share.
    Scan,
    /// [`Settings::range_entries`] keys forwards from random places.
    Ranges,
    /// Deletes every key once, in a random order if the pattern is random.
    Delete,
}

macro_rules! names {
    ($type:ident, $what:literal, $($variant:ident = $name:literal),+) => {
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
                    $($name => Ok(Self::$variant),)+
                    _ => Err(format!(
                        concat!("{:?} is not ", $what, "; it is one of: {}"),
                        name,
                        [$($name),+].join(", ")
                    )),
                }
            }
        }
    };
}

names!(
    EngineKind,
    "an engine",
    Kingtide = "kingtide",
    CAbi = "c-abi",
    Lmdb = "lmdb",
    RocksDb = "rocksdb"
);
names!(
    Pattern,
    "a pattern",
    Sequential = "sequential",
    Random = "random"
);
names!(
    SyncChoice,
    "a sync mode",
    None = "none",
    Interval = "interval",
    Full = "full"
);
names!(
    Codec,
    "a codec",
    None = "none",
    Snappy = "snappy",
    Lz4 = "lz4",
    Zstd = "zstd"
);
names!(
    Phase,
    "a workload",
    Fill = "fill",
    Read = "read",
    Scan = "scan",
    Ranges = "ranges",
    Delete = "delete"
);

/// Everything that a run depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which engine.
    pub engine: EngineKind,
    /// The directory of the database; created, and expected to be empty or missing.
    pub directory: PathBuf,
    /// The shared library of a peer; looked for in the usual places when `None`.
    pub library: Option<PathBuf>,
    /// What is run, in order.
    pub phases: Vec<Phase>,
    /// Keys written, and reads of a read phase. At least 1.
    pub operations: u64,
    /// Threads that call the engine. 1 to 1024.
    pub threads: usize,
    /// Operations of one write batch. At least 1.
    pub batch_operations: usize,
    /// Entries of one range of [`Phase::Ranges`]. At least 1.
    pub range_entries: u64,
    /// Length of a key. 1 to 65,536, and long enough for `operations` different keys.
    pub key_bytes: usize,
    /// Length of a value. Up to 256 MiB.
    pub value_bytes: usize,
    /// Share of a value that does not compress, 0 to 1.
    pub compression_ratio: f64,
    /// The order of writes.
    pub pattern: Pattern,
    /// Durability of writes.
    pub sync: SyncChoice,
    /// The period of [`SyncChoice::Interval`]. At least 1.
    pub sync_interval_millis: u64,
    /// Block cache.
    pub cache_bytes: usize,
    /// A memtable is flushed at this size.
    pub memtable_bytes: usize,
    /// Block compression.
    pub codec: Codec,
    /// Bits per key of the Bloom filters; 0 switches them off.
    pub bloom_bits: f64,
    /// Threads for flushes and merges together. At least 2.
    pub background_jobs: usize,
    /// Determines every key order and value.
    pub seed: u64,
}

impl Settings {
    /// The longest value a run may ask for, in bytes.
    pub const VALUE_BYTES_MAX: usize = 256 << 20;
    /// The longest key a run may ask for, in bytes.
    pub const KEY_BYTES_MAX: usize = 1 << 16;
    /// The most threads.
    pub const THREADS_MAX: usize = 1024;

    /// A run of `engine` in `directory` with the defaults of the manual.
    #[must_use]
    pub fn new(engine: EngineKind, directory: PathBuf) -> Self {
        Self {
            engine,
            directory,
            library: None,
            phases: vec![Phase::Fill, Phase::Read, Phase::Scan],
            operations: 500_000,
            threads: 1,
            batch_operations: 100,
            range_entries: 100,
            key_bytes: 16,
            value_bytes: 100,
            compression_ratio: 0.5,
            pattern: Pattern::Random,
            sync: SyncChoice::None,
            sync_interval_millis: 128,
            cache_bytes: 64 << 20,
            memtable_bytes: 64 << 20,
            codec: Codec::Lz4,
            bloom_bits: 10.0,
            background_jobs: 2,
            seed: 1,
        }
    }

    /// What a Bloom filter of [`Settings::bloom_bits`] with the best number of probes answers wrongly:
    /// `0.5 ^ (bits * ln 2)`.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        0.5_f64
            .powf(self.bloom_bits * std::f64::consts::LN_2)
            .clamp(1e-9, 0.999)
    }

    /// Checks every bound named at the fields.
    ///
    /// # Errors
    /// [`BenchError::Settings`] that names the field and the bound.
    pub fn check(&self) -> Result<()> {
        let keys_max = KeyMaker::new(self.key_bytes).count_max();
        let rules: [(bool, String); 11] = [
            (self.operations >= 1, "operations must be at least 1".into()),
            (
                self.operations <= keys_max,
                format!(
                    "keys of {} bytes allow {keys_max} operations",
                    self.key_bytes
                ),
            ),
            (
                (1..=Self::THREADS_MAX).contains(&self.threads),
                format!("threads must be 1 to {}", Self::THREADS_MAX),
            ),
            (
                self.batch_operations >= 1,
                "a batch needs at least 1 operation".into(),
            ),
            (
                self.range_entries >= 1,
                "a range needs at least 1 entry".into(),
            ),
            (
                (1..=Self::KEY_BYTES_MAX).contains(&self.key_bytes),
                format!("keys must be 1 to {} bytes long", Self::KEY_BYTES_MAX),
            ),
            (
                self.value_bytes <= Self::VALUE_BYTES_MAX,
                format!("values may be {} bytes long at most", Self::VALUE_BYTES_MAX),
            ),
            (
                (0.0..=1.0).contains(&self.compression_ratio),
                "the compression ratio must be 0 to 1".into(),
            ),
            (
                (0.0..=100.0).contains(&self.bloom_bits),
                "Bloom filters must have 0 to 100 bits per key".into(),
            ),
            (
                self.background_jobs >= 2,
                "background jobs must be at least 2".into(),
            ),
            (
                self.sync_interval_millis >= 1,
                "the sync interval must be at least 1 ms".into(),
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, message)) => Err(BenchError::Settings(message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_and_each_broken_bound_is_named() {
        let good = Settings::new(EngineKind::Kingtide, PathBuf::from("x"));
        assert!(good.check().is_ok());
        let mut broken = vec![good; 5];
        broken[0].operations = 0;
        broken[1].key_bytes = 1;
        broken[2].threads = 0;
        broken[3].compression_ratio = f64::NAN;
        broken[4].value_bytes = usize::MAX;
        let names = [
            "operations",
            "keys of 1 bytes",
            "threads",
            "ratio",
            "values",
        ];
        for (settings, expected) in broken.iter().zip(names) {
            let message = settings.check().expect_err(expected).to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn names_are_read_back_and_others_are_refused() {
        for codec in Codec::ALL {
            assert_eq!(codec.name().parse(), Ok(*codec));
        }
        let message = "lz5".parse::<Codec>().expect_err("no such codec");
        assert!(message.contains("none, snappy, lz4, zstd"), "{message}");
    }

    #[test]
    fn an_engine_may_name_its_library() {
        let choice: EngineChoice = "c-abi=/lib/libtidesdb.so".parse().expect("kind and path");
        assert_eq!(choice.kind, EngineKind::CAbi);
        assert_eq!(choice.library, Some(PathBuf::from("/lib/libtidesdb.so")));
        assert_eq!(choice.to_string(), "c-abi=/lib/libtidesdb.so");
        for bad in ["kingtide=/x", "berkeley"] {
            bad.parse::<EngineChoice>().expect_err(bad);
        }
    }

    #[test]
    fn ten_bits_a_key_answer_wrongly_once_in_a_hundred() {
        let mut settings = Settings::new(EngineKind::Kingtide, PathBuf::from("x"));
        let mut rate = |bits| {
            settings.bloom_bits = bits;
            settings.false_positive_rate()
        };
        assert!((0.0081..0.0083).contains(&rate(10.0)));
        assert!(rate(0.0) < 1.0 && rate(100.0) > 0.0);
    }

    #[test]
    fn settings_survive_json() {
        let settings = Settings::new(EngineKind::RocksDb, PathBuf::from("/d"));
        let text = serde_json::to_string(&settings).expect("plain data");
        assert_eq!(
            serde_json::from_str::<Settings>(&text).expect("own text"),
            settings
        );
    }
}
