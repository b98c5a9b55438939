//! Where the tables of a flush or a bulk load go: as deep as nothing is in their way.
//!
//! A table goes to the deepest level in use on and above which nothing lies in the range of its keys, and which no running
//! merge shuts. So a load of ascending keys fills the last level without being merged, from any number of writers, if the flush
//! ends its tables where their ranges end (`output/cuts`).
//!
//! Invariants: what is below a table is older, since nothing at its level or above had keys in its range when it came, and
//! later tables are newer. A running merge may put tables anywhere between the smallest and the largest of its keys, on
//! the levels from its shallowest input to its target; nothing is put into that range on these levels or below. The
//! other way round, the place is held until the version has it, so that no merge is planned across it meanwhile.

use std::sync::Arc;

use kingtide_format::TableMeta;
use kingtide_policy::{Reservation, last_level, place};

use crate::{
    compaction::observe::{level_number, policy_options},
    family::{Family, HoldId},
};

/// The levels of new tables, held for them until this is dropped.
pub(crate) struct Places<'a> {
    family: &'a Family,
    holds: Vec<HoldId>,
    levels: Vec<u8>,
}

impl<'a> Places<'a> {
    /// Finds and holds the places of `tables`, which are newer than all that the family has in tables. To be called under
    /// the manifest lock, so that the version does not change until they are there.
    pub(crate) fn find(family: &'a Family, tables: &[TableMeta]) -> Self {
        let options = policy_options(family);
        let mut busy = family.busy.lock();
        let version = Arc::clone(&family.load().version);
        let order = &family.order;
        let last = last_level(version.depth().into(), options.min_levels);
        let bytes = version.level_totals(level_number(last)).file_bytes;
        let in_use = options.levels_in_use(last, bytes);
        let level_of = |table: &TableMeta| {
            let keys = (&*table.smallest, &*table.largest);
            place(1, in_use.clone(), |level| {
                let level = level_number(level);
                !version.has_between(level, keys) && !busy.shuts(level, keys, order)
            })
        };
        let found: Vec<usize> = tables.iter().map(level_of).collect();
        let places = found.iter().zip(tables).map(|(level, table)| Reservation {
            smallest: table.smallest.clone(),
            largest: table.largest.clone(),
            from_level: *level,
            to_level: *level,
        });
        let holds = places.map(|place| busy.hold(Vec::new(), place)).collect();
        let levels = found.into_iter().map(level_number).collect();
        Self {
            family,
            holds,
            levels,
        }
    }

    /// The level of each table.
    pub(crate) fn levels(&self) -> &[u8] {
        &self.levels
    }
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        let mut busy = self.family.busy.lock();
        for hold in &self.holds {
            busy.release(*hold);
        }
    }
}
