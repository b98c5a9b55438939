//! What the database tells of itself.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kingtide::{
    ColumnFamily, Db, Event, FamilyOptions, Listener, LogLevel, LogOptions, Options, SyncMode,
};
use kingtide_env::{Fault, FaultyEnv, MemoryEnv, Operation, Rule, Times};

#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl Recorder {
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Listener for Recorder {
    fn event(&self, _unix_micros: u64, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn options(env: &MemoryEnv, recorder: &Arc<Recorder>) -> Options {
    Options {
        listener: Some(Arc::clone(recorder) as _),
        log: LogOptions {
            to_file: true,
            level: LogLevel::Debug,
            ..LogOptions::default()
        },
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    }
}

/// A database whose calls can be made to fail, and a family `tides` with a small write buffer.
fn faulty(seed: u64, recorder: &Arc<Recorder>) -> (FaultyEnv, Db, ColumnFamily) {
    let memory = MemoryEnv::new(seed);
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    let options = Options {
        env: Some(Arc::new(env.clone())),
        ..options(&memory, recorder)
    };
    let db = Db::open("/db", options).unwrap();
    let small = FamilyOptions {
        write_buffer_bytes: 8 << 10,
        sync: SyncMode::None,
        ..FamilyOptions::default()
    };
    let family = db.create_family("tides", small).unwrap();
    (env, db, family)
}

fn position(events: &[Event], is_wanted: impl Fn(&Event) -> bool) -> usize {
    events
        .iter()
        .position(is_wanted)
        .unwrap_or_else(|| panic!("not told: {events:#?}"))
}

/// Goal: an opening tells of its beginning, its work and its end in order, and the file has the same as lines without
/// keys and values. Method: one flush, one merge, one checkpoint, one line of the program.
#[test]
fn an_opening_tells_what_it_does() {
    let env = MemoryEnv::new(1);
    let recorder = Arc::new(Recorder::default());
    let db = Db::open("/db", options(&env, &recorder)).unwrap();
    let family = db.create_family("tides", FamilyOptions::default()).unwrap();
    for _ in 0..2 {
        db.put(&family, b"secret key", &[b'x'; 600]).unwrap();
        db.flush(&family).unwrap();
    }
    db.compact(&family).unwrap();
    db.checkpoint("/copy").unwrap();
    db.log(LogLevel::Warn, "the tide\nis high");
    db.close().unwrap();
    db.log(LogLevel::Warn, "too late");
    let events = recorder.take();
    let expected: [&dyn Fn(&Event) -> bool; 8] = [
        &|event| {
            matches!(
                event,
                Event::Opened {
                    families: 0,
                    recovered_tables: 0,
                    ..
                }
            )
        },
        &|event| matches!(event, Event::MemtableSealed { family, .. } if family == "tides"),
        &|event| matches!(event, Event::FlushBegin { bytes, .. } if *bytes > 600),
        &|event| matches!(event, Event::FlushEnd { tables: 1, .. }),
        &|event| matches!(event, Event::MergeBegin { tables: 2, .. }),
        &|event| matches!(event, Event::MergeEnd { tables: 1, .. }),
        &|event| matches!(event, Event::CopyMade { .. }),
        &|event| matches!(event, Event::Closed { failure: None }),
    ];
    let places: Vec<usize> = expected
        .iter()
        .map(|is_wanted| position(&events, is_wanted))
        .collect();
    assert!(places.is_sorted(), "{places:?}: {events:#?}");
    position(
        &events,
        |event| matches!(event, Event::FileRemoved { file } if file.starts_with("klog/")),
    );
    assert!(matches!(events.last(), Some(Event::Closed { .. })));

    let log = String::from_utf8(env.read_file("/db/LOG").unwrap()).unwrap();
    assert_eq!(log.lines().count(), events.len(), "{log}");
    assert!(log.contains("WARN  the tide is high\n"), "{log}");
    assert!(!log.contains("secret") && !log.contains("xxxx"), "{log}");

    // The next opening goes on in the same file; a reader leaves it alone.
    env.advance(std::time::Duration::from_secs(1));
    let reader = Options {
        read_only: true,
        ..options(&env, &recorder)
    };
    Db::open("/db", reader).unwrap().close().unwrap();
    assert_eq!(env.read_file("/db/LOG").unwrap(), log.as_bytes());
    assert!(matches!(
        recorder.take().first(),
        Some(Event::Opened {
            is_read_only: true,
            tables: 1,
            ..
        })
    ));
    drop(Db::open("/db", options(&env, &recorder)).unwrap());
    let longer = env.read_file("/db/LOG").unwrap();
    assert!(longer.starts_with(log.as_bytes()) && longer.len() > log.len());
}

/// Goal: failures are told. Method: a flush that fails once, then a sync of the log that fails.
#[test]
fn failures_are_told() {
    let recorder = Arc::new(Recorder::default());
    let (env, db, family) = faulty(2, &recorder);
    let fail = |operation, name: &str| {
        env.fail(Rule {
            operation,
            name_contains: name.to_owned(),
            nth: 1,
            error: io::ErrorKind::Other,
            times: Times::Once,
        });
    };
    fail(Operation::Create, ".klog");
    for number in 0..100_u32 {
        db.put(&family, &number.to_be_bytes(), &[0; 100]).unwrap();
    }
    while db.wait_idle().is_err() {}
    fail(Operation::Sync, ".wal");
    assert!(db.sync_wal().is_err());
    assert!(db.close().is_err());
    let events = recorder.take();
    let places = [
        position(&events, |event| {
            matches!(event, Event::BackgroundError { work: "flush", .. })
        }),
        position(&events, |event| matches!(event, Event::FlushEnd { .. })),
        position(&events, |event| {
            matches!(event, Event::LogSyncFailed { .. })
        }),
        position(&events, |event| {
            matches!(event, Event::Closed { failure: Some(_) })
        }),
    ];
    assert!(places.is_sorted(), "{events:#?}");
}

/// Goal: a writer that waits for a flush is told of with its family, and so is the end of its wait. Method: no table can be
/// written until a write fails.
#[test]
fn a_writer_that_waits_is_told() {
    let recorder = Arc::new(Recorder::default());
    let (env, db, family) = faulty(5, &recorder);
    env.fail(Rule {
        operation: Operation::Create,
        name_contains: ".klog".to_owned(),
        nth: 1,
        error: io::ErrorKind::Other,
        times: Times::Forever,
    });
    let mut numbers = 0..100_000_u32;
    let refused = numbers.any(|number| {
        let outcome = db.put(&family, &number.to_be_bytes(), &[0; 100]);
        outcome.is_err()
    });
    assert!(refused, "10 MB do not fit into a write buffer of 8 KiB");
    env.clear();
    while db.wait_idle().is_err() {}
    db.close().unwrap();
    let events = recorder.take();
    let begun = position(
        &events,
        |event| matches!(event, Event::StallBegin { family } if family == "tides"),
    );
    let ended = position(
        &events,
        |event| matches!(event, Event::StallEnd { family, .. } if family == "tides"),
    );
    assert!(begun < ended, "{events:#?}");
}

/// Goal: a sync of the log that takes more than a second is told as a slow one, with its time, and others are not. Method:
/// the clock moves on by two seconds inside one sync.
#[test]
fn a_slow_sync_of_the_log_is_told() {
    let memory = MemoryEnv::new(6);
    let is_slow = Arc::new(AtomicBool::new(false));
    let judge = {
        let (memory, is_slow) = (memory.clone(), Arc::clone(&is_slow));
        move |operation: Operation| -> io::Result<Option<Fault>> {
            if operation == Operation::Sync && is_slow.load(Ordering::SeqCst) {
                memory.advance(Duration::from_secs(2));
            }
            Ok(None)
        }
    };
    let env = FaultyEnv::judged_by(Arc::new(memory.clone()), Arc::new(judge));
    let recorder = Arc::new(Recorder::default());
    let options = Options {
        env: Some(Arc::new(env)),
        ..options(&memory, &recorder)
    };
    let db = Db::open("/db", options).unwrap();
    let family = FamilyOptions {
        sync: SyncMode::Full,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", family).unwrap();
    db.put(&family, b"quick", b"v").unwrap();
    is_slow.store(true, Ordering::SeqCst);
    db.put(&family, b"slow", b"v").unwrap();
    is_slow.store(false, Ordering::SeqCst);
    db.put(&family, b"quick again", b"v").unwrap();
    db.close().unwrap();
    let events = recorder.take();
    let mut slow = events.iter().filter_map(|event| match event {
        Event::LogSyncSlow { micros } => Some(*micros),
        _ => None,
    });
    assert!(
        slow.next().is_some_and(|micros| micros >= 2_000_000),
        "{events:#?}"
    );
    let quick = position(&events, |event| matches!(event, Event::LogSynced { .. }));
    let slow = position(&events, |event| matches!(event, Event::LogSyncSlow { .. }));
    assert!(quick < slow, "{events:#?}");
}

/// Calls the database from inside an event, and lets go of it.
struct Caller {
    db: Mutex<Option<Db>>,
    closed: Mutex<std::sync::mpsc::Sender<()>>,
}

impl Listener for Caller {
    fn event(&self, _unix_micros: u64, event: &Event) {
        if !matches!(event, Event::Message { .. }) {
            return;
        }
        let db = self.db.lock().unwrap().take().unwrap();
        let family = db.family("f").unwrap();
        db.put(&family, b"from", b"the listener").unwrap();
        db.flush(&family).unwrap();
        db.close().unwrap();
        self.closed.lock().unwrap().send(()).unwrap();
    }
}

/// Goal: a listener may call everything, also the close, which ends its own thread. Method: it does.
#[test]
fn a_listener_may_use_and_close_the_database() {
    let env = MemoryEnv::new(3);
    let (closed, is_closed) = std::sync::mpsc::channel();
    let caller = Arc::new(Caller {
        db: Mutex::new(None),
        closed: Mutex::new(closed),
    });
    let options = Options {
        listener: Some(Arc::clone(&caller) as _),
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    };
    let db = Db::open("/db", options).unwrap();
    db.create_family("f", FamilyOptions::default()).unwrap();
    *caller.db.lock().unwrap() = Some(db.clone());
    db.log(LogLevel::Info, "go");
    is_closed.recv().unwrap();
    drop(db);
    let plain = Options {
        env: Some(Arc::new(env)),
        ..Options::default()
    };
    let db = Db::open("/db", plain).unwrap();
    let family = db.family("f").unwrap();
    assert_eq!(db.get(&family, b"from").unwrap().unwrap(), b"the listener");
}
