//! An open file.
//!
//! Reads and writes are `pread` and `pwrite`, except small writes into a prepared window, which are copies into a
//! shared mapping. Both go through the page cache of the system, so each sees the other's bytes at once and `sync`
//! makes both durable.
//!
//! What it does not do: guard against the file being cut through *another* handle while a window is open here. The
//! engine cuts and recycles a file through the one handle that writes it.

use std::{
    fs, io,
    os::{fd::AsFd, unix::fs::FileExt},
};

use super::{
    system,
    window::{self, Window},
};
use crate::{
    File, WINDOWS_KEPT,
    border::{end_of, read_only},
    sync::Mutex,
};

/// The longest write that is copied into a window; the system call is cheaper beyond, and the lock is held shortly.
const WINDOW_WRITE_BYTES_MAX: usize = 64 << 10;
/// Zeros written at a time.
const ZEROS_BYTES: usize = 64 << 10;
/// Zeros written at a time where each page is to be a page of its own in the cache.
const PAGE_ZEROS_BYTES: usize = 4 << 10;

static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

#[derive(Debug)]
pub(super) struct PosixFile {
    file: fs::File,
    is_writable: bool,
    mapping: bool,
    /// Oldest first. Held while bytes are copied into a window and while the file is cut, so that no window ever
    /// reaches beyond the end of the file: a store there would be a fatal signal.
    windows: Mutex<Vec<Window>>,
}

impl PosixFile {
    pub(super) fn new(file: fs::File, is_writable: bool, mapping: bool) -> Self {
        Self {
            file,
            is_writable,
            mapping: mapping && is_writable,
            windows: Mutex::new(Vec::new()),
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.is_writable {
            Ok(())
        } else {
            Err(read_only())
        }
    }

    /// Writes zeros, at most `step_bytes` at a time. Written, not reserved: `fallocate` leaves extents that are converted at
    /// the first write, which needs journal space at a moment when nothing may fail.
    fn write_zeros(&self, offset: u64, bytes: u64, step_bytes: usize) -> io::Result<()> {
        self.check_writable()?;
        let end = end_of(offset, bytes)?;
        let mut position = offset;
        while position < end {
            let step = (end - position).min(step_bytes as u64);
            self.file.write_all_at(&ZEROS[..step as usize], position)?;
            position += step;
        }
        Ok(())
    }

    /// Copies `source` into the window that holds its whole range, if there is one.
    pub(super) fn write_to_window(&self, source: &[u8], offset: u64) -> bool {
        if !self.mapping || source.len() > WINDOW_WRITE_BYTES_MAX {
            return false;
        }
        // The newest window is the one in use.
        self.windows
            .lock()
            .iter_mut()
            .rev()
            .any(|window| window.write(source, offset))
    }
}

/// Takes out the windows that end at or before `offset`. Unmapping takes its time: drop them without the lock.
fn release_behind(windows: &mut Vec<Window>, offset: u64) -> Vec<Window> {
    let all = windows.drain(..);
    let (released, kept) = all.partition(|earlier| earlier.end() <= offset);
    *windows = kept;
    released
}

impl File for PosixFile {
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        end_of(offset, target.len() as u64)?;
        let mut filled = 0;
        while filled < target.len() {
            match self
                .file
                .read_at(&mut target[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        end_of(offset, source.len() as u64)?;
        if self.write_to_window(source, offset) {
            return Ok(());
        }
        self.file.write_all_at(source, offset)
    }

    fn prepare_window(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        let end = end_of(offset, bytes)?;
        if bytes == 0 {
            let released = release_behind(&mut self.windows.lock(), offset);
            drop(released);
            return Ok(false);
        }
        if !self.mapping || !window::is_safe_on(self.file.as_fd())? {
            return Ok(false);
        }
        if end > self.len()? {
            return Ok(false);
        }
        let Some(window) = Window::map(self.file.as_fd(), offset, bytes)? else {
            return Ok(false);
        };
        let mut windows = self.windows.lock();
        // The file may have been cut since its length was read; from here on the lock keeps it.
        if end > self.len()? {
            drop(windows);
            return Ok(false);
        }
        windows.push(window);
        let released = (windows.len() > WINDOWS_KEPT).then(|| windows.remove(0));
        drop(windows);
        // Unmapping takes its time, so it happens without the lock.
        drop(released);
        Ok(true)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.write_zeros(offset, bytes, ZEROS_BYTES)
    }

    fn allocate_for_small_syncs(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.write_zeros(offset, bytes, PAGE_ZEROS_BYTES)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        end_of(0, bytes)?;
        let mut windows = self.windows.lock();
        windows.retain(|window| window.end() <= bytes);
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn begin_sync(&self, offset: u64, bytes: u64) {
        system::begin_sync(self.file.as_fd(), offset, bytes);
    }
}
