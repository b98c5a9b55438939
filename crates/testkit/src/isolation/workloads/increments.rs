//! Counters that several threads increment by reading and writing them.

use kingtide_env::give_way;

use super::{Bench, Round, WorkTally, commits, number, on_threads, share};
use crate::{
    random::Random,
    violation::{Checked, ensure},
};

/// Counters. Few, so that threads meet.
const COUNTERS: usize = 8;

/// Increments counters so many times.
///
/// # Errors
/// When an increment was lost.
pub fn increments(round: &Round) -> Checked<WorkTally> {
    let bench = Bench::open(round)?;
    let key = |counter: usize| [b'c', counter as u8];
    for counter in 0..COUNTERS {
        bench
            .db
            .put(&bench.left, &key(counter), &0_u64.to_le_bytes())?;
    }
    let increment = |counter: usize| -> Checked<bool> {
        let mut transaction = bench.begin(round.level)?;
        let value = number(&transaction, &bench.left, &key(counter))? + 1;
        transaction.put(&bench.left, &key(counter), &value.to_le_bytes())?;
        if value.is_multiple_of(8) {
            // Gives the others time to be first.
            give_way();
        }
        commits(transaction)
    };
    let work = |thread: usize| -> Checked<WorkTally> {
        let mut random = Random::new(round.seed ^ thread as u64);
        let mut tally = WorkTally::default();
        for _ in 0..share(round.operations, round.threads, thread) {
            let counter = random.below(COUNTERS);
            while !increment(counter)? {
                tally.conflicts += 1;
            }
            tally.operations += 1;
        }
        Ok(tally)
    };
    let tally = on_threads(round.threads, &work)?;
    let view = bench.begin(round.level)?;
    let mut sum = 0;
    for counter in 0..COUNTERS {
        sum += number(&view, &bench.left, &key(counter))?;
    }
    ensure(sum == tally.operations, || {
        format!(
            "{} of {} increments are lost",
            tally.operations - sum,
            tally.operations
        )
    })?;
    Ok(tally)
}
