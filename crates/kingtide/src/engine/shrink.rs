//! Giving the log's room back when nothing in it is needed any more.

use kingtide_format::Edit;

use super::Engine;
use crate::error::Result;

impl Engine {
    /// Makes the log as short as it can be: spare segments go, and when everything is in tables, the present segment goes
    /// too and the log begins anew in one of the smallest size. For a database that is idle: segments that are given
    /// back must be made again when writing goes on.
    ///
    /// # Errors
    /// What making a segment and the manifest answer; the log is as before then, or longer than it need be.
    pub(crate) fn shrink_log(&self) -> Result<()> {
        self.remove_spare_segments();
        let needed = self.log_needed(None);
        if needed.position != self.pipeline.order.lock().log.tail.position() {
            return Ok(());
        }
        self.pipeline.restart_log()?;
        let mut manifest = self.manifest.lock();
        // Again: a commit may have come in between, and the segment that holds it is not given back.
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
        self.remove_spare_segments();
        Ok(())
    }

    fn remove_spare_segments(&self) {
        let spare = self.pipeline.order.lock().log.tail.give_up_blanks();
        self.remove_segments(spare);
    }
}
