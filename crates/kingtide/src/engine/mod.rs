//! The shared state of an open database: what every path (write, read, flush, merge, recovery) works on. Holds parts and
//! the rules that bind them together; the paths themselves are modules of their own.

mod doubt;
mod extent;
mod install;
mod kept;
pub(crate) mod place;
mod shrink;
mod spill;
mod unpin;
mod watch;

use std::sync::Arc;

use kingtide_base::{
    ComparatorRef, Lsn, SegmentId, SeqNo, limits,
    planted::{self, Bug},
};
use kingtide_collections::Account;
use kingtide_env::{
    Directory, Env, FileLock,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use crate::{
    error::{Error, ErrorKind, Result},
    events::Events,
    family::{Family, FamilyTotals, Opening, Registry},
    files::Files,
    manifest::{Manifest, ManifestState},
    options::Options,
    output::{crew::Crew, rate::RateLimit},
    read::tracker::SharedReads,
    snapshot::{SnapshotList, SnapshotRegistry},
    write::{CommitLog, OrderState, Pipeline, WriteSet},
};

use self::kept::Kept;
pub(crate) use watch::Watch;

/// Kept buffers of less than this are not counted: that would cost a small transaction more than the memory is worth.
const COUNTED_BYTES_MIN: usize = 32 << 10;
/// Microseconds in a second.
const MICROS_PER_SECOND: u64 = 1_000_000;

/// The manifest of an opening. Guarded by one lock: installs follow one another.
pub(crate) enum ManifestSlot {
    /// Open for writing; knows the durable state itself.
    Writer(Box<Manifest>),
    /// What a read-only opening found.
    ReadOnly(Box<ManifestState>),
}

/// See the module.
pub(crate) struct Engine {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) options: Options,
    pub(crate) wal: Arc<dyn Directory>,
    pub(crate) files: Arc<Files>,
    pub(crate) families: Registry,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) snapshots: Arc<SnapshotRegistry>,
    /// The snapshots that users hold.
    pub(crate) snapshot_list: Arc<SnapshotList>,
    pub(crate) manifest: Mutex<ManifestSlot>,
    /// Tables that were written from the log by this opening.
    pub(crate) recovered_tables: AtomicU64,
    /// Orders of keys besides the built-in ones.
    pub(crate) comparators: Mutex<Vec<ComparatorRef>>,
    /// Held by the one registration of a comparator that runs.
    pub(crate) registering: Mutex<()>,
    pub(crate) events: Arc<Events>,
    /// What families counted that were dropped since.
    pub(crate) dropped_totals: Mutex<FamilyTotals>,
    /// Names this opening, so that handles of another one are refused.
    pub(crate) opening: Opening,
    pub(crate) is_closed: AtomicBool,
    /// The largest clock that was ever answered, in Unix seconds: the clock never goes back within an opening.
    clock: AtomicU64,
    lock: Mutex<Option<Box<dyn FileLock>>>,
    /// Write sets of ended transactions, kept for their buffers.
    write_sets: Kept<WriteSet>,
    /// The same for what transactions read.
    read_sets: Kept<Arc<SharedReads>>,
    /// The threads that flushes and merges may be helped by; none before they are started.
    pub(crate) crew: std::sync::OnceLock<Arc<dyn Crew>>,
    /// How fast merges may write.
    pub(crate) merge_rate: RateLimit,
    /// What could not be installed.
    doubts: doubt::Doubts,
    /// Bytes that open transactions hold, but for the last few thousand of each.
    transaction_bytes: AtomicUsize,
}

/// How an engine is made.
pub(crate) struct EngineParts {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) options: Options,
    pub(crate) wal: Arc<dyn Directory>,
    pub(crate) files: Arc<Files>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) manifest: ManifestSlot,
    pub(crate) events: Arc<Events>,
    pub(crate) opening: Opening,
    pub(crate) lock: Option<Box<dyn FileLock>>,
}

impl Engine {
    pub(crate) fn new(parts: EngineParts) -> Self {
        Self {
            env: parts.env,
            comparators: Mutex::new(parts.options.comparators.clone()),
            crew: std::sync::OnceLock::new(),
            doubts: doubt::Doubts::default(),
            merge_rate: RateLimit::new(parts.options.compaction_rate_bytes_max),
            registering: Mutex::new(()),
            options: parts.options,
            wal: parts.wal,
            files: parts.files,
            families: Registry::default(),
            pipeline: parts.pipeline,
            snapshots: SnapshotRegistry::new(),
            snapshot_list: Arc::default(),
            manifest: Mutex::new(parts.manifest),
            recovered_tables: AtomicU64::new(0),
            events: parts.events,
            dropped_totals: Mutex::default(),
            opening: parts.opening,
            is_closed: AtomicBool::new(false),
            clock: AtomicU64::new(0),
            lock: Mutex::new(parts.lock),
            write_sets: Kept::default(),
            read_sets: Kept::default(),
            transaction_bytes: AtomicUsize::new(0),
        }
    }

    /// The newest commit that readers may see.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        self.pipeline.order.visible()
    }

    /// Unix seconds; never goes back.
    pub(crate) fn now(&self) -> i64 {
        let seconds = self.env.unix_micros() / MICROS_PER_SECOND;
        // Relaxed: only that it never goes back matters, and `fetch_max` sees to that.
        let known = self.clock.load(Ordering::Relaxed);
        let largest = if seconds <= known {
            known
        } else {
            self.clock
                .fetch_max(seconds, Ordering::Relaxed)
                .max(seconds)
        };
        i64::try_from(largest).unwrap_or(i64::MAX)
    }

    /// The same, as manifests record it.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.now().unsigned_abs()
    }

    /// Refuses calls on a closed database.
    ///
    /// # Errors
    /// `Closed`.
    pub(crate) fn check_open(&self) -> Result<()> {
        // Acquire: pairs with the store in `close`.
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is closed"));
        }
        Ok(())
    }

    /// Refuses writing on a closed or read-only database.
    ///
    /// # Errors
    /// `Closed`, `ReadOnly`.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.options.read_only {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the database is open for reading only: open it without read_only to write",
            ));
        }
        Ok(())
    }

    /// Refuses a handle of another database, or of a dropped family.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`.
    #[inline]
    pub(crate) fn check_family(&self, family: &Family) -> Result<()> {
        if family.opening != self.opening {
            return Err(Error::invalid(
                "the column family handle belongs to another open database",
            ));
        }
        if family.is_deferred() {
            return Err(Error::new(
                ErrorKind::ComparatorMissing,
                format!(
                    "column family {:?} waits for its comparator {:?}: register it first",
                    family.name(),
                    family.order.name()
                ),
            ));
        }
        if family.is_dropped() {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("column family {:?} was dropped", family.name()),
            ));
        }
        Ok(())
    }

    /// Where replay must begin for everything that is not in tables, `without` one memtable that just went there, and
    /// for prepared transactions; and the newest commit. Consistent, because it is taken under the commit lock.
    pub(crate) fn log_needed(&self, without: Option<&Arc<crate::memtable::Memory>>) -> LogNeeded {
        let families = self.families.all();
        let mut state = self.pipeline.order.lock();
        let mut needed = needed_by_memtables(&families, &state, without);
        let durable = self.pipeline.order.durable();
        if let Some(place) = state.log.locks.oldest(durable)
            && !planted::is(Bug::PreparedLost)
            && place.start < needed.position
        {
            needed.position = place.start;
            needed.segment = place.segment;
        }
        needed
    }

    /// As [`Engine::log_needed`], as if nothing were prepared.
    fn log_needed_by_memtables(&self, without: Option<&Arc<crate::memtable::Memory>>) -> LogNeeded {
        let families = self.families.all();
        needed_by_memtables(&families, &self.pipeline.order.lock(), without)
    }

    /// An empty write set, with the buffers of an earlier transaction if there was one.
    pub(crate) fn take_write_set(&self) -> WriteSet {
        let writes = self.write_sets.take().unwrap_or_default();
        let bytes = counted_bytes(&writes);
        self.files.budget.subtract(Account::Kept, bytes);
        writes
    }

    /// Keeps the buffers of a write set for a later transaction.
    pub(crate) fn recycle(&self, mut writes: WriteSet) {
        writes.clear();
        let bytes = counted_bytes(&writes);
        if bytes > self.pipeline.memory.plan.recycled_bytes_max {
            return;
        }
        // Before somebody can take it out again.
        self.files.budget.add(Account::Kept, bytes);
        if self.write_sets.keep(writes).is_err() {
            self.files.budget.subtract(Account::Kept, bytes);
        }
    }

    /// An empty set of reads, with the buffers of an earlier one if there was one.
    pub(crate) fn take_reads(&self) -> Arc<SharedReads> {
        self.read_sets.take().unwrap_or_default()
    }

    /// Keeps the buffers of a set of reads for a later transaction, unless an iterator still holds it.
    pub(crate) fn recycle_reads(&self, reads: Arc<SharedReads>) {
        reads.end();
        if Arc::strong_count(&reads) == 1 {
            // Where enough are kept, it is dropped.
            let _ = self.read_sets.keep(reads);
        }
    }

    /// The most bytes that one transaction may hold, of writes and of what it remembers of reads.
    pub(crate) fn transaction_bytes_max(&self) -> usize {
        let allowed =
            limits::TRANSACTION_BYTES_MAX.min(self.pipeline.memory.plan.transaction_bytes_max);
        match self.options.transaction_bytes_max {
            0 => allowed,
            bytes => bytes.min(allowed),
        }
    }

    /// Sees to it that a transaction may grow by `bytes`.
    ///
    /// # Errors
    /// `MemoryLimit` when all transactions together would hold more than their share of the budget; as
    /// [`Pipeline::make_memory_room`].
    pub(crate) fn admit_transaction(&self, bytes: usize) -> Result<()> {
        let memory = &self.pipeline.memory;
        let held = self.files.budget.of(Account::Transactions);
        let most = memory.plan.transactions_bytes_max;
        if held.saturating_add(bytes) > most {
            return Err(Error::new(
                ErrorKind::MemoryLimit,
                format!(
                    "transactions hold {held} bytes, and may hold {most} together: commit or roll back some, work in smaller pieces, or raise memory_bytes_max"
                ),
            ));
        }
        self.pipeline.make_memory_room(bytes, 0)
    }

    /// Bytes that all open transactions hold, of writes and of what they remember of reads; each may hold 4 KiB more than
    /// is counted.
    pub(crate) fn transaction_bytes(&self) -> usize {
        // Relaxed: a statistic.
        self.transaction_bytes.load(Ordering::Relaxed)
    }

    /// A transaction that was counted with `before` bytes holds `now`.
    pub(crate) fn count_transaction_bytes(&self, before: usize, now: usize) {
        // Relaxed: a statistic. The sum wraps where it falls.
        self.transaction_bytes
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Gives back the memory of empty memtables: an idle database holds what it caches, and no more.
    pub(crate) fn release_memory(&self) {
        for writes in self.write_sets.take_all() {
            self.files
                .budget
                .subtract(Account::Kept, counted_bytes(&writes));
        }
        drop(self.read_sets.take_all());
        self.pipeline.memtables.release();
        for family in self.families.all() {
            let active = Arc::clone(&family.load().active);
            if active.takes_room && active.table.is_empty() {
                // Puts untouched memory in its place.
                self.pipeline.try_rotate(&family, &active);
            }
        }
        self.pipeline.memtables.release();
    }

    /// Gives the directory back to other openings.
    pub(crate) fn release_lock(&self) {
        self.lock.lock().take();
    }
}

/// What kept buffers count with; small ones do not.
fn counted_bytes(writes: &WriteSet) -> usize {
    let bytes = writes.memory_bytes();
    if bytes < COUNTED_BYTES_MIN { 0 } else { bytes }
}

impl Drop for Engine {
    /// An opening that failed half way has told somebody of its beginning already.
    fn drop(&mut self) {
        self.events.stop();
    }
}

/// What of the log is still needed. See [`Engine::log_needed`].
pub(crate) struct LogNeeded {
    pub(crate) segment: SegmentId,
    pub(crate) position: Lsn,
    pub(crate) sequence: SeqNo,
    /// The family whose memtable holds the log back the furthest.
    pub(crate) holder: Option<Arc<Family>>,
}

fn needed_by_memtables(
    families: &[Arc<Family>],
    state: &OrderState<CommitLog>,
    without: Option<&Arc<crate::memtable::Memory>>,
) -> LogNeeded {
    let mut needed = LogNeeded {
        segment: state.log.tail.segment(),
        position: state.log.tail.position(),
        sequence: state.last_sequence(),
        holder: None,
    };
    for family in families {
        if family.is_dropped() {
            continue;
        }
        for memory in family.load().memories() {
            if without.is_some_and(|without| Arc::ptr_eq(without, memory)) {
                continue;
            }
            if let Some(span) = memory.span()
                && !planted::is(Bug::LogStartTooFar)
                && span.start < needed.position
            {
                needed.position = span.start;
                needed.segment = span.segment;
                needed.holder = Some(Arc::clone(family));
            }
        }
    }
    needed
}
