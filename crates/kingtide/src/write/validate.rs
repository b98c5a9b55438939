//! First committer wins: what a transaction wrote, and at the stricter levels what it read, may not have been written by
//! another one since.
//!
//! | what | is compared with |
//! |---|---|
//! | keys written, ranges deleted | the transaction's snapshot, if it has one for all its reads |
//! | keys read for update | what that read saw |
//! | other keys and ranges that were read, where the level remembers them | the snapshot |
//!
//! 1. Outside the commit lock, keys are looked up in memtables and tables, and ranges are walked there, in all sources
//!    that took commits since; tables may have to be read for that.
//! 2. Inside it, only what arrived since step 1 is looked at. If tables were installed meanwhile, what was in a memtable
//!    may have left it, so the transaction goes back to step 1.
//!
//! Range deletes count as writes of every key in them, on both sides.
//!
//! For keys, step 2 looks them up once more in memtables that took commits since. For ranges, and for many keys, it goes
//! the other way round: the entries that arrived lie one behind the other in the memtable, and each is searched for among
//! the ranges, which step 1 sorted and merged. So the lock is held for what little arrived and not for what was read; when
//! it was much, the transaction goes back to step 1 as well, a few times at most.
//!
//! Why nothing falls between the steps: the places from which step 2 starts are noted first; then the commit lock is
//! taken once, so that every commit that had begun before the places were noted is complete; then step 1 looks.
//!
//! When nobody at all committed since the snapshot, a transaction without reads to check needs neither step: one comparison
//! inside the commit lock says so.
//!
//! Commits that are applied but not yet visible count: they come first in the commit order.

use std::{ops::Bound, sync::Arc};

use kingtide_base::{
    EntryKind, Fragments, KeyOrder, SeqNo,
    planted::{self, Bug},
};
use kingtide_collections::{EntryOffset, Memtable, MemtableEntry};

use super::{
    pipeline::dropped,
    write_set::{Section, WriteSet},
};
use crate::{
    error::{Conflict, ConflictAccess, Error, Result},
    family::{Family, Loaded, SuperVersion},
    memtable::Memory,
    read::{
        newer::{NewerInTables, deleted_in_ranges, meets, newer_in_ranges},
        read_set::{FamilyReads, KeyRange, ReadSet},
    },
};

/// Single reads of a family up to this many are looked up in step 2 like writes.
const POINTS_LOOKED_UP_MAX: usize = 16;
/// From so many keys on it is worth to ask first whether the family holds anything newer at all.
const KEYS_FEW: usize = 8;
/// Bytes of arrivals that are looked at one by one. What is more than that is searched for in the memtable's sorted
/// sources, outside the commit lock.
const ARRIVED_BYTES_MAX: usize = 128 << 10;
/// So often a transaction goes back to step 1 because much has arrived.
const RETURNS_MAX: usize = 3;

/// What a commit must check.
#[derive(Clone, Copy)]
pub(crate) struct Validation<'a> {
    /// The newest commit that all of the transaction's reads saw. `None`: each read had a view of its own, and neither
    /// writes nor reads are checked, save those for update.
    pub(crate) snapshot: Option<SeqNo>,
    /// What was read, as far as it is to be checked.
    pub(crate) reads: Option<&'a ReadSet>,
    pub(crate) tables: &'a dyn NewerInTables,
}

impl<'a> Validation<'a> {
    /// True when a commit that is the next one after `last` has nothing to check: nobody committed since the snapshot.
    /// Reads are looked at all the same, because their families may be gone.
    pub(super) fn is_met_at(&self, last: SeqNo) -> bool {
        self.reads.is_none() && self.snapshot == Some(last)
    }

    fn families(&self) -> impl Iterator<Item = &'a FamilyReads> + use<'a> {
        self.reads.into_iter().flat_map(ReadSet::families)
    }
}

/// A memtable, and a place in it.
type Place = (Arc<Memory>, EntryOffset);

/// The places from which step 2 starts. Noted before step 1.
pub(super) struct Places {
    /// One for each family that was read.
    reads: Vec<Place>,
    /// One for each section of the writes that deletes ranges; empty when none does.
    writes: Vec<Option<Place>>,
}

impl Places {
    /// True when nothing was noted: then step 1 does not need the commit lock.
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }

    /// Notes the places. Before step 1 the commit lock must be taken once.
    pub(super) fn note(writes: &WriteSet, validation: Validation<'_>) -> Self {
        let place = |family: &Family| {
            let active = Arc::clone(&family.load().active);
            let tail = active.table.tail();
            (active, tail)
        };
        let deletes_ranges = |section: &Section| !section.deleted().is_empty();
        Self {
            reads: validation
                .families()
                .map(|reads| place(&reads.family))
                .collect(),
            writes: match writes.sections().any(deletes_ranges) {
                false => Vec::new(),
                true => writes
                    .sections()
                    .map(|section| deletes_ranges(section).then(|| place(&section.family)))
                    .collect(),
            },
        }
    }
}

/// What step 1 looked at.
pub(super) struct Checked<'a> {
    /// Every commit up to this one was looked at.
    through: SeqNo,
    /// What was looked at, for the first section of the writes, which most often is the only one, and for the others.
    first: Option<CheckedWrites>,
    others: Vec<CheckedWrites>,
    /// The same for the reads.
    reads: Vec<CheckedReads<'a>>,
    returns: usize,
}

struct CheckedWrites {
    current: Loaded,
    /// For the range deletes, where there are any: as for the reads.
    place: Option<Place>,
}

struct CheckedReads<'a> {
    current: Loaded,
    /// Everything in older memtables was looked at, and everything in this one before the place.
    place: Place,
    /// Ascending and apart. The single keys too, when they are many.
    ranges: Vec<KeyRange<'a>>,
    looks_up_points: bool,
}

/// What step 2 found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recheck {
    /// Nothing stands in the way.
    Clean,
    /// Tables were installed, or much arrived: step 1 must be repeated.
    Stale,
}

/// Step 1. `last` is a commit up to which all are applied, read after `places` were noted and before the call; under the commit
/// lock, if places were noted. `before` is what an earlier step 1 of the same commit answered.
///
/// # Errors
/// `Conflict` that names key and family; what reading tables answers.
pub(super) fn check<'a>(
    writes: &WriteSet,
    (places, last): (Places, SeqNo),
    validation: Validation<'a>,
    before: Option<Checked<'a>>,
) -> Result<Checked<'a>> {
    let mut checked = Checked {
        through: last,
        first: None,
        others: Vec::new(),
        reads: Vec::new(),
        returns: before.map_or(0, |before| before.returns + 1),
    };
    if let Some(snapshot) = validation.snapshot
        && !planted::is(Bug::FirstCommitterIgnored)
    {
        let mut places = places.writes.into_iter();
        for section in writes.sections() {
            let current = section.family.load();
            let keys = Keys {
                family: &section.family,
                since: snapshot,
                access: ConflictAccess::Write,
            };
            if section.op_count() < KEYS_FEW || has_newer(&current, snapshot) {
                for (key, hash) in section.keys() {
                    keys.check(key, hash, &current, validation.tables)?;
                }
            }
            if !section.deleted().is_empty() {
                let ranges = ranges_of(section.deleted());
                let looked = (snapshot, validation.tables);
                check_ranges(
                    (&section.family, ConflictAccess::Write),
                    &current,
                    &ranges,
                    looked,
                )?;
            }
            let place = places.next().flatten();
            let place = place.map(|place| place_in(&current, place));
            let looked = CheckedWrites { current, place };
            match checked.first {
                None => checked.first = Some(looked),
                Some(_) => checked.others.push(looked),
            }
        }
    }
    for (reads, place) in validation.families().zip(places.reads) {
        checked.reads.push(check_reads(reads, place, validation)?);
    }
    Ok(checked)
}

fn check_reads<'a>(
    reads: &'a FamilyReads,
    place: Place,
    validation: Validation<'_>,
) -> Result<CheckedReads<'a>> {
    let family = &reads.family;
    if family.is_dropped() {
        return Err(dropped(family));
    }
    let current = family.load();
    let mut keys = Keys {
        family,
        since: SeqNo::MAX,
        access: ConflictAccess::Update,
    };
    for update in reads.updates() {
        keys.since = update.since;
        keys.check(update.key, update.hash, &current, validation.tables)?;
    }
    let place = place_in(&current, place);
    let looks_up_points = reads.points().len() <= POINTS_LOOKED_UP_MAX;
    let Some(snapshot) = validation.snapshot else {
        return Ok(CheckedReads {
            current,
            place,
            ranges: Vec::new(),
            looks_up_points,
        });
    };
    let has_newer = reads.points().len() < KEYS_FEW || has_newer(&current, snapshot);
    if has_newer && !planted::is(Bug::ReadNotChecked) {
        (keys.since, keys.access) = (snapshot, ConflictAccess::Read);
        for point in reads.points() {
            keys.check(point.key, point.hash, &current, validation.tables)?;
        }
    }
    let ranges = reads.merged_ranges();
    if has_newer && !ranges.is_empty() && !planted::is(Bug::RangeNotChecked) {
        let looked = (snapshot, validation.tables);
        check_ranges((family, ConflictAccess::Range), &current, &ranges, looked)?;
    }
    Ok(CheckedReads {
        current,
        place,
        ranges: match looks_up_points {
            true => ranges,
            false => reads.merged_with_points(),
        },
        looks_up_points,
    })
}

/// Where step 2 begins in `current`: at the noted place, or at the start of a memtable that was put in place since.
fn place_in(current: &SuperVersion, (active, tail): Place) -> Place {
    if Arc::ptr_eq(&current.active, &active) {
        (active, tail)
    } else {
        (Arc::clone(&current.active), Memtable::START)
    }
}

/// The ranges of `deleted`, which are ascending and apart.
fn ranges_of(deleted: &Fragments) -> Vec<KeyRange<'_>> {
    let fragments = deleted.list().iter();
    let ranges = fragments.map(|fragment| KeyRange {
        lower: Bound::Included(&*fragment.start),
        upper: match &*fragment.end {
            [] => Bound::Unbounded,
            end => Bound::Excluded(end),
        },
    });
    ranges.collect()
}

/// True when anything in the family may be newer than `since`.
fn has_newer(current: &SuperVersion, since: SeqNo) -> bool {
    arrived(current, since).next().is_some()
        || current
            .version
            .tables()
            .any(|(_, meta)| meta.sequence_max > since)
}

/// Walks `ranges` in everything that took commits after `since`.
fn check_ranges(
    (family, access): (&Family, ConflictAccess),
    current: &SuperVersion,
    ranges: &[KeyRange<'_>],
    (since, tables): (SeqNo, &dyn NewerInTables),
) -> Result<()> {
    let order = &family.order;
    let found = |key: Vec<u8>| conflict(&key, family, access);
    for memory in current.memories() {
        let table = &memory.table;
        if table.largest_sequence() <= since {
            continue;
        }
        let place = table.place_after(since);
        if Memtable::bytes_between(place, table.tail()) <= ARRIVED_BYTES_MAX {
            if let Some(entry) = first_touching(table, place, ranges, (since, order)) {
                return Err(found(entry.key.to_vec()));
            }
            continue;
        }
        for mut cursor in table.cursors() {
            if let Some(key) = newer_in_ranges(cursor.as_mut(), order, ranges, since)? {
                return Err(found(key));
            }
        }
        let tombstones = table.range_tombstones();
        let newer = tombstones.take_while(|tombstone| tombstone.sequence > since);
        if let Some(key) = deleted_in_ranges(newer, ranges, since, order) {
            return Err(found(key));
        }
    }
    match tables.in_ranges(family, &current.version, ranges, since)? {
        Some(key) => Err(found(key)),
        None => Ok(()),
    }
}

/// Step 2, under the commit lock.
///
/// # Errors
/// `Conflict` that names key and family.
pub(super) fn recheck(
    writes: &WriteSet,
    checked: &Checked<'_>,
    validation: Validation<'_>,
) -> Result<Recheck> {
    if let Some(snapshot) = validation.snapshot {
        let looked = checked.first.iter().chain(&checked.others);
        for (section, looked) in writes.sections().zip(looked) {
            let current = section.family.load();
            if !Arc::ptr_eq(&current.version, &looked.current.version) {
                return Ok(Recheck::Stale);
            }
            let keys = Keys {
                family: &section.family,
                since: snapshot,
                access: ConflictAccess::Write,
            };
            for memory in arrived(&current, checked.through) {
                for (key, hash) in section.keys() {
                    keys.check_memory(key, hash, memory)?;
                }
            }
            if let Some(place) = &looked.place
                && recheck_deleted(section, place, &current, (snapshot, checked))? == Recheck::Stale
            {
                return Ok(Recheck::Stale);
            }
        }
    }
    for (reads, checked_reads) in validation.families().zip(&checked.reads) {
        if reads.family.is_dropped() {
            return Err(dropped(&reads.family));
        }
        let current = reads.family.load();
        if !Arc::ptr_eq(&current.version, &checked_reads.current.version) {
            return Ok(Recheck::Stale);
        }
        if arrived(&current, checked.through).next().is_none() {
            continue;
        }
        if checked.returns < RETURNS_MAX
            && arrived_bytes(&checked_reads.place, &current) > ARRIVED_BYTES_MAX
        {
            return Ok(Recheck::Stale);
        }
        recheck_reads(
            reads,
            checked_reads,
            &current,
            (checked.through, validation),
        )?;
    }
    Ok(Recheck::Clean)
}

fn recheck_reads(
    reads: &FamilyReads,
    checked: &CheckedReads<'_>,
    current: &SuperVersion,
    (through, validation): (SeqNo, Validation<'_>),
) -> Result<()> {
    let mut keys = Keys {
        family: &reads.family,
        since: SeqNo::MAX,
        access: ConflictAccess::Update,
    };
    for memory in arrived(current, through) {
        for update in reads.updates() {
            keys.since = update.since;
            keys.check_memory(update.key, update.hash, memory)?;
        }
    }
    let Some(snapshot) = validation.snapshot else {
        return Ok(());
    };
    if checked.looks_up_points {
        (keys.since, keys.access) = (snapshot, ConflictAccess::Read);
        for memory in arrived(current, through) {
            for point in reads.points() {
                keys.check_memory(point.key, point.hash, memory)?;
            }
        }
    }
    if checked.ranges.is_empty() {
        return Ok(());
    }
    for (memory, place) in unseen(&checked.place, current) {
        let since = (snapshot, &reads.family.order);
        if let Some(entry) = first_touching(&memory.table, place, &checked.ranges, since) {
            return Err(conflict(entry.key, &reads.family, ConflictAccess::Range));
        }
    }
    Ok(())
}

/// The range deletes of `section` in step 2.
fn recheck_deleted(
    section: &Section,
    place: &Place,
    current: &SuperVersion,
    (snapshot, checked): (SeqNo, &Checked<'_>),
) -> Result<Recheck> {
    if arrived(current, checked.through).next().is_none() {
        return Ok(Recheck::Clean);
    }
    if checked.returns < RETURNS_MAX && arrived_bytes(place, current) > ARRIVED_BYTES_MAX {
        return Ok(Recheck::Stale);
    }
    let order = &section.family.order;
    let is_touched = |entry: &MemtableEntry<'_>| match entry.kind {
        EntryKind::RangeDelete => {
            let range = (entry.key, entry.value);
            let met = section
                .deleted()
                .overlapping_newer(order, range, SeqNo::ZERO);
            met.is_some()
        }
        _ => section.deleted().find(order, entry.key).is_some(),
    };
    for (memory, place) in unseen(place, current) {
        let mut arrivals = memory.table.arrivals(place);
        let met = arrivals.find(|entry| entry.sequence > snapshot && is_touched(entry));
        if let Some(entry) = met {
            return Err(conflict(entry.key, &section.family, ConflictAccess::Write));
        }
    }
    Ok(Recheck::Clean)
}

/// The memtables with entries that step 1 may not have seen, and where these begin.
fn unseen<'c>(
    (active, start): &'c Place,
    current: &'c SuperVersion,
) -> impl Iterator<Item = (&'c Arc<Memory>, EntryOffset)> {
    let mut is_behind = false;
    current.memories().map_while(move |memory| {
        if is_behind {
            return None;
        }
        is_behind = Arc::ptr_eq(memory, active);
        let place = if is_behind { *start } else { Memtable::START };
        Some((memory, place))
    })
}

fn arrived_bytes(place: &Place, current: &SuperVersion) -> usize {
    let bytes = |(memory, place): (&Arc<Memory>, EntryOffset)| {
        Memtable::bytes_between(place, memory.table.tail())
    };
    unseen(place, current).map(bytes).sum()
}

/// The memtables that took commits after `through`.
fn arrived(current: &SuperVersion, through: SeqNo) -> impl Iterator<Item = &Arc<Memory>> {
    current
        .memories()
        .filter(move |memory| memory.table.largest_sequence() > through)
}

/// The first entry from `place` on that is newer than `since` and changes something in one of `ranges`.
fn first_touching<'m>(
    table: &'m Memtable,
    place: EntryOffset,
    ranges: &[KeyRange<'_>],
    (since, order): (SeqNo, &KeyOrder),
) -> Option<MemtableEntry<'m>> {
    let mut arrivals = table.arrivals(place);
    arrivals.find(|entry| entry.sequence > since && touches(ranges, entry, order))
}

/// True when what the entry changes lies in one of `ranges`, which are ascending and apart.
fn touches(ranges: &[KeyRange<'_>], entry: &MemtableEntry<'_>, order: &KeyOrder) -> bool {
    if entry.kind == EntryKind::RangeDelete {
        return meets((entry.key, entry.value), ranges, order);
    }
    let index = ranges.partition_point(|range| range.ends_before(entry.key, order));
    let next = ranges.get(index);
    next.is_some_and(|range| !range.starts_behind(entry.key, order))
}

/// Keys of one family that may not have been written after `since`.
struct Keys<'a> {
    family: &'a Family,
    since: SeqNo,
    access: ConflictAccess,
}

impl Keys<'_> {
    fn check(
        &self,
        key: &[u8],
        hash: u64,
        current: &SuperVersion,
        tables: &dyn NewerInTables,
    ) -> Result<()> {
        for memory in current.memories() {
            self.check_memory(key, hash, memory)?;
        }
        let hash = self.family.order.has_hash().then_some(hash);
        let newest = tables.newest(self.family, &current.version, (key, hash), self.since)?;
        if newest.is_some_and(|newest| newest > self.since) {
            return Err(conflict(key, self.family, self.access));
        }
        Ok(())
    }

    #[inline]
    fn check_memory(&self, key: &[u8], hash: u64, memory: &Memory) -> Result<()> {
        if memory.table.largest_sequence() <= self.since {
            return Ok(());
        }
        let hash = self.family.order.has_hash().then_some(hash);
        match memory.table.latest_sequence(key, hash) {
            Some(newest) if newest > self.since => Err(conflict(key, self.family, self.access)),
            _ => Ok(()),
        }
    }
}

#[cold]
fn conflict(key: &[u8], family: &Family, access: ConflictAccess) -> Error {
    Error::from(Conflict::new(family.name(), key, access))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
