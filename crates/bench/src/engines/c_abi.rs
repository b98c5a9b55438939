//! Any library with the C interface of TidesDB 9, for comparison: the same settings, called through that interface.
//!
//! A session has one transaction at read committed for its writes, reset after every commit as the
//! interface provides for, and one for its reads. With Kingtide's library, which is known by what it adds, it keeps the iterator
//! of its seeks, as with other engines, and settling is one call.
//!
//! Invariants: pointers come from a create function of the library, are used only between it and the matching free
//! function, and never leave this file. The database outlives its sessions (they borrow it); the interface allows a
//! database and its families to be used from many threads, a transaction and its iterators from one at a time.
#![expect(
    unsafe_code,
    reason = "every call into a C library is one that the compiler cannot check"
)]

use std::{
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    ptr, thread,
    time::Duration,
};

use super::{
    Engine, Session,
    c_abi_api::{
        Api, BUSY, INPUT_OUTPUT, NOT_FOUND, Opaque, Optional, database_field, error_text,
        family_field,
    },
    peer_library::{foreign_bytes, version_of_file},
};
use crate::{BenchError, Codec, Result, Settings, SyncChoice};

// Between two looks at whether background work has ended.
const POLL: Duration = Duration::from_millis(10);
// Looks in a row that must find nothing: a merge may be picked just after a flush has ended.
const QUIET_POLLS: usize = 3;
const READ_COMMITTED: i32 = 1;
const LOG_NOTHING: i32 = 99;

/// An open database with its families, at least one.
pub(super) struct CAbiEngine {
    api: Api,
    optional: Optional,
    db: Opaque,
    families: Vec<Opaque>,
    file: PathBuf,
}

// SAFETY: the interface documents that handles of databases and families may be used from any thread.
unsafe impl Send for CAbiEngine {}
// SAFETY: as above; several threads at once are allowed as well.
unsafe impl Sync for CAbiEngine {}

impl CAbiEngine {
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let (api, optional, file) = Api::load(settings.library.as_deref())?;
        let path = CString::new(settings.directory.as_os_str().as_bytes())
            .map_err(|_| BenchError::Settings("the directory's name holds a zero byte".into()))?;
        let db = open_database(&api, &path, settings)?;
        let families =
            (0..settings.families).map(|number| create_family(&api, db, settings, number));
        let families = match families.collect() {
            Ok(families) => families,
            Err(source) => {
                // SAFETY: opened above, closed once.
                unsafe { (api.close)(db) };
                return Err(source);
            }
        };
        Ok(Self {
            api,
            optional,
            db,
            families,
            file,
        })
    }

    fn begin(&self) -> Result<Opaque> {
        let mut transaction = ptr::null_mut();
        // SAFETY: the database is open, `transaction` is null and may be written.
        let code = unsafe { (self.api.txn_begin)(self.db, &mut transaction) };
        check("begin", code)?;
        Ok(transaction)
    }

    fn is_busy(&self) -> bool {
        self.families.iter().any(|family| {
            // SAFETY: the family is alive as long as the database.
            let flushing = unsafe { (self.api.is_flushing)(*family) };
            // SAFETY: as above.
            let compacting = unsafe { (self.api.is_compacting)(*family) };
            flushing != 0 || compacting != 0
        })
    }
}

fn open_database(api: &Api, path: &CStr, settings: &Settings) -> Result<Opaque> {
    // SAFETY: no preconditions.
    let mut config = unsafe { (api.default_config)() };
    let mergers = i32::try_from(settings.merging_threads()).unwrap_or(i32::MAX);
    config.set(database_field::DB_PATH, &path.as_ptr().addr().to_ne_bytes());
    config.set(database_field::NUM_FLUSH_THREADS, &1_i32.to_ne_bytes());
    config.set(
        database_field::NUM_COMPACTION_THREADS,
        &mergers.to_ne_bytes(),
    );
    config.set(database_field::LOG_LEVEL, &LOG_NOTHING.to_ne_bytes());
    config.set(
        database_field::BLOCK_CACHE_SIZE,
        &settings.cache_bytes.to_ne_bytes(),
    );
    // The pointer went into the struct as a number: from here on it may be read by code that the compiler cannot see.
    let _ = path.as_ptr().expose_provenance();
    let mut db = ptr::null_mut();
    // SAFETY: the struct has the documented layout, its path ends with zero, `db` is null and may be written.
    let code = unsafe { (api.open)(&config, &mut db) };
    check("open", code)?;
    Ok(db)
}

fn create_family(api: &Api, db: Opaque, settings: &Settings, number: usize) -> Result<Opaque> {
    let name = CString::new(format!("bench{number}")).unwrap_or_default();
    // SAFETY: no preconditions.
    let mut config = unsafe { (api.default_family_config)() };
    config.set(
        family_field::WRITE_BUFFER_SIZE,
        &settings.memtable_bytes.to_ne_bytes(),
    );
    config.set(
        family_field::COMPRESSION_ALGORITHM,
        &compression_number(settings.codec).to_ne_bytes(),
    );
    let has_filter = i32::from(settings.bloom_bits > 0.0);
    config.set(family_field::ENABLE_BLOOM_FILTER, &has_filter.to_ne_bytes());
    if settings.bloom_bits > 0.0 {
        config.set(
            family_field::BLOOM_FPR,
            &settings.false_positive_rate().to_ne_bytes(),
        );
    }
    let has_index = i32::from(settings.block_index);
    config.set(family_field::ENABLE_BLOCK_INDEXES, &has_index.to_ne_bytes());
    config.set(
        family_field::SYNC_MODE,
        &sync_number(settings.sync).to_ne_bytes(),
    );
    config.set(
        family_field::SYNC_INTERVAL_US,
        &settings
            .sync_interval_millis
            .saturating_mul(1000)
            .to_ne_bytes(),
    );
    // SAFETY: the database is open, the name ends with zero, the struct has the documented layout.
    let code = unsafe { (api.create_family)(db, name.as_ptr(), &config) };
    check("create the family", code)?;
    // SAFETY: the database is open, the name ends with zero.
    let family = unsafe { (api.get_family)(db, name.as_ptr()) };
    if family.is_null() {
        return Err(BenchError::Engine(
            "c-abi: the family that was created is not there".into(),
        ));
    }
    Ok(family)
}

/// The numbers of the header's enumeration of compressions.
const fn compression_number(codec: Codec) -> i32 {
    match codec {
        Codec::None => 0,
        Codec::Snappy => 1,
        Codec::Lz4 => 2,
        Codec::Zstd => 3,
    }
}

/// The numbers of the header's enumeration of sync modes.
const fn sync_number(sync: SyncChoice) -> i32 {
    match sync {
        SyncChoice::None => 0,
        SyncChoice::Full => 1,
        SyncChoice::Interval => 2,
    }
}

/// Whether a get or a move found an entry. After a move that did not, the iterator is not valid.
fn is_there(doing: &str, code: i32) -> Result<bool> {
    match code {
        NOT_FOUND => Ok(false),
        code => check(doing, code).map(|()| true),
    }
}

fn check(doing: &str, code: i32) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let hint = if code == INPUT_OUTPUT {
        "; is the disk full?"
    } else {
        ""
    };
    Err(BenchError::Engine(format!(
        "c-abi: {doing}: {}{hint}",
        error_text(code)
    )))
}

impl Engine for CAbiEngine {
    fn version(&self) -> String {
        version_of_file(&self.file)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "c-abi: defaults of the library for every setting not named on the command line".into(),
        ];
        if self.optional.additions.is_none() {
            notes.push(
                "c-abi: a new iterator for each seek and range; one that is used again answers wrongly in TidesDB 9"
                    .into(),
            );
        }
        notes
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let writer = self.begin()?;
        match self.begin() {
            Ok(reader) => Ok(Box::new(CAbiSession {
                engine: self,
                writer,
                reader,
                iterator: None,
            })),
            Err(source) => {
                // SAFETY: begun above, freed once.
                unsafe { (self.api.txn_free)(writer) };
                Err(source)
            }
        }
    }

    fn settle(&self) -> Result<()> {
        for family in &self.families {
            // SAFETY: the family is alive.
            let code = unsafe { (self.api.flush_memtable)(*family) };
            // A flush that is running already is what was asked for.
            if code != BUSY {
                check("flush", code)?;
            }
        }
        if let Some(additions) = &self.optional.additions {
            // SAFETY: the database is open.
            return check("wait", unsafe { (additions.wait_idle)(self.db) });
        }
        let mut quiet = 0;
        while quiet < QUIET_POLLS {
            quiet = if self.is_busy() { 0 } else { quiet + 1 };
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        // SAFETY: opened by `open`; sessions borrow the engine, so none is left; closed once, since `self` ends here.
        let code = unsafe { (self.api.close)(self.db) };
        check("close", code)
    }
}

/// One thread's transactions.
struct CAbiSession<'a> {
    engine: &'a CAbiEngine,
    writer: Opaque,
    reader: Opaque,
    /// Of the seeks.
    iterator: Option<Iterator<'a>>,
}

impl Drop for CAbiSession<'_> {
    fn drop(&mut self) {
        // Before its transaction.
        self.iterator = None;
        for transaction in [self.writer, self.reader] {
            // SAFETY: begun with the session, freed only here.
            unsafe { (self.engine.api.txn_free)(transaction) };
        }
    }
}

impl CAbiSession<'_> {
    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let (put, family) = (self.engine.api.txn_put, self.engine.families[family]);
        let (key_start, value_start) = (key.as_ptr(), value.as_ptr());
        // SAFETY: transaction and family are alive; both slices go with their lengths and are copied.
        let code = unsafe {
            put(
                self.writer,
                family,
                key_start,
                key.len(),
                value_start,
                value.len(),
                0,
            )
        };
        check("put", code)
    }

    fn commit(&mut self) -> Result<()> {
        let api = &self.engine.api;
        // SAFETY: the transaction is alive and this session's own.
        check("commit", unsafe { (api.txn_commit)(self.writer) })?;
        // SAFETY: as above; it is committed, so it may be reset.
        check("reset", unsafe {
            (api.txn_reset)(self.writer, READ_COMMITTED)
        })
    }
}

impl Session for CAbiSession<'_> {
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        for (key, value) in pairs {
            self.put(0, key, value)?;
        }
        self.commit()
    }

    fn put_families(&mut self, writes: &[(usize, &[u8], &[u8])]) -> Result<()> {
        for (family, key, value) in writes {
            self.put(*family, key, value)?;
        }
        self.commit()
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_in(0, key, value)
    }

    fn get_in(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let CAbiEngine { api, families, .. } = self.engine;
        value.clear();
        let (mut start, mut count) = (ptr::null_mut(), 0);
        // SAFETY: transaction and family are alive, the key goes with its length, both results may be written.
        let code = unsafe {
            (api.txn_get)(
                self.reader,
                families[family],
                key.as_ptr(),
                key.len(),
                &mut start,
                &mut count,
            )
        };
        if !is_there("get", code)? {
            return Ok(false);
        }
        // SAFETY: the library answered a pointer and its length, good until it is freed below.
        value.extend_from_slice(unsafe { foreign_bytes(start, count) });
        // SAFETY: handed over by the call above, freed once.
        unsafe { (api.free)(start.cast()) };
        Ok(true)
    }

    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()> {
        let (delete, family) = (self.engine.api.txn_delete, self.engine.families[0]);
        for key in keys {
            // SAFETY: transaction and family are alive; the key goes with its length and is copied.
            let code = unsafe { delete(self.writer, family, key.as_ptr(), key.len()) };
            check("delete", code)?;
        }
        self.commit()
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        Iterator::new(self.engine, self.reader)?.walk(from, limit, visit)
    }

    fn seek(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        if self.engine.optional.additions.is_none() {
            return self.scan(from, limit, visit);
        }
        let iterator = match &self.iterator {
            Some(iterator) => iterator,
            None => self
                .iterator
                .insert(Iterator::new(self.engine, self.reader)?),
        };
        iterator.walk(from, limit, visit)
    }
}

/// An iterator of the library that is freed when it goes out of scope.
struct Iterator<'a> {
    engine: &'a CAbiEngine,
    pointer: Opaque,
}

impl<'a> Iterator<'a> {
    fn new(engine: &'a CAbiEngine, transaction: Opaque) -> Result<Self> {
        let mut pointer = ptr::null_mut();
        // SAFETY: transaction and family are alive, `pointer` is null and may be written.
        let code = unsafe { (engine.api.iter_new)(transaction, engine.families[0], &mut pointer) };
        check("iterate", code)?;
        Ok(Self { engine, pointer })
    }

    /// Visits at most `limit` entries from the first key at or behind `from`; answers how many.
    fn walk(&self, from: &[u8], limit: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut is_valid = self.seek(from)?;
        let mut visited = 0;
        while is_valid && visited < limit {
            self.visit(visit)?;
            visited += 1;
            if visited < limit {
                is_valid = self.next()?;
            }
        }
        Ok(visited)
    }

    /// Goes to the first key at or behind `from`; false when there is none.
    fn seek(&self, from: &[u8]) -> Result<bool> {
        let code = if from.is_empty() {
            // SAFETY: the iterator is alive.
            unsafe { (self.engine.api.iter_seek_to_first)(self.pointer) }
        } else {
            // SAFETY: the iterator is alive, the key goes with its length.
            unsafe { (self.engine.api.iter_seek)(self.pointer, from.as_ptr(), from.len()) }
        };
        is_there("seek", code)
    }

    /// Goes one further; false when there is nothing.
    fn next(&self) -> Result<bool> {
        // SAFETY: the iterator is alive and valid.
        is_there("next", unsafe { (self.engine.api.iter_next)(self.pointer) })
    }

    /// Calls `visit` with the entry it stands on. Must be valid.
    fn visit(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let (mut key, mut key_count) = (ptr::null_mut(), 0);
        let (mut value, mut value_count) = (ptr::null_mut(), 0);
        let (iterator, keys, counts) = (self.pointer, &mut key, &mut key_count);
        let code = match self.engine.optional.iter_key_value {
            // SAFETY: the iterator is alive, all results may be written.
            Some(both) => unsafe { both(iterator, keys, counts, &mut value, &mut value_count) },
            None => {
                // SAFETY: as above.
                check("key", unsafe {
                    (self.engine.api.iter_key)(iterator, keys, counts)
                })?;
                // SAFETY: as above.
                unsafe { (self.engine.api.iter_value)(iterator, &mut value, &mut value_count) }
            }
        };
        check("value", code)?;
        // SAFETY: a pointer and its length from the library, good until the iterator moves.
        let key = unsafe { foreign_bytes(key, key_count) };
        // SAFETY: as above.
        let value = unsafe { foreign_bytes(value, value_count) };
        visit(key, value);
        Ok(())
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed only here.
        unsafe { (self.engine.api.iter_free)(self.pointer) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_names_and_a_full_disk_is_thought_of() {
        let text = |code| check("commit", code).expect_err("an error").to_string();
        assert_eq!(
            text(-4),
            "c-abi: commit: input or output failed (TDB_ERR_IO, -4); is the disk full?"
        );
        assert_eq!(
            text(-12),
            "c-abi: commit: another program has it open (TDB_ERR_LOCKED, -12)"
        );
        assert_eq!(
            text(-99),
            "c-abi: commit: error -99, which the header does not name"
        );
    }
}
