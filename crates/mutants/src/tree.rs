//! The copy of the repository in which mutants are built, and its builds.
//!
//! All mutants of the sample are written into one copy, behind switches (see `switch`). What does not compile that way is
//! taken out again, as the compiler points at it, until the rest builds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use kingtide_base::checksum;
use serde::Deserialize;

use crate::{
    list::Mutant,
    switch::{self, Switched},
};

/// The lowest crate.
const BASE: &str = "crates/base/src/lib.rs";
/// What the engine asks, added to the lowest crate of the copy. A process that is given a file for notes writes the number of
/// each mutant to it whose text it runs through.
const SWITCH: &str = r#"
/// True when this process shall run as mutant `number`.
pub fn mutant_runs(number: usize) -> bool {
    use std::{
        env, fs::{File, OpenOptions}, io::Write,
        sync::{OnceLock, atomic::{AtomicBool, Ordering}},
    };
    static RUNS: OnceLock<(usize, Option<File>)> = OnceLock::new();
    static NOTED: [AtomicBool; 8192] = [const { AtomicBool::new(false) }; 8192];
    let (wanted, notes) = RUNS.get_or_init(|| {
        let wanted = || env::var("KINGTIDE_MUTANT").ok()?.parse().ok();
        let notes = || {
            let path = env::var_os("KINGTIDE_MUTANT_NOTES")?;
            OpenOptions::new().create(true).append(true).open(path).ok()
        };
        (wanted().unwrap_or(usize::MAX), notes())
    });
    if let Some(mut notes) = notes.as_ref()
        && NOTED.get(number).is_some_and(|noted| !noted.swap(true, Ordering::Relaxed))
    {
        // One write per line: several processes may share the file.
        let line = format!("{number}\n");
        drop(notes.write_all(line.as_bytes()));
    }
    *wanted == number
}
"#;
/// Builds until the switched copy compiles; each takes out what the one before was told.
const ROUNDS_MAX: usize = 30;

/// The copy.
pub struct Tree {
    /// Where the repository is.
    root: PathBuf,
    /// Where the copy is.
    pub folder: PathBuf,
    /// Where it is built.
    pub target: PathBuf,
}

/// A line that cargo prints when asked for JSON.
#[derive(Deserialize)]
struct Message {
    message: Option<Diagnostic>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    message: String,
    spans: Vec<Position>,
    children: Vec<Diagnostic>,
}

#[derive(Deserialize)]
struct Position {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

/// A program that a build made.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name of its target.
    pub name: String,
    /// The package's folder, in which cargo would run it.
    pub folder: PathBuf,
    /// Where it is.
    pub path: PathBuf,
    /// It runs tests.
    pub is_test: bool,
}

impl Tree {
    /// The copy for the repository at `root`, in `folder`. Only files that differ are touched, and those of `mutants` are
    /// left to [`Tree::switch`], so that what was built before is used again.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn copy(root: &Path, folder: &Path, mutants: &[Mutant]) -> Result<Self, String> {
        let tree = Self {
            root: root.to_owned(),
            folder: folder.join("tree"),
            target: folder.join("target"),
        };
        fs::create_dir_all(&tree.folder).map_err(|error| error.to_string())?;
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("git: {error}"))?;
        let changed: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.file.as_str()).collect();
        for file in String::from_utf8_lossy(&listed.stdout).lines() {
            // A link or a file that was removed is not needed to build.
            if changed.contains(file) || !root.join(file).is_file() {
                continue;
            }
            let mut bytes =
                fs::read(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
            if file == BASE {
                bytes.extend(SWITCH.as_bytes());
            }
            tree.put(file, &bytes)?;
        }
        Ok(tree)
    }

    /// The text of `file` in the repository.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn original(&self, file: &str) -> Result<String, String> {
        fs::read_to_string(self.root.join(file)).map_err(|error| format!("{file}: {error}"))
    }

    /// Writes `file` of the copy, if it is different.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, file: &str, bytes: &[u8]) -> Result<(), String> {
        let named = |error: std::io::Error| format!("{file}: {error}");
        let path = self.folder.join(file);
        if fs::read(&path).is_ok_and(|old| old == bytes) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(named)?;
        }
        fs::write(&path, bytes).map_err(named)?;
        // Scripts stay executable; what cannot be asked is not.
        if let Ok(about) = fs::metadata(self.root.join(file)) {
            fs::set_permissions(&path, about.permissions()).map_err(named)?;
        }
        Ok(())
    }

    /// Writes `mutants` behind switches and takes out what does not compile. The answer holds the numbers of those that
    /// are in the copy.
    ///
    /// # Errors
    /// When the copy does not compile for a reason that has nothing to do with mutants.
    pub fn switch(&self, mutants: &[Mutant]) -> Result<BTreeSet<usize>, String> {
        let known = self.refused_path(mutants);
        // Where another run was told already, nothing is written anew, and nothing built.
        let mut refused = read_numbers(&known);
        for round in 1..=ROUNDS_MAX {
            let mut files: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
            for (number, mutant) in mutants.iter().enumerate() {
                let file = files.entry(&mutant.file).or_default();
                if !refused.contains(&number) {
                    file.push((number, mutant));
                }
            }
            let mut written: BTreeMap<String, Switched> = BTreeMap::new();
            for (file, mutants) in files {
                let switched = switch::switch(&self.original(file)?, &mutants)?;
                self.put(file, switched.text.as_bytes())?;
                written.insert(file.to_owned(), switched);
            }
            let errors = self.check()?;
            let sites = written.values().flat_map(|file| &file.sites);
            let inside: BTreeSet<usize> = sites.map(|site| site.number).collect();
            if errors.is_empty() {
                write_numbers(&known, &refused)?;
                return Ok(inside);
            }
            let before = refused.len();
            for error in &errors {
                refused.extend(to_blame(error, &written));
            }
            eprintln!(
                "build {round}: {} do not compile behind a switch",
                refused.len()
            );
            if refused.len() == before {
                let texts: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
                return Err(format!("the copy does not compile: {}", texts.join("; ")));
            }
        }
        Err("the copy does not compile after many attempts".to_owned())
    }

    /// Where it is kept which of these mutants do not compile behind a switch.
    fn refused_path(&self, mutants: &[Mutant]) -> PathBuf {
        let mut names = String::new();
        for mutant in mutants {
            let (file, name, count) = mutant.key();
            names.push_str(&format!("{file}\n{name}\n{count}\n"));
        }
        let name = format!("refused-{:016x}", checksum(names.as_bytes(), 0));
        self.target.with_file_name(name)
    }

    /// The errors of the crates whose code is changed.
    fn check(&self) -> Result<Vec<Diagnostic>, String> {
        let messages = self.cargo(
            "plain",
            &[
                "check",
                "-p",
                "kingtide-collections",
                "-p",
                "kingtide-format",
                "-p",
                "kingtide",
                "--keep-going",
            ],
            &[],
        )?;
        let diagnostics = messages.1.into_iter().filter_map(|line| line.message);
        Ok(diagnostics.filter(|found| found.level == "error").collect())
    }

    /// The files that errors of the compiler point at; nothing when the copy compiles.
    ///
    /// # Errors
    /// When cargo cannot be run.
    pub fn files_with_errors(&self) -> Result<Option<BTreeSet<String>>, String> {
        let errors = self.check()?;
        if errors.is_empty() {
            return Ok(None);
        }
        let spans = errors.into_iter().flat_map(|error| error.spans);
        let primary = spans.filter(|position| position.is_primary);
        Ok(Some(primary.map(|position| position.file_name).collect()))
    }

    /// Builds in the folder `place` with the arguments of cargo, and answers the programs that were asked for; none when it does not compile.
    ///
    /// # Errors
    /// When cargo cannot be run.
    pub fn build(
        &self,
        place: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Vec<Program>, String> {
        let (is_built, messages) = self.cargo(place, arguments, environment)?;
        if !is_built {
            return Ok(Vec::new());
        }
        let programs = messages.into_iter().filter_map(|message| {
            let target = message.target?;
            Some(Program {
                folder: message.manifest_path?.parent()?.to_owned(),
                name: target.name,
                path: message.executable?,
                is_test: message.profile.is_some_and(|profile| profile.test),
            })
        });
        Ok(programs.collect())
    }

    fn cargo(
        &self,
        place: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<(bool, Vec<Message>), String> {
        let output = Command::new(env!("CARGO"))
            .args(arguments)
            .args(["--locked", "--message-format=json", "--target-dir"])
            .arg(self.target.join(place))
            .current_dir(&self.folder)
            .envs(environment.iter().copied())
            .stderr(Stdio::null())
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Ok((output.status.success(), messages.collect()))
    }
}

/// The numbers in a file, one a line; none when there is no file.
fn read_numbers(path: &Path) -> BTreeSet<usize> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn write_numbers(path: &Path, numbers: &BTreeSet<usize>) -> Result<(), String> {
    let lines: String = numbers.iter().map(|number| format!("{number}\n")).collect();
    fs::write(path, lines).map_err(|error| format!("{}: {error}", path.display()))
}

/// The mutants that an error of the compiler points at: those whose own text it lies in or covers; otherwise all that share
/// the smallest rewritten piece around it, or the nearest one.
fn to_blame(error: &Diagnostic, written: &BTreeMap<String, Switched>) -> BTreeSet<usize> {
    let mut blamed = BTreeSet::new();
    let mut positions: Vec<&Position> = error.spans.iter().collect();
    positions.extend(error.children.iter().flat_map(|child| &child.spans));
    positions.sort_by_key(|position| !position.is_primary);
    for position in &positions {
        let Some(file) = written.get(&position.file_name) else {
            continue;
        };
        let touches = |range: &std::ops::Range<usize>| {
            range.start <= position.byte_start && position.byte_end <= range.end
                || position.byte_start <= range.start && range.end <= position.byte_end
        };
        let own = file.sites.iter().filter(|site| touches(&site.own));
        blamed.extend(own.map(|site| site.number));
    }
    if !blamed.is_empty() {
        return blamed;
    }
    for position in &positions {
        let Some(file) = written.get(&position.file_name) else {
            continue;
        };
        let around = file.sites.iter().filter(|site| {
            site.whole.start <= position.byte_start && position.byte_end <= site.whole.end
        });
        if let Some(smallest) = around.min_by_key(|site| site.whole.len()) {
            let same = file
                .sites
                .iter()
                .filter(|site| site.whole == smallest.whole);
            blamed.extend(same.map(|site| site.number));
        }
    }
    if blamed.is_empty() {
        // The type that a function answers stands before its body, what it answers otherwise behind.
        for position in positions {
            let Some(file) = written.get(&position.file_name) else {
                continue;
            };
            let sites = file.sites.iter();
            let next = sites.min_by_key(|site| site.own.start.abs_diff(position.byte_start));
            blamed.extend(next.map(|site| site.number));
        }
    }
    blamed
}
