//! The locks of all prepared transactions. Guarded by the commit lock: every commit asks here inside the ordered step
//! whether something that it writes is locked, and every prepare whether something that it locks is.
//!
//! Points are found through one hash index over all lock sets: buckets of chains whose links lie in the slots of the
//! transactions, so that publishing and ending one moves numbers and allocates nothing. What publishing needs
//! (a slot, buckets) is made outside the commit lock beforehand, as [`Room`]. Ranges, and keys whose order has no hash,
//! are searched set by set; a counter says whether there are any. An empty table costs a commit one comparison.
//!
//! A slot outlives its transaction until the outcome is durable: until then the log must keep the prepare record,
//! because a power cut may take the outcome back ([`LockTable::oldest`]).

use std::{ops::Bound, sync::Arc};

use kingtide_base::{Lsn, SegmentId, checksum_mix};

use super::{
    locks::{FamilyLocks, KeyRange, LockMode, LockSet, deleted_range, reaches},
    prepared::Prepared,
    validate::Validation,
    write_set::{Section, WriteSet},
};
use crate::{
    error::{Conflict, ConflictAccess, Error},
    family::Family,
    read::read_set::ReadSet,
};

/// The end of a chain.
const NOWHERE: Link = Link {
    slot: u32::MAX,
    node: u32::MAX,
};
/// Buckets of the smallest index.
const BUCKETS_MIN: usize = 64;
/// Slots that are made at least.
const SLOTS_MIN: usize = 16;

/// A node of the index: `slots[slot].nodes[node]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    slot: u32,
    node: u32,
}

/// A locked key in the index.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Of family and key.
    hash: u64,
    /// Which family of the lock set, which point of it.
    family: u32,
    point: u32,
    next: Link,
}

/// The index entries of one lock set, made outside the commit lock.
#[derive(Debug, Default)]
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    pub(super) fn new(locks: &LockSet) -> Self {
        let mut nodes = Vec::with_capacity(locks.point_count());
        for (index, family) in locks.families().iter().enumerate() {
            if !family.family.order.has_hash() {
                continue;
            }
            for (place, point) in family.points.iter().enumerate() {
                nodes.push(Node {
                    hash: index_hash(&family.family, point.hash),
                    family: index as u32,
                    point: place as u32,
                    next: NOWHERE,
                });
            }
        }
        Self(nodes)
    }
}

fn index_hash(family: &Family, key_hash: u64) -> u64 {
    checksum_mix(u64::from(family.id.0), key_hash)
}

/// Where a prepare record lies in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// The segment in which it begins.
    pub(crate) segment: SegmentId,
    /// Where it begins.
    pub(crate) start: Lsn,
}

#[derive(Debug)]
struct Slot {
    /// `None` once the transaction is ended.
    prepared: Option<Arc<Prepared>>,
    nodes: Vec<Node>,
    place: RecordPlace,
    /// Where the record of the outcome ends, once there is one.
    ended: Option<Lsn>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    slots: Vec<Option<Slot>>,
    heads: Vec<Link>,
    node_count: usize,
    /// Prepared transactions.
    active: usize,
    /// Of these, those whose locks must be searched one set after the other.
    searched: usize,
}

/// Memory for more locks.
pub(super) struct Room {
    slots: Vec<Option<Slot>>,
    heads: Vec<Link>,
}

impl Room {
    pub(super) fn new(wanted: RoomWanted) -> Self {
        Self {
            slots: Vec::with_capacity(wanted.slots),
            heads: vec![NOWHERE; wanted.buckets],
        }
    }
}

/// How much [`Room`] there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoomWanted {
    slots: usize,
    buckets: usize,
}

/// What an ended transaction held, to be let go outside the commit lock.
#[derive(Debug, Default)]
pub(super) struct Released {
    _prepared: Option<Arc<Prepared>>,
    _nodes: Vec<Node>,
}

/// A lock in the way.
#[derive(Debug)]
pub(super) struct Held<'w> {
    /// By whom it is held.
    holder: Arc<Prepared>,
    family: Arc<Family>,
    /// The key, or an end of the range, that was asked for.
    key: &'w [u8],
    access: ConflictAccess,
}

impl Held<'_> {
    /// What the caller is told.
    pub(super) fn into_error(self) -> Error {
        let conflict = Conflict::new(self.family.name(), self.key, self.access);
        Error::from(conflict.with_prepared(&self.holder.xid))
    }
}

/// The lock that an access needs.
const fn mode_of(access: ConflictAccess) -> LockMode {
    match access {
        ConflictAccess::Write | ConflictAccess::Update => LockMode::Exclusive,
        ConflictAccess::Read | ConflictAccess::Range => LockMode::Shared,
    }
}

impl LockTable {
    /// True when nothing is locked.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.active == 0
    }

    /// The first lock in the way of a commit of `writes`, whose reads for update `validation` knows. A commit that ends
    /// a prepared transaction passes that one's own locks.
    pub(super) fn blocks_commit<'w>(
        &self,
        writes: &'w WriteSet,
        validation: Option<Validation<'w>>,
    ) -> Option<Held<'w>> {
        if self.is_empty() {
            return None;
        }
        let own = writes.ends().map(|prepared| prepared.slot());
        if own.is_some() && self.active == 1 {
            return None;
        }
        let held = writes
            .sections()
            .find_map(|section| self.blocks_section(section, own));
        held.or_else(|| {
            let reads = validation.and_then(|validation| validation.reads);
            self.blocks_updates(reads, own)
        })
    }

    /// The first lock in the way of a transaction that read for update what `reads` says.
    pub(super) fn blocks_updates<'r>(
        &self,
        reads: Option<&'r ReadSet>,
        own: Option<u32>,
    ) -> Option<Held<'r>> {
        if self.is_empty() {
            return None;
        }
        reads?.families().find_map(|reads| {
            reads.updates().find_map(|update| {
                let wanted = (&reads.family, ConflictAccess::Update);
                self.blocks_point(wanted, (update.key, update.hash), own)
            })
        })
    }

    fn blocks_section<'w>(&self, section: &'w Section, own: Option<u32>) -> Option<Held<'w>> {
        let wanted = (&section.family, ConflictAccess::Write);
        let point = section
            .keys()
            .find_map(|key| self.blocks_point(wanted, key, own));
        point.or_else(|| {
            section
                .ranges()
                .find_map(|(start, end)| self.blocks_range(wanted, deleted_range(start, end), own))
        })
    }

    /// The first lock in the way of `locks`.
    pub(super) fn blocks_prepare<'w>(&self, locks: &'w LockSet) -> Option<Held<'w>> {
        if self.is_empty() {
            return None;
        }
        locks
            .families()
            .iter()
            .find_map(|family| self.blocks_family(family))
    }

    fn blocks_family<'w>(&self, locks: &'w FamilyLocks) -> Option<Held<'w>> {
        let point = locks.points.iter().find_map(|point| {
            let access = match point.mode() {
                LockMode::Shared => ConflictAccess::Read,
                LockMode::Exclusive => ConflictAccess::Write,
            };
            let wanted = (&locks.family, access);
            self.blocks_point(wanted, (locks.key(point), point.hash), None)
        });
        point.or_else(|| {
            let accesses = [
                (LockMode::Shared, ConflictAccess::Range),
                (LockMode::Exclusive, ConflictAccess::Write),
            ];
            accesses.into_iter().find_map(|(mode, access)| {
                let wanted = (&locks.family, access);
                locks
                    .ranges(mode)
                    .find_map(|range| self.blocks_range(wanted, range, None))
            })
        })
    }

    fn blocks_point<'w>(
        &self,
        (family, access): (&Arc<Family>, ConflictAccess),
        (key, hash): (&'w [u8], u64),
        own: Option<u32>,
    ) -> Option<Held<'w>> {
        let mode = mode_of(access);
        let holder = if family.order.has_hash() && !self.heads.is_empty() {
            let hash = index_hash(family, hash);
            self.chain(hash).find_map(|(link, node)| {
                if node.hash != hash || own == Some(link.slot) {
                    return None;
                }
                let prepared = self.slot(link.slot)?.prepared.as_ref()?;
                let locks = &prepared.locks.families()[node.family as usize];
                let point = &locks.points[node.point as usize];
                let blocks = locks.family.id == family.id && locks.point_blocks(point, mode, key);
                blocks.then_some(prepared)
            })
        } else {
            None
        };
        let at = (Bound::Included(key), Bound::Included(key));
        let holder = holder.or_else(|| {
            self.search(family, own, |locks| {
                locks.ranges_block(mode, at)
                    || (!family.order.has_hash() && locks.points_block(mode, at))
            })
        })?;
        Some(Held {
            holder: Arc::clone(holder),
            family: Arc::clone(family),
            key,
            access,
        })
    }

    fn blocks_range<'w>(
        &self,
        (family, access): (&Arc<Family>, ConflictAccess),
        range: KeyRange<'w>,
        own: Option<u32>,
    ) -> Option<Held<'w>> {
        if !reaches(&family.order, range.0, range.1) {
            return None;
        }
        let mode = mode_of(access);
        let holder = self.sets(own).find(|prepared| {
            prepared.locks.of_family(family.id).is_some_and(|locks| {
                locks.ranges_block(mode, range) || locks.points_block(mode, range)
            })
        })?;
        let key = match range {
            (Bound::Included(key) | Bound::Excluded(key), _)
            | (_, Bound::Included(key) | Bound::Excluded(key)) => key,
            (Bound::Unbounded, Bound::Unbounded) => &[],
        };
        Some(Held {
            holder: Arc::clone(holder),
            family: Arc::clone(family),
            key,
            access,
        })
    }

    /// The first transaction whose locks in `family`, searched set by set, answer `blocks`.
    fn search(
        &self,
        family: &Family,
        own: Option<u32>,
        blocks: impl Fn(&FamilyLocks) -> bool,
    ) -> Option<&Arc<Prepared>> {
        if self.searched == 0 {
            return None;
        }
        self.sets(own)
            .find(|prepared| prepared.locks.of_family(family.id).is_some_and(&blocks))
    }

    /// The prepared transactions, but for the one in slot `own`.
    fn sets(&self, own: Option<u32>) -> impl Iterator<Item = &Arc<Prepared>> {
        self.slots
            .iter()
            .enumerate()
            .filter(move |(index, _)| own != Some(*index as u32))
            .filter_map(|(_, slot)| slot.as_ref()?.prepared.as_ref())
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index as usize)?.as_ref()
    }

    fn chain(&self, hash: u64) -> impl Iterator<Item = (Link, &Node)> {
        let mut link = self.heads[self.bucket(hash)];
        std::iter::from_fn(move || {
            let node = self.slot(link.slot)?.nodes.get(link.node as usize)?;
            let here = std::mem::replace(&mut link, node.next);
            Some((here, node))
        })
    }

    fn bucket(&self, hash: u64) -> usize {
        // A power of two.
        hash as usize & (self.heads.len() - 1)
    }

    /// The locks of the transactions that recovery found prepared, with the places of their records.
    pub(crate) fn restored(found: &[(Arc<Prepared>, RecordPlace)]) -> Self {
        let mut table = Self::default();
        for (prepared, place) in found {
            let nodes = Nodes::new(&prepared.locks);
            if let Some(wanted) = table.wants_room(nodes.0.len(), Lsn::ZERO) {
                table.grow(&mut Room::new(wanted));
            }
            table.publish(Arc::clone(prepared), nodes, *place);
        }
        table
    }

    /// What must be made before a transaction with `points` locked keys is published; `None` when there is room.
    /// Slots of ended transactions whose outcome is durable up to `durable` are given back first.
    pub(super) fn wants_room(&mut self, points: usize, durable: Lsn) -> Option<RoomWanted> {
        self.forget_durable(durable);
        let has_slot =
            self.slots.len() < self.slots.capacity() || self.slots.iter().any(Option::is_none);
        let nodes = self.node_count + points;
        let has_buckets = nodes <= self.heads.len();
        if has_slot && has_buckets {
            return None;
        }
        let slots = self.slots.capacity();
        let buckets = self.heads.len();
        Some(RoomWanted {
            slots: if has_slot { slots } else { slots * 2 }.max(SLOTS_MIN),
            buckets: if has_buckets {
                buckets
            } else {
                (nodes * 2).next_power_of_two().max(BUCKETS_MIN)
            },
        })
    }

    /// Puts `room` in the place of what there is, and that into `room`, if it is larger.
    pub(super) fn grow(&mut self, room: &mut Room) {
        if room.slots.capacity() < self.slots.len() || room.heads.len() < self.heads.len() {
            // Another thread was faster.
            return;
        }
        room.slots.append(&mut self.slots);
        std::mem::swap(&mut self.slots, &mut room.slots);
        std::mem::swap(&mut self.heads, &mut room.heads);
        for slot in 0..self.slots.len() {
            self.link(slot as u32);
        }
    }

    /// Puts the nodes of a slot into their chains.
    fn link(&mut self, index: u32) {
        let Some(slot) = &mut self.slots[index as usize] else {
            return;
        };
        for (number, node) in slot.nodes.iter_mut().enumerate() {
            let bucket = node.hash as usize & (self.heads.len() - 1);
            node.next = self.heads[bucket];
            self.heads[bucket] = Link {
                slot: index,
                node: number as u32,
            };
        }
    }

    /// Takes the nodes of a slot out of their chains.
    fn unlink(&mut self, index: u32) {
        let count = self.slot(index).map_or(0, |slot| slot.nodes.len());
        for number in 0..count {
            let gone = Link {
                slot: index,
                node: number as u32,
            };
            let Some(node) = self.slot(index).and_then(|slot| slot.nodes.get(number)) else {
                return;
            };
            let (hash, next) = (node.hash, node.next);
            let before = self
                .chain(hash)
                .find_map(|(link, node)| (node.next == gone).then_some(link));
            match before {
                None => {
                    let bucket = self.bucket(hash);
                    self.heads[bucket] = next;
                }
                Some(before) => {
                    if let Some(slot) = self.slots[before.slot as usize].as_mut() {
                        slot.nodes[before.node as usize].next = next;
                    }
                }
            }
        }
    }

    /// Puts the locks of `prepared` in force. There is room: `wants_room` answered so under this hold of the lock.
    pub(super) fn publish(&mut self, prepared: Arc<Prepared>, nodes: Nodes, place: RecordPlace) {
        let free = self.slots.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.node_count += nodes.0.len();
        self.active += 1;
        self.searched += usize::from(prepared.locks.needs_search());
        prepared.set_slot(index as u32);
        self.slots[index] = Some(Slot {
            prepared: Some(prepared),
            nodes: nodes.0,
            place,
            ended: None,
        });
        self.link(index as u32);
    }

    /// Lifts the locks of a prepared transaction whose outcome's record ends at `end`. What is left of it is to be let
    /// go outside the commit lock.
    pub(super) fn end(&mut self, prepared: &Arc<Prepared>, end: Lsn) -> Released {
        let index = prepared.slot();
        self.unlink(index);
        let Some(slot) = self.slots[index as usize].as_mut() else {
            return Released::default();
        };
        slot.ended = Some(end);
        let released = Released {
            _prepared: slot.prepared.take(),
            _nodes: std::mem::take(&mut slot.nodes),
        };
        self.node_count -= released._nodes.len();
        self.active -= 1;
        self.searched -= usize::from(prepared.locks.needs_search());
        released
    }

    /// Gives back the slots of transactions whose outcome is durable.
    fn forget_durable(&mut self, durable: Lsn) {
        for slot in &mut self.slots {
            let is_done = |slot: &Slot| slot.ended.is_some_and(|end| end <= durable);
            if slot.as_ref().is_some_and(is_done) {
                *slot = None;
            }
        }
    }

    /// Where the log must begin so that replay knows every prepared transaction, also those whose outcome a power cut
    /// could still take back.
    pub(crate) fn oldest(&mut self, durable: Lsn) -> Option<RecordPlace> {
        self.forget_durable(durable);
        self.slots
            .iter()
            .flatten()
            .map(|slot| slot.place)
            .min_by_key(|place| place.start)
    }

    /// The prepare records in segments below `segment`: where the first begins, and their bytes.
    pub(super) fn behind(&self, segment: SegmentId) -> Option<(Lsn, u64)> {
        let behind = self.slots.iter().flatten().filter_map(|slot| {
            let prepared = slot.prepared.as_ref()?;
            (slot.place.segment < segment).then_some((slot.place.start, prepared.record_bytes))
        });
        behind.reduce(|(first, sum), (start, bytes)| (first.min(start), sum + bytes))
    }

    /// Where the record of a prepared transaction lies; `None` once it is ended.
    pub(super) fn place(&self, prepared: &Arc<Prepared>) -> Option<RecordPlace> {
        let slot = self.slot(prepared.slot())?;
        let held = slot.prepared.as_ref()?;
        Arc::ptr_eq(held, prepared).then_some(slot.place)
    }

    /// Notes that a durable copy of the record lies at `place`.
    pub(super) fn set_place(&mut self, prepared: &Arc<Prepared>, place: RecordPlace) {
        if self.place(prepared).is_some()
            && let Some(slot) = &mut self.slots[prepared.slot() as usize]
        {
            slot.place = place;
        }
    }

    /// The prepared transaction that has locked something in `family`.
    pub(super) fn user_of(&self, family: &Family) -> Option<&Arc<Prepared>> {
        self.sets(None)
            .find(|prepared| prepared.locks.of_family(family.id).is_some())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
