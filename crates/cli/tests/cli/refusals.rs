//! Bad input: every command must answer with a message and exit code 2, and leave everything as it was.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    process::Stdio,
};

use crate::harness::{Place, command, run, run_badly, run_well, sample};

#[test]
fn a_missing_directory_is_not_created_by_reading() {
    let place = Place::new();
    let db = place.db();
    for arguments in [
        &["get", &db, "k"][..],
        &["delete", &db, "k"],
        &["scan", &db],
        &["export", &db],
        &["stats", &db],
        &["verify", &db],
        &["families", &db],
        &["shell", &db, "--read-only"],
    ] {
        let ran = run_badly(arguments, "");
        assert!(ran.stderr.contains("hint: "), "{arguments:?}: {ran:?}");
        assert!(!place.path("db").exists(), "{arguments:?}");
    }
}

#[test]
fn a_file_in_the_place_of_the_directory_is_left_alone() {
    let place = Place::new();
    let file = place.file("db", "not a database");
    for arguments in [
        &["put", &file, "k", "v"][..],
        &["get", &file, "k"],
        &["verify", &file],
        &["import", &file, &sample()],
        &["shell", &file],
    ] {
        run_badly(arguments, "");
    }
    assert_eq!(
        fs::read(place.path("db")).expect("it is there"),
        b"not a database"
    );
}

#[test]
fn a_directory_with_other_files_is_no_database() {
    let place = Place::new();
    fs::create_dir(place.path("db")).expect("folder");
    place.file("db/letter.txt", "dear reader");
    run_badly(&["get", &place.db(), "k"], "");
    assert_eq!(fs::read_dir(place.path("db")).expect("folder").count(), 1);
}

#[test]
fn a_place_where_nothing_can_be_created_is_an_error() {
    let ran = run_badly(&["put", "/proc/self/kingtide-db", "k", "v"], "");
    assert!(ran.stderr.contains("hint: "), "{ran:?}");
}

/// Goal: a directory without write permission. Method: permissions; where they do not bind (the superuser), the
/// commands must work instead.
#[test]
fn a_read_only_directory_can_be_read_and_not_written() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "k", "v"]);
    let set_mode = |mode| {
        for entry in fs::read_dir(place.path("db")).expect("folder").flatten() {
            if entry.path().is_dir() {
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).expect("own");
            }
        }
        fs::set_permissions(place.path("db"), fs::Permissions::from_mode(mode)).expect("own");
    };
    set_mode(0o555);
    let probe = place.path("db/probe");
    let permissions_bind = fs::write(&probe, "").is_err();
    let _ = fs::remove_file(&probe);
    let read = run(&["get", &db, "k"]);
    let written = run(&["put", &db, "k", "w"]);
    set_mode(0o755);
    assert_eq!((read.code, read.text()), (0, "v\n"), "{read:?}");
    assert_eq!(
        written.code,
        if permissions_bind { 2 } else { 0 },
        "{written:?}"
    );
    assert!(!written.stderr.contains("panicked"), "{written:?}");
}

/// Goal: a second process is refused with a hint. Method: a shell that has answered once holds the database.
#[test]
fn a_database_in_use_is_refused_to_a_second_writer() {
    let place = Place::new();
    let db = place.db();
    let mut holder = command(&["shell", &db])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the binary");
    let mut stdin = holder.stdin.take().expect("it is piped");
    let mut stdout = BufReader::new(holder.stdout.take().expect("it is piped"));
    stdin.write_all(b"get k\n").expect("it reads");
    let mut answer = String::new();
    stdout.read_line(&mut answer).expect("it answers");
    assert_eq!(answer, "(not found)\n");
    for arguments in [
        &["put", &db, "k", "v"][..],
        &["delete", &db, "k"],
        &["import", &db, &sample()],
        &["shell", &db],
    ] {
        let ran = run_badly(arguments, "hint: close the program");
        let last = ran.stderr.lines().count();
        assert_eq!(last, 2, "{ran:?}");
    }
    let ran = run(&["put", &db, "k", "v", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect("one object");
    assert_eq!(
        (ran.code, &error["error"]["kind"]),
        (2, &"Locked".into()),
        "{ran:?}"
    );
    drop(stdin);
    assert!(holder.wait().expect("it ends").success());
    run_well(&["put", &db, "k", "v"]);
}

#[test]
fn damage_is_found_reported_and_exit_code_two() {
    let place = Place::new();
    let db = place.db();
    run_well(&["import", &db, &sample()]);
    // Every stored file has one byte changed, so whatever verify reads first is damaged.
    for folder in ["klog", "vlog", "wal"] {
        for entry in fs::read_dir(place.path("db").join(folder))
            .into_iter()
            .flatten()
            .flatten()
        {
            let mut bytes = fs::read(entry.path()).expect("readable");
            if bytes.len() > 200 {
                bytes[100] ^= 0x40;
                fs::write(entry.path(), bytes).expect("writable");
            }
        }
    }
    let ran = run(&["verify", &db]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.starts_with("kingtide: "), "{ran:?}");
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    let ran = run(&["verify", &db, "--json"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect("one object");
    assert_eq!(error["error"]["kind"], "Corruption");
}

#[test]
fn arguments_that_do_not_parse_are_usage_errors() {
    let place = Place::new();
    let db = place.db();
    run_badly(&["nonsense"], "nonsense");
    run_badly(&[], "a command is missing");
    run_badly(&["get", &db], "KEY");
    run_badly(&["scan", &db, "--limit", "-1"], "-1");
    run_badly(
        &["scan", &db, "--limit", "99999999999999999999999"],
        "--limit",
    );
    run_badly(&["import", &db, "x.csv", "--batch", "0"], "--batch");
    run_badly(&["completions", "tcsh-ish"], "tcsh-ish");
    let ran = run(&["--json", "get", &db]);
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect("one object");
    assert_eq!(
        (ran.code, &error["error"]["kind"]),
        (2, &"Usage".into()),
        "{ran:?}"
    );
    assert!(!place.path("db").exists());
}

// Promise: limits.
#[test]
fn keys_the_engine_refuses_are_errors() {
    let place = Place::new();
    let db = place.db();
    run_badly(&["put", &db, "", "v"], "");
    run_badly(&["put", &db, "k", "v", "--family", ""], "");
    run_badly(&["put", &db, "k", "v", "--family", &"f".repeat(1000)], "");
}

/// Goal: `kingtide scan DIR | head` is a success. Method: read one line and close the pipe; the output is larger than
/// any pipe's buffer.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let db = place.db();
    let mut csv = String::from("key,value\n");
    for number in 0..2000 {
        csv.push_str(&format!("{number:06},{}\n", "x".repeat(1000)));
    }
    run_well(&["import", &db, &place.file("in.csv", csv)]);
    for arguments in [
        &["scan", &db][..],
        &["export", &db],
        &["scan", &db, "--json"],
    ] {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the binary");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("it prints");
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .expect("it is piped")
            .read_to_string(&mut stderr)
            .expect("UTF-8");
        let status = child.wait().expect("it ends");
        assert_eq!((status.code(), &stderr[..]), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_full_device_behind_standard_output_is_an_error() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "k", "v"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    let output = command(&["get", &db, "k"])
        .stdout(full.expect("Linux has it"))
        .output()
        .expect("start the binary");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("standard output"), "{stderr}");
}
