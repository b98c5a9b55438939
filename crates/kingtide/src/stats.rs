//! Numbers about an open database, as plain data.

use std::time::Duration;

use kingtide_base::SeqNo;

use crate::family::DroppedVersions;

/// Numbers about a database. Counts are since the open unless said; sizes are of this moment.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, FamilyOptions, Options};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let family = db.open_family("f", FamilyOptions::default())?;
/// db.put(&family, b"key", b"value")?;
/// db.flush(&family)?;
/// let stats = db.stats()?;
/// assert_eq!(stats.user_bytes_written, 8);
/// assert_eq!((stats.tables, stats.flushes), (1, 1));
/// assert!(stats.write_amplification() > 1.0);
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Every column family, sorted by name.
    pub families: Vec<FamilyStats>,
    /// The newest visible commit.
    pub sequence: SeqNo,
    /// Log segment files, spare ones included.
    pub log_segments: usize,
    /// Bytes of log segment files.
    pub log_bytes: u64,
    /// Bytes appended to the log.
    pub log_bytes_written: u64,
    /// Syncs of the log; commits that shared one count it once.
    pub log_syncs: u64,
    /// Commits that wrote something.
    pub commits: u64,
    /// Bytes of keys and values that were committed, exactly.
    pub user_bytes_written: u64,
    /// The snapshots that the program holds, the oldest first. Those of transactions and iterators are not listed.
    pub snapshots: Vec<SnapshotStats>,
    /// Different states that live snapshots pin, those of running transactions and iterators included.
    pub live_snapshots: usize,
    /// Transactions that are prepared and wait for their outcome.
    pub prepared: usize,
    /// Bytes that open transactions hold: writes, and what they remember of reads. Each may hold 4 KiB more than is counted.
    pub transaction_bytes: usize,
    /// The cache of table blocks.
    pub cache: CacheStats,
    /// Memory in use.
    pub memory: MemoryStats,
    /// Tables of all families; a table that two families share counts twice.
    pub tables: usize,
    /// Bytes of the tables, and of the value log that they point to.
    pub data_bytes: u64,
    /// Tables that are open now.
    pub open_tables: usize,
    /// Tables that stay open while nobody reads them, at most: the option, or what the process's limit of open files
    /// allows if that is less.
    pub open_tables_max: usize,
    /// Memtables that wait for their flush.
    pub sealed_memtables: usize,
    /// Families whose flush waits for a thread.
    pub flushes_queued: usize,
    /// Flushes that run in the background.
    pub flushes_running: usize,
    /// Families whose merge waits for a thread.
    pub merges_queued: usize,
    /// Merges that run.
    pub merges_running: usize,
    /// Memtables written to tables.
    pub flushes: u64,
    /// Bytes written to tables and value files by flushes.
    pub flush_bytes_written: u64,
    /// Merges of tables, moves not counted.
    pub merges: u64,
    /// Bytes of the tables that merges read.
    pub merge_bytes_read: u64,
    /// Bytes written to tables and value files by merges.
    pub merge_bytes_written: u64,
    /// Numbers about the value log.
    pub values: ValueStats,
    /// Times that a writer had to wait for flushing or for memory.
    pub write_stalls: u64,
    /// The time for which writers were slowed down, all of them together, because flushing had fallen behind or memory was
    /// short. The waits of `write_stalls` are not in it.
    pub write_delay: Duration,
    /// Bytes that were free on the device when that was last looked at; `None` before the first look.
    pub disk_free_bytes: Option<u64>,
}

/// One snapshot that the program holds; handles to the same snapshot are counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotStats {
    /// Its name, if it was taken with one.
    pub name: Option<String>,
    /// The newest commit that it sees.
    pub sequence: SeqNo,
    /// The time since it was taken, on the monotonic clock.
    pub age: Duration,
}

impl Stats {
    /// Bytes written to log, tables and value files for each byte that was committed; 0 when nothing was.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let written = self.log_bytes_written + self.flush_bytes_written + self.merge_bytes_written;
        ratio(written, self.user_bytes_written)
    }
}

/// Numbers about the cache of table blocks, which all families share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// False when the options switched it off; everything else is 0 then.
    pub enabled: bool,
    /// Blocks in the cache.
    pub entries: usize,
    /// Their bytes, what the cache itself needs for them included.
    pub bytes: usize,
    /// The most bytes that it holds.
    pub capacity_bytes: usize,
    /// Blocks that reads found in the cache.
    pub hits: u64,
    /// Blocks that reads had to fetch.
    pub misses: u64,
    /// Parts with a lock of their own.
    pub shards: usize,
}

impl CacheStats {
    /// The share of look-ups that found their block, 0 to 1; 0 before the first.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        ratio(self.hits, self.hits + self.misses)
    }
}

/// Numbers about value files, where values lie that are too long for tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueStats {
    /// Value files.
    pub files: usize,
    /// Their bytes, what is dead in them included. A file that clones share counts for each family, but once for the
    /// database.
    pub bytes: u64,
    /// Bytes of records in them that tables point to; some of them may be hidden by newer entries of their keys.
    pub live_bytes: u64,
    /// Bytes of records that were copied since the open, because they lay in files that were mostly dead, or scattered over many.
    pub copied_bytes: u64,
}

impl ValueStats {
    /// The share of the bytes that is live, 0 to 1; 1 without value files.
    #[must_use]
    pub fn live_ratio(&self) -> f64 {
        if self.bytes == 0 {
            return 1.0;
        }
        ratio(self.live_bytes, self.bytes).min(1.0)
    }
}

/// What a database holds in memory, in bytes, and how much it may be. These are the accounts of its memory budget: what
/// the allocator gave, as far as it was touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Memtables and their indexes, sealed ones included.
    pub memtable_bytes: u64,
    /// Memory of earlier memtables and transactions that is kept for later ones.
    pub kept_bytes: u64,
    /// Blocks of tables in the cache.
    pub cache_bytes: u64,
    /// Filters and indexes of open tables.
    pub table_bytes: u64,
    /// Reads and writes that open transactions hold, prepared ones included.
    pub transaction_bytes: u64,
    /// What flushes, merges and iterators read and write through.
    pub buffer_bytes: u64,
    /// The limit for all of it: what [`Options::memory_bytes_max`](crate::Options::memory_bytes_max) came to.
    pub limit_bytes: u64,
    /// How close memory is to the point at which writers wait.
    pub pressure: MemoryPressure,
}

impl MemoryStats {
    /// All of it.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.memtable_bytes
            + self.kept_bytes
            + self.cache_bytes
            + self.table_bytes
            + self.transaction_bytes
            + self.buffer_bytes
    }
}

/// How much of the memory that writers may use is in use, less what the caches could give up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryPressure {
    /// Less than half of it.
    #[default]
    Normal,
    /// Half of it or more.
    Elevated,
    /// Three quarters of it or more.
    High,
    /// All of it: writers wait.
    Critical,
}

/// Numbers about one column family. Counts are since the open; sizes are of this moment.
#[derive(Clone, Debug, Default)]
pub struct FamilyStats {
    /// Its name.
    pub name: String,
    /// Bytes of entries in memtables, sealed ones included.
    pub memtable_bytes: usize,
    /// Entries in memtables, all versions counted, sealed ones included.
    pub memtable_entries: u64,
    /// Entries in memtables that are tombstones.
    pub memtable_tombstones: u64,
    /// Memtables that wait for their flush.
    pub sealed_memtables: usize,
    /// The levels, level 1 first; at least one.
    pub levels: Vec<LevelStats>,
    /// Calls of the family's commit hooks since the open.
    pub commit_hook_calls: u64,
    /// Of these, the calls that ended with an error or a panic.
    pub commit_hook_failures: u64,
    /// What the last call that failed said.
    pub commit_hook_last_failure: Option<String>,
    /// Entries in memtables and tables, all versions and tombstones counted.
    pub entries: u64,
    /// Entries in tables that are tombstones: the sum over the levels.
    pub tombstones: u64,
    /// How many keys have a value, as [`Db::estimate_cardinality`](crate::Db::estimate_cardinality) tells.
    pub keys_estimate: u64,
    /// Bytes of memtables and tables, and of the value log that the tables point to.
    pub data_bytes: u64,
    /// Bytes of an average key. Exact for keys of one length; otherwise guessed from the first and last key of each table.
    pub key_bytes_average: f64,
    /// Bytes of an average value, tombstones not counted; as good as the average of keys.
    pub value_bytes_average: f64,
    /// Tables that a read of one key may have to ask, filters not counted: the most of level 1 that hold one key, and one
    /// for each deeper level. At least 1.
    pub read_amplification: f64,
    /// The largest share of tombstones among the entries of a table, 0 to 1.
    pub tombstone_density_max: f64,
    /// The level of that table, from 1; 0 when no table has tombstones.
    pub tombstone_density_max_level: usize,
    /// Bytes of keys and values that were committed, exactly.
    pub user_bytes_written: u64,
    /// Bytes that the commits took of the log; what surrounds the parts of a record counts with its first family.
    pub log_bytes_written: u64,
    /// Memtables written to tables.
    pub flushes: u64,
    /// Bytes written to tables and value files by flushes.
    pub flush_bytes_written: u64,
    /// Merges of tables, moves not counted.
    pub merges: u64,
    /// Bytes of the tables that merges read.
    pub merge_bytes_read: u64,
    /// Bytes written to tables and value files by merges.
    pub merge_bytes_written: u64,
    /// Versions that flushes and merges left out, by reason.
    pub dropped: DroppedVersions,
    /// Numbers about the value files that the family's tables point to.
    pub values: ValueStats,
}

impl FamilyStats {
    /// Bytes written to log, tables and value files for each byte that was committed; 0 when nothing was.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let written = self.log_bytes_written + self.flush_bytes_written + self.merge_bytes_written;
        ratio(written, self.user_bytes_written)
    }

    /// How old the oldest tombstone or range delete in a table is, in whole seconds; `None` without any.
    #[must_use]
    pub fn tombstone_age(&self) -> Option<Duration> {
        self.levels.iter().filter_map(|of| of.tombstone_age).max()
    }

    /// The share of tombstones among the entries of tables, 0 to 1.
    #[must_use]
    pub fn tombstone_ratio(&self) -> f64 {
        ratio(
            self.tombstones,
            self.levels.iter().map(|level| level.entries).sum(),
        )
    }
}

/// Numbers about one level of a family.
#[derive(Clone, Debug, Default)]
pub struct LevelStats {
    /// Its number, from 1.
    pub level: usize,
    /// Tables.
    pub files: usize,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Entries, all versions and tombstones counted.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// How old the oldest tombstone or range delete is, as far as it can be told, in whole seconds; `None` without any. See
    /// [`FamilyOptions::tombstone_age_max`](crate::FamilyOptions::tombstone_age_max).
    pub tombstone_age: Option<Duration>,
    /// Bytes of the value log that the tables point to.
    pub vlog_bytes: u64,
}

/// `part` of `whole`; 0 of nothing.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}
