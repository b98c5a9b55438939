//! Tests of tables and value files against naive models, in a world in memory.

mod cache;
mod damage;
mod dictionary;
mod fences;
mod golden;
mod identity;
mod long_value;
pub(crate) mod model;
mod ranges;
mod tables;
mod value_ahead;
mod value_log;
mod value_pieces;
mod values_on_demand;
mod walks;
mod warm;
