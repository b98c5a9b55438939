//! How often a load of ascending keys is written to tables, and what is left when everything is deleted again.
//!
//! `cargo run --release -p kingtide --example ascending_ranges -- 5000000`: that many keys of 16 bytes with values of 100
//! bytes, loaded by eight threads, each with its own ascending range; then all of them are deleted, and the database
//! rests.
#![expect(clippy::print_stdout, reason = "a program that shows what it measures")]

use std::{path::Path, thread, time::Instant};

use kingtide::{ColumnFamily, Db, FamilyOptions, Options, Result, SyncMode};

const THREADS: u64 = 8;
const BATCH: u64 = 1000;

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A value that compresses to about half.
fn value(number: u64) -> [u8; 100] {
    let mut value = [b'v'; 100];
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in &mut value[..50] {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    value
}

fn disk_bytes(path: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += match meta.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => meta.len(),
        };
    }
    Ok(bytes)
}

fn in_threads(
    db: &Db,
    keys: u64,
    write: impl Fn(&mut kingtide::Transaction, u64) -> Result<()> + Sync,
) -> Result<()> {
    let each = keys / THREADS;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let write = &write;
                scope.spawn(move || -> Result<()> {
                    let range = thread * each..(thread + 1) * each;
                    for first in range.clone().step_by(BATCH as usize) {
                        let mut transaction = db.begin()?;
                        for number in first..(first + BATCH).min(range.end) {
                            write(&mut transaction, number)?;
                        }
                        transaction.commit()?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })
}

fn show(db: &Db, family: &ColumnFamily, what: &str, path: &Path) -> Result<()> {
    db.wait_idle()?;
    let stats = db.family_stats(family)?;
    let (flushed, merged) = (stats.flush_bytes_written, stats.merge_bytes_written);
    let bytes = disk_bytes(path).unwrap_or(0);
    println!(
        "{what}: flushed {flushed} bytes, merged {merged}, written {:.3} times; {bytes} bytes on disk",
        1.0 + merged as f64 / flushed.max(1) as f64
    );
    for level in stats.levels.iter().filter(|level| level.files > 0) {
        println!(
            "  level {}: {} tables, {} bytes",
            level.level, level.files, level.bytes
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let keys = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let keys = keys.unwrap_or(200_000);
    let directory = match std::env::args().nth(2) {
        Some(path) => tempfile::tempdir_in(path),
        None => tempfile::tempdir(),
    }
    .expect("a directory can be made");
    let path = directory.path();
    let db = Db::open(path, Options::default())?;
    let options = FamilyOptions {
        sync: SyncMode::None,
        write_buffer_bytes: 64 << 20,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", options)?;
    let begun = Instant::now();
    in_threads(&db, keys, |transaction, number| {
        transaction.put(&family, &key(number), &value(number))
    })?;
    println!("loaded in {:.1} s", begun.elapsed().as_secs_f64());
    db.flush(&family)?;
    show(&db, &family, "loaded", path)?;
    in_threads(&db, keys, |transaction, number| {
        transaction.delete(&family, &key(number))
    })?;
    show(&db, &family, "deleted and idle", path)?;
    db.close()?;
    println!("closed: {} bytes on disk", disk_bytes(path).unwrap_or(0));
    Ok(())
}
