//! Whether something happened lately, as a hint for decisions that cost time at most when they are wrong.

use kingtide_env::sync::atomic::{AtomicU32, Ordering};

/// Something that is remembered while `EVENTS` others pass. On a cache line, and the line that the processor fetches with it, of
/// its own: looked at all the time, and changed now and then.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Lately<const EVENTS: u32> {
    /// Events that have still to pass.
    left: AtomicU32,
}

impl<const EVENTS: u32> Lately<EVENTS> {
    /// It happens; true when it had been forgotten. To several threads at once, or to none, beside an event that passes.
    #[inline]
    pub(crate) fn note(&self) -> bool {
        // Relaxed, here and below: a hint. Looked at first, so that those who note it again and again share the cache line.
        let left = self.left.load(Ordering::Relaxed);
        if left != EVENTS {
            self.left.store(EVENTS, Ordering::Relaxed);
        }
        left == 0
    }

    /// Whether it is remembered.
    pub(crate) fn is_remembered(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// An event passes; whether it was remembered until now.
    pub(crate) fn pass(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn it_is_remembered_while_so_many_events_pass() {
        let read = Lately::<2>::default();
        assert!(!read.pass());
        assert!(read.note());
        assert!(!read.note());
        assert!(read.pass());
        assert!(!read.note(), "not forgotten yet");
        assert!(read.pass());
        assert!(read.is_remembered());
        assert!(read.pass());
        assert!(!read.is_remembered());
        assert!(!read.pass());
        assert!(read.note());
    }
}
