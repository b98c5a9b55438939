//! The room on the device that writes must leave free. Looked at ahead of need — by the log's keeper again and again, and
//! whenever the log grows — so that a commit compares two numbers and asks the system nothing. Only a commit that is about
//! to be refused looks again itself: writing goes on as soon as there is space.
//!
//! This keeps writes from using up the device for everyone on it; a device that is full nevertheless is found out when
//! the log cannot grow.

use std::sync::Arc;

use kingtide_env::{
    Directory,
    sync::atomic::{AtomicU64, Ordering},
};

use super::WriteSet;
use crate::error::{Error, ErrorKind, Result};

/// Nobody has looked yet, or the system does not tell.
const UNKNOWN: u64 = u64::MAX;

/// See the module.
pub(crate) struct DiskRoom {
    directory: Arc<dyn Directory>,
    free_bytes: AtomicU64,
}

impl DiskRoom {
    /// The room on the device of `directory`.
    pub(super) fn new(directory: Arc<dyn Directory>) -> Self {
        Self {
            directory,
            free_bytes: AtomicU64::new(UNKNOWN),
        }
    }

    /// Looks how much is free.
    pub(crate) fn look(&self) {
        if let Ok(bytes) = self.directory.available_bytes() {
            // Relaxed, as everywhere here: one number that is about right.
            self.free_bytes
                .store(bytes.min(UNKNOWN - 1), Ordering::Relaxed);
        }
    }

    /// What was free at the last look, in bytes.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let bytes = self.free_bytes.load(Ordering::Relaxed);
        (bytes != UNKNOWN).then_some(bytes)
    }

    /// Refuses a commit that touches a family which wants more left free than there is.
    ///
    /// # Errors
    /// `DiskFull`.
    #[inline]
    pub(super) fn check(&self, writes: &WriteSet) -> Result<()> {
        self.check_bytes(writes.disk_free_bytes_min())
    }

    /// Refuses writing when fewer than `needed_bytes` are free.
    ///
    /// # Errors
    /// `DiskFull`.
    #[inline]
    pub(crate) fn check_bytes(&self, needed_bytes: u64) -> Result<()> {
        let free_bytes = self.free_bytes.load(Ordering::Relaxed);
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        self.check_again(needed_bytes)
    }

    #[cold]
    fn check_again(&self, needed_bytes: u64) -> Result<()> {
        self.look();
        let free_bytes = self.free_bytes.load(Ordering::Relaxed);
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::DiskFull,
            format!(
                "only {free_bytes} bytes are free on the device, and the column family's disk_free_bytes_min is \
                 {needed_bytes}: make room, or lower it"
            ),
        ))
    }
}
