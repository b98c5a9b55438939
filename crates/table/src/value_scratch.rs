//! Memory in which values are read, kept for the reads that follow.
//!
//! A value of a megabyte is read into one buffer and decompressed into another. To allocate, zero and give back both for
//! each read costs a fifth of it. So some buffers are kept, with what was in them: only what a longer value needs more is
//! zeroed. Kept are at most two pairs, of a little more than a mebibyte each: small beside what readers at work take.

use kingtide_env::sync::Mutex;

use crate::long_value::LONG_VALUE_BYTES;

/// The most pairs of buffers that are kept.
const PAIRS_MAX: usize = 2;
/// The longest buffer that is kept, in bytes: a mebibyte and a header.
const BUFFER_BYTES_MAX: usize = LONG_VALUE_BYTES + (4 << 10);

/// The memory for one read.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffers {
    /// What lies in the file.
    pub(crate) record: Vec<u8>,
    /// The value.
    pub(crate) value: Vec<u8>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct KeptBuffers(Mutex<Vec<ReadBuffers>>);

impl KeptBuffers {
    /// Lends buffers to `read`; their content before means nothing. Those of readers beside each other are different ones.
    pub(crate) fn lend<R>(&self, read: impl FnOnce(&mut ReadBuffers) -> R) -> R {
        let mut buffers = self.0.lock().pop().unwrap_or_default();
        let outcome = read(&mut buffers);
        for buffer in [&mut buffers.record, &mut buffers.value] {
            if buffer.capacity() > BUFFER_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
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
    /// one after another and within each other.
    #[test]
    fn buffers_are_used_again_but_for_long_ones() {
        let kept = KeptBuffers::default();
        let grow = |buffers: &mut ReadBuffers, bytes: usize| buffers.value.resize(bytes, 1);
        kept.lend(|buffers| grow(buffers, 1000));
        kept.lend(|buffers| {
            assert_eq!(buffers.value.len(), 1000);
            kept.lend(|others| assert_eq!(others.value.capacity(), 0));
        });
        // Of those kept the last one returned comes first.
        kept.lend(|_| kept.lend(|buffers| assert_eq!(buffers.value.capacity(), 0)));
        kept.lend(|buffers| grow(buffers, BUFFER_BYTES_MAX + 1));
        kept.lend(|buffers| assert!(buffers.value.capacity() <= BUFFER_BYTES_MAX));
        assert!(kept.0.lock().len() <= PAIRS_MAX);
    }
}
