//! Proofs of isolation: what transactions see of each other is what their levels say.
//!
//! | module | what it shows |
//! |---|---|
//! | [`hermitage`] | each cell of the table of anomalies, in every interleaving of scripted transactions |
//! | [`history`] | recorded histories of many threads are explained, read by read, by a checker and by a second one |
//! | [`workloads`] | programs with an invariant: counters, a bank, a set, pairs, would-be write skews |

pub mod hermitage;
pub mod history;
pub mod workloads;

use kingtide::IsolationLevel;

/// The levels, weakest first.
pub const LEVELS: [IsolationLevel; 5] = IsolationLevel::ALL;

/// The level as the manual writes it.
#[must_use]
pub const fn level_name(level: IsolationLevel) -> &'static str {
    match level {
        IsolationLevel::ReadUncommitted => "read uncommitted",
        IsolationLevel::ReadCommitted => "read committed",
        IsolationLevel::RepeatableRead => "repeatable read",
        IsolationLevel::Snapshot => "snapshot",
        IsolationLevel::Serializable => "serializable",
    }
}
