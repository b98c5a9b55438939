//! A number for what is on a disk, to tell equal disks from different ones.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{
    MemoryEnv,
    tree::{Names, Node, NodeId, ROOT, Tree},
};

impl MemoryEnv {
    /// A hash of the names and the live bytes of all files: equal worlds have the same, and worlds that differ another
    /// one but for once in 2^64 times. Not the same in all builds. Not counted, and never refused.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let state = self.world.state.lock();
        let mut hasher = DefaultHasher::new();
        hash_directory(&state.tree, ROOT, &mut hasher);
        hasher.finish()
    }
}

fn hash_directory(tree: &Tree, directory: NodeId, hasher: &mut DefaultHasher) {
    for (name, node) in tree.names(directory).into_iter().flat_map(Names::iter) {
        name.hash(hasher);
        match tree.nodes.get(&node) {
            Some(Node::File(file)) => file.content.hash_live(hasher),
            _ => hash_directory(tree, node, hasher),
        }
    }
    // The end of a directory: what follows belongs to the one above.
    hasher.write_u8(0);
}
