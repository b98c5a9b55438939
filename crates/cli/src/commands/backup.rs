//! `backup` and `restore`: whole copies of a database, verified.

use std::{io, path::Path};

use kingtide::{BackupReport, Db};
use serde_json::{Value, json};

use crate::{
    args::{BackupArgs, RestoreArgs},
    commands::{inspect, open_for_reading, open_for_writing},
    failure::{Failure, Result},
    output::Output,
    text::size,
};

/// How often a backup begins again because the program that has the database open removed a file meanwhile.
const ATTEMPTS: usize = 5;

/// Copies a database, which may be in use by another program.
pub(super) fn backup(args: &BackupArgs, output: &mut Output) -> Result<()> {
    let mut attempt = 1;
    let report = loop {
        let outcome = open_for_reading(&args.at.directory).and_then(|db| {
            if args.checkpoint {
                Ok(db.checkpoint(&args.target)?)
            } else {
                copy(&db, &args.target, output)
            }
        });
        match outcome {
            Err(failure) if attempt < ATTEMPTS && is_outrun(&failure) => attempt += 1,
            outcome => break outcome?,
        }
    };
    print_report("backed up", &report, &args.target, output)
}

/// Copies a backup to where it is used from then on.
pub(super) fn restore(args: &RestoreArgs, output: &mut Output) -> Result<()> {
    let backup = open_for_reading(&args.backup)?;
    let bar = output.progress(Some(0));
    bar.set_message("verifying");
    let verdict = backup.verify(&mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let verdict = verdict?;
    if !verdict.damages.is_empty() {
        return inspect::print_verdict(&verdict, output);
    }
    let report = copy(&backup, &args.target, output)?;
    backup.close()?;
    // The first opening is done here, where somebody is watching.
    open_for_writing(&args.target, false)?.close()?;
    print_report("restored", &report, &args.target, output)
}

fn copy(db: &Db, target: &Path, output: &Output) -> Result<BackupReport> {
    let bar = output.progress(Some(0));
    bar.set_message("copying");
    let report = db.backup(target, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    Ok(report?)
}

/// True when a file that the reader still needed is gone.
fn is_outrun(failure: &Failure) -> bool {
    let Failure::Engine(error) = failure else {
        return false;
    };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return cause.kind() == io::ErrorKind::NotFound;
        }
        source = cause.source();
    }
    false
}

fn print_report(
    done: &str,
    report: &BackupReport,
    target: &Path,
    output: &mut Output,
) -> Result<()> {
    output.summary(&object(report), || {
        let files = report.files_linked + report.files_copied + report.files_written;
        format!(
            "{done} to {}: {files} files, {}, all commits up to {}",
            target.display(),
            size(report.bytes),
            report.sequence
        )
    })
}

fn object(report: &BackupReport) -> Value {
    json!({
        "sequence": report.sequence.0,
        "files_linked": report.files_linked,
        "files_copied": report.files_copied,
        "files_written": report.files_written,
        "bytes": report.bytes,
    })
}
