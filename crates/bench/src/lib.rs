//! Benchmarks of Kingtide and, beside it, of engines that happen to be installed on the machine.
//!
//! | module | what it is |
//! |---|---|
//! | [`Settings`] | what is run and with which settings, as plain data |
//! | [`engines`] | one small trait, [`Engine`], and what stands behind it |
//! | [`run`] | one engine, in this process: the phases one after the other, measured and verified |
//! | [`child`] | the same in a process of its own, so that memory and caches of two engines never mix |
//! | [`compare`] | two results side by side, and what became worse |
//! | [`html`] | pages that show results |
//! | [`Spinners`] | idle-priority processes that keep the cores awake while syncs are timed |
//!
//! What every phase does: keys and values are made outside the timed part, every value that comes back is compared
//! with the one that was written, and anything missing or wrong is counted and fails the run.
#![deny(unsafe_code)]

pub mod child;
mod compare;
pub mod engines;
mod error;
pub mod html;
mod measure;
mod permutation;
mod random;
mod report;
mod row;
mod settings;
mod spin;
mod summary;
mod values;
mod workload;

pub use compare::{Comparison, Difference, Metric, Pair, Regression, Side, Verdict, compare};
pub use engines::{Engine, Session};
pub use error::{BenchError, Result};
pub use measure::disk_bytes;
pub use permutation::Permutation;
pub use report::{LatencyNanos, PhaseReport, RunReport, Usage};
pub use row::{MachineInfo, Row, Status, TimelinePoint};
pub use settings::{Codec, EngineChoice, EngineKind, Pattern, Phase, Settings, SyncChoice};
pub use spin::{Spinners, spin_until_stdin_closes};
pub use summary::Summary;
pub use values::{KeyMaker, ValueMaker};
pub use workload::run;
