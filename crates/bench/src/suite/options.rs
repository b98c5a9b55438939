//! Options of tests, each of which may be left open: what stands in a suite as defaults, for a test or for a step, and
//! what the command line says. Laid over each other, the one on top wins; what all leave open has the manual's default.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Deserializer, de::Error};

use crate::{
    BenchError, Codec, EngineKind, Pattern, Result, Settings, Step, SyncChoice, ValueContent,
    ValueSizes, Workload, parse_bytes, parse_count,
};

/// Keys when nothing says how many.
const KEYS: u64 = 500_000;

macro_rules! options {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)+) => {
        /// Options of a test, a step or the command line.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Options {
            $($(#[$meta])* pub $name: Option<$type>,)+
        }

        impl Options {
            /// These options, and those of `base` for what is open here.
            #[must_use]
            pub fn over(&self, base: &Self) -> Self {
                Self {
                    $($name: self.$name.clone().or_else(|| base.$name.clone()),)+
                }
            }
        }
    };
}

options! {
    /// The name of a test.
    name: String,
    /// The steps of a test, in order; without, it is one step and these are its options.
    steps: Vec<Options>,
    /// What a step does.
    workload: Workload,
    /// Whether a step is reported. Default: true.
    measured: bool,
    /// Different keys. Default: as many as operations, else 500,000.
    #[serde(deserialize_with = "count")]
    keys: u64,
    /// Operations of a step. Default: as many as keys.
    #[serde(deserialize_with = "count")]
    operations: u64,
    /// Threads. Default: 1.
    threads: usize,
    /// Operations of a write batch, keys of a transaction. Default: 100, for `txn` 1.
    #[serde(deserialize_with = "count")]
    batch: usize,
    /// Entries of a range. Default: 100, or as many as keys.
    #[serde(deserialize_with = "count")]
    range: u64,
    /// Bytes of a key. Default: 16.
    #[serde(deserialize_with = "bytes")]
    key_bytes: usize,
    /// Bytes that all keys begin with. Default: 0.
    #[serde(deserialize_with = "bytes")]
    key_prefix_bytes: usize,
    /// Bytes of a value: a number or a distribution. Default: 100.
    #[serde(deserialize_with = "sizes")]
    value_bytes: ValueSizes,
    /// What values consist of. Default: marked.
    value_content: ValueContent,
    /// Share of a marked value that does not compress. Default: 0.5.
    compression_ratio: f64,
    /// Which keys, in which order. Default: random.
    pattern: Pattern,
    /// The exponent of zipfian draws. Default: 0.99.
    zipfian_exponent: f64,
    /// Share of reads of mixed. Default: 0.5.
    read_share: f64,
    /// A duration in place of a number of operations. Default: none.
    seconds: f64,
    /// The most operations that are begun in a second. Default: no limit.
    rate: f64,
    /// Whether each second is reported. Default: false.
    timeline: bool,
    /// Column families. Default: 1, for `txn` 4.
    families: usize,
    /// Durability of writes. Default: none.
    sync: SyncChoice,
    /// The period of `interval`, in milliseconds. Default: 128.
    sync_interval: u64,
    /// Block cache. Default: 64 MiB.
    #[serde(deserialize_with = "bytes")]
    cache: usize,
    /// Memtable. Default: 64 MiB.
    #[serde(deserialize_with = "bytes")]
    memtable: usize,
    /// Block compression. Default: lz4.
    codec: Codec,
    /// Bits per key of the Bloom filters. Default: 10.
    bloom_bits: f64,
    /// Block indexes, for engines that can do without. Default: true.
    block_index: bool,
    /// Threads for flushes and merges together. Default: 2.
    background_jobs: usize,
    /// Determines keys, values and their order. Default: 1.
    seed: u64,
    /// Seconds that one engine may take for a test. Default: no limit.
    time_limit: f64,
}

/// The number of keys or operations on this scale; none only if there were none, which is refused later.
fn scaled(number: u64, scale: f64) -> u64 {
    ((number as f64 * scale) as u64).max(number.min(1))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    Ok(match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Number(number) => number.to_string(),
        NumberOrText::Text(text) => text,
    })
}

fn bytes<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<Option<usize>, D::Error> {
    parse_bytes(&text(d)?).map(Some).map_err(D::Error::custom)
}

fn count<'de, D, N>(d: D) -> std::result::Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64, Error: fmt::Display>,
{
    let number = parse_count(&text(d)?).map_err(D::Error::custom)?;
    N::try_from(number).map(Some).map_err(D::Error::custom)
}

fn sizes<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<Option<ValueSizes>, D::Error> {
    text(d)?.parse().map(Some).map_err(D::Error::custom)
}

impl Options {
    /// What is run when these are the options of a test. `top` lies over every step, `scale` multiplies keys and
    /// operations. Engine and directory are placeholders.
    pub(super) fn settings(&self, top: &Self, scale: f64) -> Result<Settings> {
        let test = top.over(self);
        let nothing = Vec::new();
        let given = self.steps.as_ref().unwrap_or(&nothing);
        for step in given {
            step.check_is_of_a_step()?;
        }
        let alone = [Self::default()];
        let given = if given.is_empty() { &alone[..] } else { given };
        let keys = scaled(test.keys.or(test.operations).unwrap_or(KEYS), scale);
        // What only prepares is done in full, and so are writes for what reads behind them, unless they have a duration of their own:
        // a duration and a rate are meant for what is measured, and every engine must find the same keys.
        let unhurried = Self {
            seconds: None,
            rate: None,
            ..top.clone()
        };
        // A suite that is made smaller stays sound: its ranges become no longer than all keys.
        let is_shrunk = keys < self.keys.or(self.operations).unwrap_or(KEYS);
        let mut steps = Vec::new();
        for (number, options) in given.iter().enumerate() {
            let options = options.over(self);
            let is_write = options.workload == Some(Workload::Write);
            let workload_of = |step: &Self| step.workload.or(self.workload);
            let needs_data = |later: &Self| workload_of(later).is_some_and(Workload::needs_data);
            let fills =
                is_write && options.seconds.is_none() && given[number + 1..].iter().any(needs_data);
            let top = if options.measured == Some(false) || fills {
                &unhurried
            } else {
                top
            };
            let mut step = top.over(&options).step(keys, scale)?;
            let is_asked_for = match is_shrunk {
                true => top.range.is_some(),
                false => top.range.or(options.range).is_some(),
            };
            if !is_asked_for {
                step.range_entries = step.range_entries.min(keys).max(1);
            }
            steps.push(step);
        }
        let default = Settings::new(EngineKind::Kingtide, PathBuf::new());
        let has_transactions = steps.iter().any(|step| step.workload == Workload::Txn);
        Ok(Settings {
            steps,
            keys,
            key_bytes: test.key_bytes.unwrap_or(default.key_bytes),
            key_prefix_bytes: test.key_prefix_bytes.unwrap_or(default.key_prefix_bytes),
            value_sizes: test.value_bytes.unwrap_or(default.value_sizes),
            value_content: test.value_content.unwrap_or(default.value_content),
            compression_ratio: test.compression_ratio.unwrap_or(default.compression_ratio),
            families: test
                .families
                .unwrap_or(if has_transactions { 4 } else { 1 }),
            sync: test.sync.unwrap_or(default.sync),
            sync_interval_millis: test.sync_interval.unwrap_or(default.sync_interval_millis),
            cache_bytes: test.cache.unwrap_or(default.cache_bytes),
            memtable_bytes: test.memtable.unwrap_or(default.memtable_bytes),
            codec: test.codec.unwrap_or(default.codec),
            bloom_bits: test.bloom_bits.unwrap_or(default.bloom_bits),
            block_index: test.block_index.unwrap_or(default.block_index),
            background_jobs: test.background_jobs.unwrap_or(default.background_jobs),
            seed: test.seed.unwrap_or(default.seed),
            time_limit_seconds: test.time_limit.unwrap_or(default.time_limit_seconds),
            ..default
        })
    }

    fn step(&self, keys: u64, scale: f64) -> Result<Step> {
        let workload = self
            .workload
            .ok_or_else(|| BenchError::Settings("a step names no workload".into()))?;
        let operations = self.operations.map(|number| scaled(number, scale));
        let default = Step::new(workload, operations.unwrap_or(keys));
        Ok(Step {
            is_measured: self.measured.unwrap_or(default.is_measured),
            threads: self.threads.unwrap_or(default.threads),
            // A transaction of one key is in every family already.
            batch_operations: self.batch.unwrap_or(match workload {
                Workload::Txn => 1,
                _ => default.batch_operations,
            }),
            range_entries: self.range.unwrap_or(default.range_entries),
            pattern: self.pattern.unwrap_or(default.pattern),
            zipfian_exponent: self.zipfian_exponent.unwrap_or(default.zipfian_exponent),
            read_share: self.read_share.unwrap_or(default.read_share),
            seconds: self.seconds.unwrap_or(default.seconds),
            operations_per_second_max: self.rate.unwrap_or(default.operations_per_second_max),
            has_timeline: self.timeline.unwrap_or(default.has_timeline),
            ..default
        })
    }

    /// Database and process are one for all steps, so a step cannot choose what concerns them.
    fn check_is_of_a_step(&self) -> Result<()> {
        let Self {
            name,
            steps,
            keys,
            key_bytes,
            key_prefix_bytes,
            value_bytes,
            value_content,
            compression_ratio,
            families,
            sync,
            sync_interval,
            cache,
            memtable,
            codec,
            bloom_bits,
            block_index,
            background_jobs,
            seed,
            time_limit,
            ..
        } = self;
        let of_the_test = [
            ("name", name.is_some()),
            ("steps", steps.is_some()),
            ("keys", keys.is_some()),
            ("key_bytes", key_bytes.is_some()),
            ("key_prefix_bytes", key_prefix_bytes.is_some()),
            ("value_bytes", value_bytes.is_some()),
            ("value_content", value_content.is_some()),
            ("compression_ratio", compression_ratio.is_some()),
            ("families", families.is_some()),
            ("sync", sync.is_some()),
            ("sync_interval", sync_interval.is_some()),
            ("cache", cache.is_some()),
            ("memtable", memtable.is_some()),
            ("codec", codec.is_some()),
            ("bloom_bits", bloom_bits.is_some()),
            ("block_index", block_index.is_some()),
            ("background_jobs", background_jobs.is_some()),
            ("seed", seed.is_some()),
            ("time_limit", time_limit.is_some()),
        ];
        match of_the_test.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(BenchError::Settings(format!(
                "{option} concerns the whole test: write it in front of the steps"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_layer_wins_and_the_rest_shows_through() {
        let test: Options = toml::from_str(
            "keys = \"1K\"\nthreads = 8\ncache = \"1M\"\nvalue_bytes = 64\n\
             steps = [{workload = \"fill\", measured = false, batch = 7}, {workload = \"seek\", operations = 50}]",
        )
        .expect("good");
        let top = Options {
            threads: Some(2),
            seconds: Some(3.0),
            time_limit: Some(60.0),
            ..Options::default()
        };
        let settings = test.settings(&top, 0.1).expect("good");
        assert_eq!((settings.keys, settings.cache_bytes), (100, 1 << 20));
        assert_eq!(settings.value_sizes, ValueSizes::Fixed(64));
        assert!((settings.time_limit_seconds - 60.0).abs() < 1e-9);
        let [write, seek] = &settings.steps[..] else {
            panic!("{settings:?}");
        };
        assert_eq!(
            (write.operations, write.threads, write.batch_operations),
            (100, 2, 7)
        );
        assert!(!write.is_measured && seek.is_measured);
        assert_eq!(
            (write.seconds, seek.seconds),
            (0.0, 3.0),
            "preparations are whole"
        );
        assert_eq!(
            (seek.operations, seek.threads, seek.batch_operations),
            (5, 2, 100)
        );
    }

    /// Goal: every engine reads the same keys, however fast it writes them. Method: a duration and a rate from the command line.
    #[test]
    fn what_others_read_is_written_in_full() {
        let top = Options {
            seconds: Some(1.0),
            rate: Some(10.0),
            ..Options::default()
        };
        for (steps, limited) in [
            (
                "{workload = \"write\"}, {workload = \"read\"}",
                [false, true],
            ),
            ("{workload = \"write\"}, {workload = \"txn\"}", [true, true]),
            (
                "{workload = \"write\", seconds = 600.0}, {workload = \"read\"}",
                [true, true],
            ),
        ] {
            let test: Options = toml::from_str(&format!("steps = [{steps}]")).expect("good");
            let settings = test.settings(&top, 1.0).expect("good");
            let is_limited = |step: &Step| {
                assert_eq!(step.seconds > 0.0, step.operations_per_second_max > 0.0);
                step.seconds > 0.0
            };
            let found: Vec<bool> = settings.steps.iter().map(is_limited).collect();
            assert_eq!(found, limited, "{steps}");
        }
    }

    /// Goal: what is asked for is done or refused; what a suite says about ranges goes with its keys. Method: ranges of 1,000 by a
    /// suite of 5,000 keys and by the command line, and the default, with fewer and fewer keys.
    #[test]
    fn ranges_are_no_longer_than_all_keys() {
        let of_suite =
            "keys = 5000\nsteps = [{workload = \"write\"}, {workload = \"range\", range = 1000}]";
        let default = "keys = 50\nsteps = [{workload = \"write\"}, {workload = \"range\"}]";
        let too_long =
            "keys = 50\nsteps = [{workload = \"write\"}, {workload = \"range\", range = 51}]";
        let range = |text: &str, keys, range, scale| {
            let test: Options = toml::from_str(text).expect("options");
            let top = Options {
                keys,
                range,
                ..Options::default()
            };
            let settings = test.settings(&top, scale).expect("sound");
            let refused = settings.check().err().map(|refused| refused.to_string());
            refused.map_or(Ok(settings.steps[1].range_entries), Err)
        };
        assert_eq!(range(of_suite, None, None, 1.0), Ok(1000));
        assert_eq!(range(of_suite, None, None, 0.1), Ok(500));
        assert_eq!(range(of_suite, None, None, 1e-9), Ok(1));
        assert_eq!(range(of_suite, Some(7), None, 1.0), Ok(7));
        assert_eq!(range(of_suite, None, Some(2000), 1.0), Ok(2000));
        assert_eq!(range(default, None, None, 1.0), Ok(50));
        for refused in [
            range(of_suite, None, Some(1000), 0.1),
            range(of_suite, None, Some(5001), 1.0),
            range(default, None, Some(51), 1.0),
            range(too_long, None, None, 1.0),
        ] {
            let message = refused.expect_err("too long");
            assert!(message.contains("is longer than all"), "{message}");
        }
    }

    #[test]
    fn what_concerns_the_whole_test_cannot_stand_in_a_step() {
        for (option, value) in [("codec", "\"lz4\""), ("time_limit", "9.0")] {
            let text = format!("workload = \"write\"\nsteps = [{{{option} = {value}}}]");
            let test: Options = toml::from_str(&text).expect("options");
            let refused = test.settings(&Options::default(), 1.0);
            let message = refused.expect_err(option).to_string();
            assert!(message.contains(option), "{message}");
        }
        let message = Options::default()
            .settings(&Options::default(), 1.0)
            .expect_err("empty");
        assert!(message.to_string().contains("workload"), "{message}");
    }
}
