//! Keeps a bounded number of tables open.

use std::sync::Arc;

use kingtide_base::{FileId, KeyOrder, StorageError, StorageResult};
use kingtide_env::{Directory, OpenMode};
use kingtide_format::TableMeta;

use crate::handles::{Handles, View};
use crate::names::{klog_name, klog_path};
use crate::table::Table;

/// The open tables of a database. Tables in use may exceed the limit; idle ones are closed by a clock.
#[derive(Debug)]
pub struct TableCache {
    directory: Arc<dyn Directory>,
    tables: Handles<Table>,
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
        Self {
            directory,
            tables: Handles::new(open_tables_max),
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
        Table::open(file, name, meta, order.clone())
    }

    /// Closes the table as soon as nobody uses it; for files about to be removed.
    pub fn forget(&self, file: FileId) {
        self.tables.forget(file);
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
