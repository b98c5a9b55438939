//! The first segment of an opening, and what it takes over from the log before: transactions that are still prepared.
//!
//! Their records are in the new life, durable, before the manifest moves the log's start there. A crash before that leaves
//! a segment that counts for nothing, or that replay reads behind the old ones if it begins exactly where they end; the
//! copies in it say what the originals say. Their frames claim no more to be durable than the manifest does, because the
//! end of the old log may have survived a kill only, and a power cut could still take it.

use std::sync::Arc;

use kingtide_base::{DatabaseId, Lsn, SegmentId, SeqNo, StorageResult, limits};
use kingtide_env::{Directory, Env};

use crate::{
    wal::{Blank, Tail, segment_name},
    write::{Prepared, RecordPlace},
};

/// The first log segment of an opening, in bytes.
const FIRST_SEGMENT_BYTES: u64 = limits::SEGMENT_BYTES_MIN;

/// Where the segments are made.
pub(super) struct Carrier<'a> {
    pub(super) env: &'a dyn Env,
    pub(super) wal: &'a dyn Directory,
    /// Its name and all above are free.
    pub(super) first_slot: u64,
    /// Whose log it is.
    pub(super) database: DatabaseId,
}

/// The log of an opening, at its beginning.
pub(super) struct Begun {
    pub(super) tail: Tail,
    pub(super) next_slot: u64,
    /// The transactions that were taken over, and where their records are now.
    pub(super) carried: Vec<(Arc<Prepared>, RecordPlace)>,
}

impl Carrier<'_> {
    /// Begins the life `segment` at position `base` with the records of `prepared`, synced. `sequence` is the newest
    /// commit, `durable` how far the log before is known durable.
    ///
    /// # Errors
    /// What making, writing and syncing segments answers; they are removed again then.
    pub(super) fn begin(
        &self,
        (segment, base): (SegmentId, Lsn),
        prepared: &[Arc<Prepared>],
        (sequence, durable): (SeqNo, Lsn),
    ) -> StorageResult<Begun> {
        let mut next_slot = self.first_slot;
        let mut make_blank = |bytes: u64| {
            let slot = next_slot;
            next_slot += 1;
            Blank::create(self.env, self.wal, slot, bytes, false)
        };
        let mut begin = || {
            let blank = make_blank(FIRST_SEGMENT_BYTES)?;
            let mut tail = Tail::begin(blank, segment, base, self.database)?;
            let mut carried = Vec::with_capacity(prepared.len());
            for prepared in prepared {
                let place = prepared.append_to(&mut tail, (sequence, durable), &mut make_blank)?;
                carried.push((Arc::clone(prepared), place));
            }
            if !carried.is_empty() {
                sync(&mut tail)?;
            }
            Ok((tail, carried))
        };
        match begin() {
            Ok((tail, carried)) => Ok(Begun {
                tail,
                next_slot,
                carried,
            }),
            Err(error) => {
                for slot in self.first_slot..next_slot {
                    // Best effort: what stays counts for nothing, and the next opening for writing removes it.
                    let _ = self.wal.remove(&segment_name(slot));
                }
                Err(error)
            }
        }
    }
}

fn sync(tail: &mut Tail) -> StorageResult<()> {
    let segments = tail.unsynced();
    for segment in &segments {
        segment.make_durable()?;
    }
    if let Some(current) = segments.last() {
        tail.note_synced(current.id);
    }
    Ok(())
}
