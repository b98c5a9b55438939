//! What the programs show: progress, and lines.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of `count` steps on standard error, with elapsed and remaining time.
#[must_use]
pub fn progress_bar(name: &'static str, count: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} {elapsed} (eta {eta})")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(count).with_style(style).with_prefix(name)
}

/// A line for the terminal or the log. A closed standard output does not change what the exit code says.
pub fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
