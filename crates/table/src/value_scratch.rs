//! Memory in which values are read, kept for the reads that follow.
//!
//! A value of a megabyte is read into one buffer and decompressed into another. To allocate, zero and give back both for
//! each read costs a fifth of it. So some buffers are kept, with what was in them: only what a longer value needs more is
//! zeroed. Kept are at most two pairs, of a little more than a mebibyte each: small beside what readers at work take.
//!
//! Of values of a few KiB the reads are so short that two threads would wait for each other's lock; each thread keeps a pair
//! of its own for them.

use std::cell::Cell;

use kingtide_collections::LONG_VALUE_BYTES;
use kingtide_env::sync::Mutex;

/// The most pairs of buffers that are kept.
const PAIRS_MAX: usize = 2;
/// The longest buffer that is kept, in bytes: a mebibyte and a header.
const BUFFER_BYTES_MAX: usize = LONG_VALUE_BYTES + (4 << 10);

/// Values up to this length, in bytes, are read in the thread's own buffers.
const SHORT_BYTES_MAX: usize = 16 << 10;

thread_local! {
    static SHORT: Cell<ReadBuffers> = Cell::default();
}

/// The memory for one read.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffers {
    /// What lies in the file.
    pub(crate) record: Vec<u8>,
    /// The value.
    pub(crate) value: Vec<u8>,
}

impl ReadBuffers {
    /// Gives up what is longer than `bytes_max`.
    fn trim(&mut self, bytes_max: usize) {
        for buffer in [&mut self.record, &mut self.value] {
            if buffer.capacity() > bytes_max {
                *buffer = Vec::new();
            }
        }
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct KeptBuffers(Mutex<Vec<ReadBuffers>>);

impl KeptBuffers {
    /// Lends buffers to `read`, which reads a value of `value_bytes`; their content before means nothing. Those of readers beside
    /// or within each other are different ones.
    pub(crate) fn lend<R>(
        &self,
        value_bytes: usize,
        read: impl FnOnce(&mut ReadBuffers) -> R,
    ) -> R {
        if value_bytes <= SHORT_BYTES_MAX {
            let mut buffers = SHORT.take();
            let outcome = read(&mut buffers);
            buffers.trim(2 * SHORT_BYTES_MAX);
            SHORT.set(buffers);
            return outcome;
        }
        let mut buffers = self.0.lock().pop().unwrap_or_default();
        let outcome = read(&mut buffers);
        buffers.trim(BUFFER_BYTES_MAX);
        let mut kept = self.0.lock();
        if kept.len() < PAIRS_MAX {
            kept.push(buffers);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: buffers are used again, by one reader at a time, and long ones are not kept. Method: capacities seen by reads
    /// one after another and within each other, of long values and of short ones.
    #[test]
    fn buffers_are_used_again_but_for_long_ones() {
        for (value_bytes, kept_bytes_max) in [
            (SHORT_BYTES_MAX, 2 * SHORT_BYTES_MAX),
            (SHORT_BYTES_MAX + 1, BUFFER_BYTES_MAX),
        ] {
            let kept = KeptBuffers::default();
            let lend = |read: &mut dyn FnMut(&mut ReadBuffers)| kept.lend(value_bytes, read);
            lend(&mut |buffers| buffers.value.resize(1000, 1));
            lend(&mut |buffers| {
                assert_eq!(buffers.value.len(), 1000);
                lend(&mut |others| assert_eq!(others.value.capacity(), 0));
            });
            lend(&mut |buffers| assert!(buffers.value.capacity() >= 1000));
            lend(&mut |buffers| buffers.value.resize(kept_bytes_max + 1, 1));
            lend(&mut |buffers| assert!(buffers.value.capacity() <= kept_bytes_max));
            assert!(kept.0.lock().len() <= PAIRS_MAX);
        }
    }
}
