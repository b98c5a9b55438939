//! What is run, as plain data: the same for every engine, sent as JSON to the process that runs it.

mod amount;
mod choice;
mod step;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use amount::{parse_bytes, parse_count};
pub use choice::{
    Codec, EngineChoice, EngineKind, OperationKind, Pattern, SyncChoice, ValueContent, Workload,
};
pub use step::Step;

use crate::{BenchError, KeyForm, KeyMaker, Result, ValueSizes};

/// Everything that a run depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which engine.
    pub engine: EngineKind,
    /// The directory of the database; created, and expected to be empty or missing.
    pub directory: PathBuf,
    /// The shared library of a peer; looked for in the usual places when `None`.
    pub library: Option<PathBuf>,
    /// What is run, in order, on one database.
    pub steps: Vec<Step>,
    /// Different keys that steps write and ask for. At least 1.
    pub keys: u64,
    /// Length of a key. 1 to 65,536, and long enough for `keys` different keys.
    pub key_bytes: usize,
    /// Bytes that all keys begin with. Less than `key_bytes`.
    pub key_prefix_bytes: usize,
    /// Lengths of values. Up to 1 GiB.
    pub value_sizes: ValueSizes,
    /// What they consist of.
    pub value_content: ValueContent,
    /// Share of a marked value that does not compress, 0 to 1.
    pub compression_ratio: f64,
    /// Column families; more than one only for [`Workload::Txn`]. 1 to 64.
    pub families: usize,
    /// Durability of writes.
    pub sync: SyncChoice,
    /// The period of [`SyncChoice::Interval`]. At least 1.
    pub sync_interval_millis: u64,
    /// Block cache.
    pub cache_bytes: usize,
    /// A memtable is flushed at this size.
    pub memtable_bytes: usize,
    /// Block compression.
    pub codec: Codec,
    /// Bits per key of the Bloom filters; 0 switches them off.
    pub bloom_bits: f64,
    /// Block indexes, for engines that can do without.
    pub block_index: bool,
    /// Threads for flushes and merges together. 2 to 1024.
    pub background_jobs: usize,
    /// Determines every key order and value.
    pub seed: u64,
    /// When not 0: the process that runs it is ended after this many seconds, if it has not ended by then.
    pub time_limit_seconds: f64,
    /// Where Kingtide writes a trace of the run, for ui.perfetto.dev; other engines write none.
    pub trace: Option<PathBuf>,
}

impl Settings {
    /// The longest value a run may ask for, in bytes.
    pub const VALUE_BYTES_MAX: usize = 1 << 30;
    /// The longest key a run may ask for, in bytes.
    pub const KEY_BYTES_MAX: usize = 1 << 16;
    /// The most bytes of keys and values that the batches of all threads of a step may take up together: they are made in
    /// memory before they are written.
    pub const BATCH_BYTES_MAX: u64 = 16 << 30;
    /// The most threads.
    pub const THREADS_MAX: usize = 1024;
    /// The most column families.
    pub const FAMILIES_MAX: usize = 64;
    /// The most keys: one bit for each is kept in memory.
    pub const KEYS_MAX: u64 = 1 << 36;

    /// A run of `engine` in `directory` with the defaults of the manual: keys are written, read and iterated over.
    #[must_use]
    pub fn new(engine: EngineKind, directory: PathBuf) -> Self {
        let keys = 500_000;
        let workloads = [Workload::Write, Workload::Read, Workload::Iterate];
        Self {
            engine,
            directory,
            library: None,
            steps: workloads
                .into_iter()
                .map(|workload| Step::new(workload, keys))
                .collect(),
            keys,
            key_bytes: 16,
            key_prefix_bytes: 0,
            value_sizes: ValueSizes::Fixed(100),
            value_content: ValueContent::Marked,
            compression_ratio: 0.5,
            families: 1,
            sync: SyncChoice::None,
            sync_interval_millis: 128,
            cache_bytes: 64 << 20,
            memtable_bytes: 64 << 20,
            codec: Codec::Lz4,
            bloom_bits: 10.0,
            block_index: true,
            background_jobs: 2,
            seed: 1,
            time_limit_seconds: 0.0,
            trace: None,
        }
    }

    /// What a Bloom filter of [`Settings::bloom_bits`] with the best number of probes answers wrongly:
    /// `0.5 ^ (bits * ln 2)`.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        0.5_f64
            .powf(self.bloom_bits * std::f64::consts::LN_2)
            .clamp(1e-9, 0.999)
    }

    /// How keys tell their index: as the first step that asks for a form of its own says.
    #[must_use]
    pub fn key_form(&self) -> KeyForm {
        self.steps
            .iter()
            .map(|step| step.pattern.key_form())
            .find(|form| *form != KeyForm::Ordered)
            .unwrap_or_default()
    }

    /// Threads for merges, where there is one for flushes beside them.
    #[must_use]
    pub fn merging_threads(&self) -> usize {
        self.background_jobs.saturating_sub(1).max(1)
    }

    /// The threads of the step that has the most.
    pub(crate) fn threads_max(&self) -> usize {
        self.steps
            .iter()
            .map(|step| step.threads)
            .max()
            .unwrap_or(1)
    }

    /// Bytes of the batches of the step that has the largest ones, if all values were as long as they may get.
    fn batch_bytes_max(&self) -> u64 {
        let entry_bytes = self.key_bytes.saturating_add(self.value_sizes.max()) as u64;
        let entries = self.steps.iter().map(Step::entries_in_batches);
        entries.max().unwrap_or(0).saturating_mul(entry_bytes)
    }

    pub(crate) fn key_maker(&self) -> KeyMaker {
        KeyMaker::new(self.key_form(), self.key_prefix_bytes, self.key_bytes)
    }

    /// Indices that may come to be: the keys, and those that steps insert.
    pub(crate) fn indices(&self) -> u64 {
        let inserts = self.steps.iter().map(|step| match step.workload {
            Workload::YcsbD | Workload::YcsbE => step.operations,
            _ => 0,
        });
        self.keys
            .saturating_add(inserts.fold(0, u64::saturating_add))
    }

    /// Checks every bound named at the fields.
    ///
    /// # Errors
    /// [`BenchError::Settings`] that names the field and the bound.
    pub fn check(&self) -> Result<()> {
        let keys_max = self.key_maker().count_max();
        let form = self.key_form();
        let mut forms = self.steps.iter().map(|step| step.pattern.key_form());
        let rules: [(bool, String); 14] = [
            (self.keys >= 1, "keys must be at least 1".into()),
            (
                self.indices() <= Self::KEYS_MAX,
                format!("at most {} keys, inserted ones included", Self::KEYS_MAX),
            ),
            (
                (1..=Self::KEY_BYTES_MAX).contains(&self.key_bytes),
                format!("keys must be 1 to {} bytes long", Self::KEY_BYTES_MAX),
            ),
            (
                self.key_prefix_bytes < self.key_bytes,
                "the common prefix must be shorter than the keys".into(),
            ),
            (
                self.indices() <= keys_max,
                format!(
                    "keys of {} bytes allow {keys_max} different ones",
                    self.key_bytes
                ),
            ),
            (
                forms.all(|other| other == KeyForm::Ordered || other == form),
                "byte-reversed and timestamp keys cannot be in one database".into(),
            ),
            (
                self.value_sizes.max() <= Self::VALUE_BYTES_MAX,
                format!("values may be {} bytes long at most", Self::VALUE_BYTES_MAX),
            ),
            (
                (0.0..=1.0).contains(&self.compression_ratio),
                "the compression ratio must be 0 to 1".into(),
            ),
            (
                (1..=Self::FAMILIES_MAX).contains(&self.families),
                format!("families must be 1 to {}", Self::FAMILIES_MAX),
            ),
            (
                (0.0..=100.0).contains(&self.bloom_bits),
                "Bloom filters must have 0 to 100 bits per key".into(),
            ),
            (
                (2..=Self::THREADS_MAX).contains(&self.background_jobs),
                format!("background jobs must be 2 to {}", Self::THREADS_MAX),
            ),
            (
                self.sync_interval_millis >= 1,
                "the sync interval must be at least 1 ms".into(),
            ),
            (
                (4096..=16 << 30).contains(&self.memtable_bytes),
                "a memtable must have 4096 bytes at least, and 16 GiB at most".into(),
            ),
            (
                (0.0..=1e7).contains(&self.time_limit_seconds),
                "the time limit must be 0 to 10000000 seconds".into(),
            ),
        ];
        if let Some((_, message)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(BenchError::Settings(message));
        }
        self.check_steps()
    }

    fn check_steps(&self) -> Result<()> {
        let problem = |text: String| Err(BenchError::Settings(text));
        let Some(first) = self.steps.first() else {
            return problem("nothing is to be run".into());
        };
        if first.workload.needs_data() {
            return problem(format!(
                "the first step, {}, would find an empty database: put a step with the workload write in front of it",
                first.workload.name()
            ));
        }
        self.steps.iter().try_for_each(Step::check)?;
        let longest = self.steps.iter().filter(|step| step.has_ranges());
        let longest = longest.map(|step| step.range_entries).max().unwrap_or(0);
        if longest > self.keys {
            return problem(format!(
                "a range of {longest} entries is longer than all {} keys: shorter ranges (--range) or more keys (--keys)",
                self.keys
            ));
        }
        let (batch_bytes, most) = (self.batch_bytes_max(), Self::BATCH_BYTES_MAX);
        if batch_bytes > most {
            return problem(format!(
                "the batches of all threads may take up {most} bytes together, and would {batch_bytes}: fewer threads, smaller batches or shorter values"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
