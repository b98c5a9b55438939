//! From the state of the manifest to a layout.

use std::cmp::Reverse;

use kingtide_base::{ComparatorRef, KeyOrder, StorageError, built_in_comparator};
use kingtide_env::Directory;
use kingtide_format::TableMeta;
use kingtide_table::{klog_name, vlog_name};

use super::{FamilyLayout, Layout, SegmentLayout, SegmentState, TableLayout, ValueFileLayout};
use crate::{
    error::Result,
    family::decode_options,
    manifest::{FamilyState, ManifestState},
    wal::survey_segments,
};

/// The layout that `state` describes, with the log in the directory `log`.
///
/// # Errors
/// `Corruption` for settings of a family that make no sense, `Io` when the log cannot be listed.
pub(crate) fn gather(
    state: &ManifestState,
    log: &dyn Directory,
    comparators: &[ComparatorRef],
) -> Result<Layout> {
    let families = state
        .families()
        .map(|(_, family)| family_layout(family, comparators));
    let families = families.collect::<Result<Vec<_>>>()?;
    let value_files = state.value_files().values().map(|values| ValueFileLayout {
        file: format!("vlog/{}", vlog_name(values.meta.file)),
        bytes: values.meta.file_bytes,
        live_bytes: values.live_bytes,
        records: values.meta.records,
        live_records: values.live_records,
        tables: values.tables,
    });
    let first_life = state.log_start().segment;
    let segments = survey_segments(log)?
        .into_iter()
        .map(|segment| SegmentLayout {
            file: format!("wal/{}", segment.name),
            bytes: segment.bytes,
            state: match segment.life {
                None => SegmentState::Blank,
                Some((life, _)) if life < first_life => SegmentState::Retired,
                Some((life, base)) => SegmentState::Live {
                    life: life.0,
                    position: base.0,
                },
            },
        });
    Ok(Layout {
        families,
        value_files: value_files.collect(),
        segments: segments.collect(),
    })
}

fn family_layout(family: &FamilyState, comparators: &[ComparatorRef]) -> Result<FamilyLayout> {
    let settings = decode_options(&family.options).map_err(|message| {
        let what = format!("family {:?}: {message}", family.name);
        StorageError::malformed("MANIFEST", 0, what)
    })?;
    let name = settings.comparator;
    let given = comparators.iter().find(|given| given.name() == name);
    let known = given.cloned().or_else(|| built_in_comparator(&name));
    let is_order_known = known.is_some();
    let order = known.map_or(KeyOrder::BYTEWISE, KeyOrder::new);
    let metas = || family.tables.values();
    let mut boundaries: Vec<&Vec<u8>> = metas()
        .flat_map(|(_, meta)| [&meta.smallest, &meta.largest])
        .collect();
    // Keys that the order calls equal have one place; the bytes decide which spelling is shown.
    boundaries.sort_by(|a, b| order.compare(a, b).then_with(|| a.cmp(b)));
    boundaries.dedup_by(|a, b| order.compare(a, b).is_eq());
    let rank = |key: &[u8]| boundaries.partition_point(|other| order.compare(other, key).is_lt());
    let mut tables: Vec<_> = metas()
        .map(|(level, meta)| {
            table_layout(*level, meta, (rank(&meta.smallest), rank(&meta.largest)))
        })
        .collect();
    tables.sort_by_key(|table| {
        let newest = (table.level == 1).then_some(table.sequence_max);
        (table.level, Reverse(newest), table.smallest)
    });
    Ok(FamilyLayout {
        name: family.name.clone(),
        comparator: name,
        is_order_known,
        flushed_through: family.flushed_through,
        boundaries: boundaries.into_iter().cloned().collect(),
        tables,
    })
}

fn table_layout(level: u8, meta: &TableMeta, ranks: (usize, usize)) -> TableLayout {
    let uses = &meta.value_files;
    TableLayout {
        level,
        file: format!("klog/{}", klog_name(meta.file)),
        bytes: meta.file_bytes,
        smallest: ranks.0,
        largest: ranks.1,
        is_largest_excluded: meta.is_largest_excluded,
        sequence_min: meta.sequence_min,
        sequence_max: meta.sequence_max,
        entries: meta.entries,
        tombstones: meta.tombstones,
        tombstones_since: match meta.oldest_tombstone.since {
            0 => None,
            since => Some(since),
        },
        range_deletes: meta.range_deletes,
        raw_bytes: meta.raw_bytes,
        value_bytes: uses.iter().map(|used| used.bytes).sum(),
        value_files: uses
            .iter()
            .map(|used| format!("vlog/{}", vlog_name(used.file)))
            .collect(),
    }
}
