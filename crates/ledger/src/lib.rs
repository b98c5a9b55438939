//! The ledger of long runs: which seeds of which part were run, what they reached, and what they found.
//!
//! A text file of comma-separated lines, one for each stretch of seeds, added when the stretch has ended, so that a run that
//! is interrupted loses one stretch at most. A later run of a part goes on behind the last stretch without a violation; a
//! stretch with one stays on record and is run again.
//!
//! | column | meaning |
//! |---|---|
//! | `part` | the part, with the settings that are not its usual ones |
//! | `first`, `last` | the first and the last seed, or case, of the stretch |
//! | `reached` | how much was run, in the unit of the part |
//! | `unit` | what is counted |
//! | `violations` | promises broken |
//! | `build` | the commit, with a plus sign when the tree had changes |
//!
//! The programs of the proofs and `cargo xtask` share it, so it needs nothing but the standard library.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

/// The first line of the file.
const HEAD: &str = "part,first,last,reached,unit,violations,build";

/// One stretch of seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The part.
    pub part: String,
    /// The first seed.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// How much was run, in `unit`.
    pub reached: u64,
    /// What is counted.
    pub unit: String,
    /// Promises broken.
    pub violations: u64,
    /// The commit.
    pub build: String,
}

/// A ledger file, read as a whole. Processes that add to it at the same time take turns, but run the same seeds.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    stretches: Vec<Stretch>,
}

/// The sum of a part's stretches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Seeds of stretches without a violation.
    pub seeds: u64,
    /// What these reached.
    pub reached: u64,
    /// Violations of all stretches.
    pub violations: u64,
}

impl Ledger {
    /// Reads a ledger; a file that is not there is an empty one.
    ///
    /// # Errors
    /// `InvalidData` with the number of the first line that is none of a ledger, and what reading answers.
    pub fn open(path: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut stretches = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |reason: &str| {
                let text = format!("{}:{}: {reason}", path.display(), index + 1);
                io::Error::new(io::ErrorKind::InvalidData, text)
            };
            match index {
                0 if line != HEAD => return Err(wrong("the head of a ledger is missing")),
                0 => {}
                _ => stretches.push(line.parse().map_err(wrong)?),
            }
        }
        Ok(Self {
            path: path.to_owned(),
            stretches,
        })
    }

    /// All stretches, in the order in which they were added.
    #[must_use]
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// The seed behind the last one of a part that was run without a violation; `first` when there is none.
    #[must_use]
    pub fn next(&self, part: &str, first: u64) -> u64 {
        let ends = self.of(part).filter(|stretch| stretch.violations == 0);
        let next = ends.map(|stretch| stretch.last.saturating_add(1)).max();
        next.unwrap_or(first)
    }

    /// What a part has reached.
    #[must_use]
    pub fn sum(&self, part: &str) -> Sum {
        let mut sum = Sum::default();
        for stretch in self.of(part) {
            sum.violations += stretch.violations;
            if stretch.violations == 0 {
                sum.seeds += stretch.last - stretch.first + 1;
                sum.reached += stretch.reached;
            }
        }
        sum
    }

    fn of(&self, part: &str) -> impl Iterator<Item = &Stretch> {
        let is_of_part = move |stretch: &&Stretch| stretch.part == part;
        self.stretches.iter().filter(is_of_part)
    }

    /// Adds a stretch to the file.
    ///
    /// # Errors
    /// `InvalidInput` for a stretch that a line cannot hold, and what writing answers.
    pub fn add(&mut self, stretch: Stretch) -> io::Result<()> {
        let line = stretch.to_string();
        if line.parse() != Ok(stretch.clone()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, line));
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path)?;
        file.lock()?;
        let head = match file.metadata()?.len() {
            0 => format!("{HEAD}\n"),
            _ => String::new(),
        };
        file.write_all(format!("{head}{line}\n").as_bytes())?;
        self.stretches.push(stretch);
        Ok(())
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{},{},{},{},{},{},{}",
            self.part, self.first, self.last, self.reached, self.unit, self.violations, self.build
        )
    }
}

impl FromStr for Stretch {
    type Err = &'static str;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let cells: Vec<&str> = line.split(',').collect();
        let [part, first, last, reached, unit, violations, build] = cells[..] else {
            return Err("a line has seven cells");
        };
        let number = |text: &str| text.parse().map_err(|_| "a number is expected");
        let stretch = Self {
            part: part.to_owned(),
            first: number(first)?,
            last: number(last)?,
            reached: number(reached)?,
            unit: unit.to_owned(),
            violations: number(violations)?,
            build: build.to_owned(),
        };
        match stretch.first <= stretch.last && !line.contains('\n') {
            true => Ok(stretch),
            false => Err("a stretch ends before it begins"),
        }
    }
}

/// The commit that is checked out at `root`, for the ledger; `unknown` where git does not say.
#[must_use]
pub fn build(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let output = git.args(arguments).current_dir(root).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else {
        return "unknown".to_owned();
    };
    // The ledger itself changes while it is written.
    let changes = git(&[
        "status",
        "--porcelain",
        "--",
        "crates",
        "Cargo.toml",
        "Cargo.lock",
    ]);
    let mark = if changes.is_some_and(|text| text.is_empty()) {
        ""
    } else {
        "+"
    };
    format!("{commit}{mark}")
}
