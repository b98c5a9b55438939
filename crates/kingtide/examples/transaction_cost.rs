//! What isolation costs: puts at snapshot and serializable level, and reads at serializable, against read committed.
//!
//! All levels run in one process on one family, in turns, so that they share whatever the machine does meanwhile; of the
//! turns the fastest counts. Build with `--release` and run on a quiet machine.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::{fs, sync::OnceLock, time::Instant};

use kingtide::{
    ColumnFamily, Db, FamilyOptions, IsolationLevel, IterOptions, Options, Result, SyncMode,
    TransactionOptions,
};

const KEYS: u64 = 100_000;
const TURNS: usize = 30;
const OPERATIONS: u64 = 50_000;

/// A measured piece of work: `operations` of them at a level; `first` moves from turn to turn.
type Work = fn(&Db, &ColumnFamily, IsolationLevel, first: u64) -> Result<()>;

/// Nanoseconds since the first call.
fn nanos_now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key-............";
    key[8..].copy_from_slice(&(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % KEYS).to_be_bytes());
    key
}

fn at(isolation: IsolationLevel) -> TransactionOptions {
    TransactionOptions {
        isolation,
        ..TransactionOptions::default()
    }
}

fn single_puts(db: &Db, family: &ColumnFamily, level: IsolationLevel, first: u64) -> Result<()> {
    let mut transaction = db.begin_with(at(level))?;
    for number in first..first + OPERATIONS {
        transaction.put(family, &key(number), &[7; 100])?;
        transaction.commit()?;
        transaction.reset()?;
    }
    Ok(())
}

fn batched_puts(db: &Db, family: &ColumnFamily, level: IsolationLevel, first: u64) -> Result<()> {
    let mut transaction = db.begin_with(at(level))?;
    for number in first..first + OPERATIONS {
        transaction.put(family, &key(number), &[7; 100])?;
        if number % 100 == 99 {
            transaction.commit()?;
            transaction.reset()?;
        }
    }
    transaction.commit().map(|_| ())
}

/// A hundred reads for each write, so that what was read is checked.
fn reads(db: &Db, family: &ColumnFamily, level: IsolationLevel, first: u64) -> Result<()> {
    let mut transaction = db.begin_with(at(level))?;
    for number in first..first + OPERATIONS {
        transaction.get(family, &key(number))?;
        if number % 100 == 99 {
            transaction.put(family, b"result", b"")?;
            transaction.commit()?;
            transaction.reset()?;
        }
    }
    transaction.commit().map(|_| ())
}

fn scans(db: &Db, family: &ColumnFamily, level: IsolationLevel, first: u64) -> Result<()> {
    let mut transaction = db.begin_with(at(level))?;
    for number in (first..first + OPERATIONS).step_by(100) {
        let mut iter = transaction.iter(family, IterOptions::default())?;
        let mut is_valid = iter.seek(&key(number))?;
        for _ in 0..100 {
            if !is_valid {
                break;
            }
            is_valid = iter.next()?;
        }
        drop(iter);
        transaction.put(family, b"result", b"")?;
        transaction.commit()?;
        transaction.reset()?;
    }
    Ok(())
}

/// Nanoseconds for each operation at each level.
fn measure(db: &Db, family: &ColumnFamily, work: Work) -> Result<Vec<f64>> {
    let mut nanos = vec![Vec::new(); IsolationLevel::ALL.len()];
    for turn in 0..TURNS {
        for (level, nanos) in IsolationLevel::ALL.into_iter().zip(&mut nanos) {
            let start = nanos_now();
            work(db, family, level, turn as u64 * OPERATIONS)?;
            nanos.push((nanos_now() - start) as f64 / OPERATIONS as f64);
        }
    }
    let fastest = |turns: Vec<f64>| turns.into_iter().fold(f64::INFINITY, f64::min);
    Ok(nanos.into_iter().map(fastest).collect())
}

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("kingtide-cost-{}", std::process::id()));
    let db = Db::open(&directory, Options::default())?;
    let options = FamilyOptions {
        sync: SyncMode::None,
        ..FamilyOptions::default()
    };
    let works: [(&str, Work); 4] = [
        ("put, one in a transaction", single_puts),
        ("put, 100 in a transaction", batched_puts),
        ("get, 100 in a transaction", reads),
        ("step of a scan of 100", scans),
    ];
    println!("nanoseconds for each operation, and how often that of read committed");
    for is_flushed in [false, true] {
        let place = if is_flushed { "tables" } else { "memory" };
        println!(
            "\n{:28} {}",
            place,
            IsolationLevel::ALL
                .map(|level| format!("{:>21}", format!("{level:?}")))
                .join("")
        );
        for (name, work) in works {
            let family = db.open_family(&format!("{name} {place}"), options.clone())?;
            for number in 0..KEYS {
                db.put(&family, &key(number), &[7; 100])?;
            }
            if is_flushed {
                db.compact(&family)?;
            }
            let nanos = measure(&db, &family, work)?;
            let cells = nanos
                .iter()
                .map(|value| format!("{value:>12.0} ({:5.2}x)", value / nanos[1]));
            println!("{name:28} {}", cells.collect::<String>());
            db.drop_family(&family.name())?;
        }
    }
    db.close()?;
    // The directory is this program's own.
    let _ = fs::remove_dir_all(directory);
    Ok(())
}
