//! A small ordered set of arena entries for commits that are too small for a run of their own.
//!
//! Order: keys ascending, sequence numbers descending, later offset first. One writer, any number of readers without
//! locks. A list never shrinks and takes a fixed number of entries; full, it never changes again ("frozen") and can be
//! merged like a run.
//!
//! Nodes are numbers: 0 is the head (and, as a link, "no node"), the n-th inserted entry is node n. All links live in one
//! array; how tall a node is, and so where its links begin, is decided when the list is made, by a bijection of its number:
//! a quarter of the nodes are taller than 1, a sixteenth taller than 2, and so on, exactly, so the array needs no slack.
//! Heights do not depend on keys, which are therefore compared, on average, as in a skip list with random heights.
//!
//! Insertion stores the new node's offset and links first and then links it in from the bottom up with Release; readers
//! follow links with Acquire. Going back is a search for the last node before, as there are no back links.

use std::cmp::Ordering as KeyOrdering;

use kingtide_base::{KeyOrder, SeqNo};
use kingtide_env::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::arena::{Arena, EntryOffset};

/// The most levels: four to the power of this many entries are searched well.
const HEIGHT_MAX: usize = 7;

/// See the module's documentation. Nodes are passed to readers as numbers; 0 is no node.
pub struct SkipList {
    capacity: usize,
    /// Where the links of each node begin in `links`; one more than there are nodes.
    link_starts: Box<[u32]>,
    links: Box<[AtomicU32]>,
    /// The entry of each node; node 0 has none.
    offsets: Box<[AtomicU32]>,
    /// Nodes that are completely linked. Written by the writer alone.
    len: AtomicUsize,
}

impl SkipList {
    /// An empty list for `capacity` entries (at least 1, at most 2^16).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1 << 16);
        let mut link_starts = Vec::with_capacity(capacity + 2);
        let mut links = 0;
        for node in 0..=capacity {
            link_starts.push(links as u32);
            links += if node == 0 {
                HEIGHT_MAX
            } else {
                height_of(node, capacity)
            };
        }
        link_starts.push(links as u32);
        Self {
            capacity,
            link_starts: link_starts.into_boxed_slice(),
            links: (0..links).map(|_| AtomicU32::new(0)).collect(),
            offsets: (0..=capacity).map(|_| AtomicU32::new(0)).collect(),
            len: AtomicUsize::new(0),
        }
    }

    /// Entries inserted so far.
    #[must_use]
    pub fn len(&self) -> usize {
        // Acquire: pairs with the Release in `insert`; who sees a full list sees all its nodes.
        self.len.load(Ordering::Acquire)
    }

    /// True when nothing was inserted yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True when no more entries fit; a full list never changes again.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity
    }

    /// True when at most half of the room is left.
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        self.len() * 2 >= self.capacity
    }

    /// Inserts the published entry at `offset`; false when the list is full. For the one writer.
    pub fn insert(&self, offset: EntryOffset, arena: &Arena, order: &KeyOrder) -> bool {
        let len = self.len();
        if len == self.capacity {
            return false;
        }
        let target = EntryPlace::of(offset, arena);
        let mut before = [0_u32; HEIGHT_MAX];
        self.descend(
            |node_offset| target.is_after(node_offset, arena, order),
            &mut before,
        );
        let node = len + 1;
        // Relaxed: readers reach the node only through links stored with Release below.
        self.offsets[node].store(offset.0, Ordering::Relaxed);
        let height = self.height(node as u32);
        for (level, previous) in before.iter().enumerate().take(height) {
            let next = self.link(*previous, level);
            self.links[self.link_starts[node] as usize + level].store(next, Ordering::Relaxed);
        }
        for (level, previous) in before.iter().enumerate().take(height) {
            let index = self.link_starts[*previous as usize] as usize + level;
            // Release: publishes the node's offset, links and entry.
            self.links[index].store(node as u32, Ordering::Release);
        }
        // Release: who sees this length sees the whole node.
        self.len.store(node, Ordering::Release);
        true
    }

    /// The entry of `node`; none for node 0 and numbers that were never given out.
    #[inline]
    #[must_use]
    pub fn offset(&self, node: u32) -> EntryOffset {
        // Relaxed: the link that led to the node was loaded with Acquire.
        self.offsets
            .get(node as usize)
            .map_or(EntryOffset::NONE, |offset| {
                EntryOffset(offset.load(Ordering::Relaxed))
            })
    }

    /// The first node.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.link(0, 0)
    }

    /// The last node.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.descend(|_| true, &mut [0; HEIGHT_MAX])
    }

    /// The node after `node`.
    #[inline]
    #[must_use]
    pub fn next(&self, node: u32) -> u32 {
        if node as usize > self.capacity {
            return 0;
        }
        self.link(node, 0)
    }

    /// The node before `node`.
    #[must_use]
    pub fn previous(&self, node: u32, arena: &Arena, order: &KeyOrder) -> u32 {
        let target = EntryPlace::of(self.offset(node), arena);
        self.descend(
            |offset| target.is_after(offset, arena, order),
            &mut [0; HEIGHT_MAX],
        )
    }

    /// The first node whose key is at or after `key`.
    #[must_use]
    pub fn seek(&self, key: &[u8], arena: &Arena, order: &KeyOrder) -> u32 {
        let before = self.descend(
            |offset| order.compare(arena.key(offset), key).is_lt(),
            &mut [0; HEIGHT_MAX],
        );
        self.next_at(before, |offset| {
            order.compare(arena.key(offset), key).is_ge()
        })
    }

    /// The last node whose key is at or before `key`.
    #[must_use]
    pub fn seek_for_previous(&self, key: &[u8], arena: &Arena, order: &KeyOrder) -> u32 {
        self.descend(
            |offset| order.compare(arena.key(offset), key).is_le(),
            &mut [0; HEIGHT_MAX],
        )
    }

    /// The newest entry of `key` with a sequence number of at most `snapshot`, or none.
    #[must_use]
    pub fn get(&self, key: &[u8], snapshot: SeqNo, arena: &Arena, order: &KeyOrder) -> EntryOffset {
        let is_before = |offset| {
            let (node_key, sequence) = arena.key_and_sequence(offset);
            match order.compare(node_key, key) {
                KeyOrdering::Less => true,
                KeyOrdering::Equal => sequence > snapshot,
                KeyOrdering::Greater => false,
            }
        };
        let before = self.descend(is_before, &mut [0; HEIGHT_MAX]);
        let offset = self.offset(self.next_at(before, |offset| !is_before(offset)));
        if !offset.is_none() && order.compare(arena.key(offset), key).is_eq() {
            offset
        } else {
            EntryOffset::NONE
        }
    }

    /// The entries in order.
    pub fn offsets(&self) -> impl Iterator<Item = EntryOffset> + '_ {
        let mut node = 0;
        std::iter::from_fn(move || {
            node = self.link(node, 0);
            (node != 0).then(|| self.offset(node))
        })
    }

    /// The last node for which `is_before` holds (0 when for none), given that it holds for a first part of the list.
    /// Stores the last such node of every level.
    #[inline]
    fn descend(
        &self,
        is_before: impl Fn(EntryOffset) -> bool,
        before: &mut [u32; HEIGHT_MAX],
    ) -> u32 {
        let mut node = 0;
        let mut known_after = 0;
        for level in (0..HEIGHT_MAX).rev() {
            loop {
                let next = self.link(node, level);
                // A node that the level above found to be after need not be compared again.
                if next == 0 || next == known_after {
                    break;
                }
                if !is_before(self.offset(next)) {
                    known_after = next;
                    break;
                }
                node = next;
            }
            before[level] = node;
        }
        node
    }

    /// The first node after `node` for which `is_wanted` holds. Nodes that a writer linked in behind `node` since it was
    /// found are passed over.
    #[inline]
    fn next_at(&self, node: u32, is_wanted: impl Fn(EntryOffset) -> bool) -> u32 {
        let mut next = self.link(node, 0);
        while next != 0 && !is_wanted(self.offset(next)) {
            next = self.link(next, 0);
        }
        next
    }

    #[inline]
    fn height(&self, node: u32) -> usize {
        let node = node as usize;
        (self.link_starts[node + 1] - self.link_starts[node]) as usize
    }

    #[inline]
    fn link(&self, node: u32, level: usize) -> u32 {
        let index = self.link_starts[node as usize] as usize + level;
        // Acquire: pairs with the Release in `insert`, so the linked node's content is seen.
        self.links[index].load(Ordering::Acquire)
    }
}

/// The place of an entry in the order.
struct EntryPlace<'a> {
    offset: EntryOffset,
    key: &'a [u8],
    sequence: SeqNo,
}

impl<'a> EntryPlace<'a> {
    fn of(offset: EntryOffset, arena: &'a Arena) -> Self {
        let (key, sequence) = arena.key_and_sequence(offset);
        Self {
            offset,
            key,
            sequence,
        }
    }

    /// True when the entry at `other` comes before this one.
    #[inline]
    fn is_after(&self, other: EntryOffset, arena: &Arena, order: &KeyOrder) -> bool {
        let (key, sequence) = arena.key_and_sequence(other);
        order
            .compare(key, self.key)
            .then_with(|| self.sequence.cmp(&sequence))
            .then_with(|| self.offset.cmp(&other))
            .is_lt()
    }
}

/// The height of `node` (1 or more) in a list for `capacity` nodes.
fn height_of(node: usize, capacity: usize) -> usize {
    let bits = capacity.next_power_of_two().trailing_zeros().max(1);
    let mask = (1_usize << bits) - 1;
    // Odd multiplications and xors with a shift are bijections of the numbers of so many bits.
    let mut rank = (node & mask).wrapping_mul(0x9e37_79b1) & mask;
    rank ^= rank >> bits.div_ceil(2);
    rank = rank.wrapping_mul(0x85eb_ca6b) & mask;
    if rank == 0 {
        return HEIGHT_MAX;
    }
    (1 + rank.trailing_zeros() as usize / 2).min(HEIGHT_MAX)
}

#[cfg(test)]
mod tests;
