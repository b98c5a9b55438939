//! Proofs of isolation: what transactions see of each other is what their levels say.
//!
//! | module | what it shows |
//! |---|---|
//! | [`hermitage`] | each cell of the table of anomalies, in every interleaving of scripted transactions |

pub mod hermitage;

use kingtide::IsolationLevel;

/// The levels, weakest first.
pub const LEVELS: [IsolationLevel; 5] = [
    IsolationLevel::ReadUncommitted,
    IsolationLevel::ReadCommitted,
    IsolationLevel::RepeatableRead,
    IsolationLevel::Snapshot,
    IsolationLevel::Serializable,
];

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

/// True when all reads of a transaction are at the state of its beginning.
#[must_use]
pub const fn has_one_view(level: IsolationLevel) -> bool {
    !matches!(
        level,
        IsolationLevel::ReadUncommitted | IsolationLevel::ReadCommitted
    )
}
