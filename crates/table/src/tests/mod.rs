//! Tests of tables and value files against naive models, in a world in memory.

mod cache;
mod damage;
mod fences;
mod golden;
pub(crate) mod model;
mod ranges;
mod tables;
mod value_log;
