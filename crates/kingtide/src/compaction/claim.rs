//! A planned merge: its tables are reserved until it ends.

use std::sync::Arc;

use kingtide_base::FileId;
use kingtide_format::TableMeta;
use kingtide_policy::{
    MergePlan, merge_all as plan_all, merge_at_rest, merge_range as plan_range, pick_merge,
    rewrite_table,
};

use super::age::Overdue;
use super::observe::{level_number, policy_options, shape_of};
use crate::{
    engine::{Engine, Watch},
    error::{Error, ErrorKind, Result},
    events::Event,
    family::{Family, HoldId},
    version::Version,
};

/// Which merge to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// What the policy finds most urgent.
    MostUrgent,
    /// The same, if it is a merge of level 1.
    LevelOne,
    /// What helps readers of a tree that is not written to.
    AtRest,
    /// Everything to the bottom.
    All,
    /// The tables with keys from the first to the second, both included, to the bottom; `None` is the end of the order.
    Range(Option<&'a [u8]>, Option<&'a [u8]>),
    /// One table below level 1, where it is: for the values that it points to.
    Rewrite(FileId),
}

/// Tables that are reserved for one merge; free again when dropped.
pub(super) struct Claim<'a> {
    family: &'a Family,
    hold: HoldId,
    pub(super) plan: MergePlan,
    /// The tables under the target level when the plan was made. Not those above: tables that other merges replace while a long
    /// one runs would stay until its end.
    pub(super) below: Arc<Version>,
    /// Level and table.
    pub(super) inputs: Vec<(u8, Arc<TableMeta>)>,
}

impl<'a> Claim<'a> {
    pub(super) fn take(
        engine: &Engine,
        family: &'a Family,
        wanted: Wanted<'_>,
    ) -> Result<Option<Self>> {
        let overdue = Overdue::now(engine, family);
        let mut busy = family.busy.lock();
        let version = Arc::clone(&family.load().version);
        let shape = shape_of(family, (&version, &busy), overdue);
        let options = policy_options(family);
        let plan = match wanted {
            Wanted::MostUrgent => pick_merge(&shape, &options, &family.order),
            Wanted::LevelOne => pick_merge(&shape, &options, &family.order)
                .filter(|plan| plan.inputs.iter().any(|input| input.level == 1)),
            Wanted::AtRest => merge_at_rest(&shape, &options, &family.order, family.rest_credit()),
            Wanted::All => plan_all(&shape, &options, &family.order),
            Wanted::Range(start, end) => plan_range(&shape, &options, &family.order, (start, end)),
            Wanted::Rewrite(table) => rewrite_table(&shape, &options, &family.order, table),
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
        let below = Arc::new(version.below(level_number(plan.target_level)));
        Ok(Some(Self {
            family,
            hold,
            plan,
            below,
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
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.family.busy.lock().release(self.hold);
    }
}
