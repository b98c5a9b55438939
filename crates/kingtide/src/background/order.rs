//! Values that lie scattered over many files are put in the order of their keys when the database is idle.

use std::sync::Arc;

use super::scheduler::Background;
use crate::{
    engine::Engine,
    error::Result,
    family::Family,
    vlog::{put_in_order, wants_order},
};

impl Background {
    /// Does so for `family`, if nobody has written for long. Given up when flushes have filled level 1 beside it.
    ///
    /// # Errors
    /// What merging answers.
    pub(super) fn order_values(&self, engine: &Engine, family: &Arc<Family>) -> Result<()> {
        if !family.take_rests() || !wants_order(engine, family) {
            return Ok(());
        }
        // Refused when merges were stopped.
        let Ok(_held) = self.hold_merges(family) else {
            return Ok(());
        };
        put_in_order(engine, family, &self.is_overtaken(family))
    }
}
