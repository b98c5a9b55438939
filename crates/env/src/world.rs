//! The traits. Errors are `std::io::Error`; the caller knows the file and adds it.

use std::{
    any::Any,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How many windows a file keeps, the newest ones: see [`File::prepare_window`].
pub const WINDOWS_KEPT: usize = 5;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading only.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file, for reading and writing; `AlreadyExists` when the name is taken. Mode 0600.
    CreateNew,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, without the directory.
    pub name: String,
    /// True for a directory.
    pub is_directory: bool,
    /// The length of a file in bytes; 0 for a directory.
    pub bytes: u64,
}

/// A world. Shared by all threads of a database.
pub trait Env: Send + Sync + fmt::Debug + 'static {
    /// Opens the directory at `path`; creates it (0755 less umask, missing parents too) when `create` is set and
    /// makes the new entries durable in their parents.
    ///
    /// # Errors
    /// `NotFound` when it is missing and `create` is not set, `NotADirectory` when a file is in its place, and what
    /// the system answers.
    fn open_directory(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Directory>>;

    /// The absolute path of `path` with every symbolic link and every `.` and `..` in it resolved. Two paths of one
    /// directory have the same answer.
    ///
    /// # Errors
    /// `NotFound` when there is nothing at `path`, and what the system answers.
    fn canonical_path(&self, path: &Path) -> io::Result<PathBuf>;

    /// Microseconds since 1970. May jump; use it only for what users see, such as expiry.
    fn unix_micros(&self) -> u64;

    /// Nanoseconds since some fixed moment; never goes back.
    fn monotonic_nanos(&self) -> u64;

    /// Fills `bytes` with random bytes, unpredictable in the real world, drawn from the seed in a simulated one.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Starts a thread.
    ///
    /// # Errors
    /// What the system answers when it has no thread to give.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle>;

    /// Blocks the calling thread for `duration`.
    fn sleep(&self, duration: Duration);

    /// Threads that can run at the same time; at least 1.
    fn parallelism(&self) -> usize;

    /// How many files this process may have open at the same time; `None` where nothing limits it, or nobody knows.
    fn open_files_max(&self) -> Option<u64> {
        None
    }

    /// How much memory this process may use, in bytes: that of the machine, or less where the system allows it less;
    /// `None` where nobody knows.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    /// How much memory this process occupies now, in bytes; `None` where nobody knows.
    fn resident_bytes(&self) -> Option<u64> {
        None
    }

    /// Asks the allocator of this process to spread what it gives over no more pools than threads can run at the same time:
    /// each pool keeps some of what was freed. For the rest of the process; where there is no such choice, nothing happens.
    fn spare_memory(&self) {}

    /// Gives memory that was freed, but that the allocator keeps, back to the system. May take milliseconds, in which
    /// other threads wait for the allocator.
    fn release_free_memory(&self) {}

    /// A random number.
    fn random_u64(&self) -> u64 {
        let mut bytes = [0_u8; 8];
        self.fill_random(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// Waits for a thread started by [`Env::spawn`].
pub struct JoinHandle {
    wait: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

impl JoinHandle {
    /// A handle whose `join` runs `wait`; for implementations of [`Env`].
    #[must_use]
    pub fn new(wait: Box<dyn FnOnce() -> Result<(), String> + Send>) -> Self {
        Self { wait }
    }

    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// The message of the panic that ended it.
    pub fn join(self) -> Result<(), String> {
        (self.wait)()
    }
}

impl fmt::Debug for JoinHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinHandle")
    }
}

/// An open directory. Names are single components: anything with a separator, `.`, `..`, a zero byte or nothing in it
/// is `InvalidInput`. Symbolic links are not followed.
///
/// Creating, renaming and removing change the *live* directory at once; only [`Directory::sync`] makes the change
/// survive a power cut.
///
/// `Any` lets [`Directory::link`] recognise a target of its own world.
pub trait Directory: Any + Send + Sync + fmt::Debug {
    /// The path it was opened with, for messages.
    fn path(&self) -> &Path;

    /// Opens (or creates, mode 0700, not yet durable) the directory `name` below this one.
    ///
    /// # Errors
    /// As [`Env::open_directory`].
    fn open_directory(&self, name: &str, create: bool) -> io::Result<Arc<dyn Directory>>;

    /// Everything in the directory, sorted by name.
    ///
    /// # Errors
    /// What the system answers.
    fn list(&self) -> io::Result<Vec<DirectoryEntry>>;

    /// Opens the file `name`.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists` (for [`OpenMode::CreateNew`]), and what the system answers.
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Gives the file or directory `from` the name `to`, replacing what had that name: a file replaces a file, a
    /// directory an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory` and `NotADirectory` when one is a file and the other a directory, `DirectoryNotEmpty`,
    /// and what the system answers.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes the name of a file. Open handles keep working.
    ///
    /// # Errors
    /// `NotFound`, and what the system answers.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Removes the empty directory `name`.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `DirectoryNotEmpty`, and what the system answers.
    fn remove_directory(&self, name: &str) -> io::Result<()>;

    /// Gives the file `name` a second name `to` in the directory `target` of the same world.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `CrossesDevices`, and what the system answers.
    fn link(&self, name: &str, target: &dyn Directory, to: &str) -> io::Result<()>;

    /// Makes every create, rename, link and remove so far durable.
    ///
    /// # Errors
    /// What the system answers; what was not durable before may then be lost or kept.
    fn sync(&self) -> io::Result<()>;

    /// Takes the lock file `name` (created when missing) for this open handle, without waiting. Released when dropped
    /// and by the end of the process, also a killed one. A second lock by the same process is refused as well.
    ///
    /// # Errors
    /// `WouldBlock` when it is held, and what the system answers.
    fn lock(&self, name: &str) -> io::Result<Box<dyn FileLock>>;

    /// Bytes that a user process can still write on the device below this directory.
    ///
    /// # Errors
    /// What the system answers.
    fn available_bytes(&self) -> io::Result<u64>;
}

/// A held lock; dropping it releases it.
pub trait FileLock: Send + Sync + fmt::Debug {}

/// An open file. All reads and writes are positional, so handles are shared freely; two writers of one range at the
/// same time must be kept apart by the caller.
#[expect(
    clippy::len_without_is_empty,
    reason = "the length is asked of the system and may fail"
)]
pub trait File: Any + Send + Sync + fmt::Debug {
    /// Reads up to `target.len()` bytes at `offset`; fewer only at the end of the file. Retries interruptions.
    ///
    /// # Errors
    /// What the system answers.
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `source` at `offset`, extending the file when needed; bytes between the old end and `offset` read
    /// as zero. When it returns the bytes have reached the kernel: they survive the process, not a power cut.
    ///
    /// Where a window was prepared (see [`File::prepare_window`]) and holds the range, this is a copy into shared
    /// memory and no system call.
    ///
    /// # Errors
    /// What the system answers (`StorageFull` for a full disk); part of the bytes may have been written.
    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<()>;

    /// Asks that small writes to `offset .. offset + bytes`, which must already be allocated, be made cheap: a shared
    /// mapping is set up and populated where that is safe. A file keeps the last [`WINDOWS_KEPT`] that were prepared, so
    /// that those ahead can be prepared while one is in use. A hint: the answer `false` (nothing prepared) changes speed only. A
    /// range that is not inside the file is answered so. With no bytes nothing is prepared, but the windows that end at or
    /// before `offset` are released.
    ///
    /// While a window lives, the file must not be cut through another handle, nor by another process: a copy into the
    /// part that is gone would end the process. [`File::set_len`] of this handle takes care of its windows.
    ///
    /// # Errors
    /// What the system answers to the population; the file is then as before.
    fn prepare_window(&self, offset: u64, bytes: u64) -> io::Result<bool>;

    /// Writes zeros to `offset .. offset + bytes`, so that later writes there neither extend the file nor need space.
    ///
    /// # Errors
    /// `StorageFull`, and what the system answers.
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// As [`File::allocate`], for a range that will be written and synced in small pieces. The page cache of Linux keeps
    /// what is written at once in one large page, and counts, and on some file systems writes, the whole of it for every
    /// small piece that is synced later; so the zeros come in pieces too, at three times the cost.
    ///
    /// # Errors
    /// As [`File::allocate`].
    fn allocate_for_small_syncs(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.allocate(offset, bytes)
    }

    /// Cuts or extends (with zeros) the file to `bytes`.
    ///
    /// # Errors
    /// What the system answers.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// What the system answers.
    fn len(&self) -> io::Result<u64>;

    /// Makes the content (and the length) durable. The *name* of a new file is made durable by its directory.
    ///
    /// # Errors
    /// What the system answers. After an error nothing is known about the unsynced bytes: never try again as if they
    /// were still pending.
    fn sync(&self) -> io::Result<()>;

    /// Asks that what was written to `offset .. offset + bytes` be on its way to the device from now on, so that a later
    /// [`File::sync`] has less to wait for. A hint: it makes nothing durable, and what goes wrong is for that sync to say.
    fn begin_sync(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Reads exactly `target.len()` bytes at `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before, and what the system answers.
    fn read_exact_at(&self, target: &mut [u8], offset: u64) -> io::Result<()> {
        let count = self.read_at(target, offset)?;
        if count < target.len() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "the file ends {} bytes before the end of the read",
                    target.len() - count
                ),
            ));
        }
        Ok(())
    }
}
