//! What the write path tells of itself: sealed memtables, waits, and syncs.

use std::sync::Arc;

use kingtide_base::StorageResult;

use super::Pipeline;
use crate::{
    events::{Event, Events},
    family::Family,
    memtable::Memory,
};

/// A sync of the log that takes longer is told, in nanoseconds.
const SLOW_SYNC_NANOS: u64 = 1_000_000_000;
/// Nanoseconds in a microsecond.
const NANOS_PER_MICRO: u64 = 1_000;

impl Pipeline {
    /// Sets who is told; once, at open.
    pub(crate) fn tell(&self, events: &Arc<Events>) {
        let _ = self.events.set(Arc::clone(events));
    }

    pub(super) fn is_watched(&self) -> bool {
        self.events.get().is_some_and(|events| events.is_on())
    }

    fn emit(&self, make: impl FnOnce() -> Event) {
        if let Some(events) = self.events.get() {
            events.emit(make);
        }
    }

    /// A writer may have to wait; answers since when, if it does and somebody wants to know.
    pub(super) fn note_stall(&self, family: &Family, is_full: bool) -> Option<u64> {
        if !self.is_watched() || !is_full {
            return None;
        }
        self.emit(|| Event::StallBegin {
            family: family.name(),
        });
        Some(self.env.monotonic_nanos())
    }

    pub(super) fn note_stall_end(&self, family: &Family, begun: Option<u64>) {
        if let Some(begun) = begun {
            let micros = self.micros_since(begun);
            self.emit(|| Event::StallEnd {
                family: family.name(),
                micros,
            });
        }
    }

    /// A writer that waited for memory since `begun` goes on, or gives up.
    pub(super) fn tell_memory_wait(&self, begun: Option<u64>) {
        if let Some(begun) = begun {
            let micros = self.micros_since(begun);
            self.emit(|| Event::MemoryWaited { micros });
        }
    }

    /// A writer was held back for `nanos`.
    pub(super) fn tell_delayed(&self, nanos: u64) {
        if let Some(events) = self.events.get()
            && events.is_on()
        {
            let micros = nanos / NANOS_PER_MICRO;
            events.emit_frequent(|| Event::WriterDelayed { micros });
        }
    }

    /// A memtable has left its place; empty ones just go.
    pub(super) fn note_sealed(&self, family: &Family, memory: &Memory) {
        if !memory.table.is_empty() {
            self.emit(|| Event::MemtableSealed {
                family: family.name(),
                bytes: memory.table.bytes() as u64,
            });
        }
    }

    /// A sync that began at `begun` has ended.
    pub(super) fn tell_sync(&self, begun: u64, outcome: &StorageResult<()>) {
        match outcome {
            Err(error) => self.emit(|| Event::LogSyncFailed {
                message: error.to_string(),
            }),
            Ok(()) => {
                let micros = self.micros_since(begun);
                if micros > SLOW_SYNC_NANOS / NANOS_PER_MICRO {
                    self.emit(|| Event::LogSyncSlow { micros });
                } else if let Some(events) = self.events.get() {
                    events.emit_frequent(|| Event::LogSynced { micros });
                }
            }
        }
    }

    fn micros_since(&self, begun: u64) -> u64 {
        self.env.monotonic_nanos().saturating_sub(begun) / NANOS_PER_MICRO
    }
}
