//! When and what to merge, and how much writers are held back: pure functions from the shape of a family's tree to a
//! plan. No I/O, no clock, no state.
//!
//! The caller describes the tree ([`TreeShape`]), asks [`pick_merge`] for a plan, marks the plan's inputs busy and its
//! reservation taken, runs it and installs the result in one step. It may ask again before that for a second plan to run at
//! the same time. [`place`] tells how deep a new table may go.
//!
//! | module | what it is |
//! |---|---|
//! | `shape` | what the policy is told and what it answers |
//! | `pick` | the policy |
//! | `overlap` | the parts of level 1 |
//! | `place` | where new tables go |
//! | `values` | which value files are emptied, and how much room they may take meanwhile |
//! | `value_order` | which values are put in key order |
//! | `pace` | how much writers are held back |
//! | [`simulation`] | a tree that lives by plans: for tests, and for the binary `compaction-sim` |

mod overlap;
mod pace;
mod pick;
mod place;
mod shape;
pub mod simulation;
mod value_order;
mod values;

pub use overlap::sorted_runs;
pub use pace::{Standing, TURN_MAX, Turn, Turns, admission, patience};
pub use pick::{merge_all, merge_at_rest, merge_range, pick_merge, rewrite_table};
pub use place::place;
pub use shape::{
    MergeInput, MergePlan, PolicyOptions, Reservation, TableShape, TreeShape, last_level,
};
pub use value_order::{SCATTERED_FILES_MIN, pick_value_order};
pub use values::{
    LastPass, NewerDeletes, ValueBounds, ValueFileShape, ValueRoom, ValueShape, ValueTable,
    ValueWork, hidden_bytes_max, pick_value_work, value_room,
};

#[cfg(test)]
mod tests;
