//! Commits: their order, their durability, their visibility.
//!
//! | module | what it is |
//! |---|---|
//! | `order` | the commit lock, the visible watermark and group commit; checked by loom |
//! | `pipeline` | one commit from the transaction's buffers to the log and the memtables |
//! | `disk` | the room on the device that writes leave free |
//! | `restart` | going on in a small segment when the log is empty |
//! | `write_set` | the operations of one transaction, in log format from the first put |
//! | `validate` | first committer wins: what was written or read may not have been written by others since |
//! | `stall` | writers wait here when flushing falls behind |

mod disk;
mod order;
mod pipeline;
mod restart;
mod stall;
mod validate;
mod write_set;

pub(crate) use pipeline::{
    Attention, CommitLog, Durability, Pipeline, PipelineParts, reopen_required,
};
pub(crate) use validate::Validation;
pub(crate) use write_set::{OwnWrite, WriteMark, WriteSet};
