//! Bulk loads: entries in ascending order go straight into tables, without the log and without a memtable, and appear in
//! the database as one commit.
//!
//! 1. While entries come, tables and value files are written under the next free ids. No manifest names them, so after
//!    a crash the next opening removes them.
//! 2. At the end they are synced, and [`install`] gives the load its place in the order of commits: one sequence number
//!    for all of it, newer than every commit before.
//!
//! The number is known only at the end, so the entries are written with one from the beginning, and the manifest
//! records how much is to be added to those of each table (`TableMeta::sequence_base`). The number that is written is
//! above every commit before the beginning: what a repair without a manifest goes by.
//!
//! It does not call commit hooks, and it is not a transaction: nothing of it can be read before it is installed.

mod install;

use std::{cmp::Ordering, sync::Arc};

use kingtide_base::{EntryKind, EntryRef, SeqNo, ValueRef};

use crate::{
    engine::Engine,
    error::{Error, ErrorKind, Result},
    family::Family,
    output::{Output, TableWriter},
};

/// The size at which a table is closed, in bytes.
const TABLE_BYTES: u64 = 32 << 20;
/// Bytes of keys and values between two looks at the room on the device.
const BYTES_PER_LOOK: u64 = 16 << 20;

/// What a bulk load did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkLoadReport {
    /// Entries loaded.
    pub entries: u64,
    /// Tables that hold them.
    pub tables: usize,
    /// Bytes of tables and value files written.
    pub bytes: u64,
    /// The load's place in the order of commits; zero when nothing was loaded.
    pub sequence: SeqNo,
}

/// A load that is under way.
pub(crate) struct Load<'a> {
    engine: &'a Engine,
    family: &'a Arc<Family>,
    /// `None` once it has failed.
    writer: Option<TableWriter<'a>>,
    /// The number that its entries are written with.
    written_as: SeqNo,
    last_key: Vec<u8>,
    entries: u64,
    /// Bytes of keys and values since the last look at the device.
    unlooked_bytes: u64,
}

impl<'a> Load<'a> {
    /// Begins a load of `family`.
    ///
    /// # Errors
    /// `ReadOnly`, `Closed`, `NotFound`, `ComparatorMissing`.
    pub(crate) fn begin(engine: &'a Engine, family: &'a Arc<Family>) -> Result<Self> {
        engine.check_writable()?;
        engine.check_family(family)?;
        let written_as = engine.pipeline.order.lock().next_sequence();
        Ok(Self {
            engine,
            family,
            writer: Some(TableWriter::new(&engine.files, family, TABLE_BYTES)),
            written_as,
            last_key: Vec::new(),
            entries: 0,
            unlooked_bytes: 0,
        })
    }

    /// Adds an entry, whose key and value are within the limits.
    ///
    /// # Errors
    /// `InvalidArgument` when the key does not come behind the last one: nothing was added, and others may follow.
    /// What checking the database and writing answer: the load has failed then.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8], expires_at: i64) -> Result<()> {
        self.engine.check_writable()?;
        self.engine.check_family(self.family)?;
        if self.entries > 0 {
            self.check_order(key)?;
        }
        self.unlooked_bytes += (key.len() + value.len()) as u64;
        if self.unlooked_bytes >= BYTES_PER_LOOK {
            self.unlooked_bytes = 0;
            self.engine.pipeline.disk.look();
        }
        let free_bytes_min = self.family.disk_free_bytes_min();
        self.engine.pipeline.disk.check_bytes(free_bytes_min)?;
        let writer = self.writer.as_mut().ok_or_else(failed_before)?;
        let entry = EntryRef {
            key,
            sequence: self.written_as,
            kind: EntryKind::Put,
            expires_at: expires_at.max(0),
            value: ValueRef::Inline(value),
        };
        if let Err(error) = writer.push(entry) {
            self.abandon();
            return Err(error.into());
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.entries += 1;
        Ok(())
    }

    fn check_order(&self, key: &[u8]) -> Result<()> {
        let problem = match self.family.order.compare(&self.last_key, key) {
            Ordering::Less => return Ok(()),
            Ordering::Equal => "is the same as",
            Ordering::Greater => "comes before",
        };
        Err(Error::invalid(format!(
            "the keys of a bulk load must ascend: \"{}\" {problem} \"{}\", which was loaded already",
            key.escape_ascii(),
            self.last_key.escape_ascii()
        )))
    }

    /// Makes the load part of the database, all or nothing.
    ///
    /// # Errors
    /// What [`Load::add`] answered, syncing, flushing, the log and the manifest. Nothing was loaded then; after
    /// `OutcomeUnknown` the next open finds out.
    pub(crate) fn finish(mut self) -> Result<BulkLoadReport> {
        let writer = self.writer.take().ok_or_else(failed_before)?;
        let mut output = writer.complete()?;
        let mut report = BulkLoadReport {
            entries: self.entries,
            tables: output.tables.len(),
            bytes: output.bytes(),
            sequence: SeqNo::ZERO,
        };
        if !output.tables.is_empty() {
            report.sequence = self.install(&mut output)?;
        }
        Ok(report)
    }

    fn install(&self, output: &mut Output) -> Result<SeqNo> {
        install::install(self.engine, self.family, output, self.written_as)
    }

    /// Gives up and removes what was written.
    fn abandon(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.abandon();
        }
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.abandon();
    }
}

fn failed_before() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the bulk load has failed before: begin another one",
    )
}
