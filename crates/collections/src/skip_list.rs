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
//! In byte order a node also has the *head* of its key, 8 bytes that settle most comparisons without a look at the entry.
//! Keys of one family tend to begin alike, so a head does not hold the first bytes of the key but where it departs from
//! the first key that was inserted, and what follows there.
//!
//! Insertion stores the new node's offset and links first and then links it in from the bottom up with Release; readers
//! follow links with Acquire. Going back is a search for the last node before, as there are no back links.

use std::cmp::Ordering as KeyOrdering;

use kingtide_base::{KeyOrder, SeqNo};
use kingtide_env::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::{
    arena::{Arena, EntryOffset},
    sorted_run::head_of,
};

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
    /// The head of each node's key; see [`relative_head`].
    heads: Box<[AtomicU64]>,
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
            heads: (0..=capacity).map(|_| AtomicU64::new(0)).collect(),
            len: AtomicUsize::new(0),
        }
    }

    /// Bytes of memory that the list takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.link_starts)
            + size_of_val(&*self.links)
            + size_of_val(&*self.offsets)
            + size_of_val(&*self.heads)
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
        let (key, sequence) = arena.key_and_sequence(offset);
        let base = if len == 0 { key } else { self.base(arena) };
        let target = Target::new(key, base, order);
        let mut before = [0_u32; HEIGHT_MAX];
        self.descend(
            |node| self.is_before(node, &target, (sequence, offset), arena, order),
            &mut before,
        );
        let node = len + 1;
        // Relaxed: readers reach the node only through links stored with Release below.
        self.offsets[node].store(offset.0, Ordering::Relaxed);
        self.heads[node].store(target.head, Ordering::Relaxed);
        let height = self.height(node as u32);
        for (level, previous) in before.iter().enumerate().take(height) {
            let next = self.link(*previous, level);
            self.links[self.link_starts[node] as usize + level].store(next, Ordering::Relaxed);
        }
        for (level, previous) in before.iter().enumerate().take(height) {
            let index = self.link_starts[*previous as usize] as usize + level;
            // Release: publishes the node's offset, head, links and entry.
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
        let offset = self.offset(node);
        let (key, sequence) = arena.key_and_sequence(offset);
        let Some(target) = self.target(key, arena, order) else {
            return 0;
        };
        self.descend(
            |node| self.is_before(node, &target, (sequence, offset), arena, order),
            &mut [0; HEIGHT_MAX],
        )
    }

    /// The first node whose key is at or after `key`.
    #[must_use]
    pub fn seek(&self, key: &[u8], arena: &Arena, order: &KeyOrder) -> u32 {
        let Some(target) = self.target(key, arena, order) else {
            return 0;
        };
        self.first_not(|node| self.compare_key(node, &target, arena, order).is_lt())
    }

    /// The last node whose key is at or before `key`.
    #[must_use]
    pub fn seek_for_previous(&self, key: &[u8], arena: &Arena, order: &KeyOrder) -> u32 {
        let Some(target) = self.target(key, arena, order) else {
            return 0;
        };
        self.descend(
            |node| self.compare_key(node, &target, arena, order).is_le(),
            &mut [0; HEIGHT_MAX],
        )
    }

    /// The newest entry of `key` with a sequence number of at most `snapshot`, or none.
    #[must_use]
    pub fn get(&self, key: &[u8], snapshot: SeqNo, arena: &Arena, order: &KeyOrder) -> EntryOffset {
        let Some(target) = self.target(key, arena, order) else {
            return EntryOffset::NONE;
        };
        // No offset is larger than this one: of equal sequence numbers none comes before.
        let place = (snapshot, EntryOffset(u32::MAX));
        let node = self.first_not(|node| self.is_before(node, &target, place, arena, order));
        if node != 0 && self.compare_key(node, &target, arena, order).is_eq() {
            self.offset(node)
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
    fn descend(&self, is_before: impl Fn(u32) -> bool, before: &mut [u32; HEIGHT_MAX]) -> u32 {
        let mut node = 0;
        let mut known_after = 0;
        for level in (0..HEIGHT_MAX).rev() {
            loop {
                let next = self.link(node, level);
                // A node that the level above found to be after need not be compared again.
                if next == 0 || next == known_after {
                    break;
                }
                if !is_before(next) {
                    known_after = next;
                    break;
                }
                node = next;
            }
            before[level] = node;
        }
        node
    }

    /// The first node for which `is_before` does not hold. Nodes that a writer links in while this searches may or may not
    /// be seen.
    #[inline]
    fn first_not(&self, is_before: impl Fn(u32) -> bool) -> u32 {
        let last_before = self.descend(&is_before, &mut [0; HEIGHT_MAX]);
        let mut next = self.link(last_before, 0);
        while next != 0 && is_before(next) {
            next = self.link(next, 0);
        }
        next
    }

    /// True when `node` comes before the entry with the target's key, this sequence number and offset.
    #[inline]
    fn is_before(
        &self,
        node: u32,
        target: &Target<'_>,
        (sequence, offset): (SeqNo, EntryOffset),
        arena: &Arena,
        order: &KeyOrder,
    ) -> bool {
        match self.compare_key(node, target, arena, order) {
            KeyOrdering::Less => true,
            KeyOrdering::Equal => {
                let other = self.offset(node);
                let other_sequence = arena.key_and_sequence(other).1;
                (other_sequence, other) > (sequence, offset)
            }
            KeyOrdering::Greater => false,
        }
    }

    /// Compares the key of `node` with the target's.
    #[inline]
    fn compare_key(
        &self,
        node: u32,
        target: &Target<'_>,
        arena: &Arena,
        order: &KeyOrder,
    ) -> KeyOrdering {
        // Relaxed, as for the offset: the link that led to the node was loaded with Acquire.
        let head = self.heads[node as usize].load(Ordering::Relaxed);
        head.cmp(&target.head)
            .then_with(|| order.compare(arena.key(self.offset(node)), target.key))
    }

    /// What to compare the nodes' keys with when looking for `key`; `None` when there are no nodes.
    #[inline]
    fn target<'a>(&self, key: &'a [u8], arena: &Arena, order: &KeyOrder) -> Option<Target<'a>> {
        // Who sees any node sees the first one inserted, whose key is the base of all heads.
        (self.first() != 0).then(|| Target::new(key, self.base(arena), order))
    }

    /// The key inserted first.
    #[inline]
    fn base<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.key(self.offset(1))
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

/// A key that is looked for.
struct Target<'a> {
    key: &'a [u8],
    /// 0 unless the order is bytewise.
    head: u64,
}

impl<'a> Target<'a> {
    #[inline]
    fn new(key: &'a [u8], base: &[u8], order: &KeyOrder) -> Self {
        let head = if order.is_bytewise() {
            relative_head(key, base)
        } else {
            0
        };
        Self { key, head }
    }
}

/// A number that sorts like `key` among keys in byte order, with regard to `base`: smaller head, smaller key; equal heads
/// say nothing. From the highest bit: whether the key is at or after the base; how much of the base it shares (the more,
/// the closer to the base, on either side); the 6 bytes that follow.
#[inline]
fn relative_head(key: &[u8], base: &[u8]) -> u64 {
    const SHARED_BYTES_MAX: usize = 0x7fff;
    let shared = key.iter().zip(base).take_while(|(k, b)| k == b).count();
    let following = if shared < SHARED_BYTES_MAX {
        head_of(key, shared) >> 16
    } else {
        0
    };
    let shared = shared.min(SHARED_BYTES_MAX);
    if key == base {
        1 << 63
    } else if key < base {
        ((shared as u64) << 48) | following
    } else {
        (1 << 63) | (((SHARED_BYTES_MAX - shared) as u64) << 48) | following
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
