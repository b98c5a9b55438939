//! What a process and its machine show of themselves.

mod machine;
mod process;

pub(crate) use machine::utc_now;
pub use machine::{MachineWatch, busy_warnings};
pub use process::disk_bytes;
pub(crate) use process::{Counters, PeakWatch};
