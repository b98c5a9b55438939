//! A window: part of a file as shared memory, for writes that cost a copy instead of a system call.
//!
//! A store into a mapping cannot report an error; what could make it fail is settled before: the range lies inside
//! the file, its blocks are allocated (the caller's duty, see [`crate::File::allocate`]), and `MADV_POPULATE_WRITE`
//! has made every page present and writable or has reported why not. That suffices on file systems that write in
//! place. On those that write elsewhere (btrfs, ZFS, overlays) each store may need space anew, and network file
//! systems may lose the file below it: there no window is opened.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
};

#[cfg(target_os = "linux")]
use super::system;

/// File systems on which a populated page stays writable: ext2/3/4, XFS, tmpfs.
#[cfg(target_os = "linux")]
const SAFE_MAGICS: [u32; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];

/// True when windows on this file keep the promise of the prologue.
///
/// # Errors
/// What the system answers.
#[cfg(target_os = "linux")]
pub(super) fn is_safe_on(file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(SAFE_MAGICS.contains(&system::file_system_magic(file)?))
}

/// True when windows on this file keep the promise of the prologue: nowhere but on Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_safe_on(_file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(false)
}

/// A range of a file as shared memory. Unmapped when dropped.
#[derive(Debug)]
pub(super) struct Window {
    /// Where the range begins in memory. Writable for `bytes` bytes as long as `self` lives and the file is not cut.
    start: NonNull<u8>,
    /// Where the range begins in the file.
    offset: u64,
    /// The length of the range.
    bytes: usize,
    /// Bytes from the begin of the mapping, which is a page, to `start`.
    lead_bytes: usize,
}

// SAFETY: the memory belongs to the window alone, and is not tied to the thread that mapped it.
unsafe impl Send for Window {}

impl Window {
    /// Maps and populates `offset .. offset + bytes`, which must lie inside the file. `None` when the system does not
    /// offer it.
    ///
    /// # Errors
    /// What the system answers to the population.
    pub(super) fn map(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<Option<Self>> {
        let page_bytes = page_bytes();
        let lead = offset % page_bytes;
        let (Ok(bytes), Ok(lead_bytes), Ok(map_offset)) = (
            usize::try_from(bytes),
            usize::try_from(lead),
            libc::off_t::try_from(offset - lead),
        ) else {
            return Ok(None);
        };
        let Some(map_bytes) = bytes.checked_add(lead_bytes) else {
            return Ok(None);
        };
        // SAFETY: the system chooses the place, so no memory in use is replaced; `file` is open during the call.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                map_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                map_offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Ok(None);
        }
        // SAFETY: `lead_bytes` is less than `map_bytes`, the length of the mapping that begins at `base`.
        let start = unsafe { base.cast::<u8>().add(lead_bytes) };
        let window = Self {
            start: NonNull::new(start).ok_or(io::ErrorKind::AddrNotAvailable)?,
            offset,
            bytes,
            lead_bytes,
        };
        Ok(window.populate()?.then_some(window))
    }

    /// Where the range ends in the file.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }

    /// Copies `source` to `offset` of the file; `false`, and nothing done, when the window does not hold the range.
    /// The file must not have been cut below [`Window::end`].
    pub(super) fn write(&mut self, source: &[u8], offset: u64) -> bool {
        let Some(start) = offset.checked_sub(self.offset) else {
            return false;
        };
        if start > self.bytes as u64 || source.len() as u64 > self.bytes as u64 - start {
            return false;
        }
        // SAFETY: `start` is at most `bytes`, the length of the range that begins at `self.start`; it fits a usize
        // because `bytes` does.
        let target = unsafe { self.start.as_ptr().add(start as usize) };
        // SAFETY: `start + source.len()` is at most `bytes`, so the target is mapped and writable; `&mut self` keeps
        // every other store away, and `source`, being a live reference, is not in memory that only windows know.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), target, source.len()) };
        true
    }

    /// The mapping that holds the range: its begin and its length.
    fn mapping(&self) -> (*mut libc::c_void, usize) {
        // SAFETY: `start` lies `lead_bytes` behind the begin of the same mapping.
        let base = unsafe { self.start.as_ptr().sub(self.lead_bytes) };
        (base.cast(), self.bytes + self.lead_bytes)
    }

    /// Makes every page present and writable. `false` when the system cannot do that in advance.
    #[cfg(target_os = "linux")]
    fn populate(&self) -> io::Result<bool> {
        let (base, bytes) = self.mapping();
        loop {
            // SAFETY: the range is exactly the mapping that `self` owns; the advice changes no content.
            let result = unsafe { libc::madvise(base, bytes, libc::MADV_POPULATE_WRITE) };
            if result == 0 {
                return Ok(true);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // A kernel before 5.14, or one short of memory: the system call path remains.
                Some(libc::EINVAL | libc::ENOSYS | libc::ENOMEM | libc::EAGAIN) => {
                    return Ok(false);
                }
                _ => return Err(error),
            }
        }
    }

    /// Makes every page present and writable: only Linux can do that in advance.
    #[cfg(not(target_os = "linux"))]
    fn populate(&self) -> io::Result<bool> {
        Ok(false)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let (base, bytes) = self.mapping();
        // SAFETY: the mapping came from `mmap` with this length, is owned by `self` alone and not used afterwards.
        unsafe { libc::munmap(base, bytes) };
    }
}

fn page_bytes() -> u64 {
    // SAFETY: the call has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // POSIX requires the answer; 64 KiB is a multiple of every page size in use.
    u64::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes > 0)
        .unwrap_or(64 << 10)
}
