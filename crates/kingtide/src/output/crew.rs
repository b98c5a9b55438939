//! Threads that help a pass, and work that goes before it.
//!
//! A pass never waits for a thread that may not come: whoever runs it works on all of its parts, one after the other, and
//! threads with nothing else to do take parts away from it. At its checkpoints it does more urgent work itself, if some
//! waits and no thread is free for it, and then goes on where it was. What it gives way to is strictly more urgent, so
//! there are never more than three such pieces of work inside one another, and no two that wait for each other.

use std::sync::Arc;

use super::parts::Parts;
use crate::engine::Engine;

/// How soon a piece of work should be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Flushes: writers wait for them, and the log grows.
    Flush,
    /// Merges of level 1: every read looks at all of its tables.
    Shallow,
    /// Merges of deeper levels, and those by hand.
    Deep,
}

/// The threads of an open database, as a pass sees them.
pub(crate) trait Crew: Send + Sync {
    /// How many threads there are for work of this urgency; at least 1.
    fn threads(&self, urgency: Urgency) -> usize;

    /// From now on idle threads may take parts of `parts`.
    fn offer(&self, parts: &Arc<Parts>);

    /// No thread takes another part of `parts`.
    fn withdraw(&self, parts: &Arc<Parts>);

    /// Does one piece of work that is more urgent than `urgency`, if some waits and no thread is free for it; answers
    /// whether it did. Failures are told like those of any background work.
    fn give_way(&self, engine: &Engine, urgency: Urgency) -> bool;
}
