//! Room in the log: blank segments, made ahead of need or while a commit waits; and a small one for a log that has nothing left
//! to keep, so that its large segments can be given back.

use kingtide_base::limits;
use kingtide_env::sync::atomic::Ordering;

use super::Pipeline;
use crate::{
    error::Result,
    wal::{Blank, RecordFrames},
};

impl Pipeline {
    /// Adds blanks until the log holds `record`, or one blank when there is no record to wait for.
    ///
    /// # Errors
    /// `DiskFull` or `Io`; the log is as before.
    pub(super) fn make_log_room(&self, record: &RecordFrames) -> Result<()> {
        let _one_at_a_time = self.blank_maker.lock();
        loop {
            let bytes = {
                let state = self.order.lock();
                if state.log.tail.has_room(record) {
                    return Ok(());
                }
                state.log.tail.next_blank_bytes(Some(record))
            };
            self.add_blank(bytes)?;
        }
    }

    /// Prepares a blank ahead of need, when the tail asks for one.
    ///
    /// # Errors
    /// As [`Pipeline::make_log_room`].
    pub(crate) fn prepare_blank(&self) -> Result<()> {
        let _one_at_a_time = self.blank_maker.lock();
        let bytes = {
            let state = self.order.lock();
            if !state.log.tail.wants_blank() {
                return Ok(());
            }
            state.log.tail.next_blank_bytes(None)
        };
        self.add_blank(bytes)
    }

    /// Gives up all blanks, one that is being made at this moment included; their names are returned for removal.
    pub(crate) fn give_up_blanks(&self) -> Vec<String> {
        let _none_is_made = self.blank_maker.lock();
        self.order.lock().log.tail.give_up_blanks()
    }

    fn add_blank(&self, bytes: u64) -> Result<()> {
        let blank = self.make_blank(bytes)?;
        self.order.lock().log.tail.add_blank(blank);
        Ok(())
    }

    /// Makes a blank of about `bytes`, which is not part of the log yet.
    ///
    /// # Errors
    /// As [`Pipeline::make_log_room`].
    pub(super) fn make_blank(&self, bytes: u64) -> Result<Blank> {
        let slot = {
            let mut state = self.order.lock();
            let slot = state.log.next_slot;
            state.log.next_slot += 1;
            slot
        };
        self.disk.look();
        // Relaxed: a hint.
        let sync = self.wants_durability.load(Ordering::Relaxed);
        let blank = Blank::create(
            self.env.as_ref(),
            self.log_directory.as_ref(),
            slot,
            bytes,
            sync,
        )?;
        Ok(blank)
    }

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
