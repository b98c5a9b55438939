//! Flushing before memtables are full, because memory is short.

use std::{
    cmp::Reverse,
    sync::{Arc, Weak},
};

use crate::{engine::Engine, write::FlushEarly};

/// So many memtables are sealed at once, at most.
const SEALED_AT_ONCE_MAX: usize = 64;
/// A memtable that holds less has hardly been touched.
const HELD_BYTES_MIN: usize = 8 << 10;
/// This part of the budget is worth it: once so much is sealed, the rest goes on filling.
const WORTH_DIVISOR: usize = 32;

/// Seals the memtables of the engine that hold the most memory: one as a rule, several where all are small. An empty one
/// that was made of used memory holds that, and is replaced.
pub(crate) struct LargestFirst(pub(crate) Weak<Engine>);

impl FlushEarly for LargestFirst {
    fn flush_early(&self) -> bool {
        let Some(engine) = self.0.upgrade() else {
            return false;
        };
        if engine.pipeline.stall.waiting() > 0 {
            // What is on its way comes first: flushing much at once makes small tables, and frees nothing sooner.
            return true;
        }
        let families = engine.families.all().into_iter();
        let mut sizes: Vec<_> = families
            .map(|family| {
                let active = Arc::clone(&family.load().active);
                (active.table.memory_bytes(), family, active)
            })
            .filter(|(bytes, ..)| *bytes >= HELD_BYTES_MIN)
            .collect();
        sizes.sort_by_key(|(bytes, ..)| Reverse(*bytes));
        let worth = engine.pipeline.memory.plan.limit_bytes / WORTH_DIVISOR;
        let all: usize = sizes.iter().map(|(bytes, ..)| bytes).sum();
        if all < worth / 2 {
            // It is not memtables that hold the memory: flushing them would make many small tables for nothing.
            return false;
        }
        let mut sealed = 0;
        for (bytes, family, active) in sizes.into_iter().take(SEALED_AT_ONCE_MAX) {
            if sealed >= worth {
                break;
            }
            engine.pipeline.try_rotate(&family, &active);
            sealed += bytes;
        }
        sealed > 0
    }
}
