//! Where the tables of a flush go: as deep as nothing is in their way.
//!
//! A table goes to the deepest level in use on and above which nothing lies in the range of its keys, and which no running merge
//! shuts. So a load of ascending keys fills the last level without being merged, from any number of writers, if the flush
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
    family::{Busy, Family, HoldId},
    version::Version,
};

/// The level for a new table of `family`, which is newer than all that `version`, the family's, has of its keys. `busy` is
/// what the family has busy; whoever asks sees to it that nothing is planned across the table until it is there.
pub(crate) fn level_for(
    family: &Family,
    (version, busy): (&Version, &Busy),
    table: &TableMeta,
) -> u8 {
    let options = policy_options(family);
    let last = last_level(version.depth().into(), options.min_levels);
    let bytes = version.level_totals(level_number(last)).file_bytes;
    let keys = (&*table.smallest, &*table.largest);
    let is_free = |level: usize| {
        let level = level_number(level);
        !version.has_between(level, keys) && !busy.shuts(level, keys, &family.order)
    };
    level_number(place(1, options.levels_in_use(last, bytes), is_free))
}

/// The levels of new tables, held for them until this is dropped.
pub(super) struct Places<'a> {
    family: &'a Family,
    holds: Vec<HoldId>,
    levels: Vec<u8>,
}

impl<'a> Places<'a> {
    /// Finds and holds the places of `tables`, which are newer than all that the family has in tables. To be called under
    /// the manifest lock, so that the version does not change until they are there.
    pub(super) fn find(family: &'a Family, tables: &[TableMeta]) -> Self {
        let mut busy = family.busy.lock();
        let version = Arc::clone(&family.load().version);
        let levels = tables
            .iter()
            .map(|table| level_for(family, (&version, &busy), table));
        let levels: Vec<u8> = levels.collect();
        let placed = levels.iter().zip(tables).map(|(level, table)| Reservation {
            smallest: table.smallest.clone(),
            largest: table.largest.clone(),
            from_level: usize::from(*level),
            to_level: usize::from(*level),
        });
        let holds = placed.map(|place| busy.hold(Vec::new(), place)).collect();
        Self {
            family,
            holds,
            levels,
        }
    }

    /// The level of each table.
    pub(super) fn levels(&self) -> &[u8] {
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
