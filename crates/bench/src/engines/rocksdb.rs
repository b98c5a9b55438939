//! `RocksDB`, for comparison: the same settings, called through its C interface.
//!
//! Durability: the log is always on. `none` leaves bytes in the kernel; `full` syncs in every write; `interval` has no
//! counterpart in `RocksDB`, so a thread here calls `rocksdb_flush_wal` with sync in that rhythm.
//!
//! Invariants: pointers come from a create function of the library, are used only between it and the matching destroy
//! function, and never leave this file. The database outlives its sessions (they borrow it); `RocksDB` allows all
//! calls on one database from many threads; batches and iterators belong to one session and so to one thread.
#![expect(
    unsafe_code,
    reason = "every call into a C library is one that the compiler cannot check"
)]

use std::{
    ffi::{CStr, CString, c_char},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    ptr,
    sync::Arc,
    thread,
    time::Duration,
};

use super::{
    Engine, Session,
    peer_library::{foreign_bytes, version_of_file},
    rocksdb_api::{Api, Opaque},
    syncer::Syncer,
};
use crate::{BenchError, Codec, Result, Settings, SyncChoice};

// Between two looks at whether background work has ended.
const POLL: Duration = Duration::from_millis(10);
// Looks in a row that must find nothing: a merge may be picked just after a flush has ended.
const QUIET_POLLS: usize = 3;
const BUSY_PROPERTIES: [&CStr; 4] = [
    c"rocksdb.mem-table-flush-pending",
    c"rocksdb.num-running-flushes",
    c"rocksdb.compaction-pending",
    c"rocksdb.num-running-compactions",
];

/// The pointers of an open database.
struct Handle {
    api: Api,
    db: Opaque,
    write_options: Opaque,
    read_options: Opaque,
    /// The families behind the default one.
    families: Vec<Opaque>,
}

// SAFETY: RocksDB documents that a database, and options that nobody changes any more, may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above; several threads at once are allowed as well, and options are not changed after `open`.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        for family in &self.families {
            // SAFETY: created in `open_database`, destroyed only here, before the database is closed.
            unsafe { (self.api.column_family_handle_destroy)(*family) };
        }
        // SAFETY: created in `RocksDbEngine::open`, destroyed only here; sessions, which use it, borrow the engine.
        unsafe { (self.api.writeoptions_destroy)(self.write_options) };
        // SAFETY: as above.
        unsafe { (self.api.readoptions_destroy)(self.read_options) };
        // SAFETY: as above; iterators and batches of sessions are gone already.
        unsafe { (self.api.close)(self.db) };
    }
}

/// An open `RocksDB` database.
pub(super) struct RocksDbEngine {
    handle: Arc<Handle>,
    file: PathBuf,
    syncer: Option<Syncer>,
}

impl RocksDbEngine {
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let (api, file) = Api::load(settings.library.as_deref())?;
        let options = create_options(&api, settings);
        let opened = open_database(&api, options, settings);
        // SAFETY: created above; the database has copied what it needs.
        unsafe { (api.options_destroy)(options) };
        let handle = Arc::new(opened?);
        let syncer = match settings.sync {
            SyncChoice::Interval => {
                let synced = Arc::clone(&handle);
                let interval = Duration::from_millis(settings.sync_interval_millis);
                Some(Syncer::start(interval, move || {
                    let mut message = ptr::null_mut();
                    // SAFETY: the handle keeps the database open, `message` is null and may be written.
                    unsafe { (synced.api.flush_wal)(synced.db, 1, &mut message) };
                    check(&synced.api, message)
                })?)
            }
            SyncChoice::None | SyncChoice::Full => None,
        };
        Ok(Self {
            handle,
            file,
            syncer,
        })
    }

    fn is_busy(&self) -> bool {
        BUSY_PROPERTIES.into_iter().any(|name| {
            let mut number = 0_u64;
            let handle = &self.handle;
            // SAFETY: the database is open, the name ends with zero, and `number` is written at most.
            let answer =
                unsafe { (handle.api.property_int)(handle.db, name.as_ptr(), &mut number) };
            answer == 0 && number > 0
        })
    }
}

fn create_options(api: &Api, settings: &Settings) -> Opaque {
    // SAFETY: no preconditions.
    let options = unsafe { (api.options_create)() };
    // SAFETY: no preconditions.
    let table = unsafe { (api.block_based_options_create)() };
    // SAFETY: `options` is alive.
    unsafe { (api.options_set_create_if_missing)(options, 1) };
    // SAFETY: `options` is alive.
    unsafe { (api.options_set_write_buffer_size)(options, settings.memtable_bytes) };
    let jobs = i32::try_from(settings.background_jobs).unwrap_or(i32::MAX);
    // SAFETY: `options` is alive.
    unsafe { (api.options_set_max_background_jobs)(options, jobs) };
    // SAFETY: `options` is alive and the number is one of the header's enumeration.
    unsafe { (api.options_set_compression)(options, compression_number(settings.codec)) };
    if settings.bloom_bits > 0.0 {
        // SAFETY: no preconditions.
        let policy = unsafe { (api.filterpolicy_create_bloom_full)(settings.bloom_bits) };
        // SAFETY: both are alive; the table options own the policy from here on.
        unsafe { (api.block_based_options_set_filter_policy)(table, policy) };
    }
    if settings.cache_bytes == 0 {
        // SAFETY: `table` is alive.
        unsafe { (api.block_based_options_set_no_block_cache)(table, 1) };
    } else {
        // SAFETY: no preconditions.
        let cache = unsafe { (api.cache_create_lru)(settings.cache_bytes) };
        // SAFETY: both are alive; the table options take a reference of their own.
        unsafe { (api.block_based_options_set_block_cache)(table, cache) };
        // SAFETY: created above; gives back the first reference only.
        unsafe { (api.cache_destroy)(cache) };
    }
    // SAFETY: both are alive; the factory copies the table options.
    unsafe { (api.options_set_block_based_table_factory)(options, table) };
    // SAFETY: created above and copied.
    unsafe { (api.block_based_options_destroy)(table) };
    options
}

fn open_database(api: &Api, options: Opaque, settings: &Settings) -> Result<Handle> {
    let path = CString::new(settings.directory.as_os_str().as_bytes())
        .map_err(|_| BenchError::Settings("the directory's name holds a zero byte".into()))?;
    let mut message = ptr::null_mut();
    // SAFETY: `options` is alive, the path ends with zero, `message` is null and may be written.
    let db = unsafe { (api.open)(options, path.as_ptr(), &mut message) };
    check(api, message)?;
    // SAFETY: no preconditions.
    let write_options = unsafe { (api.writeoptions_create)() };
    let sync = u8::from(settings.sync == SyncChoice::Full);
    // SAFETY: created above.
    unsafe { (api.writeoptions_set_sync)(write_options, sync) };
    // SAFETY: no preconditions.
    let read_options = unsafe { (api.readoptions_create)() };
    // From here on it is closed however this ends.
    let mut handle = Handle {
        api: *api,
        db,
        write_options,
        read_options,
        families: Vec::new(),
    };
    for number in 1..settings.families {
        let name = CString::new(format!("bench{number}")).unwrap_or_default();
        // SAFETY: database and options are alive, the name ends with zero, `message` is null and may be written.
        let family =
            unsafe { (api.create_column_family)(db, options, name.as_ptr(), &mut message) };
        check(api, message)?;
        handle.families.push(family);
    }
    Ok(handle)
}

/// The numbers of the header's enumeration of compressions.
const fn compression_number(codec: Codec) -> i32 {
    match codec {
        Codec::None => 0,
        Codec::Snappy => 1,
        Codec::Lz4 => 4,
        Codec::Zstd => 7,
    }
}

/// Turns what a call left in its error pointer into a result and frees it.
fn check(api: &Api, message: *mut c_char) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: not null, so the library has left a text that ends with zero.
    let text = unsafe { CStr::from_ptr(message) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: the text was allocated by the library, is freed once, and `text` is a copy.
    unsafe { (api.free)(message.cast()) };
    Err(BenchError::Engine(format!("rocksdb: {text}")))
}

impl Engine for RocksDbEngine {
    fn version(&self) -> String {
        version_of_file(&self.file)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "rocksdb: defaults of the library for every setting not named on the command line"
                .into(),
        ];
        if self.syncer.is_some() {
            notes.push("rocksdb: sync=interval is a thread that calls rocksdb_flush_wal".into());
        }
        notes
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        // SAFETY: no preconditions.
        let batch = unsafe { (self.handle.api.writebatch_create)() };
        Ok(Box::new(RocksDbSession {
            handle: &self.handle,
            batch,
            iterator: None,
        }))
    }

    fn settle(&self) -> Result<()> {
        let handle = &self.handle;
        // SAFETY: no preconditions.
        let options = unsafe { (handle.api.flushoptions_create)() };
        // SAFETY: created above.
        unsafe { (handle.api.flushoptions_set_wait)(options, 1) };
        let mut message = ptr::null_mut();
        // SAFETY: database and options are alive, `message` is null and may be written.
        unsafe { (handle.api.flush)(handle.db, options, &mut message) };
        for family in &handle.families {
            if message.is_null() {
                // SAFETY: all three are alive, `message` is null and may be written.
                unsafe { (handle.api.flush_cf)(handle.db, options, *family, &mut message) };
            }
        }
        // SAFETY: created above.
        unsafe { (handle.api.flushoptions_destroy)(options) };
        check(&handle.api, message)?;
        let mut quiet = 0;
        while quiet < QUIET_POLLS {
            quiet = if self.is_busy() { 0 } else { quiet + 1 };
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        match self.syncer {
            Some(syncer) => syncer.stop(),
            None => Ok(()),
        }
    }
}

/// One thread's handle: a batch that is cleared, not recreated, and the iterator of its seeks.
struct RocksDbSession<'a> {
    handle: &'a Handle,
    batch: Opaque,
    iterator: Option<Iterator<'a>>,
}

impl Drop for RocksDbSession<'_> {
    fn drop(&mut self) {
        // SAFETY: created with the session, destroyed only here.
        unsafe { (self.handle.api.writebatch_destroy)(self.batch) };
    }
}

impl RocksDbSession<'_> {
    fn write(&mut self) -> Result<()> {
        let handle = self.handle;
        let mut message = ptr::null_mut();
        // SAFETY: all three are alive, the batch is this session's own, `message` is null and may be written.
        unsafe { (handle.api.write)(handle.db, handle.write_options, self.batch, &mut message) };
        // SAFETY: the batch is alive.
        unsafe { (handle.api.writebatch_clear)(self.batch) };
        check(&handle.api, message)
    }
}

impl Session for RocksDbSession<'_> {
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let put = self.handle.api.writebatch_put;
        for (key, value) in pairs {
            let (key_start, value_start) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: the batch is alive and copies both slices, whose lengths go with them.
            unsafe { put(self.batch, key_start, key.len(), value_start, value.len()) };
        }
        self.write()
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_in(0, key, value)
    }

    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()> {
        let delete = self.handle.api.writebatch_delete;
        for key in keys {
            // SAFETY: the batch is alive and copies the key, whose length goes with it.
            unsafe { delete(self.batch, key.as_ptr().cast(), key.len()) };
        }
        self.write()
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        Iterator::new(self.handle).walk(from, limit, visit)
    }

    fn seek(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let handle = self.handle;
        let iterator = self.iterator.get_or_insert_with(|| Iterator::new(handle));
        iterator.walk(from, limit, visit)
    }

    fn put_families(&mut self, writes: &[(usize, &[u8], &[u8])]) -> Result<()> {
        let api = &self.handle.api;
        for (family, key, value) in writes {
            let (key_start, value_start) = (key.as_ptr().cast(), value.as_ptr().cast());
            let (key_count, value_count) = (key.len(), value.len());
            match family.checked_sub(1) {
                // SAFETY: the batch is alive and copies both slices, whose lengths go with them.
                None => unsafe {
                    (api.writebatch_put)(
                        self.batch,
                        key_start,
                        key_count,
                        value_start,
                        value_count,
                    );
                },
                Some(other) => {
                    let family = self.handle.families[other];
                    let put = api.writebatch_put_cf;
                    // SAFETY: as above; the family is alive as long as the database.
                    unsafe {
                        put(
                            self.batch,
                            family,
                            key_start,
                            key_count,
                            value_start,
                            value_count,
                        )
                    };
                }
            }
        }
        self.write()
    }

    fn get_in(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Handle {
            api,
            db,
            read_options,
            ..
        } = self.handle;
        value.clear();
        let mut message = ptr::null_mut();
        let (start, count) = (key.as_ptr().cast(), key.len());
        let slice = match family.checked_sub(1) {
            // SAFETY: database and options are alive, the key goes with its length, `message` is null and may be written.
            None => unsafe { (api.get_pinned)(*db, *read_options, start, count, &mut message) },
            Some(other) => {
                let family = self.handle.families[other];
                // SAFETY: as above; the family is alive as long as the database.
                unsafe {
                    (api.get_pinned_cf)(*db, *read_options, family, start, count, &mut message)
                }
            }
        };
        check(api, message)?;
        if slice.is_null() {
            return Ok(false);
        }
        let mut count = 0;
        // SAFETY: `slice` is alive.
        let start = unsafe { (api.pinnableslice_value)(slice, &mut count) };
        // SAFETY: the library answered a pointer and its length, good until the slice is destroyed below.
        value.extend_from_slice(unsafe { foreign_bytes(start.cast(), count) });
        // SAFETY: created by get_pinned above.
        unsafe { (api.pinnableslice_destroy)(slice) };
        Ok(true)
    }
}

/// An iterator of the library that is destroyed when it goes out of scope.
struct Iterator<'a> {
    handle: &'a Handle,
    pointer: Opaque,
}

impl<'a> Iterator<'a> {
    fn new(handle: &'a Handle) -> Self {
        // SAFETY: database and options are alive.
        let pointer = unsafe { (handle.api.create_iterator)(handle.db, handle.read_options) };
        Self { handle, pointer }
    }

    /// Visits at most `limit` entries from the first key at or behind `from`; answers how many.
    fn walk(&self, from: &[u8], limit: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let api = &self.handle.api;
        if from.is_empty() {
            // SAFETY: the iterator is alive.
            unsafe { (api.iter_seek_to_first)(self.pointer) };
        } else {
            // SAFETY: the iterator is alive, the key goes with its length.
            unsafe { (api.iter_seek)(self.pointer, from.as_ptr().cast(), from.len()) };
        }
        let mut visited = 0;
        while visited < limit && self.is_valid() {
            self.visit(visit);
            visited += 1;
            if visited < limit {
                // SAFETY: the iterator is alive and valid.
                unsafe { (api.iter_next)(self.pointer) };
            }
        }
        let mut message = ptr::null_mut();
        // SAFETY: the iterator is alive, `message` is null and may be written.
        unsafe { (api.iter_get_error)(self.pointer, &mut message) };
        check(api, message)?;
        Ok(visited)
    }

    fn is_valid(&self) -> bool {
        // SAFETY: the iterator is alive.
        let valid = unsafe { (self.handle.api.iter_valid)(self.pointer) };
        valid != 0
    }

    /// Calls `visit` with the entry it stands on. Must be valid.
    fn visit(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        let (mut key_count, mut value_count) = (0, 0);
        // SAFETY: the iterator is alive and, as the caller has checked, valid.
        let key = unsafe { (self.handle.api.iter_key)(self.pointer, &mut key_count) };
        // SAFETY: as above.
        let value = unsafe { (self.handle.api.iter_value)(self.pointer, &mut value_count) };
        // SAFETY: a pointer and its length from the library, good until the iterator moves.
        let key = unsafe { foreign_bytes(key.cast(), key_count) };
        // SAFETY: as above.
        let value = unsafe { foreign_bytes(value.cast(), value_count) };
        visit(key, value);
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed only here.
        unsafe { (self.handle.api.iter_destroy)(self.pointer) };
    }
}
