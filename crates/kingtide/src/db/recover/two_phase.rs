//! What replay learns about prepared transactions: which still wait for their outcome, and which names are used up.
//!
//! A prepare record is kept and nothing of it applied; of several of one name (it was copied forward) the last counts.
//! The record of an outcome ends it, whether the prepare record is still in the log or not.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kingtide_base::{StorageError, StorageResult, xid_hash};
use kingtide_format::{Control, RecordFault, split_control};

use crate::{
    wal::HEADROOM_BYTES,
    write::{FamilyOf, Prepared},
};

/// See the module.
#[derive(Default)]
pub(in crate::db) struct TwoPhase {
    open: BTreeMap<Box<[u8]>, Found>,
    ended: BTreeSet<u128>,
}

struct Found {
    /// The record, as [`Prepared::decode`] takes it.
    buffer: Vec<u8>,
    /// File and offset, for messages.
    place: (String, u64),
}

impl TwoPhase {
    /// Takes note of a record's control section, if it has one, and answers the sections that are committed with it.
    ///
    /// # Errors
    /// What is wrong with the control section.
    pub(super) fn note<'a>(
        &mut self,
        payload: &'a [u8],
        place: (&str, u64),
    ) -> Result<&'a [u8], RecordFault> {
        let (control, sections) = split_control(payload)?;
        match control {
            None => Ok(sections),
            Some(Control::Prepare(prepare)) => {
                let mut buffer = Vec::with_capacity(HEADROOM_BYTES + payload.len());
                buffer.resize(HEADROOM_BYTES, 0);
                buffer.extend_from_slice(payload);
                let found = Found {
                    buffer,
                    place: (place.0.to_owned(), place.1),
                };
                self.open.insert(prepare.xid.into(), found);
                Ok(&[])
            }
            Some(Control::Commit(xid) | Control::Rollback(xid)) => {
                self.open.remove(xid);
                self.ended.insert(xid_hash(xid));
                Ok(sections)
            }
        }
    }

    /// The transactions that wait, by name, and the hashes of the names that are used up.
    ///
    /// # Errors
    /// Corruption, when a record that waits is malformed or names a family that is not there.
    pub(in crate::db) fn finish(
        self,
        family_of: &FamilyOf<'_>,
    ) -> StorageResult<(Vec<Arc<Prepared>>, BTreeSet<u128>)> {
        let mut open = Vec::with_capacity(self.open.len());
        for found in self.open.into_values() {
            let (file, offset) = found.place;
            let prepared = Prepared::decode(found.buffer, family_of)
                .map_err(|fault| StorageError::malformed(file, offset, fault.to_string()))?;
            open.push(Arc::new(prepared));
        }
        open.sort_by(|left, right| left.xid.cmp(&right.xid));
        Ok((open, self.ended))
    }
}
