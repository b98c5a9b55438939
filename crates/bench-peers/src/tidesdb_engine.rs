//! TidesDB 10 through the crate that its authors publish, for comparison: the same settings as far as it has them;
//! everything else is its default. Written from the public documentation of that crate alone.
//!
//! Its sync mode `None` may lose acknowledged commits with the process. Here `none` means that they are in the kernel, as
//! for every engine, so it runs with a sync interval that no run reaches. A read is a read-committed transaction that the
//! session keeps, and leaves no trace for conflict checks; a batch is one transaction.

use std::{thread, time::Duration};

use kingtide_bench::{BenchError, Codec, Engine, Result, Session, Settings, SyncChoice};
use tidesdb::{
    ColumnFamily, ColumnFamilyConfig, CompressionAlgorithm, Config, Error, IsolationLevel,
    LogLevel, SyncMode, TIDESDB_LINKED_VERSION, TidesDB, Transaction,
};

const LEVEL: IsolationLevel = IsolationLevel::ReadCommitted;
/// A sync interval that no run reaches: a day, in microseconds.
const NEVER_MICROS: u64 = 86_400_000_000;
/// The library answers `Locked` while something else is in the way, and asks for another try.
const TRIES_MAX: usize = 10_000;
const WAIT: Duration = Duration::from_millis(10);
/// Looks in a row that must find nothing: a merge may be picked just after a flush has ended.
const QUIET_LOOKS: usize = 3;

/// An open database and the names of its families, of which there is at least one.
pub(crate) struct TidesDbEngine {
    db: TidesDB,
    names: Vec<String>,
}

impl TidesDbEngine {
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        let mergers = i32::try_from(settings.merging_threads()).unwrap_or(i32::MAX);
        let (mode, interval) = match settings.sync {
            SyncChoice::None => (SyncMode::Interval, NEVER_MICROS),
            SyncChoice::Interval => {
                let micros = settings.sync_interval_millis.saturating_mul(1000);
                (SyncMode::Interval, micros)
            }
            SyncChoice::Full => (SyncMode::Full, 0),
        };
        let config = Config::new(&settings.directory)
            .num_flush_threads(1)
            .num_compaction_threads(mergers)
            .log_level(LogLevel::None)
            .block_cache_size(settings.cache_bytes)
            .memtable_write_buffer_size(settings.memtable_bytes)
            .memtable_sync_mode(mode)
            .memtable_sync_interval_us(interval);
        let db = TidesDB::open(config).map_err(failed)?;
        let codec = match settings.codec {
            Codec::None => CompressionAlgorithm::None,
            Codec::Snappy => CompressionAlgorithm::Snappy,
            Codec::Lz4 => CompressionAlgorithm::Lz4,
            Codec::Zstd => CompressionAlgorithm::Zstd,
        };
        if !codec.is_available() {
            let text = format!("tidesdb was built without {}", settings.codec.name());
            return Err(BenchError::Settings(text));
        }
        let mut names = Vec::new();
        for number in 0..settings.families {
            let family = ColumnFamilyConfig::new()
                .compression_algorithm(codec)
                .enable_bloom_filter(settings.bloom_bits > 0.0)
                .bloom_fpr(settings.false_positive_rate());
            let name = format!("bench{number}");
            db.create_column_family(&name, family).map_err(failed)?;
            names.push(name);
        }
        Ok(Self { db, names })
    }

    fn families(&self) -> Result<Vec<ColumnFamily<'_>>> {
        let families = self.names.iter();
        families
            .map(|name| self.db.get_column_family(name).map_err(failed))
            .collect()
    }

    /// Whether flushes or merges are under way or due.
    fn is_busy(&self, families: &[ColumnFamily<'_>]) -> Result<bool> {
        let stats = self.db.get_db_stats().map_err(failed)?;
        let is_due = stats.immutable_memtable_count > 0 || stats.compaction_pending_count > 0;
        Ok(is_due
            || stats.is_flushing
            || self.db.is_flushing()
            || families.iter().any(ColumnFamily::is_compacting))
    }
}

fn failed(source: Error) -> BenchError {
    BenchError::Engine(format!("tidesdb: {source}"))
}

/// Tries again while the library says that something else is in the way.
fn insist(mut call: impl FnMut() -> tidesdb::Result<()>, pause: Duration) -> Result<()> {
    for _ in 0..TRIES_MAX {
        match call() {
            Err(source) if source.is_locked() => thread::sleep(pause),
            outcome => return outcome.map_err(failed),
        }
    }
    call().map_err(failed)
}

impl Engine for TidesDbEngine {
    fn version(&self) -> String {
        format!("TidesDB {TIDESDB_LINKED_VERSION}")
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "tidesdb: defaults of the crate for every setting not named on the command line; sync none is its interval \
             mode without a sync, since its own none may lose commits with the process"
                .into(),
        ]
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let begin = || {
            let transaction = self.db.begin_transaction_with_isolation(LEVEL);
            transaction.map_err(failed)
        };
        Ok(Box::new(TidesDbSession {
            families: self.families()?,
            reads: begin()?,
            writes: begin()?,
        }))
    }

    fn settle(&self) -> Result<()> {
        let families = self.families()?;
        insist(|| self.db.flush_memtable(), WAIT)?;
        let mut quiet = 0;
        while quiet < QUIET_LOOKS {
            quiet = if self.is_busy(&families)? {
                0
            } else {
                quiet + 1
            };
            thread::sleep(WAIT);
        }
        Ok(())
    }

    /// It closes when it is dropped.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// One thread's view.
struct TidesDbSession<'a> {
    families: Vec<ColumnFamily<'a>>,
    /// Never committed; each read sees the newest commits.
    reads: Transaction<'a>,
    /// Empty between calls.
    writes: Transaction<'a>,
}

impl TidesDbSession<'_> {
    fn write(
        &mut self,
        put: impl Fn(&Transaction<'_>, &[ColumnFamily<'_>]) -> tidesdb::Result<()>,
    ) -> Result<()> {
        let Self {
            families, writes, ..
        } = self;
        let attempt = || {
            let outcome = put(writes, families).and_then(|()| writes.commit());
            writes.reset(LEVEL).and(outcome)
        };
        insist(attempt, Duration::ZERO)
    }
}

impl Session for TidesDbSession<'_> {
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.write(|writes, families| {
            let mut pairs = pairs.iter();
            pairs.try_for_each(|(key, value)| writes.put(&families[0], key, value))
        })
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_in(0, key, value)
    }

    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.write(|writes, families| {
            let mut keys = keys.iter();
            keys.try_for_each(|key| writes.delete(&families[0], key))
        })
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut entries = self.reads.new_iterator(&self.families[0]).map_err(failed)?;
        if from.is_empty() {
            entries.seek_to_first().map_err(failed)?;
        } else {
            entries.seek(from).map_err(failed)?;
        }
        let mut visited = 0;
        while visited < limit && entries.is_valid() {
            let (key, value) = entries.key_value().map_err(failed)?;
            visit(&key, &value);
            visited += 1;
            if visited < limit {
                entries.next().map_err(failed)?;
            }
        }
        Ok(visited)
    }

    fn put_families(&mut self, writes: &[(usize, &[u8], &[u8])]) -> Result<()> {
        self.write(|transaction, families| {
            let mut writes = writes.iter();
            writes.try_for_each(|(family, key, value)| {
                transaction.put(&families[*family], key, value)
            })
        })
    }

    fn get_in(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        match self.reads.get_notrack(&self.families[family], key) {
            Ok(found) => {
                value.extend_from_slice(&found);
                Ok(true)
            }
            Err(source) if source.is_not_found() => Ok(false),
            Err(source) => Err(failed(source)),
        }
    }
}
