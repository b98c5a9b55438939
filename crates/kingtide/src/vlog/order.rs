//! Values in the order of their keys, for a family that nobody writes to.
//!
//! Each flush writes value files of its own, so after many of them a range reads a little of every file. When the database
//! is idle, those files over which the values of neighbouring keys are scattered are emptied, as those are that are mostly
//! dead: the tables that point to them are written once more, and their values are copied in key order. Which files
//! go together is chosen by [`pick_value_order`]; half of the room that the value log may take is left to writers who come back
//! meanwhile.
//!
//! Files whose records are long are left alone: each is a read of its own anyhow. So are those that clones share, and those
//! that level 1 points to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kingtide_base::{Cursor, FileId, ValueRef};
use kingtide_format::TableMeta;
use kingtide_policy::{SCATTERED_FILES_MIN, ValueShape, pick_value_order, value_room};
use kingtide_table::CursorUse;

use super::{
    collect::collect,
    survey::{bounds_of, shape_of},
};
use crate::{engine::Engine, error::Result, family::Family, version::Version};

/// Longer records are not put in order, in bytes on average of what a table points to in a file.
const RECORD_BYTES_MAX: u64 = 4 << 10;
/// Places of a table that are looked at, and how many entries at each.
const SAMPLES: u64 = 3;
const SAMPLE_ENTRIES: usize = 16 * SCATTERED_FILES_MIN;

/// True when tables of `family` that were not looked at yet point to many value files.
pub(crate) fn wants_order(engine: &Engine, family: &Family) -> bool {
    let first = family.ordered();
    !engine.options.read_only
        && family.options().value_live_ratio_min > 0.0
        && below_level_one(&family.load().version)
            .any(|table| table.file >= first && table.value_files.len() >= SCATTERED_FILES_MIN)
}

/// Puts values in order until there is nothing more to do or `is_stopped`. To be called by a holder of the family's merges.
///
/// # Errors
/// As [`collect`]; tables that are there are not looked at again then.
pub(crate) fn put_in_order(
    engine: &Engine,
    family: &Arc<Family>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<()> {
    while !is_stopped() && !family.is_dropped() {
        let next = engine.files.next_id();
        let scattered = scattered_files(engine, family);
        if scattered.is_empty() {
            family.set_ordered(next);
            return Ok(());
        }
        let before = family.emptied();
        family.set_emptied(&scattered | &before);
        let outcome = collect(engine, family, is_stopped);
        let is_done = below_level_one(&family.load().version)
            .flat_map(|table| &table.value_files)
            .all(|used| !scattered.contains(&used.file));
        if !is_done {
            // Merges under load need not go on with it.
            family.set_emptied(&*family.emptied() - &(&scattered - &before));
        }
        // What cannot be read is not tried again and again: each try may write much.
        outcome.inspect_err(|_| family.set_ordered(next))?;
        if !is_done {
            return Ok(());
        }
    }
    Ok(())
}

/// The files to empty next, so that values lie in order.
fn scattered_files(engine: &Engine, family: &Family) -> BTreeSet<FileId> {
    let version = Arc::clone(&family.load().version);
    let mut wanted: BTreeSet<FileId> = BTreeSet::new();
    for table in below_level_one(&version) {
        let short = table
            .value_files
            .iter()
            .filter(|used| used.bytes <= used.records.saturating_mul(RECORD_BYTES_MAX));
        let short: BTreeSet<FileId> = short.map(|used| used.file).collect();
        // A table that cannot be read is left to those who read it: they are told.
        if short.len() >= SCATTERED_FILES_MIN
            && is_scattered(engine, family, table).unwrap_or(false)
        {
            wanted.extend(short);
        }
    }
    if wanted.is_empty() {
        return wanted;
    }
    let mut shape = shape_of(engine, family);
    let copied_bytes_max = copied_bytes_max(engine, family, &shape);
    // What the tables that will be written again point to; in files of which others need a part as well this is less than all.
    let mut listed_bytes: BTreeMap<FileId, u64> = BTreeMap::new();
    for used in below_level_one(&version).flat_map(|table| &table.value_files) {
        *listed_bytes.entry(used.file).or_default() += used.bytes;
    }
    shape.files.retain(|shape| {
        let listed = listed_bytes.get(&shape.file).copied().unwrap_or(0);
        wanted.contains(&shape.file) && listed >= shape.listed_bytes
    });
    pick_value_order(&shape.files, copied_bytes_max)
}

/// How many bytes of records may be copied at a time: half of the room that the value log has left, half of what is live, and
/// half of what is free on the device.
fn copied_bytes_max(engine: &Engine, family: &Family, shape: &ValueShape) -> u64 {
    let room = value_room(shape, bounds_of(family), family.value_room.last_pass());
    let disk = &engine.pipeline.disk;
    disk.look();
    let free = disk.free_bytes().unwrap_or(u64::MAX);
    let free = free.saturating_sub(family.disk_free_bytes_min());
    let left = room.most.saturating_sub(room.taken);
    left.min(shape.listed_bytes()).min(free) / 2
}

/// Tells whether the values of neighbouring keys of `table` lie in many files, as far as samples show.
fn is_scattered(engine: &Engine, family: &Family, table: &TableMeta) -> Result<bool> {
    let open = engine.files.tables.get(table, &family.order)?;
    let mut cursor = open.cursor(&engine.files.blocks, CursorUse::Read);
    for (key, _) in open.samples(table.file_bytes / SAMPLES) {
        let mut found: BTreeSet<FileId> = BTreeSet::new();
        cursor.seek(&key)?;
        for _ in 0..SAMPLE_ENTRIES {
            if !cursor.is_valid() {
                break;
            }
            if let ValueRef::Separated(pointer) = cursor.value()? {
                found.insert(pointer.file);
            }
            cursor.next()?;
        }
        if found.len() >= SCATTERED_FILES_MIN {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The tables of `version` that are never merged by themselves: those of level 1 still are.
fn below_level_one(version: &Version) -> impl Iterator<Item = &Arc<TableMeta>> {
    let tables = version.tables().filter(|(level, _)| *level > 1);
    tables.map(|(_, table)| table)
}
