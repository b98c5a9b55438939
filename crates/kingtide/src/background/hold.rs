//! Merging by hand, cancelling merges, and what is going on: the scheduler as callers of the database see it.

use std::sync::Arc;

use kingtide_base::FamilyId;
use kingtide_env::sync::atomic::Ordering;

use super::scheduler::{Background, Task, WorkCounts};
use crate::{
    error::{Error, ErrorKind, Result},
    family::Family,
};

/// While it lives, no other merge of the family begins. Counts as a running merge.
pub(crate) struct HeldMerges<'a> {
    background: &'a Background,
    family: FamilyId,
}

impl Drop for HeldMerges<'_> {
    fn drop(&mut self) {
        self.background.release_merges(self.family);
    }
}

impl Background {
    /// Waits until no merge of `family` runs, and keeps others from beginning while the answer lives.
    ///
    /// # Errors
    /// `ReopenRequired` when merges were cancelled, also because the database closes.
    pub(crate) fn hold_merges(&self, family: &Arc<Family>) -> Result<HeldMerges<'_>> {
        let mut queues = self.lock();
        // One caller at a time; the others wait here.
        while queues.is_held(family.id) && !self.are_merges_stopped() {
            queues = self.wait(queues);
        }
        self.check_merges()?;
        queues.hold(family.id);
        while queues.is_running(Task::Merge, family.id) && !self.are_merges_stopped() {
            queues = self.wait(queues);
        }
        if let Err(error) = self.check_merges() {
            queues.release(family.id);
            return Err(error);
        }
        queues.begin(Task::Merge, family.id);
        drop(queues);
        Ok(HeldMerges {
            background: self,
            family: family.id,
        })
    }

    fn release_merges(&self, family: FamilyId) {
        let mut queues = self.lock();
        queues.release(family);
        queues.end(Task::Merge, family);
        self.notify();
    }

    /// Ends all merges at their next checkpoint, for the rest of this opening.
    pub(crate) fn cancel_merges(&self) {
        let mut queues = self.lock();
        // Relaxed: merges look again and again, and whoever waits looks after the notification.
        self.stops_merges.store(true, Ordering::Relaxed);
        queues.forget_merges();
        self.notify();
    }

    /// True once merges were cancelled, or the database closes.
    pub(crate) fn are_merges_stopped(&self) -> bool {
        // Relaxed: as in `cancel_merges`.
        self.stops_merges.load(Ordering::Relaxed)
    }

    /// Refuses work that needs merges once they were cancelled.
    ///
    /// # Errors
    /// `ReopenRequired`.
    pub(crate) fn check_merges(&self) -> Result<()> {
        if !self.are_merges_stopped() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ReopenRequired,
            "merges were cancelled for the rest of this opening: close and reopen the database to compact it",
        ))
    }

    /// True while a memtable of the family waits for its flush or is being flushed.
    pub(crate) fn is_flushing(&self, family: &Family) -> bool {
        self.lock().is_busy(Task::Flush, family.id) || !family.load().sealed.is_empty()
    }

    /// True while a merge of the family is queued or runs.
    pub(crate) fn is_merging(&self, family: &Family) -> bool {
        let queues = self.lock();
        [Task::Merge, Task::Settle]
            .into_iter()
            .any(|task| queues.is_busy(task, family.id))
    }

    /// How much waits and runs.
    pub(crate) fn counts(&self) -> WorkCounts {
        self.lock().counts()
    }
}
