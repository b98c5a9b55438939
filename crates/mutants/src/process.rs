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

/// Memory that a test program may take, in KiB: a mutant may ask for all there is.
const MEMORY_KIB_MAX: u64 = 12 << 20;

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

/// Runs `arguments` in `folder` as mutant `number` for at most `time`; files of the tests go to `scratch`, which is
/// emptied.
///
/// # Errors
/// When it cannot be started.
pub fn run(
    arguments: &[String],
    folder: &Path,
    scratch: &Path,
    number: usize,
    time: Duration,
) -> Result<Ending, String> {
    let named = |error: std::io::Error| format!("{arguments:?}: {error}");
    // What a killed run left there is not told from what is missing: both are replaced.
    drop(fs::remove_dir_all(scratch));
    fs::create_dir_all(scratch).map_err(named)?;
    let limited = format!("ulimit -v {MEMORY_KIB_MAX}; exec \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limited, "sh"])
        .args(arguments)
        .current_dir(folder)
        .env("KINGTIDE_MUTANT", number.to_string())
        .env("TMPDIR", scratch)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(named)?;
    let ending = watch(&mut child, time).map_err(named)?;
    if ending != Ending::Passed {
        kill_group(&child);
    }
    child.wait().map_err(named)?;
    Ok(ending)
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
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line);
                if let Some(name) = failed_test(&line) {
                    return Ok(Ending::Failed(name.to_owned()));
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => return Ok(Ending::TimedOut),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    // It closed its output; what is left is its end, which a stray thread may still hold up.
    while Instant::now() < end {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(Ending::Passed),
            Some(status) => return Ok(Ending::Failed(status.to_string())),
            None => thread::sleep(Duration::from_millis(10)),
        }
    }
    Ok(Ending::TimedOut)
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
