//! What a process takes at one moment, as `/proc/self` and the directory tell.

use std::{fs, io, path::Path, time::Duration};

use kingtide::Db;

use crate::violation::{Checked, Violation};

/// One moment.
#[derive(Clone, Debug)]
pub struct Sample {
    pub elapsed: Duration,
    pub round: usize,
    pub resident_bytes: u64,
    pub descriptors: usize,
    pub threads: usize,
    /// Of all files in the directory of the database.
    pub disk_bytes: u64,
    /// Times that a writer waited since the database was opened.
    pub stalls: u64,
}

impl Sample {
    /// While the database is open.
    ///
    /// # Errors
    /// `/proc` or the directory cannot be read; the database answers none.
    pub fn take(path: &Path, db: &Db, round: usize, elapsed: Duration) -> Checked<Self> {
        let mut sample = Self::take_closed(path, round, elapsed)?;
        sample.stalls = db.stats()?.write_stalls;
        Ok(sample)
    }

    /// While it is closed.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_closed(path: &Path, round: usize, elapsed: Duration) -> Checked<Self> {
        Ok(Self {
            elapsed,
            round,
            resident_bytes: resident_bytes()?,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            threads: fs::read_dir("/proc/self/task")?.count(),
            disk_bytes: disk_bytes(path)?,
            stalls: 0,
        })
    }
}

fn resident_bytes() -> Checked<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kibibytes
        .map(|kibibytes| kibibytes * 1024)
        .ok_or_else(|| Violation::new("/proc/self/status tells no resident memory"))
}

/// Files that go while they are looked at count as none.
fn disk_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        match entry.metadata() {
            Ok(found) if found.is_dir() => bytes += disk_bytes(&entry.path())?,
            Ok(found) => bytes += found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}
