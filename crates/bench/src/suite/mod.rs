//! Tests with names, from files; and running them, several engines and rounds one after the other.

mod campaign;
mod file;
mod options;
mod rows;
mod target;

pub use campaign::{Campaign, Ended, Observer, Run};
pub use file::{BUILT_IN, Suite, Test};
pub use options::Options;
pub use target::{Judgement, Target, TargetLine, TargetMetric, judge};
