//! When tombstones are overdue: older than the family's settings allow, and of no use to any snapshot.
//!
//! A table is judged by its oldest tombstone, whose date and number the manifest keeps ([`OldestTombstone`]). Overdue tables
//! are merged down and, on the last level, rewritten ([`kingtide_policy`]). That ends, because each step does something: a
//! tombstone that lies at or below every boundary ([`VersionFilter`]) is dropped at the bottom, so the rewritten table has
//! none that old; and one that some snapshot still tells apart is not overdue, so nothing is merged for it before that
//! snapshot is released.
//!
//! The clock is that of expiry, which never goes back within an opening. After a jump ahead everything looks old and is
//! merged once, and what is deleted then seems fresh until the clock catches up, or until the next opening for writing, which
//! takes dates that lie ahead for today's. So a wrong clock costs merges or delays them, and nothing else.
//!
//! [`OldestTombstone`]: kingtide_format::OldestTombstone
//! [`VersionFilter`]: super::filter::VersionFilter

use kingtide_base::SeqNo;
use kingtide_format::TableMeta;

use crate::{engine::Engine, family::Family, memtable::Memory};

/// What decides, for one family at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overdue {
    /// Tombstones that are there since then, in Unix seconds, or longer are too old.
    since: u64,
    /// No snapshot tells commits up to this one apart.
    first_boundary: SeqNo,
}

impl Overdue {
    /// Judges by the present moment; `None` when the settings of `family` let tombstones get as old as they like.
    pub(crate) fn now(engine: &Engine, family: &Family) -> Option<Self> {
        let age_max = family.options().tombstone_age_max;
        if age_max.is_zero() {
            return None;
        }
        Some(Self {
            since: engine.unix_seconds().checked_sub(age_max.as_secs())?,
            first_boundary: engine.snapshots.first_boundary(|| engine.visible()),
        })
    }

    /// True when `table` holds tombstones that must go, and can.
    pub(crate) fn is_table(&self, table: &TableMeta) -> bool {
        let oldest = table.oldest_tombstone;
        (1..=self.since).contains(&oldest.since) && oldest.sequence <= self.first_boundary
    }

    /// True when `memory` holds tombstones that must go; its flush is the first step.
    pub(crate) fn is_memory(&self, memory: &Memory) -> bool {
        let since = memory.tombstones_since();
        since.is_some_and(|since| since <= self.since)
    }
}
