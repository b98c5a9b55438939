//! What an idle database does: families that hold many tombstones are merged to the bottom, so that deleted keys give
//! their room back although nobody writes any more.
//!
//! A family is settled when a quarter of its entries, and not just a few, are tombstones, or a quarter of its bytes lies
//! under range deletes, or deletes may hide a good part of the value log: what is rewritten is then at most four times what goes, and so in proportion to the deletes that
//! were made. A merge that leaves tombstones, because
//! snapshots need them, is not repeated until something has changed. Writing goes first: when flushes have filled level 1
//! beside the merge, it is given up.

use std::sync::Arc;

use kingtide_base::{Fragments, SeqNo};

use super::{
    scheduler::{Background, Task},
    warm::wants_warming,
};
use crate::{
    compaction::{
        observe::wants_rest,
        run::{Wanted, merge_once},
    },
    engine::Engine,
    error::Result,
    family::{Family, Settled, SuperVersion},
    flush::flush_oldest,
    vlog::{hides_values, wants_order},
};

/// Fewer tombstones are not worth a merge.
const TOMBSTONES_MIN: u64 = 1024;
/// Range deletes over fewer bytes are not worth a merge.
const HIDDEN_BYTES_MIN: f64 = 65_536.0;
/// A family is settled when one in so many entries is a tombstone, or one in so many bytes lies under range deletes.
const HIDDEN_SHARE: u64 = 4;
/// Ranges that are looked at.
const FRAGMENTS_MAX: usize = 1000;

impl Background {
    /// Has all families settled that should be, level 1 of those that [rest](super::rest) emptied, their values put
    /// [in order](super::order), and what is new [brought into the cache](super::warm); merge threads do it.
    pub(crate) fn schedule_settling(&self, engine: &Engine) {
        if engine.options.read_only || self.are_merges_stopped() {
            return;
        }
        for family in engine.families.all() {
            family.set_rests();
            if wants_settling(engine, &family)
                || wants_rest(engine, &family)
                || wants_order(engine, &family)
                || wants_warming(engine, &family)
            {
                self.schedule(Task::Settle, &family);
            }
            self.schedule_collection(engine, &family);
        }
    }

    /// Flushes `family` and merges it to the bottom, unless that is of no use any more.
    ///
    /// # Errors
    /// What flushing and merging answer.
    pub(super) fn settle(&self, engine: &Engine, family: &Arc<Family>) -> Result<()> {
        // Refused when merges were stopped.
        let Ok(_held) = self.hold_merges(family) else {
            return Ok(());
        };
        if !wants_settling(engine, family) {
            return Ok(());
        }
        // First what waits already: sealing another memtable may need its room.
        while flush_oldest(engine, family)? {}
        let active = Arc::clone(&family.load().active);
        if !active.table.is_empty() {
            engine.pipeline.try_rotate(family, &active);
        }
        drop(active);
        while flush_oldest(engine, family)? {}
        let state = state_of(engine, family);
        let is_cancelled = self.is_overtaken(family);
        let is_flushed = family.load().active.table.is_empty();
        merge_once(engine, family, Wanted::All, &is_cancelled)?;
        if is_flushed {
            *family.settled.lock() = Some(state);
        }
        Ok(())
    }
}

fn wants_settling(engine: &Engine, family: &Family) -> bool {
    let current = family.load_full();
    // What cannot be read is nothing to settle; whoever reads it is told.
    let is_much = has_many_tombstones(&current)
        || hides_values(family, &current)
        || hides_much(engine, family, &current).unwrap_or(false);
    drop(current);
    is_much && *family.settled.lock() != Some(state_of(engine, family))
}

fn has_many_tombstones(current: &SuperVersion) -> bool {
    let (mut entries, mut tombstones) = (0, 0);
    for memory in current.memories() {
        entries += memory.table.entries() as u64;
        tombstones += memory.tombstones();
    }
    for (_, table) in current.version.tables() {
        entries += table.entries;
        tombstones += table.tombstones;
    }
    tombstones >= TOMBSTONES_MIN && tombstones.saturating_mul(HIDDEN_SHARE) >= entries
}

/// True when range deletes lie over a good share of the family. What was written again since counts as hidden: that is
/// found out by the merge, once.
fn hides_much(engine: &Engine, family: &Family, current: &SuperVersion) -> Result<bool> {
    let order = &family.order;
    let mut ranges: Vec<Arc<Fragments>> = Vec::new();
    for memory in current.memories() {
        ranges.extend(memory.table.range_fragments(SeqNo::MAX));
    }
    let tables = || current.version.tables().map(|(_, table)| table);
    for table in tables().filter(|table| table.range_deletes > 0) {
        ranges.push(Arc::clone(engine.files.tables.get(table, order)?.ranges()));
    }
    let in_memory = current.memories().map(|memory| memory.table.bytes() as f64);
    let in_tables = tables().map(|table| table.file_bytes as f64);
    let total: f64 = in_memory.chain(in_tables).sum();
    let mut hidden = 0.0;
    for fragment in ranges
        .iter()
        .flat_map(|ranges| ranges.list())
        .take(FRAGMENTS_MAX)
    {
        let end = (!fragment.end.is_empty()).then_some(&*fragment.end);
        for memory in current.memories() {
            hidden += engine.memory_bytes_between(memory, &fragment.start, end);
        }
        for table in tables() {
            hidden += engine.table_bytes_between((table, order), &fragment.start, end)? as f64;
        }
    }
    Ok(hidden >= HIDDEN_BYTES_MIN && hidden * HIDDEN_SHARE as f64 >= total)
}

/// What decides whether settling the family has anything new to do.
fn state_of(engine: &Engine, family: &Family) -> Settled {
    let current = family.load_full();
    let in_memory = current
        .memories()
        .map(|memory| memory.table.largest_sequence());
    let in_tables = current
        .version
        .tables()
        .map(|(_, table)| table.sequence_max);
    Settled {
        newest: in_memory.chain(in_tables).max().unwrap_or(SeqNo::ZERO),
        oldest_snapshot: engine.snapshots.list().first().copied(),
    }
}
