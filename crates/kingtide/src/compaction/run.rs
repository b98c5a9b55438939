//! Runs one planned merge: reads the input tables, drops what nobody can see, writes the outputs, installs them.

use std::sync::Arc;

use super::{
    below::{Below, exists_below},
    claim::Claim,
};
use crate::{
    engine::Engine,
    error::Result,
    events::Event,
    family::Family,
    flush::version_filter,
    output::{TableWriter, cuts::Cuts, discard_output},
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
    let mut filter = version_filter(engine, &family.order, claim.plan.is_bottom)
        .with_lookup(exists_below(
            &engine.files,
            family,
            Arc::clone(&claim.version),
            claim.target_level(),
        ))
        .with_below(Below::levels(
            &claim.version,
            claim.target_level(),
            &family.order,
        ));
    claim.tell_ranges(engine, &mut filter)?;
    let mut cursor = claim.cursor(engine, &filter)?;
    let writer = TableWriter::new(&engine.files, family, claim.plan.output_table_bytes)
        .with_cuts(Cuts::at(claim.plan.cuts.clone()));
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
