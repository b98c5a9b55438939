//! Commits: their order, their durability, their visibility.
//!
//! | module | what it is |
//! |---|---|
//! | `order` | the commit lock and the visible watermark; checked by loom, with `group` |
//! | `group` | group commit: who syncs, and who waits for whom |
//! | `pipeline` | one commit from the transaction's buffers to the log and the memtables |
//! | `disk` | the room on the device that writes leave free |
//! | `gate` | keeps commits out of the order for the moment of a bulk load |
//! | `giving_way` | when a writer gives the processor away of its own accord |
//! | `keeper` | what wakes the thread that keeps the log |
//! | `log_room` | blank segments, and going on in a small one when the log is empty |
//! | `write_set` | the operations of one transaction, in log format from the first put |
//! | `hooks` | commit hooks of one write set |
//! | `validate` | first committer wins: what was written or read may not have been written by others since |
//! | `pace` | writers are slowed down when flushing falls behind or memory is short |
//! | `stall` | they wait here when that is not enough |
//! | `telling` | what events tell of seals, syncs and stalls |
//! | `two_phase` | preparing a transaction, its outcome, and where its record stays |
//! | `prepared` | what is kept of a prepared transaction, and which names are taken |
//! | `locks`, `lock_table` | what one prepared transaction locks, and all of them |

mod disk;
mod gate;
mod giving_way;
mod group;
mod hooks;
mod keeper;
#[cfg(all(test, loom))]
mod keeper_models;
mod lock_table;
mod locks;
mod log_room;
mod order;
mod pace;
mod packing;
mod pipeline;
mod prepared;
mod stall;
mod telling;
mod two_phase;
mod validate;
mod write_set;

pub(crate) use gate::{ClosedGate, load_unknown};
pub(crate) use keeper::Wake;
pub(crate) use lock_table::{LockTable, RecordPlace};
pub(crate) use order::OrderState;
pub(crate) use pace::FlushEarly;
pub(crate) use pipeline::{
    Attention, CommitLog, Durability, Pipeline, PipelineParts, RUNS_KEPT, reopen_required,
};
pub(crate) use prepared::{FamilyOf, Prepared, PreparedNames};
pub(crate) use validate::Validation;
pub(crate) use write_set::{OwnWrite, WriteMark, WriteSet};
