//! Pairs of transactions that together would make a write skew.
//!
//! Two threads meet before each batch. One begins and reads for the first half of every pair, the other for the second
//! half; they meet again, so that all have read before any commits; then both commit, at the same time, each in an
//! order of its own. So every pair is a write skew unless one of the two is refused, and exactly one may be.
//!
//! Half of the pairs skew over items (both are there, each transaction takes away one), half over a predicate (the range
//! is empty, each inserts one key).

use std::sync::Barrier;

use kingtide::{IterOptions, Transaction};

use super::{Bench, Round, WorkTally, commits, number, on_threads};
use crate::{
    random::Random,
    violation::{Checked, ensure},
};

/// Pairs of a batch.
const BATCH: u64 = 256;

/// Runs so many pairs.
///
/// # Errors
/// When both of a pair committed, or neither.
pub fn skew(round: &Round) -> Checked<WorkTally> {
    let bench = Bench::open(round)?;
    let barrier = Barrier::new(2);
    let mut total = WorkTally::default();
    let mut first = 0;
    while first < round.operations {
        let pairs = first..(first + BATCH).min(round.operations);
        set_up(&bench, pairs.clone())?;
        let half = |thread: usize| run_half(&bench, round, (pairs.clone(), thread), &barrier);
        let tally = on_threads(2, &half)?;
        check(&bench, pairs.clone())?;
        total.operations += pairs.end - pairs.start;
        total.conflicts += tally.conflicts;
        first = pairs.end;
    }
    Ok(total)
}

const fn is_predicate(pair: u64) -> bool {
    pair.is_multiple_of(2)
}

fn key(pair: u64, half: usize) -> [u8; 9] {
    let mut key = [0; 9];
    key[..8].copy_from_slice(&pair.to_be_bytes());
    key[8] = half as u8;
    key
}

fn set_up(bench: &Bench, pairs: std::ops::Range<u64>) -> Checked {
    let mut transaction = bench.db.begin()?;
    for pair in pairs.filter(|pair| !is_predicate(*pair)) {
        for half in 0..2 {
            transaction.put(&bench.left, &key(pair, half), &1_u64.to_le_bytes())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn run_half(
    bench: &Bench,
    round: &Round,
    (pairs, half): (std::ops::Range<u64>, usize),
    barrier: &Barrier,
) -> Checked<WorkTally> {
    let mut random = Random::new(round.seed ^ pairs.start ^ half as u64);
    // Both threads come to the barrier whatever happens before it, or the other would wait for ever.
    let prepared: Vec<Checked<Transaction>> = pairs
        .map(|pair| prepare(bench, round, (pair, half), &mut random))
        .collect();
    barrier.wait();
    let mut transactions = prepared.into_iter().collect::<Checked<Vec<_>>>()?;
    let mut tally = WorkTally::default();
    while !transactions.is_empty() {
        // Close to the front, so that both threads are at about the same pairs.
        let index = random.below(transactions.len().min(3));
        let transaction = transactions.remove(index);
        if !commits(transaction)? {
            tally.conflicts += 1;
        }
    }
    Ok(tally)
}

/// Reads both, and takes away or inserts one's own.
fn prepare(
    bench: &Bench,
    round: &Round,
    (pair, half): (u64, usize),
    random: &mut Random,
) -> Checked<Transaction> {
    let mut transaction = bench.begin(round.level)?;
    if is_predicate(pair) {
        let options = IterOptions {
            lower: Some(key(pair, 0).to_vec()),
            upper: Some(key(pair, 2).to_vec()),
            ..IterOptions::default()
        };
        let mut iter = transaction.iter(&bench.left, options)?;
        let is_found = if random.one_in(2) {
            iter.seek_to_first()?
        } else {
            iter.seek_to_last()?
        };
        ensure(!is_found, || format!("pair {pair} is there too early"))?;
        transaction.put(&bench.left, &key(pair, half), &1_u64.to_le_bytes())?;
    } else {
        let sum = number(&transaction, &bench.left, &key(pair, 0))?
            + number(&transaction, &bench.left, &key(pair, 1))?;
        ensure(sum == 2, || format!("pair {pair} sums up to {sum}"))?;
        transaction.put(&bench.left, &key(pair, half), &0_u64.to_le_bytes())?;
    }
    Ok(transaction)
}

/// Exactly one of each pair has committed: one key is there, or one is left.
fn check(bench: &Bench, pairs: std::ops::Range<u64>) -> Checked {
    for pair in pairs {
        let mut sum = 0;
        for half in 0..2 {
            if let Some(value) = bench.db.get(&bench.left, &key(pair, half))? {
                sum += super::decode(&value)?;
            }
        }
        ensure(sum == 1, || {
            let how = if (sum == 2) == is_predicate(pair) {
                "both"
            } else {
                "neither"
            };
            format!("pair {pair}: {how} of two transactions committed")
        })?;
    }
    Ok(())
}
