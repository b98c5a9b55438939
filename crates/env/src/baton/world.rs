//! Another world, seen by the threads of a simulation: every call is a pause, time is simulated, syncs take time.

use std::{
    any::Any,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{draw, now, pause, sleep, spawn};
use crate::{Directory, DirectoryEntry, Env, File, FileLock, JoinHandle, OpenMode};

/// The longest that a sync takes, in nanoseconds of simulated time.
const SYNC_NANOS_MAX: u64 = 3_000_000;

/// A world whose calls pause the simulation. Outside of a simulation it passes every call on.
#[derive(Clone)]
pub struct BatonEnv {
    inner: Arc<dyn Env>,
    watch: Option<Watch>,
}

/// Is called after every call that may have changed what is stored, by the thread that made it.
pub type Watch = Arc<dyn Fn() + Send + Sync>;

impl fmt::Debug for BatonEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatonEnv")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl BatonEnv {
    /// `inner` with pauses.
    #[must_use]
    pub fn new(inner: Arc<dyn Env>) -> Self {
        Self { inner, watch: None }
    }

    /// `inner` with pauses; `watch` sees every state between two changes.
    #[must_use]
    pub fn watched(inner: Arc<dyn Env>, watch: Watch) -> Self {
        Self {
            inner,
            watch: Some(watch),
        }
    }
}

fn tell(watch: Option<&Watch>) {
    if let Some(watch) = watch {
        watch();
    }
}

/// A number that goes into the trace for a call: its kind, the name and a place.
fn mark(kind: u64, name: &str, place: u64) -> u64 {
    name.bytes()
        .fold(kind ^ place.rotate_left(17), |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

impl Env for BatonEnv {
    fn open_directory(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Directory>> {
        pause(1);
        let inner = self.inner.open_directory(path, create)?;
        tell(self.watch.as_ref());
        Ok(Arc::new(BatonDirectory {
            inner,
            watch: self.watch.clone(),
        }))
    }

    fn canonical_path(&self, path: &Path) -> io::Result<PathBuf> {
        pause(2);
        self.inner.canonical_path(path)
    }

    /// The clock of the world below, which simulated time does not move: who runs the simulation decides when entries
    /// expire.
    fn unix_micros(&self) -> u64 {
        self.inner.unix_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        now().unwrap_or_else(|| self.inner.monotonic_nanos())
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.inner.fill_random(bytes);
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle> {
        match spawn(name, body) {
            Ok(started) => started,
            Err(body) => self.inner.spawn(name, body),
        }
    }

    fn sleep(&self, duration: Duration) {
        if super::is_simulated() {
            sleep(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        } else {
            self.inner.sleep(duration);
        }
    }

    fn parallelism(&self) -> usize {
        self.inner.parallelism()
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }
}

struct BatonDirectory {
    inner: Arc<dyn Directory>,
    watch: Option<Watch>,
}

impl fmt::Debug for BatonDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl BatonDirectory {
    fn changed<T>(&self, answer: io::Result<T>) -> io::Result<T> {
        tell(self.watch.as_ref());
        answer
    }
}

impl Directory for BatonDirectory {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn open_directory(&self, name: &str, create: bool) -> io::Result<Arc<dyn Directory>> {
        pause(mark(3, name, 0));
        let inner = self.changed(self.inner.open_directory(name, create))?;
        Ok(Arc::new(Self {
            inner,
            watch: self.watch.clone(),
        }))
    }

    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        pause(4);
        self.inner.list()
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        pause(mark(5, name, mode as u64));
        let inner = self.changed(self.inner.open(name, mode))?;
        Ok(Arc::new(BatonFile {
            inner,
            watch: self.watch.clone(),
            mark: mark(6, name, 0),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        pause(mark(7, from, 0) ^ mark(8, to, 0));
        self.changed(self.inner.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        pause(mark(9, name, 0));
        self.changed(self.inner.remove(name))
    }

    fn remove_directory(&self, name: &str) -> io::Result<()> {
        pause(mark(10, name, 0));
        self.changed(self.inner.remove_directory(name))
    }

    fn link(&self, name: &str, target: &dyn Directory, to: &str) -> io::Result<()> {
        pause(mark(11, name, 0));
        let any: &dyn Any = target;
        self.changed(match any.downcast_ref::<Self>() {
            Some(target) => self.inner.link(name, target.inner.as_ref(), to),
            None => self.inner.link(name, target, to),
        })
    }

    fn sync(&self) -> io::Result<()> {
        sleep(draw(SYNC_NANOS_MAX));
        let answer = self.changed(self.inner.sync());
        pause(12);
        answer
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn FileLock>> {
        pause(mark(13, name, 0));
        self.inner.lock(name)
    }

    fn available_bytes(&self) -> io::Result<u64> {
        self.inner.available_bytes()
    }
}

struct BatonFile {
    inner: Arc<dyn File>,
    watch: Option<Watch>,
    mark: u64,
}

impl fmt::Debug for BatonFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl BatonFile {
    fn changed<T>(&self, answer: io::Result<T>) -> io::Result<T> {
        tell(self.watch.as_ref());
        answer
    }
}

impl File for BatonFile {
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        pause(self.mark ^ offset);
        self.inner.read_at(target, offset)
    }

    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<()> {
        pause(self.mark ^ offset.rotate_left(8) ^ source.len() as u64);
        self.changed(self.inner.write_at(source, offset))
    }

    fn prepare_window(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        pause(self.mark ^ 14);
        self.inner.prepare_window(offset, bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        pause(self.mark ^ offset ^ bytes.rotate_left(8));
        self.changed(self.inner.allocate(offset, bytes))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        pause(self.mark ^ bytes);
        self.changed(self.inner.set_len(bytes))
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    /// What others write while the sync takes its time may or may not be made durable with it: the world below takes
    /// what is there at the end, so half of the time the waiting comes after.
    fn sync(&self) -> io::Result<()> {
        let nanos = draw(SYNC_NANOS_MAX);
        if nanos.is_multiple_of(2) {
            sleep(nanos);
        }
        let answer = self.changed(self.inner.sync());
        if !nanos.is_multiple_of(2) {
            sleep(nanos);
        }
        answer
    }
}
