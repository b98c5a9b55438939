//! What the policy is told of a family: the shape of its tree and its settings.

use std::sync::Arc;

use kingtide_base::{KeyOrder, limits};
use kingtide_format::TableMeta;
use kingtide_policy::{
    MergePlan, PolicyOptions, TableShape, TreeShape, merge_at_rest, pick_merge, sorted_runs,
};

use super::age::Overdue;
use crate::{
    engine::Engine,
    family::{Busy, Family},
    version::{Level, Version},
};

/// The size at which merges close a table.
const TABLE_BYTES_TARGET: u64 = 32 << 20;
/// As many tombstones as a range delete is taken for when tables are judged by theirs.
const RANGE_DELETE_WEIGHT: u64 = 1024;

/// True when the policy wants a merge of `family`.
pub(crate) fn wants_merge(engine: &Engine, family: &Family) -> bool {
    has_plan(engine, family, pick_merge)
}

/// True when `family` should be merged if nobody writes to it.
pub(crate) fn wants_rest(engine: &Engine, family: &Family) -> bool {
    let current = family.load_full();
    let level = current.version.level(1);
    let credit = family.rest_credit();
    level.is_some_and(|level| !level.tables().is_empty())
        && has_plan(engine, family, |shape, options, order| {
            merge_at_rest(shape, options, order, credit)
        })
}

/// The sorted runs on level 1: how many of its tables a point read may have to look into.
pub(crate) fn level_one_runs(version: &Version, order: &KeyOrder) -> usize {
    let tables = version.level(1).into_iter().flat_map(Level::tables);
    let keys: Vec<(&[u8], &[u8])> = tables
        .map(|table| (&table.smallest[..], &table.largest[..]))
        .collect();
    sorted_runs(&keys, order)
}

/// Tells whether flushes have filled level 1 of `family` since now, beside something that takes long.
pub(crate) fn fills_level_one(family: &Family) -> impl Fn() -> bool + '_ {
    let runs = |version: &Version| level_one_runs(version, &family.order);
    let most = runs(&family.load().version) + family.options().l1_file_count_trigger;
    move || {
        let version = &family.load().version;
        // Asked often, and there are at least as many tables as runs.
        version.level_totals(1).tables >= most && runs(version) >= most
    }
}

fn has_plan(
    engine: &Engine,
    family: &Family,
    pick: impl Fn(&TreeShape, &PolicyOptions, &KeyOrder) -> Option<MergePlan>,
) -> bool {
    let overdue = Overdue::now(engine, family);
    let version = Arc::clone(&family.load().version);
    let busy = family.busy.lock();
    let shape = shape_of(family, (&version, &busy), overdue);
    pick(&shape, &policy_options(family), &family.order).is_some()
}

/// The tables of `version` of `family`; `busy` is what running merges hold, `overdue` judges the age of tombstones.
pub(super) fn shape_of(
    family: &Family,
    (version, busy): (&Version, &Busy),
    overdue: Option<Overdue>,
) -> TreeShape {
    let shape = |table: &Arc<TableMeta>| TableShape {
        file: table.file,
        bytes: table.file_bytes,
        entries: weighed(table, table.entries),
        tombstones: weighed(table, table.tombstones),
        smallest: table.smallest.clone(),
        largest: table.largest.clone(),
        sequence_min: table.sequence_min,
        sequence_max: table.sequence_max,
        busy: busy.is_busy(table.file),
        is_overdue: overdue.is_some_and(|overdue| overdue.is_table(table)),
    };
    let mut levels: Vec<Vec<TableShape>> = version
        .levels()
        .map(|level| level.tables().iter().map(shape).collect())
        .collect();
    // The policy wants level 1 from the oldest to the newest, a version has it in read order.
    if let Some(first) = levels.first_mut() {
        first.reverse();
    }
    TreeShape {
        levels,
        reserved: busy.reservations().cloned().collect(),
        is_unread: !family.read.is_remembered(),
    }
}

/// A count of `table` with its range deletes, each of which stands for many tombstones.
fn weighed(table: &TableMeta, count: u64) -> u64 {
    count.saturating_add(table.range_deletes.saturating_mul(RANGE_DELETE_WEIGHT))
}

/// A level of a plan as versions number it. Plans stay below the most levels there can be.
pub(crate) fn level_number(level: usize) -> u8 {
    level.min(limits::LEVELS_MAX) as u8
}

/// The settings of `family` that the policy follows.
pub(crate) fn policy_options(family: &Family) -> PolicyOptions {
    let options = family.options();
    PolicyOptions {
        level_size_ratio: options.level_size_ratio,
        l1_file_count_trigger: options.l1_file_count_trigger,
        write_buffer_bytes: options.write_buffer_bytes,
        min_levels: options.min_levels,
        tombstone_density_trigger: options.tombstone_density_trigger,
        tombstone_density_entries_min: options.tombstone_density_entries_min,
        table_bytes_target: TABLE_BYTES_TARGET,
        dividing_level_offset: options.dividing_level_offset,
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use kingtide_env::MemoryEnv;

    use super::*;
    use crate::{Db, FamilyOptions, Options, SyncMode};

    /// Goal: level 1 fills by tables that lie over each other, not beside each other. Method: flushes of keys apart from each
    /// other above a table of all keys, then of the same keys again.
    #[test]
    fn level_one_fills_by_sorted_runs() {
        let options = Options {
            env: Some(Arc::new(MemoryEnv::new(1))),
            ..Options::default()
        };
        let db = Db::open("/db", options).expect("the database opens");
        let options = FamilyOptions {
            sync: SyncMode::None,
            disk_free_bytes_min: 0,
            l1_file_count_trigger: 2,
            ..FamilyOptions::default()
        };
        let handle = db.create_family("f", options).expect("a new name");
        db.cancel_background_work().expect("open");
        let flush = |keys: std::ops::RangeInclusive<u8>| {
            for key in keys {
                db.put(&handle, &[key], b"v").expect("healthy");
            }
            db.flush(&handle).expect("healthy");
        };
        flush(0..=99);
        let family = &handle.family;
        let is_filled = fills_level_one(family);
        for first in [0, 20, 40, 60] {
            flush(first..=first + 9);
        }
        let version = Arc::clone(&family.load().version);
        assert!(version.level_totals(1).tables >= 4);
        assert!(!is_filled());
        flush(20..=29);
        flush(20..=29);
        assert!(is_filled());
        db.close().expect("closes");
    }
}
