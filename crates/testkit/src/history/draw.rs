//! What a seed chooses: settings, keys, values.

use std::time::Duration;

use kingtide::{Compression, FamilyOptions, IsolationLevel, SyncMode, TransactionOptions};

use crate::{order::SHORT_FIRST, random::Random};

/// How keys are built from a number.
#[derive(Clone, Copy, Debug)]
enum KeyShape {
    /// `k17`: short, mixed case.
    Short,
    /// A hundred equal bytes, then the number.
    LongPrefix,
    /// One to twenty bytes of any value.
    Binary,
    /// Eight bytes, the number in the order of the machine.
    Integer,
    /// Big-endian numbers of two bytes: dense, all of one length.
    Dense,
}

const SHAPES: [KeyShape; 5] = [
    KeyShape::Short,
    KeyShape::LongPrefix,
    KeyShape::Binary,
    KeyShape::Integer,
    KeyShape::Dense,
];

/// Ages of tombstones: never, at once, soon by the clock of a simulation, and late.
const AGES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_secs(4),
    Duration::from_secs(3600),
];

/// Draws keys and values of one history.
#[derive(Debug)]
pub(crate) struct Draw {
    shape: KeyShape,
    keys: usize,
    value_bytes_max: usize,
}

impl Draw {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self {
            shape: *random.pick(&SHAPES),
            keys: *random.pick(&[5, 50, 300, 2000]),
            value_bytes_max: *random.pick(&[16, 200, 3_000, 10_000]),
        }
    }

    /// A key; low numbers come more often.
    pub(crate) fn key(&self, random: &mut Random) -> Vec<u8> {
        let bound = if random.one_in(2) {
            self.keys
        } else {
            self.keys.div_ceil(8)
        };
        let number = random.below(bound);
        match self.shape {
            KeyShape::Short if random.one_in(4) => format!("K{number}").into_bytes(),
            KeyShape::Short => format!("k{number}").into_bytes(),
            KeyShape::LongPrefix => format!("{}{number:05}", "p".repeat(100)).into_bytes(),
            KeyShape::Binary => {
                let mut of_number = Random::new(number as u64);
                let length = of_number.between(1, 20);
                of_number.bytes(length)
            }
            KeyShape::Integer if number.is_multiple_of(17) => b"not a number".to_vec(),
            KeyShape::Integer => (number as u64).wrapping_sub(20).to_ne_bytes().to_vec(),
            KeyShape::Dense => (number as u16).to_be_bytes().to_vec(),
        }
    }

    /// A value: mostly small, sometimes empty, rarely large.
    pub(super) fn value(&self, random: &mut Random) -> Vec<u8> {
        let length = match random.below(50) {
            0 => 0,
            1 => random.between(4_000, 20_000),
            2..=10 => random.between(1, self.value_bytes_max * 4),
            _ => random.between(1, self.value_bytes_max),
        };
        random.bytes(length)
    }
}

/// Any sync mode.
pub fn sync_mode(random: &mut Random) -> SyncMode {
    match random.below(3) {
        0 => SyncMode::None,
        1 => SyncMode::Interval(Duration::from_millis(1 + random.below(20) as u64)),
        _ => SyncMode::Full,
    }
}

pub(super) fn transaction_options(random: &mut Random) -> TransactionOptions {
    TransactionOptions {
        isolation: *random.pick(&IsolationLevel::ALL),
        sync: if random.one_in(3) {
            Some(sync_mode(random))
        } else {
            None
        },
        ..TransactionOptions::default()
    }
}

/// Settings of a small family, of any kind.
#[must_use]
pub fn family_options(random: &mut Random) -> FamilyOptions {
    let comparator = match random.below(10) {
        0..=4 => "memcmp",
        5 => "reverse_memcmp",
        6 => "case_insensitive",
        7 => "uint64",
        8 => *random.pick(&["int64", "lexicographic"]),
        _ => SHORT_FIRST,
    };
    FamilyOptions {
        write_buffer_bytes: random.between(8, 64) << 10,
        level_size_ratio: random.between(2, 10),
        min_levels: random.between(1, 4),
        value_threshold_bytes: *random.pick(&[0, 16, 64, 512, 512]),
        value_live_ratio_min: *random.pick(&[0.0, 0.5, 0.5, 0.9]),
        compression: *random.pick(&[
            Compression::None,
            Compression::Snappy,
            Compression::Lz4,
            Compression::Lz4Fast,
            Compression::Zstd,
        ]),
        bloom_filter: !random.one_in(4),
        bloom_false_positive_rate: *random.pick(&[0.5, 0.01, 0.0001]),
        sync: sync_mode(random),
        comparator: comparator.to_owned(),
        disk_free_bytes_min: 0,
        l1_file_count_trigger: random.between(1, 4),
        l0_queue_stall_threshold: random.between(1, 10),
        tombstone_density_trigger: *random.pick(&[0.0, 0.3, 0.9]),
        tombstone_density_entries_min: *random.pick(&[1, 16, 1024]),
        tombstone_age_max: *random.pick(&AGES),
        ..FamilyOptions::default()
    }
}
