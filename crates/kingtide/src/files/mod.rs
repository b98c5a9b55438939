//! The table and value files of a database: where they lie, which ids are free, the caches through which they are read,
//! and when one may be removed.
//!
//! A file is removed only when it is proven dead: the durable manifest no longer names it, and no version that a reader
//! may still hold names it. The second part is counted by the `Arc` of its metadata, which all versions share.

mod live;
mod spill;

use std::sync::{Arc, OnceLock};

use kingtide_base::{
    FileId, KeyOrder, StorageError, StorageResult, ValuePointer,
    planted::{self, Bug},
};
use kingtide_collections::{BlockCache, MemoryBudget};
use kingtide_env::{
    Directory, File, OpenMode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use kingtide_table::{
    Block, TableCache, ValueFiles, ValueReadAhead, has_no_more_files, klog_name, vlog_name,
};

pub(crate) use live::LiveFiles;

use crate::{
    budget::{Caches, Plan},
    events::{Event, Events},
    read::iter::owned::ValueSource,
};

/// Value files kept open.
const VALUE_FILES_OPEN_MAX: usize = 1024;
/// Files that the process may have open besides tables and value files.
const FILES_RESERVED: usize = 128;
/// Of the files that are left, tables take at most three parts in four.
const VALUE_FILES_SHARE: usize = 4;

/// How many files stay open at most while nobody reads them; at least one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFilesMax {
    pub(crate) tables: usize,
    pub(crate) values: usize,
}

/// A file that the manifest does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewFile {
    /// In `klog`.
    Klog(FileId),
    /// In `vlog`.
    Vlog(FileId),
}

/// See the module.
pub(crate) struct Files {
    pub(crate) klog: Arc<dyn Directory>,
    pub(crate) vlog: Arc<dyn Directory>,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) values: ValueFiles,
    pub(crate) blocks: Arc<BlockCache<Block>>,
    pub(crate) live: LiveFiles,
    /// Where tables, blocks and buffers count.
    pub(crate) budget: Arc<MemoryBudget>,
    next_file: AtomicU64,
    /// The first id of this opening.
    first_new: FileId,
    /// Files that could not be removed: tried again, and removed by the next open at the latest.
    leftovers: Mutex<Vec<NewFile>>,
    /// Who is told of removals; nobody before [`Files::tell`].
    events: OnceLock<Arc<Events>>,
}

/// What the memory of files may be.
pub(crate) struct FilesMemory {
    /// Cached blocks.
    pub(crate) cache_bytes: usize,
    /// What the cache keeps of them when memory is short.
    pub(crate) cache_floor_bytes: usize,
    /// Where everything counts.
    pub(crate) budget: Arc<MemoryBudget>,
}

impl FilesMemory {
    /// As planned.
    pub(crate) fn of(plan: &Plan, budget: &Arc<MemoryBudget>) -> Self {
        Self {
            cache_bytes: plan.cache_bytes,
            cache_floor_bytes: plan.cache_floor_bytes,
            budget: Arc::clone(budget),
        }
    }
}

impl Files {
    /// The files below `klog` and `vlog`; ids from `next_file` on are free.
    pub(crate) fn new(
        klog: Arc<dyn Directory>,
        vlog: Arc<dyn Directory>,
        open_max: OpenFilesMax,
        memory: FilesMemory,
        next_file: FileId,
    ) -> Self {
        let budget = memory.budget;
        let in_klog = Arc::clone(&klog);
        let tables = TableCache::with_budget(in_klog, open_max.tables, Arc::clone(&budget));
        let (bytes, floor_bytes) = (memory.cache_bytes, memory.cache_floor_bytes);
        let blocks = Arc::new(BlockCache::with_budget(bytes, floor_bytes, &budget));
        Self {
            tables: Arc::new(tables),
            values: ValueFiles::new(Arc::clone(&vlog), open_max.values)
                .with_cache(Arc::clone(&blocks)),
            blocks,
            budget,
            live: LiveFiles::default(),
            next_file: AtomicU64::new(next_file.0),
            first_new: next_file,
            leftovers: Mutex::default(),
            events: OnceLock::new(),
            klog,
            vlog,
        }
    }

    /// What gives way when memory is short.
    pub(crate) fn caches(&self) -> Caches {
        Caches {
            blocks: Arc::clone(&self.blocks),
            tables: Arc::clone(&self.tables),
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

    /// The first id of this opening: files with smaller ones were there before.
    pub(crate) fn first_new(&self) -> FileId {
        self.first_new
    }

    /// The next id that will be handed out.
    pub(crate) fn next_id(&self) -> FileId {
        // Relaxed: a later id is as good.
        FileId(self.next_file.load(Ordering::Relaxed))
    }

    /// Creates the klog file `id`. When the system has no more files to give, idle ones are closed first.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn create_klog(&self, id: FileId) -> StorageResult<Arc<dyn File>> {
        let name = klog_name(id);
        self.create(self.klog.as_ref(), &name)
            .map_err(|error| StorageError::io(format!("klog/{name}"), "create", error))
    }

    /// Creates the vlog file `id`. When the system has no more files to give, idle ones are closed first.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn create_vlog(&self, id: FileId) -> StorageResult<Arc<dyn File>> {
        let name = vlog_name(id);
        self.create(self.vlog.as_ref(), &name)
            .map_err(|error| StorageError::io(format!("vlog/{name}"), "create", error))
    }

    fn create(&self, directory: &dyn Directory, name: &str) -> std::io::Result<Arc<dyn File>> {
        let create = || directory.open(name, OpenMode::CreateNew);
        let created = create();
        match &created {
            Err(error) if has_no_more_files(error) => {
                self.tables.close_some();
                self.values.close_some();
                create()
            }
            _ => created,
        }
    }

    /// Makes the names of new files durable.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn sync_directories(&self, has_values: bool) -> StorageResult<()> {
        if planted::is(Bug::DirectoryNotSynced) {
            return Ok(());
        }
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
        self.blocks.remove_file(id);
        self.remove(self.vlog.as_ref(), &name, "vlog")
    }

    /// Removes a file that no manifest names. If that fails, it is tried again now and then.
    pub(crate) fn remove_new(&self, file: NewFile) {
        let removed = match file {
            NewFile::Klog(id) => self.remove_klog(id),
            NewFile::Vlog(id) => self.remove_vlog(id),
        };
        if removed.is_err() {
            self.leftovers.lock().push(file);
        }
    }

    /// Tries again to remove what could not be removed.
    pub(crate) fn remove_leftovers(&self) {
        let leftovers = std::mem::take(&mut *self.leftovers.lock());
        for file in leftovers {
            self.remove_new(file);
        }
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

    /// Puts the separated value of `key`, checked against the key as `order` identifies it, into the place of what `value` holds.
    ///
    /// # Errors
    /// When storage fails, or what is there is not the value of `key`; what `value` holds then means nothing.
    pub(crate) fn read_value_into(
        &self,
        pointer: &ValuePointer,
        (key, order): (&[u8], &KeyOrder),
        value: &mut Vec<u8>,
    ) -> StorageResult<()> {
        self.values.read_into(pointer, &order.identity(key), value)
    }

    /// Removes tables that nobody can read any more, and answers the value files that no table points to since. Those
    /// must leave the manifest before they are removed.
    pub(crate) fn sweep_tables(&self) -> Vec<FileId> {
        let mut dead_values = self.live.take_released();
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

/// As many tables as are `wanted` (0: any number), but no more than fit into the files that the process may have open, with room
/// left for value files, the log and what else the program has open.
pub(crate) fn fit_open_files(wanted: usize, open_files_max: Option<u64>) -> OpenFilesMax {
    let wanted = match wanted {
        0 => usize::MAX,
        count => count,
    };
    let Some(files) = open_files_max else {
        return OpenFilesMax {
            tables: wanted,
            values: VALUE_FILES_OPEN_MAX,
        };
    };
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    let free = files.saturating_sub(FILES_RESERVED).max(files / 4);
    let tables = wanted.min(free - free / VALUE_FILES_SHARE).max(1);
    OpenFilesMax {
        tables,
        values: free.saturating_sub(tables).clamp(1, VALUE_FILES_OPEN_MAX),
    }
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
    fn read(
        &mut self,
        pointer: &ValuePointer,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> StorageResult<()> {
        let key = self.order.identity(key);
        self.ahead.read(&self.files.values, pointer, &key, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_fit_into_the_limit_of_the_process() {
        let fit = |wanted, limit| {
            let max = fit_open_files(wanted, limit);
            (max.tables, max.values)
        };
        assert_eq!(fit(256, None), (256, 1024));
        assert_eq!(fit(0, None), (usize::MAX, 1024));
        assert_eq!(fit(256, Some(1024)), (256, 640));
        assert_eq!(fit(0, Some(1024)), (672, 224));
        assert_eq!(fit(5000, Some(1024)), (672, 224));
        assert_eq!(fit(256, Some(20_000)), (256, 1024));
        assert_eq!(fit(256, Some(64)), (12, 4));
        assert_eq!(fit(256, Some(0)), (1, 1));
    }
}
