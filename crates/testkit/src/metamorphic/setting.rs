//! The configurations that a list is run under: each drives one group of settings to an end, and draws the others.

use std::time::Duration;

use kingtide::{Compression, FamilyOptions, Options, SyncMode};
use kingtide_env::MemoryEnv;

use crate::{history, random::Random, world};

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

impl Setting {
    /// Settings of the database.
    pub(super) fn database(self, seed: u64, env: &MemoryEnv) -> Options {
        let mut random = self.draw(seed, u64::MAX);
        let mut options = world::options(env);
        options.flush_threads = random.between(1, 2);
        options.compaction_threads = random.between(1, 2);
        options.block_cache_bytes = *random.pick(&[0, 16 << 10, 1 << 20]);
        options.open_tables_max = *random.pick(&[0, 2, 64]);
        options.finish_compactions_on_close = random.one_in(3);
        // The clock of a world in memory runs fast while threads wait.
        options.write_wait_max = Duration::from_secs(1 << 30);
        match self {
            Self::Plain => options.block_cache_bytes = 1 << 20,
            Self::Cramped => {
                options.block_cache_bytes = 0;
                options.open_tables_max = 1;
                options.memory_bytes_max = 8 << 20;
            }
            _ => {}
        }
        options
    }

    /// Settings of a family that sorts by `comparator`; `number` chooses which.
    pub(super) fn family(self, seed: u64, number: u64, comparator: &str) -> FamilyOptions {
        let mut random = self.draw(seed, number);
        let mut options = history::family_options(&mut random);
        options.comparator = comparator.to_owned();
        match self {
            Self::Plain => {
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
            Self::Synced => {
                let interval = Duration::from_millis(1 + random.below(5) as u64);
                options.sync = *random.pick(&[SyncMode::Full, SyncMode::Interval(interval)]);
            }
            Self::Packed => {
                options.value_threshold_bytes = *random.pick(&[1, 8, 40]);
                options.value_live_ratio_min = 0.9;
                options.compression = *random.pick(&[Compression::Zstd, Compression::Lz4]);
            }
            Self::Cramped => {
                options.write_buffer_bytes = *random.pick(&[4096, 6000, 10_000]);
                options.l0_queue_stall_threshold = random.between(1, 2);
            }
            Self::Deep => {
                options.write_buffer_bytes = random.between(6, 16) << 10;
                options.level_size_ratio = 2;
                options.min_levels = random.between(2, 6);
                options.l1_file_count_trigger = 1;
                options.tombstone_density_trigger = 0.1;
                options.tombstone_density_entries_min = 1;
            }
            Self::Unfiltered => {
                options.bloom_filter = random.one_in(2);
                options.bloom_false_positive_rate = 0.9;
                options.write_buffer_bytes = random.between(6, 24) << 10;
            }
        }
        options
    }

    fn draw(self, seed: u64, number: u64) -> Random {
        let mut random = Random::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let stream = random.draw();
        Random::new(stream.wrapping_add(self as u64))
    }
}
