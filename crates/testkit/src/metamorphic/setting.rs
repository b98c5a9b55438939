//! The configurations that a list is run under: each drives one group of settings to an end, and draws the others.

use std::time::Duration;

use kingtide::{Compression, FamilyOptions, Options, SyncMode};
use kingtide_env::MemoryEnv;

use crate::{history, random::Random, world};

/// Settings to run operations under.
pub(crate) trait Configuration {
    /// Settings of the database.
    fn database(&self, env: &MemoryEnv) -> Options;

    /// Settings of a family that sorts by `comparator`, for operation `number`.
    fn family(&self, number: u64, comparator: &str) -> FamilyOptions;

    /// When the transaction of operation `number` is synced; as its families say when `None`.
    fn sync(&self, number: u64) -> Option<SyncMode>;
}

/// A configuration of a seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    pub(super) setting: Setting,
    pub(super) seed: u64,
}

/// What a configuration drives to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Nothing: as little as possible happens. Memtables that are never full, no sync, no compression, no value log.
    Plain,
    /// When commits are synced, and by how many threads tables are written.
    Synced,
    /// How values are stored: nearly all of them in the value log, compressed, and moved again soon.
    Packed,
    /// How much memory there is: the smallest memtables, no cache, hardly an open table.
    Cramped,
    /// The shape of the tree: many levels, each twice the one above, merged at once.
    Deep,
    /// What finds keys: no filters, or bad ones.
    Unfiltered,
}

/// All of them.
pub const SETTINGS: [Setting; 6] = [
    Setting::Plain,
    Setting::Synced,
    Setting::Packed,
    Setting::Cramped,
    Setting::Deep,
    Setting::Unfiltered,
];

impl Configuration for Drawn {
    fn database(&self, env: &MemoryEnv) -> Options {
        let mut random = self.draw(u64::MAX);
        let mut options = world::options(env);
        options.flush_threads = random.between(1, 2);
        options.compaction_threads = random.between(1, 2);
        options.block_cache_bytes = *random.pick(&[0, 16 << 10, 1 << 20]);
        options.open_tables_max = *random.pick(&[0, 2, 64]);
        options.finish_compactions_on_close = random.one_in(3);
        // The clock of a world in memory runs fast while threads wait.
        options.write_wait_max = Duration::from_secs(1 << 30);
        match self.setting {
            Setting::Plain => options.block_cache_bytes = 1 << 20,
            Setting::Cramped => {
                options.block_cache_bytes = 0;
                options.open_tables_max = 1;
                options.memory_bytes_max = 8 << 20;
            }
            _ => {}
        }
        options
    }

    fn family(&self, number: u64, comparator: &str) -> FamilyOptions {
        let mut random = self.draw(number);
        let mut options = history::family_options(&mut random);
        options.comparator = comparator.to_owned();
        match self.setting {
            Setting::Plain => {
                options = FamilyOptions {
                    write_buffer_bytes: 16 << 20,
                    value_threshold_bytes: 0,
                    compression: Compression::None,
                    sync: SyncMode::None,
                    disk_free_bytes_min: 0,
                    comparator: options.comparator,
                    ..FamilyOptions::default()
                };
            }
            Setting::Synced => {
                let interval = Duration::from_millis(1 + random.below(5) as u64);
                options.sync = *random.pick(&[SyncMode::Full, SyncMode::Interval(interval)]);
            }
            Setting::Packed => {
                options.value_threshold_bytes = *random.pick(&[1, 8, 40]);
                options.value_live_ratio_min = 0.9;
                options.compression = *random.pick(&[Compression::Zstd, Compression::Lz4]);
            }
            Setting::Cramped => {
                options.write_buffer_bytes = *random.pick(&[4096, 6000, 10_000]);
                options.l0_queue_stall_threshold = random.between(1, 2);
            }
            Setting::Deep => {
                options.write_buffer_bytes = random.between(6, 16) << 10;
                options.level_size_ratio = 2;
                options.min_levels = random.between(2, 6);
                options.l1_file_count_trigger = 1;
                options.tombstone_density_trigger = 0.1;
                options.tombstone_density_entries_min = 1;
            }
            Setting::Unfiltered => {
                options.bloom_filter = random.one_in(2);
                options.bloom_false_positive_rate = 0.9;
                options.write_buffer_bytes = random.between(6, 24) << 10;
            }
        }
        options
    }

    fn sync(&self, number: u64) -> Option<SyncMode> {
        let mut random = self.draw(!number);
        match self.setting {
            Setting::Plain => None,
            _ if random.one_in(3) => Some(history::sync_mode(&mut random)),
            _ => None,
        }
    }
}

impl Drawn {
    /// Random numbers for one use.
    fn draw(self, number: u64) -> Random {
        let mut random = Random::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let stream = random.draw();
        Random::new(stream.wrapping_add(self.setting as u64))
    }
}
