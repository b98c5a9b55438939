//! Prepared transactions: what is kept of one, and which names are taken.
//!
//! Everything is made from the prepare record, by the transaction that prepares as by recovery, so that both give the
//! same locks and the same commit. The record is kept as it goes into the log, ready to be copied forward.
//!
//! A name (xid) is used once. [`PreparedNames`] knows the names that are prepared and those that were ended in this
//! opening or, as the log told at its beginning, before; of the latter the 128-bit hash is kept until the database is
//! closed. So within that span the answer is exact, but for two names of one hash, of which the second is refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use kingtide_base::{EntryKind, FamilyId, Lsn, SeqNo, StorageResult, ValuePointer, xid_hash};
use kingtide_collections::{Account, Charge, MemoryBudget};
use kingtide_env::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};
use kingtide_format::{Control, Lock, Op, RecordFault, RecordReader, split_control};

use super::{
    lock_table::RecordPlace,
    locks::{LockMode, LockSet, deleted_range},
    write_set::WriteSet,
};
use crate::{
    error::{Error, ErrorKind, Result},
    family::Family,
    spill::Spilled,
    wal::{Blank, HEADROOM_BYTES, RecordFrames, Tail},
};

/// A prepare record as it goes into the log.
#[derive(Debug)]
pub(super) struct PreparedRecord {
    /// [`HEADROOM_BYTES`] free bytes, then the record.
    pub(super) buffer: Vec<u8>,
    pub(super) frames: RecordFrames,
}

/// One prepared transaction.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Its name.
    pub(crate) xid: Box<[u8]>,
    /// Its isolation level, as the record numbers it.
    pub(crate) isolation: u8,
    /// When it was prepared, in Unix microseconds.
    pub(crate) prepared_at: u64,
    /// Operations that its commit will apply.
    pub(crate) operation_count: usize,
    /// Bytes of the prepare record in the log.
    pub(crate) record_bytes: u64,
    /// The families that its commit will write to.
    pub(crate) families: Vec<Arc<Family>>,
    pub(super) locks: LockSet,
    pub(super) record: Mutex<PreparedRecord>,
    /// What it takes of the memory budget.
    charge: OnceLock<Charge>,
    /// Where the values of spilled puts are, as the record says.
    pub(crate) pointers: Vec<ValuePointer>,
    /// These values, once they are held.
    spilled: OnceLock<Vec<Arc<Spilled>>>,
    /// Its slot in the lock table. Written and read under the commit lock.
    slot: AtomicU32,
}

/// Why a prepare record was refused.
#[derive(Debug)]
pub(crate) enum PreparedFault {
    /// The record is malformed.
    Record(RecordFault),
    /// It is not the record of a prepare.
    NotAPrepare,
    /// There is no family of this id.
    Family(FamilyId),
    /// A spilled put without its pointer.
    Pointer,
}

impl From<RecordFault> for PreparedFault {
    fn from(fault: RecordFault) -> Self {
        Self::Record(fault)
    }
}

impl std::fmt::Display for PreparedFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Record(fault) => write!(f, "a prepare record: {fault}"),
            Self::Pointer => f.write_str("a prepare record with a spilled put without its pointer"),
            Self::NotAPrepare => f.write_str("a prepare record without its head"),
            Self::Family(id) => write!(
                f,
                "a prepared transaction on column family id {id}, which does not exist"
            ),
        }
    }
}

/// The family of an id.
pub(crate) type FamilyOf<'a> = dyn Fn(FamilyId) -> Option<Arc<Family>> + 'a;

impl Prepared {
    /// The transaction of a prepare record; `buffer` is the record behind [`HEADROOM_BYTES`] free bytes.
    ///
    /// # Errors
    /// [`PreparedFault`], for records that this version did not write.
    pub(crate) fn decode(
        buffer: Vec<u8>,
        family_of: &FamilyOf<'_>,
    ) -> std::result::Result<Self, PreparedFault> {
        let payload = buffer.get(HEADROOM_BYTES..).unwrap_or_default();
        let (control, sections) = split_control(payload)?;
        let Some(Control::Prepare(head)) = control else {
            return Err(PreparedFault::NotAPrepare);
        };
        let find = |id: FamilyId| family_of(id).ok_or(PreparedFault::Family(id));
        let mut locks = LockSet::default();
        for section in head.locks {
            let (id, held) = section?;
            let family = find(id)?;
            for lock in held {
                add_lock(&mut locks, &family, &lock?);
            }
        }
        let mut operation_count = 0;
        let mut families = Vec::new();
        let mut pointers = Vec::new();
        for section in RecordReader::new(sections) {
            let section = section?;
            let family = find(section.family)?;
            for op in section.ops {
                let op = op?;
                if op.kind == EntryKind::PutSpilled {
                    let pointer = ValuePointer::decode(op.value);
                    pointers.push(pointer.ok_or(PreparedFault::Pointer)?);
                }
                add_write(&mut locks, &family, &op);
            }
            operation_count += section.op_count as usize;
            families.push(family);
        }
        locks.seal();
        let (xid, isolation, prepared_at) = (head.xid.into(), head.isolation, head.prepared_at);
        let mut frames = RecordFrames::default();
        frames.prepare(&buffer, HEADROOM_BYTES..buffer.len());
        Ok(Self {
            xid,
            isolation,
            prepared_at,
            operation_count,
            record_bytes: frames.bytes(),
            families,
            locks,
            record: Mutex::new(PreparedRecord { buffer, frames }),
            charge: OnceLock::new(),
            pointers,
            spilled: OnceLock::new(),
            slot: AtomicU32::new(u32::MAX),
        })
    }

    /// Counts its memory in `budget`, from now to its end. Its locks take about as much as its record.
    pub(crate) fn count_in(&self, budget: &Arc<MemoryBudget>) {
        let bytes = 2 * self.record.lock().buffer.capacity();
        // It is counted once.
        let _ = self.charge.set(budget.charge(Account::Transactions, bytes));
    }

    /// Holds the spilled values that it points to, all of them, from now to its end.
    pub(crate) fn hold(&self, spilled: Vec<Arc<Spilled>>) {
        // They are held once.
        let _ = self.spilled.set(spilled);
    }

    /// Its record is in no log, or its end is durable: the spilled values go when nobody holds them.
    pub(crate) fn unpin_spilled(&self) {
        self.spilled().iter().for_each(|value| value.unpin());
    }

    fn spilled(&self) -> &[Arc<Spilled>] {
        self.spilled.get().map_or(&[], Vec::as_slice)
    }

    /// Puts the operations into `writes`, which then ends this transaction when it is committed.
    ///
    /// # Errors
    /// `TooLarge` when they are more than one transaction may hold.
    pub(crate) fn write_to(self: &Arc<Self>, writes: &mut WriteSet) -> Result<()> {
        let record = self.record.lock();
        let broken = |fault: RecordFault| {
            Error::new(
                ErrorKind::ReopenRequired,
                format!("a prepared record in memory: {fault}"),
            )
        };
        let (_, sections) = split_control(&record.buffer[HEADROOM_BYTES..]).map_err(broken)?;
        for (section, family) in RecordReader::new(sections).zip(&self.families) {
            for op in section.map_err(broken)?.ops {
                let op = op.map_err(broken)?;
                if op.kind != EntryKind::PutSpilled {
                    writes.push(family, &op)?;
                    continue;
                }
                let pointer = ValuePointer::decode(op.value);
                let mut held = self.spilled().iter();
                let value = held.find(|value| Some(*value.pointer()) == pointer);
                let value = value.ok_or_else(|| broken(RecordFault::Control))?;
                writes.push_spilled(family, &op, Arc::clone(value))?;
            }
        }
        drop(record);
        writes.end(Arc::clone(self));
        Ok(())
    }

    /// Appends the record to a log that nobody writes to yet, adding blanks that `make_blank` makes.
    ///
    /// # Errors
    /// What the log and `make_blank` answer.
    pub(crate) fn append_to(
        &self,
        tail: &mut Tail,
        (sequence, durable): (SeqNo, Lsn),
        make_blank: &mut dyn FnMut(u64) -> StorageResult<Blank>,
    ) -> StorageResult<RecordPlace> {
        let mut record = self.record.lock();
        let PreparedRecord { buffer, frames } = &mut *record;
        while !tail.has_room(frames) {
            tail.add_blank(make_blank(tail.next_blank_bytes(Some(frames)))?);
        }
        let place = RecordPlace {
            segment: tail.segment(),
            start: tail.position(),
        };
        tail.append(buffer, frames, sequence, durable)?;
        Ok(place)
    }

    /// Every family in which it holds something.
    pub(crate) fn locked_families(&self) -> impl Iterator<Item = &Arc<Family>> {
        self.locks.families().iter().map(|locks| &locks.family)
    }

    pub(super) fn slot(&self) -> u32 {
        // Relaxed: guarded by the commit lock.
        self.slot.load(Ordering::Relaxed)
    }

    pub(super) fn set_slot(&self, slot: u32) {
        self.slot.store(slot, Ordering::Relaxed);
    }
}

fn add_lock(locks: &mut LockSet, family: &Arc<Family>, lock: &Lock<'_>) {
    match *lock {
        Lock::ForUpdate(key) => locks.add_point(family, LockMode::Exclusive, key),
        Lock::Read(key) => locks.add_point(family, LockMode::Shared, key),
        Lock::ReadRange(lower, upper) => {
            locks.add_range(family, LockMode::Shared, (lower, upper));
        }
    }
}

fn add_write(locks: &mut LockSet, family: &Arc<Family>, op: &Op<'_>) {
    if op.kind == EntryKind::RangeDelete {
        let range = deleted_range(op.key, op.value);
        locks.add_range(family, LockMode::Exclusive, range);
    } else {
        locks.add_point(family, LockMode::Exclusive, op.key);
    }
}

/// Where a name stands.
#[derive(Debug)]
enum Named {
    /// A prepare is under way, or its sync has failed.
    Preparing,
    /// It waits for its outcome.
    Prepared(Arc<Prepared>),
    /// Its outcome is being written.
    Ending(Arc<Prepared>),
}

#[derive(Debug, Default)]
struct Names {
    open: BTreeMap<Box<[u8]>, Named>,
    ended: BTreeSet<u128>,
}

/// The names of prepared transactions. Its lock is never held together with another one.
#[derive(Debug, Default)]
pub(crate) struct PreparedNames {
    names: Mutex<Names>,
    /// Prepared names that have no outcome yet; a statistic.
    count: AtomicUsize,
    /// Held over the ordered step of a prepare, and while a family is dropped, so that neither misses the other. Taken
    /// before the commit lock, after the manifest's.
    changing: Mutex<()>,
    /// Held by whoever copies prepare records forward.
    pub(super) copying: Mutex<()>,
}

impl PreparedNames {
    /// The names at the beginning of an opening.
    pub(crate) fn new(open: &[Arc<Prepared>], ended: BTreeSet<u128>) -> Self {
        let named = |prepared: &Arc<Prepared>| {
            (prepared.xid.clone(), Named::Prepared(Arc::clone(prepared)))
        };
        Self {
            count: AtomicUsize::new(open.len()),
            names: Mutex::new(Names {
                open: open.iter().map(named).collect(),
                ended,
            }),
            changing: Mutex::new(()),
            copying: Mutex::new(()),
        }
    }

    /// Keeps prepares and drops of families apart.
    pub(crate) fn hold_changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Takes a name for a prepare.
    ///
    /// # Errors
    /// `AlreadyExists` when it is or was in use.
    pub(super) fn take(&self, xid: &[u8]) -> Result<()> {
        let mut names = self.names.lock();
        let state = match names.open.get(xid) {
            Some(_) => "prepared",
            None if names.ended.contains(&xid_hash(xid)) => "ended",
            None => {
                names.open.insert(xid.into(), Named::Preparing);
                return Ok(());
            }
        };
        drop(names);
        Err(Error::new(
            ErrorKind::AlreadyExists,
            format!(
                "a transaction \"{}\" is {state} already: an xid is used once",
                xid.escape_ascii()
            ),
        ))
    }

    /// Gives back the name of a prepare that wrote nothing.
    pub(super) fn give_back(&self, xid: &[u8]) {
        self.names.lock().open.remove(xid);
    }

    /// The prepare is done: the name waits for its outcome.
    pub(super) fn set_prepared(&self, prepared: Arc<Prepared>) {
        self.names
            .lock()
            .open
            .insert(prepared.xid.clone(), Named::Prepared(prepared));
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Claims a prepared transaction for its outcome; [`PreparedNames::unclaim`] or [`PreparedNames::set_ended`] follow.
    ///
    /// # Errors
    /// `NotFound`; `Busy` while another call prepares or ends it.
    pub(super) fn claim(&self, xid: &[u8]) -> Result<Arc<Prepared>> {
        let mut names = self.names.lock();
        match names.open.get_mut(xid) {
            Some(named) => match named {
                Named::Prepared(prepared) => {
                    let prepared = Arc::clone(prepared);
                    *named = Named::Ending(Arc::clone(&prepared));
                    Ok(prepared)
                }
                Named::Preparing | Named::Ending(_) => Err(Error::new(
                    ErrorKind::Busy,
                    format!(
                        "another call prepares or ends the transaction \"{}\" at the moment",
                        xid.escape_ascii()
                    ),
                )),
            },
            None => Err(Error::new(
                ErrorKind::NotFound,
                format!("no transaction \"{}\" is prepared", xid.escape_ascii()),
            )),
        }
    }

    /// The outcome could not be written: it is prepared as before.
    pub(super) fn unclaim(&self, prepared: &Arc<Prepared>) {
        self.names
            .lock()
            .open
            .insert(prepared.xid.clone(), Named::Prepared(Arc::clone(prepared)));
    }

    /// The outcome is in the log.
    pub(super) fn set_ended(&self, prepared: &Prepared) {
        let mut names = self.names.lock();
        names.open.remove(&prepared.xid);
        names.ended.insert(xid_hash(&prepared.xid));
        drop(names);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The transactions that wait for their outcome, by name.
    pub(crate) fn list(&self) -> Vec<Arc<Prepared>> {
        let names = self.names.lock();
        names
            .open
            .values()
            .filter_map(|named| match named {
                Named::Preparing => None,
                Named::Prepared(prepared) | Named::Ending(prepared) => Some(Arc::clone(prepared)),
            })
            .collect()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        // Relaxed: a statistic.
        self.count.load(Ordering::Relaxed)
    }
}
