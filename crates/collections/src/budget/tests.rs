use std::{sync::Arc, thread};

use super::*;
use crate::testing::Random;

/// Goal: accounts, total and what is left are exact after any use. Method: charges that are made, changed and dropped at
/// random, beside a list of what they should be.
#[test]
fn accounts_are_exact() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let budget = MemoryBudget::new(50_000);
        let mut charges: Vec<(Charge, Account, usize)> = Vec::new();
        for _ in 0..200 {
            let bytes = random.below(10_000);
            let index = random.below(charges.len().max(1));
            match (random.below(4), charges.get_mut(index)) {
                (1, Some((charge, _, expected))) => {
                    charge.set(bytes);
                    *expected = bytes;
                }
                (2, Some((charge, _, expected))) => {
                    let step = 1 + random.below(5_000);
                    charge.follow(bytes, step);
                    if bytes.abs_diff(*expected) >= step {
                        *expected = bytes;
                    }
                }
                (3, Some(_)) => drop(charges.swap_remove(index)),
                _ => {
                    let account = Account::ALL[random.below(Account::ALL.len())];
                    charges.push((budget.charge(account, bytes), account, bytes));
                }
            }
            check(&budget, &charges, seed);
        }
        charges.clear();
        check(&budget, &charges, seed);
        assert_eq!(budget.used(), 0, "seed {seed}");
    }
}

fn check(budget: &MemoryBudget, charges: &[(Charge, Account, usize)], seed: u64) {
    let mut total = 0;
    for account in Account::ALL {
        let held = charges.iter().filter(|charge| charge.1 == account);
        let expected: usize = held.map(|charge| charge.2).sum();
        assert_eq!(budget.of(account), expected, "seed {seed}: {account:?}");
        total += expected;
    }
    assert_eq!(budget.used(), total, "seed {seed}");
    assert_eq!(
        budget.available(),
        50_000_usize.saturating_sub(total),
        "seed {seed}"
    );
}

/// Goal: threads do not lose each other's changes. Method: four threads charge, change and drop; in the end nothing is
/// left.
#[test]
fn threads_leave_nothing_behind() {
    let budget = MemoryBudget::unlimited();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || {
                for round in 0..1000_usize {
                    let account = Account::ALL[(thread + round) % Account::ALL.len()];
                    let mut charge = budget.charge(account, round);
                    charge.set(round * 7 % 1001);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(budget.used(), 0);
    assert!(Account::ALL.iter().all(|account| budget.of(*account) == 0));
}
