//! Why a benchmark could not be run to its end.

use std::{error, fmt, io};

/// The result of a call into this crate.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why a benchmark could not be run to its end.
#[derive(Debug)]
pub enum BenchError {
    /// The settings contradict themselves or exceed a limit.
    Settings(String),
    /// The engine is not on this machine; says where it was looked for.
    Missing(String),
    /// A call into the engine failed.
    Engine(String),
    /// The operating system refused something; the text says what was being done.
    Io(String, io::Error),
    /// A result file is none, or cannot be written as one.
    Results(String),
    /// The process that ran the engine ended without a report.
    Child(String),
    /// The user ended it.
    Interrupted,
}

impl BenchError {
    /// An error of the operating system while doing what `doing` says.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io(doing, source)
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(message)
            | Self::Missing(message)
            | Self::Engine(message)
            | Self::Results(message)
            | Self::Child(message) => f.write_str(message),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Io(doing, source) => write!(f, "{doing}: {source}"),
        }
    }
}

impl error::Error for BenchError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io(_, source) => Some(source),
            _ => None,
        }
    }
}

impl From<kingtide::Error> for BenchError {
    fn from(source: kingtide::Error) -> Self {
        Self::Engine(format!("kingtide: {source} ({:?})", source.kind()))
    }
}
