//! bench: small runs.

use std::{fs, path::Path};

use crate::browser;
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
    let rows = ran.objects();
    let mut workloads: Vec<_> = rows
        .iter()
        .filter_map(|row| row["workload"].as_str())
        .collect();
    workloads.dedup();
    assert_eq!(workloads.len(), 16, "{ran:?}");
    for row in &rows {
        assert_eq!(row["engine"], "kingtide", "{row}");
        assert_eq!(row["status"], "ok", "{row}");
        let number = |column: &str| row[column].as_f64().unwrap_or(-1.0);
        assert!(number("ops_per_sec") > 0.0, "{row}");
        assert!(number("max_us") >= number("p50_us"), "{row}");
        assert!(
            number("db_size_mb") > 0.0 && number("peak_rss_mb") > 0.0,
            "{row}"
        );
        assert!(
            row["machine"]["cores"]
                .as_u64()
                .is_some_and(|cores| cores > 0),
            "{row}"
        );
    }
    assert_eq!(
        fs::read_dir(&folder).expect("folder").count(),
        0,
        "nothing is left"
    );
}

#[test]
fn results_are_written_as_asked_for_and_can_be_compared() {
    let place = Place::new();
    let folder = place.argument("");
    let results = tempfile::tempdir().expect("temporary directory");
    let file = |name: &str| results.path().join(name).display().to_string();
    let (csv, jsonl, report) = (file("a.csv"), file("a.jsonl"), file("a.txt"));
    let (html, compared, traces) = (file("a.html"), file("compared.html"), file("traces"));
    let ran = run_well(&[
        "bench",
        "--db",
        &folder,
        "quick",
        "--scale",
        "0.002",
        "--only",
        "batch 1",
        "--rounds",
        "2",
        "-t",
        "2",
        "--sync",
        "none",
        "--csv",
        &csv,
        "--jsonl",
        &jsonl,
        "--report",
        &report,
        "--html",
        &html,
        "--traces",
        &traces,
        "--timeline",
    ]);
    assert!(ran.text().contains("batch 1000"), "{ran:?}");
    let csv_text = fs::read_to_string(&csv).expect("written");
    let mut lines = csv_text.lines();
    assert!(
        lines
            .next()
            .is_some_and(|header| header.starts_with("engine,test_name,operation,ops_per_sec,"))
    );
    // Batch 1, 10, 100, 1000 and 10000, deletes by 1, 100 and 1000; two rounds each.
    assert_eq!(lines.count(), 2 * 8, "{csv_text}");
    let jsonl_text = fs::read_to_string(&jsonl).expect("written");
    assert_eq!(jsonl_text.lines().count(), 2 * 8, "{jsonl_text}");
    assert!(jsonl_text.contains("\"timeline\":[{"), "{jsonl_text}");
    assert!(
        fs::read_to_string(&report)
            .expect("written")
            .contains("kingtide")
    );
    let same = run_well(&["bench", "compare", &csv, &jsonl, "--html", &compared]);
    assert!(same.text().contains("1.00"), "{same:?}");
    let (again, rows_again) = (file("again.html"), file("again.csv"));
    let shown = run_well(&[
        "bench",
        "show",
        &csv,
        "--suite",
        "targets",
        "--html",
        &again,
        "--csv",
        &rows_again,
    ]);
    assert!(shown.text().contains("batch 1000"), "{shown:?}");
    assert!(shown.text().contains("not measured"), "{shown:?}");
    assert_eq!(fs::read_to_string(&rows_again).expect("written"), csv_text);
    let mut runs = 0;
    for trace in fs::read_dir(&traces).expect("made") {
        let text = fs::read_to_string(trace.expect("listed").path()).expect("written");
        let lines: serde_json::Value = serde_json::from_str(&text).expect("whole");
        assert!(
            lines.as_array().is_some_and(|lines| lines.len() > 3),
            "{text}"
        );
        runs += 1;
    }
    assert!(runs > 2, "{runs}");
    for page in [&html, &compared, &again] {
        if let Some(seen) = browser::open(Path::new(page), 1000) {
            seen.expect_drawn();
            assert!(seen.drawn().contains("batch 1000"), "{page}");
        }
    }
    let halved: String = csv_text
        .lines()
        .map(|line| {
            let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
            if let Ok(rate) = cells[3].parse::<f64>() {
                cells[3] = (rate / 1000.0).to_string();
            }
            cells.join(",") + "\n"
        })
        .collect();
    let slow = file("slow.csv");
    fs::write(&slow, halved).expect("file");
    let ran = run(&["bench", "compare", &csv, &slow]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.text().contains("SLOWER"), "{ran:?}");
    run_badly(&["bench", "compare", &csv, &file("none")], "none");
    run_badly(&["bench", "compare", &csv, &report], "not a result file");
    run_badly(&["bench", "show", &report], "not a result file");
    run_badly(&["bench", "show", &csv, "--suite", "none"], "no suite");
}

#[test]
fn a_suite_may_be_a_file() {
    let place = Place::new();
    let folder = place.argument("");
    let results = tempfile::tempdir().expect("temporary directory");
    let path = results.path().join("mine.toml");
    let file = path.display().to_string();
    fs::write(
        &path,
        "name = \"mine\"\n[[test]]\nname = \"t\"\nkeys = 500\nsteps = [{workload = \"write\", pattern = \"timestamp\"}, \
         {workload = \"seek\", pattern = \"zipfian\"}]\n",
    )
    .expect("file");
    let ran = run_well(&["bench", "--db", &folder, "--suite", &file, "--json"]);
    assert_eq!(ran.objects()[1]["operation"], "SEEK", "{ran:?}");
    fs::write(&path, "name = \"mine\"\n[[test]]\nkesy = 1\n").expect("file");
    run_badly(&["bench", "--db", &folder, "--suite", &file], "kesy");
    run_badly(
        &["bench", "--db", &folder, "--suite", "/nowhere/x.toml"],
        "/nowhere/x.toml",
    );
}

/// Goal: a suite's targets are told at the end. Method: parts of both suites that have some, very small, without a peer.
#[test]
fn targets_are_judged_at_the_end() {
    let place = Place::new();
    let folder = place.argument("");
    for (suite, only) in [("targets", "zipfian"), ("amplification", "64-byte")] {
        let ran = run(&[
            "bench", suite, "--db", &folder, "--scale", "0.002", "--only", only, "-t", "2",
        ]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let text = ran.text();
        assert!(text.contains("iteration"), "{text}");
        assert_eq!(
            text.contains("2 not measured"),
            suite == "targets",
            "without a peer there is no ratio: {text}"
        );
    }
}

#[test]
fn a_table_is_printed_for_people() {
    let place = Place::new();
    let ran = run_well(&[
        "bench",
        "write",
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
    let version = concat!("kingtide: ", env!("CARGO_PKG_VERSION"), ", build ");
    assert!(ran.text().contains(version), "{ran:?}");
    let folder = place.argument("");
    let quiet = run_well(&["bench", "write", "-q", "--db", &folder, "-n", "500"]);
    assert_eq!(
        quiet.text().lines().count(),
        2,
        "the table alone: {quiet:?}"
    );
    assert!(quiet.stderr.is_empty(), "{quiet:?}");
}

/// Goal: no directory is named as one that is there when it is not. Method: a run that keeps its databases and one that does not.
#[test]
fn databases_are_where_the_remark_says() {
    let place = Place::new();
    let folder = place.argument("");
    let run = ["bench", "write", "--db", &folder, "-n", "500"];
    let ran = run_well(&run);
    assert!(!ran.text().contains("kingtide-bench-"), "{ran:?}");
    assert!(ran.text().contains("and are removed\n"), "{ran:?}");
    let ran = run_well(&[&run[..], &["--keep"]].concat());
    let told = ran
        .text()
        .lines()
        .find_map(|line| line.strip_prefix("databases kept in "));
    assert!(told.is_some_and(|told| Path::new(told).is_dir()), "{ran:?}");
}

#[test]
fn an_engine_that_is_not_there_is_reported() {
    let place = Place::new();
    let folder = place.argument("");
    let library = place.argument("librocksdb.so");
    let engine = format!("rocksdb={library}");
    let ran = run(&bench(&folder, &["write", "--engine", &engine]));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("could not be loaded"), "{ran:?}");
    let row = &ran.objects()[0];
    assert_eq!(row["status"], "failed", "{row}");
    assert!(
        row["error"]
            .as_str()
            .is_some_and(|text| text.contains("librocksdb.so")),
        "{row}"
    );
}

/// Goal: what was measured is not lost when a result file cannot be written. Method: files on a device that is always full.
#[test]
#[cfg(target_os = "linux")]
fn results_that_cannot_be_written_are_still_printed() {
    let place = Place::new();
    let folder = place.argument("");
    for option in ["--csv", "--jsonl", "--report", "--html"] {
        let ran = run(&[
            "bench",
            "write",
            "--db",
            &folder,
            "-n",
            "500",
            option,
            "/dev/full",
        ]);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains("/dev/full"), "{ran:?}");
        assert!(ran.text().contains("ops/s"), "{option}: {ran:?}");
    }
}

/// Goal: an engine that dies in the middle keeps what it has measured, marked. Method: its process may not make files longer
/// than it needs for the first step, so the system ends it in the second or its writes fail.
#[test]
#[cfg(target_os = "linux")]
fn an_engine_that_fails_in_the_middle_keeps_its_rows() {
    let place = Place::new();
    let folder = place.argument("");
    let suite = place.argument("short.toml");
    fs::write(
        &suite,
        "name = \"short\"\n[[test]]\nname = \"t\"\nkeys = 4000\nvalue_bytes = 10000\ncompression_ratio = 1.0\n\
         memtable = \"1G\"\nsteps = [{workload = \"write\", operations = 10}, {workload = \"write\"}, {workload = \"read\"}]\n",
    )
    .expect("file");
    let csv = place.argument("short.csv");
    // In blocks of 512 bytes or of 1,024, as the shell likes it: 8 or 16 MiB.
    let limited = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 16384 && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_kingtide"))
        .args([
            "bench",
            "--db",
            &folder,
            "--suite",
            &suite,
            "--csv",
            &csv,
            "--engine",
            "kingtide,lmdb=/nowhere/liblmdb.so",
        ])
        .output()
        .expect("a shell");
    let told = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(2), "{told}");
    // The step that broke off is one or the other.
    let counts = [
        "rows that failed, told above: 3",
        "rows told above: 2 failed, 1 partial",
    ];
    assert!(counts.iter().any(|counts| told.contains(counts)), "{told}");
    let table = String::from_utf8_lossy(&limited.stdout);
    let first = table.lines().nth(1).unwrap_or_default();
    assert!(
        first.contains("PUT 10 operations") && first.trim_end().ends_with('-'),
        "the size was not measured: {table}"
    );
    let rows = kingtide_bench::Row::read_file(Path::new(&csv)).expect("written");
    let statuses: Vec<_> = rows
        .iter()
        .map(|row| (&*row.engine, row.status.name(), row.error.is_empty()))
        .collect();
    assert_eq!(statuses.len(), 4, "{rows:?}");
    assert_eq!(statuses[0], ("kingtide", "ok", true), "{rows:?}");
    assert!(
        matches!(statuses[1], ("kingtide", "partial" | "failed", false)),
        "{rows:?}"
    );
    assert_eq!(statuses[2], ("kingtide", "failed", false), "{rows:?}");
    assert_eq!(statuses[3], ("lmdb", "failed", false), "{rows:?}");
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
        (
            &["--keys", "1X"],
            "'--keys <COUNT>': \"1X\" is not a number; write 500000, 500K",
        ),
        (
            &["--key-bytes", "1X"],
            "'--key-bytes <SIZE>': \"1X\" is not a size; write 4096, 4K",
        ),
        (&["--key-bytes", "1"], "keys of 1 bytes"),
        (&["--threads", "0"], "threads"),
        (&["--compression-ratio", "2"], "ratio"),
        (&["--batch", "0"], "batch"),
        (
            &["range", "--range", "1M"],
            "a range of 1000000 entries is longer than all 1000 keys",
        ),
        (&["--rounds", "0"], "rounds"),
        (&["quick", "--scale", "0"], "scale"),
        (&["quick", "--only", "nosuch"], "nosuch"),
        (&["--value-bytes", "5-6"], "5-6"),
        (&["--rate", "-1"], "rate"),
        (&["--time-limit", "-1"], "time limit"),
        (&["--threads", "-5"], "invalid value '-5'"),
        (&["--keys", "0"], "keys must be at least 1"),
        (&["write", "--scale", "-1"], "scale"),
        (&["--background-jobs", "100000"], "background jobs"),
        (&["--family", "mine"], "families of its own"),
        (&["--engine", "kingtide,kingtide"], "two engines"),
        (&["--engine", "a:lmdb,a:rocksdb"], "two engines"),
        (&["--csv", "/nowhere/x.csv"], "/nowhere/x.csv"),
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

/// A result file with a row for each workload, codec and rate.
fn results(place: &Place, name: &str, rows: &[(&str, &str, f64)]) -> String {
    let rows: Vec<kingtide_bench::Row> = rows
        .iter()
        .map(|(workload, codec, ops_per_sec)| kingtide_bench::Row {
            engine: "kingtide".into(),
            test_name: "all".into(),
            operation: "GET".into(),
            workload: (*workload).into(),
            codec: (*codec).into(),
            ops_per_sec: *ops_per_sec,
            ..kingtide_bench::Row::default()
        })
        .collect();
    let mut bytes = Vec::new();
    kingtide_bench::Row::write_csv(&rows, &mut bytes).expect("memory");
    place.file(name, bytes)
}

/// Goal: a row that is gone is told, and is a failure unless that is meant. Method: the workload `seek` is in the old file
/// only, `rmw` in the new one only.
#[test]
fn rows_of_one_file_only_are_listed_and_missing_ones_fail() {
    let place = Place::new();
    let old = results(
        &place,
        "old.csv",
        &[("read", "none", 9.0), ("seek", "none", 9.0)],
    );
    let new = results(
        &place,
        "new.csv",
        &[("read", "none", 9.0), ("rmw", "none", 9.0)],
    );
    let html = place.argument("page.html");
    let ran = run(&["bench", "compare", &old, &new, "--html", &html]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("not in"), "{ran:?}");
    let text = ran.text();
    assert!(
        text.contains("only in OLD: kingtide: all GET seek"),
        "{text}"
    );
    assert!(
        text.contains("only in NEW: kingtide: all GET rmw"),
        "{text}"
    );
    let page = fs::read_to_string(&html).expect("written");
    assert!(
        page.contains("\"only_old\":[\"kingtide: all (get), seek"),
        "{page}"
    );
    let ran = run_well(&["bench", "compare", &old, &new, "--allow-missing", "--json"]);
    let objects = ran.objects();
    assert_eq!(objects.len(), 3, "{ran:?}");
    assert_eq!(objects[0]["name"], "GET read", "{ran:?}");
    assert_eq!(objects[1]["only_in"], "old", "{ran:?}");
    assert_eq!(objects[2]["only_in"], "new", "{ran:?}");
}

/// Goal: what became worse is counted by its own rows. Method: two rows, of which one is slower.
#[test]
fn only_rows_that_became_worse_are_counted() {
    let place = Place::new();
    let (same, fast) = (("read", "none", 9.0), ("seek", "none", 9.0));
    let old = results(&place, "old.csv", &[same, fast]);
    let new = results(&place, "new.csv", &[same, ("seek", "none", 1.0)]);
    let ran = run(&["bench", "compare", &old, &new]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let told = "kingtide: 1 number in 1 row became worse\n";
    assert!(ran.stderr.ends_with(told), "{ran:?}");
}

#[test]
fn files_that_do_not_pair_say_in_what_they_differ() {
    let place = Place::new();
    let plain = results(&place, "plain.csv", &[("read", "none", 9.0)]);
    let packed = results(&place, "packed.csv", &[("read", "zstd", 9.0)]);
    run_badly(
        &["bench", "compare", &plain, &packed],
        "the closest differ in codec: none and zstd",
    );
    let shown = run_well(&["bench", "show", &plain, &packed]);
    assert!(shown.text().contains("GET none"), "{shown:?}");
    assert!(shown.text().contains("GET zstd"), "{shown:?}");
    let no_row = place.file("no-row.jsonl", "{\"a\":1}\n");
    let header = place.file("header.csv", "engine,test_name\n");
    for command in [
        &["bench", "show", &no_row][..],
        &["bench", "compare", &plain, &no_row],
    ] {
        run_badly(command, "line 1: not a row");
    }
    run_badly(
        &["bench", "compare", &header, &plain],
        "a header and no rows",
    );
}

/// Goal: no result is lost because two outputs, or an output and an input, are one file, however it is named.
#[test]
fn outputs_that_would_overwrite_each_other_are_refused_before_anything_is_written() {
    let place = Place::new();
    let folder = place.argument("");
    let old = results(&place, "old.csv", &[("read", "none", 9.0)]);
    let before = fs::read_to_string(&old).expect("written");
    let same = place.argument("./old.csv");
    run_badly(
        &["bench", "compare", &old, &old, "--html", &same],
        "which is read",
    );
    run_badly(&["bench", "show", &old, "--csv", &same], "which is read");
    let (one, other) = (place.argument("x"), place.argument("./x"));
    let twice = ["bench", "write", "-n", "100", "--db", &folder];
    run_badly(
        &[&twice[..], &["--csv", &one, "--jsonl", &other]].concat(),
        "--csv and --jsonl would both write",
    );
    let unfinished = place.argument("x.partial");
    run_badly(
        &[&twice[..], &["--csv", &one, "--html", &unfinished]].concat(),
        "x.partial",
    );
    run_badly(
        &[&twice[..], &["--csv", &one, "--html", "/nowhere/x"]].concat(),
        "/nowhere/x",
    );
    run_badly(&[&twice[..], &["--csv", &folder]].concat(), "directory");
    for name in ["x", "x.partial"] {
        assert!(!place.path(name).exists(), "{name}");
    }
    assert_eq!(fs::read_to_string(&old).expect("kept"), before);
    let suite = place.file(
        "mine.toml",
        "name = \"m\"\n[[test]]\nname = \"t\"\nsteps = [{workload = \"write\"}]\n",
    );
    run_badly(
        &["bench", "--suite", &suite, "--db", &folder, "--csv", &suite],
        "which is read",
    );
}
