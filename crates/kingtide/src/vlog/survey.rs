//! What the choice of value files is told of a family.
//!
//! How much of a file is listed is known from the manifest, which counts what the tables of all families point to. A file
//! that clones share counts for each of them: to empty it, each has to copy its part.

use std::{collections::BTreeSet, sync::Arc};

use kingtide_base::FileId;
use kingtide_format::{
    TableMeta,
    vlog::{VLOG_FOOTER_BYTES, VLOG_HEADER_BYTES},
};
use kingtide_policy::{
    NewerDeletes, ValueBounds, ValueFileShape, ValueShape, ValueTable, hidden_bytes_max,
};

use crate::{
    engine::Engine,
    family::{Family, SuperVersion},
    manifest::ValueFileState,
    version::Version,
};

/// Settling reads at most so many bytes of tables for each byte of values that it may free.
const TABLE_BYTES_PER_HIDDEN: u64 = 8;
/// Less garbage than this, or than a part of a write buffer, is not worth a pass.
const GARBAGE_BYTES_MIN: u64 = 64 << 10;
const WRITE_BUFFER_PART: u64 = 4;
/// What every value file takes besides its records.
const FILE_OVERHEAD_BYTES: u64 = (VLOG_HEADER_BYTES + VLOG_FOOTER_BYTES) as u64;

/// The value files of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueTotals {
    /// Files that the family's tables point to.
    pub(crate) files: usize,
    /// Their bytes, those that other families use included.
    pub(crate) bytes: u64,
    /// Bytes of records that the family's tables point to.
    pub(crate) listed_bytes: u64,
}

/// The shape of the family's value files; empty when its tables point to none.
pub(super) fn shape_of(engine: &Engine, family: &Family) -> ValueShape {
    let version = Arc::clone(&family.load().version);
    let files = files_of(engine, &version);
    if files.is_empty() {
        return ValueShape::default();
    }
    ValueShape {
        files: files.iter().map(file_shape).collect(),
        table_bytes: version.tables().map(|(_, table)| table.file_bytes).sum(),
        hidden_bytes: hidden_bytes_max(&runs_of(&version), NewerDeletes::default(), &family.order),
        emptying: family.emptied().as_ref().clone(),
    }
}

/// When the family's value files are to be emptied.
pub(super) fn bounds_of(family: &Family) -> ValueBounds {
    let options = family.options();
    let part = options.write_buffer_bytes as u64 / WRITE_BUFFER_PART;
    ValueBounds {
        live_ratio_min: options.value_live_ratio_min,
        garbage_bytes_min: GARBAGE_BYTES_MIN.min(part),
        flush_bytes: options.write_buffer_bytes as u64,
    }
}

fn file_shape(state: &ValueFileState) -> ValueFileShape {
    ValueFileShape {
        file: state.meta.file,
        bytes: state.meta.file_bytes.saturating_sub(FILE_OVERHEAD_BYTES),
        listed_bytes: state.live_bytes,
    }
}

fn files_of(engine: &Engine, version: &Version) -> Vec<ValueFileState> {
    let used: BTreeSet<FileId> = uses(version).map(|(file, _)| file).collect();
    if used.is_empty() {
        return Vec::new();
    }
    let manifest = engine.manifest.lock();
    let known = manifest.state().value_files();
    used.iter()
        .filter_map(|file| known.get(file).copied())
        .collect()
}

/// The files that the tables of `version` point to, with the bytes of the records.
fn uses(version: &Version) -> impl Iterator<Item = (FileId, u64)> {
    version
        .tables()
        .flat_map(|(_, table)| table.value_files.iter().map(|used| (used.file, used.bytes)))
}

/// The sorted runs of `version`, the newest first.
fn runs_of(version: &Version) -> Vec<Vec<ValueTable<'_>>> {
    let mut runs = Vec::new();
    for (index, level) in version.levels().enumerate() {
        let tables = level.tables().iter().map(|table| value_table(table));
        match index {
            0 => runs.extend(tables.map(|table| vec![table])),
            _ => runs.push(tables.collect()),
        }
    }
    runs
}

fn value_table(table: &TableMeta) -> ValueTable<'_> {
    ValueTable {
        smallest: &table.smallest,
        largest: &table.largest,
        entries: table.entries,
        has_range_deletes: table.range_deletes > 0,
        records: table.value_files.iter().map(|used| used.records).sum(),
        bytes: listed_bytes(table),
    }
}

/// Bytes of records that `table` points to.
pub(super) fn listed_bytes(table: &TableMeta) -> u64 {
    table.value_files.iter().map(|used| used.bytes).sum()
}

/// True when deletes, in memory or in tables, may hide a good part of the family's values, so that merging all of its
/// tables would free them: what an idle database does.
pub(crate) fn hides_values(family: &Family, current: &SuperVersion) -> bool {
    let bounds = bounds_of(family);
    let listed: u64 = uses(&current.version).map(|(_, bytes)| bytes).sum();
    if bounds.live_ratio_min <= 0.0 || listed < bounds.garbage_bytes_min {
        return false;
    }
    let newer = NewerDeletes {
        tombstones: current.memories().map(|memory| memory.tombstones()).sum(),
        has_range_deletes: current
            .memories()
            .any(|memory| memory.table.has_range_deletes()),
    };
    let hidden = hidden_bytes_max(&runs_of(&current.version), newer, &family.order);
    let table_bytes: u64 = current
        .version
        .tables()
        .map(|(_, table)| table.file_bytes)
        .sum();
    hidden >= bounds.garbage_bytes_min
        && hidden as f64 >= (1.0 - bounds.live_ratio_min) * listed as f64
        && table_bytes <= hidden.saturating_mul(TABLE_BYTES_PER_HIDDEN)
}

/// Numbers about the value files of `family`.
pub(crate) fn of_family(engine: &Engine, family: &Family) -> ValueTotals {
    let version = Arc::clone(&family.load().version);
    let files = files_of(engine, &version);
    ValueTotals {
        files: files.len(),
        bytes: files.iter().map(|file| file.meta.file_bytes).sum(),
        listed_bytes: uses(&version).map(|(_, bytes)| bytes).sum(),
    }
}
