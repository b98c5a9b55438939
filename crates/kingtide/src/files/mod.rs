//! The table and value files of a database: where they lie, which ids are free, the caches through which they are read,
//! and when one may be removed.
//!
//! A file is removed only when it is proven dead: the durable manifest no longer names it, and no version that a reader
//! may still hold names it. The second part is counted by the `Arc` of its metadata, which all versions share.

mod live;

use std::sync::{Arc, OnceLock};

use kingtide_base::{FileId, KeyOrder, StorageError, StorageResult, ValuePointer};
use kingtide_collections::BlockCache;
use kingtide_env::{
    Directory, File, OpenMode,
    sync::atomic::{AtomicU64, Ordering},
};
use kingtide_table::{Block, TableCache, ValueFiles, ValueReadAhead, klog_name, vlog_name};

pub(crate) use live::LiveFiles;

use crate::{
    events::{Event, Events},
    read::iter::owned::ValueSource,
};

/// Value files kept open.
const VALUE_FILES_OPEN_MAX: usize = 64;
/// Files that the process may have open besides tables.
const FILES_RESERVED: usize = VALUE_FILES_OPEN_MAX + 128;

/// See the module.
pub(crate) struct Files {
    pub(crate) klog: Arc<dyn Directory>,
    pub(crate) vlog: Arc<dyn Directory>,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) values: ValueFiles,
    pub(crate) blocks: Arc<BlockCache<Block>>,
    pub(crate) live: LiveFiles,
    next_file: AtomicU64,
    /// Who is told of removals; nobody before [`Files::tell`].
    events: OnceLock<Arc<Events>>,
}

impl Files {
    /// The files below `klog` and `vlog`; ids from `next_file` on are free.
    pub(crate) fn new(
        klog: Arc<dyn Directory>,
        vlog: Arc<dyn Directory>,
        open_tables_max: usize,
        block_cache_bytes: usize,
        next_file: FileId,
    ) -> Self {
        Self {
            tables: Arc::new(TableCache::new(Arc::clone(&klog), open_tables_max)),
            values: ValueFiles::new(Arc::clone(&vlog), VALUE_FILES_OPEN_MAX),
            blocks: Arc::new(BlockCache::new(block_cache_bytes)),
            live: LiveFiles::default(),
            next_file: AtomicU64::new(next_file.0),
            events: OnceLock::new(),
            klog,
            vlog,
        }
    }

    /// Sets who is told of removals; once, at open.
    pub(crate) fn tell(&self, events: &Arc<Events>) {
        let _ = self.events.set(Arc::clone(events));
    }

    /// A file id that was never used.
    pub(crate) fn take_id(&self) -> FileId {
        // Relaxed: only uniqueness matters.
        FileId(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// The next id that will be handed out.
    pub(crate) fn next_id(&self) -> FileId {
        // Relaxed: a later id is as good.
        FileId(self.next_file.load(Ordering::Relaxed))
    }

    /// Creates the klog file `id`.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn create_klog(&self, id: FileId) -> StorageResult<Arc<dyn File>> {
        let name = klog_name(id);
        self.klog
            .open(&name, OpenMode::CreateNew)
            .map_err(|error| StorageError::io(format!("klog/{name}"), "create", error))
    }

    /// Creates the vlog file `id`.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn create_vlog(&self, id: FileId) -> StorageResult<Arc<dyn File>> {
        let name = vlog_name(id);
        self.vlog
            .open(&name, OpenMode::CreateNew)
            .map_err(|error| StorageError::io(format!("vlog/{name}"), "create", error))
    }

    /// Makes the names of new files durable.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn sync_directories(&self, has_values: bool) -> StorageResult<()> {
        self.klog
            .sync()
            .map_err(|error| StorageError::io("klog", "sync", error))?;
        if has_values {
            self.vlog
                .sync()
                .map_err(|error| StorageError::io("vlog", "sync", error))?;
        }
        Ok(())
    }

    /// Removes the klog file `id`, which is proven dead.
    ///
    /// # Errors
    /// What the system answers; the file may still be there.
    pub(crate) fn remove_klog(&self, id: FileId) -> StorageResult<()> {
        let name = klog_name(id);
        self.tables.forget(id);
        self.blocks.remove_file(id);
        self.remove(self.klog.as_ref(), &name, "klog")
    }

    /// Removes the vlog file `id`, which is proven dead.
    ///
    /// # Errors
    /// What the system answers; the file may still be there.
    pub(crate) fn remove_vlog(&self, id: FileId) -> StorageResult<()> {
        let name = vlog_name(id);
        self.values.forget(id);
        self.remove(self.vlog.as_ref(), &name, "vlog")
    }

    fn remove(&self, directory: &dyn Directory, name: &str, folder: &str) -> StorageResult<()> {
        let path = || format!("{folder}/{name}");
        match directory.remove(name) {
            Ok(()) => {
                if let Some(events) = self.events.get() {
                    events.emit(|| Event::FileRemoved { file: path() });
                }
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StorageError::io(path(), "remove", error)),
        }
    }

    /// The separated value of `key`, checked against the key as `order` identifies it.
    ///
    /// # Errors
    /// When storage fails, or what is there is not the value of `key`.
    pub(crate) fn read_value(
        &self,
        pointer: &ValuePointer,
        key: &[u8],
        order: &KeyOrder,
    ) -> StorageResult<Vec<u8>> {
        self.values.read(pointer, &order.identity(key))
    }

    /// Removes tables that nobody can read any more, and answers the value files that no table points to since. Those
    /// must leave the manifest before they are removed.
    pub(crate) fn sweep_tables(&self) -> Vec<FileId> {
        let mut dead_values = Vec::new();
        for meta in self.live.take_unread() {
            if self.remove_klog(meta.file).is_ok() {
                dead_values.extend(self.live.release_values(&meta));
            } else {
                self.live.put_back(meta);
            }
        }
        dead_values
    }
}

/// How many tables stay open at most: as many as `wanted` (0: any number), but no more than fit into the files that the
/// process may have open, with room left for value files, the log and what else the program has open.
pub(crate) fn fit_open_tables(wanted: usize, open_files_max: Option<u64>) -> usize {
    let wanted = match wanted {
        0 => usize::MAX,
        count => count,
    };
    let Some(files) = open_files_max else {
        return wanted;
    };
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    let fitting = files.saturating_sub(FILES_RESERVED).max(files / 4).max(1);
    wanted.min(fitting)
}

/// Reads the separated values of one family, whose order says which spellings of a key are the same key.
pub(crate) struct FamilyValues {
    files: Arc<Files>,
    order: KeyOrder,
    ahead: ValueReadAhead,
}

impl FamilyValues {
    /// For one reader, which takes them in order.
    pub(crate) fn new(files: &Arc<Files>, order: &KeyOrder) -> Self {
        Self {
            files: Arc::clone(files),
            order: order.clone(),
            ahead: ValueReadAhead::default(),
        }
    }
}

impl ValueSource for FamilyValues {
    fn read(&mut self, pointer: &ValuePointer, key: &[u8]) -> StorageResult<Vec<u8>> {
        let key = self.order.identity(key);
        self.ahead.read(&self.files.values, pointer, &key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_tables_fit_into_the_limit_of_open_files() {
        assert_eq!(fit_open_tables(256, None), 256);
        assert_eq!(fit_open_tables(0, None), usize::MAX);
        assert_eq!(fit_open_tables(256, Some(1024)), 256);
        assert_eq!(fit_open_tables(0, Some(1024)), 1024 - 192);
        assert_eq!(fit_open_tables(5000, Some(1024)), 1024 - 192);
        assert_eq!(fit_open_tables(256, Some(64)), 16);
        assert_eq!(fit_open_tables(256, Some(0)), 1);
    }
}
