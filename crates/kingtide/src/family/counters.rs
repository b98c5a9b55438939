//! What was done to a family in this opening, as counts. All are statistics: relaxed, and read one after the other.

use std::ops::AddAssign;

use kingtide_env::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use super::DroppedVersions;

/// What one commit wrote to one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommitSizes {
    /// Operations.
    pub(crate) operations: u64,
    /// Operations that are tombstones.
    pub(crate) tombstones: u64,
    /// Bytes of their keys.
    pub(crate) key_bytes: u64,
    /// Bytes of their values.
    pub(crate) value_bytes: u64,
    /// Bytes that they take in the log.
    pub(crate) log_bytes: u64,
}

/// The counts at one moment, of one family or added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FamilyTotals {
    /// What was committed.
    pub(crate) committed: CommitSizes,
    /// Memtables written to tables.
    pub(crate) flushes: u64,
    /// Bytes of tables and value files that flushes wrote.
    pub(crate) flush_bytes_written: u64,
    /// Merges, moves not counted.
    pub(crate) merges: u64,
    /// Bytes of the tables that merges read.
    pub(crate) merge_bytes_read: u64,
    /// Bytes of tables and value files that merges wrote.
    pub(crate) merge_bytes_written: u64,
    /// Versions that flushes and merges dropped, by reason.
    pub(crate) dropped: DroppedVersions,
    /// Bytes of records that were copied out of value files that were emptied.
    pub(crate) value_bytes_copied: u64,
}

impl AddAssign for FamilyTotals {
    fn add_assign(&mut self, other: Self) {
        self.committed.operations += other.committed.operations;
        self.committed.tombstones += other.committed.tombstones;
        self.committed.key_bytes += other.committed.key_bytes;
        self.committed.value_bytes += other.committed.value_bytes;
        self.committed.log_bytes += other.committed.log_bytes;
        self.flushes += other.flushes;
        self.flush_bytes_written += other.flush_bytes_written;
        self.merges += other.merges;
        self.merge_bytes_read += other.merge_bytes_read;
        self.merge_bytes_written += other.merge_bytes_written;
        self.dropped.add(&other.dropped);
        self.value_bytes_copied += other.value_bytes_copied;
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct FamilyCounters {
    operations: AtomicU64,
    tombstones: AtomicU64,
    key_bytes: AtomicU64,
    value_bytes: AtomicU64,
    log_bytes: AtomicU64,
    flushes: AtomicU64,
    flush_bytes_written: AtomicU64,
    merges: AtomicU64,
    merge_bytes_read: AtomicU64,
    merge_bytes_written: AtomicU64,
    dropped: Mutex<DroppedVersions>,
    value_bytes_copied: AtomicU64,
}

impl FamilyCounters {
    /// Notes a commit. For the holder of the commit lock, who is alone: plain loads and
    /// stores, which cost less than additions that others may interrupt.
    pub(crate) fn note_commit(&self, sizes: CommitSizes) {
        let add = |counter: &AtomicU64, amount: u64| {
            let before = counter.load(Ordering::Relaxed);
            counter.store(before.wrapping_add(amount), Ordering::Relaxed);
        };
        add(&self.operations, sizes.operations);
        add(&self.tombstones, sizes.tombstones);
        add(&self.key_bytes, sizes.key_bytes);
        add(&self.value_bytes, sizes.value_bytes);
        add(&self.log_bytes, sizes.log_bytes);
    }

    /// Notes a flush that was installed.
    pub(crate) fn note_flush(&self, bytes_written: u64) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flush_bytes_written
            .fetch_add(bytes_written, Ordering::Relaxed);
    }

    /// Notes a merge that was installed.
    pub(crate) fn note_merge(&self, bytes_read: u64, bytes_written: u64) {
        self.merges.fetch_add(1, Ordering::Relaxed);
        self.merge_bytes_read
            .fetch_add(bytes_read, Ordering::Relaxed);
        self.merge_bytes_written
            .fetch_add(bytes_written, Ordering::Relaxed);
    }

    /// Notes what an installed flush or merge left out.
    pub(crate) fn note_dropped(&self, dropped: &DroppedVersions) {
        self.dropped.lock().add(dropped);
    }

    /// Notes a value that was copied out of a value file that is being emptied.
    pub(crate) fn note_copied_value(&self, bytes: u64) {
        self.value_bytes_copied.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The counts as they are now.
    pub(crate) fn totals(&self) -> FamilyTotals {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FamilyTotals {
            committed: CommitSizes {
                operations: get(&self.operations),
                tombstones: get(&self.tombstones),
                key_bytes: get(&self.key_bytes),
                value_bytes: get(&self.value_bytes),
                log_bytes: get(&self.log_bytes),
            },
            flushes: get(&self.flushes),
            flush_bytes_written: get(&self.flush_bytes_written),
            merges: get(&self.merges),
            merge_bytes_read: get(&self.merge_bytes_read),
            merge_bytes_written: get(&self.merge_bytes_written),
            dropped: *self.dropped.lock(),
            value_bytes_copied: get(&self.value_bytes_copied),
        }
    }
}
