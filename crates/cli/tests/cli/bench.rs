//! bench: small runs.

use std::fs;

use crate::harness::{Place, run, run_badly, run_well};

const SMALL: [&str; 5] = ["--operations", "2000", "--threads", "2", "--json"];

fn bench<'a>(place: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["bench", "--db", place][..], &SMALL, more].concat()
}

#[test]
fn every_workload_is_measured_and_verified() {
    let place = Place::new();
    let folder = place.argument("");
    let ran = run_well(&bench(&folder, &["all", "--memtable", "64K"]));
    let report = &ran.objects()[0];
    assert_eq!(report["engine"], "kingtide");
    let phases = report["phases"].as_array().expect("phases");
    assert_eq!(phases.len(), 5, "{report}");
    for phase in phases {
        assert_eq!(phase["missing"], 0, "{phase}");
        assert_eq!(phase["wrong"], 0, "{phase}");
        assert!(
            phase["operations_per_second"]
                .as_f64()
                .is_some_and(|rate| rate > 0.0),
            "{phase}"
        );
        assert!(
            phase["latency"]["max"].as_u64() >= phase["latency"]["p50"].as_u64(),
            "{phase}"
        );
    }
    assert_eq!(
        fs::read_dir(&folder).expect("folder").count(),
        0,
        "nothing is left"
    );
}

#[test]
fn a_table_is_printed_for_people() {
    let place = Place::new();
    let ran = run_well(&[
        "bench",
        "fill",
        "--db",
        &place.argument(""),
        "-n",
        "500",
        "--sync",
        "full",
    ]);
    assert!(ran.text().contains("ops/s"), "{ran:?}");
    assert!(ran.text().contains("kingtide"), "{ran:?}");
    // Either they run or the note says why not.
    assert!(ran.text().contains("core"), "{ran:?}");
}

#[test]
fn an_engine_that_is_not_there_is_reported() {
    let place = Place::new();
    let folder = place.argument("");
    let library = place.argument("librocksdb.so");
    let engine = format!("rocksdb={library}");
    let ran = run(&bench(&folder, &["fill", "--engine", &engine]));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("was not measured"), "{ran:?}");
    let failure = ran.objects()[0]["failure"].clone();
    assert!(
        failure
            .as_str()
            .is_some_and(|text| text.contains("librocksdb.so")),
        "{failure}"
    );
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let place = Place::new();
    let folder = place.argument("");
    for (arguments, expected) in [
        (&["--engine", "nosuch"][..], "nosuch"),
        (&["--engine", "kingtide=/x"], "linked in"),
        (&["nosuch"], "nosuch"),
        (&["--cache", "1X"], "1X"),
        (&["--key-bytes", "1"], "keys of 1 bytes"),
        (&["--threads", "0"], "threads"),
        (&["--compression-ratio", "2"], "ratio"),
        (&["--batch", "0"], "batch"),
    ] {
        let all = [&["bench", "--db", &folder, "-n", "1000"][..], arguments].concat();
        run_badly(&all, expected);
    }
    run_badly(&["bench", "--db", &place.argument("missing")], "missing");
    assert_eq!(
        fs::read_dir(&folder).expect("folder").count(),
        0,
        "nothing is left"
    );
}
