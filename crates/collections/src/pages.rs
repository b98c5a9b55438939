//! Large blocks of memory straight from the system.
//!
//! The allocator keeps what is freed for later, and grows its idea of what is worth keeping to the largest block that it
//! has seen freed, up to 32 MiB. Memtables are as large as that: what they give back would stay with the process, in
//! pieces. So their memory is mapped, and unmapped when it is given back.
//!
//! Memory from [`Pages`] is zeroed, and takes up nothing until it is touched. Small blocks, and those of systems other
//! than Unix, come from the allocator.
//!
//! A block that will be filled for sure may ask for *huge* pages: the system then hands out 2 MiB at a time instead of
//! 4 KiB, which takes one interruption of the program instead of 512, and less of the processor's memory for addresses.
//! What is touched counts in these steps, as [`Pages::touched_bytes`] says. It is advice: where the system has no huge
//! page to give, small ones come, and the count is too high by less than one huge page for a block that is filled in
//! order. Only Linux is asked, and only for blocks of 4 MiB and more.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ops::Range,
    ptr::NonNull,
};

/// Smaller blocks come from the allocator.
const MAPPED_BYTES_MIN: usize = 512 << 10;
/// Alignment of all blocks: a cache line.
const ALIGNMENT: usize = 64;
/// Bytes of a huge page; blocks that have some begin at multiples of it.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Smaller blocks get no huge pages: the one that is in use counts as a whole, and is to be a small part.
const HUGE_BLOCK_BYTES_MIN: usize = 2 * HUGE_PAGE_BYTES;
/// Bytes of a small page, as a rule. Where they are larger, [`Pages::touch`] touches them more than once.
const SMALL_PAGE_BYTES: usize = 4096;
/// Mappings are as long as multiples of this, which are multiples of the page size on every machine.
const MAPPING_STEP_BYTES: usize = 64 << 10;

/// The pages that a block asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// For memory of which nobody knows how much will be used.
    Small,
    /// For memory that will be filled: huge ones, if there are any and the block is large enough.
    Huge,
}

/// A block of zeroed memory; owns it.
#[derive(Debug)]
pub(crate) struct Pages {
    base: NonNull<u8>,
    layout: Layout,
    /// Bytes from the first on that are in huge pages, as far as the system has them.
    huge_bytes: usize,
}

// SAFETY: the memory is owned by this value alone and is not tied to a thread.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives nothing but the address; access is governed by who owns the block.
unsafe impl Sync for Pages {}

impl Pages {
    /// A block of so many bytes, more than 0 and at most 64 GiB, all zeros, aligned to a cache line.
    pub(crate) fn zeroed(bytes: usize, size: PageSize) -> Self {
        assert!(bytes > 0);
        let layout = Layout::from_size_align(bytes, ALIGNMENT)
            .expect("at most 64 GiB with a small alignment is a layout");
        let is_huge = size == PageSize::Huge && bytes >= HUGE_BLOCK_BYTES_MIN;
        let base = match is_mapped(layout) {
            true if is_huge => map_aligned(mapped_bytes(bytes), HUGE_PAGE_BYTES),
            true => map(mapped_bytes(bytes)),
            // SAFETY: the layout's size is not 0, by the assertion.
            false => NonNull::new(unsafe { alloc_zeroed(layout) }),
        };
        let Some(base) = base else {
            handle_alloc_error(layout)
        };
        // Whole pages only: what follows the block is somebody else's.
        let whole_bytes = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        let huge_bytes = match is_huge && is_mapped(layout) && advise_huge(base, whole_bytes) {
            true => whole_bytes,
            false => 0,
        };
        Self {
            base,
            layout,
            huge_bytes,
        }
    }

    /// Touches all pages of a block that is all zeros. The first touch of a page is a write then: one that is read first has
    /// to be exchanged at the first write, which interrupts other threads too.
    pub(crate) fn touch(&mut self) {
        for at in (0..self.bytes()).step_by(SMALL_PAGE_BYTES) {
            // SAFETY: the byte is inside the block.
            let byte = unsafe { self.base.as_ptr().add(at) };
            // SAFETY: as above, and nobody else has the block. Volatile, or this would be left out.
            unsafe { byte.write_volatile(0) };
        }
    }

    /// Brings in the pages of these bytes of the block, so that whoever writes there is not interrupted. Changes no byte, and
    /// others may use the block meanwhile. Only on Linux with small pages of 4 KiB; elsewhere nothing happens.
    pub(crate) fn populate(&self, bytes: Range<usize>) {
        let start = bytes.start / SMALL_PAGE_BYTES * SMALL_PAGE_BYTES;
        let end = bytes.end.min(self.bytes());
        if is_mapped(self.layout) && start < end {
            populate(self.base, start..end);
        }
    }

    /// Makes the block all zeros again.
    pub(crate) fn zero(&mut self) {
        // SAFETY: these are the bytes of the block, and nobody else has it.
        unsafe { self.base.as_ptr().write_bytes(0, self.bytes()) };
    }

    /// The first byte.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes in the block.
    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// True when part of the block is in huge pages, as far as the system has them.
    pub(crate) fn is_huge(&self) -> bool {
        self.huge_bytes > 0
    }

    /// Bytes that the block takes up once its first `bytes` are touched.
    #[inline]
    pub(crate) fn touched_bytes(&self, bytes: usize) -> usize {
        match bytes < self.huge_bytes {
            true => bytes.next_multiple_of(HUGE_PAGE_BYTES),
            false => bytes,
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if is_mapped(self.layout) {
            unmap(self.base, mapped_bytes(self.layout.size()));
        } else {
            // SAFETY: `base` was allocated with `layout` in `zeroed` and is given back once, here.
            unsafe { dealloc(self.base.as_ptr(), self.layout) }
        }
    }
}

/// Bytes of the mapping for a block.
const fn mapped_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(MAPPING_STEP_BYTES)
}

/// Where a block of this layout comes from, and goes back to.
fn is_mapped(layout: Layout) -> bool {
    cfg!(all(unix, not(miri))) && layout.size() >= MAPPED_BYTES_MIN
}

#[cfg(all(unix, not(miri)))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new private mapping at an address of the system's choice touches nobody's memory.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(address.cast())
}

/// As [`map`], at a multiple of `alignment`; both numbers are multiples of the page size.
#[cfg(all(unix, not(miri)))]
fn map_aligned(bytes: usize, alignment: usize) -> Option<NonNull<u8>> {
    let wide = map(bytes + alignment)?;
    let before = wide.align_offset(alignment);
    // SAFETY: an aligned address with `bytes` behind it lies inside the mapping, which is longer by one alignment.
    let base = unsafe { wide.add(before) };
    if before > 0 {
        unmap(wide, before);
    }
    // SAFETY: as above; the mapping ends `alignment - before` bytes behind it.
    let end = unsafe { base.add(bytes) };
    if before < alignment {
        unmap(end, alignment - before);
    }
    Some(base)
}

/// Asks for huge pages in a part of a mapping; false when the system knows none.
#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge(base: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the range is part of a mapping that the caller owns, and the advice changes no byte of it.
    unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) == 0 }
}

/// Brings in the pages of a part of a mapping.
#[cfg(all(target_os = "linux", not(miri)))]
fn populate(base: NonNull<u8>, bytes: Range<usize>) {
    // SAFETY: the range is part of the mapping at `base`.
    let start = unsafe { base.add(bytes.start) };
    // SAFETY: as above, and no byte changes. Where it fails, the first write to a page brings it in.
    unsafe {
        libc::madvise(
            start.as_ptr().cast(),
            bytes.len(),
            libc::MADV_POPULATE_WRITE,
        )
    };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn populate(_base: NonNull<u8>, _bytes: Range<usize>) {}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise_huge(_base: NonNull<u8>, _bytes: usize) -> bool {
    false
}

#[cfg(all(unix, not(miri)))]
fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: whole pages of a mapping that `map` made, which nobody uses any more: those of an owner that is being
    // dropped, or what is too much for an alignment.
    let outcome = unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
    // It fails only for arguments that are no mapping.
    debug_assert_eq!(outcome, 0);
}

#[cfg(not(all(unix, not(miri))))]
fn map(_bytes: usize) -> Option<NonNull<u8>> {
    None
}

#[cfg(not(all(unix, not(miri))))]
fn map_aligned(_bytes: usize, _alignment: usize) -> Option<NonNull<u8>> {
    None
}

#[cfg(not(all(unix, not(miri))))]
fn unmap(_base: NonNull<u8>, _bytes: usize) {}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: blocks are zeroed, aligned and writable from end to end, whether they are mapped or not.
    #[test]
    fn blocks_are_zeroed_and_whole() {
        let all = [1, 4096, MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN, 3 << 20];
        // Miri goes through blocks byte by byte, and maps none.
        let all = &all[..if cfg!(miri) { 2 } else { all.len() }];
        let ways = [Pages::zeroed, touched, populated];
        for (make, bytes) in ways
            .into_iter()
            .flat_map(|make| all.iter().map(move |n| (make, *n)))
        {
            let mut pages = make(bytes, PageSize::Small);
            assert_eq!(pages.bytes(), bytes);
            assert_eq!(pages.base().as_ptr() as usize % ALIGNMENT, 0);
            // SAFETY: the block has so many initialised bytes and nobody else knows it.
            let all = unsafe { std::slice::from_raw_parts_mut(pages.base().as_ptr(), bytes) };
            assert!(all.iter().all(|byte| *byte == 0));
            all.fill(7);
            pages.populate(bytes / 2..bytes + 1);
            assert!(all.iter().all(|byte| *byte == 7));
            pages.zero();
            // SAFETY: as above.
            let all = unsafe { std::slice::from_raw_parts(pages.base().as_ptr(), bytes) };
            assert!(all.iter().all(|byte| *byte == 0));
        }
    }

    fn touched(bytes: usize, size: PageSize) -> Pages {
        let mut pages = Pages::zeroed(bytes, size);
        pages.touch();
        pages
    }

    fn populated(bytes: usize, size: PageSize) -> Pages {
        let pages = Pages::zeroed(bytes, size);
        pages.populate(1..bytes / 2);
        pages
    }

    /// Goal: blocks in huge pages are aligned, zeroed and whole too, before and after they are touched, and their neighbours
    /// are not harmed. Method: several at once, of sizes around whole pages, each filled with a number of its own.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn blocks_in_huge_pages_are_zeroed_and_whole() {
        let sizes = [
            HUGE_BLOCK_BYTES_MIN,
            HUGE_BLOCK_BYTES_MIN + 1,
            3 * HUGE_PAGE_BYTES - 1,
            5 * HUGE_PAGE_BYTES + 16,
        ];
        let mut blocks: Vec<_> = [Pages::zeroed, touched, populated]
            .into_iter()
            .flat_map(|make| sizes.map(|bytes| (make(bytes, PageSize::Huge), bytes)))
            .collect();
        for (number, (pages, bytes)) in blocks.iter_mut().enumerate() {
            let bytes = *bytes;
            assert_eq!(pages.bytes(), bytes);
            assert_eq!(pages.base().as_ptr() as usize % HUGE_PAGE_BYTES, 0);
            // SAFETY: the block has so many initialised bytes and nobody else knows it.
            let all = unsafe { std::slice::from_raw_parts_mut(pages.base().as_ptr(), bytes) };
            assert!(all.iter().all(|byte| *byte == 0));
            all.fill(number as u8 + 1);
        }
        for (number, (pages, _)) in blocks.iter_mut().enumerate() {
            // SAFETY: as above.
            let all = unsafe { std::slice::from_raw_parts(pages.base().as_ptr(), pages.bytes()) };
            assert!(all.iter().all(|byte| *byte == number as u8 + 1));
            pages.zero();
            // SAFETY: as above.
            let all = unsafe { std::slice::from_raw_parts(pages.base().as_ptr(), pages.bytes()) };
            assert!(all.iter().all(|byte| *byte == 0));
        }
    }

    /// Goal: what is touched counts in huge pages where the block has them, and byte by byte elsewhere. Method: the borders
    /// of a block of two and a half huge pages, of a small one, and of one that asked for small pages.
    #[test]
    fn touched_bytes_count_in_pages() {
        let bytes = 2 * HUGE_PAGE_BYTES + HUGE_PAGE_BYTES / 2;
        let small = Pages::zeroed(bytes, PageSize::Small);
        let few = Pages::zeroed(HUGE_BLOCK_BYTES_MIN - 1, PageSize::Huge);
        for pages in [&small, &few] {
            assert!(!pages.is_huge());
            assert_eq!(pages.touched_bytes(5), 5);
        }
        let huge = Pages::zeroed(bytes, PageSize::Huge);
        if !huge.is_huge() {
            // The system knows no huge pages.
            assert_eq!(huge.touched_bytes(5), 5);
            return;
        }
        let counted = [0, 1, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1].map(|n| huge.touched_bytes(n));
        let pages = [0, 1, 1, 2].map(|n| n * HUGE_PAGE_BYTES);
        assert_eq!(counted, pages);
        for bytes in [2 * HUGE_PAGE_BYTES, 2 * HUGE_PAGE_BYTES + 1, bytes] {
            assert_eq!(huge.touched_bytes(bytes), bytes);
        }
    }
}
