//! An open file of a world in memory.

use std::{io, sync::Arc};

use super::{
    World,
    content::FILE_BYTES_MAX,
    state::{Access, no_such_file},
    tree::NodeId,
};
use crate::{
    File,
    border::{end_of, read_only},
};

#[derive(Debug)]
pub(crate) struct MemoryFile {
    world: Arc<World>,
    node: NodeId,
    is_writable: bool,
}

impl MemoryFile {
    /// A handle on `node`, which the caller has counted with `State::add_handle`.
    pub(super) fn new(world: Arc<World>, node: NodeId, is_writable: bool) -> Self {
        Self {
            world,
            node,
            is_writable,
        }
    }

    /// What a sync that failed leaves: whether the bytes written before it survive a power cut stays open, also after
    /// a later sync that succeeds.
    pub(crate) fn abandon_unsynced(&self) {
        if let Some(file) = self.world.state.lock().tree.file_mut(self.node) {
            file.content.abandon();
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.is_writable {
            Ok(())
        } else {
            Err(read_only())
        }
    }
}

/// The end of the range, refused when no file is that long.
fn end_within_limit(offset: u64, bytes: u64) -> io::Result<u64> {
    let end = end_of(offset, bytes)?;
    if end > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(end)
}

impl File for MemoryFile {
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        end_of(offset, target.len() as u64)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Observe)?;
        let file = state.tree.file(self.node).ok_or_else(no_such_file)?;
        Ok(file.content.read(target, offset))
    }

    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let end = end_within_limit(offset, source.len() as u64)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Mutate)?;
        state.check_space(self.node, offset, end)?;
        state.change_content(self.node, |content| content.write(source, offset))
    }

    /// Prepares nothing, but answers like a world with windows, so that engines take that path.
    fn prepare_window(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        let end = end_of(offset, bytes)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Observe)?;
        let file = state.tree.file(self.node).ok_or_else(no_such_file)?;
        Ok(self.is_writable && bytes > 0 && end <= file.content.len())
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        let end = end_within_limit(offset, bytes)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Mutate)?;
        state.check_space(self.node, offset, end)?;
        state.change_content(self.node, |content| content.allocate(offset, bytes))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        end_within_limit(0, bytes)?;
        let mut state = self.world.state.lock();
        state.begin(Access::Mutate)?;
        state.change_content(self.node, |content| content.set_len(bytes))
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.world.state.lock();
        state.begin(Access::Observe)?;
        let file = state.tree.file(self.node).ok_or_else(no_such_file)?;
        Ok(file.content.len())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.world.state.lock();
        state.begin(Access::Mutate)?;
        let file = state.tree.file_mut(self.node).ok_or_else(no_such_file)?;
        file.content.sync();
        Ok(())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.world.state.lock().drop_handle(self.node);
    }
}
