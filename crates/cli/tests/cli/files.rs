//! import and export.

use serde_json::json;

use crate::harness::{Place, SAMPLE_RECORDS, run, run_badly, run_well, run_with_input, sample};

#[test]
fn the_sample_comes_in_and_goes_around_through_both_formats() {
    let place = Place::new();
    let db = place.db();
    let ran = run_well(&["import", &db, &sample(), "--batch", "7"]);
    let expected = format!(
        "imported {SAMPLE_RECORDS} records in {} transactions\n",
        SAMPLE_RECORDS.div_ceil(7)
    );
    assert_eq!(ran.text(), expected);
    let first = run_well(&["scan", &db, "--limit", "1", "--json"]).objects();
    let record: serde_json::Value =
        serde_json::from_str(first[0]["value"].as_str().expect("text")).expect("JSON");
    assert_eq!(record["Package"], first[0]["key"]);
    assert!(record["Description"].as_str().expect("text").contains('\n'));

    let exported = run_well(&["export", &db]);
    assert_eq!(exported.objects().len(), SAMPLE_RECORDS);
    for format in ["jsonl", "csv"] {
        let file = place.argument(&format!("out.{format}"));
        run_well(&["export", &db, &file]);
        let copy = place.argument(&format!("copy-{format}"));
        run_well(&["import", &copy, &file]);
        assert_eq!(
            run_well(&["export", &copy]).stdout,
            exported.stdout,
            "{format}"
        );
    }
}

#[test]
fn importing_again_changes_nothing() {
    let place = Place::new();
    let db = place.db();
    run_well(&["import", &db, &sample()]);
    let before = run_well(&["export", &db]).stdout;
    run_well(&["import", &db, &sample(), "--sync", "none"]);
    assert_eq!(run_well(&["export", &db]).stdout, before);
}

#[test]
fn expiries_survive_the_way_through_files() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "k", "v", "--ttl", "1000000"]);
    let exported = run_well(&["export", &db]);
    assert!(exported.objects()[0]["expires_at"].is_i64(), "{exported:?}");
    let csv = run_well(&["export", &db, "--format", "csv"]);
    assert_eq!(csv.text(), "key,value\nk,v\n");
    assert!(csv.stderr.contains("1 of the keys expire"), "{csv:?}");
    let csv = run_well(&["export", &db, "--format", "csv", "--expiry"]);
    let copy = place.argument("copy");
    let ran = run_with_input(&["import", &copy, "-", "--format", "csv"], &csv.stdout);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(run_well(&["export", &copy]).stdout, exported.stdout);
    run_badly(&["export", &db, "--expiry"], "--expiry");
}

#[test]
fn columns_are_chosen_by_name() {
    let place = Place::new();
    let db = place.db();
    let file = place.file("in.csv", "id;name;size\n1;\"a;b\";10\n2;c;20\n");
    run_well(&[
        "import",
        &db,
        &file,
        "--delimiter",
        ";",
        "--key-field",
        "id",
        "--value-field",
        "name",
    ]);
    assert_eq!(run_well(&["scan", &db]).text(), "1\ta;b\n2\tc\n");
    run_well(&[
        "import",
        &db,
        &file,
        "--delimiter",
        ";",
        "--key-field",
        "id",
        "-f",
        "whole",
    ]);
    assert_eq!(
        run_well(&["get", &db, "2", "-f", "whole"]).text(),
        "{\"id\":\"2\",\"name\":\"c\",\"size\":\"20\"}\n"
    );
    run_badly(&["import", &db, &file], "no column \"key\"");
    run_badly(
        &["import", &db, &file, "--delimiter", "ab"],
        "cannot separate",
    );
    let tabs = place.file("in.tsv", "key\tvalue\nt\t1\n");
    run_well(&["import", &db, &tabs]);
    assert_eq!(run_well(&["get", &db, "t"]).text(), "1\n");
    let lines = place.file("in.jsonl", "{\"n\":7,\"v\":{\"a\":1}}\n");
    run_well(&[
        "import",
        &db,
        &lines,
        "--key-field",
        "n",
        "--value-field",
        "v",
    ]);
    assert_eq!(run_well(&["get", &db, "7"]).text(), "{\"a\":1}\n");
}

/// Goal: an acknowledgement per commit, each on a line of its own and counting up.
#[test]
fn acknowledgements_count_the_records_stored() {
    let place = Place::new();
    let ran = run_well(&["import", &place.db(), &sample(), "--batch", "100", "--ack"]);
    assert_eq!(ran.text(), "100\n200\n240\n");
    let ran = run_well(&[
        "import",
        &place.db(),
        &sample(),
        "--batch",
        "200",
        "--ack",
        "--json",
    ]);
    assert_eq!(
        ran.objects(),
        [
            json!({"acknowledged": 200}),
            json!({"acknowledged": 240}),
            json!({"imported": 240, "skipped": 0, "transactions": 2}),
        ]
    );
}

#[test]
fn a_malformed_record_ends_the_import_with_its_line() {
    let place = Place::new();
    let db = place.db();
    let file = place.file("in.csv", "key,value\na,1\n,2\nb,3\n");
    let ran = run_badly(
        &["import", &db, &file],
        "line 3: the key is empty (1 records before it are stored)",
    );
    assert!(ran.stderr.contains("--skip-bad"), "{ran:?}");
    assert_eq!(run_well(&["scan", &db]).text(), "a\t1\n");
    let ran = run_well(&["import", &db, &file, "--skip-bad"]);
    assert!(ran.stderr.contains("skipped: line 3"), "{ran:?}");
    assert!(
        ran.stderr.contains("1 malformed records skipped"),
        "{ran:?}"
    );
    assert_eq!(run_well(&["scan", &db]).text(), "a\t1\nb\t3\n");
    let open = place.file("open.csv", "key,value\nc,\"1\nd,2\n");
    run_badly(
        &["import", &db, &open, "--skip-bad"],
        "line 2: a quote is opened",
    );
    let bad = place.file("bad.jsonl", "{\"key\":\"k\",\"value\":\"v\"}\nnonsense\n");
    run_badly(&["import", &db, &bad], "line 2: not JSON");
    let bad = place.file("bad.deb822", "Package: p\n\nnonsense\n");
    run_badly(&["import", &db, &bad], "line 3: the line has no colon");
}

/// Goal: what one entry is too large for is reported like any malformed record. Method: a key over 1 MiB.
#[test]
fn a_record_that_is_too_large_is_refused_with_its_line() {
    let place = Place::new();
    let db = place.db();
    let content = format!("key,value\na,1\n{},2\nb,3\n", "k".repeat((1 << 20) + 1));
    let file = place.file("in.csv", content);
    run_badly(&["import", &db, &file], "line 3: ");
    assert_eq!(run_well(&["scan", &db]).text(), "a\t1\n");
    run_well(&["import", &db, &file, "--skip-bad"]);
    assert_eq!(run_well(&["scan", &db]).text(), "a\t1\nb\t3\n");
}

#[test]
fn empty_inputs_have_no_records() {
    let place = Place::new();
    let db = place.db();
    for name in ["empty.csv", "empty.jsonl", "empty.deb822"] {
        let file = place.file(name, "");
        let ran = run_well(&["import", &db, &file]);
        assert_eq!(ran.text(), "imported 0 records in 0 transactions\n");
    }
    let file = place.file("header.csv", "key,value\n");
    run_well(&["import", &db, &file]);
    assert_eq!(run_well(&["export", &db]).text(), "");
}

#[test]
fn an_input_that_cannot_be_opened_creates_no_database() {
    let place = Place::new();
    let db = place.db();
    run_badly(
        &["import", &db, &place.argument("missing.csv")],
        "missing.csv",
    );
    run_badly(
        &["import", &db, &place.argument("."), "--format", "csv"],
        "cannot open",
    );
    run_badly(&["import", &db, &place.file("what", "x")], "--format");
    assert!(!place.path("db").exists());
}

#[test]
fn an_export_never_overwrites() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "k", "v"]);
    let file = place.file("backup.jsonl", "precious");
    run_badly(&["export", &db, &file], "cannot create");
    assert_eq!(
        std::fs::read(place.path("backup.jsonl")).expect("it is there"),
        b"precious"
    );
    assert_eq!(
        run(&["export", &db, &place.argument("no/such/folder.csv")]).code,
        2
    );
}

#[test]
fn sorted_records_are_loaded_as_a_whole() {
    let place = Place::new();
    let sorted = place.file("sorted.csv", "key,value\na,1\nb,2\nc,3\n");
    let db = place.db();
    let ran = run_well(&["import", &db, &sorted, "--sorted"]);
    assert_eq!(ran.text(), "imported 3 records into 1 tables\n");
    assert_eq!(run_well(&["get", &db, "b"]).text(), "2\n");
    for (content, what) in [
        ("key,value\na,x\nc,x\nb,x\n", "comes before"),
        ("key,value\na,x\na,x\n", "is the same as"),
        ("key,value\na,x\n\"\",x\n", "the key is empty"),
    ] {
        let wrong = place.file("wrong.csv", content);
        let ran = run_badly(&["import", &db, &wrong, "--sorted"], what);
        assert!(ran.stderr.contains("nothing is stored"), "{ran:?}");
        assert!(
            ran.stderr
                .contains(&format!("line {}", content.lines().count())),
            "{ran:?}"
        );
        assert_eq!(run_well(&["get", &db, "a"]).text(), "1\n");
    }
    let ran = run(&["import", &db, &sorted, "--sorted", "--batch", "7"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let json = run_well(&["import", &db, &sorted, "--sorted", "--json"]).objects();
    assert_eq!(json[0], json!({"imported": 3, "tables": 1}));
}
