//! SKELETON of the public API: signatures only. Replaced by the real modules.
#![allow(unused, missing_docs, clippy::todo, clippy::allow_attributes)]
use crate::{error::*, options::*};
pub use kingtide_base::SeqNo;
use std::{ops::Deref, path::Path};

/// Clone = another handle to the same open database. Send + Sync.
#[derive(Clone)]
pub struct Db;
/// Clone, Send + Sync. Valid until the family is dropped or db closed.
#[derive(Clone, Debug)]
pub struct ColumnFamily;
/// Send. Dropped without commit = rolled back.
pub struct Transaction;
/// Clone, Send + Sync. Pins versions until dropped.
pub struct Snapshot;
/// Owned (no lifetime), Send.
pub struct Iter;
/// Zero-copy pinned bytes; Deref<Target=[u8]>, AsRef<[u8]>, PartialEq<[u8]>, Debug.
#[derive(Clone)]
pub struct Value;
impl Deref for Value {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        todo!()
    }
}

impl Db {
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        todo!()
    }
    /// Waits for background work it must finish, syncs the log, flushes; every other handle answers Closed afterwards.
    pub fn close(&self) -> Result<()> {
        todo!()
    }
    pub fn path(&self) -> &Path {
        todo!()
    }

    pub fn create_family(&self, name: &str, options: FamilyOptions) -> Result<ColumnFamily> {
        todo!()
    }
    /// NotFound when missing
    pub fn family(&self, name: &str) -> Result<ColumnFamily> {
        todo!()
    }
    /// The family `name`, created with `options` when there is none.
    pub fn open_family(&self, name: &str, options: FamilyOptions) -> Result<ColumnFamily> {
        todo!()
    }
    /// sorted names
    pub fn families(&self) -> Vec<String> {
        todo!()
    }
    pub fn drop_family(&self, name: &str) -> Result<()> {
        todo!()
    }
    pub fn rename_family(&self, from: &str, to: &str) -> Result<()> {
        todo!()
    }
    pub fn clone_family(&self, from: &str, to: &str) -> Result<ColumnFamily> {
        todo!()
    }

    pub fn put(&self, family: &ColumnFamily, key: &[u8], value: &[u8]) -> Result<()> {
        todo!()
    }
    /// expires_at: absolute unix seconds; <= 0 is never
    pub fn put_expiring(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        value: &[u8],
        expires_at: i64,
    ) -> Result<()> {
        todo!()
    }
    pub fn delete(&self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        todo!()
    }
    pub fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        todo!()
    }
    /// all at one snapshot
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        todo!()
    }
    pub fn contains(&self, family: &ColumnFamily, key: &[u8]) -> Result<bool> {
        todo!()
    }
    pub fn iter(&self, family: &ColumnFamily, options: IterOptions) -> Result<Iter> {
        todo!()
    }

    pub fn begin(&self) -> Result<Transaction> {
        todo!()
    }
    pub fn begin_with(&self, options: TransactionOptions) -> Result<Transaction> {
        todo!()
    }
    pub fn snapshot(&self) -> Result<Snapshot> {
        todo!()
    }

    /// Makes everything acknowledged so far durable.
    pub fn sync_wal(&self) -> Result<()> {
        todo!()
    }
    /// Seals the memtable and waits until it is in a table.
    pub fn flush(&self, family: &ColumnFamily) -> Result<()> {
        todo!()
    }
    /// Merges everything to the bottom level; blocks.
    pub fn compact(&self, family: &ColumnFamily) -> Result<()> {
        todo!()
    }
    /// Waits until no flush or merge is queued or running.
    pub fn wait_idle(&self) -> Result<()> {
        todo!()
    }
    pub fn stats(&self) -> Result<Stats> {
        todo!()
    }
    pub fn family_stats(&self, family: &ColumnFamily) -> Result<FamilyStats> {
        todo!()
    }
    /// Reads every byte of every table, value file and log and checks it; progress is called with (bytes done, bytes total).
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        todo!()
    }
}
impl ColumnFamily {
    pub fn name(&self) -> String {
        todo!()
    }
    pub fn options(&self) -> FamilyOptions {
        todo!()
    }
}
impl Transaction {
    pub fn put(&mut self, family: &ColumnFamily, key: &[u8], value: &[u8]) -> Result<()> {
        todo!()
    }
    pub fn put_expiring(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        value: &[u8],
        expires_at: i64,
    ) -> Result<()> {
        todo!()
    }
    pub fn delete(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        todo!()
    }
    pub fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        todo!()
    }
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        todo!()
    }
    pub fn contains(&self, family: &ColumnFamily, key: &[u8]) -> Result<bool> {
        todo!()
    }
    /// Sees the writes made so far in this transaction, over the transaction's view.
    pub fn iter(&self, family: &ColumnFamily, options: IterOptions) -> Result<Iter> {
        todo!()
    }
    /// SeqNo of the commit; SeqNo::ZERO when it wrote nothing.
    pub fn commit(&mut self) -> Result<SeqNo> {
        todo!()
    }
    pub fn rollback(&mut self) -> Result<()> {
        todo!()
    }
    /// After commit or rollback: begins again with the same settings, reusing its memory.
    pub fn reset(&mut self) -> Result<()> {
        todo!()
    }
    /// number of operations so far
    pub fn operation_count(&self) -> usize {
        todo!()
    }
}
impl Snapshot {
    pub fn sequence(&self) -> SeqNo {
        todo!()
    }
    pub fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        todo!()
    }
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        todo!()
    }
    pub fn contains(&self, family: &ColumnFamily, key: &[u8]) -> Result<bool> {
        todo!()
    }
    pub fn iter(&self, family: &ColumnFamily, options: IterOptions) -> Result<Iter> {
        todo!()
    }
}
/// Not positioned at birth. Every move answers whether it is positioned afterwards.
impl Iter {
    pub fn seek_to_first(&mut self) -> Result<bool> {
        todo!()
    }
    pub fn seek_to_last(&mut self) -> Result<bool> {
        todo!()
    }
    /// first key >= key
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        todo!()
    }
    /// last key <= key
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        todo!()
    }
    /// On an iterator that is not positioned: InvalidArgument error.
    pub fn next(&mut self) -> Result<bool> {
        todo!()
    }
    pub fn prev(&mut self) -> Result<bool> {
        todo!()
    }
    pub fn is_valid(&self) -> bool {
        todo!()
    }
    /// panics never; empty slice when not positioned
    pub fn key(&self) -> &[u8] {
        todo!()
    }
    /// may read the value log
    pub fn value(&mut self) -> Result<&[u8]> {
        todo!()
    }
    pub fn expires_at(&self) -> Option<i64> {
        todo!()
    }
}
/// All counters since open unless said.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub families: Vec<FamilyStats>,
    pub sequence: SeqNo,
    pub log_segments: usize,
    pub log_bytes: u64,
    pub log_bytes_written: u64,
    pub log_syncs: u64,
    pub commits: u64,
    pub cache_bytes: usize,
    pub cache_capacity_bytes: usize,
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub open_tables: usize,
    pub flushes: u64,
    pub merges: u64,
    pub table_bytes_written: u64,
    pub write_stalls: u64,
}
#[derive(Clone, Debug, Default)]
pub struct FamilyStats {
    pub name: String,
    pub memtable_bytes: usize,
    pub memtable_entries: u64,
    pub sealed_memtables: usize,
    pub levels: Vec<LevelStats>,
}
#[derive(Clone, Debug, Default)]
pub struct LevelStats {
    pub level: usize, // counts from 1
    pub files: usize,
    pub bytes: u64,
    pub entries: u64,
    pub tombstones: u64,
    pub vlog_bytes: u64,
}
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    pub files: usize,
    pub bytes: u64,
    pub entries: u64,
    /// One message for each damage found; empty = whole.
    pub damages: Vec<String>,
}
