//! Which mutants there are, and the sample that is judged.
//!
//! `cargo mutants --list` finds them. A mutant is named by its file, what it changes, and a count where a file has several
//! that read alike; not by its line, so that names survive changes elsewhere in the file. The sample takes the mutants
//! whose name, hashed with the seed, is smallest: a change of the code changes the sample as little as possible.

use std::{collections::BTreeMap, path::Path, process::Command};

use kingtide_base::checksum;
use serde::Deserialize;

/// The code whose mutants are judged: log, manifest, transactions, merges, and their formats.
const FILES: &[&str] = &[
    "crates/kingtide/src/wal/**/*.rs",
    "crates/kingtide/src/write/**/*.rs",
    "crates/kingtide/src/txn/**/*.rs",
    "crates/kingtide/src/compaction/**/*.rs",
    "crates/kingtide/src/flush/**/*.rs",
    "crates/kingtide/src/manifest/**/*.rs",
    "crates/kingtide/src/output/**/*.rs",
    "crates/collections/src/merge.rs",
    "crates/format/src/edit.rs",
    "crates/format/src/edit/*.rs",
    "crates/format/src/frame.rs",
    "crates/format/src/manifest.rs",
    "crates/format/src/record.rs",
    "crates/format/src/segment.rs",
    "crates/format/src/two_phase.rs",
];

/// What only people read: a change of it breaks no promise.
const EXCLUDED_NAMES: &[&str] = &[
    r"impl (fmt::)?(Debug|Display) for",
    // Planted bugs, which the simulator alone can switch on.
    "planted::",
];

/// Tests, their helpers, and models for loom.
const EXCLUDED_FILES: &[&str] = &[
    "**/tests.rs",
    "**/*_tests.rs",
    "**/*_models.rs",
    "**/tests/**",
];

/// A place in a file, both from 1, in characters.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character of the line.
    pub column: usize,
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Span {
    /// Its first character.
    pub start: Place,
    /// Behind its last character.
    pub end: Place,
}

/// One mutant as `cargo mutants` describes it.
#[derive(Clone, Debug, Deserialize)]
pub struct Mutant {
    /// From the root of the repository.
    pub file: String,
    /// `file:line:column: what`; see [`Mutant::name`].
    #[serde(rename = "name")]
    full_name: String,
    /// Its kind: `FnValue`, `BinaryOperator`, ...
    pub genre: String,
    /// The text it is replaced with.
    pub replacement: String,
    /// What is replaced.
    pub span: Span,
    /// Tells mutants of one file apart that read alike; from 1.
    #[serde(default)]
    pub count: usize,
}

impl Mutant {
    /// What it changes, without the place.
    pub fn name(&self) -> &str {
        let mut parts = self.full_name.splitn(4, ':');
        match parts.nth(3) {
            Some(name) => name.trim(),
            None => &self.full_name,
        }
    }

    /// A mutant of a text that is in no file.
    #[cfg(test)]
    pub fn for_test(genre: &str, replacement: &str, span: Span) -> Self {
        Self {
            file: String::new(),
            full_name: String::new(),
            genre: genre.to_owned(),
            replacement: replacement.to_owned(),
            span,
            count: 1,
        }
    }

    /// One of several mutants of a file that is not there.
    #[cfg(test)]
    pub fn numbered(number: usize) -> Self {
        let place = |column| Place {
            line: number,
            column,
        };
        let span = Span {
            start: place(1),
            end: place(2),
        };
        Self {
            file: "a.rs".to_owned(),
            full_name: format!("a.rs:{number}:1: change {number}"),
            ..Self::for_test("BinaryOperator", "+", span)
        }
    }

    /// What names it over changes of the code.
    pub fn key(&self) -> Key {
        (self.file.clone(), self.name().to_owned(), self.count)
    }
}

/// File, name and count of a mutant.
pub type Key = (String, String, usize);

/// All mutants of the tree at `root`, found by the program `finder`.
///
/// # Errors
/// When the program cannot be run, fails, or prints what is not understood.
pub fn all(finder: &Path, root: &Path) -> Result<Vec<Mutant>, String> {
    let mut command = Command::new(finder);
    command.args(["mutants", "--list", "--json", "--no-config", "--dir"]);
    command.arg(root);
    for file in FILES {
        command.args(["--file", file]);
    }
    for file in EXCLUDED_FILES {
        command.args(["--exclude", file]);
    }
    for name in EXCLUDED_NAMES {
        command.args(["--exclude-re", name]);
    }
    let output = command
        .output()
        .map_err(|error| format!("cannot run {}: {error}", finder.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut mutants: Vec<Mutant> = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the list of mutants is not understood: {error}"))?;
    number(&mut mutants);
    Ok(mutants)
}

/// Counts those of one file that read alike.
fn number(mutants: &mut [Mutant]) {
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    for mutant in mutants {
        let name = (mutant.file.clone(), mutant.name().to_owned());
        let count = seen.entry(name).or_default();
        *count += 1;
        mutant.count = *count;
    }
}

/// `count` of the mutants, chosen by `seed`, in an order of that choice.
pub fn sample(mut mutants: Vec<Mutant>, seed: u64, count: usize) -> Vec<Mutant> {
    mutants.sort_by_cached_key(|mutant| {
        let (file, name, count) = mutant.key();
        checksum(format!("{file}\n{name}\n{count}").as_bytes(), seed)
    });
    mutants.truncate(count);
    mutants
}
