//! Keeps the cores awake while syncs are timed.
//!
//! A thread that waits for a device lets its core fall asleep; waking it again can cost more than the sync itself, and
//! how much depends on the machine, not on the engine. One spinning process per core at idle priority prevents that
//! for every engine alike and gives way to anything else that wants to run.

use std::{
    io::{self, Read, Write},
    path::Path,
    process::{self, Child, Command, Stdio},
    thread,
};

/// What a spinner says when it begins to spin.
const SIGN_OF_LIFE: &[u8; 5] = b"spin\n";

/// Spinning processes; ended when dropped, and by themselves when this process ends.
#[derive(Debug)]
pub struct Spinners {
    children: Vec<Child>,
    how: &'static str,
}

impl Spinners {
    /// Starts one process per core: `executable` with the argument `subcommand`, which must call
    /// [`spin_until_stdin_closes`]. At idle priority through `chrt`, else at the lowest through `nice`; without
    /// either, none are started, for at a normal priority they would take time from the engines.
    #[must_use]
    pub fn start(executable: &Path, subcommand: &str) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let wrappers: [(&str, &[&str], &str); 2] = [
            ("chrt", &["--idle", "0"], "idle priority"),
            ("nice", &["-n", "19"], "the lowest priority"),
        ];
        for (wrapper, arguments, how) in wrappers {
            let mut spinners = Self {
                children: Vec::new(),
                how,
            };
            for _ in 0..cores {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(executable).arg(subcommand);
                spinners.children.extend(start_one(command));
            }
            if !spinners.children.is_empty() {
                return spinners;
            }
        }
        Self {
            children: Vec::new(),
            how: "",
        }
    }

    /// One sentence for the report.
    #[must_use]
    pub fn note(&self) -> String {
        match self.children.len() {
            0 => "no spinning processes (neither chrt nor nice could start them): cores may sleep while the engine waits for the device".into(),
            count => format!(
                "{count} spinning processes at {} keep the cores awake, for every engine alike",
                self.how
            ),
        }
    }
}

/// Starts a spinner and waits for its sign of life: the wrapper may be there and still be refused the priority.
fn start_one(mut command: Command) -> Option<Child> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut sign = [0; SIGN_OF_LIFE.len()];
    let answered = match &mut child.stdout {
        Some(stdout) => stdout.read_exact(&mut sign).is_ok() && sign == *SIGN_OF_LIFE,
        None => false,
    };
    if answered {
        return Some(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Fails only for a process that has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The spinner's side: burns time until standard input ends, which it does when the parent ends, however it does.
pub fn spin_until_stdin_closes() -> ! {
    let watcher = thread::Builder::new()
        .name("parent-watch".into())
        .spawn(|| {
            let mut sink = [0; 64];
            while matches!(io::stdin().read(&mut sink), Ok(count) if count > 0) {}
            process::exit(0);
        });
    let told = io::stdout().write_all(SIGN_OF_LIFE);
    if watcher.is_err() || told.and_then(|()| io::stdout().flush()).is_err() {
        process::exit(1);
    }
    loop {
        // Through the kernel at every turn: a kernel that preempts lazily takes the core back at the end of a system
        // call, but from a loop in user space only at its next tick, milliseconds after the engine was woken.
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_spin_is_not_counted() {
        let spinners = Spinners::start(Path::new("/bin/false"), "spin");
        assert!(spinners.children.is_empty());
        assert!(
            spinners.note().starts_with("no spinning"),
            "{}",
            spinners.note()
        );
    }
}
