//! Shows how much faster one large merge is with more threads: the same tables are merged to the bottom with one thread
//! and with several.
//!
//! ```text
//! cargo run --release -p kingtide --example merge_threads -- [directory] [MiB] [threads]
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example shows what it found"
)]

use std::{env, fs, path::Path, time::Instant};

use kingtide::{Db, FamilyOptions, Options, SyncMode};

const VALUE_BYTES: usize = 100;
const ENTRIES_PER_COMMIT: usize = 1000;

/// A number that looks random (SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 31)
}

/// Fills a database with tables that overlap and merges them; answers the seconds that the merge took.
fn merge(path: &Path, mebibytes: usize, threads: usize) -> kingtide::Result<f64> {
    let options = Options {
        compaction_threads: threads,
        ..Options::default()
    };
    let db = Db::open(path, options)?;
    let options = FamilyOptions {
        sync: SyncMode::None,
        // No merge but the one that is asked for.
        l1_file_count_trigger: 10_000,
        ..FamilyOptions::default()
    };
    let family = db.open_family("f", options)?;
    let entries = mebibytes * (1 << 20) / (VALUE_BYTES + 8);
    for first in (0..entries).step_by(ENTRIES_PER_COMMIT) {
        let mut transaction = db.begin()?;
        for number in first..(first + ENTRIES_PER_COMMIT).min(entries) {
            let key = mixed(number as u64);
            let mut value = [0; VALUE_BYTES];
            // Half of it compresses.
            for (index, part) in value[..VALUE_BYTES / 2].chunks_mut(8).enumerate() {
                let bytes = mixed(key ^ index as u64).to_le_bytes();
                part.copy_from_slice(&bytes[..part.len()]);
            }
            transaction.put(&family, &key.to_be_bytes(), &value)?;
        }
        transaction.commit()?;
    }
    db.flush(&family)?;
    let stats = db.family_stats(&family)?;
    let tables: usize = stats.levels.iter().map(|level| level.files).sum();
    let begun = Instant::now();
    db.compact(&family)?;
    let seconds = begun.elapsed().as_secs_f64();
    let written = db.family_stats(&family)?.merge_bytes_written;
    println!(
        "{threads} threads: {tables} tables merged in {seconds:.2} s, {:.0} MiB written, {:.0} MiB/s",
        written as f64 / f64::from(1 << 20),
        written as f64 / f64::from(1 << 20) / seconds,
    );
    db.close()?;
    Ok(seconds)
}

fn main() -> kingtide::Result<()> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().unwrap_or("merge_threads.db".to_owned());
    let path = Path::new(&path);
    let mut number = |default| match arguments.next().map(|text| text.parse()) {
        None => default,
        Some(Ok(number)) => number,
        Some(Err(_)) => {
            eprintln!("not a number: {default} is taken");
            default
        }
    };
    let (mebibytes, threads) = (number(512), number(2));
    let mut seconds = Vec::new();
    for threads in [1, threads] {
        let _ = fs::remove_dir_all(path);
        seconds.push(merge(path, mebibytes, threads)?);
    }
    let _ = fs::remove_dir_all(path);
    println!("{:.2} times as fast", seconds[0] / seconds[1]);
    Ok(())
}
