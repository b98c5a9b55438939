//! Looking for tombstones that got too old: whether or not anybody writes.
//!
//! The keeper looks every few seconds, at families whose settings ask for it. It notes which memtables hold tombstones now,
//! so that these have an age before they are flushed; seals active ones whose tombstones are overdue; and asks for a merge
//! where a table is overdue and the policy wants one. Between two looks nothing is lost but time. How overdue tables sink is
//! for the policy; why that ends is told in [`Overdue`].

use std::sync::Arc;

use super::scheduler::Background;
use crate::{compaction::age::Overdue, engine::Engine, family::Family};

impl Background {
    /// Has overdue tombstones of all families seen to.
    pub(crate) fn schedule_overdue(&self, engine: &Engine) {
        if engine.options.read_only || self.are_merges_stopped() {
            return;
        }
        for family in engine.families.all() {
            if !family.options().tombstone_age_max.is_zero() {
                self.look_at_ages(engine, &family);
            }
        }
    }

    fn look_at_ages(&self, engine: &Engine, family: &Arc<Family>) {
        let now = engine.unix_seconds();
        let current = family.load_full();
        for memory in current.memories() {
            memory.look_for_tombstones(now);
        }
        let Some(overdue) = Overdue::now(engine, family) else {
            return;
        };
        if overdue.is_memory(&current.active) {
            // Where sealing must wait, the next look tries again. A flush asks for the merge by itself.
            engine.pipeline.try_rotate(family, &current.active);
        }
        let is_overdue = current
            .version
            .tables()
            .any(|(_, table)| overdue.is_table(table));
        if is_overdue {
            self.schedule_merge(engine, family);
        }
    }
}
