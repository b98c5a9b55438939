//! The border between C and Rust: outcomes become codes, panics stop here, and what went wrong is kept for the thread.
//!
//! Every exported function is one call of [`answer`]. No unwinding leaves it: a panic becomes `TDB_ERR_UNKNOWN`. C code
//! that is called back must not unwind into Rust (a C++ exception, `longjmp`): the headers say so.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    ffi::{CString, c_char, c_int},
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    thread::LocalKey,
};

use kingtide::{Conflict, Error, ErrorKind};

use crate::handle::Refused;

/// The codes of the interface.
pub(crate) mod code {
    use std::ffi::c_int;

    pub(crate) const SUCCESS: c_int = 0;
    pub(crate) const MEMORY: c_int = -1;
    pub(crate) const INVALID_ARGS: c_int = -2;
    pub(crate) const NOT_FOUND: c_int = -3;
    pub(crate) const IO: c_int = -4;
    pub(crate) const CORRUPTION: c_int = -5;
    pub(crate) const EXISTS: c_int = -6;
    pub(crate) const CONFLICT: c_int = -7;
    pub(crate) const TOO_LARGE: c_int = -8;
    pub(crate) const MEMORY_LIMIT: c_int = -9;
    pub(crate) const INVALID_DB: c_int = -10;
    pub(crate) const UNKNOWN: c_int = -11;
    pub(crate) const LOCKED: c_int = -12;
    pub(crate) const READONLY: c_int = -13;
    pub(crate) const BUSY: c_int = -14;
    pub(crate) const PRECONDITION: c_int = -15;
}

/// The exact kinds, as `kt_error_kind_t` numbers them; 0 is none. A number is never given to another kind.
pub(crate) mod kind {
    use std::ffi::c_int;

    pub(crate) const INVALID_ARGUMENT: c_int = 1;
    pub(crate) const NOT_FOUND: c_int = 2;
    pub(crate) const ALREADY_EXISTS: c_int = 3;
    pub(crate) const LOCKED: c_int = 4;
    pub(crate) const READ_ONLY: c_int = 5;
    pub(crate) const TOO_LARGE: c_int = 6;
    pub(crate) const BUSY: c_int = 7;
    pub(crate) const CONFLICT: c_int = 8;
    pub(crate) const DISK_FULL: c_int = 9;
    pub(crate) const IO: c_int = 10;
    pub(crate) const CORRUPTION: c_int = 11;
    pub(crate) const OUTCOME_UNKNOWN: c_int = 12;
    pub(crate) const REOPEN_REQUIRED: c_int = 13;
    pub(crate) const COMPARATOR_MISSING: c_int = 14;
    pub(crate) const NEWER_VERSION: c_int = 15;
    pub(crate) const CLOSED: c_int = 16;
    pub(crate) const MEMORY_LIMIT: c_int = 17;
    pub(crate) const ABORTED: c_int = 18;
    pub(crate) const OUT_OF_MEMORY: c_int = 19;
    pub(crate) const BAD_HANDLE: c_int = 20;
    pub(crate) const HANDLE_IN_USE: c_int = 21;
    pub(crate) const INTERNAL: c_int = 22;
}

/// A call has failed. This is its code alone, so that what steps answer goes through a register; the rest is kept for
/// `kt_last_error_*` of the thread as soon as a failure is made: make one only to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(NonZero<c_int>);

/// What every step of a call answers.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure with the kind that usually goes with `code`.
    pub(crate) fn new(code: c_int, message: impl Into<Cow<'static, str>>) -> Self {
        Self::of_kind((code, usual_kind(code)), message)
    }

    /// A failure with code and kind.
    pub(crate) fn of_kind(codes: (c_int, c_int), message: impl Into<Cow<'static, str>>) -> Self {
        Self::keep(codes, message.into(), None)
    }

    /// An error of the engine, with a code and a kind.
    #[cold]
    pub(crate) fn of_engine(codes: (c_int, c_int), error: &Error) -> Self {
        let conflict = error.conflict().cloned().map(Box::new);
        Self::keep(codes, error.to_string().into(), conflict)
    }

    /// Keeps a failure for `kt_last_error_*` of this thread.
    fn keep(
        (code, kind): (c_int, c_int),
        message: Cow<'static, str>,
        conflict: Option<Box<Conflict>>,
    ) -> Self {
        const NO_CODE: NonZero<c_int> = NonZero::new(code::UNKNOWN).expect("is not 0");
        // A thread that is ending has no place for it any more.
        let _ = LAST.try_with(|last| {
            let mut last = last.borrow_mut();
            last.code = code;
            last.kind = kind;
            last.message = Some(message);
            last.text = None;
            last.conflict = conflict;
            last.family = None;
        });
        debug_assert!(code != code::SUCCESS, "a failure has a code");
        Self(NonZero::new(code).unwrap_or(NO_CODE))
    }

    /// What the caller gets.
    pub(crate) fn code(self) -> c_int {
        self.0.get()
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_ARGS, message)
    }

    #[cold]
    pub(crate) fn null(name: &'static str) -> Self {
        Self::invalid(format!("{name}: must not be null"))
    }

    pub(crate) fn memory() -> Self {
        Self::new(code::MEMORY, "out of memory")
    }

    /// A handle that is not what it should be.
    #[cold]
    pub(crate) fn handle(name: &'static str, refused: Refused) -> Self {
        let (code, kind, why) = match refused {
            Refused::Null => (
                code::INVALID_ARGS,
                kind::INVALID_ARGUMENT,
                "must not be null",
            ),
            Refused::Foreign => (
                code::INVALID_ARGS,
                kind::BAD_HANDLE,
                "not a handle of this kind",
            ),
            Refused::Stale => (
                code::INVALID_ARGS,
                kind::BAD_HANDLE,
                "freed or closed before",
            ),
            Refused::InUse => (
                code::BUSY,
                kind::HANDLE_IN_USE,
                "in use by another thread, or by a caller further up this one's stack",
            ),
            Refused::Forked => (
                code::INVALID_DB,
                kind::BAD_HANDLE,
                "belongs to the parent of this process: open the database again",
            ),
        };
        Self::of_kind((code, kind), format!("{name}: {why}"))
    }
}

fn usual_kind(code: c_int) -> c_int {
    match code {
        code::MEMORY => kind::OUT_OF_MEMORY,
        code::INVALID_ARGS => kind::INVALID_ARGUMENT,
        code::NOT_FOUND => kind::NOT_FOUND,
        code::IO => kind::IO,
        code::CORRUPTION => kind::CORRUPTION,
        code::EXISTS => kind::ALREADY_EXISTS,
        code::CONFLICT => kind::CONFLICT,
        code::TOO_LARGE => kind::TOO_LARGE,
        code::INVALID_DB => kind::CLOSED,
        code::MEMORY_LIMIT => kind::MEMORY_LIMIT,
        code::LOCKED => kind::LOCKED,
        code::READONLY => kind::READ_ONLY,
        code::BUSY => kind::BUSY,
        code::PRECONDITION => kind::COMPARATOR_MISSING,
        _ => kind::INTERNAL,
    }
}

/// The code and the exact kind of an error of the engine; the table is in docs/abi.md.
pub(crate) fn codes(error: &Error) -> (c_int, c_int) {
    match error.kind() {
        ErrorKind::InvalidArgument => (code::INVALID_ARGS, kind::INVALID_ARGUMENT),
        ErrorKind::NotFound => (code::NOT_FOUND, kind::NOT_FOUND),
        ErrorKind::AlreadyExists => (code::EXISTS, kind::ALREADY_EXISTS),
        ErrorKind::Locked => (code::LOCKED, kind::LOCKED),
        ErrorKind::ReadOnly => (code::READONLY, kind::READ_ONLY),
        ErrorKind::TooLarge => (code::TOO_LARGE, kind::TOO_LARGE),
        ErrorKind::Busy => (code::BUSY, kind::BUSY),
        ErrorKind::Conflict => (code::CONFLICT, kind::CONFLICT),
        ErrorKind::MemoryLimit => (code::MEMORY_LIMIT, kind::MEMORY_LIMIT),
        // As every call on a transaction that is finished.
        ErrorKind::Aborted => (code::INVALID_ARGS, kind::ABORTED),
        ErrorKind::DiskFull => (code::IO, kind::DISK_FULL),
        ErrorKind::Io => (code::IO, kind::IO),
        ErrorKind::Corruption => (code::CORRUPTION, kind::CORRUPTION),
        ErrorKind::OutcomeUnknown => (code::IO, kind::OUTCOME_UNKNOWN),
        ErrorKind::ReopenRequired => (code::IO, kind::REOPEN_REQUIRED),
        ErrorKind::ComparatorMissing => (code::PRECONDITION, kind::COMPARATOR_MISSING),
        ErrorKind::NewerVersion => (code::INVALID_DB, kind::NEWER_VERSION),
        ErrorKind::Closed => (code::INVALID_DB, kind::CLOSED),
        _ => (code::UNKNOWN, kind::INTERNAL),
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Self::of_engine(codes(&error), &error)
    }
}

/// What a thread was last told went wrong.
#[derive(Default)]
struct Last {
    code: c_int,
    kind: c_int,
    message: Option<Cow<'static, str>>,
    /// The message with a zero byte, once it was asked for.
    text: Option<CString>,
    conflict: Option<Box<Conflict>>,
    /// The family of the conflict with a zero byte, once it was asked for.
    family: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const {
        RefCell::new(Last { code: 0, kind: 0, message: None, text: None, conflict: None, family: None })
    };
    /// Callbacks of the user that this thread is inside of.
    static CALLBACKS: Cell<u32> = const { Cell::new(0) };
    /// Commit hooks that this thread is inside of.
    static HOOKS: Cell<u32> = const { Cell::new(0) };
}

pub(crate) fn last_code() -> c_int {
    LAST.try_with(|last| last.borrow().code).unwrap_or(0)
}

pub(crate) fn last_kind() -> c_int {
    LAST.try_with(|last| last.borrow().kind).unwrap_or(0)
}

/// The text of the last failure; lives until the thread's next failure.
pub(crate) fn last_message() -> *const c_char {
    let text = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        if last.text.is_none() {
            let message = last.message.as_deref().unwrap_or("").replace('\0', " ");
            last.text = CString::new(message).ok();
        }
        last.text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
    });
    match text {
        Ok(text) if !text.is_null() => text,
        _ => c"".as_ptr(),
    }
}

/// The family and the key of the last failure, if it was a conflict; they live until the thread's next failure.
pub(crate) fn last_conflict() -> Option<(*const c_char, *const u8, usize)> {
    let conflict = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        let conflict = last.conflict.as_deref()?;
        let (key, size) = (conflict.key.as_ptr(), conflict.key.len());
        if last.family.is_none() {
            let family = last.conflict.as_deref()?.family.replace('\0', " ");
            last.family = CString::new(family).ok();
        }
        Some((last.family.as_ref()?.as_ptr(), key, size))
    });
    conflict.ok().flatten()
}

pub(crate) fn forget_last() {
    let _ = LAST.try_with(|last| *last.borrow_mut() = Last::default());
}

/// The body of an exported function that answers a code.
#[inline]
pub(crate) fn answer(body: impl FnOnce() -> Outcome<()>) -> c_int {
    answer_with(|| body().map(|()| code::SUCCESS), |code| code)
}

/// The body of an exported function that answers something else; `failed` makes that of a code.
#[inline]
pub(crate) fn answer_with<T>(
    body: impl FnOnce() -> Outcome<T>,
    failed: impl FnOnce(c_int) -> T,
) -> T {
    // What a panic leaves half done is behind handles of the engine, which refuse what they cannot finish.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => result,
        Ok(Err(failure)) => failed(failure.code()),
        Err(payload) => {
            // Dropping what a panic carries may panic again.
            std::mem::forget(payload);
            let why = "a bug in Kingtide: the call panicked; the text is on standard error";
            failed(Failure::new(code::UNKNOWN, why).code())
        }
    }
}

macro_rules! inside {
    ($($(#[$doc:meta])* $name:ident = $depth:ident),+ $(,)?) => {$(
        $(#[$doc])*
        pub(crate) struct $name(());

        impl $name {
            #[inline]
            pub(crate) fn enter() -> Self {
                // A thread that is ending keeps no depth: nothing is refused then.
                let _ = $depth.try_with(|depth| depth.set(depth.get() + 1));
                Self(())
            }
        }

        impl Drop for $name {
            #[inline]
            fn drop(&mut self) {
                let _ = $depth.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
            }
        }
    )+};
}

inside!(
    /// Marks this thread as inside a comparator, or a callback like it, for as long as it lives.
    InCallback = CALLBACKS,
    /// Marks this thread as inside a commit hook for as long as it lives.
    InHook = HOOKS,
);

fn refuse_inside(depth: &'static LocalKey<Cell<u32>>) -> Outcome<()> {
    if depth.try_with(Cell::get).unwrap_or(0) == 0 {
        return Ok(());
    }
    Err(Failure::new(
        code::BUSY,
        "called from inside a callback, which this call would wait for",
    ))
}

/// Refuses, inside a commit hook, what waits for all calls: closing.
///
/// # Errors
/// `TDB_ERR_BUSY`.
pub(crate) fn not_in_hook() -> Outcome<()> {
    refuse_inside(&HOOKS)
}

/// Refuses, inside a comparator, what may wait for the caller of the comparator.
///
/// # Errors
/// `TDB_ERR_BUSY`.
pub(crate) fn not_in_callback() -> Outcome<()> {
    refuse_inside(&CALLBACKS)
}

#[cfg(test)]
mod tests;
