//! Runs a test program until it ends, a test of it fails, or its time is over.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::tree::Program;

/// Memory that a test program may take, in KiB: a mutant may ask for all there is.
const MEMORY_KIB_MAX: u64 = 12 << 20;
/// How often it is looked whether a program is stopped.
const TICK: Duration = Duration::from_millis(200);

/// What a program runs as.
#[derive(Clone, Copy, Debug)]
pub enum Role<'a> {
    /// The mutant of this number.
    Mutant(usize),
    /// The engine as it is.
    Nobody,
    /// The engine as it is; the numbers of the mutants whose text is run through go to this file.
    Noting(&'a Path),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every test passed.
    Passed,
    /// The named test failed, or the program ended otherwise than it should.
    Failed(String),
    /// It was still running when its time was over.
    TimedOut,
}

/// Runs `program` with `arguments` for at most `time`, in which moments do not count when it is stopped by a signal; files
/// of the tests go to `scratch`, which is emptied.
///
/// # Errors
/// When it cannot be started.
pub fn run(
    program: &Program,
    arguments: &[String],
    role: Role<'_>,
    scratch: &Path,
    time: Duration,
) -> Result<Ending, String> {
    let named = |error: std::io::Error| format!("{}: {error}", program.path.display());
    // What a killed run left there is not told from what is missing: both are replaced.
    drop(fs::remove_dir_all(scratch));
    fs::create_dir_all(scratch).map_err(named)?;
    let limited = format!("ulimit -v {MEMORY_KIB_MAX}; exec \"$@\"");
    let mut command = Command::new("sh");
    command
        .args(["-c", &limited, "sh"])
        .arg(&program.path)
        .args(arguments)
        .current_dir(&program.folder)
        .env("TMPDIR", scratch)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    match role {
        Role::Mutant(number) => command.env("KINGTIDE_MUTANT", number.to_string()),
        Role::Nobody => &mut command,
        Role::Noting(path) => command.env("KINGTIDE_MUTANT_NOTES", path),
    };
    let mut child = command.spawn().map_err(named)?;
    let ending = watch(&mut child, time).map_err(named)?;
    if ending != Ending::Passed {
        kill_group(&child);
    }
    child.wait().map_err(named)?;
    Ok(ending)
}

/// The tests of a program.
///
/// # Errors
/// When it does not list them.
pub fn tests_of(program: &Program) -> Result<Vec<String>, String> {
    let output = Command::new(&program.path)
        .args(["--list", "--format", "terse"])
        .current_dir(&program.folder)
        .output()
        .map_err(|error| format!("{}: {error}", program.path.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{}: does not list its tests",
            program.path.display()
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

/// Follows what the child prints.
fn watch(child: &mut Child, time: Duration) -> std::io::Result<Ending> {
    let (sender, lines) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    let mut left = time;
    while !left.is_zero() {
        let start = Instant::now();
        match lines.recv_timeout(TICK.min(left)) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line);
                if let Some(name) = failed_test(&line) {
                    return Ok(Ending::Failed(name.to_owned()));
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            // It closed its output; what is left is its end, which a stray thread may still hold up.
            Err(mpsc::RecvTimeoutError::Disconnected) => match child.try_wait()? {
                Some(status) if status.success() => return Ok(Ending::Passed),
                Some(status) => return Ok(Ending::Failed(status.to_string())),
                None => thread::sleep(Duration::from_millis(10)),
            },
        }
        // This process may have been stopped as well: it then counts as one tick.
        if !is_stopped(child) {
            left = left.saturating_sub(start.elapsed().min(TICK * 2));
        }
    }
    Ok(Ending::TimedOut)
}

/// True when a signal stopped the program; false where the system does not tell.
fn is_stopped(child: &Child) -> bool {
    let about = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The state stands behind the name, which is in parentheses and may hold anything.
    let state = about.rsplit_once(") ");
    state.is_some_and(|(_, state)| state.starts_with('T'))
}

/// The test that a line of a test program reports as failed.
fn failed_test(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(name)
}

fn kill_group(child: &Child) {
    let group = format!("-{}", child.id());
    // It may have ended by itself meanwhile.
    drop(
        Command::new("kill")
            .args(["-KILL", "--", &group])
            .stderr(Stdio::null())
            .status(),
    );
}

#[cfg(test)]
mod tests {
    use std::{env, path::PathBuf};

    use super::*;

    /// Runs a line of shell for at most `time`.
    fn shell(name: &str, line: &str, time: Duration) -> Ending {
        let program = Program {
            name: "sh".to_owned(),
            folder: PathBuf::from("/"),
            path: PathBuf::from("/bin/sh"),
            is_test: false,
        };
        let arguments = ["-c".to_owned(), line.to_owned()];
        let scratch = env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let ending = run(&program, &arguments, Role::Nobody, &scratch, time);
        drop(fs::remove_dir_all(&scratch));
        ending.expect("the shell starts")
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_failed_test_ends_the_run_by_its_name() {
        let line = "echo test a::b ... ok; echo test a::c ... FAILED; sleep 500";
        let ending = shell("failed-test", line, LONG);
        assert_eq!(ending, Ending::Failed("a::c".to_owned()));
    }

    #[test]
    fn how_a_program_ends_is_told() {
        assert_eq!(shell("passes", "exit 0", LONG), Ending::Passed);
        let ending = shell("fails", "kill -ABRT $$", LONG);
        assert!(matches!(ending, Ending::Failed(status) if status.contains("signal")));
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let ending = shell("endless", "sleep 500", Duration::from_millis(300));
        assert_eq!(ending, Ending::TimedOut);
    }

    /// Goal: a stopped program is not blamed for the time. Method: it stops itself, and is woken by its child long after
    /// its time.
    #[test]
    fn time_does_not_run_while_a_program_is_stopped() {
        let line = "me=$$; (sleep 3; kill -CONT $me) & kill -STOP $$; exit 0";
        let ending = shell("stopped", line, Duration::from_secs(2));
        assert_eq!(ending, Ending::Passed);
    }
}
