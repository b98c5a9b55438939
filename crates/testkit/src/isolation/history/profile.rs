//! What a session of random transactions looks like, chosen by its seed.

use kingtide::{FamilyOptions, IsolationLevel, SyncMode};

use super::record::Key;
use crate::{order::SHORT_FIRST, random::Random, together};

/// Families of a session's database.
pub const FAMILIES: usize = 2;

/// The shape of a session.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The level of all transactions; each has one of its own when there is none.
    pub level: Option<IsolationLevel>,
    /// Threads.
    pub threads: usize,
    /// Transactions that a thread keeps open at the same time.
    pub slots: usize,
    /// Keys of each family.
    pub keys: Key,
    /// Half of all operations go to the first so many keys.
    pub hot_keys: Key,
    /// The most operations of a transaction.
    pub operations_max: usize,
    /// The most keys that a scan covers.
    pub scan_max: Key,
    /// No deletes and no savepoints, and every read is tracked: every key is there all the time, so that every key read
    /// is an item.
    pub is_plain: bool,
    /// On a real directory; in memory otherwise.
    pub is_on_disk: bool,
    /// One of so many commits asks to be synced.
    pub synced_one_in: usize,
    /// Of the families.
    pub write_buffer_bytes: usize,
    /// The order of keys without a hash index.
    pub is_unhashed: bool,
}

impl Profile {
    /// The profile of `seed` for transactions at `level`.
    #[must_use]
    pub fn new(seed: u64, level: Option<IsolationLevel>) -> Self {
        let mut random = Random::new(seed);
        let keys = *random.pick(&[4, 8, 16, 32, 64, 200]);
        // A simulation has no disk.
        let is_on_disk = random.one_in(3) && !together::is_simulated();
        Self {
            level,
            threads: random.between(2, 4),
            slots: random.between(1, 4),
            keys,
            hot_keys: (keys / 4).max(2),
            operations_max: *random.pick(&[3, 5, 8]),
            scan_max: *random.pick(&[4, 8, 24]),
            is_plain: random.one_in(3),
            is_on_disk,
            synced_one_in: if is_on_disk {
                500
            } else {
                *random.pick(&[1, 10, 1000])
            },
            write_buffer_bytes: *random.pick(&[16 << 10, 64 << 10, 1 << 20]),
            is_unhashed: random.one_in(4),
        }
    }

    /// The options of the families.
    #[must_use]
    pub fn family_options(&self) -> FamilyOptions {
        let mut options = FamilyOptions {
            write_buffer_bytes: self.write_buffer_bytes,
            // Padded values go to value files.
            value_threshold_bytes: 64,
            l1_file_count_trigger: 2,
            disk_free_bytes_min: 0,
            sync: SyncMode::None,
            ..FamilyOptions::default()
        };
        if self.is_unhashed {
            options.comparator = SHORT_FIRST.to_owned();
        }
        options
    }

    /// Keys of all families.
    #[must_use]
    pub fn key_count(&self) -> usize {
        FAMILIES * usize::from(self.keys)
    }
}
