//! A database of any library with the C interface of TidesDB 9, opened to be read as a whole: its families, their
//! settings, and their entries in order. What `kingtide migrate` copies from.
//!
//! The interface has no read-only opening, so opening may change the directory: the library recovers, flushes and merges
//! as it always does. Nothing is written by what is here.
//!
//! The interface does not tell when an entry expires. Kingtide's own library does (`kt_iter_expires_at`); with others
//! [`ForeignEntry::expires_at`] is always `None` and [`ForeignDatabase::tells_expiry`] false.
//!
//! Invariants: as in `c_abi`: pointers come from a create function of the library, are used only between it and the
//! matching free function, and never leave this file.
#![expect(
    unsafe_code,
    reason = "every call into a C library is one that the compiler cannot check"
)]

use std::{
    ffi::{CStr, CString, c_char},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr,
};

use super::{
    c_abi_api::{
        Additions, Api, FamilyConfig, NOT_FOUND, Opaque, database_field, error_text, family_field,
    },
    peer_library::foreign_bytes,
};
use crate::{BenchError, Result};

const LOG_NOTHING: i32 = 99;

/// Settings of a family that another engine can make use of. Numbers are as the library tells them.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilySettings {
    /// Bytes of the memtables.
    pub write_buffer_bytes: usize,
    /// How many times larger each level is than the one above.
    pub level_size_ratio: usize,
    /// Levels that exist even when empty.
    pub min_levels: i32,
    /// Values of this many bytes or more are kept apart from the keys; 0 for none.
    pub value_threshold_bytes: usize,
    /// 0 none, 1 Snappy, 2 LZ4, 3 Zstandard, 4 LZ4 fast.
    pub compression: i32,
    /// Whether tables have Bloom filters.
    pub bloom_filter: bool,
    /// Their rate of false positives, between 0 and 1.
    pub bloom_false_positive_rate: f64,
    /// 0 none, 1 full, 2 interval.
    pub sync_mode: i32,
    /// Microseconds, for the interval.
    pub sync_interval_us: u64,
    /// The name of the key order; empty for byte order.
    pub comparator: String,
    /// Tables on level 1 that start a merge.
    pub l1_file_count_trigger: i32,
    /// Full memtables at which writers wait.
    pub l0_queue_stall_threshold: i32,
    /// Share of tombstones from which on a table is merged.
    pub tombstone_density_trigger: f64,
    /// Tables with fewer entries are not judged by it.
    pub tombstone_density_entries_min: u64,
}

/// An entry, lent for one call.
#[derive(Clone, Copy, Debug)]
pub struct ForeignEntry<'a> {
    /// The key; never empty.
    pub key: &'a [u8],
    /// The value; may be empty.
    pub value: &'a [u8],
    /// Unix seconds; `None` for never, and when the library does not tell.
    pub expires_at: Option<i64>,
}

/// An open database of another library. Used by one thread. Closed by [`Self::close`], or when it goes out of scope.
pub struct ForeignDatabase {
    api: Api,
    additions: Option<Additions>,
    db: Opaque,
    file: PathBuf,
}

impl ForeignDatabase {
    /// Loads `library` (`None`: from `KINGTIDE_TIDESDB`, else from the usual places) and opens the database in `directory`.
    ///
    /// # Errors
    /// [`BenchError::Missing`]: the library cannot be loaded or lacks a function; [`BenchError::Settings`]: the directory is
    /// none; [`BenchError::Engine`]: what the library answers.
    pub fn open(library: Option<&Path>, directory: &Path) -> Result<Self> {
        // The library would make a database where there is none.
        if !directory.is_dir() {
            let message = format!("{} is not a directory", directory.display());
            return Err(BenchError::Settings(message));
        }
        let (api, optional, file) = Api::load(library)?;
        let path = CString::new(directory.as_os_str().as_bytes())
            .map_err(|_| BenchError::Settings("the directory's name holds a zero byte".into()))?;
        // SAFETY: no preconditions.
        let mut config = unsafe { (api.default_config)() };
        let start = path.as_ptr().expose_provenance();
        config.set(database_field::DB_PATH, &start.to_ne_bytes());
        config.set(database_field::LOG_LEVEL, &LOG_NOTHING.to_ne_bytes());
        let mut db = ptr::null_mut();
        // SAFETY: the struct has the documented layout, its path ends with zero, `db` is null and may be written.
        let code = unsafe { (api.open)(&config, &mut db) };
        check(&format!("open {}", directory.display()), code)?;
        Ok(Self {
            api,
            additions: optional.additions,
            db,
            file,
        })
    }

    /// The file that the library was loaded from.
    #[must_use]
    pub fn library(&self) -> &Path {
        &self.file
    }

    /// Whether entries come with the time at which they expire.
    #[must_use]
    pub fn tells_expiry(&self) -> bool {
        self.additions.is_some()
    }

    /// The names of all families.
    ///
    /// # Errors
    /// [`BenchError::Engine`]: what the library answers, and a name that is not UTF-8.
    pub fn families(&self) -> Result<Vec<String>> {
        let (mut names, mut count) = (ptr::null_mut(), 0);
        // SAFETY: the database is open, both results may be written.
        let code = unsafe { (self.api.list_families)(self.db, &mut names, &mut count) };
        check("list the families", code)?;
        let mut found = Vec::new();
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the library answered an array of `count` pointers, and `index` is below that.
            let place = unsafe { names.add(index) };
            // SAFETY: inside the array, which lives until it is freed below.
            let name: *mut c_char = unsafe { *place };
            // SAFETY: each points to a text that ends with zero, ours to free.
            let text = unsafe { CStr::from_ptr(name) }.to_owned();
            // SAFETY: handed over by the call above, freed once.
            unsafe { (self.api.free)(name.cast()) };
            found.push(text);
        }
        // SAFETY: as above; null when there is none, which is allowed.
        unsafe { (self.api.free)(names.cast()) };
        let utf8 = |name: CString| {
            name.into_string()
                .map_err(|error| BenchError::Engine(format!("the name of a family: {error}")))
        };
        found.into_iter().map(utf8).collect()
    }

    /// The settings of a family, and about how many keys it has.
    ///
    /// # Errors
    /// [`BenchError::Engine`]: there is none of that name; what the library answers.
    pub fn settings(&self, family: &str) -> Result<(FamilySettings, u64)> {
        let family = self.family(family)?;
        let mut stats = ptr::null_mut();
        // SAFETY: the family is alive, `stats` may be written.
        check("read the statistics", unsafe {
            (self.api.get_stats)(family, &mut stats)
        })?;
        // SAFETY: the call succeeded, so this points to statistics until they are freed.
        let keys = unsafe { (*stats).total_keys };
        // SAFETY: as above.
        let config = unsafe { (*stats).config };
        let config = if config.is_null() {
            // SAFETY: no preconditions.
            unsafe { (self.api.default_family_config)() }
        } else {
            // SAFETY: not null, and part of the statistics.
            unsafe { (*config).clone() }
        };
        // SAFETY: handed over by the call above, freed once.
        unsafe { (self.api.free_stats)(stats) };
        Ok((settings_of(&config), keys))
    }

    /// Visits the entries behind `after` (`None`: all) in the family's order, until `visit` answers false or fails.
    ///
    /// # Errors
    /// What `visit` answers; [`BenchError::Engine`]: what the library answers.
    pub fn scan<E: From<BenchError>>(
        &self,
        family: &str,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(ForeignEntry<'_>) -> std::result::Result<bool, E>,
    ) -> std::result::Result<(), E> {
        let family = self.family(family)?;
        let transaction = Transaction::begin(self)?;
        let cursor = Cursor::new(&transaction, family)?;
        let mut is_valid = cursor.seek(after)?;
        while is_valid {
            let entry = cursor.entry()?;
            // A seek stops at the key itself, or at one that is equal in the family's order.
            let is_behind = after != Some(entry.key);
            if is_behind && !visit(entry)? {
                break;
            }
            is_valid = cursor.next()?;
        }
        Ok(())
    }

    /// Closes the database.
    ///
    /// # Errors
    /// [`BenchError::Engine`]: what the library answers; the database is closed.
    pub fn close(mut self) -> Result<()> {
        let db = std::mem::replace(&mut self.db, ptr::null_mut());
        // SAFETY: opened by `open`, closed once: dropping passes over null.
        check("close", unsafe { (self.api.close)(db) })
    }

    fn family(&self, name: &str) -> Result<Opaque> {
        let missing = || BenchError::Engine(format!("the database has no family {name:?}"));
        let text = CString::new(name).map_err(|_| missing())?;
        // SAFETY: the database is open, the name ends with zero.
        let family = unsafe { (self.api.get_family)(self.db, text.as_ptr()) };
        if family.is_null() {
            return Err(missing());
        }
        Ok(family)
    }
}

impl Drop for ForeignDatabase {
    fn drop(&mut self) {
        if !self.db.is_null() {
            // SAFETY: opened by `open`, closed once; transactions borrow the database, so none is left.
            unsafe { (self.api.close)(self.db) };
        }
    }
}

fn settings_of(config: &FamilyConfig) -> FamilySettings {
    use family_field as field;
    let int = |offset| i32::from_ne_bytes(config.get(offset));
    let size = |offset| usize::from_ne_bytes(config.get(offset));
    let name: [u8; 64] = config.get(field::COMPARATOR_NAME);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    FamilySettings {
        write_buffer_bytes: size(field::WRITE_BUFFER_SIZE),
        level_size_ratio: size(field::LEVEL_SIZE_RATIO),
        min_levels: int(field::MIN_LEVELS),
        value_threshold_bytes: size(field::KLOG_VALUE_THRESHOLD),
        compression: int(field::COMPRESSION_ALGORITHM),
        bloom_filter: int(field::ENABLE_BLOOM_FILTER) != 0,
        bloom_false_positive_rate: f64::from_ne_bytes(config.get(field::BLOOM_FPR)),
        sync_mode: int(field::SYNC_MODE),
        sync_interval_us: u64::from_ne_bytes(config.get(field::SYNC_INTERVAL_US)),
        comparator: String::from_utf8_lossy(name).into_owned(),
        l1_file_count_trigger: int(field::L1_FILE_COUNT_TRIGGER),
        l0_queue_stall_threshold: int(field::L0_QUEUE_STALL_THRESHOLD),
        tombstone_density_trigger: f64::from_ne_bytes(config.get(field::TOMBSTONE_DENSITY_TRIGGER)),
        tombstone_density_entries_min: u64::from_ne_bytes(
            config.get(field::TOMBSTONE_DENSITY_MIN_ENTRIES),
        ),
    }
}

fn check(doing: &str, code: i32) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let message = format!("the library could not {doing}: {}", error_text(code));
    Err(BenchError::Engine(message))
}

/// A transaction that only reads, freed when it goes out of scope.
struct Transaction<'a> {
    database: &'a ForeignDatabase,
    pointer: Opaque,
}

impl<'a> Transaction<'a> {
    fn begin(database: &'a ForeignDatabase) -> Result<Self> {
        let mut pointer = ptr::null_mut();
        // SAFETY: the database is open, `pointer` is null and may be written.
        check("begin", unsafe {
            (database.api.txn_begin)(database.db, &mut pointer)
        })?;
        Ok(Self { database, pointer })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: begun in `begin`, freed once; cursors borrow it, so none is left.
        unsafe { (self.database.api.txn_free)(self.pointer) };
    }
}

/// An iterator of the library, freed when it goes out of scope.
struct Cursor<'a> {
    database: &'a ForeignDatabase,
    pointer: Opaque,
}

impl<'a> Cursor<'a> {
    fn new(transaction: &'a Transaction<'_>, family: Opaque) -> Result<Self> {
        let database = transaction.database;
        let mut pointer = ptr::null_mut();
        // SAFETY: transaction and family are alive, `pointer` is null and may be written.
        let code = unsafe { (database.api.iter_new)(transaction.pointer, family, &mut pointer) };
        check("iterate", code)?;
        Ok(Self { database, pointer })
    }

    /// Goes to the first key at or behind `from`; false when there is none.
    fn seek(&self, from: Option<&[u8]>) -> Result<bool> {
        let api = &self.database.api;
        let code = match from {
            // SAFETY: the iterator is alive.
            None => unsafe { (api.iter_seek_to_first)(self.pointer) },
            // SAFETY: the iterator is alive, the key goes with its length.
            Some(key) => unsafe { (api.iter_seek)(self.pointer, key.as_ptr(), key.len()) },
        };
        self.is_at_entry("seek", code)
    }

    fn next(&self) -> Result<bool> {
        // SAFETY: the iterator is alive.
        let code = unsafe { (self.database.api.iter_next)(self.pointer) };
        self.is_at_entry("go on", code)
    }

    fn is_at_entry(&self, doing: &str, code: i32) -> Result<bool> {
        if code == NOT_FOUND {
            return Ok(false);
        }
        check(doing, code)?;
        // SAFETY: the iterator is alive.
        Ok(unsafe { (self.database.api.iter_valid)(self.pointer) } != 0)
    }

    /// What it stands on, lent until it moves. Must be valid.
    fn entry(&self) -> Result<ForeignEntry<'_>> {
        let api = &self.database.api;
        let (mut key, mut key_bytes) = (ptr::null_mut(), 0);
        // SAFETY: the iterator is alive, both results may be written.
        let code = unsafe { (api.iter_key)(self.pointer, &mut key, &mut key_bytes) };
        check("read a key", code)?;
        let (mut value, mut value_bytes) = (ptr::null_mut(), 0);
        // SAFETY: as above.
        let code = unsafe { (api.iter_value)(self.pointer, &mut value, &mut value_bytes) };
        check("read a value", code)?;
        let mut expires_at = 0;
        if let Some(additions) = &self.database.additions {
            // SAFETY: the function of kingtide.h; the iterator is alive, the result may be written.
            check("read an expiry", unsafe {
                (additions.iter_expires_at)(self.pointer, &mut expires_at)
            })?;
        }
        Ok(ForeignEntry {
            // SAFETY: a pointer and its length from the library, good until the iterator moves.
            key: unsafe { foreign_bytes(key, key_bytes) },
            // SAFETY: as above.
            value: unsafe { foreign_bytes(value, value_bytes) },
            expires_at: (expires_at > 0).then_some(expires_at),
        })
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed once.
        unsafe { (self.database.api.iter_free)(self.pointer) };
    }
}
