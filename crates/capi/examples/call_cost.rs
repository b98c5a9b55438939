//! What a call through C costs over the same call in Rust: puts into a transaction, gets of what is in memory, transactions that
//! are begun and freed, and steps of an iterator, each with a look at key and value.
//!
//! `cargo run --release -p kingtide-capi --example call_cost`, on a quiet machine. Both sides run in turns, in one process,
//! on databases of their own; the median of the rounds is printed.
#![expect(
    clippy::print_stdout,
    reason = "a program that measures reports on its standard output"
)]

use std::{
    error::Error,
    ffi::{CString, c_char, c_int, c_void},
    hint::black_box,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    time::Instant,
};

use kingtide::{ColumnFamily, Db, FamilyOptions, IterOptions, Options, SyncMode, Transaction};
use kingtide_capi as _;

const ROUNDS: usize = 41;
const CALLS: u32 = 20_000;
const VALUE: &[u8] = &[7; 100];

/// `tidesdb_config_t`; the path comes first.
#[repr(C)]
struct Config([usize; 16]);

/// `tidesdb_column_family_config_t`.
#[repr(C)]
struct FamilyConfig([u64; 78]);

unsafe extern "C" {
    fn free(pointer: *mut c_void);
    fn tidesdb_default_config() -> Config;
    fn tidesdb_default_column_family_config() -> FamilyConfig;
    fn tidesdb_open(config: *const Config, db: *mut *mut c_void) -> c_int;
    fn tidesdb_close(db: *mut c_void) -> c_int;
    fn tidesdb_create_column_family(
        db: *mut c_void,
        name: *const c_char,
        config: *const FamilyConfig,
    ) -> c_int;
    fn tidesdb_get_column_family(db: *mut c_void, name: *const c_char) -> *mut c_void;
    fn tidesdb_txn_begin(db: *mut c_void, txn: *mut *mut c_void) -> c_int;
    fn tidesdb_txn_commit(txn: *mut c_void) -> c_int;
    fn tidesdb_txn_reset(txn: *mut c_void, isolation: c_int) -> c_int;
    fn tidesdb_txn_free(txn: *mut c_void);
    fn tidesdb_flush_memtable(cf: *mut c_void) -> c_int;
    fn kt_wait_idle(db: *mut c_void) -> c_int;
    fn tidesdb_iter_new(txn: *mut c_void, cf: *mut c_void, iter: *mut *mut c_void) -> c_int;
    fn tidesdb_iter_seek_to_first(iter: *mut c_void) -> c_int;
    fn tidesdb_iter_valid(iter: *mut c_void) -> c_int;
    fn tidesdb_iter_key(iter: *mut c_void, key: *mut *mut u8, size: *mut usize) -> c_int;
    fn tidesdb_iter_value(iter: *mut c_void, value: *mut *mut u8, size: *mut usize) -> c_int;
    fn tidesdb_iter_next(iter: *mut c_void) -> c_int;
    fn tidesdb_iter_free(iter: *mut c_void);
    fn tidesdb_txn_put(
        txn: *mut c_void,
        cf: *mut c_void,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
        ttl: i64,
    ) -> c_int;
    fn tidesdb_txn_get(
        txn: *mut c_void,
        cf: *mut c_void,
        key: *const u8,
        key_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
    ) -> c_int;
}

/// One side: a database behind the C functions.
struct ThroughC {
    db: *mut c_void,
    cf: *mut c_void,
    txn: *mut c_void,
}

fn expect_success(code: c_int) {
    assert_eq!(code, 0, "a call through C failed");
}

impl ThroughC {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let (mut db, mut txn) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: no arguments.
        let mut config = unsafe { tidesdb_default_config() };
        config.0[0] = path.as_ptr().addr();
        // SAFETY: the struct, its path and the place for the handle live for the call.
        expect_success(unsafe { tidesdb_open(&raw const config, &raw mut db) });
        // SAFETY: no arguments.
        let settings = unsafe { tidesdb_default_column_family_config() };
        // SAFETY: the name and the struct live for the call.
        let code = unsafe { tidesdb_create_column_family(db, c"f".as_ptr(), &raw const settings) };
        expect_success(code);
        // SAFETY: the name lives for the call.
        let cf = unsafe { tidesdb_get_column_family(db, c"f".as_ptr()) };
        // SAFETY: the place for the handle lives for the call.
        expect_success(unsafe { tidesdb_txn_begin(db, &raw mut txn) });
        Ok(Self { db, cf, txn })
    }

    fn put(&self, key: &[u8]) {
        let (size, value_size) = (key.len(), VALUE.len());
        // SAFETY: key and value live for the call.
        let code = unsafe {
            tidesdb_txn_put(
                self.txn,
                self.cf,
                key.as_ptr(),
                size,
                VALUE.as_ptr(),
                value_size,
                0,
            )
        };
        expect_success(code);
    }

    fn get(&self, key: &[u8]) {
        let (mut value, mut size) = (ptr::null_mut(), 0);
        let (key, key_size) = (key.as_ptr(), key.len());
        // SAFETY: key and places live for the call.
        let code = unsafe {
            tidesdb_txn_get(
                self.txn,
                self.cf,
                key,
                key_size,
                &raw mut value,
                &raw mut size,
            )
        };
        expect_success(code);
        // SAFETY: the caller owns it.
        unsafe { free(value.cast()) };
    }

    fn begin(&self) -> *mut c_void {
        let mut txn = ptr::null_mut();
        // SAFETY: the place for the handle lives for the call.
        expect_success(unsafe { tidesdb_txn_begin(self.db, &raw mut txn) });
        txn
    }

    fn begin_and_free(&self) {
        // SAFETY: any handle may be passed.
        unsafe { tidesdb_txn_free(self.begin()) };
    }

    /// An iterator of `txn`, on the first key, when all are in one table.
    fn iterate(&self, txn: *mut c_void) -> *mut c_void {
        // SAFETY: any handle may be passed.
        expect_success(unsafe { tidesdb_flush_memtable(self.cf) });
        // SAFETY: any handle may be passed.
        expect_success(unsafe { kt_wait_idle(self.db) });
        let mut iter = ptr::null_mut();
        // SAFETY: the place for the handle lives for the call.
        expect_success(unsafe { tidesdb_iter_new(txn, self.cf, &raw mut iter) });
        // SAFETY: any handle may be passed.
        expect_success(unsafe { tidesdb_iter_seek_to_first(iter) });
        iter
    }

    fn commit(&self) {
        // SAFETY: any handle may be passed.
        expect_success(unsafe { tidesdb_txn_commit(self.txn) });
        // SAFETY: any handle may be passed.
        expect_success(unsafe { tidesdb_txn_reset(self.txn, 1) });
    }

    fn close(self) {
        // SAFETY: any handle may be passed.
        unsafe { tidesdb_txn_free(self.txn) };
        // SAFETY: any handle may be passed.
        expect_success(unsafe { tidesdb_close(self.db) });
    }
}

/// The other side: the same in Rust.
struct InRust {
    db: Db,
    family: ColumnFamily,
    transaction: Transaction,
}

impl InRust {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let db = Db::open(path, Options::default())?;
        let options = FamilyOptions {
            sync: SyncMode::None,
            ..FamilyOptions::default()
        };
        let family = db.create_family("f", options)?;
        let transaction = db.begin()?;
        Ok(Self {
            db,
            family,
            transaction,
        })
    }
}

/// One step as C programs walk: four calls.
fn step(iter: *mut c_void) {
    let (mut bytes, mut size) = (ptr::null_mut(), 0);
    // SAFETY: any handle may be passed.
    assert_eq!(unsafe { tidesdb_iter_valid(iter) }, 1, "a key is there");
    // SAFETY: the places live for the call.
    expect_success(unsafe { tidesdb_iter_key(iter, &raw mut bytes, &raw mut size) });
    // SAFETY: as above.
    expect_success(unsafe { tidesdb_iter_value(iter, &raw mut bytes, &raw mut size) });
    // SAFETY: any handle may be passed. Behind the last key it answers that there is none.
    unsafe { tidesdb_iter_next(iter) };
}

/// Nanoseconds of one call of `call`, over all keys.
fn time(keys: &[[u8; 16]], mut call: impl FnMut(&[u8])) -> f64 {
    let start = Instant::now();
    for key in keys {
        call(key);
    }
    start.elapsed().as_nanos() as f64 / keys.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let c = ThroughC::open(&directory.path().join("c"))?;
    let mut rust = InRust::open(&directory.path().join("rust"))?;
    let keys: Vec<[u8; 16]> = (0..CALLS)
        .map(|number| {
            let mut key = [b'k'; 16];
            key[12..].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
            key
        })
        .collect();
    let mut rounds: [(Vec<f64>, Vec<f64>); 4] = Default::default();
    let [puts, gets, begins, steps] = &mut rounds;
    for _ in 0..ROUNDS {
        puts.0.push(time(&keys, |key| c.put(key)));
        c.commit();
        gets.0.push(time(&keys, |key| c.get(key)));
        puts.1.push(time(&keys, |key| {
            let outcome = rust.transaction.put(&rust.family, key, VALUE);
            outcome.expect("within all limits");
        }));
        rust.transaction.commit()?;
        rust.transaction.reset()?;
        gets.1.push(time(&keys, |key| {
            let value = rust.transaction.get(&rust.family, key);
            drop(value.expect("was put").map(|value| value.to_vec()));
        }));
        begins.0.push(time(&keys, |_| c.begin_and_free()));
        begins.1.push(time(&keys, |_| {
            drop(rust.db.begin().expect("it is open"));
        }));
        let txn = c.begin();
        let iter = c.iterate(txn);
        rust.db.flush(&rust.family)?;
        rust.db.wait_idle()?;
        steps.0.push(time(&keys, |_| step(iter)));
        // SAFETY: any handle may be passed.
        unsafe { tidesdb_iter_free(iter) };
        // SAFETY: any handle may be passed.
        unsafe { tidesdb_txn_free(txn) };
        let mut iter = rust.db.iter(&rust.family, IterOptions::default())?;
        iter.seek_to_first()?;
        steps.1.push(time(&keys, |_| {
            black_box(iter.entry().expect("a key is there"));
            iter.next().expect("storage works");
        }));
    }
    let names = ["put", "get", "begin and free", "step of an iterator"];
    for (name, (through_c, in_rust)) in names.into_iter().zip(rounds) {
        let (through_c, in_rust) = (median(through_c), median(in_rust));
        let more = through_c - in_rust;
        println!("{name}: {through_c:.1} ns through C, {in_rust:.1} ns in Rust, {more:+.1} ns");
    }
    c.close();
    rust.transaction.rollback()?;
    rust.db.close()?;
    Ok(())
}
