//! Starting threads: every world runs its threads on those of the system.

use std::{any::Any, io, thread};

use crate::JoinHandle;

/// Starts a thread named `name` that runs `body`.
///
/// # Errors
/// What the system answers when it has no thread to give; `InvalidInput` for a name with a zero byte.
pub(crate) fn spawn(name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle> {
    // `Builder::name` panics on a zero byte.
    if name.bytes().any(|byte| byte == 0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a thread's name has no zero byte",
        ));
    }
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
    Ok(JoinHandle::new(Box::new(move || {
        thread
            .join()
            .map_err(|payload| panic_message(payload.as_ref()))
    })))
}

/// The text of a panic; panics raised with other values have none.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}
