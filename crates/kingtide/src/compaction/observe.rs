//! What the policy is told of a family: the shape of its tree and its settings.

use std::sync::Arc;

use kingtide_base::{KeyOrder, limits};
use kingtide_format::TableMeta;
use kingtide_policy::{MergePlan, PolicyOptions, TableShape, TreeShape, merge_at_rest, pick_merge};

use super::age::Overdue;
use crate::{
    engine::Engine,
    family::{Busy, Family},
    version::Version,
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

fn has_plan(
    engine: &Engine,
    family: &Family,
    pick: impl Fn(&TreeShape, &PolicyOptions, &KeyOrder) -> Option<MergePlan>,
) -> bool {
    let overdue = Overdue::now(engine, family);
    let version = Arc::clone(&family.load().version);
    let busy = family.busy.lock();
    let shape = shape_of(&version, &busy, overdue);
    pick(&shape, &policy_options(family), &family.order).is_some()
}

/// The tables of `version`; `busy` is what running merges hold, `overdue` judges the age of tombstones.
pub(super) fn shape_of(version: &Version, busy: &Busy, overdue: Option<Overdue>) -> TreeShape {
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
