//! Which calls fail, and how.

use std::{collections::BTreeMap, fmt, io, path::Path, sync::Arc};

use crate::sync::Mutex;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Opening an existing file, or a directory without `create`.
    Open,
    /// Opening a file with [`crate::OpenMode::CreateNew`], or a directory with `create`, whether it exists or not.
    Create,
    /// [`crate::File::read_at`].
    Read,
    /// [`crate::File::write_at`].
    Write,
    /// [`crate::File::allocate`] and [`crate::File::set_len`].
    Allocate,
    /// [`crate::File::sync`].
    Sync,
    /// [`crate::Directory::rename`]; either name matches.
    Rename,
    /// [`crate::Directory::remove`] and [`crate::Directory::remove_directory`].
    Remove,
    /// [`crate::Directory::link`]; either name matches.
    Link,
    /// [`crate::Directory::list`]; the name is the path of the directory.
    List,
    /// [`crate::Directory::sync`]; the name is the path of the directory.
    DirectorySync,
    /// [`crate::Directory::lock`].
    Lock,
    /// [`crate::File::prepare_window`].
    Window,
    /// [`crate::File::len`].
    Length,
    /// [`crate::Directory::available_bytes`]; the name is the path of the directory.
    Space,
    /// [`crate::Env::canonical_path`]; the name is the path.
    Resolve,
    /// [`crate::Env::spawn`]; the name is that of the thread.
    Spawn,
}

impl Operation {
    pub(super) fn of_directory(create: bool) -> Self {
        if create { Self::Create } else { Self::Open }
    }
}

/// How often a rule strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// At the n-th call only.
    Once,
    /// At the n-th call and at all that follow.
    Forever,
}

/// Makes calls fail.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which calls.
    pub operation: Operation,
    /// Only those whose file or directory name contains this; empty for all. For files this is the name in their
    /// directory, not the path.
    pub name_contains: String,
    /// From which matching call on, counted from when the rule was added; 1 (and 0) is the next.
    pub nth: u64,
    /// What they answer.
    pub error: io::ErrorKind,
    /// How often.
    pub times: Times,
}

/// What is wrong with what a read brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Only the first half of the bytes comes, as if the file ended there.
    ShortRead,
    /// The bit with this number (modulo the bits read; bit 0 is the lowest of the first byte) is flipped.
    FlipBit(u64),
}

/// Makes reads bring back something else than what was written. The file itself stays as it is.
#[derive(Clone, Debug)]
pub struct ReadRule {
    /// Only reads of files whose name contains this; empty for all.
    pub name_contains: String,
    /// From which matching read on, counted from when the rule was added; 1 (and 0) is the next.
    pub nth: u64,
    /// What is wrong.
    pub fault: Fault,
    /// How often.
    pub times: Times,
}

/// Decides what becomes of a call, on the thread that makes it: it passes, fails with an error, or, if it reads, brings
/// something else back.
pub type Judge = dyn Fn(Operation) -> io::Result<Option<Fault>> + Send + Sync;

/// What a rule looks at.
#[derive(Clone, Copy)]
pub(super) enum Name<'a> {
    /// A name in a directory.
    Plain(&'a str),
    /// Two names, of which either matches.
    Either(&'a str, &'a str),
    /// The path of a directory.
    Path(&'a Path),
}

impl Name<'_> {
    fn contains(self, part: &str) -> bool {
        match self {
            Self::Plain(name) => name.contains(part),
            Self::Either(first, second) => first.contains(part) || second.contains(part),
            Self::Path(path) => path.to_string_lossy().contains(part),
        }
    }
}

/// A rule and how many calls it still lets pass.
#[derive(Debug)]
struct Armed<T> {
    name_contains: String,
    /// The number of the next matching call at which the rule strikes; `None` when it is spent.
    strikes_in: Option<u64>,
    times: Times,
    effect: T,
}

impl<T: Copy> Armed<T> {
    fn new(name_contains: String, nth: u64, times: Times, effect: T) -> Self {
        Self {
            name_contains,
            strikes_in: Some(nth.max(1)),
            times,
            effect,
        }
    }

    /// The effect, if the rule strikes this call.
    fn strike(&mut self, name: Name<'_>) -> Option<T> {
        let calls = self.strikes_in?;
        if !name.contains(&self.name_contains) {
            return None;
        }
        if calls > 1 {
            self.strikes_in = Some(calls - 1);
            return None;
        }
        if self.times == Times::Once {
            self.strikes_in = None;
        }
        Some(self.effect)
    }
}

#[derive(Debug, Default)]
struct RuleBook {
    errors: Vec<(Operation, Armed<io::ErrorKind>)>,
    reads: Vec<Armed<Fault>>,
    counts: BTreeMap<Operation, u64>,
}

/// The rules of a world, shared by all its handles.
#[derive(Default)]
pub(super) struct Rules {
    book: Mutex<RuleBook>,
    judge: Option<Arc<Judge>>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("book", &self.book)
            .finish_non_exhaustive()
    }
}

impl Rules {
    pub(super) fn judged_by(judge: Arc<Judge>) -> Self {
        Self {
            book: Mutex::default(),
            judge: Some(judge),
        }
    }

    pub(super) fn add(&self, rule: Rule) {
        let armed = Armed::new(rule.name_contains, rule.nth, rule.times, rule.error);
        self.book.lock().errors.push((rule.operation, armed));
    }

    pub(super) fn add_read(&self, rule: ReadRule) {
        let armed = Armed::new(rule.name_contains, rule.nth, rule.times, rule.fault);
        self.book.lock().reads.push(armed);
    }

    pub(super) fn clear(&self) {
        let mut book = self.book.lock();
        book.errors.clear();
        book.reads.clear();
    }

    pub(super) fn counts(&self) -> BTreeMap<Operation, u64> {
        self.book.lock().counts.clone()
    }

    /// Counts a call. Answers what the judge changes about a read.
    ///
    /// # Errors
    /// The error of the judge, or of the rule that strikes the call.
    pub(super) fn check(&self, operation: Operation, name: Name<'_>) -> io::Result<Option<Fault>> {
        // Before the lock is taken: a judge may look at the thread's stack.
        let judged = match &self.judge {
            Some(judge) => judge(operation),
            None => Ok(None),
        };
        let mut book = self.book.lock();
        *book.counts.entry(operation).or_default() += 1;
        // Every rule sees the call, also when an earlier one struck: each counts on its own.
        let mut error = None;
        for (of, armed) in &mut book.errors {
            if *of == operation {
                error = error.or(armed.strike(name));
            }
        }
        match error {
            None => judged,
            Some(kind) => Err(io::Error::new(
                kind,
                format!("{operation:?} fails by a rule of the test"),
            )),
        }
    }

    /// What is wrong with the read of `name`, if something is.
    pub(super) fn read_fault(&self, name: Name<'_>) -> Option<Fault> {
        let mut fault = None;
        for armed in &mut self.book.lock().reads {
            fault = fault.or(armed.strike(name));
        }
        fault
    }
}
