//! When and what to merge, and how much writers are held back: pure functions from the shape of a family's tree to a
//! plan. No I/O, no clock, no state.
//!
//! The caller describes the tree ([`TreeShape`]), asks [`pick_merge`] for a plan, marks the plan's inputs busy, runs
//! it and installs the result in one step. It may ask again before that for a second plan to run at the same time.
//!
//! The policy is leveled with dynamic capacities, chosen because it is easy to check; a later one (Spooky, see
//! Dayan et al., "Spooky: Granulating LSM-Tree Compactions Correctly", VLDB 2022) will replace it behind these types.

mod pace;
mod pick;
mod shape;
mod values;

pub use pace::{BYTES_PER_STEP, DELAY_STEP_MAX, Standing, delay, pressure};
pub use pick::{merge_all, merge_range, pick_merge};
pub use shape::{MergeInput, MergePlan, PolicyOptions, TableShape, TreeShape};
pub use values::{
    NewerDeletes, ValueBounds, ValueFileShape, ValueShape, ValueTable, ValueWork, hidden_bytes_max,
    pick_value_work, rewrite_table,
};

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
