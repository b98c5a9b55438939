//! Settings of a family: which values are legal, and how they are stored. They are stored as text pairs, so that a
//! version that adds a setting can still read what an older one wrote: what is not named keeps its default, and a name
//! that this version does not know is kept out.

use std::{fmt, str::FromStr, time::Duration};

use kingtide_base::limits;

use crate::{
    error::{Error, ErrorKind, Result},
    options::{Compression, FamilyOptions, IsolationLevel, SyncMode},
};

/// Checks a family's name: 1 to 127 bytes, no separators, no control characters, not `.` or `..`.
///
/// # Errors
/// `InvalidArgument`, or `TooLarge` for a name that is too long.
pub(crate) fn validate_name(name: &str) -> Result<()> {
    if name.len() > limits::FAMILY_NAME_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "a column family's name has at most {} bytes, this one has {}",
                limits::FAMILY_NAME_BYTES_MAX,
                name.len()
            ),
        ));
    }
    let has_separator = name
        .chars()
        .any(|c| c == '/' || c == '\\' || c.is_control());
    if name.is_empty() || name == "." || name == ".." || has_separator {
        return Err(Error::invalid(format!(
            "{name:?} cannot name a column family: use 1 to 127 bytes without slashes and control characters"
        )));
    }
    Ok(())
}

/// Checks a family's settings.
///
/// # Errors
/// `InvalidArgument` that names the setting and its range.
pub(crate) fn validate_options(options: &FamilyOptions) -> Result<()> {
    let rate = options.bloom_false_positive_rate;
    let density = options.tombstone_density_trigger;
    let rules = [
        (
            options.write_buffer_bytes >= 4096,
            "write_buffer_bytes must be at least 4096",
        ),
        (
            options.write_buffer_bytes <= 16 << 30,
            "write_buffer_bytes must be at most 16 GiB",
        ),
        (
            (2..=1000).contains(&options.level_size_ratio),
            "level_size_ratio must be 2 to 1000",
        ),
        (
            (1..=limits::LEVELS_MAX).contains(&options.min_levels),
            "min_levels must be 1 to 16",
        ),
        (
            options.l1_file_count_trigger >= 1,
            "l1_file_count_trigger must be at least 1",
        ),
        (
            options.l0_queue_stall_threshold >= 1,
            "l0_queue_stall_threshold must be at least 1",
        ),
        (
            rate > 0.0 && rate < 1.0,
            "bloom_false_positive_rate must be between 0 and 1",
        ),
        (
            (0.0..=1.0).contains(&density),
            "tombstone_density_trigger must be 0 to 1",
        ),
        (
            (0.0..=0.9).contains(&options.value_live_ratio_min),
            "value_live_ratio_min must be 0 to 0.9",
        ),
        (
            options.index_sample_ratio >= 1,
            "index_sample_ratio must be at least 1",
        ),
        (
            options.sync != SyncMode::Interval(Duration::ZERO),
            "a sync interval must be at least 1 microsecond",
        ),
        (
            options.comparator.len() <= limits::COMPARATOR_NAME_BYTES_MAX,
            "a comparator's name has at most 63 bytes",
        ),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(Error::invalid(*rule)),
        None => Ok(()),
    }
}

/// The settings as text pairs.
pub(crate) fn encode_options(options: &FamilyOptions) -> Vec<(String, String)> {
    let (sync, interval) = match options.sync {
        SyncMode::None => ("none", Duration::ZERO),
        SyncMode::Interval(interval) => ("interval", interval),
        SyncMode::Full => ("full", Duration::ZERO),
    };
    let pairs: [(&str, &dyn fmt::Display); 28] = [
        ("write_buffer_bytes", &options.write_buffer_bytes),
        ("level_size_ratio", &options.level_size_ratio),
        ("min_levels", &options.min_levels),
        ("dividing_level_offset", &options.dividing_level_offset),
        ("value_threshold_bytes", &options.value_threshold_bytes),
        ("value_live_ratio_min", &options.value_live_ratio_min),
        ("compression", &compression_name(options.compression)),
        ("bloom_filter", &options.bloom_filter),
        (
            "bloom_false_positive_rate",
            &options.bloom_false_positive_rate,
        ),
        ("block_index", &options.block_index),
        ("index_sample_ratio", &options.index_sample_ratio),
        (
            "block_index_prefix_bytes",
            &options.block_index_prefix_bytes,
        ),
        ("sync", &sync),
        ("sync_interval_us", &micros_of(interval)),
        ("comparator", &options.comparator),
        ("skip_list_level_max", &options.skip_list_level_max),
        ("skip_list_probability", &options.skip_list_probability),
        ("isolation", &isolation_name(options.isolation)),
        ("disk_free_bytes_min", &options.disk_free_bytes_min),
        ("l1_file_count_trigger", &options.l1_file_count_trigger),
        (
            "l0_queue_stall_threshold",
            &options.l0_queue_stall_threshold,
        ),
        (
            "tombstone_density_trigger",
            &options.tombstone_density_trigger,
        ),
        (
            "tombstone_density_entries_min",
            &options.tombstone_density_entries_min,
        ),
        (
            "tombstone_age_max_us",
            &micros_of(options.tombstone_age_max),
        ),
        ("use_btree", &options.use_btree),
        (
            "object_target_file_bytes",
            &options.object_target_file_bytes,
        ),
        ("object_lazy_compaction", &options.object_lazy_compaction),
        (
            "object_prefetch_compaction",
            &options.object_prefetch_compaction,
        ),
    ];
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect()
}

/// Microseconds, as many as can be read back: half a million years and more are one and the same.
fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The settings that `pairs` describe; what is not named keeps its default.
///
/// # Errors
/// A message that names the setting whose value cannot be read.
pub(crate) fn decode_options(
    pairs: &[(String, String)],
) -> std::result::Result<FamilyOptions, String> {
    let mut options = FamilyOptions::default();
    let mut interval = Duration::ZERO;
    for (name, value) in pairs {
        decode_pair(&mut options, &mut interval, name, value)?;
    }
    if let SyncMode::Interval(stored) = &mut options.sync {
        *stored = interval;
    }
    Ok(options)
}

fn decode_pair(
    options: &mut FamilyOptions,
    interval: &mut Duration,
    name: &str,
    value: &str,
) -> std::result::Result<(), String> {
    let wrong = || format!("setting {name} has the value {value:?}, which cannot be read");
    match name {
        "write_buffer_bytes" => options.write_buffer_bytes = parse(name, value)?,
        "level_size_ratio" => options.level_size_ratio = parse(name, value)?,
        "min_levels" => options.min_levels = parse(name, value)?,
        "dividing_level_offset" => options.dividing_level_offset = parse(name, value)?,
        "value_threshold_bytes" => options.value_threshold_bytes = parse(name, value)?,
        "value_live_ratio_min" => options.value_live_ratio_min = parse(name, value)?,
        "compression" => options.compression = compression_of(value).ok_or_else(wrong)?,
        "bloom_filter" => options.bloom_filter = parse(name, value)?,
        "bloom_false_positive_rate" => options.bloom_false_positive_rate = parse(name, value)?,
        "block_index" => options.block_index = parse(name, value)?,
        "index_sample_ratio" => options.index_sample_ratio = parse(name, value)?,
        "block_index_prefix_bytes" => options.block_index_prefix_bytes = parse(name, value)?,
        "sync" => {
            options.sync = match value {
                "none" => SyncMode::None,
                "interval" => SyncMode::Interval(*interval),
                "full" => SyncMode::Full,
                _ => return Err(wrong()),
            }
        }
        "sync_interval_us" => *interval = Duration::from_micros(parse(name, value)?),
        "comparator" => value.clone_into(&mut options.comparator),
        "skip_list_level_max" => options.skip_list_level_max = parse(name, value)?,
        "skip_list_probability" => options.skip_list_probability = parse(name, value)?,
        "isolation" => options.isolation = isolation_of(value).ok_or_else(wrong)?,
        "disk_free_bytes_min" => options.disk_free_bytes_min = parse(name, value)?,
        "l1_file_count_trigger" => options.l1_file_count_trigger = parse(name, value)?,
        "l0_queue_stall_threshold" => options.l0_queue_stall_threshold = parse(name, value)?,
        "tombstone_density_trigger" => options.tombstone_density_trigger = parse(name, value)?,
        "tombstone_density_entries_min" => {
            options.tombstone_density_entries_min = parse(name, value)?;
        }
        "tombstone_age_max_us" => {
            options.tombstone_age_max = Duration::from_micros(parse(name, value)?);
        }
        "use_btree" => options.use_btree = parse(name, value)?,
        "object_target_file_bytes" => options.object_target_file_bytes = parse(name, value)?,
        "object_lazy_compaction" => options.object_lazy_compaction = parse(name, value)?,
        "object_prefetch_compaction" => options.object_prefetch_compaction = parse(name, value)?,
        _ => {}
    }
    Ok(())
}

fn parse<T: FromStr>(name: &str, value: &str) -> std::result::Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("setting {name} has the value {value:?}, which cannot be read"))
}

const COMPRESSIONS: [(Compression, &str); 5] = [
    (Compression::None, "none"),
    (Compression::Snappy, "snappy"),
    (Compression::Lz4, "lz4"),
    (Compression::Lz4Fast, "lz4_fast"),
    (Compression::Zstd, "zstd"),
];

fn compression_name(compression: Compression) -> &'static str {
    COMPRESSIONS
        .iter()
        .find(|(known, _)| *known == compression)
        .map_or("none", |(_, name)| *name)
}

fn compression_of(name: &str) -> Option<Compression> {
    COMPRESSIONS
        .iter()
        .find(|(_, known)| *known == name)
        .map(|(compression, _)| *compression)
}

const ISOLATIONS: [(IsolationLevel, &str); 5] = [
    (IsolationLevel::ReadUncommitted, "read_uncommitted"),
    (IsolationLevel::ReadCommitted, "read_committed"),
    (IsolationLevel::RepeatableRead, "repeatable_read"),
    (IsolationLevel::Snapshot, "snapshot"),
    (IsolationLevel::Serializable, "serializable"),
];

fn isolation_name(level: IsolationLevel) -> &'static str {
    ISOLATIONS
        .iter()
        .find(|(known, _)| *known == level)
        .map_or("read_committed", |(_, name)| *name)
}

fn isolation_of(name: &str) -> Option<IsolationLevel> {
    ISOLATIONS
        .iter()
        .find(|(_, known)| *known == name)
        .map(|(level, _)| *level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_storage() {
        let options = FamilyOptions {
            write_buffer_bytes: 1 << 20,
            compression: Compression::Zstd,
            sync: SyncMode::Interval(Duration::from_micros(77)),
            bloom_false_positive_rate: 0.003,
            comparator: "reverse_memcmp".to_owned(),
            tombstone_age_max: Duration::from_millis(1500),
            ..FamilyOptions::default()
        };
        for isolation in IsolationLevel::ALL {
            let options = FamilyOptions {
                isolation,
                ..options.clone()
            };
            assert_eq!(decode_options(&encode_options(&options)), Ok(options));
        }
    }

    #[test]
    fn durations_without_end_can_be_read_back() {
        let options = FamilyOptions {
            sync: SyncMode::Interval(Duration::MAX),
            tombstone_age_max: Duration::MAX,
            ..FamilyOptions::default()
        };
        let longest = Duration::from_micros(u64::MAX);
        let stored = decode_options(&encode_options(&options)).expect("as it was written");
        assert_eq!(stored.sync, SyncMode::Interval(longest));
        assert_eq!(stored.tombstone_age_max, longest);
    }

    #[test]
    fn unknown_settings_are_passed_over_and_bad_values_are_named() {
        let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert_eq!(
            decode_options(&pair("of_a_later_version", "1")),
            Ok(FamilyOptions::default())
        );
        let message = decode_options(&pair("use_btree", "maybe")).expect_err("not a flag");
        assert!(message.contains("use_btree"), "{message}");
    }

    #[test]
    fn names_are_data_not_paths() {
        for name in ["", ".", "..", "a/b", "a\\b", "a\nb", "a\0b"] {
            assert_eq!(
                validate_name(name).expect_err(name).kind(),
                ErrorKind::InvalidArgument
            );
        }
        assert_eq!(
            validate_name(&"x".repeat(128)).expect_err("long").kind(),
            ErrorKind::TooLarge
        );
        validate_name(&"x".repeat(127)).expect("127 bytes are fine");
        validate_name("users of Grönland").expect("any text is fine");
    }
}
