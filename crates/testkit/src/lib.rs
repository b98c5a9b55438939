//! Proofs that a database keeps its promises: what the integration tests and `crates/sim` share.
//!
//! | module | what it shows |
//! |---|---|
//! | [`history`] | random histories agree with a naive model, over kills and power cuts |
//! | [`script`] | a fixed history, cut at every I/O, recovers to a state that the promises allow |
//! | [`metamorphic`] | the same operations under different settings give the same answers |
//! | [`sequences`] | all short sequences of operations, cut at every call, recover to what was promised |
//! | [`kill`] | a real process killed on a real directory loses no acknowledged transaction |
//! | [`call_sites`] | every place that calls into the world may fail: nothing is lost, and work goes on |
//! | [`damage`] | a flipped byte anywhere is an error or harmless, never a wrong answer |
//! | [`repair`] | what is whole in a damaged database is brought back, and what is not is told |
//! | [`fuzz`] | any bytes are an error or harmless, in every decoder, and any calls answer as a map would |
//! | [`real_data`] | real records survive an import that is killed half way |
//! | [`fixtures`] | databases that older versions wrote open, and show what they held |
//! | [`isolation`] | transactions see of each other what their levels say |
//! | [`soak`] | minutes or hours of mixed load take no more memory, descriptors, threads or disk at the end than before |
//! | [`together`] | threads, the system's or a simulation's |
//! | [`model`] | the naive model: an ordered map of versions |
//!
//! Nothing here sleeps or measures time, but for [`soak`] and, while failed work waits to be tried again, [`call_sites`]. All randomness comes from a seed that every failure names; the order in which
//! the threads of [`isolation::history`] and [`isolation::workloads`] run is the machine's.

pub mod call_sites;
pub mod damage;
pub mod dump;
pub mod fixtures;
pub mod fuzz;
pub mod history;
pub mod isolation;
pub mod kill;
pub mod metamorphic;
pub mod model;
pub mod order;
pub mod random;
pub mod real_data;
pub mod repair;
pub mod runner;
pub mod script;
pub mod sequences;
pub mod soak;
pub mod together;
pub mod violation;
pub mod world;

pub use random::Random;
pub use violation::{Checked, Violation};
