//! The first phase of two-phase commit: a transaction's operations and locks go into the log under a name, and wait
//! there for their outcome. The second phase is in `db/prepared`.

use std::{sync::Arc, time::Duration};

use kingtide_format::{XID_BYTES_MAX, write_prepare};

use super::{State, TableLookup, Transaction, Validation, newest_in_tables};
use crate::{
    error::{Error, ErrorKind, Result},
    family::Family,
    options::{IsolationLevel, SyncMode},
    write::{Durability, Prepared},
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

/// What a commit to `families` must wait for: as `mode` says, or the strictest mode among them.
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
            .map(|family| of(family.options.sync))
            .fold(Durability::Kernel, Durability::stricter),
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
        self.state = State::RolledBack;
        // Held until the record is there: the tables that validation reads must keep what the snapshot pins.
        let snapshot = self.snapshot.take();
        let head = (
            isolation_number(self.options.isolation),
            self.engine.env.unix_micros(),
        );
        let mut control = Vec::new();
        write_prepare(&mut control, xid, head, &[]);
        let record = self.writes.record_with(&control);
        let prepared = {
            let families: Vec<&Arc<Family>> = self
                .writes
                .sections()
                .map(|section| &section.family)
                .collect();
            let family_of = |id| {
                let found = families.iter().find(|family| family.id == id);
                found.map(|family| Arc::clone(family))
            };
            Prepared::decode(record, &family_of).map_err(|fault| {
                Error::new(
                    ErrorKind::ReopenRequired,
                    format!("its own record: {fault}"),
                )
            })?
        };
        let in_tables: &TableLookup<'_> = &|family, version, key, newer_than| {
            newest_in_tables((family, &self.engine.files), version, key, newer_than)
        };
        let validation = snapshot.as_ref().map(|snapshot| Validation {
            snapshot: snapshot.sequence(),
            in_tables,
        });
        self.engine
            .pipeline
            .prepare(prepared, &self.writes, validation)?;
        self.writes.clear();
        self.state = State::Prepared;
        Ok(())
    }
}
