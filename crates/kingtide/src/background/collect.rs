//! Collection of the value log as background work: it counts as merging, and follows the merges of a family.

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
        if !self.are_merges_stopped() && wants_collection(engine, family) {
            self.schedule(Task::Merge, family);
        }
    }

    /// Does it; to be called when no merge of `family` is due.
    ///
    /// # Errors
    /// As [`collect`].
    pub(super) fn collect_values(&self, engine: &Engine, family: &Arc<Family>) -> Result<()> {
        let is_held = || self.lock().is_held(family.id);
        collect(engine, family, &|| !self.are_merges_stopped() && !is_held())?;
        if is_held() {
            self.schedule(Task::Merge, family);
        }
        Ok(())
    }
}
