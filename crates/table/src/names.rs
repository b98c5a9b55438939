//! The names of klog and vlog files.

use kingtide_base::{FileId, StorageError};
use kingtide_format::block::BlockFault;

/// The name of a table's file in the directory `klog`: `000012.klog`.
#[must_use]
pub fn klog_name(file: FileId) -> String {
    format!("{:06}.klog", file.0)
}

/// The name of a value file in the directory `vlog`: `000012.vlog`.
#[must_use]
pub fn vlog_name(file: FileId) -> String {
    format!("{:06}.vlog", file.0)
}

/// The table that the name stands for, or `None` for names that [`klog_name`] never gives.
#[must_use]
pub fn parse_klog_name(name: &str) -> Option<FileId> {
    let file = FileId(name.strip_suffix(".klog")?.parse().ok()?);
    (klog_name(file) == name).then_some(file)
}

/// The value file that the name stands for, or `None` for names that [`vlog_name`] never gives.
#[must_use]
pub fn parse_vlog_name(name: &str) -> Option<FileId> {
    let file = FileId(name.strip_suffix(".vlog")?.parse().ok()?);
    (vlog_name(file) == name).then_some(file)
}

/// How messages name a table's file: relative to the database.
pub(crate) fn klog_path(file: FileId) -> String {
    format!("klog/{}", klog_name(file))
}

/// How messages name a value file: relative to the database.
pub(crate) fn vlog_path(file: FileId) -> String {
    format!("vlog/{}", vlog_name(file))
}

/// The error that reports `fault` in the unit that begins at `offset` of the file called `name`.
pub(crate) fn damaged(name: &str, offset: u64, fault: BlockFault) -> StorageError {
    StorageError::checksum(name, offset, fault.what, fault.expected, fault.found)
}
