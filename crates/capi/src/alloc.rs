//! Memory that callers free: from the C allocator, or from the one that was given to `tidesdb_init`.

use std::{
    ffi::{c_int, c_void},
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicPtr, Ordering},
    },
};

use crate::border::{Failure, Outcome, answer, code, kind};

/// As malloc.
pub type MallocFn = Option<unsafe extern "C" fn(usize) -> *mut c_void>;
/// As calloc.
pub type CallocFn = Option<unsafe extern "C" fn(usize, usize) -> *mut c_void>;
/// As realloc.
pub type ReallocFn = Option<unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>;
/// As free.
pub type FreeFn = Option<unsafe extern "C" fn(*mut c_void)>;

#[derive(Clone, Copy)]
struct Allocator {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

const SYSTEM: Allocator = Allocator {
    malloc: libc::malloc,
    free: libc::free,
};

/// The one in force; null for the system's. What it points to lives for ever: a reader may be slow.
static ALLOCATOR: AtomicPtr<Allocator> = AtomicPtr::new(ptr::null_mut());
static IS_INITIALISED: AtomicBool = AtomicBool::new(false);

#[inline]
fn allocator() -> Allocator {
    // Acquire: pairs with the store in `set_allocator`.
    let given = ALLOCATOR.load(Ordering::Acquire);
    // SAFETY: null, or a leaked box.
    unsafe { given.as_ref() }.copied().unwrap_or(SYSTEM)
}

/// Every allocator that was ever given is kept, once.
fn set_allocator(given: Option<Allocator>) {
    static KNOWN: Mutex<Vec<&'static Allocator>> = Mutex::new(Vec::new());
    let pointer = given.map_or(ptr::null(), |given| {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |one: &&&'static Allocator| {
            ptr::fn_addr_eq(one.malloc, given.malloc) && ptr::fn_addr_eq(one.free, given.free)
        };
        let kept = known.iter().find(is_same).copied();
        let kept: &'static Allocator = kept.unwrap_or_else(|| {
            let kept = Box::leak(Box::new(given));
            known.push(kept);
            kept
        });
        ptr::from_ref(kept)
    });
    // Release: publishes what it points to.
    ALLOCATOR.store(pointer.cast_mut(), Ordering::Release);
}

/// What `open` does first: takes the C allocator unless one was given.
pub(crate) fn initialise_by_itself() {
    IS_INITIALISED.store(true, Ordering::Relaxed);
}

/// Chooses the allocator of what is handed to callers.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_init(
    malloc_fn: MallocFn,
    calloc_fn: CallocFn,
    realloc_fn: ReallocFn,
    free_fn: FreeFn,
) -> c_int {
    answer(|| {
        let given = match (malloc_fn, calloc_fn, realloc_fn, free_fn) {
            (None, None, None, None) => None,
            (Some(malloc), Some(_), Some(_), Some(free)) => Some(Allocator { malloc, free }),
            _ => {
                return Err(Failure::invalid(
                    "give all four allocator functions, or none: memory of one is not freed by another",
                ));
            }
        };
        if IS_INITIALISED.swap(true, Ordering::Relaxed) {
            return Err(Failure::of_kind(
                (-1, kind::ALREADY_EXISTS),
                "already initialised: call tidesdb_finalize first",
            ));
        }
        set_allocator(given);
        Ok(())
    })
}

/// Allows another `tidesdb_init`; the C allocator serves until then.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_finalize() {
    let _ = answer(|| {
        set_allocator(None);
        IS_INITIALISED.store(false, Ordering::Relaxed);
        Ok(())
    });
}

/// Frees what this library handed out.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_free(ptr: Memory) {
    let _ = answer(|| {
        free(ptr.0);
        Ok(())
    });
}

/// `void *` that this library handed out, or null: what the header demands of the argument of `tidesdb_free`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Memory(*mut c_void);

fn free(pointer: *mut c_void) {
    if !pointer.is_null() {
        // SAFETY: the header demands a pointer that this library handed out, under the same allocator.
        unsafe { (allocator().free)(pointer) };
    }
}

/// `bytes` bytes, at least one, aligned for anything.
fn allocate(bytes: usize) -> Outcome<*mut c_void> {
    // SAFETY: an allocator takes any size.
    let pointer = unsafe { (allocator().malloc)(bytes.max(1)) };
    if pointer.is_null() {
        return Err(Failure::memory());
    }
    Ok(pointer)
}

/// A copy of `bytes` that the caller frees; not null, also for no bytes.
///
/// # Errors
/// `TDB_ERR_MEMORY`.
#[inline]
pub(crate) fn copy_bytes(bytes: &[u8]) -> Outcome<*mut u8> {
    let pointer = allocate(bytes.len())?.cast::<u8>();
    // SAFETY: just allocated with that many bytes, so apart from everything else.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) };
    Ok(pointer)
}

/// A copy of `items` that the caller frees.
///
/// # Errors
/// `TDB_ERR_MEMORY`.
pub(crate) fn copy_array<T: Copy>(items: &[T]) -> Outcome<*mut T> {
    const {
        assert!(
            align_of::<T>() <= 16,
            "malloc aligns for everything up to this"
        )
    };
    let pointer = allocate(size_of_val(items))?.cast::<T>();
    // SAFETY: just allocated with room for all items, so apart from everything else.
    unsafe { ptr::copy_nonoverlapping(items.as_ptr(), pointer, items.len()) };
    Ok(pointer)
}

/// A copy of `text` with its zero byte, that the caller frees.
///
/// # Errors
/// `TDB_ERR_MEMORY`.
pub(crate) fn copy_text(text: &str) -> Outcome<*mut std::ffi::c_char> {
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    copy_bytes(&bytes).map(<*mut u8>::cast)
}

/// Memory on its way to the caller: freed unless it is released.
#[derive(Default)]
pub(crate) struct Pending(Vec<*mut c_void>);

impl Pending {
    /// Keeps `pointer` until it is known that the caller gets it.
    pub(crate) fn keep<T>(&mut self, pointer: *mut T) -> *mut T {
        self.0.push(pointer.cast());
        pointer
    }

    /// The caller owns everything now.
    pub(crate) fn release(mut self) {
        self.0.clear();
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        for pointer in self.0.drain(..) {
            free(pointer);
        }
    }
}

/// Frees what [`copy_array`] and the like answered.
pub(crate) fn free_array<T>(pointer: *mut T) {
    free(pointer.cast());
}

const _: () = assert!(code::MEMORY == -1);
