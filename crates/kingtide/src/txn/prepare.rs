//! The first phase of two-phase commit: a transaction's operations and locks go into the log under a name, and wait
//! there for their outcome. The second phase is in `db/prepared`.

use std::{sync::Arc, time::Duration};

use kingtide_base::SeqNo;
use kingtide_format::{Lock, XID_BYTES_MAX, write_lock, write_lock_section, write_prepare};

use super::{State, Transaction};
use crate::{
    error::{Error, ErrorKind, Result},
    family::Family,
    options::{IsolationLevel, SyncMode},
    read::read_set::ReadSet,
    write::{Durability, Prepared, Validation},
};

/// Checks the name of a prepared transaction.
///
/// # Errors
/// `InvalidArgument` for an empty one, `TooLarge`.
pub(crate) fn check_xid(xid: &[u8]) -> Result<()> {
    if xid.is_empty() {
        return Err(Error::invalid("an xid has at least one byte"));
    }
    if xid.len() > XID_BYTES_MAX {
        let message = format!(
            "an xid has at most {XID_BYTES_MAX} bytes, this one has {}",
            xid.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

/// The number of an isolation level in a prepare record.
const fn isolation_number(level: IsolationLevel) -> u8 {
    match level {
        IsolationLevel::ReadUncommitted => 0,
        IsolationLevel::ReadCommitted => 1,
        IsolationLevel::RepeatableRead => 2,
        IsolationLevel::Snapshot => 3,
        IsolationLevel::Serializable => 4,
    }
}

/// The isolation level of a number in a prepare record; unknown ones count as the strictest.
pub(crate) const fn isolation_of(number: u8) -> IsolationLevel {
    match number {
        0 => IsolationLevel::ReadUncommitted,
        1 => IsolationLevel::ReadCommitted,
        2 => IsolationLevel::RepeatableRead,
        3 => IsolationLevel::Snapshot,
        _ => IsolationLevel::Serializable,
    }
}

/// What a commit to `families` must wait for: as `mode` says, or the strictest mode among them; the device when there are
/// none, as for the prepare before it.
pub(crate) fn durability_of(mode: Option<SyncMode>, families: &[Arc<Family>]) -> Durability {
    let of = |mode: SyncMode| match mode {
        SyncMode::None => Durability::Kernel,
        SyncMode::Interval(interval) => Durability::Within(interval.max(Duration::from_micros(1))),
        SyncMode::Full => Durability::Device,
    };
    match mode {
        Some(mode) => of(mode),
        None => families
            .iter()
            .map(|family| of(family.options().sync))
            .reduce(Durability::stricter)
            .unwrap_or(Durability::Device),
    }
}

impl Transaction {
    /// Prepares the transaction for its commit: it is validated now, as by [`commit`](Transaction::commit), and made
    /// durable under the name `xid`, in every sync mode. From then on it waits in the database, over any crash, until
    /// [`Db::commit_prepared`](crate::Db::commit_prepared) or
    /// [`Db::rollback_prepared`](crate::Db::rollback_prepared) ends it. Meanwhile nobody sees what it wrote, and what it
    /// wrote is locked: a transaction that writes such a key gets `Conflict`, at every isolation level.
    ///
    /// `xid` has 1 to 128 bytes and is used once: see
    /// [`Db::commit_prepared`](crate::Db::commit_prepared). This transaction is finished whatever the answer, and can be
    /// [reset](Transaction::reset).
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, ErrorKind, FamilyOptions, Options};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("accounts", FamilyOptions::default())?;
    /// let mut transaction = db.begin()?;
    /// transaction.put(&family, b"alice", b"90")?;
    /// transaction.prepare(b"payment 7")?;
    ///
    /// let refused = db.put(&family, b"alice", b"80").expect_err("the key is locked");
    /// assert_eq!(refused.kind(), ErrorKind::Conflict);
    /// db.close()?;
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// assert_eq!(db.prepared()?[0].xid, b"payment 7");
    /// db.commit_prepared(b"payment 7")?;
    /// let family = db.family("accounts")?;
    /// assert_eq!(db.get(&family, b"alice")?.expect("committed"), b"90");
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`commit`](Transaction::commit); nothing is prepared then, unless it is `OutcomeUnknown`: then the next open
    /// tells, by [`Db::prepared`](crate::Db::prepared). Also `Conflict` when a key that is written here is locked by
    /// another prepared transaction, `AlreadyExists` when the xid is or was in use, `InvalidArgument` and `TooLarge` for
    /// the xid. An xid that is refused leaves the transaction as it was.
    pub fn prepare(&mut self, xid: &[u8]) -> Result<()> {
        self.check_active()?;
        check_xid(xid)?;
        self.engine.check_writable()?;
        // Before anything changes: a name that is refused leaves the transaction as it was.
        self.engine.pipeline.take_xid(xid)?;
        // Held until the record is there: the tables that validation reads must keep what the snapshots pin.
        let held = self
            .pins
            .take()
            .inspect_err(|_| self.engine.pipeline.give_back_xid(xid))?;
        let reads = self.take_reads();
        let snapshot = held.view.as_ref().map(|view| view.sequence());
        let outcome = self.prepare_checked(xid, snapshot, reads.as_ref());
        drop(held);
        if let (Some(shared), Some(reads)) = (&self.reads, reads) {
            shared.put_back(reads);
        }
        self.forget();
        self.state = match outcome {
            Ok(()) => State::Prepared,
            Err(_) => State::RolledBack,
        };
        outcome
    }

    fn prepare_checked(
        &mut self,
        xid: &[u8],
        snapshot: Option<SeqNo>,
        reads: Option<&ReadSet>,
    ) -> Result<()> {
        let has_updates = reads.is_some_and(ReadSet::has_updates);
        // One that only read is checked against nobody, and locks nothing.
        let is_bound = !self.writes.is_empty() || has_updates;
        let reads = reads.filter(|reads| is_bound && !reads.is_empty());
        self.engine.list_spilled(&self.writes)?;
        let head = (
            isolation_number(self.options.isolation),
            self.engine.env.unix_micros(),
        );
        let mut control = Vec::new();
        write_prepare(&mut control, xid, head, &lock_sections(reads));
        let record = self.writes.record_with(&control);
        let written = self.writes.sections().map(|section| &section.family);
        let read = reads.into_iter().flat_map(ReadSet::families);
        let families: Vec<&Arc<Family>> = written.chain(read.map(|reads| &reads.family)).collect();
        let family_of = |id| {
            let found = families.iter().find(|family| family.id == id);
            found.map(|family| Arc::clone(family))
        };
        let prepared = Prepared::decode(record, &family_of).map_err(|fault| {
            self.engine.pipeline.give_back_xid(xid);
            Error::new(
                ErrorKind::ReopenRequired,
                format!("its own record: {fault}"),
            )
        })?;
        let must_validate = is_bound && (snapshot.is_some() || reads.is_some());
        let validation = must_validate.then(|| Validation {
            snapshot,
            reads,
            tables: &*self.engine.files,
        });
        let spilled: Vec<_> = self.writes.spilled().cloned().collect();
        spilled.iter().for_each(|value| value.pin());
        prepared.hold(spilled.clone());
        let pipeline = &self.engine.pipeline;
        let outcome = pipeline.prepare(prepared, &self.writes, validation);
        let is_known = |error: &Error| {
            !matches!(
                error.kind(),
                ErrorKind::OutcomeUnknown | ErrorKind::ReopenRequired
            )
        };
        if outcome.as_ref().is_err_and(is_known) {
            // Nothing of it is in the log.
            spilled.iter().for_each(|value| value.unpin());
        }
        outcome
    }
}

/// What was read, as locks: what the level remembers, and keys read for update.
fn lock_sections(reads: Option<&ReadSet>) -> Vec<u8> {
    let mut sections = Vec::new();
    for reads in reads.into_iter().flat_map(ReadSet::families) {
        let updates = reads.updates().map(|update| Lock::ForUpdate(update.key));
        let points = reads.points().map(|point| Lock::Read(point.key));
        let ranges = reads.merged_ranges().into_iter();
        let ranges = ranges.map(|range| Lock::ReadRange(range.lower, range.upper));
        let mut bytes = Vec::new();
        let mut count = 0;
        for lock in updates.chain(points).chain(ranges) {
            write_lock(&mut bytes, &lock);
            count += 1;
        }
        write_lock_section(&mut sections, reads.family.id, count, &bytes);
    }
    sections
}
