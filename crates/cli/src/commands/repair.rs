//! `repair`: what is whole in a damaged database goes into a new one.

use std::path::PathBuf;

use kingtide::{ManifestFound, RepairLoss, RepairOptions, RepairReport};
use serde_json::{Value, json};

use crate::{
    args::RepairArgs,
    failure::{Failure, Result},
    output::Output,
    text::{Escape, escape, hex},
};

/// What is appended to the name of the damaged database when no other is given.
const REPAIRED: &str = ".repaired";

pub(super) fn repair(args: &RepairArgs, output: &mut Output) -> Result<()> {
    let into = (!args.dry_run).then(|| args.into.clone().unwrap_or_else(|| beside(args)));
    let options = RepairOptions {
        into: into.clone(),
        log_after_holes: args.log_after_holes,
        ..RepairOptions::default()
    };
    let bar = output.progress(Some(0));
    let report = kingtide::repair(&args.at.directory, &options, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = report?;
    print(&report, into, output)?;
    match report.losses.len() {
        0 if report.manifest == ManifestFound::Whole => Ok(()),
        count => {
            output.flush()?;
            Err(Failure::Lost(count))
        }
    }
}

/// The damaged database's name with an ending.
fn beside(args: &RepairArgs) -> PathBuf {
    let mut name = args.at.directory.clone().into_os_string();
    while name.to_string_lossy().ends_with('/') && name.len() > 1 {
        name = name.to_string_lossy().trim_end_matches('/').into();
    }
    name.push(REPAIRED);
    name.into()
}

fn print(report: &RepairReport, into: Option<PathBuf>, output: &mut Output) -> Result<()> {
    if output.json {
        return output.object(&as_json(report, into));
    }
    match report.manifest {
        ManifestFound::Whole => {}
        ManifestFound::Partly => output.line("the manifest is damaged; some of it is whole")?,
        ManifestFound::Lost => output.line("the manifest is lost; tables tell their families")?,
    }
    for loss in &report.losses {
        output.line(&format!("lost: {}", loss_text(loss)))?;
    }
    if report.has_no_log {
        output.line("there is no log: so it is after a close; after a crash, commits that were not in tables are lost")?;
    }
    if report.log_records_behind_holes > 0 {
        let count = report.log_records_behind_holes;
        output.line(&format!(
            "{count} records of the log lie behind a hole; --log-after-holes uses them"
        ))?;
    }
    for xid in &report.prepared {
        output.line(&format!("prepared: {}", escape(xid, Escape::Field)))?;
    }
    for leftover in &report.leftovers {
        output.line(&format!("leftover: {leftover}"))?;
    }
    for family in &report.families {
        let name = escape(family.name.as_bytes(), Escape::Field);
        let mut text = format!("family {name}: {} keys", family.entries);
        if family.lost_keys > 0 {
            text.push_str(&format!(", {} known to be lost", family.lost_keys));
        }
        if family.is_name_lost {
            text.push_str(", its name is lost");
        }
        if family.are_settings_lost {
            text.push_str(", its settings are lost");
        }
        output.line(&text)?;
    }
    match into {
        Some(into) => output.note(&format!("written to {}", into.display())),
        None => output.note("nothing was written"),
    }
    Ok(())
}

fn loss_text(loss: &RepairLoss) -> String {
    let mut text = format!("{} at {}: {}", loss.file, loss.offset, loss.what);
    if loss.bytes > 0 {
        text.push_str(&format!(" ({} bytes)", loss.bytes));
    }
    let names = loss.families.iter();
    let names: Vec<String> = names
        .map(|name| escape(name.as_bytes(), Escape::Field))
        .collect();
    if !names.is_empty() {
        text.push_str(&format!(", of family {}", names.join(", ")));
    }
    if loss.has_keys && loss.keys != (None, None) {
        let key = |key: &Option<Vec<u8>>, open: &str| match key {
            Some(key) => escape(key, Escape::Field),
            None => open.to_owned(),
        };
        text.push_str(&format!(
            ", keys from {} to {}",
            key(&loss.keys.0, "the first"),
            key(&loss.keys.1, "the last")
        ));
    }
    text
}

fn as_json(report: &RepairReport, into: Option<PathBuf>) -> Value {
    let key = |key: &Option<Vec<u8>>| key.as_ref().map(|key| hex(key));
    let losses: Vec<Value> = report
        .losses
        .iter()
        .map(|loss| {
            json!({
                "file": loss.file, "offset": loss.offset, "bytes": loss.bytes, "what": loss.what,
                "families": loss.families, "has_keys": loss.has_keys,
                "first_key_hex": key(&loss.keys.0), "last_key_hex": key(&loss.keys.1),
            })
        })
        .collect();
    let families: Vec<Value> = report
        .families
        .iter()
        .map(|family| {
            json!({
                "name": family.name, "keys": family.entries, "lost_keys": family.lost_keys,
                "is_name_lost": family.is_name_lost, "are_settings_lost": family.are_settings_lost,
            })
        })
        .collect();
    let prepared: Vec<String> = report.prepared.iter().map(|xid| hex(xid)).collect();
    json!({
        "manifest": match report.manifest {
            ManifestFound::Whole => "whole",
            ManifestFound::Partly => "partly",
            ManifestFound::Lost => "lost",
        },
        "into": into.map(|into| into.display().to_string()),
        "families": families,
        "losses": losses,
        "tables": report.tables,
        "log_records": report.log_records,
        "log_records_behind_holes": report.log_records_behind_holes,
        "has_no_log": report.has_no_log,
        "prepared_hex": prepared,
        "leftovers": report.leftovers,
    })
}
