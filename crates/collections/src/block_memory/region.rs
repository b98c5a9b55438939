//! A region of memory and which parts of it are free: the pieces of a [`BlockMemory`](super::BlockMemory).
//!
//! The region is a row of *pieces*, each a multiple of 16 bytes (a *cell*) and beginning with a header of one cell: its own
//! length and that of the piece before it. Free pieces are in lists by length, 16 lists for every doubling; a bit for each list
//! says whether it has any. What is asked for comes from the first list whose every piece is long enough, and what is too much
//! of it becomes a piece of its own; a piece that is given back joins its free neighbours, so that no two of these are side by
//! side. All of that takes constant time (Masmano et al., "TLSF: A New Dynamic Memory Allocator for Real-Time Systems",
//! ECRTS 2004).
//!
//! What the region takes up of the system's memory begins at its front, as pieces are cut off the front of free ones.

use std::{ops::Range, ptr::NonNull, sync::Arc};

use crate::pages::{PageSize, Pages};

/// Bytes of a cell, and of the header of a piece.
const CELL_BYTES: usize = size_of::<Header>();
/// Lists for every doubling of the length; lengths up to as many cells have a list each.
const LISTS_PER_DOUBLING: u32 = 16;
const LISTS_BITS: u32 = LISTS_PER_DOUBLING.ilog2();
/// Words of bits: one for lengths below 16 cells, then one for every doubling up to a gibibyte.
const WORDS: usize = (30 - CELL_BYTES.ilog2() - LISTS_BITS + 2) as usize;
/// A shorter rest is not worth a piece: it stays with the one that is lent.
const REST_CELLS_MIN: u32 = 4;
/// Pages are brought in when so few bytes are left before them.
const AHEAD_BYTES: usize = 512 << 10;
/// No piece.
const NONE: u32 = u32::MAX;

/// What stands in front of a piece.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    /// The length with the header, in cells, times two; plus one when the piece is free.
    length_and_free: u32,
    /// The length of the piece before this one; 0 for the first.
    before: u32,
    /// The next and the last piece in the list of a free one.
    next: u32,
    last: u32,
}

impl Header {
    fn new(cells: u32, is_free: bool, before: u32) -> Self {
        Self {
            length_and_free: cells << 1 | u32::from(is_free),
            before,
            next: NONE,
            last: NONE,
        }
    }

    fn cells(self) -> u32 {
        self.length_and_free >> 1
    }

    fn is_free(self) -> bool {
        self.length_and_free & 1 == 1
    }
}

/// See the module. Not shared by itself.
pub(super) struct Region {
    pages: Arc<Pages>,
    /// Bytes from the first on that somebody has brought in, or is about to.
    brought_bytes: usize,
    /// Where the region ends, in cells.
    cells: u32,
    /// What is lent, in cells, headers included.
    lent: u32,
    /// The furthest end that was lent so far, in cells.
    touched: u32,
    /// Bit `i` of word `w`: list `w * 16 + i` has pieces.
    words: [u16; WORDS],
    /// The first piece of each list.
    heads: [[u32; LISTS_PER_DOUBLING as usize]; WORDS],
}

/// Bytes that a piece of `len` bytes takes up, at least.
pub(super) const fn piece_bytes(len: usize) -> usize {
    len.div_ceil(CELL_BYTES) * CELL_BYTES + CELL_BYTES
}

/// The list for pieces of `cells`, more than 0: word and bit.
fn list_of(cells: u32) -> (usize, usize) {
    let doublings = cells.ilog2().saturating_sub(LISTS_BITS);
    let word = cells.ilog2().saturating_sub(LISTS_BITS - 1);
    // Below 16 cells the bits as they are; else those behind the highest one.
    let bit = (cells >> doublings) % LISTS_PER_DOUBLING;
    (word as usize, bit as usize)
}

impl Region {
    /// A region of `bytes`, a multiple of a cell and at most a gibibyte, all of it free.
    pub(super) fn new(bytes: usize) -> Self {
        debug_assert!(bytes.is_multiple_of(CELL_BYTES) && bytes <= 1 << 30);
        let cells = (bytes / CELL_BYTES) as u32;
        let mut region = Self {
            pages: Arc::new(Pages::zeroed(bytes, PageSize::Huge)),
            brought_bytes: 0,
            cells,
            lent: 0,
            touched: 0,
            words: [0; WORDS],
            heads: [[NONE; LISTS_PER_DOUBLING as usize]; WORDS],
        };
        region.set(0, Header::new(cells, true, 0));
        region.enlist(0);
        region
    }

    /// Bytes that are lent, headers included.
    pub(super) fn lent_bytes(&self) -> usize {
        self.lent as usize * CELL_BYTES
    }

    /// Bytes that the region takes up.
    pub(super) fn touched_bytes(&self) -> usize {
        let touched_bytes = self.touched as usize * CELL_BYTES;
        let counted = self.pages.touched_bytes(touched_bytes);
        counted.max(self.brought_bytes)
    }

    /// Pages behind those that are in use, if they are to be brought in now, by whoever asks; outside of locks, as that takes long.
    /// None where pages are small: each is soon there.
    pub(super) fn take_ahead(&mut self) -> Option<(Arc<Pages>, Range<usize>)> {
        let wanted_bytes = self.touched as usize * CELL_BYTES + AHEAD_BYTES;
        let wanted_bytes = self
            .pages
            .touched_bytes(wanted_bytes)
            .min(self.pages.bytes());
        if !self.pages.is_huge() || wanted_bytes <= self.brought_bytes {
            return None;
        }
        let ahead = self.brought_bytes..wanted_bytes;
        self.brought_bytes = wanted_bytes;
        Some((Arc::clone(&self.pages), ahead))
    }

    /// A piece of `len` bytes: its cell, by which it is given back, and its first byte. `None` when no piece is long enough.
    pub(super) fn lend(&mut self, len: usize) -> Option<(u32, NonNull<u8>)> {
        let cells = u32::try_from(piece_bytes(len) / CELL_BYTES).ok()?;
        let cell = self.find(cells)?;
        self.unlist(cell);
        let header = self.header(cell);
        let rest = header.cells() - cells;
        let taken = match rest < REST_CELLS_MIN {
            true => header.cells(),
            false => cells,
        };
        self.set(cell, Header::new(taken, false, header.before));
        if taken < header.cells() {
            self.set(cell + taken, Header::new(rest, true, taken));
            self.tell_next(cell + taken, rest);
            self.enlist(cell + taken);
        }
        self.lent += taken;
        self.touched = self.touched.max(cell + taken);
        let at = (cell as usize + 1) * CELL_BYTES;
        // SAFETY: the piece lies inside the region, and so does what follows its header.
        let base = unsafe { self.pages.base().add(at) };
        Some((cell, base))
    }

    /// Takes the piece at `cell` back.
    pub(super) fn give_back(&mut self, cell: u32) {
        let header = self.header(cell);
        debug_assert!(!header.is_free());
        self.lent -= header.cells();
        let (mut start, mut cells, mut before) = (cell, header.cells(), header.before);
        if before > 0 && self.header(start - before).is_free() {
            start -= before;
            self.unlist(start);
            cells += before;
            before = self.header(start).before;
        }
        let next = start + cells;
        if next < self.cells && self.header(next).is_free() {
            self.unlist(next);
            cells += self.header(next).cells();
        }
        self.set(start, Header::new(cells, true, before));
        self.tell_next(start, cells);
        self.enlist(start);
    }

    /// A free piece of at least `cells`, from the first list all of whose pieces are as long.
    fn find(&self, cells: u32) -> Option<u32> {
        // The next length that begins a list.
        let step = 1 << cells.ilog2().saturating_sub(LISTS_BITS);
        let (word, bit) = list_of(cells.checked_add(step - 1)?);
        let bits = *self.words.get(word)? & (u16::MAX << bit);
        let (word, bits) = match bits {
            0 => (word + 1..WORDS)
                .map(|word| (word, self.words[word]))
                .find(|(_, bits)| *bits != 0)?,
            bits => (word, bits),
        };
        Some(self.heads[word][bits.trailing_zeros() as usize])
    }

    /// Puts a free piece in front of its list.
    fn enlist(&mut self, cell: u32) {
        let mut header = self.header(cell);
        let (word, bit) = list_of(header.cells());
        let head = self.heads[word][bit];
        (header.next, header.last) = (head, NONE);
        self.set(cell, header);
        if head != NONE {
            let mut next = self.header(head);
            next.last = cell;
            self.set(head, next);
        }
        self.heads[word][bit] = cell;
        self.words[word] |= 1 << bit;
    }

    /// Takes a free piece out of its list.
    fn unlist(&mut self, cell: u32) {
        let header = self.header(cell);
        let (word, bit) = list_of(header.cells());
        if header.next != NONE {
            let mut next = self.header(header.next);
            next.last = header.last;
            self.set(header.next, next);
        }
        if header.last == NONE {
            self.heads[word][bit] = header.next;
        } else {
            let mut last = self.header(header.last);
            last.next = header.next;
            self.set(header.last, last);
        }
        if self.heads[word][bit] == NONE {
            self.words[word] &= !(1 << bit);
        }
    }

    /// Tells the piece behind the one of `cells` at `cell` how long that is.
    fn tell_next(&mut self, cell: u32, cells: u32) {
        if cell + cells < self.cells {
            let mut next = self.header(cell + cells);
            next.before = cells;
            self.set(cell + cells, next);
        }
    }

    fn place(&self, cell: u32) -> NonNull<Header> {
        debug_assert!(cell < self.cells);
        let headers = self.pages.base().cast::<Header>();
        // SAFETY: a cell of the region, which is aligned to a cache line.
        unsafe { headers.add(cell as usize) }
    }

    fn header(&self, cell: u32) -> Header {
        // SAFETY: the first cell of a piece, which holds a header from the moment in which the piece was made and is never
        // lent; any bytes are one.
        unsafe { self.place(cell).read() }
    }

    fn set(&mut self, cell: u32, header: Header) {
        // SAFETY: as above; whoever has the region alone writes it.
        unsafe { self.place(cell).write(header) }
    }

    /// The pieces from front to end, with their lengths in bytes and whether they are free. Checks what the region relies on.
    #[cfg(test)]
    pub(super) fn pieces(&self) -> Vec<(u32, usize, bool)> {
        let mut pieces = Vec::new();
        let (mut cell, mut before, mut was_free) = (0, 0, false);
        while cell < self.cells {
            let header = self.header(cell);
            assert_eq!(header.before, before);
            assert!(
                !(was_free && header.is_free()),
                "two free ones side by side"
            );
            (before, was_free) = (header.cells(), header.is_free());
            pieces.push((cell, header.cells() as usize * CELL_BYTES, was_free));
            cell += before;
        }
        assert_eq!(cell, self.cells);
        let lent = pieces.iter().filter(|piece| !piece.2);
        assert_eq!(
            lent.map(|piece| piece.1).sum::<usize>(),
            self.lent_bytes(),
            "what is lent"
        );
        let mut listed = 0;
        for (word, heads) in self.heads.iter().enumerate() {
            for (bit, head) in heads.iter().enumerate() {
                assert_eq!(self.words[word] >> bit & 1 == 1, *head != NONE);
                let mut cell = *head;
                while cell != NONE {
                    let header = self.header(cell);
                    assert!(header.is_free());
                    assert_eq!(list_of(header.cells()), (word, bit));
                    listed += 1;
                    cell = header.next;
                }
            }
        }
        assert_eq!(listed, pieces.iter().filter(|piece| piece.2).count());
        pieces
    }
}
