//! The shell, driven by scripts.

use serde_json::json;

use crate::harness::{Place, run_well, run_with_input};

#[test]
fn a_script_runs_line_by_line() {
    let place = Place::new();
    let db = place.db();
    let script = b"# a script\n\nput a 1\nput \"b c\" 'two words'\nget a\nget missing\nscan\nexit\nnonsense\n";
    let ran = run_with_input(&["shell", &db], script);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.text(), "1\n(not found)\na\t1\nb c\ttwo words\n");
    assert_eq!(run_well(&["get", &db, "b c"]).text(), "two words\n");
}

#[test]
fn transactions_are_all_or_nothing() {
    let place = Place::new();
    let db = place.db();
    let script = b"begin\nput a 1\nget a\nrollback\nget a\nbegin\nput a 2\nput b 3\ncommit\nbegin\ndelete a\n";
    let ran = run_with_input(&["shell", &db, "--json"], script);
    assert_eq!(ran.code, 0, "{ran:?}");
    let objects = ran.objects();
    assert_eq!(objects[0], json!({"key": "a", "found": true, "value": "1"}));
    assert_eq!(objects[1], json!({"key": "a", "found": false}));
    assert!(
        objects[2]["committed"]
            .as_u64()
            .is_some_and(|number| number > 0),
        "{objects:?}"
    );
    assert!(ran.stderr.contains("rolled back"), "{ran:?}");
    assert_eq!(run_well(&["scan", &db]).text(), "a\t2\nb\t3\n");
}

#[test]
fn families_are_created_used_and_dropped() {
    let place = Place::new();
    let script = b"create-family f\nuse f\nput k 1\nflush\ncompact\nget k\nfamilies\nuse default\nget k\ndrop-family f\nfamilies\nstats\n";
    let ran = run_with_input(&["shell", &place.db()], script);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.text()
            .starts_with("1\ndefault\nf\n(not found)\ndefault\n"),
        "{ran:?}"
    );
    assert!(ran.text().contains("sequence number"), "{ran:?}");
}

#[test]
fn the_first_error_ends_a_script_unless_told_otherwise() {
    let place = Place::new();
    let db = place.db();
    let script = b"put a 1\nnonsense\nput b 2\n";
    let ran = run_with_input(&["shell", &db], script);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.starts_with("kingtide: line 2: "), "{ran:?}");
    assert_eq!(run_well(&["scan", &db]).text(), "a\t1\n");
    let ran = run_with_input(&["shell", &db, "--keep-going"], script);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("1 lines failed"), "{ran:?}");
    assert_eq!(run_well(&["scan", &db]).text(), "a\t1\nb\t2\n");
}

#[test]
fn bad_lines_are_errors_of_their_own() {
    let place = Place::new();
    let db = place.db();
    for (line, expected) in [
        ("commit", "no transaction"),
        ("rollback", "no transaction"),
        ("begin\nbegin", "open already"),
        ("use nowhere", "nowhere"),
        ("drop-family default", "in use"),
        ("create-family default", "line 1"),
        ("put '' v", "line 1"),
        ("get 'a", "not closed"),
        ("put k v --ttl 0", "ttl"),
    ] {
        let ran = run_with_input(&["shell", &db], line.as_bytes());
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
        assert!(ran.stderr.contains(expected), "{line}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{line}: {ran:?}");
    }
}

#[test]
fn a_read_only_shell_refuses_writes() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "k", "v"]);
    let ran = run_with_input(&["shell", &db, "--read-only"], b"get k\nput k w\n");
    assert_eq!((ran.code, ran.text()), (2, "v\n"), "{ran:?}");
    assert_eq!(run_well(&["get", &db, "k"]).text(), "v\n");
}
