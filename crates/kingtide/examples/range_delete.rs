//! How long it takes to delete a million keys one by one, and at once.
//!
//! `cargo run --release -p kingtide --example range_delete`

#![expect(clippy::print_stdout, reason = "a program that shows what it measures")]

use std::{error::Error, time::Instant};

use kingtide::{ColumnFamily, Db, FamilyOptions, IterOptions, Options, SyncMode};

const KEYS: u32 = 1_000_000;
const BATCH: u32 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), Options::default())?;
    let family = db.open_family(
        "keys",
        FamilyOptions {
            sync: SyncMode::None,
            ..FamilyOptions::default()
        },
    )?;
    fill(&db, &family)?;
    let start = Instant::now();
    for batch in (0..KEYS).step_by(BATCH as usize) {
        let mut transaction = db.begin()?;
        for index in batch..(batch + BATCH).min(KEYS) {
            transaction.delete(&family, &index.to_be_bytes())?;
        }
        transaction.commit()?;
    }
    println!("one by one, in batches of {BATCH}: {:?}", start.elapsed());
    fill(&db, &family)?;
    let start = Instant::now();
    db.delete_range(&family, &[0; 4], &KEYS.to_be_bytes())?;
    println!("at once: {:?}", start.elapsed());
    let start = Instant::now();
    let left = db.iter(&family, IterOptions::default())?.entries().count();
    println!("an iterator finds {left} keys after {:?}", start.elapsed());
    db.close()?;
    Ok(())
}

fn fill(db: &Db, family: &ColumnFamily) -> kingtide::Result<()> {
    for batch in (0..KEYS).step_by(BATCH as usize) {
        let mut transaction = db.begin()?;
        for index in batch..(batch + BATCH).min(KEYS) {
            transaction.put(family, &index.to_be_bytes(), b"a value of some length")?;
        }
        transaction.commit()?;
    }
    db.flush(family)
}
