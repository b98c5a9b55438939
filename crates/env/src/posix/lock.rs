//! The lock file: `flock`, and a list of the locks that this process holds.
//!
//! `flock` alone refuses a second lock within the process only where the file system implements it natively; over
//! network file systems it is carried by locks that belong to the process, and a second one would be granted.

use std::{
    collections::BTreeSet,
    fs, io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::system;
use crate::FileLock;

/// Device and inode of every file that this process holds a lock on. std's mutex, not the crate's: it must be a
/// static, and is never held while waiting.
static HELD: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

fn held() -> MutexGuard<'static, BTreeSet<(u64, u64)>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct PosixLock {
    file: fs::File,
    identity: (u64, u64),
}

impl PosixLock {
    /// Locks `file`, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when this or another process holds the lock, and what the system answers.
    pub(super) fn take(file: fs::File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        if !held().insert(identity) {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "this process holds the lock already",
            ));
        }
        if let Err(error) = system::lock_exclusive(file.as_fd()) {
            held().remove(&identity);
            return Err(error);
        }
        Ok(Self { file, identity })
    }
}

impl Drop for PosixLock {
    fn drop(&mut self) {
        // Said explicitly, because a child forked meanwhile shares the open file and would keep the lock. It cannot
        // fail for an open file; were it to, closing the handle releases the lock all the same.
        let _ = system::unlock(self.file.as_fd());
        held().remove(&self.identity);
    }
}

impl FileLock for PosixLock {}
