//! Going on in a small segment: for a log that has nothing left to keep, so that its large segments can be given back.

use kingtide_base::limits;

use super::Pipeline;
use crate::error::Result;

impl Pipeline {
    /// Lets the log go on in a new segment of the smallest size, if the present one is larger. Whether anything in the
    /// present one is needed still is for the caller to look at.
    ///
    /// # Errors
    /// `DiskFull` or `Io` while the segment is made; the log is as before. `OutcomeUnknown` when it cannot be begun: the
    /// log has stopped then.
    pub(crate) fn restart_log(&self) -> Result<()> {
        if self.order.lock().log.tail.current_bytes() <= limits::SEGMENT_BYTES_MIN {
            return Ok(());
        }
        let blank = self.make_blank(limits::SEGMENT_BYTES_MIN)?;
        let mut state = self.order.lock();
        match state.log.tail.restart(blank) {
            Ok(()) => Ok(()),
            // The header may be there or not: going on in the old segment would give two ways to read the log.
            Err(error) => Err(self.append_failed(state, &error.to_string())),
        }
    }
}
