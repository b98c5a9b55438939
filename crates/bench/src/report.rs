//! What a run found out, as plain data.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{EngineKind, Phase};

/// Latencies of the calls of a phase (a batch is one call), in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyNanos {
    /// Half of the calls were as fast.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
    /// The arithmetic mean.
    pub mean: f64,
}

impl LatencyNanos {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
            mean: histogram.mean(),
        }
    }
}

/// What the process used during a phase, its background work and the making of keys and values included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in the program, summed over threads.
    pub user_seconds: f64,
    /// Processor time in the kernel.
    pub system_seconds: f64,
    /// Bytes fetched from the device.
    pub read_bytes: u64,
    /// Bytes sent towards the device; on file systems in memory 0.
    pub written_bytes: u64,
    /// Highest resident memory.
    pub peak_memory_bytes: u64,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// Keys written, read or visited.
    pub operations: u64,
    /// Calls they were made with.
    pub calls: u64,
    /// Bytes of keys and values that went through the calls.
    pub user_bytes: u64,
    /// From the first call to the end of the slowest thread.
    pub wall_seconds: f64,
    /// Time inside calls, averaged over threads: keys, values and checks are made outside of it.
    pub call_seconds: f64,
    /// Operations per second of `call_seconds`.
    pub operations_per_second: f64,
    /// The wait for flushes and merges after the phase.
    pub settle_seconds: f64,
    /// Latencies of the calls.
    pub latency: LatencyNanos,
    /// What the process used, the wait included.
    pub usage: Usage,
    /// Bytes on the device after the phase.
    pub database_bytes: u64,
    /// Keys that should have been found and were not, or were found and should not.
    pub missing: u64,
    /// Keys or values that came back different.
    pub wrong: u64,
}

impl PhaseReport {
    /// True when every answer was right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.missing == 0 && self.wrong == 0
    }
}

/// One engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Which.
    pub engine: EngineKind,
    /// Its version, or the file it was loaded from.
    pub version: String,
    /// The phases in the order they ran.
    pub phases: Vec<PhaseReport>,
    /// Opening the empty database, in seconds.
    pub open_seconds: f64,
    /// Closing it, in seconds.
    pub close_seconds: f64,
    /// What a reader of the numbers should know.
    pub notes: Vec<String>,
}

impl RunReport {
    /// True when every answer in every phase was right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.phases.iter().all(PhaseReport::is_right)
    }
}
