//! Commits: what is checked, and how durable it must be.

use std::time::Duration;

use kingtide_base::SeqNo;

use super::{State, Transaction};
use crate::{
    error::Result,
    options::SyncMode,
    read::read_set::ReadSet,
    write::{Durability, Validation},
};

impl Transaction {
    /// Commits: everything or nothing, durable as the sync mode asks. With a value that was spilled when it was put, the
    /// manifest is synced first, in every mode. Answers the commit's place in the commit order,
    /// or [`SeqNo::ZERO`] when nothing was written.
    ///
    /// When it returns, the commit is visible to every read that begins afterwards. A transaction that wrote nothing and
    /// read nothing for update never gets a conflict.
    ///
    /// # Errors
    /// Nothing was written, and the transaction is rolled back: `DiskFull`, `Busy` (try again later), `NotFound` (a
    /// family that was written, or whose reads are checked, was dropped), `ReadOnly`, `ReopenRequired`, `Closed`, `Aborted`; `Conflict`, when another transaction
    /// committed first and wrote what this one relies on: from repeatable read up a key written here, at repeatable read
    /// and serializable what was read too, at every level a key read for update. [`Error::conflict`](crate::Error::conflict)
    /// names it. `OutcomeUnknown`: the log failed; the commit is wholly there or wholly absent after the next open.
    pub fn commit(&mut self) -> Result<SeqNo> {
        self.check_active()?;
        // Held until the commit is done: the tables that validation reads must keep what the snapshots pin.
        let held = self.pins.take()?;
        let reads = self.take_reads();
        let has_updates = reads.as_ref().is_some_and(ReadSet::has_updates);
        let outcome = if self.writes.is_empty() && !has_updates {
            Ok(SeqNo::ZERO)
        } else {
            let snapshot = held.view.as_ref().map(|view| view.sequence());
            self.commit_checked(snapshot, reads.as_ref())
        };
        if let (Some(shared), Some(reads)) = (&self.reads, reads) {
            shared.put_back(reads);
        }
        self.savepoints.clear();
        if self.writes.has_spilled() {
            // Not held until the next life: the memtable holds what it took.
            self.writes.forget_spilled();
            if outcome.is_err() {
                self.engine.tidy_spilled();
            }
        }
        self.holding.end(&self.engine);
        self.state = match outcome {
            Ok(_) => State::Committed,
            Err(_) => State::RolledBack,
        };
        outcome
    }

    /// Takes out what was remembered of reads; iterators add nothing to it from now on.
    pub(super) fn take_reads(&self) -> Option<ReadSet> {
        self.reads.as_ref().map(|reads| reads.take())
    }

    /// Commits the writes, if there are any, when nothing that `snapshot` and `reads` stand for has changed.
    fn commit_checked(
        &mut self,
        snapshot: Option<SeqNo>,
        reads: Option<&ReadSet>,
    ) -> Result<SeqNo> {
        self.engine.check_writable()?;
        let reads = reads.filter(|reads| !reads.is_empty());
        let must_validate = snapshot.is_some() || reads.is_some();
        let validation = must_validate.then(|| Validation {
            snapshot,
            reads,
            tables: &*self.engine.files,
        });
        if self.writes.is_empty() {
            if let Some(validation) = validation {
                self.engine.pipeline.validate_reads(validation)?;
            }
            return Ok(SeqNo::ZERO);
        }
        self.engine.list_spilled(&self.writes)?;
        let durability = self.durability();
        self.engine
            .pipeline
            .commit(&mut self.writes, durability, validation)
    }

    /// What the transaction asks for, or the strictest mode among the families it touches.
    fn durability(&self) -> Durability {
        let of = |mode: SyncMode| match mode {
            SyncMode::None => Durability::Kernel,
            SyncMode::Interval(interval) => {
                Durability::Within(interval.max(Duration::from_micros(1)))
            }
            SyncMode::Full => Durability::Device,
        };
        if let Some(mode) = self.options.sync {
            return of(mode);
        }
        let modes = self
            .writes
            .sections()
            .map(|section| of(section.family.sync_mode()));
        modes.fold(Durability::Kernel, Durability::stricter)
    }
}
