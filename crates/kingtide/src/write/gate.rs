//! The gate in front of the ordered step. While it is closed no commit and no prepare gets a place in the order: they
//! wait, without any lock. A bulk load closes it for the moment of its installation, because its place in the order is
//! known before its tables are installed, which takes a few syncs, and nothing may be ordered in between: a commit that
//! came later would be validated against tables that do not show the load yet.
//!
//! Whoever closes the gate must not wait for a commit. Reads, flushes, merges and the log's keeper go on.

use std::sync::Arc;

use kingtide_base::SeqNo;

use super::pipeline::{Pipeline, outcome_unknown};
use crate::{
    error::{Error, ErrorKind, Result},
    family::Family,
};

/// A closed gate; opens when dropped.
pub(crate) struct ClosedGate<'a> {
    pipeline: &'a Pipeline,
}

impl Pipeline {
    /// Closes the gate, once whoever else has it closed has opened it again.
    ///
    /// # Errors
    /// `ReopenRequired`, `Closed`.
    pub(crate) fn close_gate(&self) -> Result<ClosedGate<'_>> {
        let mut state = self.order.lock();
        while state.log.is_gated {
            state = self.gate_opened.wait(state);
        }
        state.check_writable()?;
        state.log.is_gated = true;
        Ok(ClosedGate { pipeline: self })
    }

    /// Waits until the gate is open. It may be closed again when this returns.
    pub(super) fn wait_at_gate(&self) {
        let mut state = self.order.lock();
        while state.log.is_gated {
            state = self.gate_opened.wait(state);
        }
    }

    /// Refuses every commit from now on. What is committed when this returns is all there will be.
    pub(crate) fn close(&self) {
        let mut state = self.order.lock();
        // Whoever closed the gate is still writing to the manifest, and may finish.
        while state.log.is_gated {
            state = self.gate_opened.wait(state);
        }
        state.log.is_closed = true;
    }
}

impl ClosedGate<'_> {
    /// Seals the active memtable of `family`, if it holds anything, whatever room sealed ones take already.
    pub(crate) fn seal(&self, family: &Arc<Family>) {
        let active = Arc::clone(&family.load().active);
        if !active.table.is_empty() {
            self.pipeline.replace_active(family, &active, (0, 0));
        }
    }

    /// The number of whatever is ordered next; nobody else gets it as long as the gate is closed.
    pub(crate) fn next_sequence(&self) -> SeqNo {
        self.pipeline.order.lock().next_sequence()
    }

    /// Gives `sequence`, the [next](Self::next_sequence), to the owner of the gate, whose work readers see from now on.
    ///
    /// # Errors
    /// `OutcomeUnknown` when the log has stopped: readers see nothing more in this opening.
    pub(crate) fn complete(&self, sequence: SeqNo) -> Result<()> {
        let order = &self.pipeline.order;
        let mut state = order.lock();
        if let Some(failure) = state.failure() {
            return Err(outcome_unknown(failure));
        }
        let end = state.log.tail.position();
        let completion = order.complete(&mut state, sequence, end, false);
        drop(state);
        order
            .wait(completion, sequence, end, |segments| {
                self.pipeline.sync_segments(segments)
            })
            .map_err(|failure| outcome_unknown(&failure))
    }

    /// Gives `sequence` to nobody: it is not used again in this opening.
    pub(crate) fn abandon(&self, sequence: SeqNo) {
        // After a failure of the log no number is given out any more.
        let _ = self.complete(sequence);
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.pipeline.order.lock().log.is_gated = false;
        self.pipeline.gate_opened.notify_all();
    }
}

/// The error of a manifest edit that failed and may come back after a crash.
pub(crate) fn load_unknown(error: &Error) -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        format!(
            "the manifest could not be written ({error}): the load is wholly there or wholly absent after the next open"
        ),
    )
}
