//! Walking one source of a memtable.

use std::sync::Arc;

use kingtide_base::{
    Cursor, EntryKind, SeqNo, StorageError, StorageResult, ValuePointer, ValueRef,
};

use crate::{
    arena::{ArenaEntry, EntryOffset},
    packed::unpack_value,
    skip_list::SkipList,
    sorted_run::SortedRun,
};

use super::{Memtable, sources::Source};

/// A cursor over `source`, which belongs to `memtable` and is kept alive.
pub(super) fn open(memtable: Arc<Memtable>, source: &Source) -> Box<dyn Cursor> {
    match source {
        Source::Run(run) => Box::new(SourceCursor::new(memtable, RunWalk(Arc::clone(run)))),
        Source::List(list) => Box::new(SourceCursor::new(memtable, ListWalk(Arc::clone(list)))),
    }
}

/// How many entries ahead of the walk a run fetches: entries that are neighbours in a run lie anywhere in the arena.
const PREFETCH_ENTRIES: usize = 6;

/// Positions of a source; 0 is "nowhere".
trait Walk: Send {
    fn first(&self) -> usize;
    fn last(&self) -> usize;
    fn seek(&self, key: &[u8], memtable: &Memtable) -> usize;
    fn seek_for_previous(&self, key: &[u8], memtable: &Memtable) -> usize;
    fn next(&self, position: usize, memtable: &Memtable) -> usize;
    fn previous(&self, position: usize, memtable: &Memtable) -> usize;
    fn offset(&self, position: usize) -> EntryOffset;
}

/// The position of the entry with index i is i + 1.
struct RunWalk(Arc<SortedRun>);

impl RunWalk {
    fn position(&self, index: usize) -> usize {
        if index < self.0.len() { index + 1 } else { 0 }
    }
}

impl Walk for RunWalk {
    fn first(&self) -> usize {
        self.position(0)
    }

    fn last(&self) -> usize {
        self.0.len()
    }

    fn seek(&self, key: &[u8], memtable: &Memtable) -> usize {
        self.position(self.0.lower_bound(key, &memtable.arena, &memtable.order))
    }

    fn seek_for_previous(&self, key: &[u8], memtable: &Memtable) -> usize {
        self.0.upper_bound(key, &memtable.arena, &memtable.order)
    }

    fn next(&self, position: usize, memtable: &Memtable) -> usize {
        memtable
            .arena
            .prefetch_entry(self.0.offset(position + PREFETCH_ENTRIES));
        self.position(position)
    }

    fn previous(&self, position: usize, memtable: &Memtable) -> usize {
        memtable
            .arena
            .prefetch(self.0.offset(position.saturating_sub(PREFETCH_ENTRIES)));
        position - 1
    }

    fn offset(&self, position: usize) -> EntryOffset {
        self.0.offset(position - 1)
    }
}

/// Positions are nodes.
struct ListWalk(Arc<SkipList>);

impl Walk for ListWalk {
    fn first(&self) -> usize {
        self.0.first() as usize
    }

    fn last(&self) -> usize {
        self.0.last() as usize
    }

    fn seek(&self, key: &[u8], memtable: &Memtable) -> usize {
        self.0.seek(key, &memtable.arena, &memtable.order) as usize
    }

    fn seek_for_previous(&self, key: &[u8], memtable: &Memtable) -> usize {
        self.0
            .seek_for_previous(key, &memtable.arena, &memtable.order) as usize
    }

    fn next(&self, position: usize, memtable: &Memtable) -> usize {
        let next = self.0.next(position as u32);
        // One ahead: between two steps in one list, a merge takes steps in others.
        let ahead = self.0.offset(self.0.next(next));
        memtable.arena.prefetch_entry(ahead);
        next as usize
    }

    fn previous(&self, position: usize, memtable: &Memtable) -> usize {
        self.0
            .previous(position as u32, &memtable.arena, &memtable.order) as usize
    }

    fn offset(&self, position: usize) -> EntryOffset {
        self.0.offset(position as u32)
    }
}

struct SourceCursor<W> {
    memtable: Arc<Memtable>,
    walk: W,
    /// 0 while the cursor is invalid.
    position: usize,
    /// The entry at the position.
    offset: EntryOffset,
    /// Its value, if it was asked for and is packed.
    unpacked: Vec<u8>,
}

impl<W: Walk> SourceCursor<W> {
    fn new(memtable: Arc<Memtable>, walk: W) -> Self {
        Self {
            memtable,
            walk,
            position: 0,
            offset: EntryOffset::NONE,
            unpacked: Vec::new(),
        }
    }

    fn go(&mut self, position: usize) -> StorageResult<()> {
        self.position = position;
        self.offset = if position == 0 {
            EntryOffset::NONE
        } else {
            self.walk.offset(position)
        };
        Ok(())
    }

    fn entry(&self) -> Option<ArenaEntry<'_>> {
        self.memtable.arena.entry(self.offset)
    }
}

impl<W: Walk> Cursor for SourceCursor<W> {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.go(self.walk.first())
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.go(self.walk.last())
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.go(self.walk.seek(key, &self.memtable))
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.go(self.walk.seek_for_previous(key, &self.memtable))
    }

    fn next(&mut self) -> StorageResult<()> {
        if self.position == 0 {
            return Ok(());
        }
        self.go(self.walk.next(self.position, &self.memtable))
    }

    fn prev(&mut self) -> StorageResult<()> {
        if self.position == 0 {
            return Ok(());
        }
        self.go(self.walk.previous(self.position, &self.memtable))
    }

    #[inline]
    fn is_valid(&self) -> bool {
        self.position != 0
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.memtable.arena.key(self.offset)
    }

    fn sequence(&self) -> SeqNo {
        self.memtable.arena.key_and_sequence(self.offset).1
    }

    fn kind(&self) -> EntryKind {
        self.entry()
            .map_or(EntryKind::Delete, |entry| shown_kind(entry.kind))
    }

    fn expires_at(&self) -> i64 {
        self.entry().map_or(0, |entry| entry.expires_at)
    }

    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        let entry = self.memtable.arena.entry(self.offset);
        let stored = entry.map_or((EntryKind::Delete, &[][..]), |entry| {
            (entry.kind, entry.value)
        });
        shown_value(stored, &mut self.unpacked)
    }
}

/// The kind, to whoever walks, of what a memtable or a transaction has as `kind`: a put is a put, wherever and however its value
/// is stored.
#[inline]
#[must_use]
pub fn shown_kind(kind: EntryKind) -> EntryKind {
    match kind {
        EntryKind::PutSpilled | EntryKind::PutPacked => EntryKind::Put,
        kind => kind,
    }
}

/// The value, to whoever walks, of what a memtable or a transaction has as `kind` and `value`; one that is packed is unpacked
/// into `unpacked`.
///
/// # Errors
/// `Corruption` when `value` is not what the kind asks for.
#[inline]
pub fn shown_value<'a>(
    (kind, value): (EntryKind, &'a [u8]),
    unpacked: &'a mut Vec<u8>,
) -> StorageResult<ValueRef<'a>> {
    match kind {
        EntryKind::PutSpilled => ValuePointer::decode(value)
            .map(ValueRef::Separated)
            .ok_or_else(|| StorageError::malformed("memory", 0, "malformed value pointer")),
        EntryKind::PutPacked => unpack_value(value, unpacked).map(ValueRef::Inline),
        _ => Ok(ValueRef::Inline(value)),
    }
}
