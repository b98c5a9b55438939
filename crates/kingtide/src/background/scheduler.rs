//! What waits to be done. One queue per kind of work, families in it at most once; a pool of threads per kind.
//!
//! Threads with nothing to do help with passes that were [offered](crate::output::crew), a part at a time; see `helping`.
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
    Env, JoinHandle,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
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
    output::{crew::Urgency, parts::Parts},
    write::{Attention, RUNS_KEPT},
};

/// The pause before failed work is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How often that pause doubles, for merges that fail again and again: each try may write much.
const PAUSE_DOUBLINGS_MAX: u32 = 4;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Write the oldest sealed memtable to tables.
    Flush,
    /// Merge tables as the policy wants.
    Merge,
    /// What waits for quiet: merge a family with many tombstones to the bottom, empty level 1, empty value files that are
    /// mostly dead, put values in order; and bring what was written into the cache.
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
    /// Queued work that failed and waits for its next try.
    paused: Vec<(Task, FamilyId)>,
    /// Passes whose parts idle threads may take.
    pub(super) offered: Vec<Arc<Parts>>,
    /// Threads that wait for work, of those that flush and of those that merge.
    pub(super) idle_flushers: usize,
    pub(super) idle_mergers: usize,
    /// How often a merge was asked for.
    pub(super) merges_asked: u64,
    pub(super) is_stopping: bool,
    /// The last background failure since the last success, for callers that wait for work to be done.
    pub(super) failure: Option<(ErrorKind, Arc<str>)>,
    /// Merges that failed since one succeeded.
    merges_failed: u32,
}

/// What a thread does next.
enum Work {
    Task(Task, Arc<Family>),
    Part(Arc<Parts>),
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

    /// The families whose work of this kind waits for a thread, the longest waiting first.
    pub(super) fn waiting(&self, task: Task) -> impl Iterator<Item = &Arc<Family>> {
        let queue = match task {
            Task::Flush => self.flush.iter(),
            Task::Merge => self.merge.iter(),
            Task::Settle => self.settle.iter(),
            Task::MergeRuns => self.merge_runs.iter(),
        };
        queue.filter(move |family| !self.is_paused(task, family.id))
    }

    fn is_paused(&self, task: Task, family: FamilyId) -> bool {
        self.paused.contains(&(task, family))
    }

    /// Takes the work on a family out of its queue.
    pub(super) fn remove(&mut self, task: Task, family: FamilyId) {
        self.queue(task).retain(|queued| queued.id != family);
    }

    /// How many threads wait that do such work.
    fn idle(&mut self, tasks: &[Task]) -> &mut usize {
        match tasks.contains(&Task::Flush) {
            true => &mut self.idle_flushers,
            false => &mut self.idle_mergers,
        }
    }

    /// A pass that a thread for `tasks` may help with: those that flush help with merges too, and give way to flushes.
    fn take_part(&self, tasks: &[Task]) -> Option<Arc<Parts>> {
        let is_flusher = tasks.contains(&Task::Flush);
        let fits = |parts: &&Arc<Parts>| {
            (parts.urgency() != Urgency::Flush || is_flusher) && parts.has_work()
        };
        self.offered.iter().find(fits).map(Arc::clone)
    }

    /// Takes out the next piece of work of this kind.
    fn take(&mut self, task: Task) -> Option<Arc<Family>> {
        let may_run = |family: &&Arc<Family>| task != Task::Merge || !self.is_held(family.id);
        let family = self.waiting(task).find(may_run).map(Arc::clone)?;
        self.remove(task, family.id);
        Some(family)
    }

    /// How long to wait before work of this kind, which has failed, is tried again.
    fn pause_after(&mut self, task: Task) -> Duration {
        if !matches!(task, Task::Merge | Task::Settle) {
            return RETRY_PAUSE;
        }
        let doublings = self.merges_failed.min(PAUSE_DOUBLINGS_MAX);
        self.merges_failed = self.merges_failed.saturating_add(1);
        RETRY_PAUSE * 2_u32.pow(doublings)
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
    /// Told of the stop alone: where threads pause.
    stopped: Condvar,
    threads: Mutex<Vec<JoinHandle>>,
    /// Set by a cancellation and by a stop: merges end at their next checkpoint.
    pub(super) stops_merges: AtomicBool,
    /// Flushes that wait, and merges: what running merges look at, without the lock. Set by `look_again`.
    pub(super) flushes_waiting: AtomicUsize,
    pub(super) merges_waiting: AtomicUsize,
    /// [`Queues::merges_asked`] when a merge last looked in vain for a more urgent one.
    pub(super) merges_looked: AtomicU64,
    /// How many threads there are; set once.
    pub(super) flushers: AtomicUsize,
    pub(super) mergers: AtomicUsize,
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
            stopped: Condvar::new(),
            threads: Mutex::default(),
            stops_merges: AtomicBool::new(false),
            flushes_waiting: AtomicUsize::new(0),
            merges_waiting: AtomicUsize::new(0),
            merges_looked: AtomicU64::new(0),
            flushers: AtomicUsize::new(1),
            mergers: AtomicUsize::new(1),
        })
    }

    /// Tells running merges how much waits.
    pub(super) fn look_again(&self, queues: &Queues) {
        // Relaxed: hints; who acts on them looks under the lock.
        self.flushes_waiting
            .store(queues.flush.len(), Ordering::Relaxed);
        self.merges_waiting
            .store(queues.merge.len(), Ordering::Relaxed);
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
        self.flushers.store(flushers, Ordering::Relaxed);
        self.mergers.store(mergers, Ordering::Relaxed);
        let _ = engine.crew.set(Arc::clone(self) as _);
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
        if task == Task::Merge {
            queues.merges_asked += 1;
        }
        let queue = queues.queue(task);
        if !queue.iter().any(|queued| Arc::ptr_eq(queued, family)) {
            queue.push_back(Arc::clone(family));
            self.look_again(&queues);
            self.work.notify_all();
        }
    }

    /// Asks for a merge if the policy wants one.
    pub(crate) fn schedule_merge(&self, engine: &Engine, family: &Arc<Family>) {
        if !self.are_merges_stopped() && wants_merge(engine, family) {
            self.schedule(Task::Merge, family);
        }
    }

    fn run(&self, engine: &Weak<Engine>, tasks: &[Task]) {
        loop {
            let Some(work) = self.next(tasks) else {
                return;
            };
            let Some(engine) = engine.upgrade() else {
                return;
            };
            match work {
                Work::Part(parts) => {
                    // Whoever offered it knows when it is cancelled.
                    parts.work(&engine, &|| false);
                }
                Work::Task(task, family) => self.run_task(engine, task, &family),
            }
        }
    }

    fn run_task(&self, engine: Arc<Engine>, task: Task, family: &Arc<Family>) {
        let outcome = unless_dropped(family, self.perform(&engine, task, family));
        if let Err(error) = &outcome {
            self.tell(&engine, (task, family), error);
        }
        let env = Arc::clone(&engine.env);
        drop(engine);
        self.finish((task, env.as_ref()), family, outcome);
    }

    fn next(&self, tasks: &[Task]) -> Option<Work> {
        let mut queues = self.queues.lock();
        loop {
            if queues.is_stopping {
                return None;
            }
            for task in tasks {
                if let Some(family) = queues.take(*task) {
                    self.look_again(&queues);
                    queues.running.push((*task, family.id));
                    return Some(Work::Task(*task, family));
                }
            }
            if let Some(parts) = queues.take_part(tasks) {
                return Some(Work::Part(parts));
            }
            *queues.idle(tasks) += 1;
            queues = self.work.wait(queues);
            *queues.idle(tasks) -= 1;
        }
    }

    fn perform(&self, engine: &Engine, task: Task, family: &Arc<Family>) -> Result<()> {
        if family.is_dropped() {
            return Ok(());
        }
        match task {
            Task::Flush => {
                let note = |error: &Error| engine.pipeline.stall.note_failure(error);
                while unless_dropped(family, flush_oldest(engine, family)).inspect_err(note)? {
                    self.schedule_merge(engine, family);
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
                self.rest(engine, family)?;
                self.collect_values(engine, family)?;
                self.order_values(engine, family)?;
                self.schedule_merge(engine, family);
                self.warm(engine, family);
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
    pub(super) fn tell(&self, engine: &Engine, (task, family): (Task, &Family), error: &Error) {
        if self.queues.lock().failure.is_none() {
            engine.events.emit(|| Event::BackgroundError {
                work: match task {
                    Task::Flush => "flush",
                    Task::Merge => "merge",
                    Task::Settle => "merge at rest",
                    Task::MergeRuns => "merge in memory",
                },
                family: family.name(),
                message: error.to_string(),
            });
        }
    }

    /// Puts work that failed back into its queue, and keeps this thread and all others from it for a while. It does not
    /// count as running meanwhile: nobody waits for a pause.
    fn pause<'a>(
        &'a self,
        mut queues: MutexGuard<'a, Queues>,
        (task, env): (Task, &dyn Env),
        family: &Arc<Family>,
    ) -> MutexGuard<'a, Queues> {
        let queue = queues.queue(task);
        if !queue.iter().any(|queued| Arc::ptr_eq(queued, family)) {
            queue.push_back(Arc::clone(family));
        }
        let paused = (task, family.id);
        queues.paused.push(paused);
        self.look_again(&queues);
        let pause = queues.pause_after(task);
        let begun = env.monotonic_nanos();
        let mut is_over = false;
        while !is_over && !queues.is_stopping {
            let waited = Duration::from_nanos(env.monotonic_nanos().saturating_sub(begun));
            let left = pause.saturating_sub(waited);
            if left.is_zero() {
                break;
            }
            (queues, is_over) = self.stopped.wait_timeout(queues, left);
        }
        if let Some(index) = queues.paused.iter().position(|other| *other == paused) {
            queues.paused.swap_remove(index);
        }
        queues
    }

    pub(super) fn finish(
        &self,
        (task, env): (Task, &dyn Env),
        family: &Arc<Family>,
        outcome: Result<()>,
    ) {
        let mut queues = self.queues.lock();
        queues.end(task, family.id);
        match outcome {
            Ok(()) => {
                queues.failure = None;
                if task == Task::Merge {
                    queues.merges_failed = 0;
                }
            }
            Err(error) => {
                let is_final = error.kind() == ErrorKind::ReopenRequired;
                queues.failure = Some((error.kind(), error.to_string().into()));
                self.idle.notify_all();
                if !is_final && !queues.is_stopping {
                    queues = self.pause(queues, (task, env), family);
                }
            }
        }
        drop(queues);
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
            self.look_again(&queues);
            self.work.notify_all();
            self.idle.notify_all();
            self.stopped.notify_all();
        }
        engine.pipeline.keeper.stop();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A panic of a background thread has been reported by its hook; closing goes on.
            let _ = thread.join();
        }
    }
}

/// What work on a family that was dropped meanwhile fails with is no failure.
pub(super) fn unless_dropped<T: Default>(family: &Family, outcome: Result<T>) -> Result<T> {
    match outcome {
        Err(_) if family.is_dropped() => Ok(T::default()),
        outcome => outcome,
    }
}

impl Attention for Background {
    fn sealed(&self, family: &Arc<Family>) {
        self.schedule(Task::Flush, family);
    }

    fn many_runs(&self, family: &Arc<Family>) {
        self.schedule(Task::MergeRuns, family);
    }

    fn read_again(&self, family: &Arc<Family>) {
        self.schedule(Task::Merge, family);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
