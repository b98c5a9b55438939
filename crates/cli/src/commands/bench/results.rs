//! Where rows go: the files that were asked for, as soon as a run is over, so that they are kept whatever ends the program;
//! and the table and the page at the end, in whose files something else stands until then.

use std::{
    fs::File,
    io::{BufWriter, Seek, Write},
    path::{Path, PathBuf},
};

use kingtide_bench::{
    BenchError, Row, Summary, html,
    suite::{Target, judge},
};

use super::{fitted::terminal_columns, table, targets};
use crate::{
    args::ResultFiles,
    failure::{Failure, Result},
    output::Output,
};

/// What stands in a report or a page that has not been written.
const UNFINISHED: &str = "This run of kingtide bench has not come to its end, or was ended before this could be written.\n";

/// A file and its name.
struct ResultFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl ResultFile {
    /// Made at once, so that a path that cannot be written is told before anything is run.
    fn create(path: Option<&Path>) -> Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let file = File::create(path).map_err(Failure::io(format!("write {}", path.display())))?;
        Ok(Some(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        }))
    }

    /// As [`ResultFile::create`], for a file that is written in one piece at the end.
    fn create_unfinished(path: Option<&Path>) -> Result<Option<Self>> {
        let mut file = Self::create(path)?;
        if let Some(file) = file.as_mut().filter(|file| file.is_plain()) {
            file.write(UNFINISHED.as_bytes()).map_err(super::failed)?;
        }
        Ok(file)
    }

    /// Whether it keeps what is written; a device or a pipe passes it on.
    fn is_plain(&self) -> bool {
        let metadata = self.file.get_ref().metadata();
        metadata.is_ok_and(|metadata| metadata.is_file())
    }

    /// Writes all of a file that was unfinished.
    fn write_whole(&mut self, bytes: &[u8]) -> kingtide_bench::Result<()> {
        if self.is_plain() {
            let emptied = self.file.rewind();
            emptied
                .and_then(|()| self.file.get_ref().set_len(0))
                .map_err(|source| {
                    BenchError::Io(format!("write {}", self.path.display()), source)
                })?;
        }
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> kingtide_bench::Result<()> {
        self.file
            .write_all(bytes)
            .and_then(|()| self.file.flush())
            .map_err(|source| BenchError::Io(format!("write {}", self.path.display()), source))
    }
}

/// All rows so far, and the files they go to.
pub(super) struct Results {
    rows: Vec<Row>,
    /// What is judged at the end, and whose numbers.
    targets: Vec<Target>,
    engine: String,
    csv: Option<ResultFile>,
    jsonl: Option<ResultFile>,
    report: Option<ResultFile>,
    html: Option<ResultFile>,
}

impl Results {
    /// Nothing yet. `inputs` are files that must not be written over; `targets` are what is judged at the end, for the engine
    /// of this label.
    pub(super) fn create(
        files: &ResultFiles,
        inputs: &[PathBuf],
        targets: &[Target],
        engine: &str,
    ) -> Result<Self> {
        refuse_shared_files(
            inputs,
            &[
                ("--csv", files.csv.as_deref()),
                ("--jsonl", files.jsonl.as_deref()),
                ("--report", files.report.as_deref()),
                ("--html", files.html.as_deref()),
            ],
        )?;
        Ok(Self {
            rows: Vec::new(),
            targets: targets.to_vec(),
            engine: engine.to_owned(),
            csv: ResultFile::create(files.csv.as_deref())?,
            jsonl: ResultFile::create(files.jsonl.as_deref())?,
            report: ResultFile::create_unfinished(files.report.as_deref())?,
            html: ResultFile::create_unfinished(files.html.as_deref())?,
        })
    }

    /// Keeps rows and writes them. They are kept also when they cannot be written.
    pub(super) fn add(&mut self, rows: &[Row], output: &mut Output) -> kingtide_bench::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let has_header = !self.rows.is_empty();
        self.rows.extend_from_slice(rows);
        if let Some(csv) = &mut self.csv {
            let mut bytes = Vec::new();
            Row::write_csv(rows, &mut bytes)?;
            // The header stands once. It has no quoted line ends.
            let body = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(end) if has_header => &bytes[end + 1..],
                _ => &bytes[..],
            };
            csv.write(body)?;
        }
        if self.jsonl.is_some() || output.json {
            let mut bytes = Vec::new();
            Row::write_jsonl(rows, &mut bytes)?;
            if let Some(jsonl) = &mut self.jsonl {
                jsonl.write(&bytes)?;
            }
            if output.json {
                // A reader that went away has read enough; the next results will say so again.
                let _ = output.raw(&bytes).and_then(|()| output.flush());
            }
        }
        Ok(())
    }

    /// Prints the tables, and writes them where they were asked for. They are printed also when they cannot be written.
    /// `remark` says why they are not all that was asked for, if so. Answers how many lines below the table tell a failure.
    pub(super) fn finish(
        mut self,
        notes: &[String],
        remark: Option<&str>,
        output: &mut Output,
    ) -> Result<usize> {
        let judged = judge(&self.targets, &self.rows, &self.engine);
        let above = remark.map_or_else(String::new, |remark| format!("{remark}\n"));
        let summaries = Summary::of(&self.rows);
        let mut below: String = notes.iter().map(|note| format!("{note}\n")).collect();
        let of_targets = targets::targets(&judged);
        if !of_targets.is_empty() {
            below.push('\n');
            below.push_str(&of_targets);
        }
        let mut written = Ok(());
        if let Some(report) = &mut self.report {
            let tables = table::results(&summaries, None);
            written = report.write_whole((above.clone() + &tables + &below).as_bytes());
        }
        if let Some(page) = &mut self.html {
            let html = match remark {
                Some(remark) => html::report_of_part(&self.rows, &judged, remark),
                None => html::report(&self.rows, None, &judged),
            };
            written = written.and(page.write_whole(html.as_bytes()));
        }
        let failed = summaries.iter().filter(|summary| summary.failed > 0);
        let written = written.map(|()| failed.count()).map_err(super::failed);
        if output.json || self.rows.is_empty() {
            return written;
        }
        let tables = table::results(&summaries, terminal_columns());
        let below = if output.quiet { of_targets } else { below };
        output.raw((above + &tables + &below).as_bytes())?;
        written
    }
}

/// Refuses two outputs in one file, and an output in the place of an input. Devices and pipes take what they are given.
pub(super) fn refuse_shared_files(
    inputs: &[PathBuf],
    outputs: &[(&str, Option<&Path>)],
) -> Result<()> {
    let refused = |message: String| {
        let hint = "name another file; nothing was written";
        Err(Failure::Usage(message, hint))
    };
    let outputs = outputs
        .iter()
        .filter_map(|(option, path)| path.map(|path| (*option, path)));
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in outputs {
        if path.exists() && !path.is_file() {
            continue;
        }
        let place = place(path);
        if inputs.iter().any(|input| self::place(input) == place) {
            let path = path.display();
            return refused(format!("{option} would overwrite {path}, which is read"));
        }
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == place) {
            let path = path.display();
            return refused(format!("{other} and {option} name the same file, {path}"));
        }
        taken.push((option, place));
    }
    Ok(())
}

/// The same for every way to name a file, whether or not it exists yet.
fn place(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent()?;
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    let found = path.canonicalize().ok().or_else(of_folder);
    found.unwrap_or_else(|| path.to_owned())
}
