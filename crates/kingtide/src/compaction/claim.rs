//! A planned merge: its tables are reserved until it ends.

use std::sync::Arc;

use kingtide_base::{Cursor, Fragments, SeqNo};
use kingtide_collections::MergeCursor;
use kingtide_format::TableMeta;
use kingtide_policy::{MergePlan, merge_all as plan_all, merge_range as plan_range, pick_merge};
use kingtide_table::{CursorUse, LevelCursor};

use super::{
    filter::VersionFilter,
    observe::{level_number, policy_options, shape_of},
};
use crate::{
    engine::{Engine, Watch},
    error::{Error, ErrorKind, Result},
    events::Event,
    family::{Family, HoldId},
    read::iter::Skipping,
    version::Version,
};

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

/// Tables that are reserved for one merge; free again when dropped.
pub(super) struct Claim<'a> {
    family: &'a Family,
    hold: HoldId,
    pub(super) plan: MergePlan,
    /// The tables that the plan was made of.
    pub(super) version: Arc<Version>,
    /// Level and table.
    pub(super) inputs: Vec<(u8, Arc<TableMeta>)>,
}

impl<'a> Claim<'a> {
    pub(super) fn take(family: &'a Family, wanted: Wanted<'_>) -> Result<Option<Self>> {
        let mut busy = family.busy.lock();
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
        let files = plan.inputs.iter().map(|input| input.file);
        let hold = busy.hold(files.collect(), plan.reservation.clone());
        Ok(Some(Self {
            family,
            hold,
            plan,
            version,
            inputs,
        }))
    }

    pub(super) fn watch<'e>(&self, engine: &'e Engine) -> Watch<'e> {
        let name = || self.family.name();
        let begin = || Event::MergeBegin {
            family: name(),
            tables: self.inputs.len(),
            bytes: self.inputs.iter().map(|(_, table)| table.file_bytes).sum(),
            target_level: self.target_level(),
        };
        Watch::begin(engine, begin, || Event::MergeGivenUp { family: name() })
    }

    pub(super) fn target_level(&self) -> u8 {
        level_number(self.plan.target_level)
    }

    /// Tells `filter` of the range deletes of the inputs.
    pub(super) fn tell_ranges(&self, engine: &Engine, filter: &mut VersionFilter) -> Result<()> {
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
    pub(super) fn cursor(
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
        self.family.busy.lock().release(self.hold);
    }
}
