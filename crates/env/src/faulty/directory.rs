//! An open directory of a world with faults.

use std::{any::Any, io, path::Path, sync::Arc};

use super::{
    file::FaultyFile,
    rules::{Name, Operation, Rules},
};
use crate::{Directory, DirectoryEntry, File, FileLock, OpenMode};

#[derive(Debug)]
pub(super) struct FaultyDirectory {
    inner: Arc<dyn Directory>,
    rules: Arc<Rules>,
}

impl FaultyDirectory {
    pub(super) fn new(inner: Arc<dyn Directory>, rules: Arc<Rules>) -> Self {
        Self { inner, rules }
    }
}

impl Directory for FaultyDirectory {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn open_directory(&self, name: &str, create: bool) -> io::Result<Arc<dyn Directory>> {
        self.rules
            .check(Operation::of_directory(create), Name::Plain(name))?;
        let inner = self.inner.open_directory(name, create)?;
        Ok(Arc::new(Self::new(inner, Arc::clone(&self.rules))))
    }

    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        self.rules.check(Operation::List, Name::Path(self.path()))?;
        self.inner.list()
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let operation = match mode {
            OpenMode::Read | OpenMode::ReadWrite => Operation::Open,
            OpenMode::CreateNew => Operation::Create,
        };
        self.rules.check(operation, Name::Plain(name))?;
        let inner = self.inner.open(name, mode)?;
        Ok(Arc::new(FaultyFile::new(
            inner,
            name,
            Arc::clone(&self.rules),
        )))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rules
            .check(Operation::Rename, Name::Either(from, to))?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.rules.check(Operation::Remove, Name::Plain(name))?;
        self.inner.remove(name)
    }

    fn remove_directory(&self, name: &str) -> io::Result<()> {
        self.rules.check(Operation::Remove, Name::Plain(name))?;
        self.inner.remove_directory(name)
    }

    fn link(&self, name: &str, target: &dyn Directory, to: &str) -> io::Result<()> {
        self.rules.check(Operation::Link, Name::Either(name, to))?;
        let any: &dyn Any = target;
        match any.downcast_ref::<Self>() {
            Some(target) => self.inner.link(name, target.inner.as_ref(), to),
            None => self.inner.link(name, target, to),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.rules
            .check(Operation::DirectorySync, Name::Path(self.path()))?;
        self.inner.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn FileLock>> {
        self.rules.check(Operation::Lock, Name::Plain(name))?;
        self.inner.lock(name)
    }

    fn available_bytes(&self) -> io::Result<u64> {
        self.rules
            .check(Operation::Space, Name::Path(self.path()))?;
        self.inner.available_bytes()
    }
}
