//! From operations to published entries.
//!
//! For a group of operations at a time: fetch the hash slots ahead, then for each operation find the key's slot, append
//! the entry (with the key's newest entry so far as `previous`), publish the entry, publish the slot. At the end the run
//! is published, or the entries are noted as loose (`loose`). Nothing but a list of loose entries that becomes longer than
//! ever, or a full array of sources, allocates; in orders without hashes, a full skip list too.
//!
//! Operations that do not fit are undone: slots get back what they held, in reverse order, and the entries stay as dead
//! bytes that nothing leads to. Callers ask [`Memtable::fits`] first, so this is not a path that is taken twice.

use std::sync::Arc;

use kingtide_base::{EntryKind, SeqNo};
use kingtide_env::sync::atomic::Ordering;

use crate::{
    arena::{ArenaWriter, EntryOffset, NewEntry},
    budget::Charge,
    hash_index::Probe,
    skip_list::SkipList,
    sorted_run::PreparedRun,
};

use super::{FIRST_LIST_ENTRIES, Full, Memtable, MemtableOp, sources::Source};

/// Operations whose hash slots are fetched ahead at a time.
const GROUP_OPERATIONS: usize = 16;

/// The budget is told of a memtable's growth in steps of so many bytes.
const CHARGE_STEP_BYTES: usize = 32 << 10;

/// What the one writer owns.
pub(super) struct Writer {
    pub(super) arena: ArenaWriter,
    /// The list that takes entries: the youngest of the sources that are lists.
    list: Arc<SkipList>,
    /// Entries that no source has, oldest first.
    pub(super) loose: Vec<EntryOffset>,
    /// The place of the last mark.
    pub(super) marked: EntryOffset,
    /// Bytes of the sources' indexes.
    pub(super) source_bytes: usize,
    /// What the memtable takes of the budget.
    charge: Charge,
}

impl Writer {
    pub(super) fn new(arena: ArenaWriter, list: Arc<SkipList>, charge: Charge) -> Self {
        Self {
            arena,
            loose: Vec::new(),
            marked: Memtable::START,
            source_bytes: list.memory_bytes(),
            list,
            charge,
        }
    }
}

impl Memtable {
    /// Inserts the operations of the commit `sequence`, which must not be smaller than that of an earlier insertion: so many,
    /// and `op_at` answers each by its number. A `run`, sorted over the keys of the same operations, makes them a source of
    /// their own, without those that it leaves out; without it they are sorted later, with others.
    ///
    /// # Errors
    /// [`Full`] when they do not fit (see [`Memtable::fits`]) or when the run is not of as many operations; nothing is
    /// inserted then, though bytes of the arena may be used up.
    pub fn insert<'a>(
        &self,
        sequence: SeqNo,
        (count, op_at): (usize, impl Fn(usize) -> MemtableOp<'a>),
        mut run: Option<PreparedRun>,
    ) -> Result<(), Full> {
        let mut writer = self.writer.lock();
        if count == 0 {
            return Ok(());
        }
        debug_assert!(sequence >= self.largest_sequence());
        if !self.fits(0, count) || run.as_ref().is_some_and(|run| run.made_of() != count) {
            return Err(Full);
        }
        let count = run.as_ref().map_or(count, PreparedRun::len);
        let start = writer.arena.tail();
        let loose_before = writer.loose.len();
        if run.is_none() && writer.loose.capacity() - loose_before < count {
            // As of lists, the first is small.
            let entries = match writer.loose.capacity() {
                0 => FIRST_LIST_ENTRIES,
                _ => self.list_entries,
            };
            writer.loose.reserve(entries.max(count));
        }
        let Writer { arena, loose, .. } = &mut *writer;
        let mut batch = Batch {
            memtable: self,
            arena,
            sequence,
            places: loose,
            inserted: 0,
        };
        let outcome = match run.as_mut().map(PreparedRun::parts) {
            Some((operations, offsets)) => {
                batch.places = offsets;
                batch.append_all(operations.iter().map(|number| op_at(*number as usize)))
            }
            None => batch.append_all((0..count).map(op_at)),
        };
        let inserted = batch.inserted;
        if outcome.is_err() || inserted != count {
            writer.loose.truncate(loose_before);
            self.undo(start, inserted);
            return Err(Full);
        }
        match run.map(PreparedRun::seal) {
            Some(Some(run)) => {
                writer.source_bytes += run.index_bytes();
                self.sources.append(Source::Run(run));
            }
            // Cannot be: every operation has its place.
            Some(None) => {
                self.undo(start, inserted);
                return Err(Full);
            }
            None if self.index.is_some() => self.loose.add(count),
            None => {
                let mut entries = std::mem::take(&mut writer.loose);
                self.insert_into_list(&mut writer, &entries);
                entries.clear();
                writer.loose = entries;
            }
        }
        self.marks.note(&mut writer.marked, sequence, start);
        self.count(sequence, count);
        self.account(&mut writer);
        Ok(())
    }

    /// Puts entries into the skip list, or into as many as it takes.
    pub(super) fn insert_into_list(&self, writer: &mut Writer, entries: &[EntryOffset]) {
        for offset in entries {
            if writer.list.is_full() {
                writer.list = Arc::new(SkipList::new(self.list_entries));
                writer.source_bytes += writer.list.memory_bytes();
                self.sources.append(Source::List(Arc::clone(&writer.list)));
            }
            let has_room = writer.list.insert(*offset, &self.arena, &self.order);
            debug_assert!(has_room);
        }
    }

    /// Takes the `count` entries from `start` on out of the hash index again.
    fn undo(&self, start: EntryOffset, count: usize) {
        let Some(index) = &self.index else { return };
        let mut entries = Vec::with_capacity(count);
        let mut offset = start;
        for _ in 0..count {
            let Some(entry) = self.arena.entry(offset) else {
                break;
            };
            offset = entry.following();
            entries.push(entry);
        }
        for entry in entries.into_iter().rev() {
            let Some(hash) = self.order.hash(entry.key) else {
                continue;
            };
            if let Some(probe) = index.published(hash, entry.offset, entry.previous) {
                index.undo(probe, hash);
            }
        }
    }

    /// Tells the budget what the memtable takes, once that has changed enough.
    pub(super) fn account(&self, writer: &mut Writer) {
        let bytes = self.bytes_taken(writer);
        writer.charge.follow(bytes, CHARGE_STEP_BYTES);
    }

    /// Accounts for a commit of `count` operations.
    pub(super) fn count(&self, sequence: SeqNo, count: usize) {
        // Relaxed: numbers for accounting, written only under the writer lock.
        let entries = self.entries.load(Ordering::Relaxed);
        if entries == 0 {
            self.sequence_smallest.store(sequence.0, Ordering::Relaxed);
        }
        self.sequence_largest.store(sequence.0, Ordering::Relaxed);
        self.entries.store(entries + count, Ordering::Relaxed);
    }
}

/// The insertion of one commit.
struct Batch<'b> {
    memtable: &'b Memtable,
    arena: &'b mut ArenaWriter,
    sequence: SeqNo,
    /// Are told where the entries are.
    places: &'b mut Vec<EntryOffset>,
    inserted: usize,
}

impl Batch<'_> {
    fn append_all<'a>(
        &mut self,
        mut ops: impl ExactSizeIterator<Item = MemtableOp<'a>>,
    ) -> Result<(), Full> {
        if ops.len() < GROUP_OPERATIONS / 4 {
            return ops.try_for_each(|op| self.append(&op));
        }
        const NOTHING: MemtableOp<'_> = MemtableOp {
            kind: EntryKind::Put,
            expires_at: 0,
            hash: 0,
            key: &[],
            value: &[],
        };
        let mut group = [NOTHING; GROUP_OPERATIONS];
        loop {
            let mut filled = 0;
            for (slot, op) in group.iter_mut().zip(&mut ops) {
                if let Some(index) = &self.memtable.index {
                    index.prefetch(op.hash);
                }
                *slot = op;
                filled += 1;
            }
            if filled == 0 {
                return Ok(());
            }
            let group = &group[..filled];
            if let Some(index) = &self.memtable.index {
                for op in group {
                    let guess = index.first_guess(op.hash);
                    if !guess.is_none() {
                        self.memtable.arena.prefetch(guess);
                    }
                }
            }
            group.iter().try_for_each(|op| self.append(op))?;
        }
    }

    #[inline]
    fn append(&mut self, op: &MemtableOp<'_>) -> Result<(), Full> {
        let memtable = self.memtable;
        let probe = match &memtable.index {
            Some(index) => Some(
                index
                    .probe(op.hash, op.key, &memtable.arena, &memtable.order)
                    .ok_or(Full)?,
            ),
            None => None,
        };
        let entry = NewEntry {
            sequence: self.sequence,
            previous: probe.map_or(EntryOffset::NONE, |probe: Probe| probe.newest),
            kind: op.kind,
            expires_at: op.expires_at,
            key: op.key,
            value: op.value,
        };
        let offset = self.arena.append(&entry).ok_or(Full)?;
        if let (Some(index), Some(probe)) = (&memtable.index, probe) {
            index.publish(probe, op.hash, offset);
        }
        self.places.push(offset);
        self.inserted += 1;
        Ok(())
    }
}
