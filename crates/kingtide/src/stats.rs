//! Numbers about an open database, as plain data.

use std::time::Duration;

use kingtide_base::SeqNo;

/// Numbers about a database. Counts are since the open unless said; sizes are of this moment.
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
    /// The snapshots that the program holds, the oldest first. Those of transactions and iterators are not listed.
    pub snapshots: Vec<SnapshotStats>,
    /// Different states that live snapshots pin, those of running transactions and iterators included.
    pub live_snapshots: usize,
    /// Transactions that are prepared and wait for their outcome.
    pub prepared: usize,
    /// Bytes that open transactions hold: writes, and what they remember of reads. Each may hold 4 KiB more than is counted.
    pub transaction_bytes: usize,
    /// Bytes of table blocks in the cache.
    pub cache_bytes: usize,
    /// The most bytes of table blocks that the cache holds.
    pub cache_capacity_bytes: usize,
    /// Blocks that reads found in the cache.
    pub cache_hits: u64,
    /// Blocks that reads had to fetch.
    pub cache_misses: u64,
    /// Tables that are open now.
    pub open_tables: usize,
    /// Memtables written to tables.
    pub flushes: u64,
    /// Merges of tables, moves not counted.
    pub merges: u64,
    /// Bytes written to tables and value files by flushes and merges.
    pub table_bytes_written: u64,
    /// Times that a writer had to wait for flushing.
    pub write_stalls: u64,
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

/// Numbers about one column family.
#[derive(Clone, Debug, Default)]
pub struct FamilyStats {
    /// Its name.
    pub name: String,
    /// Bytes of entries in memtables, sealed ones included.
    pub memtable_bytes: usize,
    /// Entries in memtables, all versions counted, sealed ones included.
    pub memtable_entries: u64,
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
    /// Bytes of the value log that the tables point to.
    pub vlog_bytes: u64,
}
