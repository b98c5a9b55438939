//! An open directory and the names in it. Every call works relative to the handle, not to the path, which is kept for
//! messages only.

use std::{
    any::Any,
    fs::{self, DirBuilder, OpenOptions},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{file::PosixFile, lock::PosixLock, system};
use crate::{Directory, DirectoryEntry, File, FileLock, OpenMode, border::check_name};

#[derive(Debug)]
pub(super) struct PosixDirectory {
    handle: fs::File,
    path: PathBuf,
    mapping: bool,
}

impl PosixDirectory {
    /// Opens a directory by its path; see [`crate::Env::open_directory`].
    pub(super) fn open_top(path: &Path, create: bool, mapping: bool) -> io::Result<Self> {
        let handle = match open_path(path) {
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                create_durably(path)?;
                open_path(path)?
            }
            Err(error) => return Err(error),
            Ok(handle) => {
                if create {
                    finish_creation(path)?;
                }
                handle
            }
        };
        Ok(Self {
            handle,
            path: path.to_owned(),
            mapping,
        })
    }

    /// Opens `name` and makes sure that it is an ordinary file.
    fn open_regular(&self, name: &str, flags: libc::c_int) -> io::Result<fs::File> {
        check_name(name)?;
        // O_NONBLOCK: opening a pipe of that name must fail below, not wait for its other end. Files ignore it.
        let flags = flags | libc::O_NONBLOCK;
        let handle = system::open_at(self.handle.as_fd(), &system::c_name(name)?, flags)?;
        let file = fs::File::from(handle);
        let kind = file.metadata()?.file_type();
        if kind.is_file() {
            Ok(file)
        } else if kind.is_dir() {
            Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                format!("{name} is a directory"),
            ))
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{name} is not an ordinary file"),
            ))
        }
    }

    fn open_below(&self, name: &str) -> io::Result<OwnedFd> {
        system::open_at(
            self.handle.as_fd(),
            &system::c_name(name)?,
            libc::O_RDONLY | libc::O_DIRECTORY,
        )
    }
}

impl Directory for PosixDirectory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open_directory(&self, name: &str, create: bool) -> io::Result<Arc<dyn Directory>> {
        check_name(name)?;
        let handle = match self.open_below(name) {
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                match system::make_directory_at(self.handle.as_fd(), &system::c_name(name)?) {
                    // Somebody else was faster: theirs is as good.
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    _ => self.open_below(name)?,
                }
            }
            other => other?,
        };
        Ok(Arc::new(Self {
            handle: handle.into(),
            path: self.path.join(name),
            mapping: self.mapping,
        }))
    }

    /// Names that are not UTF-8 are none of ours; they are listed with replacement characters, so that a directory
    /// with foreign files does not look empty.
    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for name in system::read_names(self.handle.as_fd())? {
            let status = match system::status_at(self.handle.as_fd(), &name) {
                // Removed since its name was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            entries.push(DirectoryEntry {
                name: name.to_string_lossy().into_owned(),
                is_directory: status.is_directory,
                bytes: status.bytes,
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let flags = match mode {
            OpenMode::Read => libc::O_RDONLY,
            OpenMode::ReadWrite => libc::O_RDWR,
            OpenMode::CreateNew => libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
        };
        let file = self.open_regular(name, flags)?;
        let is_writable = mode != OpenMode::Read;
        Ok(Arc::new(PosixFile::new(file, is_writable, self.mapping)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        system::rename_at(
            self.handle.as_fd(),
            &system::c_name(from)?,
            &system::c_name(to)?,
        )
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        system::unlink_at(self.handle.as_fd(), &system::c_name(name)?)
    }

    fn remove_directory(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        system::remove_directory_at(self.handle.as_fd(), &system::c_name(name)?)
    }

    fn link(&self, name: &str, target: &dyn Directory, to: &str) -> io::Result<()> {
        check_name(name)?;
        check_name(to)?;
        let target: &dyn Any = target;
        let Some(target) = target.downcast_ref::<Self>() else {
            return Err(io::Error::new(
                io::ErrorKind::CrossesDevices,
                "the target directory belongs to another world",
            ));
        };
        system::link_at(
            self.handle.as_fd(),
            &system::c_name(name)?,
            target.handle.as_fd(),
            &system::c_name(to)?,
        )
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn FileLock>> {
        let file = self.open_regular(name, libc::O_RDWR | libc::O_CREAT)?;
        Ok(Box::new(PosixLock::take(file)?))
    }

    fn available_bytes(&self) -> io::Result<u64> {
        system::available_bytes(self.handle.as_fd())
    }
}

fn open_path(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(path)
}

/// The directory that holds the last name of `path`.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// Creates `path` and what is missing above it, from the top down, each entry durable before the next is made.
fn create_durably(path: &Path) -> io::Result<()> {
    let mut missing = vec![path];
    while let Some(last) = missing.last() {
        let parent = parent_of(last);
        if parent == *last || parent.try_exists()? {
            break;
        }
        missing.push(parent);
    }
    for directory in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o755).create(directory) {
            // Somebody else was faster; whether they have synced it yet is unknown.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => open_path(parent_of(directory))?.sync_all()?,
        }
    }
    Ok(())
}

/// Makes the entry of an existing directory durable: whoever created it may have been killed before doing so. A parent
/// that this user may not read was not the place of such a creation.
fn finish_creation(path: &Path) -> io::Result<()> {
    match open_path(parent_of(path)) {
        Ok(parent) => parent.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}
