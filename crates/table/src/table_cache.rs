//! Keeps a bounded number of tables open.

use std::sync::Arc;

use kingtide_base::{FileId, KeyOrder, StorageError, StorageResult};
use kingtide_collections::{Account, MemoryBudget};
use kingtide_env::{Directory, OpenMode};
use kingtide_format::TableMeta;

use crate::handles::{Handles, View};
use crate::names::{klog_name, klog_path};
use crate::table::Table;

/// Open tables take at most one part in so many of the memory budget, as long as fewer do.
const SHARE_DIVISOR: usize = 4;

/// The open tables of a database. Tables in use may exceed the limit; idle ones are closed by a clock.
#[derive(Debug)]
pub struct TableCache {
    directory: Arc<dyn Directory>,
    tables: Handles<Table>,
    budget: Arc<MemoryBudget>,
}

/// The open tables of one moment, for a read that looks at several: nothing shared is written for each of them. Those in it
/// stay open for as long as it lives, so it is for the length of one read.
#[derive(Debug)]
pub struct OpenTables(View<Table>);

impl OpenTables {
    /// The table that `meta` describes, if it is among them.
    #[inline]
    #[must_use]
    pub fn get(&self, meta: &TableMeta) -> Option<&Table> {
        self.0.get(meta.file)
    }
}

impl TableCache {
    /// Opens tables in `directory` (`klog`) and keeps up to `open_tables_max` of them open; at least one.
    #[must_use]
    pub fn new(directory: Arc<dyn Directory>, open_tables_max: usize) -> Self {
        Self::with_budget(directory, open_tables_max, MemoryBudget::unlimited())
    }

    /// As [`TableCache::new`]; what open tables keep in memory counts in `budget`, and so does what cursors over them read
    /// ahead.
    #[must_use]
    pub fn with_budget(
        directory: Arc<dyn Directory>,
        open_tables_max: usize,
        budget: Arc<MemoryBudget>,
    ) -> Self {
        Self {
            directory,
            tables: Handles::new(open_tables_max),
            budget,
        }
    }

    /// Closes idle tables until those that are open take at most `bytes` of memory, or all that are left are in use.
    pub fn shrink_to(&self, bytes: usize) {
        loop {
            let (count, held) = (self.open_count(), self.memory_bytes());
            if held <= bytes || count == 0 {
                return;
            }
            // As many as would be enough if all were of one size.
            let excess = (held - bytes).saturating_mul(count).div_ceil(held);
            self.tables.close_idle(count - excess.min(count));
            if self.open_count() >= count {
                return;
            }
        }
    }

    /// The open table that `meta` describes. When the system has no more files to give, idle tables are closed and
    /// opening is tried once more.
    ///
    /// # Errors
    /// As [`Table::open`]; a missing file is an I/O error.
    pub fn get(&self, meta: &TableMeta, order: &KeyOrder) -> StorageResult<Arc<Table>> {
        self.tables.get(meta.file, || self.open(meta, order))
    }

    /// What `work` makes of the open table that `meta` describes. For point reads: nothing shared is written.
    ///
    /// # Errors
    /// As [`TableCache::get`], and what `work` answers.
    pub fn with<R>(
        &self,
        meta: &TableMeta,
        order: &KeyOrder,
        work: impl FnOnce(&Table) -> StorageResult<R>,
    ) -> StorageResult<R> {
        self.tables
            .with(meta.file, || self.open(meta, order), work)?
    }

    /// The tables that are open now.
    #[must_use]
    pub fn open_tables(&self) -> OpenTables {
        OpenTables(self.tables.view())
    }

    fn open(&self, meta: &TableMeta, order: &KeyOrder) -> StorageResult<Table> {
        let name = klog_path(meta.file);
        let file = self
            .directory
            .open(&klog_name(meta.file), OpenMode::Read)
            .map_err(|error| StorageError::io(&*name, "open", error))?;
        // Filters and fences take at most this share; the table that is asked for is opened in any case.
        let bytes_max = self.budget.limit_bytes() / SHARE_DIVISOR;
        if self.budget.of(Account::Tables) > bytes_max {
            self.shrink_to(bytes_max);
        }
        let mut table = Table::open(file, name, meta, order.clone())?;
        let bytes = table.memory_bytes();
        table.charge = Some(self.budget.charge(Account::Tables, bytes));
        Ok(table)
    }

    /// Closes the table as soon as nobody uses it; for files about to be removed.
    pub fn forget(&self, file: FileId) {
        self.tables.forget(file);
    }

    /// Closes idle tables, to leave files to others: half of what is open.
    pub fn close_some(&self) {
        self.tables.close_some();
    }

    /// Tables that stay open while nobody uses them, at most.
    #[must_use]
    pub fn open_max(&self) -> usize {
        self.tables.open_max()
    }

    /// Bytes of memory that the filters and fences of open tables take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.tables.sum(Table::memory_bytes)
    }

    /// Tables open now.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.tables.open_count()
    }
}
