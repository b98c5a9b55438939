//! Shows the room that long values take while a fixed set of them is overwritten at random: a line for each tenth of the
//! live set that was written, and in the end whether the bound of twice the live bytes was kept.
//!
//! ```text
//! cargo run --release -p kingtide --example value_space -- [directory] [live MiB] [times over]
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example shows what it found"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use kingtide::{Compression, Db, FamilyOptions, Options, SyncMode};

const VALUE_BYTES: usize = 4096;

/// Numbers that look random, from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn fill(&mut self, target: &mut [u8]) {
        for part in target.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }
}

/// Bytes of the files of a database, those of the log apart; files that vanish meanwhile count as gone.
fn bytes_of(path: &Path) -> (u64, u64) {
    let folder = |name: &str| -> u64 {
        let files = fs::read_dir(path.join(name)).into_iter().flatten();
        files
            .filter_map(|file| Some(file.ok()?.metadata().ok()?.len()))
            .sum()
    };
    (folder("klog") + folder("vlog"), folder("wal"))
}

fn main() -> kingtide::Result<()> {
    let mut arguments = env::args().skip(1);
    let parent = arguments.next().map_or_else(env::temp_dir, PathBuf::from);
    let mut number = |default: u64| {
        let given = arguments.next().and_then(|text| text.parse().ok());
        given.unwrap_or(default)
    };
    let (live, times) = (number(512) << 20, number(6));
    let path = parent.join(format!("value_space.{}", std::process::id()));
    let db = Db::open(&path, Options::default())?;
    let settings = FamilyOptions {
        compression: Compression::None,
        sync: SyncMode::None,
        ..FamilyOptions::default()
    };
    let family = db.open_family("values", settings)?;
    let keys = live / VALUE_BYTES as u64;
    let mut random = Random(1);
    let mut value = vec![0; VALUE_BYTES];
    let mut largest = 0.0_f64;
    println!("written/live  room/live  log MiB  files  listed %  copied/written");
    for step in 0..times * 10 {
        for index in 0..keys / 10 {
            let key = match step {
                0..10 => step * (keys / 10) + index,
                _ => random.next() % keys,
            };
            random.fill(&mut value);
            db.put(&family, &key.to_be_bytes(), &value)?;
        }
        let (bytes, log_bytes) = bytes_of(&path);
        let stats = db.family_stats(&family)?.values;
        let room = bytes as f64 / live as f64;
        if step >= 10 {
            largest = largest.max(room);
        }
        let written = (step + 1) as f64 / 10.0;
        println!(
            "{written:>12.1}  {room:>9.2}  {:>7}  {:>5}  {:>8.0}  {:>14.2}",
            log_bytes >> 20,
            stats.files,
            100.0 * stats.live_ratio(),
            stats.copied_bytes as f64 / (written * live as f64)
        );
    }
    db.flush(&family)?;
    db.wait_idle()?;
    let (bytes, log_bytes) = bytes_of(&path);
    let settled = (bytes + log_bytes) as f64 / live as f64;
    println!("largest while written {largest:.2}, settled with the log {settled:.2}");
    db.close()?;
    // Best effort: what stays is in a directory for such things.
    let _ = fs::remove_dir_all(&path);
    if settled > 2.0 {
        eprintln!("more than twice the live bytes");
        std::process::exit(1);
    }
    Ok(())
}
