//! Builds of the tests that watch memory and threads: address sanitizer, thread sanitizer, Miri.
//!
//! The sanitizers are flags that stable compilers take when `RUSTC_BOOTSTRAP=1` is set. The address sanitizer needs nothing
//! besides. The thread sanitizer must see the standard library's own synchronisation, so that is built too, from the
//! component `rust-src`. Miri is a component of nightly toolchains. What is not installed is skipped, and said to be, with
//! the command that installs it; nothing is installed here.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// The system whose sanitizers are used; with a target named, build scripts and macros stay as they are.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// How to use the chores.
pub const USAGE: &str = "
  sanitize address | thread | miri   run the tests that concern it under a sanitizer or Miri
  mutants [--sample N] [--seed N] [--seconds N] [--again] [--report]
                  mutation testing of log, manifest, transactions and merges; see docs/testing.md
";

/// Tests that a tool watches.
struct Suite {
    /// Arguments of `cargo test` that choose them.
    tests: &'static [&'static str],
    /// Arguments of the test programs.
    filters: &'static [&'static str],
}

/// All tests of the crates that hold unsafe code; that of the C interface is watched by `capi-check`.
const UNSAFE: Suite = Suite {
    tests: &[
        "-p",
        "kingtide-collections",
        "-p",
        "kingtide-env",
        "--lib",
        "--tests",
    ],
    filters: &[],
};

const ADDRESS: &[Suite] = &[UNSAFE];

/// What threads share, and the whole engine: the structures, the system, then all tests of the engine itself.
const THREAD: &[Suite] = &[
    UNSAFE,
    Suite {
        tests: &["-p", "kingtide", "--lib", "--tests"],
        filters: &[],
    },
];

/// A program that races: the sanitizer must say so.
const RACE: &[&str] = &[
    "--quiet",
    "-p",
    "kingtide-collections",
    "--example",
    "data_race",
];
/// Begins each report of a race.
const RACE_REPORT: &str = "WARNING: ThreadSanitizer: data race";
/// Code with the sanitizer's calls in it takes long to optimise: what other packages are built with here.
const FEWER_OPTIMISATIONS: &str = "profile.dev.package.\"*\".opt-level=1";

/// Miri interprets: minutes become days, so the parts with unsafe code alone, without what calls C or draws long inputs. The
/// tests take fewer and shorter ones under it.
const MIRI: &[Suite] = &[Suite {
    tests: &["-p", "kingtide-collections", "--lib"],
    filters: &[
        "arena::",
        "block_memory::",
        "hash_index::",
        "pages::",
        "skip_list::",
        // Safe code over keys of 36 KiB.
        "--skip=heads_sort_like_keys",
    ],
}];

/// Runs one tool; true when nothing was found, also when the tool is not there.
pub fn run(root: &Path, tool: &str) -> Result<bool, String> {
    let (reason, suites) = match tool {
        "address" => (missing_address(), ADDRESS),
        "thread" => (missing_thread(), THREAD),
        "miri" => (missing_miri(), MIRI),
        _ => return Err(format!("no such tool: {tool}\n{USAGE}")),
    };
    if let Some(reason) = reason {
        println!("SKIPPED {tool}: {reason}");
        return Ok(true);
    }
    if tool == "thread" && !sees_races(root)? {
        return Ok(false);
    }
    for suite in suites {
        let mut command = command(tool, "test");
        command.args(suite.tests);
        if !suite.filters.is_empty() {
            command.arg("--").args(suite.filters);
        }
        println!("$ {command:?}");
        let status = command
            .current_dir(root)
            .status()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        if !status.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True when the thread sanitizer, built as for the tests, reports a race that is there.
fn sees_races(root: &Path) -> Result<bool, String> {
    let mut command = command("thread", "run");
    command.args(RACE);
    println!("$ {command:?}");
    let output = command
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let sees = !output.status.success() && told.contains(RACE_REPORT);
    if sees {
        println!("the race of that program is reported, as it must be");
    } else {
        eprintln!(
            "{told}\nNo race is reported in a program that has one: the tests would show nothing."
        );
    }
    Ok(sees)
}

/// `cargo test` or another command of cargo, under a tool.
fn command(tool: &str, chore: &str) -> Command {
    let place = format!("target/{tool}");
    if tool == "miri" {
        let mut command = Command::new("cargo");
        command
            .args([
                "+nightly",
                "miri",
                chore,
                "--locked",
                "--target-dir",
                &place,
            ])
            // Temporary files are files of the system. Addresses that became integers are for prefetches alone.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation");
        return command;
    }
    let mut command = Command::new(env!("CARGO"));
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", format!("-Zsanitizer={tool}"))
        .args([chore, "--locked", "--target", TARGET])
        .args(["--target-dir", &place]);
    if tool == "thread" {
        command
            .args(["-Zbuild-std", "--config", FEWER_OPTIMISATIONS])
            .env("TSAN_OPTIONS", "halt_on_error=1");
    }
    command
}

/// Why the address sanitizer cannot be used.
fn missing_address() -> Option<String> {
    let is_there = library("asan").is_some_and(|path| path.exists());
    (!is_there).then(|| "this toolchain has no library of the address sanitizer".to_owned())
}

/// Why the thread sanitizer cannot be used.
fn missing_thread() -> Option<String> {
    if !library("tsan").is_some_and(|path| path.exists()) {
        return Some("this toolchain has no library of the thread sanitizer".to_owned());
    }
    let source = Path::new(&sysroot()?).join("lib/rustlib/src/rust/library/std/Cargo.toml");
    let reason = "the source of the standard library is missing: rustup component add rust-src";
    (!source.exists()).then(|| reason.to_owned())
}

/// Why Miri cannot be used.
fn missing_miri() -> Option<String> {
    let is_there = quietly(Command::new("cargo").args(["+nightly", "miri", "--version"])).is_some();
    let reason = "Miri is not installed: rustup +nightly component add miri rust-src";
    (!is_there).then(|| reason.to_owned())
}

/// Where the toolchain keeps the library of a sanitizer.
fn library(name: &str) -> Option<std::path::PathBuf> {
    let folder = Path::new(&sysroot()?)
        .join("lib/rustlib")
        .join(TARGET)
        .join("lib");
    let entries = std::fs::read_dir(folder).ok()?;
    let ending = format!("_rt.{name}.a");
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.to_string_lossy().ends_with(&ending))
}

fn sysroot() -> Option<String> {
    quietly(Command::new("rustc").args(["--print", "sysroot"]))
}

/// What a command prints; none when it fails.
fn quietly(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// Runs the mutation tests; `cargo-mutants`, which lists the mutants, is installed below `target/tools` when it is not there.
pub fn mutants(root: &Path, arguments: &[&str]) -> Result<bool, String> {
    let tools = root.join("target/tools");
    let own = tools.join("bin/cargo-mutants");
    let is_installed = quietly(Command::new("cargo").args(["mutants", "--version"])).is_some();
    if !is_installed && !own.exists() {
        let status = Command::new(env!("CARGO"))
            .args(["install", "cargo-mutants", "--locked", "--root"])
            .arg(&tools)
            .status()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        if !status.success() {
            return Ok(false);
        }
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "kingtide-mutants", "--"]);
    if own.exists() {
        command.arg("--finder").arg(own);
    }
    let status = command
        .args(arguments)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok(status.success())
}
