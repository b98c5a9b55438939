//! How often blocks were found by number: a count that many threads raise without meeting.

use kingtide_env::sync::atomic::{AtomicU64, Ordering};

use crate::Striped;

/// The sum of all raises.
#[derive(Default)]
pub(super) struct Hits(Striped<AtomicU64>);

impl Hits {
    #[inline]
    pub(super) fn raise(&self) {
        // Relaxed: statistics.
        self.0.mine().fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sum(&self) -> u64 {
        let counts = self.0.all();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}
