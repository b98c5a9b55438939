//! Errors as the user sees them: one line that says what happened, one that says what to do, and an exit code.

use std::io;

use kingtide::ErrorKind;
use serde_json::json;

use crate::text::{Escape, escape};

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The engine refused.
    Engine(kingtide::Error),
    /// The engine refused what this line of a script asked for.
    EngineAtLine(kingtide::Error, u64),
    /// The engine refused, and what to do depends on the command.
    EngineWithHint(kingtide::Error, &'static str),
    /// The arguments do not parse.
    Syntax(clap::Error),
    /// The arguments parse and make no sense together; what happened, what to do.
    Usage(String, &'static str),
    /// The key is not there.
    KeyMissing,
    /// The same, when the output says so or `--quiet` is given.
    KeyMissingToldAlready,
    /// The operating system refused what the text says was being done.
    Io(String, io::Error),
    /// A record of an import, or a line of a script, is malformed.
    Malformed(String),
    /// `verify` found this many damages; they are printed already.
    Damaged(usize),
    /// `repair` found so many losses; they are printed already.
    Lost(usize),
    /// Another engine's library could not be loaded, or answered an error.
    Library(String),
    /// A benchmark could not be run, or an engine answered wrongly.
    Benchmark(String),
    /// The user ended it; what there is of it, and the exit code.
    Interrupted(String, u8),
    /// Whoever reads the output has read enough.
    OutputClosed,
}

/// The result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The key was not found.
const EXIT_NOT_FOUND: u8 = 1;
/// A database was repaired, and something is lost.
const EXIT_LOST: u8 = 3;
/// Anything else that is not success.
const EXIT_ERROR: u8 = 2;

impl Failure {
    /// An error of the operating system while doing what `doing` says.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io(doing, source)
    }

    /// What the process answers.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::KeyMissing | Self::KeyMissingToldAlready => EXIT_NOT_FOUND,
            Self::Lost(_) => EXIT_LOST,
            Self::Interrupted(_, code) => *code,
            _ => EXIT_ERROR,
        }
    }

    /// `kingtide: message`, then the hint on a line of its own; nothing when there is nothing to say.
    pub(crate) fn text(&self) -> String {
        if self.is_silent() {
            return String::new();
        }
        if let Self::Syntax(error) = self
            && !is_command_missing(error)
        {
            return syntax_text(error);
        }
        let message = escape(self.message().as_bytes(), Escape::Field);
        match self.hint() {
            "" => format!("kingtide: {message}"),
            hint => format!("kingtide: {message}\n  hint: {hint}"),
        }
    }

    /// The same as one JSON object.
    pub(crate) fn json(&self) -> String {
        if self.is_silent() {
            return String::new();
        }
        json!({"error": {"kind": self.kind(), "message": self.message(), "hint": self.hint()}})
            .to_string()
    }

    fn is_silent(&self) -> bool {
        matches!(self, Self::OutputClosed | Self::KeyMissingToldAlready)
    }

    fn kind(&self) -> String {
        match self {
            Self::Engine(error) | Self::EngineAtLine(error, _) | Self::EngineWithHint(error, _) => {
                format!("{:?}", error.kind())
            }
            Self::Syntax(_) | Self::Usage(..) => "Usage".to_owned(),
            Self::KeyMissing | Self::KeyMissingToldAlready => "KeyMissing".to_owned(),
            Self::Io(..) => "Io".to_owned(),
            Self::Malformed(_) => "Malformed".to_owned(),
            Self::Damaged(_) | Self::Lost(_) => "Corruption".to_owned(),
            Self::Benchmark(_) => "Benchmark".to_owned(),
            Self::Interrupted(..) => "Interrupted".to_owned(),
            Self::Library(_) => "Library".to_owned(),
            Self::OutputClosed => "OutputClosed".to_owned(),
        }
    }

    /// What happened, in one line.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Engine(error) | Self::EngineWithHint(error, _) => error.to_string(),
            Self::EngineAtLine(error, line) => format!("line {line}: {error}"),
            Self::Syntax(error) if is_command_missing(error) => "a command is missing".to_owned(),
            Self::Syntax(error) => {
                // The first paragraph says what is wrong; the argument's name may stand on its second line.
                let text = error.render().to_string();
                let paragraph = text.split("\n\n").next().unwrap_or(&text);
                let line: Vec<&str> = paragraph.split_whitespace().collect();
                let line = line.join(" ");
                line.strip_prefix("error: ").unwrap_or(&line).to_owned()
            }
            Self::Usage(message, _)
            | Self::Interrupted(message, _)
            | Self::Malformed(message)
            | Self::Library(message)
            | Self::Benchmark(message) => message.clone(),
            Self::KeyMissing | Self::KeyMissingToldAlready => "the key is not there".to_owned(),
            Self::Io(doing, source) => format!("cannot {doing}: {source}"),
            Self::Damaged(count) => format!("{count} damages found"),
            Self::Lost(count) => format!("the database was damaged; {count} losses are told above"),
            Self::OutputClosed => "the output was closed".to_owned(),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Engine(error) | Self::EngineAtLine(error, _) => engine_hint(error.kind()),
            Self::Syntax(error) if is_command_missing(error) => {
                "`kingtide help` lists the commands"
            }
            Self::Syntax(_) => "`kingtide help COMMAND` lists the arguments",
            Self::Usage(_, hint) | Self::EngineWithHint(_, hint) => hint,
            Self::Malformed(_) => {
                "mend the input, or pass --skip-bad (import) or --keep-going (shell) to go on"
            }
            Self::Io(_, source) if source.kind() == io::ErrorKind::StorageFull => {
                "free space on the device and try again"
            }
            Self::Io(..) => "check that the path exists and that you may use it",
            Self::Damaged(_) => {
                "restore the database from a backup, or see what `kingtide repair` salvages; keep the damaged files"
            }
            Self::Lost(_) => "compare with a backup before the damaged files are removed",
            Self::KeyMissing
            | Self::KeyMissingToldAlready
            | Self::Library(_)
            | Self::Benchmark(_)
            | Self::Interrupted(..)
            | Self::OutputClosed => "",
        }
    }
}

impl From<kingtide_bench::BenchError> for Failure {
    fn from(error: kingtide_bench::BenchError) -> Self {
        Self::Library(error.to_string())
    }
}

impl From<kingtide::Error> for Failure {
    fn from(error: kingtide::Error) -> Self {
        Self::Engine(error)
    }
}

/// The parser answers a missing command with the whole help text.
fn is_command_missing(error: &clap::Error) -> bool {
    error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// The parser's message is several lines long: the offending argument, a tip, the usage. All of them help.
fn syntax_text(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    format!("kingtide: {}", lines.join("\n"))
}

fn engine_hint(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidArgument => "check the arguments: `kingtide help COMMAND` lists them",
        ErrorKind::NotFound => {
            "check the directory and the family's name; `kingtide families DIR` lists the families"
        }
        ErrorKind::AlreadyExists => "choose another name",
        ErrorKind::Locked => "close the program that has the database open, then try again",
        ErrorKind::ReadOnly => "use a command that opens the database for writing",
        ErrorKind::TooLarge => "keys may be 1 MiB long and values 1 GiB; use smaller batches",
        ErrorKind::Busy => "writers are ahead of the device; try again in a moment",
        ErrorKind::Conflict => "another transaction came first; begin again",
        ErrorKind::DiskFull => "free space on the device and try again; nothing is lost",
        ErrorKind::Io => {
            "check that you may read and write the directory, and that the device works"
        }
        ErrorKind::Corruption => {
            "`kingtide verify DIR` lists all damage; restore from a backup and keep the damaged files"
        }
        ErrorKind::OutcomeUnknown => {
            "the last write is wholly there or wholly absent: read it to see which"
        }
        ErrorKind::ReopenRequired => "writing has stopped after an error; run the command again",
        ErrorKind::ComparatorMissing => {
            "only the program that defines this key order can open the family"
        }
        ErrorKind::NewerVersion => "use the newer version of kingtide that wrote the database",
        ErrorKind::Closed | ErrorKind::Aborted => "begin again",
        ErrorKind::MemoryLimit => "work in smaller transactions",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_a_hint() {
        let failure = Failure::Io(
            "open a\nb".into(),
            io::Error::new(io::ErrorKind::StorageFull, "full"),
        );
        assert_eq!(
            failure.text(),
            "kingtide: cannot open a\\nb: full\n  hint: free space on the device and try again"
        );
        let value: serde_json::Value = serde_json::from_str(&failure.json()).expect("JSON");
        assert_eq!(value["error"]["kind"], "Io");
        assert_eq!(value["error"]["message"], "cannot open a\nb: full");
    }

    #[test]
    fn exit_codes_are_as_documented() {
        assert_eq!(Failure::KeyMissing.exit_code(), 1);
        assert_eq!(Failure::Damaged(1).exit_code(), 2);
        assert_eq!(Failure::Malformed(String::new()).exit_code(), 2);
        assert_eq!(Failure::OutputClosed.exit_code(), 0);
        assert!(Failure::OutputClosed.text().is_empty());
        assert!(Failure::OutputClosed.json().is_empty());
    }
}
