//! LMDB, for comparison: the same settings as far as it has them, called through its C interface.
//!
//! LMDB has no log, no cache of its own, no compression and no filters; those settings mean nothing to it. `full` syncs
//! in every commit; `none` opens with `MDB_NOSYNC`; `interval` is `MDB_NOSYNC` and a thread that calls `mdb_env_sync`.
//!
//! Invariants: pointers come from a create function of the library, are used only between it and the matching close
//! function, and never leave this file. The environment outlives its sessions (they borrow it). It is opened with
//! `MDB_NOTLS`, so that a read transaction belongs to its session and not to its thread; a write transaction begins and
//! ends within one call.
#![expect(
    unsafe_code,
    reason = "every call into a C library is one that the compiler cannot check"
)]

use std::{
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    ptr,
    sync::Arc,
    time::Duration,
};

use super::{
    Engine, Session,
    lmdb_api::{Api, Dbi, Opaque, Slice, number},
    peer_library::foreign_bytes,
    syncer::Syncer,
};
use crate::{BenchError, Result, Settings, SyncChoice};

/// Address space that the file may grow into; nothing of it is used before it is written.
const MAP_BYTES: usize = 1 << 40;
const FILE_MODE: u32 = 0o600;

/// An open environment.
struct Handle {
    api: Api,
    environment: Opaque,
}

// SAFETY: lmdb.h documents that an environment may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above; several threads at once are allowed as well.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created in `open_environment`, closed only here; sessions, which hold transactions, borrow the engine.
        unsafe { (self.api.env_close)(self.environment) };
    }
}

/// An open LMDB database.
pub(super) struct LmdbEngine {
    handle: Arc<Handle>,
    /// One for each family; the first, when it is the only one, is the main database.
    dbis: Vec<Dbi>,
    file: PathBuf,
    syncer: Option<Syncer>,
}

impl LmdbEngine {
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let (api, file) = Api::load(settings.library.as_deref())?;
        let handle = Arc::new(open_environment(api, settings)?);
        let dbis = write(&handle, |api, transaction| {
            open_databases(api, transaction, settings.families)
        })?;
        let syncer = match settings.sync {
            SyncChoice::Interval => {
                let synced = Arc::clone(&handle);
                let interval = Duration::from_millis(settings.sync_interval_millis);
                Some(Syncer::start(interval, move || {
                    // SAFETY: the handle keeps the environment open.
                    let code = unsafe { (synced.api.env_sync)(synced.environment, 1) };
                    check(&synced.api, code)
                })?)
            }
            SyncChoice::None | SyncChoice::Full => None,
        };
        Ok(Self {
            handle,
            dbis,
            file,
            syncer,
        })
    }
}

/// The databases of all families.
fn open_databases(api: &Api, transaction: Opaque, families: usize) -> Result<Vec<Dbi>> {
    let mut dbis = Vec::new();
    for number in 0..families {
        let name = CString::new(format!("bench{number}")).unwrap_or_default();
        let (name, flags) = match families {
            1 => (ptr::null(), 0),
            _ => (name.as_ptr(), number::CREATE),
        };
        let mut dbi = 0;
        // SAFETY: the transaction is alive; the name is null, which means the main database, or ends with zero;
        // `dbi` may be written.
        let code = unsafe { (api.dbi_open)(transaction, name, flags, &mut dbi) };
        check(api, code)?;
        dbis.push(dbi);
    }
    Ok(dbis)
}

/// Runs `operate` in a write transaction: committed when it succeeds, undone otherwise.
fn write<T>(handle: &Handle, operate: impl FnOnce(&Api, Opaque) -> Result<T>) -> Result<T> {
    let api = &handle.api;
    let transaction = begin(handle, 0)?;
    let outcome = operate(api, transaction);
    if outcome.is_ok() {
        // SAFETY: begun above and not used after.
        check(api, unsafe { (api.txn_commit)(transaction) })?;
    } else {
        // SAFETY: as above.
        unsafe { (api.txn_abort)(transaction) };
    }
    outcome
}

fn open_environment(api: Api, settings: &Settings) -> Result<Handle> {
    let path = CString::new(settings.directory.as_os_str().as_bytes())
        .map_err(|_| BenchError::Settings("the directory's name holds a zero byte".into()))?;
    let mut environment = ptr::null_mut();
    // SAFETY: `environment` may be written.
    check(&api, unsafe { (api.env_create)(&mut environment) })?;
    // From here on it is closed however this ends.
    let handle = Handle { api, environment };
    // SAFETY: created above and not yet open, as both calls ask for.
    check(&api, unsafe {
        (api.env_set_mapsize)(environment, MAP_BYTES)
    })?;
    let readers = u32::try_from(settings.threads_max() * 2 + 8).unwrap_or(u32::MAX);
    // SAFETY: as above.
    check(&api, unsafe {
        (api.env_set_maxreaders)(environment, readers)
    })?;
    let families = u32::try_from(settings.families).unwrap_or(u32::MAX);
    // SAFETY: as above.
    check(&api, unsafe { (api.env_set_maxdbs)(environment, families) })?;
    let flags = match settings.sync {
        SyncChoice::Full => number::NO_TLS,
        SyncChoice::None | SyncChoice::Interval => number::NO_TLS | number::NO_SYNC,
    };
    // SAFETY: created above, the path ends with zero.
    let code = unsafe { (api.env_open)(environment, path.as_ptr(), flags, FILE_MODE) };
    check(&api, code)?;
    Ok(handle)
}

fn begin(handle: &Handle, flags: u32) -> Result<Opaque> {
    let mut transaction = ptr::null_mut();
    // SAFETY: the environment is open, there is no parent, `transaction` may be written.
    let code = unsafe {
        (handle.api.txn_begin)(handle.environment, ptr::null_mut(), flags, &mut transaction)
    };
    check(&handle.api, code)?;
    Ok(transaction)
}

fn check(api: &Api, code: i32) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: no preconditions.
    let text = unsafe { (api.strerror)(code) };
    // SAFETY: lmdb.h: the answer is a text that ends with zero and lives on.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    Err(BenchError::Engine(error_text(&text, code)))
}

/// An error as text: what the library calls it, and the code; of one that a full disk causes too, a word about that.
fn error_text(text: &str, code: i32) -> String {
    match code {
        number::INPUT_OUTPUT => format!("lmdb: {text} (EIO, {code}); is the disk full?"),
        _ => format!("lmdb: {text} ({code})"),
    }
}

fn slice(bytes: &[u8]) -> Slice {
    Slice {
        bytes: bytes.len(),
        start: bytes.as_ptr().cast(),
    }
}

const fn nothing() -> Slice {
    Slice {
        bytes: 0,
        start: ptr::null(),
    }
}

impl Engine for LmdbEngine {
    fn version(&self) -> String {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: lmdb.h: no preconditions; all three may be written.
        unsafe { (self.handle.api.version)(&mut major, &mut minor, &mut patch) };
        format!("{major}.{minor}.{patch} ({})", self.file.display())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "lmdb: no log, cache, codec, filters or background threads; these settings do not apply"
                .to_owned(),
        ];
        if self.syncer.is_some() {
            notes.push("lmdb: sync=interval is a thread that calls mdb_env_sync".to_owned());
        }
        notes
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let reader = begin(&self.handle, number::READ_ONLY)?;
        // SAFETY: begun above as a read transaction.
        unsafe { (self.handle.api.txn_reset)(reader) };
        Ok(Box::new(LmdbSession {
            engine: self,
            reader,
            kept: None,
        }))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        match self.syncer {
            Some(syncer) => syncer.stop(),
            None => Ok(()),
        }
    }
}

/// One thread's read transaction, reset between reads.
struct LmdbSession<'a> {
    engine: &'a LmdbEngine,
    reader: Opaque,
    /// Made by the first seek.
    kept: Option<KeptCursor<'a>>,
}

impl Drop for LmdbSession<'_> {
    fn drop(&mut self) {
        // SAFETY: begun with the session, ended only here.
        unsafe { (self.engine.handle.api.txn_abort)(self.reader) };
    }
}

/// A cursor, and a read transaction of its own, which shows the database as it was when they were made.
struct KeptCursor<'a> {
    handle: &'a Handle,
    transaction: Opaque,
    cursor: Opaque,
}

impl<'a> KeptCursor<'a> {
    fn open(engine: &'a LmdbEngine) -> Result<Self> {
        let handle = &*engine.handle;
        let transaction = begin(handle, number::READ_ONLY)?;
        let mut cursor = ptr::null_mut();
        // SAFETY: the transaction is alive, `cursor` may be written.
        let code = unsafe { (handle.api.cursor_open)(transaction, engine.dbis[0], &mut cursor) };
        let opened = check(&handle.api, code);
        if opened.is_err() {
            // SAFETY: begun above and not used after.
            unsafe { (handle.api.txn_abort)(transaction) };
        }
        opened.map(|()| Self {
            handle,
            transaction,
            cursor,
        })
    }
}

impl Drop for KeptCursor<'_> {
    fn drop(&mut self) {
        // SAFETY: opened in `open`, closed only here, before its transaction ends.
        unsafe { (self.handle.api.cursor_close)(self.cursor) };
        // SAFETY: begun in `open`, ended only here.
        unsafe { (self.handle.api.txn_abort)(self.transaction) };
    }
}

impl LmdbSession<'_> {
    /// As [`write`], in the first family.
    fn write(&mut self, operate: impl FnOnce(&Api, Opaque, Dbi) -> Result<()>) -> Result<()> {
        let engine = self.engine;
        write(&engine.handle, |api, transaction| {
            operate(api, transaction, engine.dbis[0])
        })
    }

    /// Runs `operate` with the reader at the newest state.
    fn read<T>(&mut self, operate: impl FnOnce(&Api, Opaque, Dbi) -> Result<T>) -> Result<T> {
        let api = &self.engine.handle.api;
        // SAFETY: the reader is alive and reset.
        check(api, unsafe { (api.txn_renew)(self.reader) })?;
        let outcome = operate(api, self.reader, self.engine.dbis[0]);
        // SAFETY: the reader is alive; what it answered is not used after.
        unsafe { (api.txn_reset)(self.reader) };
        outcome
    }
}

impl Session for LmdbSession<'_> {
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.write(|api, transaction, dbi| {
            for (key, value) in pairs {
                let (mut key, mut value) = (slice(key), slice(value));
                // SAFETY: the transaction is alive; both slices live through the call and are copied.
                let code = unsafe { (api.put)(transaction, dbi, &mut key, &mut value, 0) };
                check(api, code)?;
            }
            Ok(())
        })
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_in(0, key, value)
    }

    fn put_families(&mut self, writes: &[(usize, &[u8], &[u8])]) -> Result<()> {
        let dbis = &self.engine.dbis;
        self.write(|api, transaction, _| {
            for (family, key, value) in writes {
                let (mut key, mut value) = (slice(key), slice(value));
                // SAFETY: the transaction is alive; both slices live through the call and are copied.
                let code =
                    unsafe { (api.put)(transaction, dbis[*family], &mut key, &mut value, 0) };
                check(api, code)?;
            }
            Ok(())
        })
    }

    fn get_in(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let dbi = self.engine.dbis[family];
        self.read(|api, transaction, _| {
            let (mut key, mut found) = (slice(key), nothing());
            // SAFETY: the transaction is alive, the key lives through the call, `found` may be written.
            match unsafe { (api.get)(transaction, dbi, &mut key, &mut found) } {
                number::NOT_FOUND => Ok(false),
                code => {
                    check(api, code)?;
                    // SAFETY: bytes of the library, good while the transaction lasts.
                    value.extend_from_slice(unsafe {
                        foreign_bytes(found.start.cast(), found.bytes)
                    });
                    Ok(true)
                }
            }
        })
    }

    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.write(|api, transaction, dbi| {
            for key in keys {
                let mut key = slice(key);
                // SAFETY: the transaction is alive, the key lives through the call, no value is asked for.
                match unsafe { (api.del)(transaction, dbi, &mut key, ptr::null_mut()) } {
                    number::NOT_FOUND => {}
                    code => check(api, code)?,
                }
            }
            Ok(())
        })
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        self.read(|api, transaction, dbi| {
            let mut cursor = ptr::null_mut();
            // SAFETY: the transaction is alive, `cursor` may be written.
            check(api, unsafe {
                (api.cursor_open)(transaction, dbi, &mut cursor)
            })?;
            let outcome = walk(api, cursor, from, limit, visit);
            // SAFETY: opened above, closed once, before its transaction is reset.
            unsafe { (api.cursor_close)(cursor) };
            outcome
        })
    }

    fn seek(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let engine = self.engine;
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => KeptCursor::open(engine)?,
        };
        let kept = self.kept.insert(kept);
        walk(&engine.handle.api, kept.cursor, from, limit, visit)
    }
}

/// Visits at most `limit` entries from the first key at or behind `from`; answers how many.
fn walk(
    api: &Api,
    cursor: Opaque,
    from: &[u8],
    limit: u64,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<u64> {
    let (mut key, mut value) = (slice(from), nothing());
    let mut step = if from.is_empty() {
        number::CURSOR_FIRST
    } else {
        number::CURSOR_SET_RANGE
    };
    let mut visited = 0;
    while visited < limit {
        // SAFETY: the cursor is alive; the key holds what the step asks for, both may be written.
        match unsafe { (api.cursor_get)(cursor, &mut key, &mut value, step) } {
            number::NOT_FOUND => break,
            code => check(api, code)?,
        }
        // SAFETY: bytes of the library, good while the transaction lasts.
        let key_bytes = unsafe { foreign_bytes(key.start.cast(), key.bytes) };
        // SAFETY: as above.
        let value_bytes = unsafe { foreign_bytes(value.start.cast(), value.bytes) };
        visit(key_bytes, value_bytes);
        visited += 1;
        step = number::CURSOR_NEXT;
    }
    Ok(visited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineKind;

    #[test]
    fn a_short_write_is_told_as_what_it_may_be() {
        let text = error_text("Input/output error", 5);
        assert_eq!(text, "lmdb: Input/output error (EIO, 5); is the disk full?");
        assert!(!error_text("MDB_MAP_FULL: x", -30_792).contains("disk"));
    }

    /// Method: where the library is installed; where it is not, the error must say so.
    #[test]
    fn the_version_names_the_release_and_the_file() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let settings = Settings::new(EngineKind::Lmdb, directory.path().to_owned());
        match LmdbEngine::open(&settings) {
            Ok(engine) => {
                let version = engine.version();
                assert!(version.starts_with("0."), "{version}");
                assert!(version.contains("liblmdb"), "{version}");
            }
            Err(BenchError::Missing(message)) => assert!(message.contains("LMDB"), "{message}"),
            Err(source) => panic!("{source}"),
        }
    }
}
