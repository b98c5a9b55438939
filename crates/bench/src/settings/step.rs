//! One part of a run. The steps of a run share its database.

use serde::{Deserialize, Serialize};

use super::{Pattern, Settings, Workload};
use crate::{BenchError, Result};

/// One part of a run, by a number of threads that all do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What is done.
    pub workload: Workload,
    /// Whether it is reported; what is not only prepares.
    pub is_measured: bool,
    /// How often, all threads together: keys of a write or delete, entries of an iteration, else calls. At least 1. An
    /// iteration is over all entries, however many are asked for.
    pub operations: u64,
    /// Threads that call the engine. 1 to 1024.
    pub threads: usize,
    /// Operations of one write batch; keys of one transaction. At least 1.
    pub batch_operations: usize,
    /// Entries of a range, or the most entries of a range of YCSB E. At least 1, and for these at most as many as keys.
    pub range_entries: u64,
    /// Which keys, in which order.
    pub pattern: Pattern,
    /// The exponent of [`Pattern::Zipfian`] and of YCSB. Above 0, 10 at most.
    pub zipfian_exponent: f64,
    /// Share of operations of [`Workload::Mixed`] that are reads, 0 to 1.
    pub read_share: f64,
    /// When not 0: ends after this many seconds, however many operations that is; keys are written again and again.
    pub seconds: f64,
    /// When not 0: operations that are begun in a second, all threads together, a batch as all of its own; not for
    /// iterations. Latency then counts from when a call was
    /// due, so that one that waits for a slow one before it is slow too.
    pub operations_per_second_max: f64,
    /// Whether each second is reported too.
    pub has_timeline: bool,
}

impl Step {
    /// A measured step with the defaults of the manual.
    #[must_use]
    pub fn new(workload: Workload, operations: u64) -> Self {
        Self {
            workload,
            is_measured: true,
            operations,
            threads: 1,
            batch_operations: 100,
            range_entries: 100,
            pattern: Pattern::Random,
            zipfian_exponent: 0.99,
            read_share: 0.5,
            seconds: 0.0,
            operations_per_second_max: 0.0,
            has_timeline: false,
        }
    }

    /// Whether it reads ranges.
    pub(super) fn has_ranges(&self) -> bool {
        matches!(self.workload, Workload::Range | Workload::YcsbE)
    }

    /// Entries that the batches of all threads have together, at most.
    pub(super) fn entries_in_batches(&self) -> u64 {
        if !matches!(
            self.workload,
            Workload::Write | Workload::Mixed | Workload::Txn
        ) {
            return 0;
        }
        let entries = self.threads.saturating_mul(self.batch_operations) as u64;
        match self.seconds > 0.0 {
            true => entries,
            false => entries.min(self.operations),
        }
    }

    /// Checks every bound named at the fields.
    ///
    /// # Errors
    /// [`BenchError::Settings`] that names the field and the bound.
    pub(super) fn check(&self) -> Result<()> {
        let is_amount = |number: f64| number.is_finite() && number >= 0.0;
        let rules = [
            (
                self.operations >= 1,
                "operations must be at least 1".to_owned(),
            ),
            (
                (1..=Settings::THREADS_MAX).contains(&self.threads),
                format!("threads must be 1 to {}", Settings::THREADS_MAX),
            ),
            (
                (1..=1 << 24).contains(&self.batch_operations),
                "a batch needs at least 1 operation, and 16777216 at most".into(),
            ),
            (
                self.range_entries >= 1,
                "a range needs at least 1 entry".into(),
            ),
            (
                self.zipfian_exponent > 0.0 && self.zipfian_exponent <= 10.0,
                "the zipfian exponent must be above 0, and 10 at most".into(),
            ),
            (
                (0.0..=1.0).contains(&self.read_share),
                "the share of reads must be 0 to 1".into(),
            ),
            (
                is_amount(self.seconds) && self.seconds <= 1e7,
                "the duration must be 0 or more seconds".into(),
            ),
            (
                is_amount(self.operations_per_second_max),
                "the rate must be 0 or more operations a second".into(),
            ),
            (
                self.operations_per_second_max <= 0.0 || self.workload != Workload::Iterate,
                "its entries come in one call, which cannot be kept to a rate: run it without one"
                    .into(),
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, message)) => Err(BenchError::Settings(format!(
                "{}: {message}",
                self.workload.name()
            ))),
        }
    }
}
