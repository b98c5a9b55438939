//! Starting threads: every world runs its threads on those of the system, or of shuttle under `--cfg shuttle`.

use std::{
    any::Any,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

#[cfg(shuttle)]
use shuttle::thread;
#[cfg(not(shuttle))]
use std::thread;

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

/// Lets other threads run once, those of the simulation for a thread that is in one.
#[inline]
pub fn give_way() {
    #[cfg(simulated)]
    if crate::baton::is_simulated() {
        return crate::baton::pause(28);
    }
    thread::yield_now();
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

/// A thread as people see it.
#[derive(Debug, PartialEq, Eq)]
pub struct ThreadLabel {
    /// Tells the threads of this process apart; from 1, in the order in which they first asked.
    pub number: u64,
    /// The name it was started with; empty when it has none.
    pub name: String,
}

/// The label of the calling thread. The first call of a thread allocates, later ones count a reference.
///
/// ```
/// use kingtide_env::thread_label;
///
/// assert_eq!(thread_label(), thread_label());
/// let other = std::thread::spawn(thread_label).join().expect("no panic");
/// assert_ne!(thread_label().number, other.number);
/// ```
#[must_use]
pub fn thread_label() -> Arc<ThreadLabel> {
    // Statics of the real world: labels are for people, and no model depends on them.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static LABEL: Arc<ThreadLabel> = Arc::new(ThreadLabel {
            // Relaxed: only that numbers differ matters.
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            name: std::thread::current().name().unwrap_or_default().to_owned(),
        });
    }
    LABEL.with(Arc::clone)
}

/// A number that tells the calling thread from most others, for what is kept in several places so that threads do not meet:
/// of threads that are started after each other, numbers follow each other. In a simulation it is the thread's number there.
///
/// ```
/// use kingtide_env::thread_slot;
///
/// assert_eq!(thread_slot(), thread_slot());
/// let other = std::thread::spawn(thread_slot).join().expect("no panic");
/// assert_ne!(thread_slot(), other);
/// ```
#[must_use]
#[inline]
pub fn thread_slot() -> usize {
    #[cfg(simulated)]
    if let Some(number) = crate::baton::current_number() {
        return number;
    }
    // A static of the real world, as above.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: only that numbers differ matters.
        static SLOT: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that ends has no variables any more; what it still does is rare.
    SLOT.try_with(|slot| *slot).unwrap_or_default()
}
