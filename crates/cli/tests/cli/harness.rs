//! Starting the binary and looking at what it did.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// A temporary directory with a place for a database.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("temporary directory"),
        }
    }

    /// A path in the directory; nothing is created.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the database goes, as an argument.
    pub fn db(&self) -> String {
        self.argument("db")
    }

    /// A path in the directory, as an argument.
    pub fn argument(&self, name: &str) -> String {
        self.path(name)
            .to_str()
            .expect("temporary paths are UTF-8")
            .to_owned()
    }

    /// Writes a file and answers its path as an argument.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).expect("write into the temporary directory");
        self.argument(name)
    }
}

/// The sample in the folder beside these tests.
pub fn sample() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/packages.deb822");
    path.to_str()
        .expect("the sources' path is UTF-8")
        .to_owned()
}

/// Records in the sample.
pub const SAMPLE_RECORDS: usize = 240;

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kingtide"));
    command.args(arguments);
    command
}

/// What a run of the binary left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            // A signal (a crash) has no code; -1 passes for none that is expected.
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("UTF-8")
    }

    /// The lines of the output as JSON.
    pub fn objects(&self) -> Vec<serde_json::Value> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }
}

/// Runs the binary to its end with nothing on standard input.
pub fn run(arguments: &[&str]) -> Ran {
    let output = command(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("start the binary");
    Ran::of(output)
}

/// Runs it and expects success.
pub fn run_well(arguments: &[&str]) -> Ran {
    let ran = run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    ran
}

/// Runs it and expects exit code 2 and a message that holds `expected`, with `kingtide: ` in front and no panic.
pub fn run_badly(arguments: &[&str], expected: &str) -> Ran {
    let ran = run(arguments);
    assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
    assert!(
        ran.stderr.starts_with("kingtide: "),
        "{arguments:?}: {ran:?}"
    );
    assert!(ran.stderr.contains(expected), "{arguments:?}: {ran:?}");
    assert!(!ran.stderr.contains("panicked"), "{arguments:?}: {ran:?}");
    ran
}

/// Runs it with `input` on standard input.
pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Ran {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the binary");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    // In a thread, so that neither side waits for the other with a full pipe.
    let writer = std::thread::spawn(move || {
        // A program that stops at an error does not read to the end.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("wait for the binary");
    writer.join().expect("the writer does not panic");
    Ran::of(output)
}
