//! Which place in the engine makes a call: found on the calling thread's stack.
//!
//! A *site* is a line of the engine's source that calls into the world. Nothing in the engine knows of it: the world with
//! faults is asked about every call on the thread that makes it, and walks up the stack to the first function of the
//! engine. The addresses of a program do not move while it runs, so each is looked up in the debug information once.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, io,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use kingtide_env::{Env, Fault, FaultyEnv, Operation};

/// The crates whose calls are sites, by the folder of their sources.
pub const CRATES: [&str; 2] = ["crates/kingtide/src", "crates/table/src"];

/// A place that calls into the world.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The source file, from the root of the repository.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// What is called there.
    pub operation: Operation,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {:?}", self.file, self.line, self.operation)
    }
}

/// What is done to the calls of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The call fails with this error of the system. Writes have written half.
    Error(i32),
    /// A read brings back half of what is there.
    ShortRead,
}

/// A site whose calls are harmed.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where.
    pub site: Site,
    /// How.
    pub harm: Harm,
    /// From which call on, counted from 1.
    pub nth: u64,
    /// Also all later calls, until [`Watch::lift`].
    pub for_good: bool,
}

#[derive(Debug, Default)]
struct Seen {
    calls: BTreeMap<Site, u64>,
    targets: Vec<Target>,
    struck: u64,
}

/// What a world with faults saw, and whom it harms.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    seen: Arc<Mutex<Seen>>,
}

impl Watch {
    /// `inner` as seen by a database whose calls are watched, and harmed as `targets` say.
    #[must_use]
    pub fn over(inner: Arc<dyn Env>, targets: Vec<Target>) -> (Self, FaultyEnv) {
        let watch = Self::default();
        watch.lock().targets = targets;
        let judging = watch.clone();
        let judge = Arc::new(move |operation| judging.judge(operation));
        (watch, FaultyEnv::judged_by(inner, judge))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls each site has made.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<Site, u64> {
        self.lock().calls.clone()
    }

    /// How many calls were harmed.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.lock().struck
    }

    /// Harms nothing any more.
    pub fn lift(&self) {
        self.lock().targets.clear();
    }

    fn judge(&self, operation: Operation) -> io::Result<Option<Fault>> {
        let Some((file, line)) = calling_line() else {
            return Ok(None);
        };
        let site = Site {
            file,
            line,
            operation,
        };
        let mut seen = self.lock();
        let count = seen.calls.entry(site.clone()).or_default();
        *count += 1;
        let count = *count;
        let is_due = |target: &&Target| {
            target.site == site && (count == target.nth || (target.for_good && count > target.nth))
        };
        let Some(harm) = seen.targets.iter().find(is_due).map(|target| target.harm) else {
            return Ok(None);
        };
        seen.struck += 1;
        match harm {
            Harm::Error(number) => Err(io::Error::from_raw_os_error(number)),
            Harm::ShortRead => Ok(Some(Fault::ShortRead)),
        }
    }
}

/// The place of an address, if it is in the engine.
type Place = Option<(String, u32)>;

/// The innermost place of the engine on this thread's stack.
fn calling_line() -> Place {
    static PLACES: OnceLock<Mutex<HashMap<usize, Place>>> = OnceLock::new();
    let places = PLACES.get_or_init(Mutex::default);
    let mut found = None;
    backtrace::trace(|frame| {
        let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places
            .entry(frame.ip() as usize)
            .or_insert_with(|| place_of(frame));
        found.clone_from(place);
        found.is_none()
    });
    found
}

/// The innermost place of the engine among the functions that were inlined into one frame.
fn place_of(frame: &backtrace::Frame) -> Place {
    let mut found = None;
    backtrace::resolve_frame(frame, |symbol| {
        let place = symbol.filename().and_then(in_engine).zip(symbol.lineno());
        if found.is_none() {
            found = place;
        }
    });
    found
}

/// The path from the root of the repository, for sources of the engine.
fn in_engine(path: &Path) -> Option<String> {
    let path = path.to_str()?;
    let starts = CRATES.iter().filter_map(|folder| path.rfind(folder));
    starts.max().map(|start| path[start..].to_owned())
}
