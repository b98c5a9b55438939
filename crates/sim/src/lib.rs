//! The simulator: the real engine, with all its background threads, in an order of threads that follows from a seed.
//!
//! | module | what it is |
//! |---|---|
//! | [`plan`] | what a simulation does, as a text file that replays it |
//! | `simulation` | runs a plan, twice where asked |
//! | `clients` | several clients that commit, power cuts at calls of any thread |
//! | [`reduce`] | makes a failing plan small |
//! | `zoo` | plants known bugs and looks who catches them |
//! | [`report`] | progress and lines |
//! | [`tally`] | what was gone through |
//!
//! What has no link here is compiled under `--cfg simulated` only. The program `kingtide-sim` is the way to use it.

#[cfg(simulated)]
pub mod clients;
pub mod plan;
pub mod reduce;
pub mod report;
#[cfg(simulated)]
pub mod simulation;
pub mod tally;
#[cfg(simulated)]
pub mod zoo;
