//! Records of two-phase commit: a *control section* in front of a record's sections says that the record prepares a
//! transaction, commits a prepared one or rolls one back. The page is docs/formats/wal.md.
//!
//! ```text
//! control = varint 0xffff_ffff (no family has this id) | varint 0 | varint bytes of body | body
//! body    = u8 what | u8 bytes of xid | xid
//!         | for a prepare: u8 isolation level | u64 prepared at, Unix microseconds | lock section*
//! lock section = varint family | varint lock count | varint bytes of locks | lock*
//! lock    = u8 what | key: varint bytes and bytes | (ranges) lower, then upper end, each as a key when there is one
//! ```
//!
//! Readers that know no control sections see a section whose count of operations contradicts its bytes, and report
//! corruption: they never take a prepared transaction for a commit, nor its outcome for nothing.
//!
//! The locks are what the operations do not tell: what was read at serializable, and keys read for update. Written keys
//! and ranges are locked because they are written. Readers are total, as in `record`.

use std::ops::Bound;

use kingtide_base::{ByteReader, FamilyId, write_bytes, write_varint};

use crate::RecordFault;

/// The id in place of a family's in front of a control section.
pub const CONTROL_FAMILY: FamilyId = FamilyId(u32::MAX);
/// The longest name of a prepared transaction (xid), in bytes: a global and a branch part of 64 bytes each.
pub const XID_BYTES_MAX: usize = 128;

const PREPARE: u8 = 1;
const COMMIT: u8 = 2;
const ROLLBACK: u8 = 3;

const LOCK_KIND_MASK: u8 = 0x0f;
const LOWER_SHIFT: u32 = 4;
const UPPER_SHIFT: u32 = 6;
const FOR_UPDATE: u8 = 1;
const READ_POINT: u8 = 2;
const READ_RANGE: u8 = 3;
/// Kind, and a key or nothing.
const LOCK_BYTES_MIN: u64 = 1;

/// What a record does besides holding operations.
#[derive(Clone, Debug)]
pub enum Control<'a> {
    /// The operations are not committed yet: they wait for the outcome under this name.
    Prepare(Prepare<'a>),
    /// The operations are committed, and end the prepared transaction of this name.
    Commit(&'a [u8]),
    /// Ends the prepared transaction of this name; there are no operations.
    Rollback(&'a [u8]),
}

/// The head of a prepare record.
#[derive(Clone, Debug)]
pub struct Prepare<'a> {
    /// The name; 1 to [`XID_BYTES_MAX`] bytes.
    pub xid: &'a [u8],
    /// The isolation level of the transaction, as families' settings number it.
    pub isolation: u8,
    /// When it was prepared, in Unix microseconds.
    pub prepared_at: u64,
    /// What is locked besides written keys.
    pub locks: LockSections<'a>,
}

/// Something that others may not write (or, for update, not even read at serializable) until the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock<'a> {
    /// A key that counts as written.
    ForUpdate(&'a [u8]),
    /// A key that was read.
    Read(&'a [u8]),
    /// A range that was read.
    ReadRange(Bound<&'a [u8]>, Bound<&'a [u8]>),
}

/// Appends the control section of a prepare record. `locks` are lock sections: [`write_lock_section`].
pub fn write_prepare(
    target: &mut Vec<u8>,
    xid: &[u8],
    (isolation, prepared_at): (u8, u64),
    locks: &[u8],
) {
    let mut head = named(PREPARE, xid);
    head.push(isolation);
    head.extend_from_slice(&prepared_at.to_le_bytes());
    write_head(target, head.len() + locks.len());
    target.extend_from_slice(&head);
    target.extend_from_slice(locks);
}

/// Appends the control section of a commit of the prepared transaction `xid`; its operations must follow.
pub fn write_prepared_commit(target: &mut Vec<u8>, xid: &[u8]) {
    let body = named(COMMIT, xid);
    write_head(target, body.len());
    target.extend_from_slice(&body);
}

/// Appends the control section that rolls the prepared transaction `xid` back; nothing must follow.
pub fn write_prepared_rollback(target: &mut Vec<u8>, xid: &[u8]) {
    let body = named(ROLLBACK, xid);
    write_head(target, body.len());
    target.extend_from_slice(&body);
}

fn named(what: u8, xid: &[u8]) -> Vec<u8> {
    debug_assert!(!xid.is_empty() && xid.len() <= XID_BYTES_MAX);
    let mut body = Vec::with_capacity(11 + xid.len());
    body.extend_from_slice(&[what, xid.len() as u8]);
    body.extend_from_slice(xid);
    body
}

fn write_head(target: &mut Vec<u8>, body_bytes: usize) {
    write_varint(target, u64::from(CONTROL_FAMILY.0));
    write_varint(target, 0);
    write_varint(target, body_bytes as u64);
}

/// Appends the locks of one family, `count` of them, written by [`write_lock`].
pub fn write_lock_section(target: &mut Vec<u8>, family: FamilyId, count: u32, locks: &[u8]) {
    write_varint(target, u64::from(family.0));
    write_varint(target, u64::from(count));
    write_bytes(target, locks);
}

/// Appends one lock.
pub fn write_lock(target: &mut Vec<u8>, lock: &Lock<'_>) {
    match lock {
        Lock::ForUpdate(key) => {
            target.push(FOR_UPDATE);
            write_bytes(target, key);
        }
        Lock::Read(key) => {
            target.push(READ_POINT);
            write_bytes(target, key);
        }
        Lock::ReadRange(lower, upper) => {
            let code = |bound: &Bound<&[u8]>| match bound {
                Bound::Unbounded => 0_u8,
                Bound::Included(_) => 1,
                Bound::Excluded(_) => 2,
            };
            target.push(READ_RANGE | code(lower) << LOWER_SHIFT | code(upper) << UPPER_SHIFT);
            for bound in [lower, upper] {
                if let Bound::Included(key) | Bound::Excluded(key) = bound {
                    write_bytes(target, key);
                }
            }
        }
    }
}

/// Splits a record into its control section, if it begins with one, and the sections behind it.
///
/// # Errors
/// [`RecordFault`] when the control section is malformed.
pub fn split_control(payload: &[u8]) -> Result<(Option<Control<'_>>, &[u8]), RecordFault> {
    let mut reader = ByteReader::new(payload);
    if payload.is_empty() || reader.varint()? != u64::from(CONTROL_FAMILY.0) {
        return Ok((None, payload));
    }
    if reader.varint()? != 0 {
        return Err(RecordFault::Control);
    }
    let body = reader.bytes(reader.rest().len())?;
    let rest = reader.rest();
    let mut body = ByteReader::new(body);
    let what = body.u8()?;
    let xid_bytes = usize::from(body.u8()?);
    if xid_bytes == 0 || xid_bytes > XID_BYTES_MAX {
        return Err(RecordFault::Control);
    }
    let xid = body.take(xid_bytes)?;
    let control = match what {
        PREPARE => Control::Prepare(Prepare {
            xid,
            isolation: body.u8()?,
            prepared_at: body.u64()?,
            locks: LockSections {
                reader: body,
                failed: false,
            },
        }),
        COMMIT if body.is_empty() => Control::Commit(xid),
        ROLLBACK if body.is_empty() && rest.is_empty() => Control::Rollback(xid),
        _ => return Err(RecordFault::Control),
    };
    Ok((Some(control), rest))
}

/// Walks the lock sections of a prepare record: family and locks. Ends after the first fault.
#[derive(Clone, Debug)]
pub struct LockSections<'a> {
    reader: ByteReader<'a>,
    failed: bool,
}

impl<'a> LockSections<'a> {
    /// What has not been read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    fn section(&mut self) -> Result<(FamilyId, LockReader<'a>), RecordFault> {
        let id = self.reader.varint()?;
        let family = u32::try_from(id).map_err(|_| RecordFault::Family(id))?;
        let count = self.reader.varint()?;
        let bytes = self.reader.bytes(self.reader.rest().len())?;
        if family == CONTROL_FAMILY.0 {
            return Err(RecordFault::Family(id));
        }
        if count > bytes.len() as u64 / LOCK_BYTES_MIN {
            return Err(RecordFault::Count);
        }
        let locks = LockReader {
            reader: ByteReader::new(bytes),
            rest_count: count,
        };
        Ok((FamilyId(family), locks))
    }
}

impl<'a> Iterator for LockSections<'a> {
    type Item = Result<(FamilyId, LockReader<'a>), RecordFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.reader.is_empty() {
            return None;
        }
        let section = self.section();
        self.failed = section.is_err();
        Some(section)
    }
}

/// Walks the locks of one family. Ends after the first fault; a count that does not agree with the bytes is one.
#[derive(Clone, Debug)]
pub struct LockReader<'a> {
    reader: ByteReader<'a>,
    rest_count: u64,
}

impl<'a> LockReader<'a> {
    fn lock(&mut self) -> Result<Lock<'a>, RecordFault> {
        if self.rest_count == 0 || self.reader.is_empty() {
            return Err(RecordFault::Count);
        }
        self.rest_count -= 1;
        let first = self.reader.u8()?;
        match (first & LOCK_KIND_MASK, first & !LOCK_KIND_MASK) {
            (FOR_UPDATE, 0) => Ok(Lock::ForUpdate(self.key()?)),
            (READ_POINT, 0) => Ok(Lock::Read(self.key()?)),
            (READ_RANGE, _) => {
                let lower = self.bound(first >> LOWER_SHIFT & 3)?;
                let upper = self.bound(first >> UPPER_SHIFT & 3)?;
                Ok(Lock::ReadRange(lower, upper))
            }
            _ => Err(RecordFault::Control),
        }
    }

    fn key(&mut self) -> Result<&'a [u8], RecordFault> {
        let key = self.reader.bytes(self.reader.rest().len())?;
        if key.is_empty() {
            return Err(RecordFault::EmptyKey);
        }
        Ok(key)
    }

    fn bound(&mut self, code: u8) -> Result<Bound<&'a [u8]>, RecordFault> {
        let limit = self.reader.rest().len();
        match code {
            0 => Ok(Bound::Unbounded),
            1 => Ok(Bound::Included(self.reader.bytes(limit)?)),
            2 => Ok(Bound::Excluded(self.reader.bytes(limit)?)),
            _ => Err(RecordFault::Control),
        }
    }
}

impl<'a> Iterator for LockReader<'a> {
    type Item = Result<Lock<'a>, RecordFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest_count == 0 && self.reader.is_empty() {
            return None;
        }
        let lock = self.lock();
        if lock.is_err() {
            self.rest_count = 0;
            self.reader = ByteReader::new(&[]);
        }
        Some(lock)
    }
}

#[cfg(test)]
mod tests;
