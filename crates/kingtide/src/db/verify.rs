//! Reads every byte of every table and value file and checks it.

use std::collections::BTreeMap;

use kingtide_base::{FileId, KeyOrder};
use std::sync::Arc;

use kingtide_format::{TableMeta, ValueFileMeta};

use crate::{backup::verify_unsorted, engine::Engine, error::Result};

/// What a verification found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Table and value files that were read.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Entries in the tables, all versions counted.
    pub entries: u64,
    /// One message for each damaged file; empty when everything is whole.
    pub damages: Vec<String>,
}

/// Verifies what the families name now. `progress` is told the bytes done and the bytes in all.
///
/// # Errors
/// `Closed`. Damage is reported, not an error.
pub(super) fn verify(engine: &Engine, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
    engine.check_open()?;
    let mut tables: BTreeMap<FileId, (Arc<TableMeta>, KeyOrder, bool)> = BTreeMap::new();
    // The views are held to the end, so that no file is removed while it is read.
    let mut held = Vec::new();
    for family in engine.families.all() {
        if let Some(deferred) = family.deferred() {
            for (_, meta) in &deferred.tables {
                let listed = (Arc::clone(meta), family.order.clone(), false);
                tables.insert(meta.file, listed);
            }
            held.push((deferred.pending.order.clone(), deferred.pending.load_full()));
        }
        held.push((family.order.clone(), family.load_full()));
    }
    for (order, current) in &held {
        for (_, meta) in current.version.tables() {
            tables.insert(meta.file, (Arc::clone(meta), order.clone(), true));
        }
    }
    let values: Vec<ValueFileMeta> = {
        let manifest = engine.manifest.lock();
        let files = manifest
            .state()
            .value_files()
            .values()
            .map(|values| values.meta);
        let is_named = |meta: &ValueFileMeta| {
            tables
                .values()
                .any(|(table, ..)| table.value_files.iter().any(|v| v.file == meta.file))
        };
        files.filter(is_named).collect()
    };
    let total = tables
        .values()
        .map(|(meta, ..)| meta.file_bytes)
        .sum::<u64>()
        + values.iter().map(|meta| meta.file_bytes).sum::<u64>();
    let mut report = VerifyReport::default();
    for (meta, order, is_sorted) in tables.values() {
        let before = report.bytes;
        let files = &engine.files;
        let outcome = if *is_sorted {
            let table = files.tables.get(meta, order);
            table.and_then(|table| table.verify(&mut |done| progress(before + done, total)))
        } else {
            verify_unsorted(files.klog.as_ref(), meta, order.name())
        };
        report.note(meta.file_bytes, outcome);
        report.entries += meta.entries;
        progress(report.bytes, total);
    }
    for meta in &values {
        let before = report.bytes;
        let outcome = engine
            .files
            .values
            .verify_file(meta, &mut |done| progress(before + done, total));
        report.note(meta.file_bytes, outcome);
        progress(report.bytes, total);
    }
    drop(held);
    Ok(report)
}

impl VerifyReport {
    fn note(&mut self, bytes: u64, outcome: kingtide_base::StorageResult<()>) {
        self.files += 1;
        self.bytes += bytes;
        if let Err(error) = outcome {
            self.damages.push(error.to_string());
        }
    }
}
