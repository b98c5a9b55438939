//! A world in memory that can be crashed.
//!
//! | file | what it is |
//! |---|---|
//! | `state` | what one lock guards: tree, locks, space, call count |
//! | `tree` | names, live and durable, and the journal between them |
//! | `content` | bytes of a file, live and durable, by sector |
//! | `crash` | the states that a power cut may leave |
//! | `directory`, `file` | the handles |
//! | `fingerprint` | whether two worlds hold the same |
//!
//! Threads are real ones; the clock is a counter; random numbers follow from the seed. With one thread everything is
//! the same in each run.
//!
//! What it does not do: it keeps, per sector, the newest bytes and the durable ones, so of several unsynced writes to
//! one sector a crash never leaves exactly the first, unless tearing happens to cut there; and it has no symbolic
//! links, permissions or owners.

mod content;
mod crash;
mod directory;
mod file;
mod fingerprint;
mod state;
mod tree;

use std::{
    fmt, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use self::crash::CrashImage;
pub(crate) use self::file::MemoryFile;
use self::{
    content::Content,
    directory::{MemoryDirectory, enter, find},
    state::{Access, State},
    tree::{FileNode, Names, Node, NodeId, ROOT, Tree},
};
use crate::{
    Directory, Env, JoinHandle,
    border::check_name,
    random::SplitMix64,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    threads,
};

/// When a new world begins: some time in 2023.
const UNIX_START_MICROS: u64 = 1_700_000_000_000_000;
/// What each look at the monotonic clock moves it by.
const CLOCK_STEP_NANOS: u64 = 1_000;
/// Threads that a world in memory claims to run at the same time.
const PARALLELISM: usize = 2;

/// A world in memory. Clones are the same world; [`MemoryEnv::crash`] and [`MemoryEnv::kill`] give new ones.
#[derive(Clone)]
pub struct MemoryEnv {
    world: Arc<World>,
}

/// What all clones and handles of one world share.
struct World {
    state: Mutex<State>,
    random: Mutex<SplitMix64>,
    /// Nanoseconds since the machine was started.
    clock_nanos: AtomicU64,
    /// The wall clock when the machine was started.
    unix_start_micros: u64,
    /// How far the wall clock was turned back since.
    unix_behind_micros: AtomicU64,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the content: it is as long as a disk, and locking it here could block.
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl fmt::Debug for MemoryEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryEnv")
            .field("world", &self.world)
            .finish()
    }
}

impl MemoryEnv {
    /// An empty world. All its random numbers follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from_world(World {
            state: Mutex::new(State::new(Tree::new(), None)),
            random: Mutex::new(SplitMix64::new(seed)),
            clock_nanos: AtomicU64::new(0),
            unix_start_micros: UNIX_START_MICROS,
            unix_behind_micros: AtomicU64::new(0),
        })
    }

    fn from_world(world: World) -> Self {
        Self {
            world: Arc::new(world),
        }
    }

    /// The world as it is found after a power cut at this moment: `image` says which of the possible states, `seed`
    /// decides what that leaves open. This world goes on untouched. The new one has no locks, no halt, a call count of 0,
    /// the same capacity, and the wall clock goes on.
    #[must_use]
    pub fn crash(&self, image: CrashImage, seed: u64) -> Self {
        let state = self.world.state.lock();
        let tree = crash::after_power_cut(&state.tree, image, seed);
        Self::from_world(World {
            state: Mutex::new(State::new(tree, state.capacity_bytes)),
            // The random numbers of the new world must not repeat those that made the image.
            random: Mutex::new(SplitMix64::new(!seed)),
            clock_nanos: AtomicU64::new(0),
            unix_start_micros: self.unix_micros(),
            unix_behind_micros: AtomicU64::new(0),
        })
    }

    /// The world as it is found after the process was killed at this moment: the live state, with what was not synced
    /// still not synced, and no locks. This world goes on untouched. The machine was not restarted: clocks go on. The call count begins at 0, without a halt.
    #[must_use]
    pub fn kill(&self) -> Self {
        let state = self.world.state.lock();
        let seed = self.world.random.lock().next();
        Self::from_world(World {
            state: Mutex::new(State::new(state.tree.clone(), state.capacity_bytes)),
            random: Mutex::new(SplitMix64::new(seed)),
            clock_nanos: AtomicU64::new(self.world.clock_nanos.load(Ordering::SeqCst)),
            unix_start_micros: self.world.unix_start_micros,
            unix_behind_micros: AtomicU64::new(
                self.world.unix_behind_micros.load(Ordering::SeqCst),
            ),
        })
    }

    /// How many mutating calls there were: write, allocate, set_len, sync, create (also of directories and lock
    /// files), rename, remove, link, directory sync. Refused ones count when the machine was on and the arguments
    /// well-formed.
    #[must_use]
    pub fn io_count(&self) -> u64 {
        self.world.state.lock().io_count
    }

    /// Switches the machine off once [`MemoryEnv::io_count`] is `count`: every later call on files and directories,
    /// and starting a thread, answers an error of kind `Other` and has no effect. Clocks, random numbers and the
    /// functions of this type go on.
    pub fn halt_after(&self, count: u64) {
        self.world.state.lock().halt_after = Some(count);
    }

    /// Moves both clocks.
    pub fn advance(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.world.clock_nanos.fetch_add(nanos, Ordering::SeqCst);
    }

    /// Turns the wall clock back, as an administrator may; the monotonic clock goes on.
    pub fn turn_back(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.world
            .unix_behind_micros
            .fetch_add(micros, Ordering::SeqCst);
    }

    /// Limits the space for the content of files, in bytes; `None` for no limit. What takes more than is left answers
    /// `StorageFull`; overwriting needs nothing.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world.state.lock().capacity_bytes = bytes;
    }

    /// The live content of a file; `None` when there is none at `path`. Not counted, and never refused.
    #[must_use]
    pub fn read_file(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.world.state.lock();
        let file = state.tree.file(find_path(&state, path.as_ref())?)?;
        let mut bytes = vec![0; usize::try_from(file.content.len()).ok()?];
        file.content.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Puts a file with this content at `path`, durably, in place of what was there; missing directories are made.
    /// Not counted, and never refused.
    ///
    /// # Errors
    /// `IsADirectory`, `NotADirectory`, and `InvalidInput` for a path that names no file.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let components = components_of(path.as_ref())?;
        let Some((name, parents)) = components.split_last() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut state = self.world.state.lock();
        let mut directory = ROOT;
        for parent in parents {
            let tree = &mut state.tree;
            directory =
                tree.find_or_create(directory, parent, Node::Directory(Names::default()))?;
        }
        let empty = Node::File(FileNode::default());
        let node = state.tree.find_or_create(directory, name, empty)?;
        if state.tree.file(node).is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        state.change_content(node, |content| *content = Content::durable_from(bytes))
    }

    /// Damages the byte at `offset` of the file at `path`: `change` gets it, and the result is live and durable.
    /// `false`, and nothing done, when there is no such byte. Not counted, and never refused.
    pub fn corrupt(
        &self,
        path: impl AsRef<Path>,
        offset: u64,
        change: impl FnOnce(&mut u8),
    ) -> bool {
        let mut state = self.world.state.lock();
        let Some(node) = find_path(&state, path.as_ref()) else {
            return false;
        };
        state
            .change_content(node, |content| content.corrupt(offset, change))
            .unwrap_or(false)
    }

    /// The paths of all files, sorted. Not counted, and never refused.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let state = self.world.state.lock();
        let mut files = Vec::new();
        let mut directories = vec![(ROOT, PathBuf::from("/"))];
        while let Some((directory, path)) = directories.pop() {
            let names = state.tree.names(directory).into_iter();
            for (name, node) in names.flat_map(Names::iter) {
                if state.tree.file(node).is_some() {
                    files.push(path.join(name));
                } else {
                    directories.push((node, path.join(name)));
                }
            }
        }
        files.sort();
        files
    }
}

impl Env for MemoryEnv {
    fn open_directory(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Directory>> {
        let components = components_of(path)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Observe)?;
        let mut node = ROOT;
        for name in components {
            let (next, is_new) = enter(&mut state, node, &name, create)?;
            if is_new {
                state.tree.pin(node, &name);
            }
            node = next;
        }
        Ok(Arc::new(MemoryDirectory::new(
            Arc::clone(&self.world),
            node,
            path.to_owned(),
        )))
    }

    fn canonical_path(&self, path: &Path) -> io::Result<PathBuf> {
        let components = components_of(path)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Observe)?;
        let mut node = ROOT;
        for name in &components {
            node = find(&state, node, name)?.ok_or_else(state::no_such_file)?;
        }
        Ok(Path::new("/").join(components.iter().collect::<PathBuf>()))
    }

    fn unix_micros(&self) -> u64 {
        let elapsed_micros = self.world.clock_nanos.load(Ordering::SeqCst) / 1_000;
        let behind_micros = self.world.unix_behind_micros.load(Ordering::SeqCst);
        let micros = self.world.unix_start_micros.saturating_add(elapsed_micros);
        micros.saturating_sub(behind_micros)
    }

    /// Moves the clock a little, so that loops that wait for a moment come to an end.
    fn monotonic_nanos(&self) -> u64 {
        self.world
            .clock_nanos
            .fetch_add(CLOCK_STEP_NANOS, Ordering::SeqCst)
            + CLOCK_STEP_NANOS
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.world.random.lock().fill(bytes);
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle> {
        self.world.state.lock().begin(Access::Observe)?;
        threads::spawn(name, body)
    }

    /// Moves the clock by `duration` and lets other threads run.
    fn sleep(&self, duration: Duration) {
        self.advance(duration);
        threads::give_way();
    }

    fn parallelism(&self) -> usize {
        PARALLELISM
    }
}

/// The names along `path`, which is taken from the root whether it is absolute or not. `..` goes up by name: there are
/// no symbolic links.
fn components_of(path: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            Component::ParentDir => drop(names.pop()),
            Component::Normal(name) => {
                let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
                check_name(name)?;
                names.push(name.to_owned());
            }
        }
    }
    Ok(names)
}

/// What `path` stands for.
fn find_path(state: &State, path: &Path) -> Option<NodeId> {
    let components = components_of(path).ok()?;
    components.iter().try_fold(ROOT, |directory, name| {
        find(state, directory, name).ok().flatten()
    })
}

// Loom's locks work inside its models only; these tests use them outside.
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
