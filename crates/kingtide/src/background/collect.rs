//! Collection of the value log as background work. Like settling, and in the same queue, it holds the merges of its family:
//! it merges all tables at times, and then nothing may be merged into the gaps between them. Merges that are due are run
//! between its steps.

use std::sync::Arc;

use super::scheduler::{Background, Task};
use crate::{
    engine::Engine,
    error::Result,
    family::Family,
    vlog::{collect, wants_collection},
};

impl Background {
    /// Has the value files of `family` seen to, if there is something to do about them.
    pub(crate) fn schedule_collection(&self, engine: &Engine, family: &Arc<Family>) {
        if self.are_merges_stopped() {
            family.value_room.clear();
        } else if wants_collection(engine, family) {
            self.schedule(Task::Settle, family);
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// As [`collect`].
    pub(super) fn collect_values(&self, engine: &Engine, family: &Arc<Family>) -> Result<()> {
        if !wants_collection(engine, family) {
            return Ok(());
        }
        // Refused when merges were stopped.
        let Ok(_held) = self.hold_merges(family) else {
            return Ok(());
        };
        collect(engine, family, &|| self.are_merges_stopped())
    }
}
