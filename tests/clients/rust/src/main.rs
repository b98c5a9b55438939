//! The calls of the crate `tidesdb`, and what they must answer. The crate is as published; the library is the installed one.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tidesdb::{
    ColumnFamily, ColumnFamilyConfig, CompressionAlgorithm, Config, Error, ErrorCode, IsolationLevel,
    LogLevel, Result, SyncMode, TidesDB,
};

/// A directory that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("rust-client-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() -> Result<()> {
    let folder = Folder::new();
    library();
    families(&open(&folder, "families")?)?;
    transactions(&open(&folder, "transactions")?)?;
    iterators(&open(&folder, "iterators")?)?;
    hooks(&open(&folder, "hooks")?)?;
    comparators(&open(&folder, "comparators")?)?;
    configurations(&folder)?;
    maintenance(&folder)?;
    println!("rust: ok");
    Ok(())
}

fn open(folder: &Folder, name: &str) -> Result<TidesDB> {
    TidesDB::open(Config::new(folder.at(name)).log_level(LogLevel::None))
}

fn create(db: &TidesDB, name: &str) -> Result<ColumnFamily> {
    db.create_column_family(name, ColumnFamilyConfig::new())?;
    db.get_column_family(name)
}

fn code<T>(result: Result<T>) -> Option<ErrorCode> {
    match result {
        Err(Error::TidesDB { code, .. }) => Some(code),
        _ => None,
    }
}

fn put(db: &TidesDB, family: &ColumnFamily, key: &str, value: &str) -> Result<()> {
    let mut txn = db.begin_transaction()?;
    txn.put(family, key.as_bytes(), value.as_bytes(), -1)?;
    txn.commit()
}

fn get(db: &TidesDB, family: &ColumnFamily, key: &str) -> Result<Vec<u8>> {
    db.begin_transaction()?.get(family, key.as_bytes())
}

fn library() {
    tidesdb::init().expect("the first time");
    assert!(tidesdb::init().is_err());
    tidesdb::finalize();
    let limit = tidesdb::raise_open_file_limit(0);
    assert!(limit > 0 && tidesdb::raise_open_file_limit(limit) >= limit);
}

fn families(db: &TidesDB) -> Result<()> {
    let one = create(db, "one")?;
    assert_eq!(one.name(), "one");
    assert_eq!(code(create(db, "one")), Some(ErrorCode::Exists));
    put(db, &one, "k", "v")?;
    db.clone_column_family("one", "copy")?;
    db.rename_column_family("one", "first")?;
    let mut names = db.list_column_families()?;
    names.sort();
    assert_eq!(names, ["copy", "first"]);
    assert_eq!(get(db, &db.get_column_family("copy")?, "k")?, b"v");
    assert_eq!(get(db, &db.get_column_family("first")?, "k")?, b"v");
    db.drop_column_family("copy")?;
    assert_eq!(code(db.drop_column_family("copy")), Some(ErrorCode::NotFound));
    db.delete_column_family(db.get_column_family("first")?)?;
    assert!(db.list_column_families()?.is_empty());
    Ok(())
}

fn transactions(db: &TidesDB) -> Result<()> {
    let cf = create(db, "cf")?;
    let mut txn = db.begin_transaction()?;
    txn.put(&cf, b"a", b"1", -1)?;
    txn.savepoint("before")?;
    txn.put(&cf, b"a", b"2", -1)?;
    txn.rollback_to_savepoint("before")?;
    txn.savepoint("again")?;
    txn.release_savepoint("again")?;
    assert_eq!(txn.get(&cf, b"a")?, b"1");
    txn.commit()?;
    assert_eq!(code(txn.commit()), Some(ErrorCode::InvalidArgs));
    txn.reset(IsolationLevel::Snapshot)?;
    txn.delete(&cf, b"a")?;
    txn.single_delete(&cf, b"b")?;
    txn.rollback()?;
    assert_eq!(get(db, &cf, "a")?, b"1");
    let missing = get(db, &cf, "b").expect_err("nothing there");
    assert!(missing.is_not_found());

    for level in [IsolationLevel::Snapshot, IsolationLevel::Serializable] {
        let mut first = db.begin_transaction_with_isolation(level)?;
        let mut second = db.begin_transaction_with_isolation(level)?;
        first.put(&cf, b"a", b"1", -1)?;
        second.put(&cf, b"a", b"2", -1)?;
        first.commit()?;
        assert!(second.commit().expect_err("came second").is_conflict());
    }
    let mut txn = db.begin_transaction()?;
    txn.put(&cf, b"expired", b"x", 1)?;
    txn.put(&cf, b"empty", b"", 0)?;
    txn.commit()?;
    assert!(get(db, &cf, "expired").expect_err("long ago").is_not_found());
    assert_eq!(get(db, &cf, "empty")?, b"");
    Ok(())
}

fn iterators(db: &TidesDB) -> Result<()> {
    let cf = create(db, "cf")?;
    let key = |number: u32| format!("key{number:04}");
    let mut txn = db.begin_transaction()?;
    for number in (0..1000).step_by(2) {
        txn.put(&cf, key(number).as_bytes(), &number.to_be_bytes(), -1)?;
    }
    txn.commit()?;
    let txn = db.begin_transaction()?;
    let mut iterator = txn.new_iterator(&cf)?;
    iterator.seek_to_first()?;
    let mut count = 0;
    while iterator.is_valid() {
        assert_eq!(iterator.key()?, key(2 * count).as_bytes());
        count += 1;
        // The last step answers "not found" and leaves the iterator on nothing.
        if iterator.next().is_err() {
            break;
        }
    }
    assert_eq!(count, 500);
    iterator.seek_to_last()?;
    assert_eq!(iterator.key_value()?, (key(998).into_bytes(), 998u32.to_be_bytes().to_vec()));
    iterator.prev()?;
    assert_eq!(iterator.key()?, key(996).as_bytes());
    iterator.seek(key(11).as_bytes())?;
    assert_eq!(iterator.value()?, 12u32.to_be_bytes());
    iterator.seek_for_prev(key(11).as_bytes())?;
    assert_eq!(iterator.value()?, 10u32.to_be_bytes());
    Ok(())
}

fn hooks(db: &TidesDB) -> Result<()> {
    let mut cf = create(db, "cf")?;
    let seen = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&seen);
    cf.set_commit_hook(move |operations, _sequence| {
        counter.fetch_add(operations.len() as u64, Ordering::SeqCst);
        0
    })?;
    put(db, &cf, "a", "1")?;
    put(db, &cf, "b", "2")?;
    cf.clear_commit_hook()?;
    put(db, &cf, "c", "3")?;
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    Ok(())
}

fn comparators(db: &TidesDB) -> Result<()> {
    for name in ["memcmp", "lexicographic", "uint64", "int64", "reverse", "case_insensitive"] {
        assert!(db.has_comparator(name), "{name}");
    }
    assert!(!db.has_comparator("by_length"));
    db.register_comparator("by_length", |left, right| {
        let order = left.len().cmp(&right.len()).then_with(|| left.cmp(right));
        order as i32
    })?;
    assert!(db.has_comparator("by_length"));
    db.create_column_family("cf", ColumnFamilyConfig::new().comparator_name("by_length"))?;
    let cf = db.get_column_family("cf")?;
    for key in ["ccc", "bb", "a", "aa"] {
        put(db, &cf, key, key)?;
    }
    let txn = db.begin_transaction()?;
    let mut iterator = txn.new_iterator(&cf)?;
    iterator.seek_to_first()?;
    for key in ["a", "aa", "bb", "ccc"] {
        assert_eq!(iterator.key()?, key.as_bytes());
        let _ = iterator.next();
    }
    Ok(())
}

fn configurations(folder: &Folder) -> Result<()> {
    let wanted = ColumnFamilyConfig::new()
        .write_buffer_size(1 << 20)
        .compression_algorithm(CompressionAlgorithm::Zstd)
        .bloom_fpr(0.02)
        .sync_mode(SyncMode::Interval)
        .sync_interval_us(5000);
    let file = folder.at("families.ini");
    wanted.save_to_ini(&file, "ships")?;
    let found = ColumnFamilyConfig::load_from_ini(&file, "ships")?;
    assert_eq!(found.write_buffer_size, wanted.write_buffer_size);
    assert_eq!(found.compression_algorithm as i32, CompressionAlgorithm::Zstd as i32);
    assert_eq!(found.sync_interval_us, 5000);

    let db = open(folder, "configurations")?;
    db.create_column_family("ships", found.clone())?;
    let ships = db.get_column_family("ships")?;
    ships.update_runtime_config(&found.write_buffer_size(2 << 20), true)?;
    let config = ships.get_stats()?.config.expect("settings in force");
    assert_eq!(config.write_buffer_size, 2 << 20);
    Ok(())
}

fn maintenance(folder: &Folder) -> Result<()> {
    let db = open(folder, "maintenance")?;
    let cf = create(&db, "cf")?;
    let mut txn = db.begin_transaction()?;
    for number in 0..1000u32 {
        txn.put(&cf, &number.to_be_bytes(), &[7; 100], -1)?;
    }
    txn.commit()?;
    cf.flush_memtable()?;
    let _ = (cf.is_flushing(), cf.is_compacting());
    cf.compact_range(Some(&[0]), Some(&[1]))?;
    assert_eq!(code(cf.compact_range(None, None)), Some(ErrorCode::InvalidArgs));
    cf.compact()?;
    cf.purge()?;
    db.purge()?;
    assert!(!cf.is_flushing() && !cf.is_compacting());
    cf.sync_wal()?;
    assert!(cf.range_cost(&[0], &[255])? >= 0.0);
    let stats = cf.get_stats()?;
    assert_eq!((stats.total_keys, stats.user_bytes_written), (1000, 104_000));
    let database = db.get_db_stats()?;
    assert_eq!((database.num_column_families, database.user_bytes_written), (1, 104_000));
    assert!(db.get_cache_stats()?.enabled);
    for copy in ["backup", "checkpoint"] {
        let place = folder.at(copy);
        if copy == "backup" {
            db.backup(&place)?;
        } else {
            db.checkpoint(&place)?;
        }
        let copy = open(folder, copy)?;
        let cf = copy.get_column_family("cf")?;
        assert_eq!(copy.begin_transaction()?.get(&cf, &999u32.to_be_bytes())?, [7; 100]);
    }
    assert_eq!(code(db.promote_to_primary()), Some(ErrorCode::InvalidArgs));
    db.cancel_background_work()
}
