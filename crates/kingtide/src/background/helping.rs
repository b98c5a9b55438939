//! The threads of a database as running passes see them: idle ones help, and a merge does what is more urgent itself when
//! no thread is free for it. See [`crew`](crate::output::crew).

use std::sync::Arc;

use kingtide_env::sync::atomic::Ordering;

use super::scheduler::{Background, Task, unless_dropped};
use crate::{
    compaction::run::{MergeOutcome, Wanted, merge_once},
    engine::Engine,
    error::Result,
    family::Family,
    flush::flush_oldest,
    output::{
        crew::{Crew, Urgency},
        parts::Parts,
    },
};

impl Crew for Background {
    fn threads(&self, urgency: Urgency) -> usize {
        // Relaxed: set before there is anything to run.
        match urgency {
            Urgency::Flush => self.flushers.load(Ordering::Relaxed),
            Urgency::Shallow | Urgency::Deep => {
                self.mergers.load(Ordering::Relaxed) + self.flushers.load(Ordering::Relaxed)
            }
        }
    }

    fn offer(&self, parts: &Arc<Parts>) {
        self.lock().offered.push(Arc::clone(parts));
        self.notify();
    }

    fn withdraw(&self, parts: &Arc<Parts>) {
        let mut queues = self.lock();
        queues
            .offered
            .retain(|offered| !Arc::ptr_eq(offered, parts));
    }

    fn give_way(&self, engine: &Engine, urgency: Urgency) -> bool {
        // Relaxed, here and below: hints.
        if urgency > Urgency::Flush
            && self.flushes_waiting.load(Ordering::Relaxed) > 0
            && let Some(family) = self.take_flush()
        {
            self.flush_between(engine, &family);
            return true;
        }
        if urgency > Urgency::Shallow && self.merges_waiting.load(Ordering::Relaxed) > 0 {
            return self.merge_between(engine);
        }
        false
    }
}

impl Background {
    /// A family that waits for its flush although no thread is free for it; its flush then counts as running.
    fn take_flush(&self) -> Option<Arc<Family>> {
        let mut queues = self.lock();
        // While work fails, others try it again after a pause.
        if queues.idle_flushers > 0 || queues.is_stopping || queues.failure.is_some() {
            return None;
        }
        // One that runs already would be waited for.
        let waits = |family: &&Arc<Family>| !queues.is_running(Task::Flush, family.id);
        let family = queues.waiting(Task::Flush).find(waits).map(Arc::clone)?;
        queues.remove(Task::Flush, family.id);
        queues.begin(Task::Flush, family.id);
        self.look_again(&queues);
        Some(family)
    }

    /// Flushes one memtable.
    fn flush_between(&self, engine: &Engine, family: &Arc<Family>) {
        let flushed = match family.is_dropped() {
            true => Ok(false),
            false => unless_dropped(family, flush_oldest(engine, family)),
        };
        if let Err(error) = &flushed {
            engine.pipeline.stall.note_failure(error);
            self.tell(engine, (Task::Flush, family), error);
        }
        if flushed.as_ref().is_ok_and(|is_flushed| *is_flushed) {
            self.schedule_merge(engine, family);
            if !family.load().sealed.is_empty() {
                self.schedule(Task::Flush, family);
            }
        }
        self.finish(
            (Task::Flush, engine.env.as_ref()),
            family,
            flushed.map(|_| ()),
        );
    }

    /// Runs one merge of level 1 that waits although no thread is free for it.
    fn merge_between(&self, engine: &Engine) -> bool {
        let families: Vec<Arc<Family>> = {
            let queues = self.lock();
            if queues.idle_mergers > 0 || queues.is_stopping || queues.failure.is_some() {
                return false;
            }
            let asked = queues.merges_asked;
            if self.merges_looked.swap(asked, Ordering::Relaxed) == asked {
                return false;
            }
            let waiting = queues.waiting(Task::Merge);
            waiting.map(Arc::clone).collect()
        };
        families.iter().any(|family| {
            self.begin_merge(family) && {
                let merged = unless_dropped(family, self.merge_level_one(engine, family));
                if let Err(error) = &merged {
                    self.tell(engine, (Task::Merge, family), error);
                }
                let is_merged = merged.as_ref().is_ok_and(|is_merged| *is_merged);
                self.finish(
                    (Task::Merge, engine.env.as_ref()),
                    family,
                    merged.map(|_| ()),
                );
                is_merged
            }
        })
    }

    /// Counts a merge of the family as running, unless it is merged by hand.
    fn begin_merge(&self, family: &Family) -> bool {
        let mut queues = self.lock();
        let may_run = !queues.is_held(family.id) && !queues.is_stopping;
        if may_run {
            queues.begin(Task::Merge, family.id);
        }
        may_run
    }

    fn merge_level_one(&self, engine: &Engine, family: &Arc<Family>) -> Result<bool> {
        if family.is_dropped() || self.are_merges_stopped() {
            return Ok(false);
        }
        let is_cancelled = || self.are_merges_stopped();
        let outcome = merge_once(engine, family, Wanted::LevelOne, &is_cancelled)?;
        Ok(outcome == MergeOutcome::Merged)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
