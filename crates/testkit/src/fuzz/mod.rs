//! Fuzz targets: functions that take any bytes, and must neither panic nor take memory beyond what the bytes justify.
//!
//! | module | what it is |
//! |---|---|
//! | `parsers` | one decoder each, behind the checksums: targets make these right, so that mutations reach what follows |
//! | `files` | whole files and directories with damages drawn from the bytes |
//! | `calls` | calls of the public interface drawn from the bytes, compared with an ordered map |
//!
//! The programs in `fuzz/` run them under libFuzzer; the test `fuzz_corpus` runs them over the committed corpora and
//! over a fixed number of mutations, with any toolchain.

mod calls;
mod files;
mod parsers;

/// A target: its name, which is also that of its corpus, and what it does with an input.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name.
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub run: fn(&[u8]),
    /// Some inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets but the one that calls through the C interface, which lives beside the programs.
pub const TARGETS: [Target; 14] = [
    parsers::LOG_RECORD,
    parsers::LOG_FRAMES,
    parsers::MANIFEST_EDITS,
    parsers::DUMPS,
    parsers::DATA_BLOCK,
    parsers::INDEX,
    parsers::PROPERTIES,
    parsers::VALUE_RECORD,
    parsers::DICTIONARY_RECORD,
    parsers::FILTER,
    files::TABLE_FILE,
    files::DIRECTORY,
    calls::CALLS,
    calls::TRANSACTIONS,
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
