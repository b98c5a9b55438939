//! One run in a process of its own, so that the memory and the caches of two engines never mix.
//!
//! The parent starts its own executable with a hidden subcommand and a socket as its standard input. It writes the settings
//! as one line of JSON and reads lines of JSON: what happens, each step's report as soon as it is over, and at the end what
//! is known after closing, or why it did not come to that. What an engine prints, on standard output or standard error, goes
//! to the parent's standard error.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::Shutdown,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::{Child, Command, ExitStatus},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{BenchError, Event, Open, Result, RunEnd, Settings, run_with};

/// Settings are small; more than this is not ours.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;
/// How often the parent looks whether it has been interrupted, or the time is up.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// How often the parent looks whether a child that has told everything has ended.
const END_PERIOD: Duration = Duration::from_millis(5);
/// After so long without anything new the parent tells it.
const SILENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Event(Event),
    End(Box<RunEnd>),
    Missing(String),
    Settings(String),
    Failed(String),
}

/// Runs `settings` in a child: `executable` with the argument `subcommand`, which must call [`serve`]. `on_event` is told
/// what the child tells. When `interrupted` becomes true, or [`Settings::time_limit_seconds`] have gone by, the child is
/// ended.
///
/// # Errors
/// What the child reports, [`BenchError::Child`] when it ended without saying why or did not end in time, or
/// [`BenchError::Interrupted`]. Reports of steps that came before have been told.
pub fn run_in_child(
    executable: &Path,
    subcommand: &str,
    settings: &Settings,
    interrupted: &AtomicBool,
    on_event: &mut dyn FnMut(Event),
) -> Result<RunEnd> {
    settings.check()?;
    let request = serde_json::to_string(settings)
        .map_err(|source| BenchError::Settings(source.to_string()))?;
    let (mut socket, of_child) = sockets().map_err(BenchError::io("make a pair of sockets"))?;
    let child = Command::new(executable)
        .arg(subcommand)
        .stdin(OwnedFd::from(of_child))
        .stdout(io::stderr())
        .spawn()
        .map_err(BenchError::io(format!("start {}", executable.display())))?;
    let mut child = Reaped(child);
    // Fails only for a child that has ended, which is told below.
    let _ = writeln!(socket, "{request}").and_then(|()| socket.shutdown(Shutdown::Write));
    let mut listener = Listener {
        settings,
        started: Instant::now(),
        interrupted,
        silence: SILENCE,
        on_event,
    };
    let end = listener.listen(BufReader::new(socket))?;
    match (end, listener.wait(&mut child.0)) {
        // Everything is known, however the child ends.
        (Some(end), Ok(_) | Err(BenchError::Interrupted)) => Ok(end),
        (_, Err(source)) => Err(source),
        // At a terminal the same key ends the child, perhaps before this process has noticed.
        (None, Ok(_)) if listener.is_interrupted() => Err(BenchError::Interrupted),
        (None, Ok(status)) => Err(BenchError::Child(format!(
            "the process that ran {} ended without a report ({status})",
            settings.engine.name()
        ))),
    }
}

/// The parent's and the child's.
fn sockets() -> io::Result<(UnixStream, UnixStream)> {
    let (socket, of_child) = UnixStream::pair()?;
    socket.set_read_timeout(Some(LOOK_PERIOD))?;
    Ok((socket, of_child))
}

/// A child that is ended when its parent stops waiting for it half-way.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // Both fail only for a child that has ended and been waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The parent's side.
struct Listener<'a> {
    settings: &'a Settings,
    started: Instant,
    interrupted: &'a AtomicBool,
    silence: Duration,
    on_event: &'a mut dyn FnMut(Event),
}

impl Listener<'_> {
    /// Reads to the last message; `None` when there is none. Reading may time out.
    fn listen(&mut self, mut input: impl BufRead) -> Result<Option<RunEnd>> {
        let mut line = Vec::new();
        let mut last = None;
        let mut changed = Instant::now();
        let mut is_told = false;
        loop {
            match input.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {}
                // What the child was about to say when it ended is lost.
                Ok(_) => return Ok(None),
                // So ends a socket whose other side has not read everything.
                Err(source) if source.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(source) if is_timeout(&source) => {
                    // What came so far stays in the line. Events are further apart than this, so it comes to that.
                    self.look()?;
                    self.tell_silence(changed, &mut is_told);
                    continue;
                }
                Err(source) => {
                    return Err(BenchError::io("read from the benchmark process")(source));
                }
            }
            let event = match parse(&line)? {
                Message::Event(event) => event,
                Message::End(end) => return Ok(Some(*end)),
                Message::Missing(text) => return Err(BenchError::Missing(text)),
                Message::Settings(text) => return Err(BenchError::Settings(text)),
                Message::Failed(text) => return Err(BenchError::Engine(text)),
            };
            line.clear();
            // Progress is told again and again, whether or not there is any.
            if last.as_ref() == Some(&event) {
                self.tell_silence(changed, &mut is_told);
                continue;
            }
            changed = Instant::now();
            is_told = false;
            last = Some(event.clone());
            (self.on_event)(event);
        }
    }

    /// Waits until the child has ended by itself.
    fn wait(&self, child: &mut Child) -> Result<ExitStatus> {
        loop {
            let status = child.try_wait();
            let status = status.map_err(BenchError::io("wait for the benchmark process"))?;
            if let Some(status) = status {
                return Ok(status);
            }
            self.look()?;
            thread::sleep(END_PERIOD);
        }
    }

    fn is_interrupted(&self) -> bool {
        // Relaxed: the flag publishes nothing but itself.
        self.interrupted.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`BenchError::Interrupted`], or [`BenchError::Child`] when the time is up.
    fn look(&self) -> Result<()> {
        if self.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
        let limit = self.settings.time_limit_seconds;
        if limit > 0.0 && self.started.elapsed().as_secs_f64() >= limit {
            return Err(BenchError::Child(format!(
                "the process that ran {} did not finish within {limit} s",
                self.settings.engine.name()
            )));
        }
        Ok(())
    }

    /// Tells once when nothing has changed for too long.
    fn tell_silence(&mut self, changed: Instant, is_told: &mut bool) {
        if !*is_told && changed.elapsed() >= self.silence {
            *is_told = true;
            let seconds = self.silence.as_secs();
            (self.on_event)(Event::Silent { seconds });
        }
    }
}

fn is_timeout(source: &io::Error) -> bool {
    matches!(source.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn parse(line: &[u8]) -> Result<Message> {
    serde_json::from_slice(line).map_err(|source| {
        let text = String::from_utf8_lossy(line);
        BenchError::Child(format!("not a message: {text:?}: {source}"))
    })
}

/// The child's side: reads settings from the socket that is standard input, runs them with engines that `open` opens, and
/// writes messages to the socket.
///
/// # Errors
/// When there are no settings or the socket cannot be written; failures of the run itself are messages.
pub fn serve(open: Open) -> Result<()> {
    let socket = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(BenchError::io("use standard input as a socket"))?;
    let socket = File::from(socket);
    answer(open, &socket, &socket)
}

fn answer(open: Open, input: impl Read, mut output: impl Write) -> Result<()> {
    let mut request = String::new();
    BufReader::new(input.take(SETTINGS_BYTES_MAX))
        .read_line(&mut request)
        .map_err(BenchError::io("read the settings"))?;
    let settings: Settings = serde_json::from_str(&request)
        .map_err(|source| BenchError::Settings(format!("not settings: {source}")))?;
    let mut broken = None;
    let answer = run_with(&settings, open, &mut |event| {
        let sent = send(&mut output, &Message::Event(event));
        broken = sent.err().or(broken.take());
    });
    if let Some(source) = broken {
        return Err(source);
    }
    let message = match answer {
        Ok(end) => Message::End(Box::new(end)),
        Err(BenchError::Missing(text)) => Message::Missing(text),
        Err(BenchError::Settings(text)) => Message::Settings(text),
        Err(source) => Message::Failed(source.to_string()),
    };
    send(&mut output, &message)
}

fn send(output: &mut impl Write, message: &Message) -> Result<()> {
    let line = serde_json::to_string(message)
        .map_err(|source| BenchError::Child(format!("message: {source}")))?;
    writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .map_err(BenchError::io("write to the parent process"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{EngineKind, Step, Workload, engines};

    /// What comes of the messages in `input`.
    fn listen(input: &[u8], on_event: &mut dyn FnMut(Event)) -> Result<Option<RunEnd>> {
        let interrupted = AtomicBool::new(false);
        let mut listener = Listener {
            settings: &settings(Path::new("")),
            started: Instant::now(),
            interrupted: &interrupted,
            silence: SILENCE,
            on_event,
        };
        listener.listen(input)
    }

    /// Of a run whose database is in `directory`.
    fn settings(directory: &Path) -> Settings {
        Settings {
            steps: vec![Step::new(Workload::Write, 10)],
            ..Settings::new(EngineKind::Kingtide, directory.join("db"))
        }
    }

    /// Runs a shell script as the child; answers what it told and what came of it. It is interrupted once it is at 77.
    fn run_script(script: &str) -> (Vec<Event>, Result<RunEnd>) {
        run_script_within(script, 0.0)
    }

    /// The same with a time limit, in seconds.
    fn run_script_within(script: &str, limit: f64) -> (Vec<Event>, Result<RunEnd>) {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("script");
        fs::write(&path, script).expect("file");
        let path = path.to_str().expect("temporary paths are UTF-8");
        let settings = Settings {
            time_limit_seconds: limit,
            ..settings(directory.path())
        };
        let interrupted = AtomicBool::new(false);
        let mut events = Vec::new();
        let mut on_event = |event: Event| {
            interrupted.store(event == Event::Progress { done: 77 }, Ordering::Relaxed);
            events.push(event);
        };
        let shell = Path::new("/bin/sh");
        let answer = run_in_child(shell, path, &settings, &interrupted, &mut on_event);
        (events, answer)
    }

    #[test]
    fn what_is_not_settings_is_refused() {
        let mut output = Vec::new();
        for input in ["", "{}", "not json\n"] {
            let message = answer(engines::open, input.as_bytes(), &mut output)
                .expect_err(input)
                .to_string();
            assert!(message.contains("not settings"), "{message}");
        }
        assert!(output.is_empty());
    }

    #[test]
    fn a_missing_engine_arrives_as_such() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let settings = Settings {
            library: Some(directory.path().join("librocksdb.so")),
            ..Settings::new(EngineKind::RocksDb, directory.path().join("db"))
        };
        let request = serde_json::to_string(&settings).expect("plain data");
        let mut output = Vec::new();
        answer(engines::open, request.as_bytes(), &mut output).expect("output in memory");
        let answer = listen(&output, &mut |_| {});
        assert!(matches!(answer, Err(BenchError::Missing(_))), "{answer:?}");
    }

    #[test]
    fn noise_and_silence_of_a_child_are_told_apart_from_a_report() {
        assert!(matches!(listen(b"", &mut |_| {}), Ok(None)));
        assert!(listen(b"hello\n", &mut |_| {}).is_err());
        let mut events = Vec::new();
        let lines = b"{\"event\":{\"begin\":{\"number\":3}}}\n{\"event\":{\"prog";
        let answer = listen(lines, &mut |event| events.push(event));
        assert!(matches!(answer, Ok(None)), "{answer:?}");
        assert_eq!(events, [Event::Begin { number: 3 }]);
    }

    /// Goal: what an engine prints breaks no message. Method: a child that prints half a line between two messages, and dies.
    #[test]
    fn what_an_engine_prints_is_no_message() {
        let (events, answer) = run_script(
            "read -r settings\n\
             echo '{\"event\":{\"begin\":{\"number\":0}}}' >&0\n\
             printf 'half a line of the engine'\n\
             echo '{\"event\":{\"progress\":{\"done\":5}}}' >&0\n\
             kill -KILL $$\n",
        );
        assert_eq!(
            events,
            [Event::Begin { number: 0 }, Event::Progress { done: 5 }]
        );
        let text = answer.expect_err("it died").to_string();
        assert!(text.contains("signal: 9"), "{text}");
    }

    /// Goal: an interruption ends a child that does nothing. Method: one that waits for ever.
    #[test]
    fn an_interruption_ends_the_child() {
        let (events, answer) = run_script(
            "read -r settings\n\
             echo '{\"event\":{\"progress\":{\"done\":77}}}' >&0\n\
             exec sleep 1000000\n",
        );
        assert_eq!(events, [Event::Progress { done: 77 }]);
        assert!(matches!(answer, Err(BenchError::Interrupted)), "{answer:?}");
    }

    /// Goal: a child that does not end in time is ended, whatever it has told by then. Method: one that waits for ever in the
    /// middle, and one that does so after it has told everything.
    #[test]
    fn a_time_limit_ends_the_child() {
        let event = Message::Event(Event::Progress { done: 1 });
        for message in [event, Message::End(Box::default())] {
            let line = serde_json::to_string(&message).expect("plain data");
            let script = format!("read -r settings\necho '{line}' >&0\nexec sleep 1000000\n");
            let (_, answer) = run_script_within(&script, 0.3);
            let text = answer.expect_err("it does not end").to_string();
            let wanted = "the process that ran kingtide did not finish within 0.3 s";
            assert_eq!(text, wanted);
        }
    }

    /// Goal: a child that does not get on is told once, although it tells its progress. Method: the same progress, no patience.
    #[test]
    fn a_child_that_stands_still_is_told() {
        let progress = "{\"event\":{\"progress\":{\"done\":1}}}\n".repeat(3);
        let mut events = Vec::new();
        let mut listener = Listener {
            settings: &settings(Path::new("")),
            started: Instant::now(),
            interrupted: &AtomicBool::new(false),
            silence: Duration::ZERO,
            on_event: &mut |event| events.push(event),
        };
        let answer = listener.listen(progress.as_bytes());
        assert!(matches!(answer, Ok(None)), "{answer:?}");
        let silent = Event::Silent { seconds: 0 };
        assert_eq!(events, [Event::Progress { done: 1 }, silent]);
    }
}
