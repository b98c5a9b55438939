//! A tree that is not written to: what is left on level 1 is merged down, so that a reader finds each key in few places.
//!
//! Tables wait on level 1 until there are enough of them. While writes go on that is what keeps them cheap; once they have
//! ended, every point read and every seek would look into each of those tables for good. So when the log has been quiet
//! for long, level 1 is emptied, as far as the policy finds it no more work than merges are under load, or than was flushed since
//! it rested last (`merge_at_rest`).
//! What is in memory stays there. When flushes have filled level 1 beside the merge, it is given up.

use std::sync::Arc;

use super::scheduler::Background;
use crate::{
    compaction::{
        observe::{fills_level_one, wants_rest},
        run::{MergeOutcome, Wanted, merge_once},
    },
    engine::Engine,
    error::Result,
    family::Family,
};

impl Background {
    /// Empties level 1 of `family`, if that is worth it.
    ///
    /// # Errors
    /// What merging answers.
    pub(super) fn rest(&self, engine: &Engine, family: &Arc<Family>) -> Result<()> {
        if !wants_rest(engine, family) {
            return Ok(());
        }
        // Refused when merges were stopped.
        let Ok(_held) = self.hold_merges(family) else {
            return Ok(());
        };
        let is_cancelled = self.is_overtaken(family);
        while merge_once(engine, family, Wanted::AtRest, &is_cancelled)? == MergeOutcome::Merged {}
        // What is left of it does not pay for other times: a database that is written to a little now and then would else be
        // written anew each time for long.
        family.use_rest_credit(u64::MAX);
        Ok(())
    }

    /// Tells whether merges were stopped, or level 1 of `family` has filled since now.
    pub(super) fn is_overtaken<'a>(&'a self, family: &'a Family) -> impl Fn() -> bool + 'a {
        let is_filled = fills_level_one(family);
        move || self.are_merges_stopped() || is_filled()
    }
}
