//! A data race, on purpose: two threads add to one number with nothing between them. `cargo xtask sanitize thread` runs it
//! and fails when the sanitizer says nothing. Of no other use: what it prints means nothing.

use std::{cell::UnsafeCell, io::Write as _, sync::Barrier, thread};

/// A number that claims to be shared safely, and is not.
struct Unguarded(UnsafeCell<u64>);

// SAFETY: there is none, and that is what the program is for. Nothing but the number is at stake.
unsafe impl Sync for Unguarded {}

impl Unguarded {
    fn add(&self, amount: u64) {
        // SAFETY: as above. The pointer is that of a live number.
        unsafe { *self.0.get() += amount };
    }
}

fn main() -> std::io::Result<()> {
    let number = Unguarded(UnsafeCell::new(0));
    // Both threads are there before either adds: one that takes the place of another looks to the sanitizer like it.
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for amount in [1, 2] {
            let (number, barrier) = (&number, &barrier);
            scope.spawn(move || {
                barrier.wait();
                number.add(amount);
            });
        }
    });
    writeln!(std::io::stdout(), "{}", number.0.into_inner())
}
