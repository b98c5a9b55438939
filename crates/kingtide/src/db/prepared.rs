//! The second phase of two-phase commit, and what waits for it. The first phase is in `txn/prepare`.

use std::time::Duration;

use kingtide_base::SeqNo;

use super::Db;
use crate::{
    error::Result,
    options::{IsolationLevel, SyncMode},
    txn::{check_xid, durability_of, isolation_of},
    write::Prepared,
};

/// A transaction that is prepared and waits for its outcome. See [`Db::prepared`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedTransaction {
    /// Its name.
    pub xid: Vec<u8>,
    /// Operations that its commit will apply.
    pub operation_count: usize,
    /// Bytes that it takes in the log.
    pub bytes: u64,
    /// When it was prepared, in Unix seconds.
    pub prepared_at: i64,
    /// How long ago that was; zero when the clock has gone back since.
    pub age: Duration,
    /// Its isolation level.
    pub isolation: IsolationLevel,
    /// The names of the families in which it has locked something, sorted.
    pub families: Vec<String>,
}

impl PreparedTransaction {
    fn new(prepared: &Prepared, now_micros: u64) -> Self {
        let mut families: Vec<String> = prepared
            .locked_families()
            .map(|family| family.name())
            .collect();
        families.sort();
        Self {
            xid: prepared.xid.to_vec(),
            operation_count: prepared.operation_count,
            bytes: prepared.record_bytes,
            prepared_at: i64::try_from(prepared.prepared_at / 1_000_000).unwrap_or(i64::MAX),
            age: Duration::from_micros(now_micros.saturating_sub(prepared.prepared_at)),
            isolation: isolation_of(prepared.isolation),
            families,
        }
    }
}

impl Db {
    /// The transactions that are prepared and wait for their outcome, sorted by xid: also those that earlier openings
    /// prepared. A read-only opening lists what it found.
    ///
    /// # Errors
    /// `Closed`.
    pub fn prepared(&self) -> Result<Vec<PreparedTransaction>> {
        let engine = self.engine();
        engine.check_open()?;
        let now = engine.env.unix_micros();
        let list = engine.pipeline.prepared.list();
        Ok(list
            .iter()
            .map(|prepared| PreparedTransaction::new(prepared, now))
            .collect())
    }

    /// Commits the transaction that was prepared as `xid`: everything in it becomes visible in one step, and its locks
    /// are lifted. Answers the commit's place in the commit order, or [`SeqNo::ZERO`] when nothing was written. It is
    /// durable as the strictest sync mode among its families asks.
    ///
    /// An xid is used once. [`Transaction::prepare`](crate::Transaction::prepare) refuses those that are prepared, and
    /// those whose outcome was written in this opening or, by the openings before, into a part of the log that was still
    /// there when this one began. For that, 16 bytes per outcome are kept until the database is closed.
    ///
    /// # Errors
    /// It stays prepared: `NotFound` when no transaction waits under this name, `Busy` (another call is ending it, or
    /// flushing is behind: try again), `DiskFull`, `InvalidArgument` and `TooLarge` for the xid, `ReadOnly`,
    /// `ReopenRequired`, `Closed`. `OutcomeUnknown`: the log failed; after the next open it is committed, or prepared.
    pub fn commit_prepared(&self, xid: &[u8]) -> Result<SeqNo> {
        self.end_with_commit(xid, None)
    }

    /// As [`Db::commit_prepared`], durable as `sync` asks.
    ///
    /// # Errors
    /// As [`Db::commit_prepared`].
    pub fn commit_prepared_with(&self, xid: &[u8], sync: SyncMode) -> Result<SeqNo> {
        self.end_with_commit(xid, Some(sync))
    }

    fn end_with_commit(&self, xid: &[u8], sync: Option<SyncMode>) -> Result<SeqNo> {
        let engine = self.engine();
        engine.check_writable()?;
        check_xid(xid)?;
        let mut writes = engine.take_write_set();
        let outcome = engine
            .pipeline
            .commit_prepared(xid, &mut writes, &|families| durability_of(sync, families));
        engine.recycle(writes);
        outcome
    }

    /// Rolls the transaction that was prepared as `xid` back: nothing of it is applied, and its locks are lifted. It is
    /// durable as the strictest sync mode among its families asks: when a power cut takes it back, the transaction is
    /// prepared again.
    ///
    /// # Errors
    /// As [`Db::commit_prepared`].
    pub fn rollback_prepared(&self, xid: &[u8]) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        check_xid(xid)?;
        engine
            .pipeline
            .rollback_prepared(xid, &|families| durability_of(None, families))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
