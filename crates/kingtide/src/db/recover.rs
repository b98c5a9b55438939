//! Replay of the log at open: commits that are not in tables yet go to memtables, and from there — when the database is
//! opened for writing — to tables that one manifest edit will install. Nothing is installed here.

mod two_phase;

use std::{collections::BTreeMap, sync::Arc};

use kingtide_base::{
    EntryKind, FamilyId, FileId, SeqNo, StorageError, StorageResult, ValuePointer,
};
use kingtide_collections::{
    Full, Memtable, MemtableOp, PreparedRun, entry_bytes, unpack_value, unpacked_value,
};
use kingtide_format::{Op, RecordReader, ValueFileMeta};
use kingtide_table::vlog_name;

use super::pending::Encoded;
use crate::{
    compaction::filter::VersionFilter,
    error::{Error, ErrorKind, Result},
    family::Family,
    files::Files,
    flush::write_memtable,
    memtable::{Memory, MemtableSource, surviving},
    output::{Output, discard_output},
    read::get::{check_logged_kind, pointer_in_memory},
    wal::Replay,
};

pub(super) use two_phase::TwoPhase;

/// What replay found for one family.
pub(super) struct Recovered {
    pub(super) family: Arc<Family>,
    /// Commits up to this one were in tables before.
    flushed_through: SeqNo,
    /// The newest commit that was replayed.
    pub(super) replayed_through: SeqNo,
    active: Arc<Memory>,
    /// Full memtables, oldest first, kept in memory by a read-only open.
    pub(super) sealed: Vec<Arc<Memory>>,
    /// Tables written from full memtables, oldest first.
    pub(super) outputs: Vec<Output>,
}

/// See the module.
pub(super) struct Recovery<'a> {
    files: &'a Files,
    memtables: &'a MemtableSource,
    is_read_only: bool,
    now: i64,
    families: BTreeMap<FamilyId, Recovered>,
    /// Deferred families, and the pending ones that take their commits.
    pending: BTreeMap<FamilyId, FamilyId>,
    /// The manifest never knew a family with this id, nor with a larger one.
    pub(super) next_family: FamilyId,
    /// Transactions that wait for their outcome.
    pub(super) two_phase: TwoPhase,
    /// The value files that the manifest names: those of spilled values are among them.
    pub(super) value_files: BTreeMap<FileId, ValueFileMeta>,
    /// An error that is not one of storage, kept while the replay unwinds.
    failure: Option<Error>,
}

impl<'a> Recovery<'a> {
    pub(super) fn new(
        files: &'a Files,
        memtables: &'a MemtableSource,
        is_read_only: bool,
        now: i64,
    ) -> Self {
        Self {
            files,
            memtables,
            is_read_only,
            now,
            families: BTreeMap::new(),
            pending: BTreeMap::new(),
            next_family: FamilyId(u32::MAX),
            two_phase: TwoPhase::default(),
            value_files: BTreeMap::new(),
            failure: None,
        }
    }

    /// Adds a family whose commits up to `flushed_through` are in tables.
    pub(super) fn add(&mut self, family: Arc<Family>, flushed_through: SeqNo) {
        let active = self.fresh(&family, 0, 0);
        let recovered = Recovered {
            flushed_through,
            replayed_through: flushed_through,
            active,
            sealed: Vec::new(),
            outputs: Vec::new(),
            family,
        };
        self.families.insert(recovered.family.id, recovered);
    }

    /// If `family` waits for its comparator, its commits go to its pending family.
    pub(super) fn keep_pending(&mut self, family: &Family) {
        if let Some(deferred) = family.deferred() {
            self.pending.insert(family.id, deferred.pending.id);
        }
    }

    fn fresh(&self, family: &Family, bytes: usize, entries: usize) -> Arc<Memory> {
        self.memtables.make(
            &family.order,
            family.options().write_buffer_bytes,
            bytes,
            entries,
        )
    }

    /// What became of a replay that answered `outcome`: its own error, or the one kept aside.
    pub(super) fn check<T>(&mut self, outcome: StorageResult<T>) -> Result<T> {
        match (outcome, self.failure.take()) {
            (_, Some(failure)) => Err(failure),
            (Ok(value), None) => Ok(value),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// Ends the replay: what is still in memtables is sealed, or written to tables.
    ///
    /// # Errors
    /// What writing answers; the files written so far are then removed again.
    pub(super) fn finish(mut self) -> Result<Vec<Recovered>> {
        let ids: Vec<FamilyId> = self.families.keys().copied().collect();
        for id in ids {
            let Some(mut recovered) = self.families.remove(&id) else {
                continue;
            };
            let outcome = self.seal(&mut recovered, 0, 0);
            self.families.insert(id, recovered);
            if let Err(error) = outcome {
                self.discard();
                return Err(error);
            }
        }
        Ok(self.families.into_values().collect())
    }

    /// The family of an id.
    pub(super) fn family(&self, id: FamilyId) -> Option<Arc<Family>> {
        self.families
            .get(&id)
            .map(|recovered| Arc::clone(&recovered.family))
    }

    /// Removes what was written.
    pub(super) fn discard(&self) {
        for output in self
            .families
            .values()
            .flat_map(|recovered| &recovered.outputs)
        {
            discard_output(self.files, output);
        }
    }

    /// Takes the active memtable out of the way, if it holds anything.
    fn seal(&self, recovered: &mut Recovered, bytes: usize, entries: usize) -> Result<()> {
        if !recovered.active.table.is_empty() {
            if self.is_read_only {
                recovered.sealed.push(Arc::clone(&recovered.active));
            } else {
                let family = &recovered.family;
                let is_bottom = family.load().version.is_empty() && recovered.outputs.is_empty();
                // No snapshot is older than this opening, and all of the log is visible in it.
                let boundaries = vec![SeqNo::MAX];
                let mut filter =
                    VersionFilter::new(family.order.clone(), boundaries, is_bottom, self.now);
                let memtable = &recovered.active.table;
                let current = family.load();
                let installed = current.version.tables().map(|(_, table)| &**table);
                let replayed = recovered.outputs.iter().flat_map(|output| &output.tables);
                let mut older = installed.chain(replayed);
                let mut output =
                    write_memtable(self.files, family, memtable, &mut filter, &mut older)?;
                // When they were written is not in the log.
                output.date_tombstones(self.now.unsigned_abs());
                recovered.outputs.push(output);
            }
        }
        recovered.active = self.fresh(&recovered.family, bytes, entries);
        Ok(())
    }

    /// Refuses a pointer to a spilled value whose file the manifest does not name: it named it before the log pointed to it.
    ///
    /// # Errors
    /// Corruption.
    pub(super) fn check_pointer(&self, pointer: &ValuePointer) -> Result<()> {
        let end = pointer
            .offset
            .saturating_add(u64::from(pointer.record_bytes));
        match self.value_files.get(&pointer.file) {
            Some(meta) if end <= meta.file_bytes => Ok(()),
            found => {
                let what = match found {
                    Some(_) => "the log points beyond the end of the file",
                    None => "the log points to the file, and the manifest does not name it",
                };
                let file = format!("vlog/{}", vlog_name(pointer.file));
                Err(StorageError::malformed(file, pointer.offset, what).into())
            }
        }
    }

    fn check_ops(&self, ops: &[Op<'_>]) -> Result<()> {
        let mut unpacked = Vec::new();
        for op in ops {
            check_logged_kind(op.kind)?;
            match op.kind {
                EntryKind::PutSpilled => self.check_pointer(&pointer_in_memory(op.value)?)?,
                EntryKind::PutPacked => {
                    unpack_value(op.value, &mut unpacked)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn apply(&self, recovered: &mut Recovered, sequence: SeqNo, ops: &[Op<'_>]) -> Result<()> {
        self.check_ops(ops)?;
        let bytes = ops
            .iter()
            .map(|op| entry_bytes(op.key.len(), op.value.len(), op.expires_at != 0))
            .sum();
        if !recovered.active.table.fits(bytes, ops.len()) {
            self.seal(recovered, bytes, ops.len())?;
        }
        insert(&recovered.active.table, sequence, ops).map_err(|_| {
            Error::new(
                ErrorKind::ReopenRequired,
                "a fresh memtable refused a replayed commit",
            )
        })?;
        let tombstones = ops.iter().filter(|op| op.kind.is_tombstone()).count();
        recovered.active.note_tombstones(tombstones as u64);
        recovered.replayed_through = recovered.replayed_through.max(sequence);
        Ok(())
    }

    /// Replays what one commit did to one family.
    ///
    /// # Errors
    /// What writing a full memtable to tables answers.
    pub(super) fn section(&mut self, sequence: SeqNo, id: FamilyId, ops: &[Op<'_>]) -> Result<()> {
        if let Some(pending) = self.pending.get(&id).copied() {
            return self.keep_aside(sequence, (id, pending), ops);
        }
        // A family that was dropped later: its records are passed over.
        let Some(mut recovered) = self.families.remove(&id) else {
            if id >= self.next_family {
                // Going on would remove the tables that the lost edits name.
                let what = format!(
                    "the log knows family {id}, which was never in the manifest: its last edits are lost"
                );
                return Err(StorageError::malformed("MANIFEST", 0, what).into());
            }
            return Ok(());
        };
        let outcome = if sequence > recovered.flushed_through {
            self.apply(&mut recovered, sequence, ops)
        } else {
            Ok(())
        };
        self.families.insert(id, recovered);
        outcome
    }

    /// A commit to a deferred family goes to its pending one.
    fn keep_aside(
        &mut self,
        sequence: SeqNo,
        (id, pending): (FamilyId, FamilyId),
        ops: &[Op<'_>],
    ) -> Result<()> {
        let flushed_through = match self.families.get(&id) {
            Some(recovered) => recovered.flushed_through,
            None => return Ok(()),
        };
        if sequence <= flushed_through {
            return Ok(());
        }
        self.check_ops(ops)?;
        let loaded = self.load_values(ops)?;
        let ops = in_place(ops, &loaded);
        if let Some(recovered) = self.families.get_mut(&id) {
            recovered.replayed_through = recovered.replayed_through.max(sequence);
        }
        let encoded = Encoded::new(sequence, &ops);
        self.section(sequence, pending, &encoded.ops(&ops))
    }

    /// The spilled and the packed values among `ops`, in their order. What is kept aside hides pointers, which would not keep
    /// their files, and goes into tables, which hold no packed puts.
    fn load_values(&self, ops: &[Op<'_>]) -> Result<Vec<Vec<u8>>> {
        let load = |op: &Op<'_>| match op.kind {
            EntryKind::PutSpilled => {
                let pointer = pointer_in_memory(op.value);
                // How the family identifies its keys is not known.
                Some(pointer.and_then(|pointer| Ok(self.files.values.read_of_any_key(&pointer)?)))
            }
            EntryKind::PutPacked => Some(unpacked_value(op.value).map_err(Error::from)),
            _ => None,
        };
        ops.iter().filter_map(load).collect()
    }
}

/// `ops` with the spilled and packed values, which are `loaded`, in their places.
fn in_place<'a>(ops: &[Op<'a>], loaded: &'a [Vec<u8>]) -> Vec<Op<'a>> {
    let mut loaded = loaded.iter();
    let place = |op: &Op<'a>| match op.kind {
        EntryKind::PutSpilled | EntryKind::PutPacked => Op {
            kind: EntryKind::Put,
            value: loaded.next().map_or(&[][..], Vec::as_slice),
            ..*op
        },
        _ => *op,
    };
    ops.iter().map(place).collect()
}

/// Puts the operations of one commit into a memtable, as the commit itself did.
fn insert(table: &Memtable, sequence: SeqNo, ops: &[Op<'_>]) -> std::result::Result<(), Full> {
    let order = table.order();
    let plain = ops.iter().map(|op| (op.kind, op.key, op.value));
    let left: Option<Vec<Op<'_>>> = surviving(order, plain).map(|indexes| {
        let left = indexes.into_iter().map(|index| ops[index as usize]);
        left.collect()
    });
    let points = left.as_deref().unwrap_or(ops);
    let run = PreparedRun::is_worth_it(order, points.len()).then(|| {
        PreparedRun::sort(order, points.len(), |index| {
            let op = &points[index as usize];
            (op.kind, op.key)
        })
    });
    let op_at = |place: usize| {
        let op = &points[place];
        MemtableOp {
            kind: op.kind,
            expires_at: op.expires_at,
            hash: order.hash(op.key).unwrap_or(0),
            key: op.key,
            value: op.value,
        }
    };
    table.insert(sequence, (points.len(), op_at), run)?;
    let ranges = ops.iter().filter(|op| op.kind == EntryKind::RangeDelete);
    table.delete_ranges(sequence, ranges.map(|op| (op.key, op.value)))
}

impl Replay for Recovery<'_> {
    fn record(&mut self, sequence: SeqNo, payload: &[u8], place: (&str, u64)) -> StorageResult<()> {
        let malformed = |what: String| StorageError::malformed(place.0, place.1, what);
        let sections = self
            .two_phase
            .note(payload, place)
            .map_err(|fault| malformed(format!("a record of two-phase commit: {fault}")))?;
        for section in RecordReader::new(sections) {
            let section =
                section.map_err(|fault| malformed(format!("a commit record: {fault}")))?;
            let mut ops = Vec::with_capacity(section.op_count as usize);
            for op in section.ops {
                ops.push(op.map_err(|fault| malformed(format!("an operation: {fault}")))?);
            }
            if let Err(error) = self.section(sequence, section.family, &ops) {
                self.failure = Some(error);
                return Err(malformed("the replay was given up".to_owned()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
