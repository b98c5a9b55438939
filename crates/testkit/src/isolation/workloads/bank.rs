//! Accounts between which money moves, audited all the while.

use kingtide::IterOptions;
use kingtide_env::give_way;

use super::{Bench, Round, WorkTally, commits, decode, number, on_threads, share};
use crate::{
    random::Random,
    violation::{Checked, ensure},
};

/// Accounts of each of the two families.
const ACCOUNTS: usize = 12;
const START: u64 = 100;
/// Transfers for each audit.
const TRANSFERS: u64 = 8;

/// Runs so many audits, and eight times as many transfers.
///
/// # Errors
/// When an audit finds another sum.
pub fn bank(round: &Round) -> Checked<WorkTally> {
    let bench = Bench::open(round)?;
    let mut fill = bench.db.begin()?;
    for account in 0..2 * ACCOUNTS {
        fill.put(bench.family(account), &key(account), &START.to_le_bytes())?;
    }
    fill.commit()?;
    drop(fill);
    let work = |thread: usize| -> Checked<WorkTally> {
        let mut random = Random::new(round.seed ^ thread as u64);
        let mut tally = WorkTally::default();
        for _ in 0..share(round.operations, round.threads, thread) {
            for _ in 0..TRANSFERS {
                while !transfer(&bench, round, &mut random)? {
                    tally.conflicts += 1;
                }
            }
            audit(&bench, round, &mut random)?;
            tally.operations += 1;
        }
        Ok(tally)
    };
    let tally = on_threads(round.threads, &work)?;
    audit(&bench, round, &mut Random::new(0))?;
    Ok(tally)
}

impl Bench {
    fn family(&self, account: usize) -> &kingtide::ColumnFamily {
        if account < ACCOUNTS {
            &self.left
        } else {
            &self.right
        }
    }
}

fn key(account: usize) -> [u8; 2] {
    [b'a', account as u8]
}

/// Moves a part of one account to another; false after a conflict.
fn transfer(bench: &Bench, round: &Round, random: &mut Random) -> Checked<bool> {
    let (from, to) = (random.below(2 * ACCOUNTS), random.below(2 * ACCOUNTS));
    if from == to {
        return Ok(true);
    }
    let mut transaction = bench.begin(round.level)?;
    let source = number(&transaction, bench.family(from), &key(from))?;
    let target = number(&transaction, bench.family(to), &key(to))?;
    let amount = random.below(source as usize + 1) as u64;
    let write = [(from, source - amount), (to, target + amount)];
    for (account, value) in write {
        transaction.put(bench.family(account), &key(account), &value.to_le_bytes())?;
    }
    if random.one_in(8) {
        // Gives the others time to be first.
        give_way();
    }
    commits(transaction)
}

/// Adds up all accounts in one view, by reads or by iterators.
fn audit(bench: &Bench, round: &Round, random: &mut Random) -> Checked {
    let mut view = bench.begin(round.level)?;
    let mut sum = 0;
    if random.one_in(2) {
        for account in 0..2 * ACCOUNTS {
            sum += number(&view, bench.family(account), &key(account))?;
        }
    } else {
        for family in [&bench.left, &bench.right] {
            let mut iter = view.iter(family, IterOptions::default())?;
            let mut is_valid = iter.seek_to_last()?;
            while is_valid {
                sum += decode(iter.value()?)?;
                is_valid = iter.prev()?;
            }
        }
    }
    view.commit()?;
    let wanted = START * 2 * ACCOUNTS as u64;
    ensure(sum == wanted, || {
        format!("an audit finds {sum}, not {wanted}")
    })
}
