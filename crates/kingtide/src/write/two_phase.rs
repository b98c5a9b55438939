//! Two-phase commit on the write path: preparing, ending, and keeping prepare records out of the log's way.
//!
//! - **Prepare** is an ordered step like a commit's, without a sequence number: the locks are checked and put in force
//!   and the record is appended under one hold of the commit lock, so in the order of commits everything before it was
//!   seen by its validation and everything after it meets its locks. Then the log is synced past the record.
//! - **The commit** of a prepared transaction is an ordinary commit whose record carries the name; its ordered step
//!   passes the transaction's own locks and lifts them. **A rollback** is a record without operations.
//! - **Copying forward**: when everything else in the oldest segments is in tables, prepare records that still wait are
//!   appended again at the end of the log and synced, and count from there. It is done once the log has grown past
//!   them by as much as they are long, so that it at most doubles what the log writes.
//!
//! Why an outcome is never lost before its prepare record: copies are made under the commit lock and only of
//! transactions that are not ended, so in the log every copy stands before the outcome, and the log is retired from the
//! front. And what is retired is never the prepare record of an outcome that a power cut could take back: the slot in
//! the lock table holds the log until the outcome is durable.

use std::sync::Arc;

use kingtide_base::{Lsn, SegmentId, SeqNo};
use kingtide_env::sync::atomic::Ordering;
use kingtide_format::write_prepared_rollback;

use super::{
    lock_table::{Nodes, RecordPlace, Room, RoomWanted},
    pipeline::{Durability, Pipeline, dropped, outcome_unknown, reopen_required},
    prepared::{Prepared, PreparedRecord},
    validate::{self, Checked, Recheck, Validation},
    write_set::WriteSet,
};
use crate::{
    error::{Error, ErrorKind, Result},
    family::Family,
    wal::{HEADROOM_BYTES, RecordFrames},
};

enum PrepareAttempt {
    Done(Lsn),
    AtGate,
    NeedsLogRoom,
    NeedsLockRoom(RoomWanted),
    NeedsValidation,
}

enum CopyAttempt {
    Done(RecordPlace, Lsn),
    NeedsLogRoom,
    NotNeeded,
}

impl Pipeline {
    /// Takes a name for a prepare, which gives it back when it fails.
    ///
    /// # Errors
    /// `AlreadyExists` when it is or was in use.
    pub(crate) fn take_xid(&self, xid: &[u8]) -> Result<()> {
        self.prepared.take(xid)
    }

    /// Gives back the name of a transaction that did not come to [`Pipeline::prepare`].
    pub(crate) fn give_back_xid(&self, xid: &[u8]) {
        self.prepared.give_back(xid);
    }

    /// Prepares a transaction whose name was taken: when this returns, it is durable, and its locks are in force.
    /// `writes` are its operations, for the validation.
    ///
    /// # Errors
    /// As [`Pipeline::commit`]; the name is given back when it is sure that nothing was written.
    pub(crate) fn prepare(
        &self,
        prepared: Prepared,
        writes: &WriteSet,
        validation: Option<Validation<'_>>,
    ) -> Result<()> {
        // Relaxed: a hint for how blanks are prepared.
        self.wants_durability.store(true, Ordering::Relaxed);
        prepared.count_in(&self.memory.budget);
        let prepared = Arc::new(prepared);
        let appended = self.append_prepare(&prepared, writes, validation);
        let end = match appended {
            Ok(end) => end,
            Err(error) => {
                // After a failed append the log takes nothing more, and the name stays taken for this opening.
                if error.kind() != ErrorKind::OutcomeUnknown {
                    self.prepared.give_back(&prepared.xid);
                }
                return Err(error);
            }
        };
        self.order
            .sync_through(end, |segments| self.sync_segments(segments))
            .map_err(|failure| outcome_unknown(&failure))?;
        self.prepared.set_prepared(prepared);
        self.keeper.nudge();
        Ok(())
    }

    fn append_prepare(
        &self,
        prepared: &Arc<Prepared>,
        writes: &WriteSet,
        validation: Option<Validation<'_>>,
    ) -> Result<Lsn> {
        let mut checked = self.check(writes, validation, None)?;
        let mut nodes = Some(Nodes::new(&prepared.locks));
        loop {
            let stale = checked.as_ref().zip(validation);
            match self.attempt_prepare(prepared, writes, &mut nodes, stale)? {
                PrepareAttempt::Done(end) => return Ok(end),
                PrepareAttempt::NeedsValidation => {
                    checked = self.check(writes, validation, checked.take())?;
                }
                PrepareAttempt::AtGate => self.wait_at_gate(),
                PrepareAttempt::NeedsLogRoom => self.make_record_room(prepared)?,
                PrepareAttempt::NeedsLockRoom(wanted) => {
                    let mut room = Room::new(wanted);
                    self.order.lock().log.locks.grow(&mut room);
                    // What was replaced is let go here, outside the lock.
                    drop(room);
                }
            }
        }
    }

    /// The ordered step of a prepare: all or nothing.
    fn attempt_prepare(
        &self,
        prepared: &Arc<Prepared>,
        writes: &WriteSet,
        nodes: &mut Option<Nodes>,
        validation: Option<(&Checked<'_>, Validation<'_>)>,
    ) -> Result<PrepareAttempt> {
        let mut record = prepared.record.lock();
        let PreparedRecord { buffer, frames } = &mut *record;
        let _no_drops = self.prepared.hold_changes();
        let mut state = self.order.lock();
        state.check_writable()?;
        if state.log.is_gated {
            return Ok(PrepareAttempt::AtGate);
        }
        if !state.log.tail.has_room(frames) {
            return Ok(PrepareAttempt::NeedsLogRoom);
        }
        if let Some(gone) = prepared
            .locked_families()
            .find(|family| family.is_dropped())
        {
            return Err(dropped(gone));
        }
        if let Some((checked, validation)) = validation
            && validate::recheck(writes, checked, validation)? == Recheck::Stale
        {
            return Ok(PrepareAttempt::NeedsValidation);
        }
        if let Some(held) = state.log.locks.blocks_prepare(&prepared.locks) {
            drop(state);
            return Err(held.into_error());
        }
        let durable = self.order.durable();
        let points = prepared.locks.point_count();
        if let Some(wanted) = state.log.locks.wants_room(points, durable) {
            return Ok(PrepareAttempt::NeedsLockRoom(wanted));
        }
        let sequence = state.last_sequence();
        let place = RecordPlace {
            segment: state.log.tail.segment(),
            start: state.log.tail.position(),
        };
        let end = match state.log.tail.append(buffer, frames, sequence, durable) {
            Ok(end) => end,
            Err(error) => return Err(self.append_failed(state, &error.to_string())),
        };
        state.log.marked = durable;
        state.log.tail.give_up_windows();
        let nodes = nodes.take().unwrap_or_default();
        state.log.locks.publish(Arc::clone(prepared), nodes, place);
        Ok(PrepareAttempt::Done(end))
    }

    fn make_record_room(&self, prepared: &Prepared) -> Result<()> {
        let record = prepared.record.lock();
        self.make_log_room(&record.frames)
    }

    /// Commits the prepared transaction `xid`; `durability` answers for its families what the commit must wait for.
    ///
    /// # Errors
    /// `NotFound`, `Busy` while another call ends it, and as [`Pipeline::commit`]: unless the error is
    /// `OutcomeUnknown`, it stays prepared.
    pub(crate) fn commit_prepared(
        &self,
        xid: &[u8],
        writes: &mut WriteSet,
        durability: &dyn Fn(&[Arc<Family>]) -> Durability,
    ) -> Result<SeqNo> {
        self.end_prepared(xid, |prepared| {
            let durability = durability(&prepared.families);
            if prepared.operation_count == 0 {
                return self
                    .append_outcome(prepared, durability)
                    .map(|()| SeqNo::ZERO);
            }
            prepared.write_to(writes)?;
            self.commit(writes, durability, None)
        })
    }

    /// Rolls the prepared transaction `xid` back.
    ///
    /// # Errors
    /// As [`Pipeline::commit_prepared`].
    pub(crate) fn rollback_prepared(
        &self,
        xid: &[u8],
        durability: &dyn Fn(&[Arc<Family>]) -> Durability,
    ) -> Result<()> {
        self.end_prepared(xid, |prepared| {
            let durability = durability(&prepared.families);
            self.append_outcome(prepared, durability)?;
            if durability == Durability::Device {
                // Otherwise a power cut may take the outcome back: the next open judges the values.
                prepared.unpin_spilled();
            }
            Ok(())
        })
    }

    fn end_prepared<T>(
        &self,
        xid: &[u8],
        end: impl FnOnce(&Arc<Prepared>) -> Result<T>,
    ) -> Result<T> {
        self.order.lock().check_writable()?;
        let prepared = self.prepared.claim(xid)?;
        let outcome = end(&prepared);
        match &outcome {
            Ok(_) => self.prepared.set_ended(&prepared),
            // It stays claimed: what became of it, the next open finds out.
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
            Err(_) => self.prepared.unclaim(&prepared),
        }
        outcome
    }

    /// Appends the record of an outcome without operations, and lifts the locks.
    fn append_outcome(&self, prepared: &Arc<Prepared>, durability: Durability) -> Result<()> {
        let mut buffer = vec![0; HEADROOM_BYTES];
        write_prepared_rollback(&mut buffer, &prepared.xid);
        let mut frames = RecordFrames::default();
        frames.prepare(&buffer, HEADROOM_BYTES..buffer.len());
        let end = loop {
            if let Some(end) = self.attempt_outcome(prepared, &mut buffer, &mut frames)? {
                break end;
            }
            self.make_log_room(&frames)?;
        };
        match durability {
            Durability::Kernel => Ok(()),
            Durability::Within(interval) => {
                self.keeper.sync_within(interval, self.env.as_ref());
                Ok(())
            }
            Durability::Device => self
                .order
                .sync_through(end, |segments| self.sync_segments(segments))
                .map_err(|failure| outcome_unknown(&failure)),
        }
    }

    /// The ordered step of an outcome without operations; `None` when the log needs room.
    fn attempt_outcome(
        &self,
        prepared: &Arc<Prepared>,
        buffer: &mut [u8],
        frames: &mut RecordFrames,
    ) -> Result<Option<Lsn>> {
        let released;
        let mut state = self.order.lock();
        state.check_writable()?;
        if !state.log.tail.has_room(frames) {
            return Ok(None);
        }
        let (sequence, durable) = (state.last_sequence(), self.order.durable());
        let end = match state.log.tail.append(buffer, frames, sequence, durable) {
            Ok(end) => end,
            Err(error) => return Err(self.append_failed(state, &error.to_string())),
        };
        state.log.marked = durable;
        released = state.log.locks.end(prepared, end);
        drop(state);
        drop(released);
        Ok(Some(end))
    }

    /// Copies the prepare records in segments below `segment` to the end of the log, if `position`, up to which
    /// everything else is in tables, is so far behind them that it is worth it.
    ///
    /// # Errors
    /// What the log answers. The records then count where they stand.
    pub(crate) fn copy_prepared_forward(&self, segment: SegmentId, position: Lsn) -> Result<()> {
        let _one_at_a_time = self.prepared.copying.lock();
        let behind = self.order.lock().log.locks.behind(segment);
        let Some((start, bytes)) = behind else {
            return Ok(());
        };
        if position.0.saturating_sub(start.0) < bytes {
            return Ok(());
        }
        let mut copies = Vec::new();
        let mut copied_through = Lsn::ZERO;
        for prepared in self.prepared.list() {
            if let Some((place, end)) = self.copy_forward(&prepared, segment)? {
                copies.push((prepared, place));
                copied_through = end;
            }
        }
        self.sync_through(copied_through)?;
        let mut state = self.order.lock();
        for (prepared, place) in &copies {
            state.log.locks.set_place(prepared, *place);
        }
        Ok(())
    }

    fn copy_forward(
        &self,
        prepared: &Arc<Prepared>,
        segment: SegmentId,
    ) -> Result<Option<(RecordPlace, Lsn)>> {
        loop {
            match self.attempt_copy(prepared, segment)? {
                CopyAttempt::Done(place, end) => return Ok(Some((place, end))),
                CopyAttempt::NotNeeded => return Ok(None),
                CopyAttempt::NeedsLogRoom => self.make_record_room(prepared)?,
            }
        }
    }

    fn attempt_copy(&self, prepared: &Arc<Prepared>, segment: SegmentId) -> Result<CopyAttempt> {
        let mut record = prepared.record.lock();
        let PreparedRecord { buffer, frames } = &mut *record;
        let mut state = self.order.lock();
        if let Some(failure) = state.failure() {
            return Err(reopen_required(failure));
        }
        let place = state.log.locks.place(prepared);
        if place.is_none_or(|place| place.segment >= segment) {
            return Ok(CopyAttempt::NotNeeded);
        }
        if !state.log.tail.has_room(frames) {
            return Ok(CopyAttempt::NeedsLogRoom);
        }
        let (sequence, durable) = (state.last_sequence(), self.order.durable());
        let place = RecordPlace {
            segment: state.log.tail.segment(),
            start: state.log.tail.position(),
        };
        match state.log.tail.append(buffer, frames, sequence, durable) {
            Ok(end) => {
                state.log.marked = durable;
                Ok(CopyAttempt::Done(place, end))
            }
            Err(error) => Err(self.append_failed(state, &error.to_string())),
        }
    }

    /// Refuses to drop a family in which a prepared transaction holds something.
    ///
    /// # Errors
    /// `Busy`.
    pub(crate) fn check_unprepared(&self, family: &Family) -> Result<()> {
        let holder = {
            let state = self.order.lock();
            state.log.locks.user_of(family).map(Arc::clone)
        };
        match holder {
            None => Ok(()),
            Some(holder) => Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "the prepared transaction \"{}\" uses column family {:?}: commit it or roll it back first",
                    holder.xid.escape_ascii(),
                    family.name()
                ),
            )),
        }
    }
}
