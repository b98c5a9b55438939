//! The damaged database: its folders, as far as they are there. Nothing is written to it but the lock file.

use std::{io, path::Path, sync::Arc};

use kingtide_base::StorageError;
use kingtide_env::{Directory, Env, File, FileLock, OpenMode};

use crate::error::{Error, ErrorKind, Result};

/// See the module.
pub(super) struct Source {
    pub(super) root: Arc<dyn Directory>,
    pub(super) wal: Folder,
    pub(super) klog: Folder,
    pub(super) vlog: Folder,
    _lock: Option<Box<dyn FileLock>>,
}

/// A folder of the database, which may be missing.
pub(super) struct Folder {
    name: &'static str,
    directory: Option<Arc<dyn Directory>>,
    /// The names of the files in it, and their lengths in bytes.
    pub(super) files: Vec<(String, u64)>,
}

impl Source {
    /// Opens the database in `path`.
    ///
    /// # Errors
    /// `NotFound`, `Locked`, and what the system answers.
    pub(super) fn open(env: Arc<dyn Env>, path: &Path) -> Result<Self> {
        let root = env.open_directory(path, false).map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::NotADirectory => ErrorKind::InvalidArgument,
                _ => ErrorKind::Io,
            };
            let text = format!("cannot open the directory {}: {error}", path.display());
            Error::new(kind, text)
        })?;
        let lock = match root.lock("LOCK") {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(Error::new(
                    ErrorKind::Locked,
                    format!("{} is open: close it first", path.display()),
                ));
            }
            // What cannot be written to needs no lock.
            Err(_) => None,
        };
        Ok(Self {
            wal: Folder::open(&root, "wal")?,
            klog: Folder::open(&root, "klog")?,
            vlog: Folder::open(&root, "vlog")?,
            root,
            _lock: lock,
        })
    }
}

impl Folder {
    fn open(root: &Arc<dyn Directory>, name: &'static str) -> Result<Self> {
        let directory = match root.open_directory(name, false) {
            Ok(directory) => Some(directory),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                None
            }
            Err(error) => return Err(StorageError::io(name, "open", error).into()),
        };
        let mut files = Vec::new();
        if let Some(directory) = &directory {
            let entries = directory
                .list()
                .map_err(|error| StorageError::io(name, "list", error))?;
            let only_files = entries.into_iter().filter(|entry| !entry.is_directory);
            files.extend(only_files.map(|entry| (entry.name, entry.bytes)));
            files.sort();
        }
        Ok(Self {
            name,
            directory,
            files,
        })
    }

    /// How messages name a file in it.
    pub(super) fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.name)
    }

    /// Opens a file; `None` when it is missing.
    ///
    /// # Errors
    /// What the system answers.
    pub(super) fn read(&self, file: &str) -> Result<Option<Arc<dyn File>>> {
        let Some(directory) = &self.directory else {
            return Ok(None);
        };
        match directory.open(file, OpenMode::Read) {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io(self.path(file), "open", error).into()),
        }
    }
}

/// All bytes of a file.
///
/// # Errors
/// What the system answers.
pub(super) fn read_all(file: &dyn File, name: &str) -> Result<Vec<u8>> {
    let fail = |operation, error| Error::from(StorageError::io(name, operation, error));
    let length = file.len().map_err(|error| fail("measure", error))?;
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let count = file
        .read_at(&mut bytes, 0)
        .map_err(|error| fail("read", error))?;
    bytes.truncate(count);
    Ok(bytes)
}
