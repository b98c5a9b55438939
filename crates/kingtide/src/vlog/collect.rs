//! Does what was chosen for the value files of a family: merges that uncover dead values, and tables that are written
//! once more because they point to a file that is to be emptied.
//!
//! One step is one merge; merges that the policy wants come in between. The caller holds the merges of the family.

use std::sync::Arc;

use kingtide_base::{FileId, SeqNo};
use kingtide_policy::{ValueWork, pick_value_work, value_room};

use super::survey::{bounds_of, listed_bytes, shape_of};
use crate::{
    compaction::{
        observe::fills_level_one,
        run::{MergeOutcome::Merged, Wanted, merge_once},
    },
    engine::Engine,
    error::Result,
    family::Family,
};

/// True when there is something to do about the value files of `family`.
pub(crate) fn wants_collection(engine: &Engine, family: &Family) -> bool {
    !engine.options.read_only && !family.is_dropped() && !choose(engine, family).is_none()
}

/// What is to be done. Writers are told how much room there is meanwhile.
fn choose(engine: &Engine, family: &Family) -> ValueWork {
    let bounds = bounds_of(family);
    let mut shape = shape_of(engine, family);
    let work = pick_value_work(&shape, bounds);
    match work.is_none() {
        true => family.value_room.clear(),
        false => {
            shape.emptying.clone_from(&work.empty);
            let last = family.value_room.last_pass();
            family.value_room.note(value_room(&shape, bounds, last));
        }
    }
    engine.pipeline.note_backlog(family);
    work
}

/// A merge of all tables, as far as it shows how much of what may be hidden is.
struct LookThrough {
    listed_bytes: u64,
    hidden_bytes: u64,
    /// The newest entry in tables.
    newest: Option<SeqNo>,
}

impl LookThrough {
    fn begin(engine: &Engine, family: &Family) -> Self {
        // Before the shape: what is flushed between the two is newer.
        let newest = tables_below(family, 1).newest;
        let shape = shape_of(engine, family);
        Self {
            listed_bytes: shape.listed_bytes(),
            hidden_bytes: shape.hidden_bytes,
            newest,
        }
    }

    /// The merge went through. Tables on level 1 were flushed meanwhile.
    fn end(self, engine: &Engine, family: &Family) {
        let shape = shape_of(engine, family);
        let mut pass = family.value_room.last_pass();
        pass.live_bytes = shape.certain_bytes();
        let merged = tables_below(family, 2);
        // With a table that came between the look and the merge nothing is known.
        if self.hidden_bytes > 0 && merged.newest <= self.newest {
            let found = self.listed_bytes.saturating_sub(merged.listed_bytes);
            pass.hidden_share = (found as f64 / self.hidden_bytes as f64).min(1.0);
        }
        family.value_room.set_last_pass(pass);
    }
}

/// The tables from one level downwards.
#[derive(Default)]
struct TablesBelow {
    /// Their newest entry.
    newest: Option<SeqNo>,
    /// Bytes of records that they point to.
    listed_bytes: u64,
}

fn tables_below(family: &Family, level: u8) -> TablesBelow {
    let current = family.load();
    let mut below = TablesBelow::default();
    for (of_table, table) in current.version.tables() {
        if of_table >= level {
            below.newest = below.newest.max(Some(table.sequence_max));
            below.listed_bytes += listed_bytes(table);
        }
    }
    below
}

/// Brings the live share of the family's value files back over its bound, merge by merge, until `is_stopped`. To be called
/// by a holder of the family's merges.
///
/// # Errors
/// What the files and the manifest answer; the tree is as after the last merge.
pub(crate) fn collect(
    engine: &Engine,
    family: &Arc<Family>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<()> {
    let merge = |wanted, is_cancelled: &dyn Fn() -> bool| {
        merge_once(engine, family, wanted, is_cancelled).map(|outcome| outcome == Merged)
    };
    // Flushes bring new hidden values all the time: once is enough, so that the rest is not put off for ever.
    let mut may_uncover = true;
    loop {
        while merge(Wanted::MostUrgent, is_stopped)? {}
        if is_stopped() || family.is_dropped() {
            return Ok(());
        }
        let work = choose(engine, family);
        family.set_emptied(work.empty.clone());
        if work.is_none() {
            return Ok(());
        }
        let next = match next_table(family, &work) {
            _ if work.uncover && may_uncover => Next::All,
            next => next,
        };
        match next {
            Next::Rewrite(table) => {
                if !merge(Wanted::Rewrite(table), is_stopped)? {
                    return Ok(());
                }
            }
            Next::All if may_uncover => {
                may_uncover = false;
                // Given up when flushes fill level 1 beside it: readers would have to look at too many tables.
                let is_filled = fills_level_one(family);
                let look = LookThrough::begin(engine, family);
                if merge(Wanted::All, &|| is_stopped() || is_filled())? {
                    look.end(engine, family);
                }
            }
            Next::All | Next::None => return Ok(()),
        }
    }
}

enum Next {
    /// This table, where it is.
    Rewrite(FileId),
    /// All tables, to the bottom.
    All,
    /// None.
    None,
}

/// The table that is written next: the one that holds back most for each byte of its own.
fn next_table(family: &Family, work: &ValueWork) -> Next {
    let current = family.load();
    let mut best: Option<(f64, FileId)> = None;
    let mut is_on_level_one = false;
    for (level, table) in current.version.tables() {
        let held_back: u64 = table
            .value_files
            .iter()
            .filter(|used| work.empty.contains(&used.file))
            .map(|used| used.bytes)
            .sum();
        if held_back == 0 {
            continue;
        }
        if level == 1 {
            is_on_level_one = true;
            continue;
        }
        let gain = held_back as f64 / table.file_bytes.max(1) as f64;
        if best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, table.file));
        }
    }
    match best {
        Some((_, table)) => Next::Rewrite(table),
        None if is_on_level_one => Next::All,
        None => Next::None,
    }
}
