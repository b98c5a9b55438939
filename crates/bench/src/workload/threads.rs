//! The threads of a step: started together, stopped together, added up.

use std::{
    panic,
    sync::{
        Barrier,
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    mixed,
    plan::Plan,
    reads,
    tally::Tally,
    timeline::Timeline,
    walk,
    worker::{Shared, Worker},
    writes,
};
use crate::{BenchError, Engine, Result, Step, Workload};

/// How often progress is told.
const PROGRESS_PERIOD: Duration = Duration::from_millis(200);

/// What the threads found out.
pub(super) struct Ran {
    pub(super) tally: Tally,
    pub(super) wall: Duration,
    pub(super) timeline: Timeline,
    /// Why the step did not come to its end.
    pub(super) failure: Option<BenchError>,
}

/// Runs the threads of `step`; tells now and then how many operations have been taken.
pub(super) fn run(
    engine: &dyn Engine,
    plan: &Plan<'_>,
    step: &Step,
    on_progress: &mut dyn FnMut(u64),
) -> Ran {
    // The threads and this one. What is shared begins to count only when all are there.
    let gate = Barrier::new(step.threads + 1);
    let shares = match step.workload {
        Workload::Iterate => walk::shares(plan, step.threads),
        _ => Vec::new(),
    };
    let shared = std::sync::OnceLock::new();
    let (sender, receiver) = mpsc::channel();
    let mut tally = Tally::default();
    let mut failure = None;
    let mut ended = 0;
    let mut wall = Duration::ZERO;
    thread::scope(|scope| {
        for number in 0..step.threads {
            let (gate, shared, shares, sender) = (&gate, &shared, &shares, sender.clone());
            let body = move || {
                gate.wait();
                let shared = shared.get_or_init(|| Shared::new(step));
                let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| {
                    work(engine, plan, step, shared, (number as u64, shares))
                }));
                let outcome = outcome.unwrap_or_else(|_| {
                    let source = BenchError::Engine("a thread panicked".into());
                    (Tally::default(), Some(source))
                });
                if outcome.1.is_some() {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                // The receiver is there until every thread has sent.
                let _ = sender.send((outcome, Instant::now()));
            };
            scope.spawn(body);
        }
        gate.wait();
        let shared = shared.get_or_init(|| Shared::new(step));
        while ended < step.threads {
            match receiver.recv_timeout(PROGRESS_PERIOD) {
                Ok(((theirs, source), end)) => {
                    ended += 1;
                    wall = wall.max(end.saturating_duration_since(shared.start));
                    failure = failure.take().or(source).or(tally.add(&theirs).err());
                }
                Err(RecvTimeoutError::Timeout) => {
                    on_progress(shared.next.load(Ordering::Relaxed));
                }
                // This function holds a sender.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    let timeline = match shared.into_inner() {
        Some(shared) => shared.timeline,
        None => Timeline::new(None),
    };
    Ran {
        tally,
        wall,
        timeline,
        failure,
    }
}

/// One thread; what it counted until it failed counts.
fn work(
    engine: &dyn Engine,
    plan: &Plan<'_>,
    step: &Step,
    shared: &Shared,
    (number, shares): (u64, &[walk::Share]),
) -> (Tally, Option<BenchError>) {
    match Worker::new(engine, plan, step, shared, number) {
        Ok(mut worker) => {
            let outcome = run_workload(&mut worker, shares);
            (worker.finish(), outcome.err())
        }
        Err(source) => (Tally::default(), Some(source)),
    }
}

fn run_workload(worker: &mut Worker<'_>, shares: &[walk::Share]) -> Result<()> {
    match worker.step.workload {
        Workload::Write => writes::write(worker),
        Workload::Delete => writes::delete(worker),
        Workload::Read => reads::read(worker),
        Workload::Missing => reads::missing(worker),
        Workload::Seek => walk::seek(worker),
        Workload::Range => walk::range(worker),
        Workload::Iterate => walk::iterate(worker, shares),
        Workload::Mixed => mixed::mixed(worker),
        Workload::Rmw => mixed::rmw(worker),
        Workload::Txn => mixed::txn(worker),
        Workload::YcsbA
        | Workload::YcsbB
        | Workload::YcsbC
        | Workload::YcsbD
        | Workload::YcsbE
        | Workload::YcsbF => mixed::ycsb(worker),
    }
}
