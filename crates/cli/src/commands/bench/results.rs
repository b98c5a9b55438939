//! Where rows go: the files that were asked for, as soon as a run is over, so that they are kept whatever ends the program;
//! and the table and the page at the end.

use std::{fmt, path::PathBuf};

use kingtide_bench::{
    Row, Status, Summary, html,
    suite::{Target, judge},
};

use super::{
    fitted::terminal_columns,
    result_file::{Older, ResultFile, refuse_shared_files},
    table, targets,
};
use crate::{args::ResultFiles, failure::Result, output::Output};

/// How many lines below the table tell that rows did not go well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unwell {
    /// Marked `failed`.
    failed: usize,
    /// Marked `partial`.
    partial: usize,
}

impl Unwell {
    fn of(summaries: &[Summary]) -> Self {
        let first = summaries.iter().filter_map(|one| one.failure.as_ref());
        let (partial, failed): (Vec<&Row>, Vec<&Row>) =
            first.partition(|row| row.status == Status::Partial);
        Self {
            failed: failed.len(),
            partial: partial.len(),
        }
    }
}

impl fmt::Display for Unwell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failed, partial } = self;
        match (failed, partial) {
            (_, 0) => write!(f, "rows that failed, told above: {failed}"),
            (0, _) => write!(f, "rows that are partial, told above: {partial}"),
            _ => write!(f, "rows told above: {failed} failed, {partial} partial"),
        }
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
            report: ResultFile::create(files.report.as_deref())?,
            html: ResultFile::create(files.html.as_deref())?,
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

    /// Prints the tables, writes them where they were asked for, and gives all files their names. They are printed also when
    /// they cannot be written. `remark` says why they are not all that was asked for, if so. Answers how many lines below the
    /// table tell what did not go well. Without rows nothing is left of any file.
    pub(super) fn finish(
        mut self,
        notes: &[String],
        remark: Option<&str>,
        older: Older,
        output: &mut Output,
    ) -> Result<Unwell> {
        if self.rows.is_empty() {
            return Ok(Unwell::default());
        }
        let judged = judge(&self.targets, &self.rows, &self.engine);
        let above = remark.map_or_else(String::new, |remark| format!("{remark}\n"));
        let summaries = Summary::of(&self.rows);
        let mut below = table::versions(&summaries);
        below.extend(notes.iter().map(|note| format!("{note}\n")));
        let of_targets = targets::targets(&judged);
        if !of_targets.is_empty() {
            below.push('\n');
            below.push_str(&of_targets);
        }
        let mut written = Ok(());
        if let Some(report) = &mut self.report {
            let tables = table::results(&summaries, None);
            written = report.write((above.clone() + &tables + &below).as_bytes());
        }
        if let Some(page) = &mut self.html {
            let html = match remark {
                Some(remark) => html::report_of_part(&self.rows, &judged, remark),
                None => html::report(&self.rows, None, &judged),
            };
            written = written.and(page.write(html.as_bytes()));
        }
        let files = [self.csv, self.jsonl, self.report, self.html];
        for file in files.into_iter().flatten() {
            match file.install(older) {
                Ok(Some(remark)) => output.note(&remark),
                Ok(None) => {}
                Err(source) => written = written.and(Err(source)),
            }
        }
        let unwell = Unwell::of(&summaries);
        let written = written.map(|()| unwell).map_err(super::failed);
        if output.json {
            return written;
        }
        let tables = table::results(&summaries, terminal_columns());
        let below = if output.quiet { of_targets } else { below };
        output.raw((above + &tables + &below).as_bytes())?;
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_failed_and_rows_that_were_cut_short_are_told_apart() {
        let told = |statuses: &[Status]| {
            let row = |(number, status): (usize, &Status)| Row {
                test_name: number.to_string(),
                status: *status,
                ..Row::default()
            };
            let rows: Vec<Row> = statuses.iter().enumerate().map(row).collect();
            Unwell::of(&Summary::of(&rows)).to_string()
        };
        let (ok, failed, partial) = (Status::Ok, Status::Failed, Status::Partial);
        assert_eq!(
            told(&[ok, failed, failed]),
            "rows that failed, told above: 2"
        );
        assert_eq!(told(&[partial, ok]), "rows that are partial, told above: 1");
        assert_eq!(
            told(&[failed, partial, ok, failed]),
            "rows told above: 2 failed, 1 partial"
        );
    }
}
