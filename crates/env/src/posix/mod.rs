//! The real world: a POSIX file system, the system's clocks, threads and random numbers.
//!
//! | file | what it is |
//! |---|---|
//! | `directory` | names: opening, creating, renaming, linking, removing relative to an open directory |
//! | `file` | positional reads and writes, allocation, syncing |
//! | `window` | shared mappings for small writes |
//! | `lock` | the lock file of a database |
//! | `memory_limit` | how much memory there is, and how much of it is for this process |
//! | `system` | safe wrappers of the system calls that std does not offer; with `window`, the only unsafe code |
//!
//! Below an open directory every name is resolved relative to its handle and symbolic links are refused, so moving
//! the database directory, or planting a link in it, cannot redirect a write. The path of the top directory itself is
//! resolved as the user wrote it, links included.

mod directory;
mod file;
mod lock;
mod memory_limit;
mod system;
mod window;

use std::{
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use self::directory::PosixDirectory;
use crate::{Directory, Env, JoinHandle, threads};

/// The real world. Copies are the same world.
#[derive(Clone, Copy, Debug)]
pub struct PosixEnv {
    mapping: bool,
}

impl PosixEnv {
    /// The world with shared mappings where they are safe.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_mapping(true)
    }

    /// The world with shared mappings where they are safe (`mapping`), or without any: then
    /// [`crate::File::prepare_window`] always answers `false`.
    #[must_use]
    pub const fn with_mapping(mapping: bool) -> Self {
        Self { mapping }
    }
}

impl Default for PosixEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for PosixEnv {
    fn open_directory(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(PosixDirectory::open_top(
            path,
            create,
            self.mapping,
        )?))
    }

    fn canonical_path(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn unix_micros(&self) -> u64 {
        // A clock before 1970 reads as 1970.
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
    }

    fn monotonic_nanos(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let elapsed = START.get_or_init(Instant::now).elapsed();
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        if system::fill_random(bytes).is_err() {
            fill_from_hasher(bytes);
        }
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle> {
        threads::spawn(name, body)
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }

    fn parallelism(&self) -> usize {
        thread::available_parallelism().map_or(1, usize::from)
    }

    fn open_files_max(&self) -> Option<u64> {
        let (soft, _) = system::open_files_limit().ok()?;
        (soft != u64::MAX).then_some(soft)
    }

    fn memory_bytes(&self) -> Option<u64> {
        memory_limit::memory_bytes()
    }

    fn resident_bytes(&self) -> Option<u64> {
        memory_limit::resident_bytes()
    }

    fn spare_memory(&self) {
        system::limit_allocator_pools(self.parallelism());
    }

    fn release_free_memory(&self) {
        system::release_free_memory();
    }
}

/// Raises the number of files that this process may have open to `desired`, as far as the system lets it, and answers the
/// number in force then. It is never lowered; 0 or less only asks. -1 when the system does not answer.
#[must_use]
pub fn raise_open_file_limit(desired: i64) -> i64 {
    let Ok((soft, hard)) = system::open_files_limit() else {
        return -1;
    };
    let wanted = u64::try_from(desired).unwrap_or(0);
    let mut in_force = soft;
    if wanted > soft {
        // Only the privileged may raise the hard limit; everybody may go up to it.
        let attempts = [(wanted, hard.max(wanted)), (wanted.min(hard), hard)];
        if let Some((raised, _)) = attempts
            .into_iter()
            .find(|(soft, hard)| system::set_open_files_limit(*soft, *hard).is_ok())
        {
            in_force = raised.max(soft);
        }
    }
    i64::try_from(in_force).unwrap_or(i64::MAX)
}

/// Random bytes where the system has no source to give: the keys of std's hash maps and the clock. Enough to keep ids
/// apart, which is what the engine needs; nothing secret depends on it.
fn fill_from_hasher(bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u128(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_nanos(),
        );
        chunk.copy_from_slice(&hasher.finish().to_le_bytes()[..chunk.len()]);
    }
}

// Loom's locks work inside its models only; these tests use them outside.
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
