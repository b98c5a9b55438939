//! Shows what one large value takes of memory: a line for each stage of its life, with what the process holds then and the
//! most that it held since the line before. First the value goes through streams, of which nobody holds more than a piece,
//! then it is put and got as a whole.
//!
//! ```text
//! cargo run --release -p kingtide --example large_value -- [directory] [MiB]
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::{
    env, fs,
    io::{self, Read, Write},
    path::PathBuf,
};

use kingtide::{ColumnFamily, Db, FamilyOptions, Options};

/// What the process holds in memory and the most that it held since this was asked last, in MiB.
fn resident() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        number.unwrap_or_default() >> 10
    };
    let found = (field("VmRSS:"), field("VmHWM:"));
    // Resets the peak; where that is not allowed the peaks are those since the start.
    let _ = fs::write("/proc/self/clear_refs", "5");
    found
}

fn show(stage: &str) {
    let (now, most) = resident();
    println!("{stage:<28}  {now:>8}  {most:>8}");
}

/// Bytes that do not compress.
struct Noise(u64);

impl Read for Noise {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        for part in target.chunks_mut(8) {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            part.copy_from_slice(&(self.0 ^ (self.0 >> 29)).to_le_bytes()[..part.len()]);
        }
        Ok(target.len())
    }
}

/// Adds up what is written to it.
#[derive(Default)]
struct Sum {
    bytes: usize,
    sum: u64,
}

impl Write for Sum {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.bytes += piece.len();
        let add = |sum: u64, byte: &u8| sum.wrapping_mul(31) + u64::from(*byte);
        self.sum = piece.iter().fold(self.sum, add);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The value through streams.
fn stream(db: &Db, family: &ColumnFamily, bytes: usize) -> kingtide::Result<()> {
    db.put_from(family, b"streamed", &mut Noise(1).take(bytes as u64))?;
    show("put_from");
    let mut found = Sum::default();
    db.get_to(family, b"streamed", &mut found)?;
    show("get_to");
    db.flush(family)?;
    show("flush");
    let mut again = Sum::default();
    db.get_to(family, b"streamed", &mut again)?;
    assert_eq!((found.bytes, found.sum), (bytes, again.sum));
    show("get_to");
    db.delete(family, b"streamed")
}

fn main() -> kingtide::Result<()> {
    let mut arguments = env::args().skip(1);
    let parent = arguments.next().map_or_else(env::temp_dir, PathBuf::from);
    let given = arguments.next().and_then(|text| text.parse::<usize>().ok());
    let bytes = given.unwrap_or(1024) << 20;
    let path = parent.join(format!("large_value.{}", std::process::id()));
    let db = Db::open(&path, Options::default())?;
    let family = db.open_family("values", FamilyOptions::default())?;
    println!("stage                         MiB now  MiB most");
    show("open");
    stream(&db, &family, bytes)?;
    let mut value = vec![0_u8; bytes];
    // It never fails, and always fills what it is given.
    let _ = Noise(1).read(&mut value);
    show("the caller's value");
    db.put(&family, b"large", &value)?;
    show("put");
    let sum = value
        .iter()
        .fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
    drop(value);
    show("the caller's value dropped");
    db.flush(&family)?;
    show("flush");
    db.wait_idle()?;
    show("idle");
    let found = db
        .get(&family, b"large")?
        .unwrap_or_else(|| unreachable!("it was put"));
    show("get");
    let same = found
        .iter()
        .fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
    assert_eq!((found.len(), same), (bytes, sum), "another value came back");
    drop(found);
    db.close()?;
    show("close");
    // Best effort: what stays is in a directory for such things.
    let _ = fs::remove_dir_all(&path);
    Ok(())
}
