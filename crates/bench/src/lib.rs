//! Benchmarks of Kingtide and, beside it, of engines that happen to be installed on the machine.
//!
//! | module | what it is |
//! |---|---|
//! | [`Settings`], [`Step`] | what is run and with which settings, as plain data |
//! | [`engines`] | one small trait, [`Engine`], and what stands behind it |
//! | [`run`] | one engine, in this process: the steps one after the other, measured and verified |
//! | [`child`] | the same in a process of its own, so that memory and caches of two engines never mix |
//! | [`compare`] | two results side by side, and what became worse |
//! | [`html`] | pages that show results |
//! | [`suite`] | tests with names, from files; several engines and rounds, one after the other |
//! | [`Row`], [`Summary`] | results as CSV and JSON lines; medians and spread over rounds |
//! | [`MachineWatch`] | the machine, and whether it was the run's alone |
//! | [`Spinners`] | idle-priority processes that keep the cores awake while syncs are timed |
//!
//! What every step does: keys and values are made outside the timed part, every value that comes back is compared
//! with the one that was written, and anything missing or wrong is counted and fails the run.
#![deny(unsafe_code)]

pub mod child;
mod compare;
mod data;
pub mod engines;
mod error;
pub mod html;
mod measure;
mod report;
mod row;
mod settings;
mod spin;
pub mod suite;
mod summary;
mod test_key;
mod workload;

pub use compare::{
    Comparison, Difference, Metric, Pair, Regression, Side, Verdict, compare, why_nothing_pairs,
};
pub use data::{
    keys::{KeyForm, KeyMaker},
    permutation::Permutation,
    values::{ValueMaker, ValueSizes},
};
pub use engines::{Engine, Session};
pub use error::{BenchError, Result};
pub use measure::{MachineWatch, busy_warnings, disk_bytes};
pub use report::{Event, LatencyNanos, OperationReport, RunEnd, StepReport, Usage};
pub use row::{MachineInfo, Row, Status, TimelinePoint};
pub use settings::{
    Codec, EngineChoice, EngineKind, OperationKind, Pattern, Settings, Step, SyncChoice,
    ValueContent, Workload, parse_bytes, parse_count,
};
pub use spin::{Spinners, spin_until_stdin_closes};
pub use summary::Summary;
pub use test_key::operation_labels;
pub use workload::{Open, run, run_with};
