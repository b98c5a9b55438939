//! What is known of each mutant: a CSV file, written anew after each verdict, so that a run can be stopped at any time.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::list::{Key, Mutant};

/// What became of a mutant.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// A test failed.
    Caught,
    /// A test did not end in time: an endless loop, or a wait for what never comes. Counts as caught.
    Timeout,
    /// It does not compile.
    Unviable,
    /// Every test passed.
    Missed,
    /// It changes nothing that can be observed; said by hand, with the reason in `by`.
    Equal,
    /// The stages up to the one in `by` passed, the others are still to come.
    Open,
}

impl Outcome {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Timeout => "timeout",
            Self::Unviable => "unviable",
            Self::Missed => "missed",
            Self::Equal => "equal",
            Self::Open => "open",
        }
    }
}

/// One line of the ledger.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Row {
    /// From the root of the repository.
    pub file: String,
    /// What it changes.
    pub mutant: String,
    /// See [`Mutant::count`].
    pub count: usize,
    /// Where it was when it was judged.
    pub line: usize,
    /// What became of it.
    pub outcome: Outcome,
    /// The stage, and the test where one is known, that decided.
    pub by: String,
}

/// All rows, by the mutant.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: BTreeMap<Key, Row>,
}

impl Ledger {
    /// The ledger at `path`; an empty one when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load(path: &Path) -> Result<Self, String> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut rows = BTreeMap::new();
        for row in csv::Reader::from_reader(bytes.as_slice()).deserialize() {
            let row: Row = row.map_err(|error| format!("{}: {error}", path.display()))?;
            rows.insert((row.file.clone(), row.mutant.clone(), row.count), row);
        }
        Ok(Self { rows })
    }

    /// Writes it to `path`, through a second file that takes its name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn store(&self, path: &Path) -> Result<(), String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| named(&error))?;
        }
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in self.rows.values() {
            writer.serialize(row).map_err(|error| named(&error))?;
        }
        let bytes = writer.into_inner().map_err(|error| named(&error))?;
        let new = path.with_extension("new");
        fs::write(&new, bytes).map_err(|error| named(&error))?;
        fs::rename(&new, path).map_err(|error| named(&error))
    }

    /// What is known of `mutant`.
    pub fn get(&self, mutant: &Mutant) -> Option<&Row> {
        self.rows.get(&mutant.key())
    }

    /// Notes what became of `mutant`.
    pub fn set(&mut self, mutant: &Mutant, outcome: Outcome, by: &str) {
        let (file, name, count) = mutant.key();
        let row = Row {
            file,
            mutant: name,
            count,
            line: mutant.span.start.line,
            outcome,
            by: by.to_owned(),
        };
        self.rows.insert(mutant.key(), row);
    }

    /// Forgets what the tests let pass, where the file or the change contains `only`, so that it is judged again.
    pub fn forget_survivors(&mut self, only: &str) {
        self.rows.retain(|_, row| {
            !matches!(row.outcome, Outcome::Missed | Outcome::Open)
                || !row.file.contains(only) && !row.mutant.contains(only)
        });
    }
}
