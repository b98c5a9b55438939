//! Pointers as C passes them. Each type here stands for one kind of argument and carries the promise that C makes about
//! it, so that the functions themselves need no unsafe code:
//!
//! - every pointer is null, or points to what the header says, aligned, for the duration of the call;
//! - what is behind an input does not change during the call, and what is behind an output is not used by others.
//!
//! Values of these types come from C alone (they are the arguments of exported functions) and from tests that keep the
//! promise. Handles are not among them: nothing is promised about those, see `handle`.

use std::{
    ffi::{c_char, c_void},
    ptr, slice,
};

use kingtide_base::limits;

use crate::border::{Failure, Outcome, code};

/// `const T *`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct In<T>(*const T);

impl<T> In<T> {
    /// What it points to; `None` for null.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or valid for the call that has `self` as an argument (the promise above).
        unsafe { self.0.as_ref() }
    }

    /// What it points to.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for null.
    #[inline]
    pub(crate) fn require(&self, name: &'static str) -> Outcome<&T> {
        self.get().ok_or_else(|| Failure::null(name))
    }

    pub(crate) const fn null() -> Self {
        Self(ptr::null())
    }

    /// As an array of `count` elements.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for null with a count above 0, or an impossible count.
    pub(crate) fn array(&self, count: usize, name: &'static str) -> Outcome<&[T]> {
        if count == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(Failure::null(name));
        }
        if count.saturating_mul(size_of::<T>()) > isize::MAX as usize {
            return Err(Failure::invalid("a count is impossibly large"));
        }
        // SAFETY: not null, and as long as the caller says (the promise above).
        Ok(unsafe { slice::from_raw_parts(self.0, count) })
    }
}

/// A struct of options that begins with its size in bytes, so that it can grow.
///
/// # Safety
/// The type is `repr(C)`, begins with a `usize`, and every bit pattern of the rest is a value: zero means the default.
pub unsafe trait GrowingStruct: Copy {
    /// What a caller who gives no struct gets.
    fn defaults() -> Self;
}

/// `const T *` where `T` begins with its size; null stands for the defaults.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct InSized<T>(*const T);

/// No struct of options is longer, in bytes.
const OPTIONS_BYTES_MAX: usize = 4096;

impl<T: GrowingStruct> InSized<T> {
    /// The options: those of an older caller have defaults behind what it knows; those of a newer one must not ask for
    /// what this library does not know.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for a size that is none, or options from the future that are set.
    pub(crate) fn read(&self, name: &'static str) -> Outcome<T> {
        let mut options = T::defaults();
        if self.0.is_null() {
            return Ok(options);
        }
        // SAFETY: not null, and the struct begins with its size (the promise above, and that of the trait).
        let size = unsafe { ptr::read(self.0.cast::<usize>()) };
        if !(size_of::<usize>()..=OPTIONS_BYTES_MAX).contains(&size) {
            return Err(Failure::invalid(format!(
                "{name}: {size} is not the size of the struct: use the initialiser"
            )));
        }
        // SAFETY: the caller gave that many bytes.
        let given = unsafe { slice::from_raw_parts(self.0.cast::<u8>(), size) };
        let (known, unknown) = given.split_at(size.min(size_of::<T>()));
        if unknown.iter().any(|byte| *byte != 0) {
            return Err(Failure::invalid(format!(
                "{name}: asks for something that this version of the library does not know"
            )));
        }
        let target = ptr::from_mut(&mut options).cast::<u8>();
        // SAFETY: `known` is no longer than `T`, and every bit pattern of it is a value (the promise of the trait).
        unsafe { ptr::copy_nonoverlapping(known.as_ptr(), target, known.len()) };
        Ok(options)
    }
}

/// `T *` for a result.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks that there is a place for the result.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for null.
    #[inline]
    pub(crate) fn require(self, name: &'static str) -> Outcome<Place<T>> {
        if self.0.is_null() {
            Err(Failure::null(name))
        } else {
            Ok(Place(self.0))
        }
    }

    /// Stores `value` if there is a place.
    pub(crate) fn set_if_any(self, value: T) {
        if !self.0.is_null() {
            Place(self.0).set(value);
        }
    }

    /// As an array of `count` places.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for null with a count above 0.
    pub(crate) fn array(self, count: usize, name: &'static str) -> Outcome<Places<T>> {
        if self.0.is_null() && count > 0 {
            return Err(Failure::null(name));
        }
        Ok(Places {
            first: self.0,
            count,
        })
    }
}

/// A place for one result. The old content is overwritten, not dropped.
#[derive(Debug)]
pub(crate) struct Place<T>(*mut T);

impl<T> Place<T> {
    #[inline]
    pub(crate) fn set(&self, value: T) {
        // SAFETY: not null (checked when made), and valid for writing (the promise above).
        unsafe { ptr::write(self.0, value) };
    }
}

/// Places for several results.
#[derive(Debug)]
pub(crate) struct Places<T> {
    first: *mut T,
    count: usize,
}

impl<T> Places<T> {
    /// Stores `value` at `index`; does nothing beyond the end.
    pub(crate) fn set(&self, index: usize, value: T) {
        if index < self.count {
            // SAFETY: within the array that the caller gave.
            let place = unsafe { self.first.add(index) };
            Place(place).set(value);
        }
    }
}

/// `const uint8_t *` with a length beside it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes(*const u8);

impl Bytes {
    /// A key.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for null or an empty one, `TDB_ERR_TOO_LARGE`.
    #[inline]
    pub(crate) fn key(&self, size: usize) -> Outcome<&[u8]> {
        if size == 0 {
            return Err(Failure::invalid("a key has at least one byte"));
        }
        self.at_most(size, limits::KEY_BYTES_MAX, "key")
    }

    /// A value; null stands for an empty one.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for null with a size above 0, `TDB_ERR_TOO_LARGE`.
    #[inline]
    pub(crate) fn value(&self, size: usize) -> Outcome<&[u8]> {
        self.at_most(size, limits::VALUE_BYTES_MAX, "value")
    }

    /// Bytes of which there are `size_max` at most. The limit is checked before anything is looked at.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for null with a size above 0, `TDB_ERR_TOO_LARGE`.
    #[inline]
    pub(crate) fn at_most(
        &self,
        size: usize,
        size_max: usize,
        name: &'static str,
    ) -> Outcome<&[u8]> {
        if size == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(Failure::null(name));
        }
        if size > size_max {
            return Err(Failure::new(
                code::TOO_LARGE,
                format!("{name}: {size} bytes, at most {size_max} are allowed"),
            ));
        }
        // SAFETY: not null, and as long as the caller says (the promise above).
        Ok(unsafe { slice::from_raw_parts(self.0, size) })
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// What a comparator is given: any length, null is empty.
    pub(crate) fn operand(&self, size: usize) -> &[u8] {
        if self.0.is_null() || size == 0 || size > isize::MAX as usize {
            return &[];
        }
        // SAFETY: not null, and as long as the caller says (the promise above).
        unsafe { slice::from_raw_parts(self.0, size) }
    }

    pub(crate) fn from_raw(pointer: *const u8) -> Self {
        Self(pointer)
    }
}

/// `const char *`: text that ends with a zero byte.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

/// The longest path that is looked at, in bytes.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

impl Text {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn from_raw(pointer: *const c_char) -> Self {
        Self(pointer)
    }

    /// The bytes before the zero byte, of which there are `size_max` at most; nothing behind is looked at.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for null, or no zero byte where there must be one.
    pub(crate) fn bytes(&self, size_max: usize, name: &'static str) -> Outcome<&[u8]> {
        if self.0.is_null() {
            return Err(Failure::null(name));
        }
        // SAFETY: reads up to the zero byte or `size_max + 1` bytes, whichever comes first (the promise above).
        let length = unsafe { libc::strnlen(self.0, size_max + 1) };
        if length > size_max {
            return Err(Failure::invalid(format!(
                "{name}: longer than {size_max} bytes"
            )));
        }
        // SAFETY: that many bytes were just looked at.
        Ok(unsafe { slice::from_raw_parts(self.0.cast(), length) })
    }

    /// As [`Text::bytes`], as UTF-8 that is not empty.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS`.
    pub(crate) fn name(&self, size_max: usize, name: &'static str) -> Outcome<&str> {
        let text = std::str::from_utf8(self.bytes(size_max, name)?)
            .map_err(|_| Failure::invalid(format!("{name}: not UTF-8")))?;
        if text.is_empty() {
            return Err(Failure::invalid(format!("{name}: empty")));
        }
        Ok(text)
    }

    /// A path, in the bytes of the file system.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS` for null, an empty one, or one of more than 4096 bytes.
    pub(crate) fn path(&self, name: &'static str) -> Outcome<&std::path::Path> {
        use std::os::unix::ffi::OsStrExt;
        let bytes = self.bytes(PATH_BYTES_MAX, name)?;
        if bytes.is_empty() {
            return Err(Failure::invalid(format!("{name}: empty")));
        }
        Ok(std::path::Path::new(std::ffi::OsStr::from_bytes(bytes)))
    }
}

/// `void *` that is only handed back to the callback it belongs to. Any thread may be the one that calls back: that is
/// part of the contract of every callback in the header.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Context(pub(crate) *mut c_void);

impl Default for Context {
    fn default() -> Self {
        Self(ptr::null_mut())
    }
}

impl Context {
    /// As a whole, so that a closure takes all of it and not the pointer alone.
    pub(crate) fn for_call(self) -> Self {
        self
    }
}

// SAFETY: never dereferenced here; the header says that callbacks are called from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The text of a fixed array of `char`: up to the zero byte.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS` without a zero byte, or for text that is not UTF-8.
pub(crate) fn array_text<'a>(array: &'a [c_char], name: &'static str) -> Outcome<&'a str> {
    // SAFETY: `c_char` and `u8` have the same size and alignment, and every bit pattern is one of each.
    let bytes = unsafe { slice::from_raw_parts(array.as_ptr().cast::<u8>(), array.len()) };
    let length = bytes
        .iter()
        .position(|byte| *byte == 0)
        .ok_or_else(|| Failure::invalid(format!("{name}: no zero byte at its end")))?;
    std::str::from_utf8(&bytes[..length])
        .map_err(|_| Failure::invalid(format!("{name}: not UTF-8")))
}

/// `text` in an array of `char`, cut to what fits with its zero byte.
pub(crate) fn text_array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (to, from) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = from as c_char;
    }
    array
}
