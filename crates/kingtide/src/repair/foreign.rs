//! Files that are whole, and of another database, or of another time of this one.
//!
//! What tells a table or value file is the checksum of its footer, which pins its content and which the manifest records;
//! what tells a segment of the log is the identity of the database. A file that is damaged where these stand tells nothing,
//! and is taken for this database's. It is the manifest that is of another one when the file `WITNESS` says so and all
//! tables, or the log, agree with that.

use std::sync::Arc;

use kingtide_base::{DatabaseId, FileId};
use kingtide_env::File;
use kingtide_format::SegmentHeader;
use kingtide_table::{klog_name, read_table_meta, read_value_file_meta};

use super::{
    manifest::Draft,
    source::{Source, read_all},
    survey::Plan,
};
use crate::{error::Result, manifest, wal::segment_slot};

/// A value file, or why it is of no use.
pub(super) type FoundFile = std::result::Result<Arc<dyn File>, &'static str>;

/// True when the manifest that `draft` was read from is that of another database.
///
/// # Errors
/// What the system answers.
pub(super) fn is_manifest(source: &Source, draft: &Draft) -> Result<bool> {
    let witnessed = manifest::witnessed_database(source.root.as_ref())?;
    if witnessed.is_none() || witnessed == draft.database {
        return Ok(false);
    }
    let mut is_contradicted = false;
    let families = draft.families.values();
    for meta in families.flat_map(|family| family.tables.values()) {
        let name = klog_name(meta.file);
        let Some(file) = source.klog.read(&name)? else {
            continue;
        };
        let Ok((_, found)) = read_table_meta(&*file, &source.klog.path(&name), meta.file) else {
            continue;
        };
        if found.footer_checksum == meta.footer_checksum {
            return Ok(false);
        }
        is_contradicted = true;
    }
    Ok(is_contradicted || has_segment_of(source, witnessed)?)
}

/// True when the log has a segment of this database.
fn has_segment_of(source: &Source, database: Option<DatabaseId>) -> Result<bool> {
    for (name, _) in &source.wal.files {
        let (Some(_), Some(file)) = (segment_slot(name), source.wal.read(name)?) else {
            continue;
        };
        let bytes = read_all(&*file, &source.wal.path(name))?;
        if SegmentHeader::decode_either(&bytes).is_ok_and(|found| found.database == database) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True when a segment of `found` is none of the database, if it is known which that is.
pub(super) fn is_segment(draft: &Draft, found: Option<DatabaseId>) -> bool {
    draft.database.is_some() && found != draft.database
}

/// The value file `file`, or why there is none.
///
/// # Errors
/// What the system answers.
pub(super) fn value_file(
    source: &Source,
    plan: &Plan,
    (file, name): (FileId, &str),
) -> Result<FoundFile> {
    let Some(found) = source.vlog.read(name)? else {
        return Ok(Err("the value file is missing"));
    };
    let Some(recorded) = plan.value_footers.get(&file) else {
        return Ok(Ok(found));
    };
    match read_value_file_meta(&*found, &source.vlog.path(name), file) {
        Ok(meta) if meta.footer_checksum != *recorded => {
            Ok(Err("the value file is of another database or time"))
        }
        // Of a file that is damaged there, records may be whole.
        _ => Ok(Ok(found)),
    }
}
