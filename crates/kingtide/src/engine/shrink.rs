//! Giving the log's room back when nothing in it is needed any more.

use super::Engine;
use crate::error::Result;

impl Engine {
    /// Makes the log as short as it can be: spare segments go, and when everything is in tables, the present segment goes
    /// too and the log begins anew in one of the smallest size. For a database that is idle: segments that are given
    /// back must be made again when writing goes on. A log in which prepared transactions wait stays: to move them each
    /// time that the database is idle would be work without an end.
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
        // A commit may have come in between; the segment that holds it is not given back.
        self.advance_log()?;
        self.remove_spare_segments();
        Ok(())
    }

    fn remove_spare_segments(&self) {
        let spare = self.pipeline.give_up_blanks();
        self.remove_segments(spare);
    }
}
