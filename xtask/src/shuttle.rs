//! Random schedules of the whole engine, by shuttle: builds the tests of `crates/kingtide/tests/schedules.rs` with
//! `--cfg shuttle`, passes on what was asked for, and counts the schedules that were reached.
//!
//! With a ledger the seed is the one behind the last that the ledger has, and a line is added at the end.

use std::{
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use kingtide_ledger::{Stretch, build};

use crate::ledger;

/// How to use it.
pub const USAGE: &str = "
  shuttle [--schedules N] [--seconds N] [--seed N] [--only TEST] [--replay SCHEDULE] [--ledger FILE]
                  random schedules of the whole engine, by shuttle; N of each test
";

/// Its name in the ledger.
const PART: &str = "shuttle";

/// What was asked for.
#[derive(Default)]
struct Wish<'a> {
    /// Settings for the tests.
    environment: Vec<(&'static str, &'a str)>,
    /// Tests to run; all when there is none.
    only: Vec<&'a str>,
    ledger: Option<&'a str>,
    is_replay: bool,
}

impl<'a> Wish<'a> {
    fn of(arguments: &[&'a str]) -> Option<Self> {
        let mut wish = Self::default();
        for pair in arguments.chunks(2) {
            let [option, value] = *pair else {
                return None;
            };
            match option {
                "--schedules" => wish.environment.push(("KINGTIDE_SCHEDULES", value)),
                "--seconds" => wish.environment.push(("KINGTIDE_SECONDS", value)),
                "--seed" => wish.environment.push(("KINGTIDE_SEED", value)),
                "--replay" => {
                    wish.environment.push(("KINGTIDE_SCHEDULE", value));
                    wish.is_replay = true;
                }
                "--only" => wish.only.push(value),
                "--ledger" => wish.ledger = Some(value),
                _ => return None,
            }
        }
        Some(wish)
    }
}

/// Runs them; true when no schedule broke anything.
pub fn run(root: &Path, arguments: &[&str]) -> Result<bool, String> {
    let wish = Wish::of(arguments).ok_or(USAGE)?;
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--release", "--config", "profile.release.lto=false"])
        .args(["-p", "kingtide", "--test", "schedules", "--locked"])
        .args(["--target-dir", "target/shuttle", "--", "--nocapture"])
        .args(&wish.only)
        .env("RUSTFLAGS", "--cfg shuttle")
        .envs(wish.environment.iter().copied());
    let mut noted = None;
    if let Some(path) = wish.ledger {
        let path = root.join(path);
        let seed = ledger::open(&path)?.next(PART, 1);
        command.env("KINGTIDE_SEED", seed.to_string());
        noted = Some((path, seed));
    }
    let (is_clean, schedules) = watch(command.current_dir(root))?;
    println!("shuttle: {schedules} schedules in all");
    if let Some((path, seed)) = noted {
        let stretch = Stretch {
            part: PART.to_owned(),
            first: seed,
            last: seed,
            reached: schedules,
            unit: "schedules".to_owned(),
            violations: u64::from(!is_clean),
            build: build(root),
        };
        ledger::add(&path, stretch)?;
    }
    // A filter that no test matches must not look like success.
    Ok(is_clean && (schedules > 0 || wish.is_replay))
}

/// Runs the tests and passes on what they print: whether they passed, and how many schedules they say to have run.
fn watch(command: &mut Command) -> Result<(bool, u64), String> {
    let wrong = |error: io::Error| format!("cannot run cargo: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(wrong)?;
    let mut schedules = 0;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(wrong)?;
            println!("{line}");
            schedules += schedules_in(&line);
        }
    }
    let status = child.wait().map_err(wrong)?;
    Ok((status.success(), schedules))
}

/// The schedules of a line `NAME: N random and M PCT schedules, seed S`; of any other line 0.
fn schedules_in(line: &str) -> u64 {
    let count = |text: &str| -> Option<u64> {
        let (_, counts) = text.rsplit_once(": ")?;
        let (drawn, rest) = counts.split_once(" random and ")?;
        let (ordered, _) = rest.split_once(" PCT schedules")?;
        Some(drawn.parse::<u64>().ok()? + ordered.parse::<u64>().ok()?)
    };
    count(line).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_counted_in_the_lines_that_name_them() {
        let line = "commit, rotate, flush, close: 12 random and 30 PCT schedules, seed 1";
        assert_eq!(schedules_in(line), 42);
        assert_eq!(
            schedules_in("test commits_beside ... a: 1 random and 2 PCT schedules, seed 1"),
            3
        );
        for line in [
            "",
            "test result: ok. 3 passed",
            "a: x random and 1 PCT schedules",
        ] {
            assert_eq!(schedules_in(line), 0, "{line}");
        }
    }

    #[test]
    fn options_have_values() {
        assert!(Wish::of(&["--seconds", "3", "--only", "a"]).is_some());
        for wrong in [
            &["--seconds"][..],
            &["--other", "1"],
            &["--replay", "x", "--seed"],
        ] {
            assert!(Wish::of(wrong).is_none(), "{wrong:?}");
        }
    }
}
