//! An open directory of a world in memory, and its lock files.

use std::{
    any::Any,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    World,
    file::MemoryFile,
    state::{Access, State, no_such_file},
    tree::{FileNode, Names, Node, NodeId},
};
use crate::{Directory, DirectoryEntry, File, FileLock, OpenMode, border::check_name};

#[derive(Debug)]
pub(super) struct MemoryDirectory {
    world: Arc<World>,
    node: NodeId,
    path: PathBuf,
}

impl MemoryDirectory {
    pub(super) fn new(world: Arc<World>, node: NodeId, path: PathBuf) -> Self {
        Self { world, node, path }
    }

    /// The file with this name; an error for a missing name and for a directory.
    fn find_file(&self, state: &State, name: &str) -> io::Result<NodeId> {
        let node = find(state, self.node, name)?.ok_or_else(no_such_file)?;
        if state.tree.file(node).is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(node)
    }
}

/// What `name` in `directory` stands for.
pub(super) fn find(state: &State, directory: NodeId, name: &str) -> io::Result<Option<NodeId>> {
    let names = state.tree.names(directory).ok_or_else(no_such_file)?;
    Ok(names.get(name))
}

/// Finds or creates the directory `name` in `directory`; the flag is true when it is new.
pub(super) fn enter(
    state: &mut State,
    directory: NodeId,
    name: &str,
    create: bool,
) -> io::Result<(NodeId, bool)> {
    match find(state, directory, name)? {
        Some(node) if state.tree.names(node).is_some() => {
            state.begin(Access::Observe)?;
            Ok((node, false))
        }
        Some(_) => Err(io::ErrorKind::NotADirectory.into()),
        None if create => {
            state.begin(Access::Mutate)?;
            let node = Node::Directory(Names::default());
            Ok((state.tree.create(directory, name, node), true))
        }
        None => Err(no_such_file()),
    }
}

impl Directory for MemoryDirectory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open_directory(&self, name: &str, create: bool) -> io::Result<Arc<dyn Directory>> {
        check_name(name)?;
        let mut state = self.world.state.lock();
        let (node, _) = enter(&mut state, self.node, name, create)?;
        Ok(Arc::new(Self::new(
            Arc::clone(&self.world),
            node,
            self.path.join(name),
        )))
    }

    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        let mut state = self.world.state.lock();
        state.begin(Access::Observe)?;
        let names = state.tree.names(self.node).ok_or_else(no_such_file)?;
        let entries = names.iter().map(|(name, node)| {
            let file = state.tree.file(node);
            DirectoryEntry {
                name: name.clone(),
                is_directory: file.is_none(),
                bytes: file.map_or(0, |file| file.content.len()),
            }
        });
        Ok(entries.collect())
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut state = self.world.state.lock();
        let node = if mode == OpenMode::CreateNew {
            state.begin(Access::Mutate)?;
            if find(&state, self.node, name)?.is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state
                .tree
                .create(self.node, name, Node::File(FileNode::default()))
        } else {
            state.begin(Access::Observe)?;
            self.find_file(&state, name)?
        };
        state.add_handle(node);
        Ok(Arc::new(MemoryFile::new(
            Arc::clone(&self.world),
            node,
            mode != OpenMode::Read,
        )))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Mutate)?;
        let source = find(&state, self.node, from)?.ok_or_else(no_such_file)?;
        if let Some(target) = find(&state, self.node, to)? {
            if source == target {
                // Two names of one file, or one name twice: POSIX leaves both.
                return Ok(());
            }
            check_replaceable(&state, source, target)?;
        }
        let names = state.tree.names_mut(self.node).ok_or_else(no_such_file)?;
        if let Some(replaced) = names.rename(from, to) {
            state.drop_name(replaced);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Mutate)?;
        self.find_file(&state, name)?;
        let names = state.tree.names_mut(self.node).ok_or_else(no_such_file)?;
        if let Some(removed) = names.unbind(name) {
            state.drop_name(removed);
        }
        Ok(())
    }

    fn remove_directory(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Mutate)?;
        let node = find(&state, self.node, name)?.ok_or_else(no_such_file)?;
        let below = state.tree.names(node).ok_or(io::ErrorKind::NotADirectory)?;
        if below.iter().next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let names = state.tree.names_mut(self.node).ok_or_else(no_such_file)?;
        // The node stays: a power cut may bring the name back, and handles keep working.
        names.unbind(name);
        Ok(())
    }

    fn link(&self, name: &str, target: &dyn Directory, to: &str) -> io::Result<()> {
        check_name(name)?;
        check_name(to)?;
        let target: &dyn Any = target;
        let target = target
            .downcast_ref::<Self>()
            .filter(|target| Arc::ptr_eq(&self.world, &target.world))
            .ok_or(io::ErrorKind::CrossesDevices)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Mutate)?;
        let node = find(&state, self.node, name)?.ok_or_else(no_such_file)?;
        if state.tree.file(node).is_none() {
            // As Linux answers: directories have one name.
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if find(&state, target.node, to)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.tree.bind(target.node, to, node);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.world.state.lock();
        state.begin(Access::Mutate)?;
        let names = state.tree.names_mut(self.node).ok_or_else(no_such_file)?;
        names.sync();
        state.tree.sweep();
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn FileLock>> {
        check_name(name)?;
        let mut state = self.world.state.lock();
        let node = if find(&state, self.node, name)?.is_some() {
            state.begin(Access::Observe)?;
            self.find_file(&state, name)?
        } else {
            state.begin(Access::Mutate)?;
            state
                .tree
                .create(self.node, name, Node::File(FileNode::default()))
        };
        if !state.locks.insert(node) {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "the lock is held",
            ));
        }
        Ok(Box::new(MemoryLock {
            world: Arc::clone(&self.world),
            node,
        }))
    }

    fn available_bytes(&self) -> io::Result<u64> {
        let mut state = self.world.state.lock();
        state.begin(Access::Observe)?;
        Ok(state.available_bytes())
    }
}

/// The rules of POSIX for renaming onto a name that is taken.
fn check_replaceable(state: &State, source: NodeId, target: NodeId) -> io::Result<()> {
    let is_source_directory = state.tree.names(source).is_some();
    match (is_source_directory, state.tree.names(target)) {
        (false, None) => Ok(()),
        (false, Some(_)) => Err(io::ErrorKind::IsADirectory.into()),
        (true, None) => Err(io::ErrorKind::NotADirectory.into()),
        (true, Some(names)) if names.iter().next().is_none() => Ok(()),
        (true, Some(_)) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
    }
}

#[derive(Debug)]
struct MemoryLock {
    world: Arc<World>,
    node: NodeId,
}

impl FileLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.world.state.lock().locks.remove(&self.node);
    }
}
