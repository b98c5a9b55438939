//! Spreads the items of a proof over threads, and notices when one never ends.

use std::{
    collections::BTreeMap,
    ops::AddAssign,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use crate::violation::{Checked, Violation, no_panic};

/// When no item of any thread has ended for so long, the proof is stuck. Far above what any item takes.
const STUCK_AFTER: Duration = Duration::from_secs(600);

/// What came of the items.
#[derive(Clone, Debug)]
pub struct Report<T> {
    /// The sum of what the items tell.
    pub tally: T,
    /// Broken promises. After the first one no new item is begun.
    pub violations: Vec<String>,
}

/// Runs `item` for each number from 0 to `count` on `threads` threads. `ended` is told how many items have ended.
///
/// A stuck item cannot be stopped from outside: `stuck` is then told the numbers under way, and must end the process.
pub fn run<T: Default + AddAssign + Send>(
    count: u64,
    threads: usize,
    item: &(dyn Fn(u64) -> Checked<T> + Sync),
    ended: &mut dyn FnMut(u64),
    stuck: &dyn Fn(&[u64]),
) -> Report<T> {
    let next = AtomicU64::new(0);
    let has_failed = AtomicBool::new(false);
    let under_way = Mutex::new(BTreeMap::new());
    let (sender, receiver) = mpsc::channel::<Checked<T>>();
    let mut report = Report {
        tally: T::default(),
        violations: Vec::new(),
    };
    thread::scope(|scope| {
        for worker in 0..threads.max(1) {
            let sender = sender.clone();
            let (next, has_failed, under_way) = (&next, &has_failed, &under_way);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= count || has_failed.load(Ordering::SeqCst) {
                        break;
                    }
                    under_way
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(worker, number);
                    let outcome = no_panic(|| item(number));
                    under_way
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .remove(&worker);
                    if sender.send(outcome).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut items = 0;
        loop {
            match receiver.recv_timeout(STUCK_AFTER) {
                Ok(Ok(tally)) => report.tally += tally,
                Ok(Err(violation)) => {
                    has_failed.store(true, Ordering::SeqCst);
                    report.violations.push(violation.to_string());
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let numbers = under_way.lock().unwrap_or_else(PoisonError::into_inner);
                    stuck(&numbers.values().copied().collect::<Vec<_>>());
                    continue;
                }
            }
            items += 1;
            ended(items);
        }
    });
    report
}

impl<T> Report<T> {
    /// The tally, or the first violation.
    ///
    /// # Errors
    /// The first violation.
    pub fn into_checked(self) -> Checked<T> {
        match self.violations.into_iter().next() {
            None => Ok(self.tally),
            Some(violation) => Err(Violation::new(violation)),
        }
    }
}
