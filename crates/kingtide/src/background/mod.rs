//! Background work: threads that flush, merge tables, merge memtable runs, and keep the log.
//!
//! | module | what it is |
//! |---|---|
//! | `age` | tombstones that got too old are seen to |
//! | `scheduler` | what waits to be done, who does it, and when everything is done |
//! | `helping` | idle threads help, and running merges give way |
//! | `early` | a memtable is flushed before it is full when memory is short |
//! | `hold` | merging by hand, cancelling merges, what is going on |
//! | `collect` | dead values give their room back |
//! | `settle` | families with many tombstones are merged when the database is idle |
//! | `order` | values are put in the order of their keys when the database is idle |
//! | `rest` | level 1 is emptied when the database is idle |
//! | `warm` | what was written is brought into the block cache when the database is idle |
//! | `trim` | memory that was freed goes back to the system |
//! | `keeper` | the log's keeper: windows and blanks ahead of the tail, interval syncs, marks |
//!
//! Flushes go before merges, because writers wait for them. A failed flush or merge is tried again after a pause: its
//! inputs are untouched.

mod age;
mod collect;
mod early;
mod helping;
mod hold;
mod keeper;
mod order;
mod rest;
mod scheduler;
mod settle;
mod trim;
mod warm;

pub(crate) use early::LargestFirst;
pub(crate) use scheduler::{Background, Task};
