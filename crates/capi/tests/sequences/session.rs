//! An open database with its handles and its model; how bytes become arguments; how answers are checked.

use std::{
    ffi::{CString, c_char, c_int},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr, slice, thread,
};

use super::{
    bindings::{Config, FamilyConfig, Handle, c},
    model::{FamilyNumber, Model, State, Transaction},
};

/// The codes that answers are compared with.
pub mod code {
    use std::ffi::c_int;

    pub const SUCCESS: c_int = 0;
    pub const INVALID_ARGS: c_int = -2;
    pub const NOT_FOUND: c_int = -3;
    pub const IO: c_int = -4;
    pub const CORRUPTION: c_int = -5;
    pub const EXISTS: c_int = -6;
    pub const CONFLICT: c_int = -7;
    pub const TOO_LARGE: c_int = -8;
    pub const INVALID_DB: c_int = -10;
    pub const UNKNOWN: c_int = -11;
    pub const LOCKED: c_int = -12;
    pub const READONLY: c_int = -13;
    pub const BUSY: c_int = -14;
}

/// Names of families that sequences use.
pub const NAMES: [&str; 4] = ["f", "g", "harbour", "\u{6c34}"];

/// The bytes that a sequence is drawn from; zero beyond their end.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// A number of any size.
    pub fn number(&mut self) -> u64 {
        let byte = u64::from(self.byte());
        match byte & 7 {
            0 => 0,
            1 => byte >> 3,
            2 => byte << 10,
            3 => byte << 24,
            4 => byte << 56,
            5 => u64::MAX,
            6 => 1 << (byte >> 3),
            _ => f64::from(self.byte().cast_signed()).to_bits(),
        }
    }

    /// Up to `count` bytes as they are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A key that comes again, of one byte to 300.
    pub fn key(&mut self) -> Vec<u8> {
        let byte = self.byte();
        let length = match byte >> 5 {
            0 => 300,
            1 => 16,
            other => usize::from(other),
        };
        vec![b'a' + (byte & 15); length]
    }

    /// A value of nothing to 5 kB.
    pub fn value(&mut self) -> Vec<u8> {
        let byte = self.byte();
        let length = match byte {
            0..=15 => 0,
            16..=200 => usize::from(byte),
            201..=250 => 700,
            _ => 5000,
        };
        vec![self.byte(); length]
    }
}

/// What a handle is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Database,
    Family,
    Transaction,
    Iterator,
    Snapshot,
    Abort,
}

/// What a transaction may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Active,
    /// Its time may be over, or an old abort may have reached it.
    Doubtful,
    Aborted,
    /// Committed or prepared.
    Finished,
    RolledBack,
}

impl Life {
    /// What an operation answers that has no other cause to fail.
    pub fn answers(self) -> Vec<c_int> {
        match self {
            Self::Active => vec![code::SUCCESS],
            Self::Doubtful => vec![code::SUCCESS, code::INVALID_ARGS],
            Self::Aborted | Self::Finished | Self::RolledBack => vec![code::INVALID_ARGS],
        }
    }
}

/// A transaction of C and its model.
pub struct OpenTransaction {
    pub handle: Handle,
    pub model: Transaction,
    pub life: Life,
    /// Another one after each reset.
    pub number: u64,
}

/// An iterator of C and what it visits.
pub struct OpenIterator {
    pub handle: Handle,
    /// `None` when that is not known.
    pub entries: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    pub position: Option<usize>,
    /// That of its transaction.
    pub transaction: u64,
    /// Its transaction was freed or reset.
    pub is_ended: bool,
}

/// A snapshot of C.
pub struct OpenSnapshot {
    pub handle: Handle,
    pub state: State,
    pub name: Option<CString>,
}

/// See the module.
pub struct Session<'a> {
    pub input: Input<'a>,
    pub directory: PathBuf,
    pub db: Handle,
    pub model: Model,
    pub transactions: [Option<OpenTransaction>; 3],
    pub iterators: [Option<OpenIterator>; 3],
    pub snapshots: Vec<OpenSnapshot>,
    pub aborts: Vec<(Handle, u64)>,
    /// Handles that were freed, and those of families that were dropped.
    pub freed: Vec<(Kind, Handle)>,
    /// Handles of databases that were closed meanwhile, which are still to be freed.
    pub orphans: Vec<(Kind, Handle)>,
    pub transactions_made: u64,
    pub copies_made: u32,
    /// Merges were cancelled for the rest of this opening.
    pub are_merges_cancelled: bool,
    trace: Vec<String>,
}

/// A text for C.
pub fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path has no zero byte")
}

/// A name for C.
pub fn name(name: &str) -> CString {
    CString::new(name).expect("names here have no zero byte")
}

/// The bytes at `pointer`.
pub fn bytes_at(pointer: *const u8, size: usize) -> Vec<u8> {
    assert!(!pointer.is_null(), "bytes without a place");
    // SAFETY: the library handed both out together.
    unsafe { slice::from_raw_parts(pointer, size) }.to_vec()
}

/// Settings with which little is enough to reach tables and value files.
pub fn small_family(input: &mut Input<'_>) -> FamilyConfig {
    let mut config = c!(tidesdb_default_column_family_config());
    let choice = input.byte();
    config.set_word(128, if choice & 1 == 0 { 4 << 10 } else { 64 << 10 });
    config.set_word(152, if choice & 2 == 0 { 64 } else { 512 });
    config.set_int(160, c_int::from(choice >> 2) % 5);
    config.set_int(164, c_int::from(choice & 4 == 0));
    config.set_int(176, c_int::from(choice & 8 == 0));
    config.set_int(188, if choice & 0x70 == 0 { 1 } else { 0 });
    config.set_word(552, 0);
    config.set_int(560, 2);
    config
}

impl<'a> Session<'a> {
    /// Opens a database with one family.
    pub fn open(bytes: &'a [u8], directory: &Path) -> Self {
        let mut session = Self {
            input: Input(bytes),
            directory: directory.to_owned(),
            db: ptr::null_mut(),
            model: Model::default(),
            transactions: [const { None }; 3],
            iterators: [const { None }; 3],
            snapshots: Vec::new(),
            aborts: Vec::new(),
            freed: Vec::new(),
            orphans: Vec::new(),
            transactions_made: 0,
            copies_made: 0,
            are_merges_cancelled: false,
            trace: Vec::new(),
        };
        session.open_database();
        let config = small_family(&mut session.input);
        let answer = c!(tidesdb_create_column_family(
            session.db,
            c"f".as_ptr(),
            &raw const config
        ));
        session.check("create f", answer, &[code::SUCCESS]);
        session.model.create("f");
        session
    }

    /// The settings of the database, with `path`, which must outlive them.
    pub fn config(path: &CString) -> Config {
        let mut config = c!(tidesdb_default_config());
        config.set_word(0, path.as_ptr().addr() as u64);
        config.set_int(16, 99);
        config.set_word(24, 1 << 20);
        config
    }

    /// Where the database is.
    pub fn path(&self) -> CString {
        text(&self.directory.join("db"))
    }

    /// Opens the database as usual.
    pub fn open_database(&mut self) {
        let path = self.path();
        let config = Self::config(&path);
        let answer = c!(tidesdb_open(&raw const config, &raw mut self.db));
        self.check("open", answer, &[code::SUCCESS]);
    }

    /// Notes a call and compares its answer; a panic inside the library is never right.
    pub fn check(&mut self, what: &str, answer: c_int, allowed: &[c_int]) {
        self.trace.push(format!("{what} = {answer}"));
        assert!(
            allowed.contains(&answer) && answer != code::UNKNOWN,
            "{what} answered {answer} ({}) and not one of {allowed:?}",
            last_message()
        );
        if answer != 0 {
            assert_eq!(c!(kt_last_error_code()), answer, "{what}: the last error");
            assert!(c!(kt_last_error_kind()) > 0, "{what}: the last kind");
        }
    }

    /// Notes something.
    pub fn note(&mut self, what: String) {
        self.trace.push(what);
    }

    /// A family that lives, by its handle and its number.
    pub fn family(&mut self) -> Option<(Handle, FamilyNumber)> {
        let index = self.input.below(self.model.names.len().max(1));
        let (chosen, number) = self.model.names.iter().nth(index)?;
        let (chosen, number) = (name(chosen), *number);
        let handle = c!(tidesdb_get_column_family(self.db, chosen.as_ptr()));
        assert!(
            !handle.is_null(),
            "{chosen:?} has no handle: {}",
            last_message()
        );
        let again = c!(tidesdb_get_column_family(self.db, chosen.as_ptr()));
        assert_eq!(handle, again, "a family has one handle");
        Some((handle, number))
    }

    /// A slot of transactions, and the transaction in it.
    pub fn transaction_slot(&mut self) -> usize {
        self.input.below(3)
    }

    /// Reads everything that is committed, forwards and backwards.
    pub fn compare_everything(&mut self) {
        let mut txn = ptr::null_mut();
        let answer = c!(tidesdb_txn_begin_with_isolation(self.db, 3, &raw mut txn));
        self.check("compare: begin", answer, &[code::SUCCESS]);
        let names: Vec<(String, FamilyNumber)> = self.model.names.clone().into_iter().collect();
        for (family, number) in names {
            let cf = c!(tidesdb_get_column_family(self.db, name(&family).as_ptr()));
            assert!(!cf.is_null(), "family {family:?} is gone");
            let expected: Vec<_> = self.model.committed[&number]
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let found = scan(txn, cf, true);
            assert!(
                found == expected,
                "family {family:?} forwards: {}",
                difference(&found, &expected)
            );
            let mut found = scan(txn, cf, false);
            found.reverse();
            assert!(
                found == expected,
                "family {family:?} backwards: {}",
                difference(&found, &expected)
            );
        }
        c!(tidesdb_txn_free(txn));
        self.freed.push((Kind::Transaction, txn));
    }

    /// Closes the database; what is open in it becomes an orphan.
    pub fn close_database(&mut self) {
        let families: Vec<CString> = self.model.names.keys().map(|family| name(family)).collect();
        for family in families {
            let cf = c!(tidesdb_get_column_family(self.db, family.as_ptr()));
            self.freed.push((Kind::Family, cf));
        }
        let answer = c!(tidesdb_close(self.db));
        self.check("close", answer, &[code::SUCCESS]);
        self.freed.push((Kind::Database, self.db));
        self.are_merges_cancelled = false;
        for open in self.transactions.iter_mut().filter_map(Option::take) {
            self.orphans.push((Kind::Transaction, open.handle));
        }
        for open in self.iterators.iter_mut().filter_map(Option::take) {
            self.orphans.push((Kind::Iterator, open.handle));
        }
        let snapshots = self
            .snapshots
            .drain(..)
            .map(|open| (Kind::Snapshot, open.handle));
        self.orphans.extend(snapshots);
        let aborts = self
            .aborts
            .drain(..)
            .map(|(handle, _)| (Kind::Abort, handle));
        self.orphans.extend(aborts);
    }

    /// Closes, frees what is left, and removes the files.
    pub fn end(mut self) {
        self.close_database();
        for (kind, handle) in std::mem::take(&mut self.orphans) {
            free(kind, handle);
        }
        let content = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        for entry in content {
            // What stays is removed with the directory.
            let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the calls so far:");
            for call in &self.trace {
                eprintln!("  {call}");
            }
        }
    }
}

/// Frees a handle of any kind but databases and families, which have no such call.
pub fn free(kind: Kind, handle: Handle) {
    match kind {
        Kind::Transaction => c!(tidesdb_txn_free(handle)),
        Kind::Iterator => c!(tidesdb_iter_free(handle)),
        Kind::Snapshot => c!(kt_snapshot_free(handle)),
        Kind::Abort => c!(kt_abort_free(handle)),
        Kind::Database | Kind::Family => {}
    }
}

/// The text of the last failure.
pub fn last_message() -> String {
    text_at(c!(kt_last_error_message()))
}

/// The text at `pointer`.
pub fn text_at(pointer: *const c_char) -> String {
    assert!(!pointer.is_null(), "no text");
    // SAFETY: the library handed it out, with a zero byte at its end.
    let text = unsafe { std::ffi::CStr::from_ptr(pointer) };
    text.to_string_lossy().into_owned()
}

/// The entry under an iterator.
pub fn entry_of(iter: Handle) -> (Vec<u8>, Vec<u8>) {
    let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
    let (mut key_size, mut value_size) = (0, 0);
    let answer = c!(tidesdb_iter_key_value(
        iter,
        &raw mut key,
        &raw mut key_size,
        &raw mut value,
        &raw mut value_size
    ));
    assert_eq!(
        answer,
        0,
        "no entry under a valid iterator: {}",
        last_message()
    );
    (bytes_at(key, key_size), bytes_at(value, value_size))
}

fn scan(txn: Handle, cf: Handle, is_forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iter = ptr::null_mut();
    let answer = c!(tidesdb_iter_new(txn, cf, &raw mut iter));
    assert_eq!(answer, 0, "no iterator: {}", last_message());
    let mut answer = if is_forward {
        c!(tidesdb_iter_seek_to_first(iter))
    } else {
        c!(tidesdb_iter_seek_to_last(iter))
    };
    let mut found = Vec::new();
    while answer == 0 {
        found.push(entry_of(iter));
        answer = if is_forward {
            c!(tidesdb_iter_next(iter))
        } else {
            c!(tidesdb_iter_prev(iter))
        };
    }
    assert_eq!(
        answer,
        code::NOT_FOUND,
        "a scan ended early: {}",
        last_message()
    );
    c!(tidesdb_iter_free(iter));
    found
}

fn difference(found: &[(Vec<u8>, Vec<u8>)], expected: &[(Vec<u8>, Vec<u8>)]) -> String {
    let show = |entries: &[(Vec<u8>, Vec<u8>)]| {
        let shown = entries.iter().map(|(key, value)| {
            let first = value.first().copied().unwrap_or(0);
            format!(
                "{}*{}={first}*{}",
                key[0].escape_ascii(),
                key.len(),
                value.len()
            )
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    format!("found [{}], expected [{}]", show(found), show(expected))
}
