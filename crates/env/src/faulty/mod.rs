//! A world that wraps another one and makes chosen calls fail.
//!
//! | file | what it is |
//! |---|---|
//! | `rules` | which calls fail, and how; the counts |
//! | `directory`, `file` | the handles, which ask the rules before they pass a call on |
//!
//! A call that fails is not passed on, with two exceptions that keep callers honest: a write that fails has written
//! the first half of its bytes, as the trait allows, and a sync that fails on a file of a [`crate::MemoryEnv`] leaves
//! the fate of the unsynced bytes open for ever, also across a later sync that succeeds.

mod directory;
mod file;
mod rules;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use self::directory::FaultyDirectory;
pub use self::rules::{Fault, Judge, Operation, ReadRule, Rule, Times};
use self::rules::{Name, Rules};
use crate::{Directory, Env, JoinHandle};

/// A world with faults. Clones share rules and counts.
#[derive(Clone, Debug)]
pub struct FaultyEnv {
    inner: Arc<dyn Env>,
    rules: Arc<Rules>,
}

impl FaultyEnv {
    /// `inner`, without any rule yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Env>) -> Self {
        Self {
            inner,
            rules: Arc::new(Rules::default()),
        }
    }

    /// `inner`, whose every call `judge` decides about, besides the rules that are added.
    #[must_use]
    pub fn judged_by(inner: Arc<dyn Env>, judge: Arc<Judge>) -> Self {
        Self {
            inner,
            rules: Arc::new(Rules::judged_by(judge)),
        }
    }

    /// Adds a rule. When several rules strike the same call, the one added first decides; all of them count it.
    pub fn fail(&self, rule: Rule) {
        self.rules.add(rule);
    }

    /// Adds a rule for what reads bring back.
    pub fn disturb_reads(&self, rule: ReadRule) {
        self.rules.add_read(rule);
    }

    /// Removes all rules; the counts stay.
    pub fn clear(&self) {
        self.rules.clear();
    }

    /// How many calls of each operation there were, failed ones included. Operations without a call are absent.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Operation, u64> {
        self.rules.counts()
    }
}

impl Env for FaultyEnv {
    fn open_directory(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Directory>> {
        self.rules
            .check(Operation::of_directory(create), Name::Path(path))?;
        let inner = self.inner.open_directory(path, create)?;
        Ok(Arc::new(FaultyDirectory::new(
            inner,
            Arc::clone(&self.rules),
        )))
    }

    fn canonical_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.rules.check(Operation::Resolve, Name::Path(path))?;
        self.inner.canonical_path(path)
    }

    fn unix_micros(&self) -> u64 {
        self.inner.unix_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.inner.monotonic_nanos()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.inner.fill_random(bytes);
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle> {
        self.rules.check(Operation::Spawn, Name::Plain(name))?;
        self.inner.spawn(name, body)
    }

    fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration);
    }

    fn parallelism(&self) -> usize {
        self.inner.parallelism()
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.inner.memory_bytes()
    }

    fn resident_bytes(&self) -> Option<u64> {
        self.inner.resident_bytes()
    }

    fn spare_memory(&self) {
        self.inner.spare_memory();
    }

    fn release_free_memory(&self) {
        self.inner.release_free_memory();
    }
}

// Loom's locks work inside its models only; these tests use them outside.
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
