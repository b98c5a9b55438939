//! A pass over the entries of a family, from its sources to its output: what flushes and merges run.
//!
//! The pass is cut at keys into parts. Each is read by cursors of its own and written to tables of its own; all versions
//! of a key are in one part, and range deletes are cut where parts meet. So the parts together write exactly the versions
//! that one walk over everything would, and only the borders of the tables differ.
//!
//! 1. Whoever runs the pass offers it to the [crew](super::crew) and takes parts, the first one first, until none is left.
//! 2. It waits for the parts that others took. These are being worked on by running threads, so the wait ends.
//! 3. The outputs are put together in key order, the account is checked, the directories are synced: once for all.
//!
//! All or nothing: when a part fails, or the pass is cancelled, the others stop at their next checkpoint and every file is
//! removed.

use std::{sync::Arc, time::Duration};

use kingtide_base::Cursor;
use kingtide_env::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, Ordering},
};

use super::{
    KeyRange, Output, Pace, TableWriter, crew::Urgency, cuts::Cuts, discard_output,
    sync_directories,
};
use crate::{
    compaction::{filter::VersionFilter, tally::Expected},
    engine::Engine,
    error::{Error, ErrorKind, Result},
    family::Family,
    files::Files,
};

/// While it waits for others, the owner asks so often whether the pass was cancelled.
const WAIT_STEP: Duration = Duration::from_millis(20);
/// Steps of a wait for the rate limit.
const RATE_STEP_NANOS: u64 = 10_000_000;
/// Checkpoints between two pieces of more urgent work, so that the pass itself gets on.
const CHECKPOINTS_BETWEEN: u32 = 32;

/// Parts for each thread: when one is done early, there is more to take.
const PARTS_PER_THREAD: usize = 2;

/// A pass is not cut into smaller parts, in bytes of its sources: each part ends with a table of its own.
#[cfg(not(test))]
pub(crate) const fn part_bytes_min() -> u64 {
    64 << 20
}

#[cfg(test)]
thread_local! {
    /// Small enough that most merges have several parts.
    static PART_BYTES_MIN: std::cell::Cell<u64> = const { std::cell::Cell::new(8 << 10) };
}

/// As each test wants it, for the passes that its own thread runs.
#[cfg(test)]
pub(crate) fn part_bytes_min() -> u64 {
    PART_BYTES_MIN.get()
}

/// How many parts a pass of this urgency may have.
pub(crate) fn parts_max(engine: &Engine, urgency: Urgency) -> usize {
    match engine.crew.get().map(|crew| crew.threads(urgency)) {
        None | Some(0 | 1) => 1,
        Some(threads) => threads * PARTS_PER_THREAD,
    }
}

/// Opens the sources of a pass, merged, without what the filter says may be passed over.
pub(crate) type OpenSources = Box<dyn Fn(&VersionFilter) -> Result<Box<dyn Cursor>> + Send + Sync>;

/// What is to be done.
pub(crate) struct Pass {
    pub(crate) files: Arc<Files>,
    pub(crate) family: Arc<Family>,
    pub(crate) urgency: Urgency,
    /// As for [`TableWriter::new`].
    pub(crate) table_bytes_max: u64,
    /// Where tables end besides.
    pub(crate) table_ends: Cuts,
    /// Decides for the whole of it; has decided nothing yet.
    pub(crate) filter: VersionFilter,
    pub(crate) sources: OpenSources,
    /// Where it may be cut, ascending: each is the first key of a part.
    pub(crate) cuts: Vec<Vec<u8>>,
    /// How many versions there are.
    pub(crate) expected: Expected,
}

/// A pass that is being worked on.
pub(crate) struct Parts {
    urgency: Urgency,
    /// How many there are; at least one.
    count: usize,
    state: Mutex<State>,
    ended: Condvar,
    /// Set by a failure and by a cancellation: every part ends at its next checkpoint.
    is_stopped: AtomicBool,
}

struct State {
    /// Shared with those who work on a part. Let go of at the end: it holds the tables that are read.
    pass: Option<Arc<Pass>>,
    /// The next part that nobody has taken.
    next: usize,
    running: usize,
    /// By part.
    outputs: Vec<Option<Output>>,
    failure: Option<Error>,
}

/// A part that somebody works on; ended when dropped.
struct Taken<'a> {
    parts: &'a Parts,
    pass: Option<Arc<Pass>>,
    index: usize,
    outcome: Option<Result<Option<Output>>>,
}

impl Taken<'_> {
    fn work(mut self, engine: &Engine, is_cancelled: &dyn Fn() -> bool) {
        let Some(pass) = &self.pass else { return };
        let is_over = || self.parts.is_stopped() || is_cancelled();
        let pace = Pacer::new(engine, self.parts.urgency);
        let outcome = write_part(pass, self.index, &pace, &is_over);
        self.outcome = Some(outcome);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Before the part counts as ended: whoever waits for that relies on it that the pass holds nothing any more.
        self.pass = None;
        let mut state = self.parts.state.lock();
        state.running -= 1;
        match self.outcome.take() {
            Some(Ok(output)) => {
                if output.is_none() {
                    self.parts.stop();
                }
                if let Some(place) = state.outputs.get_mut(self.index) {
                    *place = output;
                }
            }
            failed => {
                let panicked = || {
                    Error::new(
                        ErrorKind::ReopenRequired,
                        "a thread that worked on a merge panicked",
                    )
                };
                let error = failed.and_then(Result::err).unwrap_or_else(panicked);
                self.parts.stop();
                state.failure.get_or_insert(error);
            }
        }
        self.parts.ended.notify_all();
    }
}

impl Parts {
    fn new(pass: Pass) -> Arc<Self> {
        let count = pass.cuts.len() + 1;
        let outputs = std::iter::repeat_with(|| None).take(count).collect();
        Arc::new(Self {
            urgency: pass.urgency,
            count,
            state: Mutex::new(State {
                pass: Some(Arc::new(pass)),
                next: 0,
                running: 0,
                outputs,
                failure: None,
            }),
            ended: Condvar::new(),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// How soon it should be done.
    pub(crate) fn urgency(&self) -> Urgency {
        self.urgency
    }

    /// True while there is a part that nobody has taken.
    pub(crate) fn has_work(&self) -> bool {
        !self.is_stopped() && self.state.lock().next < self.count
    }

    /// Works on one part that nobody has taken; false when there is none.
    pub(crate) fn work(&self, engine: &Engine, is_cancelled: &dyn Fn() -> bool) -> bool {
        let taken = self.take();
        taken
            .map(|taken| taken.work(engine, is_cancelled))
            .is_some()
    }

    fn take(&self) -> Option<Taken<'_>> {
        let mut state = self.state.lock();
        if self.is_stopped() || state.next >= self.count {
            return None;
        }
        let pass = Arc::clone(state.pass.as_ref()?);
        let index = state.next;
        state.next += 1;
        state.running += 1;
        Some(Taken {
            parts: self,
            pass: Some(pass),
            index,
            outcome: None,
        })
    }

    fn stop(&self) {
        // Relaxed: looked at again and again; what counts is under the lock.
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        // Relaxed: as in `stop`.
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Waits until nobody works on a part.
    fn wait(&self, is_cancelled: &dyn Fn() -> bool) {
        let mut state = self.state.lock();
        while state.running > 0 {
            state = self.ended.wait_timeout(state, WAIT_STEP).0;
            if is_cancelled() {
                self.stop();
            }
        }
    }

    /// The whole output. Nobody works on a part any more.
    fn put_together(&self, files: &Files, expected: Expected) -> Result<Option<Output>> {
        let mut state = self.state.lock();
        state.pass = None;
        let parts = std::mem::take(&mut state.outputs);
        let failure = state.failure.take();
        drop(state);
        let is_whole = failure.is_none() && parts.iter().all(Option::is_some);
        let mut output = Output::default();
        for part in parts.into_iter().flatten() {
            output.append(part);
        }
        let outcome = match failure {
            Some(error) => Err(error),
            None if !is_whole => Ok(()),
            None => finish(files, &output, expected),
        };
        if !is_whole || outcome.is_err() {
            discard_output(files, &output);
        }
        outcome.map(|()| is_whole.then_some(output))
    }
}

fn write_part(
    pass: &Pass,
    index: usize,
    pace: &dyn Pace,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Output>> {
    let from = index
        .checked_sub(1)
        .and_then(|before| pass.cuts.get(before));
    let to = pass.cuts.get(index).cloned().unwrap_or_default();
    let range: KeyRange = (from.cloned(), to);
    let mut filter = pass.filter.for_part(range.0.as_deref(), &range.1);
    let mut cursor = (pass.sources)(&filter)?;
    let writer = TableWriter::new(&pass.files, &pass.family, pass.table_bytes_max)
        .with_cuts(pass.table_ends.clone());
    let writer = writer.for_part(range).with_pace(pace);
    Ok(writer.write(&mut *cursor, &mut filter, is_cancelled)?)
}

fn finish(files: &Files, output: &Output, expected: Expected) -> Result<()> {
    output.books.check(expected, &output.tables)?;
    Ok(sync_directories(files, output)?)
}

/// Runs a pass. `None` when `is_cancelled` said so; nothing is left behind then.
///
/// # Errors
/// What reading and writing answer; nothing is left behind then.
pub(crate) fn run(
    engine: &Engine,
    pass: Pass,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Output>> {
    let (expected, files) = (pass.expected, Arc::clone(&pass.files));
    let parts = Parts::new(pass);
    // The first part is never left to others.
    let first = parts.take();
    {
        let _offered = Offered::new(engine, &parts);
        if let Some(first) = first {
            first.work(engine, is_cancelled);
        }
        while parts.work(engine, is_cancelled) {}
    }
    parts.wait(is_cancelled);
    parts.put_together(&files, expected)
}

/// Parts that idle threads may take; no longer when dropped.
struct Offered<'a> {
    engine: &'a Engine,
    parts: &'a Arc<Parts>,
}

impl<'a> Offered<'a> {
    fn new(engine: &'a Engine, parts: &'a Arc<Parts>) -> Self {
        if let Some(crew) = engine.crew.get()
            && parts.count > 1
        {
            crew.offer(parts);
        }
        Self { engine, parts }
    }
}

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        if let Some(crew) = self.engine.crew.get() {
            crew.withdraw(self.parts);
        }
    }
}

/// What a part does at its checkpoints.
struct Pacer<'a> {
    engine: &'a Engine,
    urgency: Urgency,
    /// Checkpoints until more urgent work may come in between again.
    until_next: std::cell::Cell<u32>,
}

impl<'a> Pacer<'a> {
    fn new(engine: &'a Engine, urgency: Urgency) -> Self {
        Self {
            engine,
            urgency,
            until_next: std::cell::Cell::new(0),
        }
    }

    fn give_way(&self) {
        if self.urgency == Urgency::Flush {
            return;
        }
        match self.until_next.get() {
            0 => {
                if let Some(crew) = self.engine.crew.get()
                    && crew.give_way(self.engine, self.urgency)
                {
                    self.until_next.set(CHECKPOINTS_BETWEEN);
                }
            }
            left => self.until_next.set(left - 1),
        }
    }
}

impl Pace for Pacer<'_> {
    fn checkpoint(&self, bytes: u64, is_cancelled: &dyn Fn() -> bool) {
        self.give_way();
        let limit = &self.engine.merge_rate;
        if self.urgency == Urgency::Flush || !limit.is_on() {
            return;
        }
        let env = &self.engine.env;
        let paid_at = limit.pay(bytes, env.monotonic_nanos());
        while !is_cancelled() {
            let left = paid_at.saturating_sub(env.monotonic_nanos());
            if left == 0 {
                return;
            }
            env.sleep(Duration::from_nanos(left.min(RATE_STEP_NANOS)));
            self.give_way();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
