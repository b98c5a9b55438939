//! Keys that are always written together, read while they are.

use kingtide::{IterOptions, Transaction};

use super::{Bench, Round, WorkTally, commits, decode, number, on_threads, share};
use crate::{
    random::Random,
    violation::{Checked, Violation, ensure},
};

/// Pairs. Few, so that reads meet writes.
const PAIRS: usize = 4;
/// Pairs that one view reads.
const READS_OF_VIEW: u64 = 8;

/// Reads so many pairs while other threads write them.
///
/// # Errors
/// When a pair was read half old and half new.
pub fn fractured(round: &Round) -> Checked<WorkTally> {
    let bench = Bench::open(round)?;
    for pair in 0..PAIRS {
        write(&bench, pair, 0)?;
    }
    let work = |thread: usize| -> Checked<WorkTally> {
        let mut random = Random::new(round.seed ^ thread as u64);
        let mut tally = WorkTally::default();
        let reads = share(round.operations, round.threads, thread);
        while tally.operations < reads {
            // A write for every so many reads, by every thread: no writer has to be told when to end.
            let value = random.draw();
            write(&bench, random.below(PAIRS), value)?;
            for _ in 0..2 {
                let view = bench.begin(round.level)?;
                for _ in 0..READS_OF_VIEW {
                    read(&bench, round, &view, random.below(PAIRS))?;
                    tally.operations += 1;
                }
            }
        }
        Ok(tally)
    };
    on_threads(round.threads, &work)
}

fn keys(pair: usize) -> [[u8; 3]; 2] {
    [[b'p', pair as u8, 0], [b'p', pair as u8, 1]]
}

/// One number under three keys: two of one family, one of the other.
fn write(bench: &Bench, pair: usize, value: u64) -> Checked {
    let mut transaction = bench.db.begin()?;
    let [first, second] = keys(pair);
    transaction.put(&bench.left, &first, &value.to_le_bytes())?;
    transaction.put(&bench.left, &second, &value.to_le_bytes())?;
    transaction.put(&bench.right, &first, &value.to_le_bytes())?;
    ensure(commits(transaction)?, || {
        "a blind write is a conflict".to_owned()
    })
}

fn read(bench: &Bench, round: &Round, view: &Transaction, pair: usize) -> Checked {
    let [first, second] = keys(pair);
    let (one, other) = if round.level.has_one_view() {
        // Two reads, of two families.
        let one = number(view, &bench.left, &first)?;
        (one, number(view, &bench.right, &first)?)
    } else if pair.is_multiple_of(2) {
        // Below repeatable read one call is one view, and so is one iterator.
        let values = view.multi_get(&bench.left, &[first, second])?;
        match &values[..] {
            [Some(one), Some(other)] => (decode(one)?, decode(other)?),
            _ => return Err(Violation::new("a pair is gone")),
        }
    } else {
        let options = IterOptions {
            prefix: Some(first[..2].to_vec()),
            ..IterOptions::default()
        };
        let mut iter = view.iter(&bench.left, options)?;
        iter.seek_to_first()?;
        let one = decode(iter.value()?)?;
        iter.next()?;
        (one, decode(iter.value()?)?)
    };
    ensure(one == other, || {
        format!("pair {pair} is read as {one} and {other}")
    })
}
