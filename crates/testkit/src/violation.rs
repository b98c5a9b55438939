//! A broken promise, with what is needed to see it again.

use std::{any::Any, error, fmt, panic};

/// Says which promise was broken and how.
#[derive(Clone, Debug)]
pub struct Violation {
    message: String,
}

/// What checks return.
pub type Checked<T = ()> = Result<T, Violation>;

impl Violation {
    /// A violation that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// The same, with where it happened in front.
    #[must_use]
    pub fn within(self, place: impl fmt::Display) -> Self {
        Self::new(format!("{place}: {}", self.message))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for Violation {}

/// An error of the database where the history expects success.
impl From<kingtide::Error> for Violation {
    fn from(error: kingtide::Error) -> Self {
        Self::new(format!("unexpected error {:?}: {error}", error.kind()))
    }
}

impl From<std::io::Error> for Violation {
    fn from(error: std::io::Error) -> Self {
        Self::new(format!("input or output failed: {error}"))
    }
}

/// Fails with `message` unless `holds`.
///
/// # Errors
/// The violation.
pub fn ensure(holds: bool, message: impl FnOnce() -> String) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Violation::new(message()))
    }
}

/// Runs `body` and turns a panic in it into a violation: nothing may make the database panic.
///
/// # Errors
/// What `body` answers, or the message of its panic.
pub fn no_panic<T>(body: impl FnOnce() -> Checked<T>) -> Checked<T> {
    // What the closure touches is dropped by the caller after a violation, so a broken invariant in it is not seen.
    panic::catch_unwind(panic::AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(Violation::new(format!("panic: {}", message_of(&*panic)))))
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("of unknown kind")
}
