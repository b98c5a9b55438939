//! Commit hooks: user code that is told of every commit to one family.
//!
//! A commit takes a *ticket* of each hooked family inside the ordered step: a number of that family, and the hook that is
//! set at that moment. When the commit is durable and visible, its thread waits until all smaller tickets are done, makes
//! the call, and is done itself. So the calls of one family come one at a time in the order of sequence numbers, and a
//! hook is told of exactly the commits between the moment it was set and the moment it was cleared. A ticket that is
//! dropped without a call (the outcome of the commit is unknown) counts as done once its turn comes.
//!
//! A commit that is made inside a hook does not wait for tickets: its calls are put off until the hook that runs on this
//! thread has returned. Therefore no two hooks wait for each other. Proof: order all tickets by the moment they were
//! taken. Every family's calls are made in that order, and so are those of every thread, because a thread takes tickets
//! of a later commit only after those of an earlier one and makes put-off calls first in, first out. The thread that has
//! the first of all tickets that are not done is therefore in user code, in its commit, or about to make that very call;
//! it waits for no ticket. (Several databases in one process are covered: the moments are ordered all the same.)
//!
//! Cost: one relaxed load for each family in a commit while no hook is set. Not kept here: hooks are not stored, and what
//! they are told is not repeated after a crash.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, VecDeque},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::Arc,
};

use kingtide_base::SeqNo;
use kingtide_env::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::error::{Error, ErrorKind, Result};

/// User code that is told of every commit to a column family; see [`Db::set_commit_hook`](crate::Db::set_commit_hook).
/// An error it returns is counted, and its text is kept for the statistics; it changes nothing about the commit.
pub type CommitHook =
    Arc<dyn Fn(&CommitEvent<'_>) -> std::result::Result<(), String> + Send + Sync>;

/// One operation of a commit, as the transaction made it. The bytes are borrowed for the time of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitOperation<'a> {
    /// A key was set. A value that was spilled is read back as a whole for the call; if that fails, the call is not made,
    /// and counts as a failure of the hook.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
        /// When it expires, in Unix seconds; 0 for never.
        expires_at: i64,
    },
    /// A key was deleted.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// A key that was put once was deleted.
    SingleDelete {
        /// The key.
        key: &'a [u8],
    },
    /// All keys of a range were deleted.
    RangeDelete {
        /// The first key of the range.
        start: &'a [u8],
        /// The end of the range, which is not in it; empty when the range has no end.
        end: &'a [u8],
    },
}

/// The operations of one commit on one family.
pub(crate) trait OperationList {
    /// How many there are.
    fn count(&self) -> usize;
    /// The operation at `index`, which is below the count.
    fn operation(&self, index: usize) -> CommitOperation<'_>;
}

/// What a hook is told: the part of one commit that went to its family. Borrowed for the time of the call.
#[derive(Clone, Copy)]
pub struct CommitEvent<'a> {
    family: &'a str,
    sequence: SeqNo,
    operations: &'a dyn OperationList,
}

impl<'a> CommitEvent<'a> {
    /// The name of the family now.
    #[must_use]
    pub fn family(&self) -> &'a str {
        self.family
    }

    /// The commit's place in the order of all commits. From call to call of one hook it grows.
    #[must_use]
    pub fn sequence(&self) -> SeqNo {
        self.sequence
    }

    /// How many operations there are; at least 1.
    #[must_use]
    pub fn operation_count(&self) -> usize {
        self.operations.count()
    }

    /// The operations in the order in which the transaction made them, several of one key included.
    pub fn operations(&self) -> impl ExactSizeIterator<Item = CommitOperation<'a>> + use<'a> {
        let operations = self.operations;
        (0..operations.count()).map(move |index| operations.operation(index))
    }
}

impl fmt::Debug for CommitEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitEvent")
            .field("family", &self.family)
            .field("sequence", &self.sequence)
            .field("operations", &self.operation_count())
            .finish()
    }
}

/// The hook of one family, and whose turn it is. See the module.
pub(crate) struct HookQueue {
    /// Changed inside the commit lock, where commits look at it.
    is_set: AtomicBool,
    calls: AtomicU64,
    failures: AtomicU64,
    state: Mutex<HookState>,
    /// A turn ended.
    turn: Condvar,
}

#[derive(Default)]
struct HookState {
    hook: Option<CommitHook>,
    /// The number of the next ticket.
    next: u64,
    /// The ticket whose turn it is; all smaller ones are done.
    serving: u64,
    /// Tickets that were given up before their turn.
    abandoned: BTreeSet<u64>,
    last_failure: Option<String>,
}

/// Counts of one family's hook since the open.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookCounts {
    pub(crate) calls: u64,
    pub(crate) failures: u64,
    pub(crate) last_failure: Option<String>,
}

impl HookQueue {
    /// A queue without a hook.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            is_set: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            state: Mutex::new(HookState::default()),
            turn: Condvar::new(),
        })
    }

    /// Sets or clears the hook. Call inside the commit lock, and drop what it answers outside it.
    pub(crate) fn replace(&self, hook: Option<CommitHook>) -> Replaced {
        let mut state = self.state.lock();
        // Relaxed: commits that must see it look inside the commit lock; others only save themselves a look.
        self.is_set.store(hook.is_some(), Ordering::Relaxed);
        Replaced {
            until: state.next,
            hook: std::mem::replace(&mut state.hook, hook),
        }
    }

    /// Waits until the hook that was replaced is told of nothing any more. Inside a hook it does not wait.
    pub(crate) fn settle(&self, replaced: Replaced) {
        drop(replaced.hook);
        if is_inside_any() {
            return;
        }
        let mut state = self.state.lock();
        while state.serving < replaced.until {
            state = self.turn.wait(state);
        }
    }

    /// The ticket of the next commit, when a hook is set. Call inside the commit lock.
    #[inline]
    pub(crate) fn ticket(self: &Arc<Self>) -> Option<HookTicket> {
        // Relaxed: stored and loaded inside the commit lock.
        if !self.is_set.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = self.state.lock();
        let hook = state.hook.clone()?;
        let number = state.next;
        state.next += 1;
        Some(HookTicket {
            queue: Arc::clone(self),
            number,
            hook: Some(hook),
        })
    }

    /// Refuses a write to this family by its own hook.
    ///
    /// # Errors
    /// `Busy`.
    #[inline]
    pub(crate) fn check_outside(&self) -> Result<()> {
        // Relaxed: a hook that is running on this thread was set before.
        if self.is_set.load(Ordering::Relaxed) && CURRENT.get() == ptr::from_ref(self) {
            return Err(Error::new(
                ErrorKind::Busy,
                "a commit hook cannot write to the column family whose commit it is told of",
            ));
        }
        Ok(())
    }

    /// Calls and failures since the open.
    pub(crate) fn counts(&self) -> HookCounts {
        // Relaxed: statistics.
        HookCounts {
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            last_failure: self.state.lock().last_failure.clone(),
        }
    }

    fn note(&self, outcome: std::result::Result<(), String>) {
        // Relaxed: statistics.
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Err(message) = outcome {
            self.failures.fetch_add(1, Ordering::Relaxed);
            self.state.lock().last_failure = Some(message);
        }
    }
}

/// The hook that another one took the place of, and the first ticket that is not its own.
pub(crate) struct Replaced {
    until: u64,
    hook: Option<CommitHook>,
}

/// A commit's place in the calls of one family. Dropping it ends its turn, or gives it up.
pub(crate) struct HookTicket {
    queue: Arc<HookQueue>,
    number: u64,
    hook: Option<CommitHook>,
}

impl HookTicket {
    /// Waits for the turn and makes the call.
    pub(crate) fn call(mut self, family: &str, sequence: SeqNo, operations: &dyn OperationList) {
        self.wait_turn();
        let Some(hook) = self.hook.take() else { return };
        let event = CommitEvent {
            family,
            sequence,
            operations,
        };
        // The hook is not used again with what it left half done, unless the user's own code does so: its captures are
        // shared state of the user, for whom a panic in a hook is like one in any thread.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _inside = Inside::enter(&self.queue);
            let outcome = hook(&event);
            drop(hook);
            outcome
        }));
        self.queue
            .note(outcome.unwrap_or_else(|panic| Err(panic_text(panic.as_ref()))));
    }

    /// Waits for the turn and lets it pass: the call cannot be made because of `message`. Counts as a failure of the hook.
    pub(crate) fn fail(self, message: String) {
        self.wait_turn();
        self.queue.note(Err(message));
    }

    /// Waits until all smaller tickets are done.
    fn wait_turn(&self) {
        let mut state = self.queue.state.lock();
        while state.serving != self.number {
            state = self.queue.turn.wait(state);
        }
    }
}

impl Drop for HookTicket {
    fn drop(&mut self) {
        // What the user's closure owns may be freed here: outside the lock, and before the turn ends.
        drop(self.hook.take());
        let mut state = self.queue.state.lock();
        if state.serving != self.number {
            state.abandoned.insert(self.number);
            return;
        }
        state.serving += 1;
        loop {
            let serving = state.serving;
            if !state.abandoned.remove(&serving) {
                break;
            }
            state.serving += 1;
        }
        self.queue.turn.notify_all();
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a panic: {}", text.unwrap_or("of an unknown type"))
}

/// A call that was put off because its commit was made inside a hook.
pub(crate) struct PutOff {
    pub(crate) ticket: HookTicket,
    pub(crate) family: String,
    pub(crate) sequence: SeqNo,
    pub(crate) operations: Box<dyn OperationList>,
}

thread_local! {
    /// The queue whose hook runs on this thread; null outside of hooks. Only compared, never followed.
    static CURRENT: Cell<*const HookQueue> = const { Cell::new(ptr::null()) };
    static PUT_OFF: RefCell<VecDeque<PutOff>> = const { RefCell::new(VecDeque::new()) };
}

/// True while a hook runs on this thread.
pub(crate) fn is_inside_any() -> bool {
    !CURRENT.get().is_null()
}

/// Marks this thread as inside a hook, also when the hook panics.
struct Inside;

impl Inside {
    fn enter(queue: &Arc<HookQueue>) -> Self {
        CURRENT.set(Arc::as_ptr(queue));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

/// Keeps a call until the hook that runs on this thread has returned.
pub(crate) fn put_off(call: PutOff) {
    // Where the thread is ending and its storage is gone, the call is skipped, as after a crash: the ticket is dropped.
    let _ = PUT_OFF.try_with(|calls| calls.borrow_mut().push_back(call));
}

/// Makes the calls that were put off on this thread, and those that are put off meanwhile. Call outside of hooks.
pub(crate) fn call_put_off() {
    while let Some(call) = PUT_OFF
        .try_with(|calls| calls.borrow_mut().pop_front())
        .ok()
        .flatten()
    {
        call.ticket
            .call(&call.family, call.sequence, call.operations.as_ref());
    }
}

#[cfg(test)]
mod tests;
