//! Line coverage of what durability rests on: the log, the manifest, transactions, and flushes and merges.
//!
//! The tests of the engine and of the formats run under `cargo llvm-cov`, which this chore installs into `target/tools`
//! when it is not there, with a build of its own in `target/llvm-cov-target`. Its report (the format of lcov) is read here:
//! a table of the files below the wanted share, and one line per part. Files of tests are not counted.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The least share of lines, in per cent.
const PERCENT_MIN: f64 = 95.0;

/// The parts, by the beginning of their files' paths.
const PARTS: [(&str, &str); 12] = [
    ("log", "crates/kingtide/src/wal/"),
    ("log", "crates/format/src/frame"),
    ("log", "crates/format/src/record"),
    ("log", "crates/format/src/segment"),
    ("manifest", "crates/kingtide/src/manifest/"),
    ("manifest", "crates/format/src/manifest"),
    ("manifest", "crates/format/src/edit"),
    ("transactions", "crates/kingtide/src/txn/"),
    ("transactions", "crates/kingtide/src/write/"),
    ("transactions", "crates/format/src/two_phase"),
    ("merge", "crates/kingtide/src/compaction/"),
    ("merge", "crates/kingtide/src/flush/"),
];

/// Lines that can be run, and lines that were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    all: u64,
    run: u64,
}

impl Lines {
    fn percent(self) -> f64 {
        if self.all == 0 {
            100.0
        } else {
            self.run as f64 * 100.0 / self.all as f64
        }
    }
}

/// Measures and prints; true when every part has what is wanted.
pub fn check(root: &Path) -> Result<bool, String> {
    let report = root.join("target/coverage.lcov");
    measure(root, &report)?;
    let text =
        fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    let files = parse(&text, root);
    println!(
        "{:<56} {:>7} {:>7} {:>7}",
        "below the wanted share", "lines", "run", "share"
    );
    for (file, lines) in files
        .iter()
        .filter(|(_, lines)| lines.percent() < PERCENT_MIN)
    {
        println!(
            "{file:<56} {:>7} {:>7} {:>6.1}%",
            lines.all,
            lines.run,
            lines.percent()
        );
    }
    let parts = sum_parts(&files);
    let mut is_enough = true;
    for (part, lines) in &parts {
        println!(
            "coverage: {part}: {} of {} lines, {:.1}%",
            lines.run,
            lines.all,
            lines.percent()
        );
        is_enough &= lines.percent() >= PERCENT_MIN;
    }
    if !is_enough {
        println!("coverage: a part has less than {PERCENT_MIN}%");
    }
    Ok(is_enough)
}

fn measure(root: &Path, report: &Path) -> Result<(), String> {
    let tools = root.join("target/tools");
    let mut paths: Vec<PathBuf> =
        env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    paths.push(tools.join("bin"));
    let path = env::join_paths(paths).map_err(|error| error.to_string())?;
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).env("PATH", &path).current_dir(root);
        command
    };
    let is_installed = cargo(&["llvm-cov", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !is_installed {
        run(cargo(&["install", "cargo-llvm-cov", "--locked", "--root"]).arg(&tools))?;
    }
    run(&mut cargo(&[
        "llvm-cov",
        "--no-report",
        "-p",
        "kingtide",
        "-p",
        "kingtide-format",
        "--lib",
        "--tests",
    ]))?;
    run(cargo(&["llvm-cov", "report", "--lcov", "--output-path"]).arg(report))
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}"))
    }
}

/// The lines of each file of the parts, by its path in the repository.
fn parse(report: &str, root: &Path) -> BTreeMap<String, Lines> {
    let mut files = BTreeMap::new();
    let mut current: Option<&mut Lines> = None;
    for line in report.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        match field {
            "SF" => {
                let path = Path::new(value);
                let path = path
                    .strip_prefix(root)
                    .unwrap_or(path)
                    .to_string_lossy()
                    .into_owned();
                current = part_of(&path).map(|_| files.entry(path).or_insert_with(Lines::default));
            }
            "LF" => add(&mut current, value, |lines| &mut lines.all),
            "LH" => add(&mut current, value, |lines| &mut lines.run),
            _ => {}
        }
    }
    files
}

fn add(current: &mut Option<&mut Lines>, value: &str, field: fn(&mut Lines) -> &mut u64) {
    if let Some(lines) = current {
        *field(lines) += value.trim().parse::<u64>().unwrap_or(0);
    }
}

/// The part that a file belongs to; files of tests belong to none.
fn part_of(path: &str) -> Option<&'static str> {
    if path.ends_with("tests.rs") || path.contains("/tests/") || path.contains("loom") {
        return None;
    }
    let mut parts = PARTS.iter();
    parts
        .find(|(_, start)| path.starts_with(start))
        .map(|(part, _)| *part)
}

fn sum_parts(files: &BTreeMap<String, Lines>) -> BTreeMap<&'static str, Lines> {
    let mut parts: BTreeMap<&str, Lines> = BTreeMap::new();
    for (file, lines) in files {
        if let Some(part) = part_of(file) {
            let sum = parts.entry(part).or_default();
            sum.all += lines.all;
            sum.run += lines.run;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_by_part_without_tests() {
        let report = "SF:/r/crates/kingtide/src/wal/tail.rs\nDA:1,0\nLF:100\nLH:90\nend_of_record\n\
                      SF:/r/crates/format/src/frame.rs\nLF:10\nLH:10\nend_of_record\n\
                      SF:/r/crates/kingtide/src/wal/tests.rs\nLF:50\nLH:1\nend_of_record\n\
                      SF:/r/crates/kingtide/src/read/iter.rs\nLF:50\nLH:1\nend_of_record\n";
        let files = parse(report, Path::new("/r"));
        assert_eq!(files.len(), 2);
        let parts = sum_parts(&files);
        assert_eq!(parts["log"], Lines { all: 110, run: 100 });
        assert!(parts["log"].percent() < PERCENT_MIN && parts.len() == 1);
    }
}
