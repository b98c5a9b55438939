//! Where results go: standard output, as text or as one JSON object per line.
//!
//! A reader that goes away (`kingtide scan DIR | head`) is not an error: the command ends and the exit code is 0.

use std::io::{self, BufWriter, StdoutLock, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::failure::{Failure, Result};

/// Standard output, and what the global options say about it.
pub(crate) struct Output {
    stream: BufWriter<StdoutLock<'static>>,
    /// One JSON object per line.
    pub(crate) json: bool,
    /// No progress, no summaries.
    pub(crate) quiet: bool,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self {
            stream: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
            json,
            quiet,
        }
    }

    /// Bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).map_err(stdout_failure)
    }

    /// One line.
    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.raw(text.as_bytes())?;
        self.raw(b"\n")
    }

    /// One JSON object on a line.
    pub(crate) fn object(&mut self, object: &Value) -> Result<()> {
        self.line(&object.to_string())
    }

    /// One JSON object with `--json`, else the line that `text` makes of it, unless `--quiet`.
    pub(crate) fn summary(&mut self, object: &Value, text: impl FnOnce() -> String) -> Result<()> {
        if self.json {
            self.object(object)
        } else if self.quiet {
            Ok(())
        } else {
            self.line(&text())
        }
    }

    /// A remark on standard error, unless `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            // Remarks may be lost; results may not.
            let _ = writeln!(io::stderr(), "kingtide: {text}");
        }
    }

    /// Hands everything printed so far to the system.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.stream.flush().map_err(stdout_failure)
    }

    /// A progress bar on standard error over `total` bytes, or without an end; hidden when standard error is no
    /// terminal or `--quiet`.
    pub(crate) fn progress(&self, total: Option<u64>) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = if total.is_some() {
            "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {msg} ETA {eta}"
        } else {
            "{spinner} {bytes} {bytes_per_sec} {msg}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar
    }
}

fn stdout_failure(source: io::Error) -> Failure {
    if source.kind() == io::ErrorKind::BrokenPipe {
        Failure::OutputClosed
    } else {
        Failure::Io("write to standard output".into(), source)
    }
}
