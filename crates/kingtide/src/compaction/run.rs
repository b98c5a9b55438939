//! Runs one planned merge: reads the input tables, drops what nobody can see, writes the outputs, installs them.

use std::sync::Arc;

use kingtide_base::{Cursor, FileId, Fragments, SeqNo, limits};
use kingtide_collections::MergeCursor;
use kingtide_format::TableMeta;
use kingtide_policy::{
    MergePlan, PolicyOptions, TableShape, TreeShape, merge_all as plan_all,
    merge_range as plan_range, pick_merge,
};
use kingtide_table::{CursorUse, LevelCursor};

use super::below::exists_below;
use super::filter::VersionFilter;
use crate::{
    engine::{Engine, Watch},
    error::{Error, ErrorKind, Result},
    events::Event,
    family::Family,
    flush::version_filter,
    output::{TableWriter, discard_output},
    read::iter::Skipping,
    version::Version,
};

/// The size at which merges close a table.
const TABLE_BYTES_TARGET: u64 = 32 << 20;
/// As many tombstones as a range delete is taken for when tables are judged by theirs.
const RANGE_DELETE_WEIGHT: u64 = 1024;

/// Which merge to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// What the policy finds most urgent.
    MostUrgent,
    /// Everything to the bottom.
    All,
    /// The tables with keys from the first to the second, both included, to the bottom; `None` is the end of the order.
    Range(Option<&'a [u8]>, Option<&'a [u8]>),
}

/// What came of looking for a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeOutcome {
    /// A merge ran and was installed.
    Merged,
    /// There is nothing to merge.
    Nothing,
    /// The merge was given up because the database closes.
    Cancelled,
}

/// Plans and runs one merge of `family`.
///
/// # Errors
/// What the files and the manifest answer; the tree is as before.
pub(crate) fn merge_once(
    engine: &Engine,
    family: &Arc<Family>,
    wanted: Wanted<'_>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<MergeOutcome> {
    let Some(claim) = Claim::take(family, wanted)? else {
        return Ok(MergeOutcome::Nothing);
    };
    if claim.plan.moves_only {
        engine.install_moves(family, &claim.inputs, claim.target_level())?;
        return Ok(MergeOutcome::Merged);
    }
    let watch = claim.watch(engine);
    let mut filter =
        version_filter(engine, &family.order, claim.plan.is_bottom).with_lookup(exists_below(
            &engine.files,
            family,
            Arc::clone(&claim.version),
            claim.target_level(),
        ));
    claim.tell_ranges(engine, &mut filter)?;
    let mut cursor = claim.cursor(engine, &filter)?;
    let writer = TableWriter::new(&engine.files, family, claim.plan.output_table_bytes);
    let cancelled = || is_cancelled() || family.is_dropped();
    let Some(output) = writer.write(&mut cursor, &mut filter, &cancelled)? else {
        return Ok(MergeOutcome::Cancelled);
    };
    // The filter holds the version that the inputs are in.
    drop((cursor, filter));
    let target_level = claim.target_level();
    if let Err(error) = engine.install_merge(family, &claim.inputs, target_level, &output) {
        if family.is_dropped() {
            discard_output(&engine.files, &output);
            return Ok(MergeOutcome::Nothing);
        }
        return Err(error);
    }
    watch.end(|micros| Event::MergeEnd {
        family: family.name(),
        tables: output.tables.len(),
        bytes: output.bytes(),
        target_level,
        micros,
    });
    drop(claim);
    engine.sweep_files()?;
    Ok(MergeOutcome::Merged)
}

/// True when the policy wants a merge of `family`.
pub(crate) fn wants_merge(family: &Family) -> bool {
    let version = Arc::clone(&family.load().version);
    let busy = family.busy_tables.lock();
    pick_merge(
        &shape_of(&version, &busy),
        &policy_options(family),
        &family.order,
    )
    .is_some()
}

/// Tables that are reserved for one merge; free again when dropped.
struct Claim<'a> {
    family: &'a Family,
    plan: MergePlan,
    /// The tables that the plan was made of.
    version: Arc<Version>,
    /// Level and table.
    inputs: Vec<(u8, Arc<TableMeta>)>,
}

impl<'a> Claim<'a> {
    fn take(family: &'a Family, wanted: Wanted<'_>) -> Result<Option<Self>> {
        let mut busy = family.busy_tables.lock();
        let version = Arc::clone(&family.load().version);
        let shape = shape_of(&version, &busy);
        let options = policy_options(family);
        let plan = match wanted {
            Wanted::MostUrgent => pick_merge(&shape, &options, &family.order),
            Wanted::All => plan_all(&shape, &options, &family.order),
            Wanted::Range(start, end) => plan_range(&shape, &options, &family.order, (start, end)),
        };
        let Some(plan) = plan else { return Ok(None) };
        let mut inputs = Vec::with_capacity(plan.inputs.len());
        for input in &plan.inputs {
            let level = level_number(input.level);
            let table = version
                .level(level)
                .and_then(|level| level.tables().iter().find(|table| table.file == input.file))
                .ok_or_else(|| {
                    Error::new(
                        ErrorKind::ReopenRequired,
                        format!(
                            "a merge names table {}, which its level does not have",
                            input.file
                        ),
                    )
                })?;
            inputs.push((level, Arc::clone(table)));
        }
        busy.extend(plan.inputs.iter().map(|input| input.file));
        Ok(Some(Self {
            family,
            plan,
            version,
            inputs,
        }))
    }

    fn watch<'e>(&self, engine: &'e Engine) -> Watch<'e> {
        let name = || self.family.name();
        let begin = || Event::MergeBegin {
            family: name(),
            tables: self.inputs.len(),
            bytes: self.inputs.iter().map(|(_, table)| table.file_bytes).sum(),
            target_level: self.target_level(),
        };
        Watch::begin(engine, begin, || Event::MergeGivenUp { family: name() })
    }

    fn target_level(&self) -> u8 {
        level_number(self.plan.target_level)
    }

    /// Tells `filter` of the range deletes of the inputs.
    fn tell_ranges(&self, engine: &Engine, filter: &mut VersionFilter) -> Result<()> {
        let mut parts: Vec<Arc<Fragments>> = Vec::new();
        let with_ranges = self
            .inputs
            .iter()
            .filter(|(_, table)| table.range_deletes > 0);
        for (_, table) in with_ranges {
            let table = engine.files.tables.get(table, &self.family.order)?;
            parts.push(Arc::clone(table.ranges()));
        }
        if !parts.is_empty() {
            filter.set_ranges(parts.iter().flat_map(|part| part.tombstones()));
        }
        Ok(())
    }

    /// `cursor`, a source of entries with the numbers `oldest` to `newest`; where range deletes drop all that a source
    /// could hold, it is not read.
    fn source(
        &self,
        cursor: Box<dyn Cursor>,
        (oldest, newest): (SeqNo, SeqNo),
        filter: &VersionFilter,
    ) -> Box<dyn Cursor> {
        let dropping = filter.ranges_dropping(oldest, newest);
        if dropping.is_empty() {
            return cursor;
        }
        let order = self.family.order.clone();
        Box::new(Skipping::new(cursor, order, Arc::new(dropping), newest))
    }

    /// All entries of the inputs, newest source first, but for some that `filter` would drop.
    fn cursor(
        &self,
        engine: &Engine,
        filter: &VersionFilter,
    ) -> Result<MergeCursor<Box<dyn Cursor>>> {
        let order = &self.family.order;
        let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
        // Level 1 overlaps: each of its tables is a source of its own, the newest (last in the plan) first.
        for (_, table) in self.inputs.iter().rev().filter(|(level, _)| *level == 1) {
            let numbers = (table.sequence_min, table.sequence_max);
            let table = engine.files.tables.get(table, order)?;
            let cursor = Box::new(table.cursor(&engine.files.blocks, CursorUse::Scan));
            sources.push(self.source(cursor, numbers, filter));
        }
        let deepest = self
            .inputs
            .iter()
            .map(|(level, _)| *level)
            .max()
            .unwrap_or(0);
        for level in 2..=deepest {
            let mut tables: Vec<Arc<TableMeta>> = self
                .inputs
                .iter()
                .filter(|(of, _)| *of == level)
                .map(|(_, table)| Arc::clone(table))
                .collect();
            if tables.is_empty() {
                continue;
            }
            tables.sort_by(|left, right| order.compare(&left.smallest, &right.smallest));
            let oldest = tables.iter().map(|table| table.sequence_min).min();
            let newest = tables.iter().map(|table| table.sequence_max).max();
            let numbers = (oldest.unwrap_or_default(), newest.unwrap_or_default());
            let cursor = Box::new(LevelCursor::new(
                tables,
                Arc::clone(&engine.files.tables),
                Arc::clone(&engine.files.blocks),
                order.clone(),
                CursorUse::Scan,
            ));
            sources.push(self.source(cursor, numbers, filter));
        }
        Ok(MergeCursor::new(order.clone(), sources))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let is_mine = |file: &FileId| self.inputs.iter().any(|(_, table)| table.file == *file);
        self.family.busy_tables.lock().retain(|file| !is_mine(file));
    }
}

fn shape_of(version: &Version, busy: &[FileId]) -> TreeShape {
    let shape = |table: &Arc<TableMeta>| TableShape {
        file: table.file,
        bytes: table.file_bytes,
        entries: weighed(table, table.entries),
        tombstones: weighed(table, table.tombstones),
        smallest: table.smallest.clone(),
        largest: table.largest.clone(),
        busy: busy.contains(&table.file),
    };
    let mut levels: Vec<Vec<TableShape>> = version
        .levels()
        .map(|level| level.tables().iter().map(shape).collect())
        .collect();
    // The policy wants level 1 from the oldest to the newest, a version has it in read order.
    if let Some(first) = levels.first_mut() {
        first.reverse();
    }
    TreeShape { levels }
}

/// A count of `table` with its range deletes, each of which stands for many tombstones.
fn weighed(table: &TableMeta, count: u64) -> u64 {
    count.saturating_add(table.range_deletes.saturating_mul(RANGE_DELETE_WEIGHT))
}

/// A level of a plan as versions number it. Plans stay below the most levels there can be.
fn level_number(level: usize) -> u8 {
    level.min(limits::LEVELS_MAX) as u8
}

fn policy_options(family: &Family) -> PolicyOptions {
    let options = family.options();
    PolicyOptions {
        level_size_ratio: options.level_size_ratio,
        l1_file_count_trigger: options.l1_file_count_trigger,
        write_buffer_bytes: options.write_buffer_bytes,
        min_levels: options.min_levels,
        tombstone_density_trigger: options.tombstone_density_trigger,
        tombstone_density_entries_min: options.tombstone_density_entries_min,
        table_bytes_target: TABLE_BYTES_TARGET,
    }
}
