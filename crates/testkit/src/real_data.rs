//! Real records through the command line, killed half way.
//!
//! `kingtide import --ack` runs as a child and prints after each commit how many records are stored. The child is
//! killed after a drawn number of such lines; the database is then opened here, and every record that was told stored
//! must be there with its value, and nothing that is not in the input. Some kills later the import runs to its end; the
//! scan must show every key once, in order, with the value of its last record, and an export must show the same.
//!
//! The input is a Debian package index (deb822(5)). It is parsed here on its own, so that a mistake of the importer
//! shows.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use kingtide::{Db, Options};
use kingtide_base::KeyOrder;

use crate::{
    dump::{DEFAULT_FAMILY, dump_family},
    random::Random,
    violation::{Checked, Violation, ensure},
};

/// What to prove and with what.
#[derive(Clone, Debug)]
pub struct RealData {
    /// The program `kingtide`.
    pub program: PathBuf,
    /// The package index.
    pub input: PathBuf,
    /// Imports that are killed before the last one.
    pub kills: u64,
    /// Records of one transaction.
    pub batch: usize,
    /// Chooses when to kill.
    pub seed: u64,
}

/// What the proof went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDataTally {
    /// Records of the input.
    pub records: usize,
    /// Different keys.
    pub keys: usize,
    /// Imports that were killed.
    pub kills: u64,
    /// The most records that were told stored when a kill came.
    pub acknowledged: usize,
}

/// The fields of a record, without white space: how lines of a value are joined is the importer's choice.
type Fields = BTreeMap<String, String>;

struct Record {
    key: Vec<u8>,
    fields: Fields,
}

/// Runs the proof.
///
/// # Errors
/// The violation.
pub fn run(settings: &RealData) -> Checked<RealDataTally> {
    let records = parse(&fs::read(&settings.input)?);
    ensure(!records.is_empty(), || {
        "the input has no records".to_owned()
    })?;
    let directory = tempfile::tempdir()?;
    let database = directory.path().join("db");
    let mut random = Random::new(settings.seed);
    let mut tally = RealDataTally {
        records: records.len(),
        ..RealDataTally::default()
    };
    let batches = records.len().div_ceil(settings.batch);
    for kill in 0..settings.kills {
        let lines = random.between(1, batches.max(2) - 1);
        let sync = if kill.is_multiple_of(2) {
            "full"
        } else {
            "none"
        };
        let stored = import(settings, &database, sync, Some(lines))?;
        tally.kills += 1;
        tally.acknowledged = tally.acknowledged.max(stored);
        let told = Told {
            now: stored,
            ever: tally.acknowledged,
            unacknowledged_max: settings.batch,
        };
        check(&database, &records, &told).map_err(|violation| {
            violation.within(format_args!("after kill {kill}, seed {}", settings.seed))
        })?;
    }
    let stored = import(settings, &database, "full", None)?;
    ensure(stored == records.len(), || {
        format!(
            "the import tells {stored} records stored, the input has {}",
            records.len()
        )
    })?;
    let told = Told {
        now: stored,
        ever: stored,
        unacknowledged_max: 0,
    };
    tally.keys = check(&database, &records, &told)?;
    check_export(settings, &database, directory.path())?;
    Ok(tally)
}

/// Imports; kills the child after `lines` acknowledgements if asked to. The number of records in the last one.
fn import(
    settings: &RealData,
    database: &Path,
    sync: &str,
    lines: Option<usize>,
) -> Checked<usize> {
    let mut child = Command::new(&settings.program)
        .arg("import")
        .arg(database)
        .arg(&settings.input)
        .args(["--format", "deb822", "--ack", "--sync", sync, "--batch"])
        .arg(settings.batch.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stored = 0;
    let mut count = 0;
    if let Some(pipe) = child.stdout.take() {
        for line in BufReader::new(pipe).split(b'\n') {
            let line = line?;
            let digits: String = String::from_utf8_lossy(&line)
                .chars()
                .filter(char::is_ascii_digit)
                .collect();
            if let Ok(number) = digits.parse() {
                stored = number;
                count += 1;
            }
            if Some(count) == lines {
                child.kill()?;
            }
        }
    }
    let status = child.wait()?;
    ensure(lines.is_some() || status.success(), || {
        format!("the import ended with {status}")
    })?;
    Ok(stored)
}

/// How many records were told stored.
struct Told {
    /// By the last import: no older record of their keys may stand in their place.
    now: usize,
    /// By any import: their keys are there.
    ever: usize,
    /// Records that may be there without having been told.
    unacknowledged_max: usize,
}

/// What was told stored is there, and nothing that no import had come to. The number of keys.
fn check(database: &Path, records: &[Record], told: &Told) -> Checked<usize> {
    let db = Db::open(database, Options::default())
        .map_err(|error| Violation::from(error).within("open"))?;
    let family = db.family(DEFAULT_FAMILY)?;
    let found = dump_family(&db, &family, &KeyOrder::BYTEWISE)?;
    let ceiling = told.ever + told.unacknowledged_max;
    let mut allowed: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (index, record) in records.iter().enumerate().take(ceiling) {
        allowed.entry(&record.key).or_default().push(index);
    }
    let mut present: BTreeMap<&[u8], usize> = BTreeMap::new();
    for (key, value) in &found {
        let fields = fields_of_json(value)?;
        let candidates = allowed.get(key.as_slice()).map_or(&[][..], Vec::as_slice);
        let is_held = |index: &&usize| records[**index].fields == fields;
        let Some(index) = candidates.iter().rev().find(is_held) else {
            return Err(Violation::new(format!(
                "\"{}\" holds what no record says",
                key.escape_ascii()
            )));
        };
        present.insert(key, *index);
    }
    for (index, record) in records.iter().enumerate().take(told.ever) {
        let oldest = if index < told.now { index } else { 0 };
        let is_there = present
            .get(record.key.as_slice())
            .is_some_and(|found| *found >= oldest);
        ensure(is_there, || {
            format!(
                "record {index}, \"{}\", was told stored and is missing or old",
                record.key.escape_ascii()
            )
        })?;
        ensure(db.contains(&family, &record.key)?, || {
            format!("a point read misses \"{}\"", record.key.escape_ascii())
        })?;
    }
    db.close()?;
    Ok(found.len())
}

/// The export has one line per entry, in the order of the scan, with the same keys and values.
fn check_export(settings: &RealData, database: &Path, directory: &Path) -> Checked {
    let file = directory.join("export.jsonl");
    let status = Command::new(&settings.program)
        .arg("export")
        .arg(database)
        .arg(&file)
        .args(["--format", "jsonl"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure(status.success(), || {
        format!("the export ended with {status}")
    })?;
    let db = Db::open(
        database,
        Options {
            read_only: true,
            ..Options::default()
        },
    )?;
    let entries = dump_family(&db, &db.family(DEFAULT_FAMILY)?, &KeyOrder::BYTEWISE)?;
    db.close()?;
    let text = fs::read_to_string(&file)?;
    ensure(text.lines().count() == entries.len(), || {
        format!(
            "the export has {} lines for {} entries",
            text.lines().count(),
            entries.len()
        )
    })?;
    for (line, (key, value)) in text.lines().zip(&entries) {
        let exported = parse_json(line.as_bytes())?;
        let field = |name: &str| {
            exported
                .get(name)
                .and_then(serde_json::Value::as_str)
                .map(str::as_bytes)
        };
        let is_same =
            field("key") == Some(key.as_slice()) && field("value") == Some(value.as_slice());
        ensure(is_same, || {
            format!("the export differs at \"{}\"", key.escape_ascii())
        })?;
    }
    Ok(())
}

fn parse_json(bytes: &[u8]) -> Checked<serde_json::Value> {
    serde_json::from_slice(bytes).map_err(|error| Violation::new(format!("not JSON: {error}")))
}

fn fields_of_json(value: &[u8]) -> Checked<Fields> {
    let json = parse_json(value)?;
    let fields = json
        .as_object()
        .ok_or_else(|| Violation::new("a value is not a JSON object"))?;
    Ok(fields
        .iter()
        .map(|(name, text)| {
            (
                name.to_lowercase(),
                squeeze(text.as_str().unwrap_or_default()),
            )
        })
        .collect())
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The records of a package index: paragraphs of `Name: value`, with continuation lines that begin with a blank.
fn parse(bytes: &[u8]) -> Vec<Record> {
    let text = String::from_utf8_lossy(bytes);
    let mut records = Vec::new();
    let mut key = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            if !key.is_empty() {
                let squeezed = fields
                    .drain(..)
                    .map(|(name, value)| (name, squeeze(&value)));
                records.push(Record {
                    key: std::mem::take(&mut key),
                    fields: squeezed.collect(),
                });
            }
            fields.clear();
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':').filter(|_| !line.starts_with('#'))
        {
            if name.eq_ignore_ascii_case("package") {
                key = value.trim().as_bytes().to_vec();
            }
            fields.push((name.trim().to_lowercase(), value.to_owned()));
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_become_records() {
        let records = parse(b"# c\nPackage: a\nDescription: x\n  y\n .\n\n\nPackage: b\nSize: 1\n");
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].key, b"a");
        assert_eq!(records[0].fields["description"], "xy.");
        let json = br#"{"Package":"a","Description":"x\n y\n."}"#;
        assert_eq!(fields_of_json(json).unwrap(), records[0].fields);
    }
}
