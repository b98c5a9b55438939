//! Does what was chosen for the value files of a family: merges that uncover dead values, and tables that are written
//! once more because they point to a file that is to be emptied.
//!
//! One step is one merge, so that other merges and whoever holds the merges of the family come in between. A step that
//! cannot run because its tables are busy is left to whoever looks next: the end of each merge does.

use std::sync::Arc;

use kingtide_base::FileId;
use kingtide_policy::{ValueWork, pick_value_work};

use super::survey::{bounds_of, shape_of};
use crate::{
    compaction::run::{MergeOutcome, Wanted, merge_once},
    engine::Engine,
    error::Result,
    family::Family,
};

/// True when there is something to do about the value files of `family`.
pub(crate) fn wants_collection(engine: &Engine, family: &Family) -> bool {
    !engine.options.read_only && !family.is_dropped() && !choose(engine, family).is_none()
}

fn choose(engine: &Engine, family: &Family) -> ValueWork {
    let bounds = bounds_of(family);
    if bounds.live_ratio_min <= 0.0 {
        return ValueWork::default();
    }
    pick_value_work(&shape_of(engine, family), bounds)
}

/// Brings the live share of the family's value files back over its bound, merge by merge, for as long as `goes_on` says.
///
/// # Errors
/// What the files and the manifest answer; the tree is as after the last merge.
pub(crate) fn collect(
    engine: &Engine,
    family: &Arc<Family>,
    goes_on: &dyn Fn() -> bool,
) -> Result<()> {
    let is_cancelled = || !goes_on();
    // Flushes bring new hidden values all the time: once is enough, so that the rest is not put off for ever.
    let mut may_uncover = true;
    while goes_on() && !family.is_dropped() {
        let work = choose(engine, family);
        let is_done = work.is_none();
        family.set_emptied(work.empty.clone());
        if is_done {
            return Ok(());
        }
        let all = Wanted::All;
        if work.uncover && std::mem::take(&mut may_uncover) {
            match merge_once(engine, family, all, &is_cancelled)? {
                MergeOutcome::Merged => continue,
                MergeOutcome::Cancelled => return Ok(()),
                MergeOutcome::Nothing => {}
            }
        }
        let outcome = match next_table(family, &work) {
            Next::Rewrite(table) => {
                merge_once(engine, family, Wanted::Rewrite(table), &is_cancelled)?
            }
            // A table of level 1 is only written together with those that it may overlap.
            Next::All if std::mem::take(&mut may_uncover) => {
                merge_once(engine, family, all, &is_cancelled)?
            }
            Next::All | Next::None => return Ok(()),
        };
        if outcome != MergeOutcome::Merged {
            return Ok(());
        }
    }
    Ok(())
}

enum Next {
    /// This table, where it is.
    Rewrite(FileId),
    /// All tables, to the bottom.
    All,
    /// None, or all that are left are busy.
    None,
}

/// The table that is written next: of those that nobody uses, the one that holds back most for each byte of its own.
fn next_table(family: &Family, work: &ValueWork) -> Next {
    let busy = family.busy_tables.lock().clone();
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
        if held_back == 0 || busy.contains(&table.file) {
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
