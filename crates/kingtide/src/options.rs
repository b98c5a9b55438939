//! Settings, as plain data.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use kingtide_base::ComparatorRef;
use kingtide_env::Env;

use crate::events::{Listener, LogOptions};

/// When a commit is made durable, that is, survives a power cut. In every mode an acknowledged commit survives the kill
/// of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Never on its own; [`Db::sync_wal`](crate::Db::sync_wal) does it on demand.
    None,
    /// In the background, at most this long after the commit (at least 1 microsecond).
    Interval(Duration),
    /// Before the commit returns. Commits that arrive together share one sync.
    Full,
}

/// How blocks of tables and values of the value log are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Stored as they are.
    None,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// LZ4 with a faster, less thorough search.
    Lz4Fast,
    /// Zstandard.
    Zstd,
}

/// What a transaction sees of others. See docs/isolation.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum IsolationLevel {
    /// Each operation reads the newest committed state. For compatibility: writes are buffered until the commit, so
    /// that nothing uncommitted is ever read, and it behaves like read committed.
    ReadUncommitted = 0,
    /// Each operation reads the newest committed state.
    ReadCommitted = 1,
    /// All reads see the state at the beginning. A commit conflicts if a key that was written or found here was written
    /// by another transaction meanwhile.
    RepeatableRead = 2,
    /// All reads see the state at the beginning; the first committer of a key wins. Reads are not checked.
    Snapshot = 3,
    /// As if the transactions at this level had run one after the other: a commit conflicts if anything that it read,
    /// found or not, was changed meanwhile, in single keys and in ranges.
    Serializable = 4,
}

impl IsolationLevel {
    /// Every level, the weakest first.
    pub const ALL: [Self; 5] = [
        Self::ReadUncommitted,
        Self::ReadCommitted,
        Self::RepeatableRead,
        Self::Snapshot,
        Self::Serializable,
    ];

    /// True when all reads see the state at the beginning: from repeatable read up.
    #[must_use]
    pub fn has_one_view(self) -> bool {
        self >= Self::RepeatableRead
    }
}

/// Settings of a database, given at every open.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, ErrorKind, Options};
///
/// let options = Options { create_if_missing: false, ..Options::default() };
/// let error = Db::open(directory.path().join("nothing"), options).expect_err("nothing is there");
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Options {
    /// Create the directory and an empty database when there is none. Default: true.
    pub create_if_missing: bool,
    /// Open for reading only: nothing in the directory is written, not even the lock. Default: false.
    pub read_only: bool,
    /// Threads that write memtables to tables; 0 means half the cores, 1 to 4. Default: 0.
    pub flush_threads: usize,
    /// Threads that merge tables; 0 counts as 1. Default: 2.
    pub compaction_threads: usize,
    /// Bytes of tables and value files that all merges together may write in a second, on average; after a pause they may
    /// write as many at once as a tenth of a second allows. Flushes are not limited. Merges that are limited too much
    /// leave more tables, which slows reads and takes room. 0 means no limit. Default: 0.
    pub compaction_rate_bytes_max: u64,
    /// Bytes of table blocks kept in memory, shared by all families; 0 switches the cache off. Blocks come into it when they are
    /// read, and, while there is room, when they were written and the database is idle. Default: 64 MiB.
    pub block_cache_bytes: usize,
    /// Tables kept open while nobody reads them; 0 means no limit. When the process may open no more files, idle ones are
    /// closed whatever the limit; it is fitted to the number of files that the process may have open (see
    /// [`raise_open_file_limit`](crate::raise_open_file_limit)). Default: 256.
    pub open_tables_max: usize,
    /// The memory budget, in bytes: one limit for all memtables, cached blocks, filters and indexes of open tables, what
    /// transactions hold, and the buffers of flushes, merges and iterators. When it is nearly used up, the cache gives way
    /// first, memtables are flushed before they are full, then writers are slowed down, and at the limit they wait
    /// ([`Options::write_wait_max`]) and get `Busy`. A memtable takes at most a fifth of it, one transaction three
    /// eighths, and the cache three quarters, whatever the other settings say. Less than 8 MiB counts as 8 MiB. With a budget that is given, glibc's allocator is asked
    /// to use no more arenas than there are cores, for the whole process: what each keeps of freed memory is memory too.
    ///
    /// 0 means half of the memory that this process may use (the machine's, or its control group's), at least 128 MiB but
    /// no more than three quarters of it; 2 GiB where that is not known. Default: 0.
    pub memory_bytes_max: usize,
    /// How long a writer waits when memory is used up or flushing has fallen behind, before it is told `Busy`. Default: 60
    /// seconds.
    pub write_wait_max: Duration,
    /// What a close does with merges that are due or run: finish them, which may take long, or end them at their next
    /// checkpoint and leave them to the next opening. Default: false, end them.
    pub finish_compactions_on_close: bool,
    /// Bytes that one transaction may hold: its writes, and at the levels that remember reads these as well. What would
    /// go beyond is refused as `MemoryLimit`. 0 means the most that there may be, 3 GiB. Default: 0.
    pub transaction_bytes_max: usize,
    /// Values of so many bytes or more are written to a value file of their own when they are put, piece by piece, if their
    /// family has a value log ([`FamilyOptions::value_threshold_bytes`], which counts as well if it is larger): they pass
    /// neither through the memory of the transaction and of the memtable nor through the log, and are written once. Such a put
    /// syncs the file, and its commit the manifest, in every sync mode. 0 means never. Default: 4 MiB.
    pub spill_bytes_min: usize,
    /// Orders of keys that families of this database use, besides the built-in ones. Must hold every order that an
    /// existing family names, unless `defer_missing_comparators` is set.
    pub comparators: Vec<ComparatorRef>,
    /// Open also when comparators of families are missing. Calls on these families answer `ComparatorMissing` until
    /// [`Db::register_comparator`](crate::Db::register_comparator) brings the order; nothing of them is lost meanwhile.
    /// Families in which a prepared transaction has locked something are refused all the same. Default: false.
    pub defer_missing_comparators: bool,
    /// Is told what happens inside; nobody when `None`. Default: `None`.
    pub listener: Option<Arc<dyn Listener>>,
    /// The file `LOG`, lines about what happens inside. Default: none is written.
    pub log: LogOptions,
    /// Where to write a trace of this opening, which <https://ui.perfetto.dev> and other viewers show: flushes, merges,
    /// waits and syncs as spans of their threads, everything else as moments, with names of families and files and never
    /// keys or values. A file that is there is replaced. It is JSON and readable after a crash; nothing depends on it,
    /// and what cannot be written is lost. Default: `None`.
    pub trace: Option<PathBuf>,
    /// The world to run in; the real one when `None`.
    pub env: Option<Arc<dyn Env>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create_if_missing: true,
            read_only: false,
            flush_threads: 0,
            compaction_threads: 2,
            compaction_rate_bytes_max: 0,
            block_cache_bytes: 64 << 20,
            open_tables_max: 256,
            memory_bytes_max: 0,
            write_wait_max: Duration::from_secs(60),
            finish_compactions_on_close: false,
            transaction_bytes_max: 0,
            spill_bytes_min: 4 << 20,
            comparators: Vec::new(),
            defer_missing_comparators: false,
            listener: None,
            log: LogOptions::default(),
            trace: None,
            env: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparators: Vec<&str> = self.comparators.iter().map(|order| order.name()).collect();
        f.debug_struct("Options")
            .field("create_if_missing", &self.create_if_missing)
            .field("read_only", &self.read_only)
            .field("flush_threads", &self.flush_threads)
            .field("compaction_threads", &self.compaction_threads)
            .field("compaction_rate_bytes_max", &self.compaction_rate_bytes_max)
            .field("block_cache_bytes", &self.block_cache_bytes)
            .field("open_tables_max", &self.open_tables_max)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .field("write_wait_max", &self.write_wait_max)
            .field(
                "finish_compactions_on_close",
                &self.finish_compactions_on_close,
            )
            .field("transaction_bytes_max", &self.transaction_bytes_max)
            .field("spill_bytes_min", &self.spill_bytes_min)
            .field("comparators", &comparators)
            .field("defer_missing_comparators", &self.defer_missing_comparators)
            .field("log", &self.log)
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}

/// Settings of one column family, stored with it.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Compression, Db, FamilyOptions, Options, SyncMode};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let options = FamilyOptions {
///     compression: Compression::Zstd,
///     sync: SyncMode::None,
///     comparator: "reverse_memcmp".to_owned(),
///     ..FamilyOptions::default()
/// };
/// let events = db.create_family("events", options)?;
/// db.put(&events, b"1", b"older")?;
/// db.put(&events, b"2", b"newer")?;
/// let mut iter = db.iter(&events, Default::default())?;
/// assert!(iter.seek_to_first()?);
/// assert_eq!(iter.key(), b"2");
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyOptions {
    /// Bytes of the family's memtables, indexes included: a memtable is sealed at a little less than half of it, and
    /// flushed while the next one takes the other half. 4096 to 16 GiB. Default: 64 MiB.
    pub write_buffer_bytes: usize,
    /// How many times larger each level is than the one above; 2 to 1000. Default: 10.
    pub level_size_ratio: usize,
    /// Levels that exist even when empty; 1 to 16. Default: 1.
    pub min_levels: usize,
    /// Accepted for compatibility; merges choose their levels by the shape of the tree. In levels. Default: 1.
    pub dividing_level_offset: usize,
    /// Values of this many bytes or more go to the value log; 0 keeps every value in the tables. Default: 512.
    pub value_threshold_bytes: usize,
    /// The share of the value log, 0 to 0.9, that is live at least: with less, values are copied out of files that are
    /// mostly dead, so that these can be removed. Work begins a little before that. Half a byte is copied for each byte
    /// that is written, about, at the default and with overwrites of random keys. When the database is idle, values that lie
    /// scattered over many files are put in the order of their keys as well, within the same room. 0 switches both off.
    /// Default: 0.5.
    pub value_live_ratio_min: f64,
    /// Compression of blocks and values. Values of 2 KiB to 4 MiB that go to the value log are compressed in memory and in the log
    /// too, with LZ4 whatever this is, unless it is none. Default: LZ4.
    pub compression: Compression,
    /// Keep a Bloom filter per table. Default: true.
    pub bloom_filter: bool,
    /// The filter's false positive rate, as a share of the look-ups of absent keys: between 0 and 1, both excluded. Default: 0.01.
    pub bloom_false_positive_rate: f64,
    /// Accepted for compatibility; every table has a block index. Default: true.
    pub block_index: bool,
    /// Accepted for compatibility; every block is indexed. In blocks, at least 1. Default: 1.
    pub index_sample_ratio: usize,
    /// Accepted for compatibility; whole keys are indexed. In bytes. Default: 16.
    pub block_index_prefix_bytes: usize,
    /// When commits that touch this family are made durable. Default: full.
    pub sync: SyncMode,
    /// The name of the key order: a [built-in one](crate::BUILT_IN_COMPARATORS) or one of [`Options::comparators`]; at most
    /// 63 bytes. Default: memcmp.
    pub comparator: String,
    /// Accepted for compatibility: small commits go to an ordered structure of fixed shape. In levels. Default: 12.
    pub skip_list_level_max: usize,
    /// Accepted for compatibility, as [`FamilyOptions::skip_list_level_max`]. Between 0 and 1. Default: 0.25.
    pub skip_list_probability: f64,
    /// The isolation level that stats report for the family; a transaction's own level decides. Default: read committed.
    pub isolation: IsolationLevel,
    /// Bytes that writes leave free on the device: with less, those that touch the family are refused as disk full, and go
    /// on once there is room again. The room is looked at again and again, not before each write. Default: 100 MiB.
    pub disk_free_bytes_min: u64,
    /// Sorted runs on level 1 that start a merge; four times as many while nobody reads the family. At least 1. Default: 4.
    pub l1_file_count_trigger: usize,
    /// Sealed memtables at which writers wait. At least 1. Default: 10.
    pub l0_queue_stall_threshold: usize,
    /// Share of a table's entries, 0 to 1, that are tombstones from which on it is merged down; 0 switches this off.
    /// Default: 0.
    pub tombstone_density_trigger: f64,
    /// Tables with fewer entries are not judged by their tombstones. Default: 1024.
    pub tombstone_density_entries_min: u64,
    /// How old tombstones may get, in whole seconds; 0 switches this off. Older ones are merged to the bottom, where they go
    /// together with what they delete, as soon as no snapshot needs them: so it bounds the time that deleted data stays in
    /// the files. Ages count from the flush or from a few seconds after the delete, and survive reopening. A wave of merges
    /// rewrites every table that holds an old tombstone, at most the whole family once in this time; what few tombstones
    /// cost in room and speed is less, and many are merged away by their share. Default: 0.
    pub tombstone_age_max: Duration,
    /// Accepted for compatibility. Default: false.
    pub use_btree: bool,
    /// Accepted for compatibility (object store). In bytes. Default: 0.
    pub object_target_file_bytes: usize,
    /// Accepted for compatibility (object store). Default: false.
    pub object_lazy_compaction: bool,
    /// Accepted for compatibility (object store). Default: true.
    pub object_prefetch_compaction: bool,
}

impl Default for FamilyOptions {
    fn default() -> Self {
        Self {
            write_buffer_bytes: 64 << 20,
            level_size_ratio: 10,
            min_levels: 1,
            dividing_level_offset: 1,
            value_threshold_bytes: 512,
            value_live_ratio_min: 0.5,
            compression: Compression::Lz4,
            bloom_filter: true,
            bloom_false_positive_rate: 0.01,
            block_index: true,
            index_sample_ratio: 1,
            block_index_prefix_bytes: 16,
            sync: SyncMode::Full,
            comparator: "memcmp".to_owned(),
            skip_list_level_max: 12,
            skip_list_probability: 0.25,
            isolation: IsolationLevel::ReadCommitted,
            disk_free_bytes_min: 100 << 20,
            l1_file_count_trigger: 4,
            l0_queue_stall_threshold: 10,
            tombstone_density_trigger: 0.0,
            tombstone_density_entries_min: 1024,
            tombstone_age_max: Duration::ZERO,
            use_btree: false,
            object_target_file_bytes: 0,
            object_lazy_compaction: false,
            object_prefetch_compaction: true,
        }
    }
}

/// Settings of one transaction.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, ErrorKind, FamilyOptions, IsolationLevel, Options, TransactionOptions};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let stock = db.open_family("stock", FamilyOptions::default())?;
/// let options =
///     TransactionOptions { isolation: IsolationLevel::Snapshot, ..TransactionOptions::default() };
/// let mut slow = db.begin_with(options)?;
/// slow.put(&stock, b"apples", b"4")?;
/// db.put(&stock, b"apples", b"5")?; // commits first
/// assert_eq!(slow.commit().expect_err("first committer wins").kind(), ErrorKind::Conflict);
/// slow.reset()?;
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// What it sees of others. Default: read committed.
    pub isolation: IsolationLevel,
    /// The durability of its commit; the strictest mode among the families it touches when `None`. Default: `None`.
    pub sync: Option<SyncMode>,
    /// How long it may take, from its beginning or reset on: afterwards every call on it answers `Aborted`, except
    /// rollback and reset. No limit when `None`. Default: `None`.
    pub timeout: Option<Duration>,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self {
            isolation: IsolationLevel::ReadCommitted,
            sync: None,
            timeout: None,
        }
    }
}

/// What an iterator may visit. The default visits the whole family.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, FamilyOptions, IterOptions, Options};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let family = db.open_family("f", FamilyOptions::default())?;
/// for key in ["a1", "b1", "b2", "c1"] {
///     db.put(&family, key.as_bytes(), b"")?;
/// }
/// let options = IterOptions { prefix: Some(b"b".to_vec()), ..IterOptions::default() };
/// let keys: Vec<_> =
///     db.iter(&family, options)?.entries().map(|entry| entry.map(|(key, _)| key)).collect::<Result<_, _>>()?;
/// assert_eq!(keys, [b"b1", b"b2"]);
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct IterOptions {
    /// The first key that may be visited, in the family's order; from the first key on when `None`.
    pub lower: Option<Vec<u8>>,
    /// The first key beyond the end: it is not visited. To the last key when `None`.
    pub upper: Option<Vec<u8>>,
    /// Visit only keys that begin with these bytes. Only for the order `memcmp`.
    pub prefix: Option<Vec<u8>>,
}
