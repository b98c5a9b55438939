//! Buffers that are kept for later use, in several places: a thread finds those that it gave back itself, which lie in the
//! cache of its processor, and threads do not meet at one lock.

use kingtide_collections::Striped;
use kingtide_env::sync::Mutex;

/// What a place keeps at most.
const KEPT_MAX: usize = 4;

/// See the module. May be used by any number of threads.
pub(super) struct Kept<T>(Striped<Mutex<Vec<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        let places = Striped::<Mutex<Vec<T>>>::default();
        for place in places.all() {
            place.lock().reserve_exact(KEPT_MAX);
        }
        Self(places)
    }
}

impl<T> Kept<T> {
    /// Takes out what the calling thread kept last.
    pub(super) fn take(&self) -> Option<T> {
        self.0.mine().lock().pop()
    }

    /// Keeps `item`, or gives it back where enough is kept.
    pub(super) fn keep(&self, item: T) -> Result<(), T> {
        let mut kept = self.0.mine().lock();
        if kept.len() == KEPT_MAX {
            return Err(item);
        }
        kept.push(item);
        Ok(())
    }

    /// Takes out everything.
    pub(super) fn take_all(&self) -> Vec<T> {
        let places = self.0.all();
        places
            .flat_map(|place| std::mem::take(&mut *place.lock()))
            .collect()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: what a thread keeps comes back to it, the last first, up to a bound; and all of it can be taken out.
    #[test]
    fn a_thread_finds_what_it_kept() {
        let kept = Kept::default();
        assert_eq!(kept.take(), None);
        for number in 0..KEPT_MAX {
            assert_eq!(kept.keep(number), Ok(()));
        }
        assert_eq!(kept.keep(99), Err(99), "enough is kept");
        assert_eq!(kept.take(), Some(KEPT_MAX - 1));
        // There is room for one more, also if the other thread should have the same place.
        let outcome = std::thread::scope(|scope| scope.spawn(|| kept.keep(100)).join());
        assert_eq!(outcome.expect("no panic"), Ok(()));
        let mut all = kept.take_all();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 100]);
        assert_eq!(kept.take(), None);
    }
}
