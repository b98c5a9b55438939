//! What a run found out, as plain data: what the process that ran it tells the one that asked.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{OperationKind, Step, TimelinePoint};

/// Latencies of calls (a batch or a range is one call; of an iteration, each entry), in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyNanos {
    /// The fastest.
    pub min: u64,
    /// Half of the calls were as fast.
    pub p50: u64,
    /// 95 of 100.
    pub p95: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
}

impl LatencyNanos {
    /// Of calls the fastest and slowest of which took `min` and `max`: a histogram knows the bounds of its buckets only.
    pub(crate) fn of(histogram: &Histogram<u64>, min: u64, max: u64) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile).max(min).min(max);
        Self {
            min,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max,
            mean: histogram.mean(),
            deviation: histogram.stdev(),
        }
    }
}

/// What the process used during a step, its background work and the making of keys and values included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The time over which it was counted, in seconds: the step, and the wait for background work.
    pub counted_seconds: f64,
    /// Processor time in the program, summed over threads.
    pub user_seconds: f64,
    /// Processor time in the kernel.
    pub system_seconds: f64,
    /// Bytes fetched from the device.
    pub read_bytes: u64,
    /// Bytes of pages of files that became dirty: one that is written again before the system sends it to the device counts
    /// once. On file systems in memory 0.
    pub written_bytes: u64,
    /// Highest resident memory.
    pub peak_memory_bytes: u64,
    /// Highest address space.
    pub peak_address_bytes: u64,
}

impl Usage {
    /// Processor time in percent of the time over which it was counted, to two digits: 200 is two processors busy.
    #[must_use]
    pub fn processor_percent(&self) -> f64 {
        if self.counted_seconds <= 0.0 {
            return 0.0;
        }
        let share = (self.user_seconds + self.system_seconds) / self.counted_seconds;
        (share * 1e4).round() / 100.0
    }
}

/// One kind of operation of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationReport {
    /// Which.
    pub kind: OperationKind,
    /// Keys written or deleted, ranges, entries of an iteration, transactions.
    pub operations: u64,
    /// Calls they were made with.
    pub calls: u64,
    /// Time inside these calls, averaged over threads: keys, values and checks are made outside of it. At a limited rate,
    /// the time of the whole step.
    pub call_seconds: f64,
    /// Latencies.
    pub latency: LatencyNanos,
    /// Second by second, if asked for.
    pub timeline: Vec<TimelinePoint>,
}

impl OperationReport {
    /// Operations per second of [`OperationReport::call_seconds`].
    #[must_use]
    pub fn operations_per_second(&self) -> f64 {
        if self.operations == 0 {
            return 0.0;
        }
        self.operations as f64 / self.call_seconds.max(1e-9)
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Which.
    pub step: Step,
    /// When it began: RFC 3339, UTC.
    pub started_at: String,
    /// Each kind of operation, and all together when there are several.
    pub operations: Vec<OperationReport>,
    /// From the first call to the end of the slowest thread, with everything.
    pub wall_seconds: f64,
    /// The wait for flushes and merges after the step.
    pub settle_seconds: f64,
    /// What the process used, the wait included.
    pub usage: Usage,
    /// Bytes on the device after the wait.
    pub settled_bytes: u64,
    /// Bytes of keys and values that were written, and of keys that were deleted.
    pub user_bytes_written: u64,
    /// Bytes of keys and values that were read.
    pub user_bytes_read: u64,
    /// Keys that should have been found and were not.
    pub missing: u64,
    /// Keys or values that came back different, or should not be there.
    pub wrong: u64,
    /// Why it ended before its end.
    pub failure: Option<String>,
}

impl StepReport {
    /// True when it went to its end and every answer was right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.missing == 0 && self.wrong == 0 && self.failure.is_none()
    }
}

/// What can be told once the database is closed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The engine's version, or the file it was loaded from.
    pub version: String,
    /// What a reader of the numbers should know.
    pub notes: Vec<String>,
    /// Opening the empty database, in seconds.
    pub open_seconds: f64,
    /// Closing it, in seconds.
    pub close_seconds: f64,
    /// Bytes on the device after closing.
    pub closed_bytes: u64,
    /// Bytes of keys and values that are in the database.
    pub live_bytes: u64,
    /// Bytes that the process fetched from the device, from before the opening to after the closing.
    pub read_bytes: u64,
    /// Bytes of pages that became dirty, as in [`Usage::written_bytes`].
    pub written_bytes: u64,
    /// Bytes of keys and values that were written by all steps.
    pub user_bytes_written: u64,
    /// Bytes of keys and values that were read by all steps.
    pub user_bytes_read: u64,
}

/// What a run says while it goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The database is open.
    Opened {
        /// The engine's version, or the file it was loaded from.
        version: String,
        /// What a reader of the numbers should know.
        notes: Vec<String>,
    },
    /// A step begins.
    Begin {
        /// Its place among the steps, from 0.
        number: usize,
    },
    /// How far it is.
    Progress {
        /// Operations done.
        done: u64,
    },
    /// A step waits for flushes and merges.
    Settling,
    /// Nothing has changed for so long. Told by the process that listens.
    Silent {
        /// Since the last event that told something new.
        seconds: u64,
    },
    /// A step has ended, well or not.
    Step(Box<StepReport>),
}
