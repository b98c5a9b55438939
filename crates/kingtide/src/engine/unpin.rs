//! Keeping the log short although prepared transactions wait in it.

use std::sync::Arc;

use kingtide_format::Edit;

use super::Engine;
use crate::{error::Result, memtable::Memory};

impl Engine {
    /// Moves prepare records to the end of the log when they hold segments that nothing else needs, `without` one
    /// memtable that is about to leave. Waits for a sync then; call without locks.
    pub(crate) fn unpin_log(&self, without: Option<&Arc<Memory>>) {
        let needed = self.log_needed_by_memtables(without);
        // What fails now is tried again by the next flush. Until then the log is longer, and nothing is lost.
        let _ = self
            .pipeline
            .copy_prepared_forward(needed.segment, needed.position);
    }

    /// Gives back segments in which nothing is needed any more although no flush tells so: a log of prepared
    /// transactions and their rollbacks.
    ///
    /// # Errors
    /// What the manifest answers; the segments then stay.
    pub(crate) fn advance_log(&self) -> Result<()> {
        self.unpin_log(None);
        let mut manifest = self.manifest.lock();
        let needed = self.log_needed(None);
        if manifest.state().log_start().segment >= needed.segment {
            return Ok(());
        }
        manifest.append(&[
            Edit::LogStart {
                segment: needed.segment,
                sequence: needed.sequence,
                position: needed.position,
            },
            Edit::LogDurable(self.pipeline.order.durable()),
        ])?;
        drop(manifest);
        self.retire_log(needed.segment);
        Ok(())
    }
}
