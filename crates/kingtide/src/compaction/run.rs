//! Runs one planned merge: reads the input tables, drops what nobody can see, writes the outputs, installs them.

use std::sync::Arc;

use super::{
    below::{Below, exists_below},
    claim::Claim,
    inputs::Inputs,
};
use crate::{
    engine::Engine,
    error::Result,
    events::Event,
    family::Family,
    flush::version_filter,
    output::{
        Output,
        crew::Urgency,
        cuts::Cuts,
        parts::{Pass, part_bytes_min, parts_max, run},
    },
};

pub(crate) use super::claim::Wanted;

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

/// Plans and runs one merge of `family`. Idle threads help with it, and more urgent work comes in between.
///
/// # Errors
/// What the files and the manifest answer; the tree is as before.
pub(crate) fn merge_once(
    engine: &Engine,
    family: &Arc<Family>,
    wanted: Wanted<'_>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<MergeOutcome> {
    let Some(claim) = Claim::take(engine, family, wanted)? else {
        return Ok(MergeOutcome::Nothing);
    };
    engine.settle_doubts()?;
    if claim.plan.moves_only {
        engine.install_moves(family, &claim.inputs, claim.target_level())?;
        engine.pipeline.note_backlog(family);
        return Ok(MergeOutcome::Merged);
    }
    let watch = claim.watch(engine);
    let is_level_one = claim.inputs.iter().any(|(level, _)| *level == 1);
    let urgency = match wanted {
        Wanted::MostUrgent | Wanted::LevelOne if is_level_one => Urgency::Shallow,
        _ => Urgency::Deep,
    };
    let cancelled = || is_cancelled() || family.is_dropped();
    let Some(mut output) = write(engine, family, (&claim, urgency), &cancelled)? else {
        return Ok(MergeOutcome::Cancelled);
    };
    output.inherit_dates(&claim.inputs, &family.order, engine.unix_seconds());
    let target_level = claim.target_level();
    if let Err(error) = engine.install_merge(family, &claim.inputs, target_level, &output) {
        engine.reject_output(output);
        return match family.is_dropped() {
            true => Ok(MergeOutcome::Nothing),
            false => Err(error),
        };
    }
    if matches!(wanted, Wanted::AtRest) {
        let below = claim.inputs.iter().filter(|(level, _)| *level > 1);
        family.use_rest_credit(below.map(|(_, table)| table.file_bytes).sum());
    }
    family.counters.note_dropped(&output.books.dropped);
    engine.pipeline.note_backlog(family);
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

/// The claimed tables, merged. Holds none of them any more when it returns.
fn write(
    engine: &Engine,
    family: &Arc<Family>,
    (claim, urgency): (&Claim<'_>, Urgency),
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Output>> {
    let below = exists_below(&engine.files, family, Arc::clone(&claim.below));
    let mut filter = version_filter(engine, &family.order, claim.plan.is_bottom)
        .with_lookup(below)
        .with_below(Below::tables(&claim.below, &family.order));
    let inputs = Inputs {
        files: Arc::clone(&engine.files),
        family: Arc::clone(family),
        tables: claim.inputs.clone(),
    };
    inputs.tell_ranges(&mut filter)?;
    let pass = Pass {
        files: Arc::clone(&engine.files),
        family: Arc::clone(family),
        urgency,
        table_bytes_max: claim.plan.output_table_bytes,
        table_ends: Cuts::at(claim.plan.cuts.clone()),
        cuts: inputs.cuts(parts_max(engine, urgency), part_bytes_min())?,
        expected: inputs.expected(&filter),
        filter,
        sources: Box::new(move |filter| inputs.cursor(filter)),
    };
    run(engine, pass, is_cancelled)
}
