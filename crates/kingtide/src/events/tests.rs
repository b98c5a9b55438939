use std::{
    path::Path,
    sync::{
        Mutex,
        mpsc::{Receiver, Sender, channel},
    },
};

use kingtide_env::{Env, MemoryEnv};

use super::{text::Utc, *};
use std::sync::Arc;

fn message(text: &str) -> Event {
    Event::Message {
        level: LogLevel::Info,
        text: text.to_owned(),
    }
}

/// Sends every event on; waits before the first one until it is told to go on, and panics where it is told to.
struct Recorder {
    events: Mutex<Sender<Event>>,
    gate: Mutex<Option<Receiver<()>>>,
}

impl Listener for Recorder {
    fn event(&self, _unix_micros: u64, event: &Event) {
        let gate = self.gate.lock().unwrap().take();
        if let Some(gate) = gate {
            gate.recv().unwrap();
        }
        assert_ne!(*event, message("panic"));
        self.events.lock().unwrap().send(event.clone()).unwrap();
    }
}

fn recorder(gate: Option<Receiver<()>>) -> (Arc<Recorder>, Receiver<Event>) {
    let (sender, events) = channel();
    let recorder = Recorder {
        events: Mutex::new(sender),
        gate: Mutex::new(gate),
    };
    (Arc::new(recorder), events)
}

fn start(listener: Arc<Recorder>) -> Arc<Events> {
    let env: Arc<dyn Env> = Arc::new(MemoryEnv::new(1));
    let audience = Audience {
        listener: Some(listener),
        log: None,
        trace: None,
    };
    Events::start(&env, audience).unwrap()
}

#[test]
fn moments_are_written_in_utc() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00"),
        (951_782_399, "2000-02-28T23:59:59"),
        (951_782_400, "2000-02-29T00:00:00"),
        (951_868_800, "2000-03-01T00:00:00"),
        (1_709_210_096, "2024-02-29T12:34:56"),
        (1_735_689_599, "2024-12-31T23:59:59"),
        (4_107_542_400, "2100-03-01T00:00:00"),
    ] {
        let written = Utc(seconds * 1_000_000 + 42).to_string();
        assert_eq!(written, format!("{text}.000042Z"));
    }
}

/// Goal: events come in order, a panic of the listener harms nothing, and all is told when `stop` returns.
#[test]
fn events_are_told_in_order_and_panics_are_survived() {
    let (listener, events) = recorder(None);
    let queue = start(listener);
    for number in 0..100 {
        queue.emit(|| message(&number.to_string()));
        if number == 50 {
            queue.emit(|| message("panic"));
        }
    }
    queue.stop();
    queue.emit(|| message("too late"));
    let told: Vec<Event> = events.try_iter().collect();
    let expected: Vec<Event> = (0..100)
        .map(|number| message(&number.to_string()))
        .collect();
    assert_eq!(told, expected);
}

/// Goal: what a slow listener makes wait is bounded, and what is lost is counted. Method: the listener is held up.
#[test]
fn events_that_are_too_many_are_counted() {
    let (open, gate) = channel();
    let (listener, events) = recorder(Some(gate));
    let queue = start(listener);
    // More than twice what may wait: the first batch may be under way already.
    for number in 0..10_000 {
        queue.emit(|| message(&number.to_string()));
    }
    open.send(()).unwrap();
    queue.stop();
    let mut told = 0;
    let mut lost = 0;
    for event in events.try_iter() {
        match event {
            Event::Lost { count } => lost += count,
            _ => told += 1,
        }
    }
    assert!(lost > 0);
    assert_eq!(told + lost, 10_000);
}

#[test]
fn nothing_is_made_when_nobody_listens() {
    let events = Events::disabled();
    events.emit(|| panic!("nobody wants to know"));
    events.stop();
}

/// Goal: the file goes on where it ended, begins anew at its limit and keeps one old one; an event is one line.
#[test]
fn the_log_file_turns_over() {
    let env = MemoryEnv::new(2);
    let directory = || env.open_directory(Path::new("/db"), true).unwrap();
    let options = LogOptions {
        to_file: true,
        level: LogLevel::Info,
        truncate_bytes: 200,
    };
    let read = |name: &str| {
        let bytes = env.read_file(Path::new("/db").join(name)).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let mut log = LogFile::open(directory(), options);
    log.write(0, &message("first\nline"));
    let debug = Event::FileRemoved {
        file: "klog/1".to_owned(),
    };
    log.write(0, &debug);
    drop(log);
    let mut log = LogFile::open(directory(), options);
    log.write(1, &message("second"));
    assert_eq!(
        read("LOG"),
        "1970-01-01T00:00:00.000000Z INFO  first line\n1970-01-01T00:00:00.000001Z INFO  second\n"
    );
    for number in 0..20 {
        log.write(2, &message(&format!("number {number}")));
        assert!(read("LOG").len() <= 200);
    }
    assert!(read("LOG").ends_with("number 19\n"));
    assert!(!read("LOG.old").is_empty());
}
