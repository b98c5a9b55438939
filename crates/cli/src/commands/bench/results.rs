//! Where rows go: the files that were asked for, as soon as a run is over, so that an interruption costs at most one run;
//! and the table at the end.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use kingtide_bench::{BenchError, Row, Summary, html};

use super::table;
use crate::{
    args::BenchOutputs,
    failure::{Failure, Result},
    output::Output,
};

/// A file and its name.
struct Target {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Target {
    /// Made at once, so that a path that cannot be written is told before anything is run.
    fn create(path: Option<&Path>) -> Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let file = File::create(path).map_err(Failure::io(format!("write {}", path.display())))?;
        Ok(Some(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        }))
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
    csv: Option<Target>,
    jsonl: Option<Target>,
    report: Option<Target>,
    html: Option<Target>,
}

impl Results {
    pub(super) fn create(outputs: &BenchOutputs) -> Result<Self> {
        Ok(Self {
            rows: Vec::new(),
            csv: Target::create(outputs.csv.as_deref())?,
            jsonl: Target::create(outputs.jsonl.as_deref())?,
            report: Target::create(outputs.report.as_deref())?,
            html: Target::create(outputs.html.as_deref())?,
        })
    }

    /// Keeps rows and writes them.
    pub(super) fn add(&mut self, rows: &[Row], output: &mut Output) -> kingtide_bench::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if let Some(csv) = &mut self.csv {
            let mut bytes = Vec::new();
            Row::write_csv(rows, &mut bytes)?;
            // The header stands once. It has no quoted line ends.
            let body = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(end) if !self.rows.is_empty() => &bytes[end + 1..],
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
        self.rows.extend_from_slice(rows);
        Ok(())
    }

    /// Prints the table, and writes it where it was asked for.
    pub(super) fn finish(mut self, notes: &[String], output: &mut Output) -> Result<()> {
        let mut text = table::results(&Summary::of(&self.rows));
        for note in notes {
            text.push_str(note);
            text.push('\n');
        }
        if let Some(report) = &mut self.report {
            report.write(text.as_bytes()).map_err(super::failed)?;
        }
        if let Some(page) = &mut self.html {
            let html = html::report(&self.rows, None);
            page.write(html.as_bytes()).map_err(super::failed)?;
        }
        if output.json || self.rows.is_empty() {
            return Ok(());
        }
        if output.quiet {
            return output.raw(table::results(&Summary::of(&self.rows)).as_bytes());
        }
        output.raw(text.as_bytes())
    }
}
