//! First committer wins: a transaction that reads at a snapshot may only write keys that nobody wrote since.
//!
//! 1. Outside the commit lock, every key is looked up in memtables and tables; tables may have to be read for that.
//! 2. Inside it, only memtables that took commits since step 1 are looked at again. If tables were installed meanwhile,
//!    what was in a memtable may have left it, so the transaction goes back to step 1.
//!
//! Commits that are applied but not yet visible count: they come first in the commit order.

use std::sync::Arc;

use kingtide_base::SeqNo;

use super::write_set::{Section, WriteSet};
use crate::{
    error::{Error, ErrorKind, Result},
    family::{Family, SuperVersion},
    version::Version,
};

/// Answers the newest version of a key in the tables of a version, if it is newer than the snapshot.
pub(crate) type TableLookup<'a> =
    dyn Fn(&Family, &Version, (&[u8], Option<u64>), SeqNo) -> Result<Option<SeqNo>> + 'a;

/// What a commit at snapshot level must check.
#[derive(Clone, Copy)]
pub(crate) struct Validation<'a> {
    /// The newest commit that the transaction saw.
    pub(crate) snapshot: SeqNo,
    pub(crate) in_tables: &'a TableLookup<'a>,
}

/// What step 1 looked at.
pub(super) struct Checked {
    /// Every commit up to this one was looked at.
    through: SeqNo,
    /// The tables that were looked at, per section.
    versions: Vec<Arc<Version>>,
}

/// What step 2 found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recheck {
    /// Nothing stands in the way.
    Clean,
    /// Tables were installed: step 1 must be repeated.
    Stale,
}

/// Step 1. `last` is the newest commit before the call.
///
/// # Errors
/// `Conflict` that names key and family; what reading tables answers.
pub(super) fn check(writes: &WriteSet, last: SeqNo, validation: Validation<'_>) -> Result<Checked> {
    let mut versions = Vec::new();
    for section in writes.sections() {
        let current = section.family.load_full();
        check_memtables(section, &current, SeqNo::ZERO, validation.snapshot)?;
        for (key, hash) in section.keys() {
            let snapshot = validation.snapshot;
            let hash = section.family.order.has_hash().then_some(hash);
            let newest =
                (validation.in_tables)(&section.family, &current.version, (key, hash), snapshot)?;
            if newest.is_some_and(|newest| newest > snapshot) {
                return Err(conflict(key, &section.family));
            }
        }
        versions.push(Arc::clone(&current.version));
    }
    Ok(Checked {
        through: last,
        versions,
    })
}

/// Step 2, under the commit lock.
///
/// # Errors
/// `Conflict` that names key and family.
pub(super) fn recheck(
    writes: &WriteSet,
    checked: &Checked,
    validation: Validation<'_>,
) -> Result<Recheck> {
    for (section, version) in writes.sections().zip(&checked.versions) {
        let current = section.family.load();
        if !Arc::ptr_eq(&current.version, version) {
            return Ok(Recheck::Stale);
        }
        check_memtables(section, &current, checked.through, validation.snapshot)?;
    }
    Ok(Recheck::Clean)
}

/// Looks up the section's keys in the memtables that took commits after `through`.
fn check_memtables(
    section: &Section,
    current: &SuperVersion,
    through: SeqNo,
    snapshot: SeqNo,
) -> Result<()> {
    let since = through.max(snapshot);
    for memory in current.memories() {
        if memory.table.largest_sequence() <= since {
            continue;
        }
        for (key, hash) in section.keys() {
            let hash = section.family.order.has_hash().then_some(hash);
            if memory
                .table
                .latest_sequence(key, hash)
                .is_some_and(|newest| newest > snapshot)
            {
                return Err(conflict(key, &section.family));
            }
        }
    }
    Ok(())
}

fn conflict(key: &[u8], family: &Family) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "key \"{}\" of column family {:?} was written by another transaction since this one began: reset it and try again",
            key.escape_ascii(),
            family.name()
        ),
    )
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
