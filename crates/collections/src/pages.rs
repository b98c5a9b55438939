//! Large blocks of memory straight from the system.
//!
//! The allocator keeps what is freed for later, and grows its idea of what is worth keeping to the largest block that it
//! has seen freed, up to 32 MiB. Memtables are as large as that: what they give back would stay with the process, in
//! pieces. So their memory is mapped, and unmapped when it is given back.
//!
//! Memory from [`Pages`] is zeroed, and takes up nothing until it is touched. Small blocks, and those of systems other
//! than Unix, come from the allocator.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ptr::NonNull,
};

/// Smaller blocks come from the allocator.
const MAPPED_BYTES_MIN: usize = 512 << 10;
/// Alignment of all blocks: a cache line.
const ALIGNMENT: usize = 64;

/// A block of zeroed memory; owns it.
#[derive(Debug)]
pub(crate) struct Pages {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned by this value alone and is not tied to a thread.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives nothing but the address; access is governed by who owns the block.
unsafe impl Sync for Pages {}

impl Pages {
    /// A block of so many bytes, more than 0 and at most 64 GiB, all zeros, aligned to a cache line.
    pub(crate) fn zeroed(bytes: usize) -> Self {
        assert!(bytes > 0);
        let layout = Layout::from_size_align(bytes, ALIGNMENT)
            .expect("at most 64 GiB with a small alignment is a layout");
        let base = match is_mapped(layout) {
            true => map(bytes),
            // SAFETY: the layout's size is not 0, by the assertion.
            false => NonNull::new(unsafe { alloc_zeroed(layout) }),
        };
        match base {
            Some(base) => Self { base, layout },
            None => handle_alloc_error(layout),
        }
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
}

impl Drop for Pages {
    fn drop(&mut self) {
        if is_mapped(self.layout) {
            unmap(self.base, self.layout.size());
        } else {
            // SAFETY: `base` was allocated with `layout` in `zeroed` and is given back once, here.
            unsafe { dealloc(self.base.as_ptr(), self.layout) }
        }
    }
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

#[cfg(all(unix, not(miri)))]
fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the mapping was made by `map` with this length, and its owner is being dropped.
    let outcome = unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
    // It fails only for arguments that are no mapping.
    debug_assert_eq!(outcome, 0);
}

#[cfg(not(all(unix, not(miri))))]
fn map(_bytes: usize) -> Option<NonNull<u8>> {
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
        for &bytes in all {
            let pages = Pages::zeroed(bytes);
            assert_eq!(pages.bytes(), bytes);
            assert_eq!(pages.base().as_ptr() as usize % ALIGNMENT, 0);
            // SAFETY: the block has so many initialised bytes and nobody else knows it.
            let all = unsafe { std::slice::from_raw_parts_mut(pages.base().as_ptr(), bytes) };
            assert!(all.iter().all(|byte| *byte == 0));
            all.fill(7);
            assert_eq!(all[bytes - 1], 7);
        }
    }
}
