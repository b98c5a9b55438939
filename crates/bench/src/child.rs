//! One run in a process of its own, so that the memory and the caches of two engines never mix.
//!
//! The parent starts its own executable with a hidden subcommand, writes the settings as one line of JSON to its
//! standard input and reads lines of JSON from its standard output: what happens, each step's report as soon as it is
//! over, and at the end what is known after closing, or why it did not come to that. Messages that an engine prints go
//! to standard error, which is the parent's.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::{BenchError, Event, Open, Result, RunEnd, Settings, engines, run_with};

/// Settings are small; more than this on standard input is not ours.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Event(Event),
    End(Box<RunEnd>),
    Missing(String),
    Settings(String),
    Failed(String),
}

/// Runs `settings` in a child: `executable` with the argument `subcommand`, which must call [`serve`] or [`serve_with`].
/// `on_event` is told what the child tells.
///
/// # Errors
/// What the child reports, or that it ended without saying why. Reports of steps that came before have been told.
pub fn run_in_child(
    executable: &Path,
    subcommand: &str,
    settings: &Settings,
    on_event: &mut dyn FnMut(Event),
) -> Result<RunEnd> {
    settings.check()?;
    let child = Command::new(executable)
        .arg(subcommand)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(BenchError::io(format!("start {}", executable.display())))?;
    let mut child = Reaped(child);
    let request = serde_json::to_string(settings)
        .map_err(|source| BenchError::Settings(source.to_string()))?;
    if let Some(mut stdin) = child.0.stdin.take() {
        writeln!(stdin, "{request}").map_err(BenchError::io("write to the benchmark process"))?;
    }
    let outcome = match child.0.stdout.take() {
        Some(stdout) => listen(BufReader::new(stdout), on_event),
        None => Ok(None),
    };
    let status = child
        .0
        .wait()
        .map_err(BenchError::io("wait for the benchmark process"))?;
    outcome?.ok_or_else(|| {
        BenchError::Child(format!(
            "the process that ran {} ended without a report ({status})",
            settings.engine.name()
        ))
    })
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

fn listen(lines: impl BufRead, on_event: &mut dyn FnMut(Event)) -> Result<Option<RunEnd>> {
    for line in lines.lines() {
        let line = line.map_err(BenchError::io("read from the benchmark process"))?;
        let message: Message = serde_json::from_str(&line)
            .map_err(|source| BenchError::Child(format!("not a message: {line:?}: {source}")))?;
        match message {
            Message::Event(event) => on_event(event),
            Message::End(end) => return Ok(Some(*end)),
            Message::Missing(text) => return Err(BenchError::Missing(text)),
            Message::Settings(text) => return Err(BenchError::Settings(text)),
            Message::Failed(text) => return Err(BenchError::Engine(text)),
        }
    }
    Ok(None)
}

/// The child's side: reads settings from `input`, runs them, writes messages to `output`.
///
/// # Errors
/// When `input` holds no settings or `output` cannot be written; failures of the run itself are messages.
pub fn serve(input: impl Read, output: impl Write) -> Result<()> {
    serve_with(engines::open, input, output)
}

/// As [`serve`], with engines that are opened by `open`.
///
/// # Errors
/// As [`serve`].
pub fn serve_with(open: Open, input: impl Read, mut output: impl Write) -> Result<()> {
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
    use super::*;
    use crate::EngineKind;

    #[test]
    fn what_is_not_settings_is_refused() {
        let mut output = Vec::new();
        for input in ["", "{}", "not json\n"] {
            let message = serve(input.as_bytes(), &mut output)
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
        serve(request.as_bytes(), &mut output).expect("output in memory");
        let answer = listen(&output[..], &mut |_| {});
        assert!(matches!(answer, Err(BenchError::Missing(_))), "{answer:?}");
    }

    #[test]
    fn noise_and_silence_of_a_child_are_told_apart_from_a_report() {
        assert!(matches!(listen(&b""[..], &mut |_| {}), Ok(None)));
        assert!(listen(&b"hello\n"[..], &mut |_| {}).is_err());
        let mut events = Vec::new();
        let line = b"{\"event\":{\"begin\":{\"number\":3}}}\n";
        let answer = listen(&line[..], &mut |event| events.push(event));
        assert!(matches!(answer, Ok(None)));
        assert_eq!(events, [Event::Begin { number: 3 }]);
    }
}
