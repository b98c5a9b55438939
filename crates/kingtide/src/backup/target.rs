//! Where a copy is made: in a work directory beside the target, which takes the target's name when everything in it is
//! durable. So the target is absent, or empty, or whole.
//!
//! The work directory is named `.TARGET.RANDOM.unfinished` and locked by its `LOCK` file for as long as it is worked in.
//! One that is left by a crash is locked by nobody; the next attempt for the same target removes it. Whoever removes it
//! holds its lock and then looks at its name once more: had its owner finished, it would have another one.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use kingtide_base::{StorageError, StorageResult};
use kingtide_env::{Directory, Env, FileLock};

use crate::error::{Error, ErrorKind, Result};

/// As in every database.
const LOCK_NAME: &str = "LOCK";
const FOLDERS: [&str; 3] = ["wal", "klog", "vlog"];
/// The end of a work directory's name.
const UNFINISHED: &str = ".unfinished";

/// See the module. Dropping it unfinished removes the work directory.
pub(super) struct Target {
    /// The work directory.
    pub(super) root: Arc<dyn Directory>,
    pub(super) klog: Arc<dyn Directory>,
    pub(super) vlog: Arc<dyn Directory>,
    wal: Arc<dyn Directory>,
    parent: Arc<dyn Directory>,
    name: String,
    work_name: String,
    is_finished: bool,
    _lock: Box<dyn FileLock>,
}

impl Target {
    /// Checks `path` and makes a work directory for it. `source` is the directory of the database.
    ///
    /// # Errors
    /// `InvalidArgument` (the database's own directory or one of its folders, a file, no name), `AlreadyExists` (not empty), and
    /// what the system answers.
    pub(super) fn begin(env: &dyn Env, source: &Path, path: &Path) -> Result<Self> {
        let path = resolve(env, path)?;
        check_outside(env, source, &path)?;
        check_free(env, &path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::invalid("the root directory cannot be the target"));
        };
        let name = name
            .to_str()
            .ok_or_else(|| Error::invalid("the name of the target directory must be UTF-8"))?;
        let parent = env
            .open_directory(parent, true)
            .map_err(|error| path_error(parent, "open", error))?;
        remove_leftovers(parent.as_ref(), name);
        let work_name = format!("{}{:016x}{UNFINISHED}", prefix_of(name), env.random_u64());
        Self::make(&parent, name, work_name.clone()).inspect_err(|_| {
            // Nobody else knows this name.
            remove_work(parent.as_ref(), &work_name);
        })
    }

    fn make(parent: &Arc<dyn Directory>, name: &str, work_name: String) -> Result<Self> {
        let open = |directory: &Arc<dyn Directory>, name: &str| {
            directory
                .open_directory(name, true)
                .map_err(|error| path_error(&directory.path().join(name), "create", error))
        };
        let root = open(parent, &work_name)?;
        let lock = root
            .lock(LOCK_NAME)
            .map_err(|error| path_error(&root.path().join(LOCK_NAME), "lock", error))?;
        let [wal, klog, vlog] = FOLDERS.map(|folder| open(&root, folder));
        Ok(Self {
            wal: wal?,
            klog: klog?,
            vlog: vlog?,
            parent: Arc::clone(parent),
            name: name.to_owned(),
            work_name,
            is_finished: false,
            _lock: lock,
            root,
        })
    }

    /// Makes the names of all files durable.
    ///
    /// # Errors
    /// What the system answers.
    pub(super) fn sync(&self) -> StorageResult<()> {
        [&self.wal, &self.klog, &self.vlog, &self.root]
            .iter()
            .try_for_each(|directory| sync(directory.as_ref()))
    }

    /// Gives the work directory, which is a whole and durable database, the target's name.
    ///
    /// # Errors
    /// `AlreadyExists` when something came into the target meanwhile, `InvalidArgument` when a file did, and what the
    /// system answers.
    pub(super) fn finish(mut self) -> Result<()> {
        let path = self.parent.path().join(&self.name);
        self.parent
            .rename(&self.work_name, &self.name)
            .map_err(|error| match error.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => not_empty(&path),
                io::ErrorKind::NotADirectory => not_a_directory(&path),
                _ => path_error(&path, "rename the copy to", error),
            })?;
        // It has its name: from here on it is not removed, also when its durability is unknown.
        self.is_finished = true;
        Ok(sync(self.parent.as_ref())?)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_finished {
            remove_work(self.parent.as_ref(), &self.work_name);
        }
    }
}

/// `path` in its canonical spelling, although it need not exist.
fn resolve(env: &dyn Env, path: &Path) -> Result<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        let shown = if existing.as_os_str().is_empty() {
            Path::new(".")
        } else {
            existing
        };
        match env.canonical_path(shown) {
            Ok(full) => {
                let below = missing.iter().rev();
                return Ok(below.fold(full, |path: PathBuf, name| path.join(name)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(not_a_directory(path));
            }
            Err(error) => return Err(path_error(path, "open", error)),
        }
        let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
            return Err(Error::invalid(format!(
                "{path:?} does not name a directory"
            )));
        };
        missing.push(name);
        existing = parent;
    }
}

fn check_outside(env: &dyn Env, source: &Path, target: &Path) -> Result<()> {
    // A database that is open has its directory, unless somebody moved it: then it is not in the way either.
    match env.canonical_path(source) {
        Ok(source) if is_in_the_way(&source, target) => Err(Error::invalid(
            "the target must not be the database's own directory, nor lie in one of its folders",
        )),
        _ => Ok(()),
    }
}

/// A folder of another name in the database's directory is none of its files, and may hold a copy.
fn is_in_the_way(source: &Path, target: &Path) -> bool {
    let Ok(below) = target.strip_prefix(source) else {
        return false;
    };
    match below.components().next() {
        None => true,
        Some(first) => {
            let first = first.as_os_str().to_string_lossy();
            FOLDERS.contains(&first.as_ref()) || first.starts_with("MANIFEST")
        }
    }
}

fn check_free(env: &dyn Env, path: &Path) -> Result<()> {
    let entries = match env.open_directory(path, false) {
        Ok(found) => found.list(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(not_a_directory(path));
        }
        Err(error) => Err(error),
    };
    match entries {
        Ok(entries) if entries.is_empty() => Ok(()),
        Ok(_) => Err(not_empty(path)),
        Err(error) => Err(path_error(path, "open", error)),
    }
}

fn not_empty(path: &Path) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!(
            "the target {} is not empty: name a new or an empty directory",
            path.display()
        ),
    )
}

fn not_a_directory(path: &Path) -> Error {
    Error::invalid(format!("the target {} is not a directory", path.display()))
}

fn path_error(path: &Path, operation: &'static str, error: io::Error) -> Error {
    StorageError::io(path.display().to_string(), operation, error).into()
}

fn sync(directory: &dyn Directory) -> StorageResult<()> {
    let path = || directory.path().display().to_string();
    directory
        .sync()
        .map_err(|error| StorageError::io(path(), "sync", error))
}

fn prefix_of(name: &str) -> String {
    format!(".{name}.")
}

/// Removes the work directories that crashed attempts for the target `name` left. Best effort.
fn remove_leftovers(parent: &dyn Directory, name: &str) {
    let prefix = prefix_of(name);
    let is_work_of = |found: &str| {
        let random = found
            .strip_prefix(&prefix)
            .and_then(|rest| rest.strip_suffix(UNFINISHED));
        random.is_some_and(|random| {
            random.len() == 16 && random.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
    };
    let list = || parent.list().unwrap_or_default();
    for entry in list() {
        if !entry.is_directory || !is_work_of(&entry.name) {
            continue;
        }
        let Ok(root) = parent.open_directory(&entry.name, false) else {
            continue;
        };
        let Ok(_lock) = root.lock(LOCK_NAME) else {
            continue;
        };
        if list().iter().any(|found| found.name == entry.name) {
            remove_work(parent, &entry.name);
        }
    }
}

/// Removes a work directory with everything that may be in it. Best effort: what stays is no database.
fn remove_work(parent: &dyn Directory, work_name: &str) {
    let Ok(root) = parent.open_directory(work_name, false) else {
        return;
    };
    // The manifest first: without it nothing here is taken for a database.
    remove_files(root.as_ref());
    for folder in FOLDERS {
        if let Ok(directory) = root.open_directory(folder, false) {
            remove_files(directory.as_ref());
            let _ = root.remove_directory(folder);
        }
    }
    let _ = parent.remove_directory(work_name);
}

fn remove_files(directory: &dyn Directory) {
    for entry in directory.list().unwrap_or_default() {
        if !entry.is_directory {
            let _ = directory.remove(&entry.name);
        }
    }
}
