use std::{collections::HashMap, path::Path, sync::Arc};

use kingtide_env::{Env, FaultyEnv, MemoryEnv, Operation, Rule, Times};
use serde_json::Value;

use super::*;
use crate::{Db, FamilyOptions, Options, SyncMode};

/// The lines of a trace that ends early: all but the last bracket.
fn parse_cut(text: &str) -> Vec<Value> {
    serde_json::from_str(&format!("{text}]")).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Every line that begins a span, paired with the one that ends it by the rule of the format: the next end of the thread
/// that is not the end of a span within. Panics when one has no partner, or ends before it begins.
fn spans(lines: &[Value]) -> Vec<(&Value, &Value)> {
    let mut open: HashMap<u64, Vec<&Value>> = HashMap::new();
    let mut spans = Vec::new();
    for line in lines {
        let stack = open.entry(line["tid"].as_u64().unwrap()).or_default();
        match line["ph"].as_str().unwrap() {
            "B" => stack.push(line),
            "E" => {
                let begun = stack.pop().unwrap_or_else(|| panic!("never begun: {line}"));
                assert_eq!(begun["name"], line["name"]);
                assert!(begun["ts"].as_f64() <= line["ts"].as_f64());
                spans.push((begun, line));
            }
            _ => {}
        }
    }
    let left: Vec<_> = open.values().flatten().collect();
    assert!(left.is_empty(), "never ended: {left:?}");
    spans
}

fn named<'a>(lines: &'a [Value], phase: &str, name: &str) -> Vec<&'a Value> {
    let is = |line: &&Value| line["ph"] == phase && line["name"] == name;
    lines.iter().filter(is).collect()
}

/// Goal: a trace of real work has spans for flushes, merges and syncs on named threads, is one JSON array when the
/// database is closed, and readable wherever a crash ends it. Method: work by a writer and in the background.
#[test]
fn work_becomes_spans_and_every_prefix_is_readable() {
    let env = MemoryEnv::new(1);
    env.open_directory(Path::new("/traces"), true).unwrap();
    let options = Options {
        trace: Some("/traces/one.json".into()),
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    };
    let db = Db::open("/db", options.clone()).unwrap();
    let settings = FamilyOptions {
        write_buffer_bytes: 16 << 10,
        sync: SyncMode::Full,
        ..FamilyOptions::default()
    };
    let family = db
        .create_family("the \"tides\" <\u{e9}>", settings)
        .unwrap();
    for number in 0..300_u32 {
        db.put(&family, &number.to_be_bytes(), &[7; 500]).unwrap();
    }
    db.flush(&family).unwrap();
    db.compact(&family).unwrap();
    db.log(LogLevel::Info, "line\nend \u{7} \u{9b} \u{1f30a}");
    db.close().unwrap();

    let text = String::from_utf8(env.read_file("/traces/one.json").unwrap()).unwrap();
    let lines: Vec<Value> = serde_json::from_str(&text).unwrap();
    let spans = spans(&lines);
    for wanted in ["flush", "merge"] {
        let (begun, ended) = spans
            .iter()
            .find(|(begun, _)| begun["name"] == wanted)
            .unwrap_or_else(|| panic!("no {wanted}: {text}"));
        assert_eq!(begun["args"]["family"], "the \"tides\" <\u{e9}>");
        assert!(ended["args"]["bytes"].as_u64() > Some(0));
    }
    let syncs = named(&lines, "X", "sync");
    assert!(!syncs.is_empty());
    assert!(syncs.iter().all(|sync| sync["dur"].is_u64()));
    assert_eq!(
        named(&lines, "i", "message")[0]["args"]["event"],
        "line\nend \u{7} \u{9b} \u{1f30a}"
    );
    let threads = named(&lines, "M", "thread_name");
    let names: Vec<_> = threads
        .iter()
        .map(|line| line["args"]["name"].as_str())
        .collect();
    assert!(
        names.iter().any(|name| name.unwrap().starts_with("kt-")),
        "{names:?}"
    );
    for thread in lines.iter().filter(|line| line["ph"] != "M") {
        let number = &thread["tid"];
        assert!(
            threads.iter().any(|line| line["tid"] == *number),
            "{thread}"
        );
    }
    let mut cut = 0;
    for (end, _) in text.match_indices(",\n") {
        assert_eq!(parse_cut(&text[..end]).len(), cut + 1);
        cut += 1;
    }
    assert_eq!(cut + 1, lines.len());

    // The next opening begins a new one in its place.
    Db::open("/db", options).unwrap().close().unwrap();
    let again = String::from_utf8(env.read_file("/traces/one.json").unwrap()).unwrap();
    let again: Vec<Value> = serde_json::from_str(&again).unwrap();
    assert!(again.len() < lines.len() && named(&again, "i", "closed").len() == 1);
}

/// Goal: whatever was lost, spans have a begin and an end. Method: a listener holds the queue up until it overflows with
/// begins and ends of several threads, chosen so that begins and ends are missing.
#[test]
fn spans_are_closed_when_events_are_lost() {
    struct Gate(std::sync::Mutex<Option<std::sync::mpsc::Receiver<()>>>);
    impl Listener for Gate {
        fn event(&self, _unix_micros: u64, _event: &Event) {
            if let Some(gate) = self.0.lock().unwrap().take() {
                gate.recv().unwrap();
            }
        }
    }
    let memory = MemoryEnv::new(2);
    let env: Arc<dyn Env> = Arc::new(memory.clone());
    env.open_directory(Path::new("/traces"), true).unwrap();
    let (open, gate) = std::sync::mpsc::channel();
    let audience = Audience {
        listener: Some(Arc::new(Gate(std::sync::Mutex::new(Some(gate))))),
        log: None,
        trace: Some(TraceFile::create(&env, Path::new("/traces/lost.json")).unwrap()),
    };
    let events = Events::start(&env, audience).unwrap();
    let family = || "f".to_owned();
    let flush_end = || Event::FlushEnd {
        family: family(),
        tables: 1,
        bytes: 2,
        micros: 3,
    };
    // An end that never began.
    events.emit(flush_end);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3000 {
                    events.emit(|| Event::FlushBegin {
                        family: family(),
                        bytes: 1,
                    });
                    events.emit(|| Event::StallBegin { family: family() });
                    events.emit(|| Event::StallEnd {
                        family: family(),
                        micros: 1,
                    });
                    events.emit(flush_end);
                    // Only told while there is room.
                    events.emit_frequent(|| Event::LogSynced { micros: 1 });
                }
            });
        }
    });
    open.send(()).unwrap();
    events.stop();
    let text = String::from_utf8(memory.read_file("/traces/lost.json").unwrap()).unwrap();
    let lines: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(spans(&lines).len() > 100);
    assert!(!named(&lines, "i", "events lost").is_empty());
    assert!(named(&lines, "X", "sync").len() < 6000);
}

/// Goal: a trace that cannot be written harms nothing, and one that cannot be begun is told. Method: failing writes, and
/// impossible paths.
#[test]
fn a_trace_that_fails_harms_nothing() {
    let memory = MemoryEnv::new(3);
    memory.open_directory(Path::new("/traces"), true).unwrap();
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    env.fail(Rule {
        operation: Operation::Write,
        name_contains: "t.json".to_owned(),
        nth: 1,
        error: std::io::ErrorKind::StorageFull,
        times: Times::Forever,
    });
    let options = |path: &str| Options {
        trace: Some(path.into()),
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    };
    let db = Db::open("/db", options("/traces/t.json")).unwrap();
    let family = db.create_family("f", FamilyOptions::default()).unwrap();
    db.put(&family, b"k", b"v").unwrap();
    db.flush(&family).unwrap();
    db.close().unwrap();
    assert_eq!(memory.read_file("/traces/t.json").unwrap(), b"");
    for path in ["/nowhere/t.json", "/", "/traces/.."] {
        let error = Db::open("/db", options(path)).map(drop).unwrap_err();
        assert!(error.to_string().contains("trace"), "{error}");
    }
    Db::open("/db", options("/traces/u.json"))
        .unwrap()
        .close()
        .unwrap();
}
