//! The directories of a world in memory: which names are bound to which files, live and durable.
//!
//! Every binding of a name has an identity of its own, a *link*: a rename moves a link, creating and linking make new
//! ones. A directory keeps its live names, its durable names, and a journal of the changes between them. Syncing
//! replaces the durable names by the live ones. A power cut replays a chosen part of the journal, in order, on the
//! durable names, under two rules:
//!
//! - a link is under one name at most (a rename never shows both its names), and
//! - a change that would cover a link which is still live elsewhere is dropped (so a rename whose old name was taken
//!   again never loses both its names).
//!
//! A link that was durable and is live is therefore in every image, exactly once, under a name it had.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use super::content::Content;

/// Names a file or directory of a world for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(u64);

/// The directory that every path begins at.
pub(super) const ROOT: NodeId = NodeId(0);

/// One binding of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Its identity, which a rename keeps.
    id: u64,
    /// What the name stands for.
    pub(super) node: NodeId,
}

/// A change of a directory that is not durable yet.
#[derive(Clone, Debug)]
enum Change {
    /// `name`, which was free, got a new link.
    Bind { name: String, link: Link },
    /// `link` moved to the name `to`, in place of the link `replaced`.
    Move {
        link: Link,
        to: String,
        replaced: Option<u64>,
    },
    /// The name of the link `id` was removed.
    Unbind { id: u64 },
}

/// The names in one directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    live: BTreeMap<String, Link>,
    durable: BTreeMap<String, Link>,
    journal: Vec<Change>,
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<NodeId> {
        self.live.get(name).map(|link| link.node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, NodeId)> {
        self.live.iter().map(|(name, link)| (name, link.node))
    }

    /// Binds the free `name` to `link`.
    fn bind(&mut self, name: &str, link: Link) {
        self.live.insert(name.to_owned(), link);
        self.journal.push(Change::Bind {
            name: name.to_owned(),
            link,
        });
    }

    /// Moves the link of `from` to `to`; the node that lost its name `to`, if there was one. `from` must exist.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> Option<NodeId> {
        let link = self.live.remove(from)?;
        let replaced = self.live.insert(to.to_owned(), link);
        self.journal.push(Change::Move {
            link,
            to: to.to_owned(),
            replaced: replaced.map(|link| link.id),
        });
        replaced.map(|link| link.node)
    }

    /// Removes `name`; the node that lost it.
    pub(super) fn unbind(&mut self, name: &str) -> Option<NodeId> {
        let link = self.live.remove(name)?;
        self.journal.push(Change::Unbind { id: link.id });
        Some(link.node)
    }

    /// Makes every change durable.
    pub(super) fn sync(&mut self) {
        if !self.journal.is_empty() {
            self.durable = self.live.clone();
            self.journal.clear();
        }
    }

    /// Makes the live name `name`, and nothing else, durable.
    fn pin(&mut self, name: &str) {
        let Some(link) = self.live.get(name).copied() else {
            return;
        };
        self.durable.retain(|_, old| old.id != link.id);
        self.durable.insert(name.to_owned(), link);
        self.journal.retain(|change| match change {
            Change::Bind { link: other, .. } | Change::Move { link: other, .. } => {
                other.id != link.id
            }
            Change::Unbind { .. } => true,
        });
    }

    /// The names after a power cut, all durable; `keep` is asked for each change that was not.
    pub(super) fn after_power_cut(&self, mut keep: impl FnMut() -> bool) -> Self {
        let alive: BTreeSet<u64> = self.live.values().map(|link| link.id).collect();
        let mut names = self.durable.clone();
        for change in &self.journal {
            if keep() {
                replay(&mut names, change, &alive);
            }
        }
        Self {
            live: names.clone(),
            durable: names,
            journal: Vec::new(),
        }
    }

    /// Every node that a name leads to or may lead to after a power cut.
    fn all_nodes(&self) -> impl Iterator<Item = NodeId> {
        let changed = self.journal.iter().filter_map(|change| match change {
            Change::Bind { link, .. } | Change::Move { link, .. } => Some(link.node),
            Change::Unbind { .. } => None,
        });
        self.live
            .values()
            .chain(self.durable.values())
            .map(|link| link.node)
            .chain(changed)
    }
}

/// Applies one change to `names`, unless that would cover a link that is alive.
fn replay(names: &mut BTreeMap<String, Link>, change: &Change, alive: &BTreeSet<u64>) {
    match change {
        Change::Bind { name, link } => {
            if !names.get(name).is_some_and(|old| alive.contains(&old.id)) {
                names.insert(name.clone(), *link);
            }
        }
        Change::Move { link, to, replaced } => {
            let covers_live = names.get(to).is_some_and(|old| {
                old.id != link.id && Some(old.id) != *replaced && alive.contains(&old.id)
            });
            if !covers_live {
                names.retain(|_, old| old.id != link.id);
                names.insert(to.clone(), *link);
            }
        }
        Change::Unbind { id } => names.retain(|_, old| old.id != *id),
    }
}

/// A file or a directory.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(FileNode),
    Directory(Names),
}

/// A file, under any number of names.
#[derive(Clone, Debug, Default)]
pub(super) struct FileNode {
    pub(super) content: Content,
    /// Live names, in all directories.
    pub(super) name_count: u64,
    /// Open handles.
    pub(super) handle_count: u64,
}

impl FileNode {
    /// True while a name or a handle leads to the file; then its space is in use.
    pub(super) fn is_reachable(&self) -> bool {
        self.name_count > 0 || self.handle_count > 0
    }
}

/// All files and directories of a world.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    next_node: u64,
    next_link: u64,
}

impl Tree {
    /// A world with an empty root directory.
    pub(super) fn new() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Directory(Names::default()))]),
            next_node: ROOT.0 + 1,
            next_link: 0,
        }
    }

    /// The file `id`, if it is one.
    pub(super) fn file(&self, id: NodeId) -> Option<&FileNode> {
        match self.nodes.get(&id) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    /// The file `id`, if it is one, to change it.
    pub(super) fn file_mut(&mut self, id: NodeId) -> Option<&mut FileNode> {
        match self.nodes.get_mut(&id) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    /// The names in the directory `id`, if it is one.
    pub(super) fn names(&self, id: NodeId) -> Option<&Names> {
        match self.nodes.get(&id) {
            Some(Node::Directory(names)) => Some(names),
            _ => None,
        }
    }

    /// The names in the directory `id`, if it is one, to change them.
    pub(super) fn names_mut(&mut self, id: NodeId) -> Option<&mut Names> {
        match self.nodes.get_mut(&id) {
            Some(Node::Directory(names)) => Some(names),
            _ => None,
        }
    }

    /// Adds `node` under the free `name` of `directory`.
    pub(super) fn create(&mut self, directory: NodeId, name: &str, node: Node) -> NodeId {
        let id = NodeId(self.next_node);
        self.next_node += 1;
        self.nodes.insert(id, node);
        self.bind(directory, name, id);
        id
    }

    /// What has the name `name` in `directory`, or else `node`, put there; the name is durable in either case.
    ///
    /// # Errors
    /// `NotADirectory` when `directory` is a file.
    pub(super) fn find_or_create(
        &mut self,
        directory: NodeId,
        name: &str,
        node: Node,
    ) -> io::Result<NodeId> {
        let names = self.names(directory).ok_or(io::ErrorKind::NotADirectory)?;
        let id = match names.get(name) {
            Some(id) => id,
            None => self.create(directory, name, node),
        };
        self.pin(directory, name);
        Ok(id)
    }

    /// Makes the name `name` in `directory`, and nothing else, durable.
    pub(super) fn pin(&mut self, directory: NodeId, name: &str) {
        if let Some(names) = self.names_mut(directory) {
            names.pin(name);
        }
    }

    /// Gives `node` the free `name` in `directory`.
    pub(super) fn bind(&mut self, directory: NodeId, name: &str, node: NodeId) {
        let link = Link {
            id: self.next_link,
            node,
        };
        self.next_link += 1;
        if let Some(names) = self.names_mut(directory) {
            names.bind(name, link);
            if let Some(file) = self.file_mut(node) {
                file.name_count += 1;
            }
        }
    }

    /// Forgets files that nothing leads to, now or after a power cut.
    pub(super) fn sweep(&mut self) {
        let named: BTreeSet<NodeId> = self
            .nodes
            .values()
            .filter_map(|node| match node {
                Node::Directory(names) => Some(names.all_nodes()),
                Node::File(_) => None,
            })
            .flatten()
            .collect();
        self.nodes.retain(|id, node| match node {
            Node::File(file) => file.is_reachable() || named.contains(id),
            Node::Directory(_) => true,
        });
    }
}
