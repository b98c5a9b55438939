//! A set that only grows, read while it does.

use std::sync::atomic::{AtomicU64, Ordering};

use kingtide::IterOptions;

use super::{Bench, Round, WorkTally, commits, on_threads, share};
use crate::violation::{Checked, ensure};

/// Elements that each thread inserts between two reads of everything.
const INSERTS_BETWEEN_READS: u64 = 64;

/// Inserts so many elements. Thread `t` inserts `(t, 0)`, `(t, 1)` and so on.
///
/// # Errors
/// When a view lacks an element that was acknowledged before it, has an element without those that its thread inserted
/// before, or shows less than an earlier view.
pub fn set(round: &Round) -> Checked<WorkTally> {
    let bench = Bench::open(round)?;
    let acknowledged: Vec<AtomicU64> = (0..round.threads).map(|_| AtomicU64::new(0)).collect();
    let work = |thread: usize| -> Checked<WorkTally> {
        let mut seen = vec![0; round.threads];
        let mut tally = WorkTally::default();
        for element in 0..share(round.operations, round.threads, thread) {
            let mut transaction = bench.begin(round.level)?;
            transaction.put(&bench.left, &key(thread, element), b"")?;
            ensure(commits(transaction)?, || {
                "an insert is a conflict".to_owned()
            })?;
            acknowledged[thread].store(element + 1, Ordering::SeqCst);
            tally.operations += 1;
            if tally.operations.is_multiple_of(INSERTS_BETWEEN_READS) {
                check_view(&bench, round, &acknowledged, &mut seen)?;
            }
        }
        Ok(tally)
    };
    let tally = on_threads(round.threads, &work)?;
    let mut seen = vec![0; round.threads];
    check_view(&bench, round, &acknowledged, &mut seen)?;
    let all: u64 = seen.iter().sum();
    ensure(all == tally.operations, || {
        format!("{all} elements of {} are there", tally.operations)
    })?;
    Ok(tally)
}

fn key(thread: usize, element: u64) -> [u8; 9] {
    let mut key = [thread as u8; 9];
    key[1..].copy_from_slice(&element.to_be_bytes());
    key
}

/// Reads the newest elements of each thread, from what an earlier view showed on.
fn check_view(
    bench: &Bench,
    round: &Round,
    acknowledged: &[AtomicU64],
    seen: &mut [u64],
) -> Checked {
    let floor: Vec<u64> = acknowledged
        .iter()
        .map(|count| count.load(Ordering::SeqCst))
        .collect();
    let view = bench.begin(round.level)?;
    for (thread, seen) in seen.iter_mut().enumerate() {
        let options = IterOptions {
            lower: Some(key(thread, seen.saturating_sub(1)).to_vec()),
            upper: Some(key(thread + 1, 0).to_vec()),
            ..IterOptions::default()
        };
        let mut iter = view.iter(&bench.left, options)?;
        let mut next = seen.saturating_sub(1);
        let mut is_valid = iter.seek_to_first()?;
        while is_valid {
            ensure(iter.key() == key(thread, next), || {
                format!(
                    "thread {thread}: {:?} instead of element {next}",
                    iter.key()
                )
            })?;
            next += 1;
            is_valid = iter.next()?;
        }
        ensure(next >= floor[thread].max(*seen), || {
            format!(
                "thread {thread}: {next} elements, {} were acknowledged and {seen} seen before",
                floor[thread]
            )
        })?;
        *seen = next;
    }
    Ok(())
}
