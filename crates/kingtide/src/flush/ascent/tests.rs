//! Loads of numbered batches of a hundred keys each, in a world in memory; a flush begins when a test says so.

use kingtide_env::MemoryEnv;

use super::*;
use crate::{ColumnFamily, Db, FamilyOptions, Options, SyncMode};

/// Keys of a batch.
const BATCH: u64 = 100;

fn open() -> (Db, ColumnFamily) {
    let options = Options {
        env: Some(Arc::new(MemoryEnv::new(1))),
        ..Options::default()
    };
    let db = Db::open("/db", options).expect("the database opens");
    let options = FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        // Nothing is merged.
        l1_file_count_trigger: 1000,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", options).expect("a new name");
    (db, family)
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn put(db: &Db, family: &ColumnFamily, keys: impl IntoIterator<Item = u64>) {
    let mut transaction = db.begin().expect("open");
    for number in keys {
        let put = transaction.put(family, &key(number), &[7; 40]);
        put.expect("healthy");
    }
    transaction.commit().expect("healthy");
}

/// Writes batches into one memtable for each list, and flushes them when all are there.
fn load(db: &Db, family: &ColumnFamily, memtables: &[&[u64]]) {
    let flushing = family.family.flushing.lock();
    for batches in memtables {
        for batch in *batches {
            put(db, family, batch * BATCH..(batch + 1) * BATCH);
        }
        db.seal(family);
    }
    drop(flushing);
    db.flush(family).expect("healthy");
}

/// The tables in key order: level, first key, entries.
fn tables(family: &ColumnFamily) -> Vec<(u8, u64, u64)> {
    let version = Arc::clone(&family.family.load().version);
    let first_key = |table: &kingtide_format::TableMeta| {
        let text = String::from_utf8_lossy(&table.smallest);
        text.parse().expect("a number")
    };
    let tables = version.tables();
    let mut tables: Vec<_> = tables
        .map(|(level, table)| (level, first_key(table), table.entries))
        .collect();
    tables.sort_by_key(|(_, first, _)| *first);
    tables
}

fn all_on_one_level(tables: &[(u8, u64, u64)]) -> bool {
    tables.iter().all(|(level, ..)| *level == tables[0].0) && tables[0].0 > 1
}

/// Goal: commits that come late are put between tables, and nothing is left to be merged. Method: two batches come after the
/// memtable that they belong to was sealed; batches within a memtable are in disorder too, which is no reason to cut.
#[test]
fn stragglers_find_their_place_between_tables() {
    let (db, family) = open();
    load(
        &db,
        &family,
        &[&[0, 2, 1, 4, 3, 6, 7, 9], &[5, 10, 8, 12, 11, 14, 13, 15]],
    );
    let tables = tables(&family);
    assert!(all_on_one_level(&tables), "{tables:?}");
    let found: Vec<_> = tables
        .iter()
        .map(|(_, first, entries)| (first / BATCH, entries / BATCH))
        .collect();
    assert_eq!(found, [(0, 5), (5, 1), (6, 2), (8, 1), (9, 1), (10, 6)]);
}

/// Goal: a straggler of one key is enough. Method: as above, with a key that is left out.
#[test]
fn single_keys_find_their_place_too() {
    let (db, family) = open();
    let flushing = family.family.flushing.lock();
    put(&db, &family, (0..800).filter(|number| *number != 700));
    db.seal(&family);
    put(&db, &family, (700..=700).chain(800..1600));
    drop(flushing);
    db.flush(&family).expect("healthy");
    let tables = tables(&family);
    let last = tables[0].0;
    assert_eq!(
        tables,
        [
            (last, 0, 700),
            (last, 700, 1),
            (last, 701, 99),
            (last, 800, 800)
        ]
    );
}

/// Goal: what changes keys that are there does not keep an ascending load above the last level. Method: a memtable with changes
/// all over the keys of the one before.
#[test]
fn changes_beside_an_ascending_load_stay_apart_from_it() {
    let (db, family) = open();
    load(&db, &family, &[&[0, 1, 2, 3, 4, 5, 6, 7]]);
    put(&db, &family, (0..800).step_by(10));
    load(&db, &family, &[&[8, 9, 10, 11]]);
    let tables = tables(&family);
    let last = tables[0].0.max(tables[1].0);
    assert_eq!(tables.len(), 3, "{tables:?}");
    assert!(tables.contains(&(1, 0, 80)), "{tables:?}");
    assert!(tables.contains(&(last, 800, 400)), "{tables:?}");
}

/// Goal: a load without order is not cut. Method: three memtables, each with every third key.
#[test]
fn loads_without_order_are_not_cut() {
    let (db, family) = open();
    let flushing = family.family.flushing.lock();
    for offset in 0..3 {
        put(&db, &family, (0..2000).map(|number| 3 * number + offset));
        db.seal(&family);
    }
    drop(flushing);
    db.flush(&family).expect("healthy");
    assert_eq!(tables(&family).len(), 3);
}
