//! Something that threads use so often that they must not meet at it: several of it, a thread's own first.

use kingtide_env::thread_slot;

/// Threads are spread over so many.
const STRIPES: usize = 16;

/// One, on a cache line, and the line that the processor fetches with it, of its own.
#[derive(Default)]
#[repr(align(128))]
struct Stripe<T>(T);

/// See the module. What one thread finds in [`Striped::mine`] others may find too: `T` must stand that.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use kingtide_collections::Striped;
///
/// let count = Striped::<AtomicU64>::default();
/// count.mine().fetch_add(1, Ordering::Relaxed);
/// assert_eq!(count.mine().load(Ordering::Relaxed), 1);
/// assert_eq!(count.all().map(|count| count.load(Ordering::Relaxed)).sum::<u64>(), 1);
/// ```
#[derive(Default)]
pub struct Striped<T>([Stripe<T>; STRIPES]);

impl<T> Striped<T> {
    /// The calling thread's; always the same one, and few others'.
    #[inline]
    pub fn mine(&self) -> &T {
        &self.0[thread_slot() % STRIPES].0
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &stripe.0)
    }
}
