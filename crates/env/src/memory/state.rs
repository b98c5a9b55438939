//! What one lock guards: the tree, the held locks, the space in use, and the count of calls that drives crash
//! enumeration. One lock for the whole world keeps an image of it consistent.

use std::{collections::BTreeSet, io};

use super::{
    content::Content,
    tree::{FileNode, Node, NodeId, Tree},
};

/// Space of a world without a limit, as reported to callers, in bytes.
const UNLIMITED_BYTES: u64 = 1 << 40;

#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    /// Lock files that are held.
    pub(super) locks: BTreeSet<NodeId>,
    pub(super) capacity_bytes: Option<u64>,
    used_bytes: u64,
    pub(super) io_count: u64,
    pub(super) halt_after: Option<u64>,
}

/// Whether a call may change what is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Observe,
    /// Counted by `io_count`.
    Mutate,
}

impl State {
    /// A running machine that finds `tree` on its disk. Nothing is open in it.
    pub(super) fn new(mut tree: Tree, capacity_bytes: Option<u64>) -> Self {
        for node in tree.nodes.values_mut() {
            if let Node::File(file) = node {
                file.handle_count = 0;
            }
        }
        tree.sweep();
        let used_bytes = tree
            .nodes
            .values()
            .filter_map(|node| match node {
                Node::File(file) if file.is_reachable() => Some(file.content.allocated_bytes()),
                _ => None,
            })
            .sum();
        Self {
            tree,
            locks: BTreeSet::new(),
            capacity_bytes,
            used_bytes,
            io_count: 0,
            halt_after: None,
        }
    }

    /// Every call begins here: refuses it when the machine is off, counts it when it mutates.
    pub(super) fn begin(&mut self, access: Access) -> io::Result<()> {
        if self.halt_after.is_some_and(|limit| self.io_count >= limit) {
            return Err(io::Error::other("the machine is off"));
        }
        if access == Access::Mutate {
            self.io_count += 1;
        }
        Ok(())
    }

    pub(super) fn available_bytes(&self) -> u64 {
        self.capacity_bytes
            .unwrap_or(UNLIMITED_BYTES)
            .saturating_sub(self.used_bytes)
    }

    /// Changes the content of a file and keeps account of its space.
    pub(super) fn change_content<T>(
        &mut self,
        id: NodeId,
        change: impl FnOnce(&mut Content) -> T,
    ) -> io::Result<T> {
        let file = self.tree.file_mut(id).ok_or_else(no_such_file)?;
        let before = file.content.allocated_bytes();
        let result = change(&mut file.content);
        if file.is_reachable() {
            self.used_bytes = self.used_bytes - before + file.content.allocated_bytes();
        }
        Ok(result)
    }

    /// Refuses to write `offset .. end` of a file when the space for it is missing.
    pub(super) fn check_space(&self, id: NodeId, offset: u64, end: u64) -> io::Result<()> {
        let Some(capacity_bytes) = self.capacity_bytes else {
            return Ok(());
        };
        let file = self.tree.file(id).ok_or_else(no_such_file)?;
        let needed_bytes = file.content.bytes_to_allocate(offset, end);
        // Overwriting needs no space, also on a disk that is fuller than its capacity became.
        if needed_bytes > 0 && self.used_bytes + needed_bytes > capacity_bytes {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the disk is full",
            ));
        }
        Ok(())
    }

    /// Notes one more handle to a file.
    pub(super) fn add_handle(&mut self, id: NodeId) {
        if let Some(file) = self.tree.file_mut(id) {
            file.handle_count += 1;
        }
    }

    /// Notes one handle less; the space of a file that nothing leads to any more is free.
    pub(super) fn drop_handle(&mut self, id: NodeId) {
        self.release(id, |file| {
            file.handle_count = file.handle_count.saturating_sub(1);
        });
    }

    /// Notes one name less, if `id` is a file.
    pub(super) fn drop_name(&mut self, id: NodeId) {
        self.release(id, |file| {
            file.name_count = file.name_count.saturating_sub(1);
        });
    }

    fn release(&mut self, id: NodeId, change: impl FnOnce(&mut FileNode)) {
        if let Some(file) = self.tree.file_mut(id) {
            change(file);
            if !file.is_reachable() {
                self.used_bytes -= file.content.allocated_bytes();
            }
        }
    }
}

/// The answer when a node that a handle stands for is not there. Handles keep their nodes, so this is not expected.
pub(super) fn no_such_file() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "no such file or directory")
}
