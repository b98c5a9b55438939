//! Append-only bytes of a memtable: one writer, many readers without locks.
//!
//! An [`Arena`] is one fixed block of memory from the system. Its pages are touched when entries are appended, and an
//! [`ArenaPool`] keeps blocks whose pages have been touched, because the first touch of a page costs many times the copy
//! into it.
//!
//! Entry, little-endian, 8-byte aligned, addressed by [`EntryOffset`] in units of 8 bytes (0 = none, so the first entry
//! begins at byte 8):
//!
//! | bytes | field |
//! |---|---|
//! | 8 | sequence number |
//! | 4 | offset of the next older version of the same key, 0 = none |
//! | 4 | kind (8 bits), length of the key (24 bits) |
//! | 4 | length of the value |
//! | 4 | flags: 1 = an expiry follows |
//! | 0 or 8 | expiry in Unix seconds |
//! | ... | key, value, zeros up to a multiple of 8 |
//!
//! Invariants:
//! 1. Bytes below `published` are initialised and never change while the arena lives. The writer writes only at or
//!    above `published`, then moves it (Release); readers load it (Acquire) and look only below it.
//! 2. There is one [`ArenaWriter`] for an arena, so there is one writer.
//!
//! Reading is safe for any offset, also one that is not the begin of an entry: what is found there is checked against
//! the published length and may be nonsense, but is never outside it.
//!
//! It deliberately frees nothing before the whole arena goes.

mod pool;

use std::{fmt, ptr::NonNull, sync::Arc};

use kingtide_base::{EntryKind, SeqNo};
use kingtide_env::sync::atomic::{AtomicUsize, Ordering};

use crate::{budget::MemoryBudget, pages::PageSize};

pub(crate) use pool::ArenaMemory;
pub use pool::ArenaPool;

/// Entries begin at multiples of this many bytes.
const UNIT_BYTES: usize = 8;
/// Bytes of an entry before its expiry or key.
const HEADER_BYTES: usize = 24;
/// Bytes of the expiry, in entries that have one.
const EXPIRY_BYTES: usize = 8;
/// Flag of an entry that has an expiry.
const FLAG_EXPIRY: u32 = 1;
/// Keys are shorter than this many bytes; the limit of the layout, far above that of the product.
const KEY_BYTES_END: usize = 1 << 24;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Cache lines of an entry that are fetched ahead.
const PREFETCHED_LINES: usize = 3;
/// Pages are brought in ahead so many bytes at a time, or in huge pages.
const POPULATED_STEP_BYTES: usize = 64 << 10;
/// The most bytes of an arena: offsets are 32 bits in units of 8 bytes.
const CAPACITY_BYTES_MAX: usize = (u32::MAX as usize) * UNIT_BYTES;

const _: () = assert!(kingtide_base::limits::KEY_BYTES_MAX < KEY_BYTES_END);
const _: () = assert!(size_of::<usize>() == 8, "arenas need 64-bit addresses");

/// Where an entry begins, in units of 8 bytes. Later entries have larger offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryOffset(pub u32);

impl EntryOffset {
    /// No entry.
    pub const NONE: Self = Self(0);

    /// True for [`EntryOffset::NONE`].
    #[inline]
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    const fn byte(self) -> usize {
        self.0 as usize * UNIT_BYTES
    }
}

/// Bytes that an entry takes in an arena.
#[inline]
#[must_use]
pub const fn entry_bytes(key_bytes: usize, value_bytes: usize, has_expiry: bool) -> usize {
    let expiry = if has_expiry { EXPIRY_BYTES } else { 0 };
    (HEADER_BYTES + expiry + key_bytes)
        .saturating_add(value_bytes)
        .saturating_add(UNIT_BYTES - 1)
        & !(UNIT_BYTES - 1)
}

/// What [`ArenaWriter::append`] writes.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The commit that writes it.
    pub sequence: SeqNo,
    /// The next older version of the same key.
    pub previous: EntryOffset,
    /// What it does to the key.
    pub kind: EntryKind,
    /// When it expires, in Unix seconds; 0 means never.
    pub expires_at: i64,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// A published entry, borrowed from its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaEntry<'a> {
    /// Where it is.
    pub offset: EntryOffset,
    /// The commit that wrote it.
    pub sequence: SeqNo,
    /// The next older version of the same key, if the memtable has a hash index.
    pub previous: EntryOffset,
    /// What it does to the key.
    pub kind: EntryKind,
    /// When it expires, in Unix seconds; 0 means never.
    pub expires_at: i64,
    /// The key.
    pub key: &'a [u8],
    /// The value; empty for tombstones.
    pub value: &'a [u8],
}

impl ArenaEntry<'_> {
    /// Where the entry after this one begins.
    #[must_use]
    pub fn following(&self) -> EntryOffset {
        let bytes = entry_bytes(self.key.len(), self.value.len(), self.expires_at != 0);
        EntryOffset(self.offset.0.saturating_add((bytes / UNIT_BYTES) as u32))
    }
}

/// The memory of one memtable, as readers see it.
pub struct Arena {
    /// `Some` until the arena is dropped.
    memory: Option<ArenaMemory>,
    base: NonNull<u8>,
    capacity_bytes: usize,
    /// Bytes whose pages are there or are being brought in: those that an earlier arena touched, and what was asked for ahead.
    populated: AtomicUsize,
    /// Bytes below this are initialised and final. Written by the writer alone.
    published: AtomicUsize,
    pool: Arc<ArenaPool>,
    /// One cell for each unit, so that loom sees who touches the memory when.
    #[cfg(loom)]
    shadow: Vec<loom::cell::UnsafeCell<()>>,
}

// SAFETY: `base` points into `memory`, which is Send.
unsafe impl Send for Arena {}
// SAFETY: shared access reads only bytes below `published`, which never change (invariant 1); the one writer writes
// only bytes at or above it (invariant 2).
unsafe impl Sync for Arena {}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("capacity_bytes", &self.capacity_bytes)
            .field("published_bytes", &self.published_bytes())
            .finish_non_exhaustive()
    }
}

impl Arena {
    /// An empty arena for entries of `bytes` bytes in all (see [`entry_bytes`]), and its writer. Memory comes from
    /// `pool` when it has some of that size, and goes back there when the arena is dropped.
    ///
    /// # Panics
    /// When `bytes` exceeds 32 GiB less one unit.
    #[must_use]
    pub fn new(pool: &Arc<ArenaPool>, bytes: usize) -> (Arc<Self>, ArenaWriter) {
        Self::in_pages(pool, bytes, PageSize::Small)
    }

    /// As [`Arena::new`], in pages of `size` unless the pool has other ones of that capacity.
    ///
    /// # Panics
    /// As [`Arena::new`].
    #[must_use]
    pub fn in_pages(
        pool: &Arc<ArenaPool>,
        bytes: usize,
        size: PageSize,
    ) -> (Arc<Self>, ArenaWriter) {
        // One unit more: offset 0 means "none", so the first one stays empty.
        let capacity_bytes = bytes.saturating_add(2 * UNIT_BYTES - 1) & !(UNIT_BYTES - 1);
        assert!(
            capacity_bytes <= CAPACITY_BYTES_MAX,
            "an arena has at most 32 GiB"
        );
        let memory = pool.take(capacity_bytes.max(2 * UNIT_BYTES), size);
        let base = memory.base();
        // SAFETY: the memory has at least two units and nobody else knows it yet.
        unsafe { base.as_ptr().write_bytes(0, UNIT_BYTES) };
        let arena = Arc::new(Self {
            capacity_bytes: memory.capacity_bytes(),
            populated: AtomicUsize::new(memory.touched_bytes),
            memory: Some(memory),
            base,
            published: AtomicUsize::new(UNIT_BYTES),
            pool: Arc::clone(pool),
            #[cfg(loom)]
            shadow: (0..capacity_bytes.max(2 * UNIT_BYTES) / UNIT_BYTES)
                .map(|_| loom::cell::UnsafeCell::new(()))
                .collect(),
        });
        let writer = ArenaWriter {
            arena: Arc::clone(&arena),
            tail: UNIT_BYTES,
        };
        (arena, writer)
    }

    /// Where the memory counts.
    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        self.pool.budget()
    }

    /// Bytes of entries that the arena can hold in all.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes - UNIT_BYTES
    }

    /// Bytes of the entries published so far.
    #[must_use]
    pub fn published_bytes(&self) -> usize {
        // Relaxed: a number for accounting; nothing is read on its strength.
        self.published.load(Ordering::Relaxed) - UNIT_BYTES
    }

    /// Bytes whose pages may take up memory: those of entries, what an earlier arena left there, and what was brought in ahead.
    #[must_use]
    pub fn touched_bytes(&self) -> usize {
        // Relaxed: a number for accounting.
        let published = self.published.load(Ordering::Relaxed);
        let touched = match &self.memory {
            Some(memory) => memory.pages.touched_bytes(published),
            None => published,
        };
        touched.max(self.populated.load(Ordering::Relaxed))
    }

    /// Brings in the pages that the next `bytes` of entries will fill, unless they are there or somebody else is at it. For
    /// those who are about to append so much, before others wait for them; any thread.
    pub fn populate_ahead(&self, bytes: usize) {
        let Some(memory) = &self.memory else { return };
        // Relaxed, all of it: nothing is read on the strength of these numbers.
        let relaxed = Ordering::Relaxed;
        let (published, populated) = (self.published.load(relaxed), self.populated.load(relaxed));
        let wanted = published.saturating_add(bytes).min(self.capacity_bytes);
        if populated >= wanted {
            return;
        }
        let step = wanted.next_multiple_of(POPULATED_STEP_BYTES);
        let end = memory.pages.touched_bytes(step).min(self.capacity_bytes);
        let exchanged = self
            .populated
            .compare_exchange(populated, end, relaxed, relaxed);
        if exchanged.is_ok() {
            memory.pages.populate(populated.max(published)..end);
        }
    }

    /// True when the memory is in huge pages, as far as the system has them.
    #[must_use]
    pub fn is_huge(&self) -> bool {
        let memory = self.memory.as_ref();
        memory.is_some_and(|memory| memory.pages.is_huge())
    }

    /// Where the entry after all that are published so far will begin.
    #[must_use]
    pub fn tail(&self) -> EntryOffset {
        EntryOffset((self.published_bytes() / UNIT_BYTES) as u32 + 1)
    }

    /// Bytes between the begin of two entries.
    #[must_use]
    pub fn bytes_between(from: EntryOffset, to: EntryOffset) -> usize {
        to.byte().saturating_sub(from.byte())
    }

    /// Everything published so far, from the first unit on.
    #[inline]
    fn published(&self) -> &[u8] {
        // Acquire: pairs with the Release in `ArenaWriter::append`, so the bytes below are seen.
        let bytes = self.published.load(Ordering::Acquire);
        // SAFETY: bytes below `published` are inside the allocation, initialised and never written again (invariant 1).
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), bytes) }
    }

    /// The entry at `offset`, or `None` when no whole entry is published there.
    #[inline]
    #[must_use]
    pub fn entry(&self, offset: EntryOffset) -> Option<ArenaEntry<'_>> {
        if offset.is_none() {
            return None;
        }
        let (header, rest) = self
            .published()
            .get(offset.byte()..)?
            .split_first_chunk::<HEADER_BYTES>()?;
        let header = Header::decode(header);
        let kind = EntryKind::from_byte(header.kind)?;
        let (expires_at, rest) = match header.flags {
            0 => (0, rest),
            FLAG_EXPIRY => {
                let (expiry, rest) = rest.split_first_chunk::<EXPIRY_BYTES>()?;
                (i64::from_le_bytes(*expiry), rest)
            }
            _ => return None,
        };
        let (key, rest) = rest.split_at_checked(header.key_bytes)?;
        let value = rest.get(..header.value_bytes)?;
        #[cfg(loom)]
        self.touch_shared(offset, entry_bytes(key.len(), value.len(), expires_at != 0));
        Some(ArenaEntry {
            offset,
            sequence: header.sequence,
            previous: header.previous,
            kind,
            expires_at,
            key,
            value,
        })
    }

    /// The key of the entry at `offset` and its sequence number: what orders compare. Empty and zero when no entry is
    /// published there.
    #[inline]
    #[must_use]
    pub fn key_and_sequence(&self, offset: EntryOffset) -> (&[u8], SeqNo) {
        let nothing: (&[u8], SeqNo) = (&[], SeqNo::ZERO);
        let Some((header, rest)) = self
            .published()
            .get(offset.byte()..)
            .and_then(|bytes| bytes.split_first_chunk::<HEADER_BYTES>())
        else {
            return nothing;
        };
        let header = Header::decode(header);
        let start = if header.flags == FLAG_EXPIRY {
            EXPIRY_BYTES
        } else {
            0
        };
        match rest.get(start..start + header.key_bytes) {
            Some(key) => {
                #[cfg(loom)]
                self.touch_shared(offset, HEADER_BYTES + start + key.len());
                (key, header.sequence)
            }
            None => nothing,
        }
    }

    /// The key of the entry at `offset`; empty when no entry is published there.
    #[inline]
    #[must_use]
    pub fn key(&self, offset: EntryOffset) -> &[u8] {
        self.key_and_sequence(offset).0
    }

    /// Asks the processor to fetch the begin of the entry at `offset`; any offset is fine.
    #[inline]
    pub fn prefetch(&self, offset: EntryOffset) {
        crate::hash_index::prefetch(self.base.as_ptr().wrapping_add(offset.byte()));
    }

    /// As [`Arena::prefetch`], with what follows the begin: the whole of a short entry.
    #[inline]
    pub fn prefetch_entry(&self, offset: EntryOffset) {
        let begin = self.base.as_ptr().wrapping_add(offset.byte());
        for line in 0..PREFETCHED_LINES {
            crate::hash_index::prefetch(begin.wrapping_add(line * LINE_BYTES));
        }
    }

    #[cfg(loom)]
    fn touch_shared(&self, offset: EntryOffset, bytes: usize) {
        for cell in &self.shadow[offset.0 as usize..][..bytes.div_ceil(UNIT_BYTES)] {
            cell.with(|_| ());
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let touched_bytes = self.touched_bytes();
        if let Some(mut memory) = self.memory.take() {
            memory.touched_bytes = touched_bytes;
            self.pool.give(memory);
        }
    }
}

/// The fixed part of an entry.
struct Header {
    sequence: SeqNo,
    previous: EntryOffset,
    kind: u8,
    key_bytes: usize,
    value_bytes: usize,
    flags: u32,
}

impl Header {
    #[inline]
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let kind_and_key = (u32::from(self.kind) << 24) | self.key_bytes as u32;
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&self.sequence.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.previous.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&kind_and_key.to_le_bytes());
        bytes[16..20].copy_from_slice(&(self.value_bytes as u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    #[inline]
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let word = |index: usize| {
            u32::from_le_bytes([
                bytes[index],
                bytes[index + 1],
                bytes[index + 2],
                bytes[index + 3],
            ])
        };
        let kind_and_key = word(12);
        Self {
            sequence: SeqNo(u64::from(word(0)) | (u64::from(word(4)) << 32)),
            previous: EntryOffset(word(8)),
            kind: (kind_and_key >> 24) as u8,
            key_bytes: (kind_and_key & 0x00ff_ffff) as usize,
            value_bytes: word(16) as usize,
            flags: word(20),
        }
    }
}

/// The right to append to one arena; there is one for each arena.
#[derive(Debug)]
pub struct ArenaWriter {
    arena: Arc<Arena>,
    /// Equal to the arena's published length.
    tail: usize,
}

impl ArenaWriter {
    /// Where the next entry will begin.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> EntryOffset {
        EntryOffset((self.tail / UNIT_BYTES) as u32)
    }

    /// Bytes of entries that can still be appended.
    #[inline]
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.arena.capacity_bytes - self.tail
    }

    /// Appends `entry` and publishes it. `None`, and nothing is written, when it does not fit or its key or value
    /// exceeds what the layout can express.
    #[inline]
    pub fn append(&mut self, entry: &NewEntry<'_>) -> Option<EntryOffset> {
        let has_expiry = entry.expires_at != 0;
        let bytes = entry_bytes(entry.key.len(), entry.value.len(), has_expiry);
        if bytes > self.free_bytes()
            || entry.key.len() >= KEY_BYTES_END
            || entry.value.len() > u32::MAX as usize
        {
            return None;
        }
        let offset = self.tail();
        let start = self.tail;
        let end = start + bytes;
        #[cfg(loom)]
        for cell in &self.arena.shadow[start / UNIT_BYTES..end / UNIT_BYTES] {
            cell.with_mut(|_| ());
        }
        let header = Header {
            sequence: entry.sequence,
            previous: entry.previous,
            kind: entry.kind as u8,
            key_bytes: entry.key.len(),
            value_bytes: entry.value.len(),
            flags: if has_expiry { FLAG_EXPIRY } else { 0 },
        };
        // The padding first, as a whole unit: what follows overwrites the part of it that is not padding.
        self.write(end - UNIT_BYTES, &[0; UNIT_BYTES]);
        self.write(start, &header.encode());
        let mut at = start + HEADER_BYTES;
        if has_expiry {
            self.write(at, &entry.expires_at.to_le_bytes());
            at += EXPIRY_BYTES;
        }
        self.write(at, entry.key);
        self.write(at + entry.key.len(), entry.value);
        self.tail = end;
        // Release: publishes the bytes just written to readers that load it with Acquire.
        self.arena.published.store(end, Ordering::Release);
        Some(offset)
    }

    /// Copies `bytes` to `at`, which lies at or above the published length.
    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at >= self.tail && at + bytes.len() <= self.arena.capacity_bytes);
        // SAFETY: `at` is inside the allocation, by the assertion.
        let target = unsafe { self.arena.base.as_ptr().add(at) };
        // SAFETY: the range ends inside the allocation, lies above what readers look at, and only this writer, borrowed
        // mutably, writes there; `bytes` is a shared slice, so it cannot overlap unpublished bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }
}

#[cfg(test)]
mod tests;
