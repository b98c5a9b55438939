//! What waits to be done. One queue per kind of work, families in it at most once; a pool of threads per kind.
//!
//! A caller that merges by hand first [holds](Background::hold_merges) the merges of the family: those that run end,
//! others wait in their queue. Merges can be cancelled for the rest of the opening; flushes cannot.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};

use kingtide_base::FamilyId;
use kingtide_env::{
    JoinHandle,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use super::keeper;
use crate::{
    compaction::{
        observe::wants_merge,
        run::{MergeOutcome, Wanted, merge_once},
    },
    engine::Engine,
    error::{Error, ErrorKind, Result},
    events::Event,
    family::Family,
    flush::flush_oldest,
    write::Attention,
};

/// The pause before failed work is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Runs that a memtable keeps without being merged in the background.
const RUNS_KEPT: usize = 8;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Write the oldest sealed memtable to tables.
    Flush,
    /// Merge tables as the policy wants.
    Merge,
    /// Merge a family with many tombstones to the bottom, and empty value files that are mostly dead.
    Settle,
    /// Merge the runs of the active memtable.
    MergeRuns,
}

#[derive(Default)]
pub(super) struct Queues {
    flush: VecDeque<Arc<Family>>,
    merge: VecDeque<Arc<Family>>,
    settle: VecDeque<Arc<Family>>,
    merge_runs: VecDeque<Arc<Family>>,
    /// What is being done, in no order.
    running: Vec<(Task, FamilyId)>,
    /// Families that are merged by hand: their queued merges wait.
    held: Vec<FamilyId>,
    is_stopping: bool,
    /// The last background failure since the last success, for callers that wait for work to be done.
    failure: Option<(ErrorKind, Arc<str>)>,
}

impl Queues {
    fn queue(&mut self, task: Task) -> &mut VecDeque<Arc<Family>> {
        match task {
            Task::Flush => &mut self.flush,
            Task::Merge => &mut self.merge,
            Task::Settle => &mut self.settle,
            Task::MergeRuns => &mut self.merge_runs,
        }
    }

    /// Takes out the next piece of work of this kind.
    fn take(&mut self, task: Task) -> Option<Arc<Family>> {
        let held = std::mem::take(&mut self.held);
        let queue = self.queue(task);
        let may_run = |family: &Arc<Family>| task != Task::Merge || !held.contains(&family.id);
        let index = queue.iter().position(may_run);
        let family = index.and_then(|index| queue.remove(index));
        self.held = held;
        family
    }

    pub(super) fn is_running(&self, task: Task, family: FamilyId) -> bool {
        self.running.contains(&(task, family))
    }

    pub(super) fn end(&mut self, task: Task, family: FamilyId) {
        let ended = (task, family);
        if let Some(index) = self.running.iter().position(|running| *running == ended) {
            self.running.swap_remove(index);
        }
    }

    pub(super) fn begin(&mut self, task: Task, family: FamilyId) {
        self.running.push((task, family));
    }

    pub(super) fn is_held(&self, family: FamilyId) -> bool {
        self.held.contains(&family)
    }

    pub(super) fn hold(&mut self, family: FamilyId) {
        self.held.push(family);
    }

    pub(super) fn release(&mut self, family: FamilyId) {
        self.held.retain(|held| *held != family);
    }

    pub(super) fn forget_merges(&mut self) {
        self.merge.clear();
        self.settle.clear();
    }

    /// True while such work on the family is queued or running.
    pub(super) fn is_busy(&self, task: Task, family: FamilyId) -> bool {
        let queue = match task {
            Task::Flush => &self.flush,
            Task::Merge => &self.merge,
            Task::Settle => &self.settle,
            Task::MergeRuns => &self.merge_runs,
        };
        self.is_running(task, family) || queue.iter().any(|queued| queued.id == family)
    }

    pub(super) fn counts(&self) -> WorkCounts {
        let running = |task| {
            self.running
                .iter()
                .filter(|(kind, _)| *kind == task)
                .count()
        };
        WorkCounts {
            flushes_queued: self.flush.len(),
            merges_queued: self.merge.len() + self.settle.len(),
            flushes_running: running(Task::Flush),
            merges_running: running(Task::Merge),
        }
    }

    fn is_idle(&self) -> bool {
        let queues = [&self.flush, &self.merge, &self.settle];
        self.running.is_empty() && queues.iter().all(|queue| queue.is_empty())
    }
}

/// See the module.
pub(crate) struct Background {
    queues: Mutex<Queues>,
    work: Condvar,
    idle: Condvar,
    threads: Mutex<Vec<JoinHandle>>,
    /// Set by a cancellation and by a stop: merges end at their next checkpoint.
    pub(super) stops_merges: AtomicBool,
}

/// How much waits and runs, all families together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkCounts {
    pub(crate) flushes_queued: usize,
    pub(crate) merges_queued: usize,
    pub(crate) flushes_running: usize,
    pub(crate) merges_running: usize,
}

impl Background {
    /// Nothing to do and no threads yet.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            queues: Mutex::default(),
            work: Condvar::new(),
            idle: Condvar::new(),
            threads: Mutex::default(),
            stops_merges: AtomicBool::new(false),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock()
    }

    /// Waits until some work ends or something else of interest happens.
    pub(super) fn wait<'a>(&self, queues: MutexGuard<'a, Queues>) -> MutexGuard<'a, Queues> {
        self.idle.wait(queues)
    }

    /// Something of interest happened.
    pub(super) fn notify(&self) {
        self.work.notify_all();
        self.idle.notify_all();
    }

    /// Starts the threads for `engine`.
    ///
    /// # Errors
    /// `Io` when the system has no thread to give.
    pub(crate) fn start(self: &Arc<Self>, engine: &Arc<Engine>) -> Result<()> {
        let cores = engine.env.parallelism();
        let flushers = match engine.options.flush_threads {
            0 => (cores / 2).clamp(1, 4),
            count => count,
        };
        let mergers = engine.options.compaction_threads.max(1);
        for index in 0..flushers {
            self.spawn(
                engine,
                &format!("kt-flush-{index}"),
                &[Task::Flush, Task::MergeRuns],
            )?;
        }
        for index in 0..mergers {
            self.spawn(
                engine,
                &format!("kt-merge-{index}"),
                &[Task::Merge, Task::Settle],
            )?;
        }
        let keeper_engine = Arc::downgrade(engine);
        let background = Arc::clone(self);
        let pipeline = Arc::clone(&engine.pipeline);
        let env = Arc::clone(&engine.env);
        let body =
            Box::new(move || keeper::run(&pipeline, env.as_ref(), (&keeper_engine, &background)));
        self.keep(engine.env.spawn("kt-log", body))
    }

    fn spawn(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        name: &str,
        tasks: &'static [Task],
    ) -> Result<()> {
        let background = Arc::clone(self);
        let weak = Arc::downgrade(engine);
        self.keep(
            engine
                .env
                .spawn(name, Box::new(move || background.run(&weak, tasks))),
        )
    }

    fn keep(&self, thread: std::io::Result<JoinHandle>) -> Result<()> {
        let thread = thread.map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("cannot start a background thread: {error}"),
            )
        })?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Asks for work on `family`.
    pub(crate) fn schedule(&self, task: Task, family: &Arc<Family>) {
        if matches!(task, Task::Merge | Task::Settle) && self.are_merges_stopped() {
            return;
        }
        let mut queues = self.queues.lock();
        let queue = queues.queue(task);
        if !queue.iter().any(|queued| Arc::ptr_eq(queued, family)) {
            queue.push_back(Arc::clone(family));
            self.work.notify_all();
        }
    }

    /// Asks for a merge if the policy wants one.
    pub(crate) fn schedule_merge(&self, family: &Arc<Family>) {
        if !self.are_merges_stopped() && wants_merge(family) {
            self.schedule(Task::Merge, family);
        }
    }

    /// Asks for a merge of memtable runs when iterators would have to look at many.
    pub(crate) fn note_runs(&self, family: &Arc<Family>) {
        if family.load().active.table.run_count() > RUNS_KEPT {
            self.schedule(Task::MergeRuns, family);
        }
    }

    fn run(&self, engine: &Weak<Engine>, tasks: &[Task]) {
        loop {
            let Some((task, family)) = self.next(tasks) else {
                return;
            };
            let Some(engine) = engine.upgrade() else {
                return;
            };
            let outcome = self.perform(&engine, task, &family);
            if let Err(error) = &outcome {
                self.tell(&engine, (task, &family), error);
            }
            drop(engine);
            self.finish(task, &family, outcome);
        }
    }

    fn next(&self, tasks: &[Task]) -> Option<(Task, Arc<Family>)> {
        let mut queues = self.queues.lock();
        loop {
            if queues.is_stopping {
                return None;
            }
            for task in tasks {
                if let Some(family) = queues.take(*task) {
                    queues.running.push((*task, family.id));
                    return Some((*task, family));
                }
            }
            queues = self.work.wait(queues);
        }
    }

    fn perform(&self, engine: &Engine, task: Task, family: &Arc<Family>) -> Result<()> {
        if family.is_dropped() {
            return Ok(());
        }
        match task {
            Task::Flush => {
                while flush_oldest(engine, family).inspect_err(|error| {
                    engine.pipeline.stall.note_failure(error);
                })? {
                    self.schedule_merge(family);
                    self.schedule_collection(engine, family);
                }
                Ok(())
            }
            Task::Merge => {
                if self.are_merges_stopped() {
                    return Ok(());
                }
                let is_cancelled = || self.are_merges_stopped();
                while merge_once(engine, family, Wanted::MostUrgent, &is_cancelled)?
                    == MergeOutcome::Merged
                {
                    if self.queues.lock().is_held(family.id) {
                        self.schedule(Task::Merge, family);
                        break;
                    }
                }
                Ok(())
            }
            Task::Settle => {
                self.settle(engine, family)?;
                self.collect_values(engine, family)?;
                self.schedule_merge(family);
                Ok(())
            }
            Task::MergeRuns => {
                let memory = Arc::clone(&family.load().active);
                // All versions stay, dead ones too: a point read that is not registered as a snapshot may still be on
                // its way to one. The flush drops them, from a memtable that such a read keeps alive.
                while memory.table.run_count() > RUNS_KEPT && memory.table.merge_runs(&[]) {}
                Ok(())
            }
        }
    }

    /// Tells of the first failure since something succeeded.
    fn tell(&self, engine: &Engine, (task, family): (Task, &Family), error: &Error) {
        if self.queues.lock().failure.is_none() {
            engine.events.emit(|| Event::BackgroundError {
                work: match task {
                    Task::Flush => "flush",
                    Task::Merge => "merge",
                    Task::Settle => "merge of tombstones",
                    Task::MergeRuns => "merge in memory",
                },
                family: family.name(),
                message: error.to_string(),
            });
        }
    }

    fn finish(&self, task: Task, family: &Arc<Family>, outcome: Result<()>) {
        let mut queues = self.queues.lock();
        match outcome {
            Ok(()) => queues.failure = None,
            Err(error) => {
                let is_final = error.kind() == ErrorKind::ReopenRequired;
                queues.failure = Some((error.kind(), error.to_string().into()));
                self.idle.notify_all();
                if !is_final && !queues.is_stopping {
                    // The pause also ends with a stop; other work of this thread waits that long.
                    queues = self.work.wait_timeout(queues, RETRY_PAUSE).0;
                    let queue = queues.queue(task);
                    if !queue.iter().any(|queued| Arc::ptr_eq(queued, family)) {
                        queue.push_back(Arc::clone(family));
                    }
                }
            }
        }
        queues.end(task, family.id);
        self.work.notify_all();
        self.idle.notify_all();
    }

    /// Waits until no flush or merge is queued or running.
    ///
    /// # Errors
    /// The failure of background work that keeps failing.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        let mut queues = self.queues.lock();
        loop {
            if let Some((kind, message)) = &queues.failure {
                return Err(Error::new(*kind, message.to_string()));
            }
            if queues.is_idle() {
                return Ok(());
            }
            queues = self.idle.wait(queues);
        }
    }

    /// Waits until no flush or merge of `family` is queued or running.
    ///
    /// # Errors
    /// As [`Background::wait_idle`]; `Closed` when the database closes meanwhile.
    pub(crate) fn wait_idle_family(&self, family: &Family) -> Result<()> {
        let mut queues = self.queues.lock();
        loop {
            if let Some((kind, message)) = &queues.failure {
                return Err(Error::new(*kind, message.to_string()));
            }
            let is_busy = |task| queues.is_busy(task, family.id);
            if queues.is_stopping {
                return Err(Error::new(ErrorKind::Closed, "the database is closed"));
            }
            if ![Task::Flush, Task::Merge, Task::Settle]
                .into_iter()
                .any(is_busy)
            {
                return Ok(());
            }
            queues = self.idle.wait(queues);
        }
    }

    /// Stops: running work ends at its next checkpoint, queued work is forgotten, threads end.
    pub(crate) fn stop(&self, engine: &Engine) {
        {
            let mut queues = self.queues.lock();
            queues.is_stopping = true;
            self.stops_merges.store(true, Ordering::Relaxed);
            queues.flush.clear();
            queues.forget_merges();
            queues.merge_runs.clear();
            self.work.notify_all();
            self.idle.notify_all();
        }
        engine.pipeline.keeper.stop();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A panic of a background thread has been reported by its hook; closing goes on.
            let _ = thread.join();
        }
    }
}

impl Attention for Background {
    fn sealed(&self, family: &Arc<Family>) {
        self.schedule(Task::Flush, family);
    }

    fn many_runs(&self, family: &Arc<Family>) {
        self.schedule(Task::MergeRuns, family);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
