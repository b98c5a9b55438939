//! put, get, delete, scan, stats, verify, families, completions, man, help.

use kingtide_bench::{
    Codec, EngineKind, Pattern, SyncChoice, ValueContent, Workload, suite::BUILT_IN,
};
use serde_json::json;

use crate::harness::{Place, run, run_badly, run_well, run_with_input};

#[test]
fn a_value_is_read_back_until_it_is_deleted() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "fish", "cod"]);
    assert_eq!(run_well(&["get", &db, "fish"]).text(), "cod\n");
    run_well(&["put", &db, "fish", "eel"]);
    assert_eq!(run_well(&["get", &db, "fish", "--raw"]).text(), "eel");
    assert_eq!(
        run_well(&["--db", &db, "--json", "get", "fish"]).objects(),
        [json!({"key": "fish", "found": true, "value": "eel"})]
    );
    run_well(&["delete", &db, "fish"]);
    let gone = run(&["get", &db, "fish"]);
    assert_eq!((gone.code, gone.text()), (1, ""), "{gone:?}");
    assert_eq!(gone.stderr, "kingtide: the key is not there\n");
    let gone = run(&["get", &db, "fish", "--json"]);
    assert_eq!(gone.code, 1);
    assert_eq!(gone.objects(), [json!({"key": "fish", "found": false})]);
    assert_eq!(gone.stderr, "");
    assert_eq!(run(&["get", &db, "fish", "-q"]).stderr, "");
}

#[test]
fn long_values_come_from_files_and_go_to_files() {
    let place = Place::new();
    let db = place.db();
    let (source, copy) = (format!("{db}.source"), format!("{db}.copy"));
    let value: Vec<u8> = (0..5_000_000_u32).map(|at| (at >> 3) as u8).collect();
    std::fs::write(&source, &value).expect("room");
    run_well(&["put", &db, "film", "--value-file", &source]);
    run_well(&["get", &db, "film", "--output", &copy]);
    assert!(std::fs::read(&copy).expect("it was written") == value);
    run_badly(&["get", &db, "film", "--output", &copy], "exists");
    let ran = run_with_input(&["put", &db, "short", "--value-file", "-"], b"piped");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(run_well(&["get", &db, "short"]).text(), "piped\n");
    let missing = run(&["get", &db, "nothing", "--output", &format!("{copy}.2")]);
    assert_eq!(missing.code, 1, "{missing:?}");
    run_badly(&["put", &db, "k"], "required");
    run_badly(
        &["put", &db, "k", "v", "--value-file", &source],
        "cannot be used",
    );
    run_badly(
        &[
            "put",
            &db,
            "k",
            "--value-file",
            &copy.replace("copy", "none"),
        ],
        "cannot open",
    );
}

#[test]
fn ranges_and_prefixes_are_deleted_at_once() {
    let place = Place::new();
    let db = place.db();
    let scan = || run_well(&["scan", &db, "--keys-only"]).text().to_owned();
    for key in ["a1", "a2", "b1", "b2", "c1", "c2"] {
        run_well(&["put", &db, key, "x"]);
    }
    run_well(&["delete", &db, "--range", "a2", "b2"]);
    assert_eq!(scan(), "a1\nb2\nc1\nc2\n");
    run_well(&["--db", &db, "delete", "--prefix", "63", "--hex"]);
    assert_eq!(scan(), "a1\nb2\n");
    run_badly(&["delete", &db, "--range", "b", "a"], "before it begins");
    run_badly(&["delete", &db], "required");
    run_badly(&["delete", &db, "k", "--prefix", "k"], "cannot be used");
    let script = b"begin\ndelete --range a b\nput a9 1\ncommit\ndelete --prefix b\nscan\n";
    let ran = run_with_input(&["shell", &db], script);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.text().ends_with("a9\t1\n"), "{ran:?}");
    run_well(&["delete", &db, "--prefix", ""]);
    assert_eq!(scan(), "");
}

#[test]
fn bytes_that_are_not_text_go_in_and_out_as_hexadecimal() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "ff00", "0AfF", "--hex"]);
    assert_eq!(run_well(&["get", &db, "ff00", "--hex"]).text(), "0aff\n");
    assert_eq!(
        run_well(&["get", &db, "FF00", "--hex", "--json"]).objects()[0]["value_hex"],
        "0aff"
    );
    assert_eq!(run_well(&["scan", &db]).text(), "\\xff\\x00\t\\n\\xff\n");
    run_badly(&["get", &db, "xyz", "--hex"], "not hexadecimal");
    run_badly(&["put", &db, "0", "00", "--hex"], "not hexadecimal");
}

#[test]
fn a_scan_goes_both_ways_within_its_bounds() {
    let place = Place::new();
    let db = place.db();
    for key in ["a", "b1", "b2", "b3", "c"] {
        run_well(&["put", &db, key, &key.to_uppercase()]);
    }
    let scan = |arguments: &[&str]| {
        let all = [&["scan", &db][..], arguments].concat();
        run_well(&all).text().replace('\n', " ")
    };
    assert_eq!(scan(&[]), "a\tA b1\tB1 b2\tB2 b3\tB3 c\tC ");
    assert_eq!(scan(&["--keys-only", "--reverse"]), "c b3 b2 b1 a ");
    assert_eq!(
        scan(&["--keys-only", "--from", "b1", "--to", "b3"]),
        "b1 b2 "
    );
    assert_eq!(
        scan(&["--keys-only", "--prefix", "b", "--reverse", "--limit", "2"]),
        "b3 b2 "
    );
    assert_eq!(scan(&["--keys-only", "--limit", "0"]), "");
    assert_eq!(scan(&["--keys-only", "--from", "x"]), "");
    assert_eq!(
        run_well(&["scan", &db, "--json", "--limit", "1"]).objects(),
        [json!({"key": "a", "value": "A"})]
    );
}

#[test]
fn families_are_apart() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "k", "in default"]);
    run_well(&["put", &db, "k", "in other", "--family", "other"]);
    assert_eq!(run_well(&["get", &db, "k"]).text(), "in default\n");
    assert_eq!(
        run_well(&["-f", "other", "get", &db, "k"]).text(),
        "in other\n"
    );
    assert_eq!(run_well(&["families", &db]).text(), "default\nother\n");
    assert_eq!(
        run_well(&["families", &db, "--json"]).objects(),
        [json!({"family": "default"}), json!({"family": "other"})]
    );
    run_badly(&["get", &db, "k", "--family", "none"], "none");
    run_badly(&["stats", &db, "--family", "none"], "none");
}

#[test]
fn a_key_with_a_long_life_is_there() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "k", "v", "--ttl", "1000000"]);
    assert_eq!(run_well(&["get", &db, "k"]).text(), "v\n");
    let expires_at = run_well(&["scan", &db, "--json"]).objects()[0]["expires_at"].clone();
    assert!(
        expires_at
            .as_i64()
            .is_some_and(|seconds| seconds > 1_000_000),
        "{expires_at}"
    );
    run_badly(&["put", &db, "k", "v", "--ttl", "0"], "--ttl");
}

#[test]
fn stats_and_verify_describe_a_whole_database() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "k", "v"]);
    let stats = run_well(&["stats", &db]);
    assert!(stats.text().contains("sequence number"), "{stats:?}");
    let object = &run_well(&["stats", &db, "--json"]).objects()[0];
    let family = &object["families"][0];
    assert_eq!(family["name"], "default");
    assert_eq!(
        (&family["entries"], &family["keys_estimate"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(object["tables"], 1);
    for number in ["write_amplification", "merge_bytes_read", "disk_free_bytes"] {
        assert!(object.get(number).is_some(), "{number}: {object}");
    }
    assert_eq!(object["cache"]["enabled"], true);
    assert_eq!(object["memory"]["pressure"], "normal");
    assert!(run_well(&["verify", &db]).text().starts_with("whole: "));
    assert_eq!(run_well(&["verify", &db, "-q"]).text(), "");
    let object = &run_well(&["verify", &db, "--json"]).objects()[0];
    assert_eq!(object["damages"], json!([]));
}

#[test]
fn compact_and_purge_drop_what_is_dead() {
    let place = Place::new();
    let db = place.db();
    for key in ["a", "b", "c"] {
        run_well(&["put", &db, key, "v"]);
        run_well(&["put", &db, "-f", "other", key, "v"]);
    }
    let entries = |arguments: &[&str]| {
        run_well(arguments);
        let object = &run_well(&["stats", &db, "--json"]).objects()[0];
        let of = |index: usize| object["families"][index]["entries"].as_u64();
        (of(0), of(1))
    };
    assert_eq!(entries(&["delete", &db, "a"]), (Some(4), Some(3)));
    let range = ["compact", &db, "--from", "a", "--to", "b"];
    assert_eq!(entries(&range), (Some(2), Some(3)));
    assert_eq!(entries(&["delete", &db, "b"]), (Some(3), Some(3)));
    assert_eq!(entries(&["compact", &db]), (Some(1), Some(3)));
    run_well(&["delete", &db, "-f", "other", "a"]);
    assert_eq!(entries(&["purge", &db]), (Some(1), Some(2)));
    let summary = &run_well(&["purge", &db, "-f", "other", "--json"]).objects()[0];
    assert!(summary["bytes_after"].is_u64(), "{summary}");
    run_badly(&["compact", &db, "-f", "none"], "none");
    run_badly(&["compact", &db, "--from", ""], "one byte");
    run_badly(&["purge", &place.argument("missing")], "missing");
}

#[test]
fn help_completions_and_manual_come_from_the_definitions() {
    let help = run_well(&["--help"]);
    for command in [
        "put", "get", "scan", "shell", "import", "export", "verify", "bench",
    ] {
        assert!(help.text().contains(command), "{command}: {help:?}");
    }
    assert!(!help.text().contains("bench-child"), "hidden: {help:?}");
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            run_well(&["completions", shell])
                .text()
                .contains("families")
        );
    }
    assert!(run_well(&["man"]).text().contains(".TH KINGTIDE 1"));
    assert!(run_well(&["man", "import"]).text().contains("skip\\-bad"));
    let compare = run_well(&["man", "bench", "compare"]);
    assert!(compare.text().contains(".TH KINGTIDE-BENCH-COMPARE 1"));
    assert!(compare.text().contains("threshold"));
    run_badly(&["man", "nonsense"], "nonsense");
    run_badly(&["man", "bench", "nonsense"], "bench nonsense");
    let place = Place::new();
    run_well(&["man", "--all", &place.argument("man1")]);
    for page in ["kingtide", "kingtide-lsm", "kingtide-prepared-commit"] {
        assert!(place.path(&format!("man1/{page}.1")).is_file(), "{page}");
    }
    assert!(!place.path("man1/kingtide-bench-child.1").exists());
    assert!(run_well(&["--version"]).text().starts_with("kingtide "));
}

/// Goal: a shell completes the values of options that are one of a few. Method: every list, in the form in which each shell's
/// script has it.
#[test]
fn completions_name_the_values_of_options() {
    let scripts = ["bash", "zsh", "fish"].map(|shell| {
        let ran = run_well(&["completions", shell]);
        ran.text().to_owned()
    });
    let [bash, zsh, fish] = &scripts;
    let expect = |option: &str, names: Vec<&str>| {
        let list = names.join(" ");
        assert!(bash.contains(&format!("compgen -W \"{list}\"")), "{option}");
        let (named, values) = (format!("--{option}="), format!(":({list})'"));
        let is_whole = |line: &str| line.contains(&named) && line.contains(&values);
        assert!(zsh.lines().any(is_whole), "{option}");
        let lines: Vec<String> = names.iter().map(|name| format!("{name}\\t''")).collect();
        let (named, values) = (format!(" -l {option} "), lines.join("\n"));
        let is_whole = |entry: &str| entry.contains(&named) && entry.contains(&values);
        assert!(fish.split("complete -c ").any(is_whole), "{option}");
    };
    expect("pattern", names(Pattern::ALL, Pattern::name));
    expect("codec", names(Codec::ALL, Codec::name));
    expect("sync", names(SyncChoice::ALL, SyncChoice::name));
    expect("engine", names(EngineKind::ALL, EngineKind::name));
    let contents = names(ValueContent::ALL, ValueContent::name);
    expect("value-content", contents);
    let suites = BUILT_IN.iter().map(|(name, _)| *name);
    let mut subjects: Vec<&str> = suites.collect();
    subjects.extend(names(Workload::ALL, Workload::name));
    subjects.push("all");
    let subjects = subjects.join(" ");
    assert!(bash.contains(&format!(" {subjects} compare show")));
    assert!(zsh.contains(&format!(":({subjects})'")));
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().map(|choice| name(*choice)).collect()
}

#[test]
fn repair_tells_what_is_lost_and_brings_back_the_rest() {
    let place = Place::new();
    let db = place.db();
    let sorted = place.file("in.csv", "key,value\na,1\nb,2\n");
    run_well(&["import", &db, &sorted, "--sorted"]);
    let whole = run_well(&["repair", &db, "--dry-run"]);
    assert!(
        whole.text().ends_with("family default: 2 keys\n"),
        "{whole:?}"
    );
    let is_manifest = |name: &str| name.starts_with("MANIFEST");
    let entries = std::fs::read_dir(place.path("db")).expect("there");
    for file in entries.map(|entry| entry.expect("a name").path()) {
        if file
            .file_name()
            .is_some_and(|name| is_manifest(&name.to_string_lossy()))
        {
            std::fs::remove_file(file).expect("it is there");
        }
    }
    let ran = run(&["repair", &db, "--json"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let object = &ran.objects()[0];
    assert_eq!(object["manifest"], "lost");
    assert_eq!(object["families"][0]["keys"], 2);
    assert_eq!(
        run_well(&["get", &place.argument("db.repaired"), "b"]).text(),
        "2\n"
    );
    run_badly(&["repair", &db], "is there and not empty");
}
