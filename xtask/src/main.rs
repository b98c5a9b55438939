//! Chores of the repository, run as `cargo xtask <chore>`.
//!
//! | chore | what it does |
//! |---|---|
//! | `tidy` | checks the rules of the tree that neither the compiler nor clippy knows; see [`tidy`] |
//! | `bless` | lowers the numbers in `xtask/ratchet.txt` to what is true now; never raises one |
//! | `bless goldens` | writes the golden files of the durable formats again from what the code encodes now |
//! | `promises` | writes the table of promises and their tests from the marks of the tests |
//! | `capi-check` | the C programs at full length, plainly and under the address sanitizer and valgrind |
//! | `sanitize` | tests under sanitizers and Miri; see [`sanitize`] |
//! | `shuttle` | random schedules of the whole engine; see [`shuttle`] |
//! | `ledger` | adds a line to the ledger of long runs, for scripts |
//! | `mutants` | mutation testing: `crates/mutants` |
//! | `coverage` | the share of lines that tests run in the log, the manifest, transactions and merges; see [`coverage`] |
//! | `install` | builds and installs the C library and the command; see [`install`] |
//! | `ci` | everything a change must pass: runs `.ci/run` |
#![expect(
    clippy::print_stdout,
    reason = "a command line tool reports on its standard output"
)]

mod capi;
mod coverage;
mod install;
mod ledger;
mod sanitize;
mod shuttle;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use tidy::{RATCHET_PATH, Tree};

const USAGE: &str = "usage: cargo xtask <chore>

  tidy [DIR]      check the rules of the tree (of this repository, or of the one at DIR)
  bless           lower the numbers of xtask/ratchet.txt to what is true now
  bless goldens   rewrite the golden files of the durable formats
  promises        write the table of promises in docs/testing.md from the marks of the tests
  capi-check      run the C programs at full length, also under sanitizer and valgrind
  coverage        print the line coverage of log, manifest, transactions and merges
  ci              run .ci/run, all that a change must pass
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["tidy"] => run_tidy(&root()),
        ["tidy", folder] => run_tidy(Path::new(folder)),
        ["bless"] => run_bless(),
        ["bless", "goldens"] => run_child(
            Command::new(env!("CARGO"))
                .args([
                    "test",
                    "-p",
                    "kingtide-format",
                    "-p",
                    "kingtide-collections",
                ])
                .args(["-p", "kingtide-table"])
                .env("KINGTIDE_BLESS", "1"),
        ),
        ["promises"] => run_promises(),
        ["capi-check"] => capi::check(&root()),
        ["sanitize", tool] => sanitize::run(&root(), tool),
        ["shuttle", arguments @ ..] => shuttle::run(&root(), arguments),
        ["ledger", path, line] => ledger::add_line(&root(), path, line),
        ["mutants", arguments @ ..] => sanitize::mutants(&root(), arguments),
        ["coverage"] => coverage::check(&root()),
        ["install", arguments @ ..] => install::run(&root(), arguments),
        ["ci"] => run_child(&mut Command::new(root().join(".ci/run"))),
        ["help" | "--help" | "-h"] => {
            print!("{}", usage());
            Ok(true)
        }
        _ => Err(usage()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn usage() -> String {
    let chores = [
        USAGE,
        sanitize::USAGE,
        shuttle::USAGE,
        ledger::USAGE,
        install::USAGE,
    ];
    chores.concat()
}

/// The root of the repository.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

fn load(root: &Path) -> Result<Tree, String> {
    Tree::load(root).map_err(|error| format!("cannot read the tree: {error}"))
}

/// True when there is nothing to report.
fn run_tidy(root: &Path) -> Result<bool, String> {
    let tree = load(root)?;
    let findings = tidy::check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!(
        "tidy: {} files, {} findings",
        tree.file_count(),
        findings.len()
    );
    Ok(findings.is_empty())
}

fn run_bless() -> Result<bool, String> {
    let tree = load(&root())?;
    let blessed = tidy::bless(&tree)?;
    std::fs::write(root().join(RATCHET_PATH), blessed)
        .map_err(|error| format!("cannot write {RATCHET_PATH}: {error}"))?;
    Ok(true)
}

fn run_promises() -> Result<bool, String> {
    let root = root();
    let (path, page) = tidy::promises(&load(&root)?)?;
    std::fs::write(root.join(path), page)
        .map_err(|error| format!("cannot write {path}: {error}"))?;
    Ok(true)
}

fn run_child(command: &mut Command) -> Result<bool, String> {
    let status = command
        .current_dir(root())
        .status()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    Ok(status.success())
}
