//! How often blocks were found by number: a count that many threads raise without meeting.

use kingtide_env::sync::atomic::{AtomicU64, Ordering};

/// Threads are spread over so many counts.
const STRIPES: usize = 16;
/// Memory of different threads' own variables lies at least so far apart.
const THREAD_SHIFT: u32 = 12;

thread_local! {
    // Its address tells threads apart; nothing is kept in it.
    static MINE: u8 = const { 0 };
}

/// One count on a cache line, and the line that the processor fetches with it, of its own.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

/// The sum of all raises.
#[derive(Default)]
pub(super) struct Hits([Stripe; STRIPES]);

impl Hits {
    #[inline]
    pub(super) fn raise(&self) {
        let mine = MINE.with(|mine| std::ptr::from_ref(mine).addr() >> THREAD_SHIFT);
        // Relaxed: statistics.
        self.0[mine % STRIPES].0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sum(&self) -> u64 {
        let counts = self.0.iter();
        counts.map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}
