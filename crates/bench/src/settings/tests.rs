use super::*;

fn settings() -> Settings {
    Settings::new(EngineKind::Kingtide, PathBuf::from("x"))
}

#[test]
fn the_defaults_pass_and_each_broken_bound_is_named() {
    assert!(settings().check().is_ok());
    type Break = fn(&mut Settings);
    let broken: [(Break, &str); 21] = [
        (|s| s.steps.clear(), "nothing"),
        (|s| s.steps.rotate_left(1), "read, would find an empty"),
        (
            |s| {
                s.value_sizes = ValueSizes::Fixed(1 << 30);
                s.steps[0].batch_operations = 17;
            },
            "batches of all threads",
        ),
        (|s| s.background_jobs = 100_000, "background jobs"),
        (|s| s.keys = 0, "keys must"),
        (|s| s.keys = u64::MAX, "at most"),
        (|s| s.key_bytes = 1, "keys of 1 bytes"),
        (|s| s.key_prefix_bytes = 16, "prefix"),
        (|s| s.compression_ratio = f64::NAN, "ratio"),
        (|s| s.value_sizes = ValueSizes::Fixed(usize::MAX), "values"),
        (|s| s.families = 0, "families"),
        (|s| s.memtable_bytes = 0, "memtable"),
        (|s| s.time_limit_seconds = f64::NAN, "time limit"),
        (|s| s.steps[0].operations = 0, "write: operations"),
        (|s| s.steps[1].threads = 0, "read: threads"),
        (|s| s.steps[0].batch_operations = 0, "batch"),
        (|s| s.steps[2].range_entries = 0, "range"),
        (|s| s.steps[0].zipfian_exponent = 0.0, "exponent"),
        (|s| s.steps[0].seconds = f64::INFINITY, "duration"),
        (
            |s| s.steps[2].operations_per_second_max = 5.0,
            "iterate: its entries come in one call",
        ),
        (
            |s| {
                s.steps[0].pattern = Pattern::Timestamp;
                s.steps[1].pattern = Pattern::ByteReversed;
            },
            "cannot be in one database",
        ),
    ];
    for (spoil, expected) in broken {
        let mut settings = settings();
        spoil(&mut settings);
        let message = settings.check().expect_err(expected).to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn names_are_read_back_and_others_are_refused() {
    for codec in Codec::ALL {
        assert_eq!(codec.name().parse(), Ok(*codec));
    }
    for workload in Workload::ALL {
        assert_eq!(workload.name().parse(), Ok(*workload));
    }
    assert_eq!("fill".parse(), Ok(Workload::Write));
    let message = "lz5".parse::<Codec>().expect_err("no such codec");
    assert!(message.contains("none, snappy, lz4, zstd"), "{message}");
}

#[test]
fn an_engine_may_name_its_library_and_have_a_label() {
    let choice: EngineChoice = "c-abi=/lib/libtidesdb.so".parse().expect("kind and path");
    assert_eq!((choice.kind, &*choice.label), (EngineKind::CAbi, "c-abi"));
    assert_eq!(choice.library, Some(PathBuf::from("/lib/libtidesdb.so")));
    assert_eq!(choice.to_string(), "c-abi=/lib/libtidesdb.so");
    let choice: EngineChoice = "tidesdb:c-abi=/l:b.so".parse().expect("with a label");
    assert_eq!((choice.kind, &*choice.label), (EngineKind::CAbi, "tidesdb"));
    assert_eq!(choice.to_string(), "tidesdb:c-abi=/l:b.so");
    for bad in ["kingtide=/x", "berkeley", ":rocksdb", "x:berkeley"] {
        bad.parse::<EngineChoice>().expect_err(bad);
    }
}

#[test]
fn ten_bits_a_key_answer_wrongly_once_in_a_hundred() {
    let mut settings = settings();
    let mut rate = |bits| {
        settings.bloom_bits = bits;
        settings.false_positive_rate()
    };
    assert!((0.0081..0.0083).contains(&rate(10.0)));
    assert!(rate(0.0) < 1.0 && rate(100.0) > 0.0);
}

#[test]
fn settings_survive_json() {
    let settings = Settings {
        value_sizes: ValueSizes::Uniform(1, 5),
        ..settings()
    };
    let text = serde_json::to_string(&settings).expect("plain data");
    assert_eq!(
        serde_json::from_str::<Settings>(&text).expect("own text"),
        settings
    );
}

#[test]
fn one_step_decides_the_form_of_all_keys() {
    let mut settings = settings();
    assert_eq!(settings.key_form(), KeyForm::Ordered);
    settings.steps[0].pattern = Pattern::ByteReversed;
    assert_eq!(settings.key_form(), KeyForm::ByteReversed);
    assert!(settings.check().is_ok());
}
