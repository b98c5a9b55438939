//! bench: runs that do not come to their end.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use kingtide_bench::Row;

use crate::harness::{Place, Ran, command};

/// The program that stands in for an engine, as an engine that is a crate.
fn engine() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/engine.sh");
    format!("fjall={}", path.display())
}

/// What stands in the page before a benchmark begins.
const OLDER: &str = "an older page";

/// Starts a benchmark with all its files in `place`, in a group of its own; `end` is how the engine of [`engine`] ends.
fn start(place: &Place, arguments: &[&str], end: &str) -> Child {
    fs::create_dir_all(place.path("db")).expect("directory");
    fs::write(place.path("html"), OLDER).expect("file");
    let mut command = command(&["bench", "--db", &place.db()]);
    for file in ["csv", "jsonl", "report", "html"] {
        command.args([format!("--{file}"), place.argument(file)]);
    }
    command
        .args(arguments)
        .env("MARK", place.path("mark"))
        .env("ENGINE_END", end)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the binary")
}

/// Waits until `is_there`, however long it takes, as long as the benchmark runs.
fn wait_until(child: &mut Child, is_there: impl Fn() -> bool) {
    while !is_there() {
        let ended = child.try_wait().expect("it is a child");
        assert!(ended.is_none(), "{ended:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn send(signal: &str, to: &str) {
    let status = Command::new("kill")
        .args(["-s", signal, "--", to])
        .status()
        .expect("kill");
    assert!(status.success(), "{status}");
}

fn finish(child: Child) -> Ran {
    Ran::of(child.wait_with_output().expect("wait for the binary"))
}

fn rows(place: &Place) -> Vec<Row> {
    let rows = Row::read_file(&place.path("csv")).expect("rows");
    let same = Row::read_file(&place.path("jsonl")).expect("rows");
    assert_eq!(rows.len(), same.len(), "{rows:?}");
    rows
}

fn state(row: &Row) -> (&str, &str, u64, &str) {
    let status = row.status.name();
    (&row.engine, status, row.operations_done, &row.error)
}

/// Which of the files that hold unfinished results are there.
fn partial_files(place: &Place) -> Vec<&'static str> {
    let mut files = vec!["csv", "jsonl", "report", "html"];
    files.retain(|file| place.path(&format!("{file}.partial")).exists());
    files
}

fn page(place: &Place) -> String {
    fs::read_to_string(place.path("html")).expect("page")
}

/// Whether the directory of a run, or only the one around it, is there.
fn has_databases(place: &Place, of_run: bool) -> bool {
    let mut folders = fs::read_dir(place.path("db"))
        .expect("directory")
        .map(|entry| entry.expect("entry").path());
    let entries = |folder: &Path| fs::read_dir(folder).is_ok_and(|mut all| all.next().is_some());
    folders.any(|folder| !of_run || entries(&folder))
}

/// Goal: an interruption keeps what was done, says that it is not all, and takes no older file's place. Method: two rounds of
/// an engine that comes to its end and of one that does not, and a signal to the benchmark alone.
#[test]
fn an_interrupted_run_keeps_what_is_done() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let place = Place::new();
        let engines = format!("kingtide,{}", engine());
        let arguments = ["write", "-n", "500", "--rounds", "2", "--engine", &engines];
        let mut child = start(&place, &arguments, "");
        wait_until(&mut child, || place.path("mark").exists());
        assert_eq!(page(&place), OLDER);
        assert_eq!(partial_files(&place).len(), 4);
        send(signal, &child.id().to_string());
        let ran = finish(child);
        assert_eq!(ran.code, code, "{ran:?}");
        let remark = "interrupted: 1 of 4 runs were done";
        let told = ran.stderr.lines().filter(|line| line.contains(remark));
        assert_eq!(told.count(), 1, "{ran:?}");
        assert!(ran.text().starts_with(remark), "{ran:?}");
        let rows = rows(&place);
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!(state(&rows[0]), ("kingtide", "ok", 500, ""));
        assert_eq!(state(&rows[1]), ("fjall", "partial", 123, "interrupted"));
        for file in ["report", "html.partial"] {
            let text = fs::read_to_string(place.path(file)).expect("file");
            assert!(text.contains(remark), "{file}: {text}");
        }
        assert_eq!(page(&place), OLDER);
        assert_eq!(
            partial_files(&place),
            ["html"],
            "the others replace nothing"
        );
        assert!(ran.stderr.contains("html stays as it was"), "{ran:?}");
        assert!(!has_databases(&place, false), "nothing is left");
    }
}

/// Goal: the same when the engine's process gets the signal too, as at a terminal. Method: a run that would last for hours, and
/// a signal to its group once there is the directory of a database.
#[test]
fn an_interruption_at_a_terminal_is_no_crash() {
    let place = Place::new();
    let mut child = start(&place, &["write", "--seconds", "9999", "-n", "100"], "");
    wait_until(&mut child, || has_databases(&place, true));
    send("INT", &format!("-{}", child.id()));
    let ran = finish(child);
    assert_eq!(ran.code, 130, "{ran:?}");
    let rows = rows(&place);
    assert_eq!(rows.len(), 1, "{rows:?}");
    let (engine, status, _, error) = state(&rows[0]);
    assert_eq!(
        (engine, status, error),
        ("kingtide", "partial", "interrupted")
    );
    assert_eq!(page(&place), OLDER);
    assert!(ran.stderr.contains("html stays as it was"), "{ran:?}");
    let beside = fs::read_to_string(place.path("html.partial")).expect("page");
    assert!(beside.contains("0 of 1 runs were done"), "{beside}");
    assert_eq!(
        partial_files(&place),
        ["html"],
        "the others replace nothing"
    );
    assert!(!has_databases(&place, false), "nothing is left");
}

/// Goal: what is done is there after the benchmark itself has died, and older results too. Method: kills it and its engine in
/// the second of two runs.
#[test]
fn a_killed_benchmark_leaves_what_is_done_beside_older_results() {
    let place = Place::new();
    let engines = format!("kingtide,{}", engine());
    let mut child = start(&place, &["write", "-n", "500", "--engine", &engines], "");
    wait_until(&mut child, || place.path("mark").exists());
    send("KILL", &format!("-{}", child.id()));
    finish(child);
    assert_eq!(page(&place), OLDER);
    assert!(!place.path("csv").exists());
    for file in ["csv.partial", "jsonl.partial"] {
        let rows = Row::read_file(&place.path(file)).expect("rows");
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(state(&rows[0]), ("kingtide", "ok", 500, ""));
    }
}

/// Goal: an engine that hangs costs no more than the time limit, is told like one that crashes, and what comes after it is
/// run. Method: one that hangs in its first step, and one that is not there, so that nothing need be done in time.
#[test]
fn a_time_limit_ends_an_engine_that_hangs_and_the_next_has_its_turn() {
    let place = Place::new();
    let engines = format!("{},lmdb=/nowhere/liblmdb.so", engine());
    let arguments = [
        "read",
        "-n",
        "500",
        "--time-limit",
        "0.5",
        "--engine",
        &engines,
    ];
    let ran = finish(start(&place, &arguments, ""));
    assert_eq!(ran.code, 2, "{ran:?}");
    let why = "the process that ran fjall did not finish within 0.5 s";
    assert!(ran.text().contains(why), "{ran:?}");
    let rows = rows(&place);
    assert_eq!(rows.len(), 3, "{rows:?}");
    // What it had done when its time was up depends on the machine.
    let (engine, status, done, error) = state(&rows[0]);
    assert_eq!((engine, error), ("fjall", why));
    let expected = if done > 0 { "partial" } else { "failed" };
    assert_eq!(status, expected, "{rows:?}");
    assert_eq!(state(&rows[1]), ("fjall", "failed", 0, why));
    assert_eq!(
        (&*rows[2].engine, rows[2].status.name()),
        ("lmdb", "failed")
    );
    assert!(!has_databases(&place, false), "nothing is left");
}

/// Goal: what an engine did before it crashed is told, and what it prints breaks nothing.
#[test]
fn a_crash_in_the_middle_keeps_what_was_done() {
    let place = Place::new();
    let arguments = ["read", "-n", "500", "--engine", &engine()];
    let ran = finish(start(&place, &arguments, "crash"));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("half a line of an engine"), "{ran:?}");
    let rows = rows(&place);
    assert_eq!(rows.len(), 2, "{rows:?}");
    let why = "the process that ran fjall ended without a report (signal: 9 (SIGKILL))";
    assert_eq!(state(&rows[0]), ("fjall", "partial", 123, why));
    assert_eq!(state(&rows[1]), ("fjall", "failed", 0, why));
}
