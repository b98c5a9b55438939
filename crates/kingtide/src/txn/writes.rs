//! Writes: checked, counted, appended to the transaction's buffer.

use kingtide_base::{EntryKind, limits};
use kingtide_format::Op;

use super::Transaction;
use crate::{
    error::{Error, ErrorKind, Result},
    family::ColumnFamily,
    read::read_set::over_limit,
};

/// Checks a key.
///
/// # Errors
/// `InvalidArgument` for an empty one, `TooLarge`.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid("a key has at least one byte"));
    }
    if key.len() > limits::KEY_BYTES_MAX {
        let message = format!(
            "a key has at most {} bytes, this one has {}",
            limits::KEY_BYTES_MAX,
            key.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

/// Checks a value.
///
/// # Errors
/// `TooLarge`.
pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > limits::VALUE_BYTES_MAX {
        return Err(too_long(value.len() as u64));
    }
    Ok(())
}

/// A value has `bytes`, at least.
pub(super) fn too_long(bytes: u64) -> Error {
    let message = format!(
        "a value has at most {} bytes, this one has {bytes}: store it in pieces",
        limits::VALUE_BYTES_MAX,
    );
    Error::new(ErrorKind::TooLarge, message)
}

/// What an operation takes in memory besides its key and value, about.
pub(super) const OP_BYTES: usize = 64;

impl Transaction {
    /// Sets `key` to `value`. The bytes are copied; those of a long value
    /// ([`Options::spill_bytes_min`](crate::Options::spill_bytes_min)) to a file of its own, which is synced when this
    /// returns, so that this may take as long as writing it does, and answer `DiskFull` and `Io`.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty key, `TooLarge` over the limits of key, value or transaction, `ReadOnly`,
    /// `NotFound` when the family was dropped, `Closed` when the transaction is finished or the database closed.
    pub fn put(&mut self, family: &ColumnFamily, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_expiring(family, key, value, 0)
    }

    /// Sets `key` to `value` until `expires_at`, in seconds since 1970; 0 or less means for ever.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_expiring(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        value: &[u8],
        expires_at: i64,
    ) -> Result<()> {
        check_value(value)?;
        let expires_at = expires_at.max(0);
        if self.spills(family, value.len()) {
            return self.put_long(family, key, value, expires_at);
        }
        self.write(
            family,
            &Op {
                kind: EntryKind::Put,
                key,
                value,
                expires_at,
            },
        )
    }

    /// Deletes `key`. Deleting what is not there succeeds.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.write(
            family,
            &Op {
                kind: EntryKind::Delete,
                key,
                value: &[],
                expires_at: 0,
            },
        )
    }

    pub(super) fn write(&mut self, family: &ColumnFamily, op: &Op<'_>) -> Result<()> {
        self.check_active()?;
        self.engine.check_writable()?;
        self.engine.check_family(&family.family)?;
        check_key(op.key)?;
        self.make_room(op.key.len() + op.value.len() + OP_BYTES)?;
        self.writes.push(&family.family, op)
    }

    /// Refuses `bytes` more of writes when they would exceed the limit that they share with what is remembered of reads.
    pub(super) fn make_room(&mut self, bytes: usize) -> Result<()> {
        let written = self.writes.bytes() + bytes;
        let limit = self.engine.transaction_bytes_max();
        let read = match &self.reads {
            Some(reads) => reads.with(|reads| {
                if reads.bytes().saturating_add(written) <= limit {
                    reads.set_limit(limit, written);
                }
                reads.bytes()
            }),
            None => 0,
        };
        let held = written.saturating_add(read);
        if held > limit {
            return Err(over_limit(limit));
        }
        self.holding.admit(&self.engine, held)?;
        self.holding.note(&self.engine, held, &self.writes);
        Ok(())
    }

    /// Operations written so far.
    #[must_use]
    pub fn operation_count(&self) -> usize {
        self.writes.op_count()
    }
}
