//! Safe wrappers of the system calls that std does not offer, one function per call. They retry interruptions and
//! turn -1 into the system's error; they decide nothing.

use std::{
    ffi::{CStr, CString, c_int},
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd},
    ptr::NonNull,
};

/// What kind of thing a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryStatus {
    pub(super) is_directory: bool,
    pub(super) bytes: u64,
}

/// Calls `call` until it is not interrupted; -1 is the system's error.
fn retry(mut call: impl FnMut() -> c_int) -> io::Result<c_int> {
    loop {
        let result = call();
        if result != -1 {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The name as the system takes it. Names were checked before, so the error is not expected.
pub(super) fn c_name(name: &str) -> io::Result<CString> {
    CString::new(name).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Opens `name` in `directory`; never follows a link in the last place and never leaks into child processes.
pub(super) fn open_at(directory: BorrowedFd<'_>, name: &CStr, flags: c_int) -> io::Result<OwnedFd> {
    const MODE: libc::c_uint = 0o600;
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let handle = retry(|| {
        // SAFETY: `name` is zero-terminated and `directory` is open, both for the duration of the call.
        unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, MODE) }
    })?;
    // SAFETY: `openat` just returned this descriptor, so it is open and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

/// Creates the directory `name`, mode 0700.
pub(super) fn make_directory_at(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    retry(|| {
        // SAFETY: `name` is zero-terminated and `directory` is open, both for the duration of the call.
        unsafe { libc::mkdirat(directory.as_raw_fd(), name.as_ptr(), 0o700) }
    })
    .map(drop)
}

/// Renames within one directory.
pub(super) fn rename_at(directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    let handle = directory.as_raw_fd();
    retry(|| {
        // SAFETY: both names are zero-terminated and the directory is open, for the duration of the call.
        unsafe { libc::renameat(handle, from.as_ptr(), handle, to.as_ptr()) }
    })
    .map(drop)
}

/// Removes the name of a file.
pub(super) fn unlink_at(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    retry(|| {
        // SAFETY: `name` is zero-terminated and `directory` is open, both for the duration of the call.
        unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) }
    })
    .map(drop)
}

/// Removes an empty directory.
pub(super) fn remove_directory_at(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    retry(|| {
        // SAFETY: `name` is zero-terminated and `directory` is open, both for the duration of the call.
        unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), libc::AT_REMOVEDIR) }
    })
    .map(drop)
}

/// Gives a file a second name; a link is linked, not what it points to.
pub(super) fn link_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    target: BorrowedFd<'_>,
    to: &CStr,
) -> io::Result<()> {
    let (source, target) = (directory.as_raw_fd(), target.as_raw_fd());
    retry(|| {
        // SAFETY: both names are zero-terminated and both directories are open, for the duration of the call.
        unsafe { libc::linkat(source, name.as_ptr(), target, to.as_ptr(), 0) }
    })
    .map(drop)
}

/// What `name` stands for; a link is reported as itself, a file.
pub(super) fn status_at(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<EntryStatus> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    retry(|| {
        // SAFETY: `name` is zero-terminated, `directory` is open, and `status` is writable memory of the right size.
        unsafe {
            libc::fstatat(
                directory.as_raw_fd(),
                name.as_ptr(),
                status.as_mut_ptr(),
                libc::AT_SYMLINK_NOFOLLOW,
            )
        }
    })?;
    // SAFETY: `fstatat` succeeded, so it has filled the structure.
    let status = unsafe { status.assume_init() };
    let is_directory = status.st_mode & libc::S_IFMT == libc::S_IFDIR;
    Ok(EntryStatus {
        is_directory,
        bytes: if is_directory {
            0
        } else {
            u64::try_from(status.st_size).unwrap_or(0)
        },
    })
}

/// An open stream of directory entries, closed when dropped.
struct NameStream(NonNull<libc::DIR>);

impl Drop for NameStream {
    fn drop(&mut self) {
        // SAFETY: the stream came from `fdopendir`, is owned by `self` alone and is not used afterwards.
        unsafe { libc::closedir(self.0.as_ptr()) };
    }
}

/// All names in `directory` but `.` and `..`, in the system's order.
pub(super) fn read_names(directory: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    // A handle of its own, because reading moves the handle's position.
    let handle = open_at(directory, c".", libc::O_RDONLY | libc::O_DIRECTORY)?.into_raw_fd();
    // SAFETY: `handle` is an open directory that is given up to the stream.
    let stream = unsafe { libc::fdopendir(handle) };
    let Some(stream) = NonNull::new(stream) else {
        let error = io::Error::last_os_error();
        // SAFETY: `fdopendir` failed, so `handle` is still open and owned here.
        drop(unsafe { OwnedFd::from_raw_fd(handle) });
        return Err(error);
    };
    let stream = NameStream(stream);
    let mut names = Vec::new();
    loop {
        // The end and an error look alike but for errno, which the call leaves alone at the end.
        clear_errno();
        // SAFETY: the stream is open and used by this thread only.
        let entry = unsafe { libc::readdir(stream.0.as_ptr()) };
        if entry.is_null() {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(0) | None => Ok(names),
                Some(_) => Err(error),
            };
        }
        // SAFETY: `readdir` returned a valid entry, which lives until the next call on the stream; its name is an
        // array that begins in bounds.
        let name = unsafe { &raw const (*entry).d_name };
        // SAFETY: `d_name` is zero-terminated, says readdir(3), and is copied before the next call.
        let name = unsafe { CStr::from_ptr(name.cast()) };
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
}

#[cfg(target_os = "linux")]
fn clear_errno() {
    // SAFETY: the call has no preconditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the location belongs to this thread for its lifetime.
    unsafe { *errno = 0 };
}

#[cfg(not(target_os = "linux"))]
fn clear_errno() {
    // SAFETY: the call has no preconditions.
    let errno = unsafe { libc::__error() };
    // SAFETY: the location belongs to this thread for its lifetime.
    unsafe { *errno = 0 };
}

/// Takes the advisory lock of an open file, without waiting.
pub(super) fn lock_exclusive(file: BorrowedFd<'_>) -> io::Result<()> {
    retry(|| {
        // SAFETY: `file` is open for the duration of the call.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }
    })
    .map(drop)
}

/// Releases the advisory lock of an open file.
pub(super) fn unlock(file: BorrowedFd<'_>) -> io::Result<()> {
    retry(|| {
        // SAFETY: `file` is open for the duration of the call.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) }
    })
    .map(drop)
}

/// Has the allocator use at most so many arenas, at least two.
#[cfg(target_env = "gnu")]
pub(super) fn limit_allocator_pools(count: usize) {
    let count = libc::c_int::try_from(count.max(2)).unwrap_or(libc::c_int::MAX);
    // SAFETY: no argument is a pointer; the allocator takes its own locks.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, count) };
}

/// Other allocators have no such call.
#[cfg(not(target_env = "gnu"))]
pub(super) fn limit_allocator_pools(_count: usize) {}

/// Has the allocator give back what it keeps of freed memory.
#[cfg(target_env = "gnu")]
pub(super) fn release_free_memory() {
    // SAFETY: no argument is a pointer; the allocator takes its own locks.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators have no such call, or do it by themselves.
#[cfg(not(target_env = "gnu"))]
pub(super) fn release_free_memory() {}

/// Has the system write the range to the device; does not wait.
#[cfg(target_os = "linux")]
pub(super) fn begin_sync(file: BorrowedFd<'_>, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else {
        return;
    };
    // SAFETY: `file` is open for the duration of the call, and no argument is a pointer.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// Elsewhere nothing is begun ahead.
#[cfg(not(target_os = "linux"))]
pub(super) fn begin_sync(_file: BorrowedFd<'_>, _offset: u64, _bytes: u64) {}

/// Bytes that an ordinary user can still write on the file system of `handle`.
pub(super) fn available_bytes(handle: BorrowedFd<'_>) -> io::Result<u64> {
    let mut status = MaybeUninit::<libc::statvfs>::uninit();
    retry(|| {
        // SAFETY: `handle` is open and `status` is writable memory of the right size.
        unsafe { libc::fstatvfs(handle.as_raw_fd(), status.as_mut_ptr()) }
    })?;
    // SAFETY: `fstatvfs` succeeded, so it has filled the structure.
    let status = unsafe { status.assume_init() };
    #[expect(
        clippy::unnecessary_cast,
        reason = "the types of these fields differ between systems"
    )]
    Ok((status.f_bavail as u64).saturating_mul(status.f_frsize as u64))
}

/// The soft and the hard limit of open files of this process; the largest number is none.
pub(super) fn open_files_limit() -> io::Result<(u64, u64)> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    retry(|| {
        // SAFETY: `limit` is writable memory of the right size.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr()) }
    })?;
    // SAFETY: `getrlimit` succeeded, so it has filled the structure.
    let limit = unsafe { limit.assume_init() };
    let number = |limit: libc::rlim_t| match limit {
        libc::RLIM_INFINITY => u64::MAX,
        limit => limit,
    };
    Ok((number(limit.rlim_cur), number(limit.rlim_max)))
}

/// Sets both limits of open files of this process.
pub(super) fn set_open_files_limit(soft: u64, hard: u64) -> io::Result<()> {
    let number = |limit: u64| match limit {
        u64::MAX => libc::RLIM_INFINITY,
        limit => limit,
    };
    let limit = libc::rlimit {
        rlim_cur: number(soft),
        rlim_max: number(hard),
    };
    retry(|| {
        // SAFETY: `limit` is a whole structure that lives for the duration of the call.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }
    })
    .map(drop)
}

/// The magic number of the file system of `handle`.
#[cfg(target_os = "linux")]
pub(super) fn file_system_magic(handle: BorrowedFd<'_>) -> io::Result<u32> {
    let mut status = MaybeUninit::<libc::statfs>::uninit();
    retry(|| {
        // SAFETY: `handle` is open and `status` is writable memory of the right size.
        unsafe { libc::fstatfs(handle.as_raw_fd(), status.as_mut_ptr()) }
    })?;
    // SAFETY: `fstatfs` succeeded, so it has filled the structure.
    let status = unsafe { status.assume_init() };
    // The numbers have 32 bits; the type of the field differs between systems.
    Ok(status.f_type as u32)
}

/// Fills `bytes` from the system's random source.
#[cfg(target_os = "linux")]
pub(super) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: `rest` is writable memory of the given length.
        let count = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(count) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Fills `bytes` from the system's random source.
#[cfg(not(target_os = "linux"))]
pub(super) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}
