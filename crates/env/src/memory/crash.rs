//! What a power cut leaves: an image of a world in which everything is durable.

use std::collections::BTreeMap;

use super::{
    content::{Decide, SECTOR_BYTES, SectorFate},
    tree::{FileNode, Names, Node, NodeId, Tree},
};
use crate::random::SplitMix64;

/// Which of the possible states a power cut leaves. *Units* are what is kept or lost on its own: an unsynced sector,
/// the unsynced length of a file, an unsynced change of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashImage {
    /// Every unit is lost.
    NothingUnsynced,
    /// Every unit is kept: the live state.
    Everything,
    /// Each sector is kept, lost, torn, or has zeros where it was changed; each length is the old one, the new one or
    /// one between; each directory change is kept or lost.
    Random,
    /// One unit, chosen at random, is lost and every other kept.
    AllButOne,
}

/// The tree after a power cut. `seed` decides what `image` leaves open.
pub(super) fn after_power_cut(tree: &Tree, image: CrashImage, seed: u64) -> Tree {
    let random = SplitMix64::new(seed);
    let mut fate = match image {
        CrashImage::NothingUnsynced => Fate::AllLost,
        CrashImage::Everything => Fate::AllKept,
        CrashImage::Random => Fate::random(random),
        CrashImage::AllButOne => all_but_one(tree, random),
    };
    apply(tree, &mut fate)
}

/// Counts the units first, then chooses one.
fn all_but_one(tree: &Tree, mut random: SplitMix64) -> Fate {
    let mut counting = Fate::AllBut {
        lost: u64::MAX,
        asked: 0,
    };
    apply(tree, &mut counting);
    let Fate::AllBut { asked: units, .. } = counting else {
        return Fate::AllKept;
    };
    Fate::AllBut {
        lost: random.below(units),
        asked: 0,
    }
}

fn apply(tree: &Tree, fate: &mut Fate) -> Tree {
    let mut after = tree.clone();
    after.nodes = tree
        .nodes
        .iter()
        .map(|(id, node)| (*id, node_after(node, fate)))
        .collect();
    recount(&mut after.nodes);
    after.sweep();
    after
}

fn node_after(node: &Node, fate: &mut Fate) -> Node {
    match node {
        Node::Directory(names) => Node::Directory(names.after_power_cut(|| fate.is_kept())),
        Node::File(file) => {
            // Losing a unit of a file that has no name any more would show nowhere.
            let content = if file.name_count == 0 && matches!(fate, Fate::AllBut { .. }) {
                file.content.after_power_cut(&mut Fate::AllKept)
            } else {
                file.content.after_power_cut(fate)
            };
            Node::File(FileNode {
                content,
                ..FileNode::default()
            })
        }
    }
}

/// Counts the names of every file anew.
fn recount(nodes: &mut BTreeMap<NodeId, Node>) {
    let named: Vec<NodeId> = nodes
        .values()
        .filter_map(|node| match node {
            Node::Directory(names) => Some(names),
            Node::File(_) => None,
        })
        .flat_map(Names::iter)
        .map(|(_, node)| node)
        .collect();
    for id in named {
        if let Some(Node::File(file)) = nodes.get_mut(&id) {
            file.name_count += 1;
        }
    }
}

/// Decides about each unit. Units are asked for in a fixed order.
enum Fate {
    AllLost,
    AllKept,
    /// `kept_of_16` of 16 units are kept whole, on average.
    Random {
        random: SplitMix64,
        kept_of_16: u64,
    },
    /// The unit number `lost` is lost; `asked` were asked for so far.
    AllBut {
        lost: u64,
        asked: u64,
    },
}

impl Fate {
    /// Draws first how much is kept: were it always half, a long run of sectors would never survive nearly whole.
    fn random(mut random: SplitMix64) -> Self {
        let kept_of_16 = [2, 8, 14, 15][random.below(4) as usize];
        Self::Random { random, kept_of_16 }
    }

    fn is_kept(&mut self) -> bool {
        match self {
            Self::AllLost => false,
            Self::AllKept => true,
            Self::Random { random, kept_of_16 } => random.below(16) < *kept_of_16,
            Self::AllBut { lost, asked } => {
                *asked += 1;
                *asked - 1 != *lost
            }
        }
    }
}

impl Decide for Fate {
    fn sector(&mut self) -> SectorFate {
        if self.is_kept() {
            return SectorFate::Kept;
        }
        let Self::Random { random, .. } = self else {
            return SectorFate::Dropped;
        };
        match random.below(4) {
            0..2 => SectorFate::Dropped,
            2 => SectorFate::Torn(random.below(SECTOR_BYTES as u64) as usize),
            _ => SectorFate::Zeroed,
        }
    }

    fn length(&mut self, durable: u64, live: u64) -> u64 {
        if let Self::Random { random, .. } = self {
            return match random.below(3) {
                0 => durable,
                1 => live,
                _ => durable.min(live) + random.below(durable.abs_diff(live)),
            };
        }
        if self.is_kept() { live } else { durable }
    }
}
