//! Flushing before a memtable is full, because memory is short.

use std::sync::{Arc, Weak};

use crate::{engine::Engine, write::FlushEarly};

/// Flushing less than this gives too little back for a table of its own; less still under the smallest budgets.
const WORTH_BYTES: usize = 256 << 10;

/// Seals the largest memtable of the engine.
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
        let sizes = families.map(|family| {
            let active = Arc::clone(&family.load().active);
            (active.table.bytes(), family, active)
        });
        let Some((bytes, family, active)) = sizes.max_by_key(|(bytes, ..)| *bytes) else {
            return false;
        };
        if bytes < WORTH_BYTES.min(engine.pipeline.memory.plan.limit_bytes / 64) {
            return false;
        }
        engine.pipeline.try_rotate(&family, &active);
        true
    }
}
