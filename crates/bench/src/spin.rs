//! Keeps the cores awake while syncs are timed.
//!
//! A thread that waits for a device lets its core fall asleep; waking it again can cost more than the sync itself, and
//! how much depends on the machine, not on the engine. One spinning process per core at idle priority prevents that
//! for every engine alike and gives way to anything else that wants to run.

use std::{
    hint,
    io::{self, Read},
    path::Path,
    process::{self, Child, Command, Stdio},
    thread,
};

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
                let started = Command::new(wrapper)
                    .args(arguments)
                    .arg(executable)
                    .arg(subcommand)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn();
                spinners.children.extend(started);
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
            0 => "neither chrt nor nice was found: cores may sleep while the engine waits for the device".into(),
            count => format!(
                "{count} spinning processes at {} keep the cores awake, for every engine alike",
                self.how
            ),
        }
    }
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
    if watcher.is_err() {
        process::exit(1);
    }
    loop {
        hint::spin_loop();
    }
}
