//! A model of the budget, run by loom in every interleaving with up to three preemptions.

use super::*;

/// Goal: whatever is charged is given back, and nobody sees more than was charged. Method: a charge that comes and goes, one
/// that changes, and a look at both numbers.
#[test]
fn loom_charges_are_counted_and_given_back() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let budget = MemoryBudget::new(100);
        let other = Arc::clone(&budget);
        let short = loom::thread::spawn(move || drop(other.charge(Account::Cache, 30)));
        let other = Arc::clone(&budget);
        let changed = loom::thread::spawn(move || {
            let mut charge = other.charge(Account::Buffers, 10);
            charge.set(50);
            charge.set(20);
            charge
        });
        assert!(budget.used() <= 80);
        assert!(budget.of(Account::Cache) <= 30);
        short.join().expect("no panic");
        let charge = changed.join().expect("no panic");
        assert_eq!((budget.used(), budget.of(Account::Buffers)), (20, 20));
        drop(charge);
        assert_eq!((budget.used(), budget.available()), (0, 100));
    });
}
