//! The uncommitted operations of a transaction in one family, as a cursor.
//!
//! An iterator of a transaction merges this source with the committed ones. Every entry carries [`SeqNo::MAX`]: it
//! sorts before all committed versions of its key, and every snapshot sees it. Only the last operation on a key counts
//! within a transaction, so earlier ones are left out when the cursor is built. The cursor is a copy of the state at
//! that moment: operations that follow do not appear in it.

use std::{cmp::Ordering, ops::Range, sync::Arc};

use kingtide_base::{
    Cursor, EntryKind, Fragments, KeyOrder, RangeTombstone, SeqNo, StorageResult, ValueRef,
};
use kingtide_collections::{shown_kind, shown_value};

use crate::spill::Spilled;

/// The number of a transaction's own range deletes: above all commits, below its own writes that they did not remove.
pub(super) const OWN_RANGES: SeqNo = SeqNo(u64::MAX - 1);

/// One operation: what it does, and where its key and value lie in the buffer that the operations share.
#[derive(Clone, Debug)]
pub(crate) struct OwnWrite {
    /// What it does to the key.
    pub(crate) kind: EntryKind,
    /// When it expires, in Unix seconds; 0 means never.
    pub(crate) expires_at: i64,
    /// The key, in bytes of the buffer.
    pub(crate) key: Range<usize>,
    /// The value, in bytes of the buffer; empty for tombstones.
    pub(crate) value: Range<usize>,
}

/// A cursor over the operations, by key. Clones share the operations and are born invalid.
pub(crate) struct OwnWrites {
    order: KeyOrder,
    buffer: Arc<[u8]>,
    writes: Arc<[OwnWrite]>,
    ranges: Arc<Fragments>,
    /// The values that operations point to, kept for as long as the cursor.
    spilled: Arc<[Arc<Spilled>]>,
    /// Invalid when it is not an index of `writes`.
    index: usize,
    /// The value of that operation, if it was asked for and is packed.
    unpacked: Vec<u8>,
}

impl OwnWrites {
    /// A cursor over `writes`, which are given in the order in which they were made.
    ///
    /// # Panics
    /// When a range lies outside `buffer`: both come from the same transaction, whose buffer only grows.
    pub(crate) fn new(order: KeyOrder, buffer: Arc<[u8]>, mut writes: Vec<OwnWrite>) -> Self {
        for write in &writes {
            assert!(buffer.get(write.key.clone()).is_some());
            assert!(buffer.get(write.value.clone()).is_some());
        }
        // The sort is stable: of equal keys the later operation stays in front, and is the one that is kept.
        writes.reverse();
        writes.sort_by(|left, right| {
            order.compare(&buffer[left.key.clone()], &buffer[right.key.clone()])
        });
        writes.dedup_by(|later, first| {
            let (later, first) = (&buffer[later.key.clone()], &buffer[first.key.clone()]);
            order.compare(later, first) == Ordering::Equal
        });
        Self {
            order,
            buffer,
            writes: writes.into(),
            ranges: Arc::default(),
            spilled: Arc::default(),
            index: usize::MAX,
            unpacked: Vec::new(),
        }
    }

    /// The same, with the range deletes of the transaction: start and end (empty: no end) of each. What they cover of the
    /// operations was left out before.
    pub(crate) fn with_ranges<'a>(
        mut self,
        ranges: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Self {
        let tombstones = ranges.map(|(start, end)| RangeTombstone {
            start,
            end,
            sequence: OWN_RANGES,
        });
        self.ranges = Arc::new(Fragments::build(&self.order, tombstones, &[]));
        self
    }

    /// The same, which keeps the values that operations point to.
    pub(crate) fn holding(mut self, spilled: Vec<Arc<Spilled>>) -> Self {
        self.spilled = spilled.into();
        self
    }

    /// The range deletes of the transaction; they hide every committed version, and none of these operations.
    pub(crate) fn ranges(&self) -> &Arc<Fragments> {
        &self.ranges
    }

    /// The number of keys before the first that `is_before` refuses.
    fn count_before(&self, is_before: impl Fn(Ordering) -> bool, key: &[u8]) -> usize {
        self.writes.partition_point(|write| {
            is_before(self.order.compare(&self.buffer[write.key.clone()], key))
        })
    }

    fn bytes(&self, of: impl Fn(&OwnWrite) -> &Range<usize>) -> &[u8] {
        self.writes
            .get(self.index)
            .and_then(|write| self.buffer.get(of(write).clone()))
            .unwrap_or_default()
    }
}

impl Clone for OwnWrites {
    fn clone(&self) -> Self {
        Self {
            order: self.order.clone(),
            buffer: Arc::clone(&self.buffer),
            writes: Arc::clone(&self.writes),
            ranges: Arc::clone(&self.ranges),
            spilled: Arc::clone(&self.spilled),
            index: usize::MAX,
            unpacked: Vec::new(),
        }
    }
}

// An index before the first entry is `usize::MAX`: 0 - 1, wrapped, which is never an index.
impl Cursor for OwnWrites {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.index = 0;
        Ok(())
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.index = self.writes.len().wrapping_sub(1);
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.index = self.count_before(Ordering::is_lt, key);
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.index = self.count_before(Ordering::is_le, key).wrapping_sub(1);
        Ok(())
    }

    fn next(&mut self) -> StorageResult<()> {
        if self.is_valid() {
            self.index += 1;
        }
        Ok(())
    }

    fn prev(&mut self) -> StorageResult<()> {
        if self.is_valid() {
            self.index = self.index.wrapping_sub(1);
        }
        Ok(())
    }

    fn is_valid(&self) -> bool {
        self.index < self.writes.len()
    }

    fn key(&self) -> &[u8] {
        self.bytes(|write| &write.key)
    }

    fn sequence(&self) -> SeqNo {
        SeqNo::MAX
    }

    fn kind(&self) -> EntryKind {
        self.writes
            .get(self.index)
            .map_or(EntryKind::Delete, |write| shown_kind(write.kind))
    }

    fn expires_at(&self) -> i64 {
        self.writes
            .get(self.index)
            .map_or(0, |write| write.expires_at)
    }

    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        let Some(write) = self.writes.get(self.index) else {
            return Ok(ValueRef::Inline(&[]));
        };
        let value = self.buffer.get(write.value.clone()).unwrap_or_default();
        shown_value((write.kind, value), &mut self.unpacked)
    }
}
