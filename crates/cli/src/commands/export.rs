//! `export`: all entries of a family, streaming, at one snapshot.
//!
//! JSON lines hold every byte: text as it is, other bytes in hexadecimal under `key_hex` and `value_hex`; the expiry
//! when there is one. CSV holds bytes as they are and the expiry only when asked. `import` reads both back.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use kingtide::IterOptions;
use serde_json::{Map, Value, json};

use crate::{
    args::{ExportArgs, ExportFormat, Global},
    commands::{open_for_reading, scan::insert_expiry},
    failure::{Failure, Result},
    output::Output,
    text::insert_bytes,
};

// How often the progress line is told, in entries: telling it each time would cost more than writing.
const PROGRESS_ENTRIES: u64 = 1024;

pub(super) fn run(args: &ExportArgs, global: &Global, output: &mut Output) -> Result<()> {
    let format = args.format.unwrap_or_else(|| format_of(&args.file));
    if args.expiry && format == ExportFormat::Jsonl {
        return Err(Failure::Usage(
            "--expiry is for CSV".into(),
            "leave it out: JSON lines always tell when a key expires",
        ));
    }
    let db = open_for_reading(&args.at.directory)?;
    let family = db.family(global.family_name())?;
    let mut iter = db.iter(&family, IterOptions::default())?;
    let mut target = Target::open(&args.file, output)?;
    let bar = target.output.progress(None);
    let mut row = Row {
        format,
        expiry: args.expiry,
        bytes: Vec::new(),
    };
    row.header();
    target.write(&row.bytes)?;
    let (mut exported, mut written, mut unwritten_expiries) = (0_u64, 0_u64, 0_u64);
    let mut key = Vec::new();
    let mut valid = iter.seek_to_first()?;
    while valid {
        key.clear();
        key.extend_from_slice(iter.key());
        let expires_at = iter.expires_at().filter(|seconds| *seconds > 0);
        row.fill(&key, iter.value()?, expires_at);
        target.write(&row.bytes)?;
        written += row.bytes.len() as u64;
        exported += 1;
        let is_lost = expires_at.is_some() && format == ExportFormat::Csv && !args.expiry;
        unwritten_expiries += u64::from(is_lost);
        if exported.is_multiple_of(PROGRESS_ENTRIES) {
            bar.set_position(written);
        }
        valid = iter.next()?;
    }
    bar.finish_and_clear();
    target.finish()?;
    if unwritten_expiries > 0 {
        output.note(&format!(
            "{unwritten_expiries} of the keys expire, which the CSV does not tell; --expiry adds a column"
        ));
    }
    if args.file.as_os_str() == "-" {
        return Ok(());
    }
    output.summary(&json!({"exported": exported}), || {
        format!("exported {exported} entries to {}", args.file.display())
    })
}

fn format_of(file: &Path) -> ExportFormat {
    match file.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("csv") => ExportFormat::Csv,
        _ => ExportFormat::Jsonl,
    }
}

/// The file, or standard output.
struct Target<'a> {
    output: &'a mut Output,
    file: Option<(PathBuf, BufWriter<File>)>,
}

impl<'a> Target<'a> {
    fn open(path: &Path, output: &'a mut Output) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self { output, file: None });
        }
        // An existing file is never overwritten: it may be the only backup.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(Failure::io(format!("create {}", path.display())))?;
        Ok(Self {
            output,
            file: Some((path.to_owned(), BufWriter::with_capacity(1 << 16, file))),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.file {
            None => self.output.raw(bytes),
            Some((path, file)) => file
                .write_all(bytes)
                .map_err(|source| write_failure(path, source)),
        }
    }

    /// A file is complete and durable when this returns.
    fn finish(self) -> Result<()> {
        let Some((path, mut file)) = self.file else {
            return self.output.flush();
        };
        // The name is durable only once its directory is.
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        file.flush()
            .and_then(|()| file.get_ref().sync_all())
            .and_then(|()| File::open(folder)?.sync_all())
            .map_err(|source| write_failure(&path, source))
    }
}

fn write_failure(path: &Path, source: io::Error) -> Failure {
    Failure::Io(format!("write {}", path.display()), source)
}

/// One line of the export.
struct Row {
    format: ExportFormat,
    expiry: bool,
    bytes: Vec<u8>,
}

impl Row {
    fn header(&mut self) {
        self.bytes.clear();
        match (self.format, self.expiry) {
            (ExportFormat::Csv, false) => self.bytes.extend_from_slice(b"key,value\n"),
            (ExportFormat::Csv, true) => self.bytes.extend_from_slice(b"key,value,expires_at\n"),
            (ExportFormat::Jsonl, _) => {}
        }
    }

    fn fill(&mut self, key: &[u8], value: &[u8], expires_at: Option<i64>) {
        self.bytes.clear();
        match self.format {
            ExportFormat::Csv => {
                csv_field(key, &mut self.bytes);
                self.bytes.push(b',');
                csv_field(value, &mut self.bytes);
                if self.expiry {
                    self.bytes.push(b',');
                    let text = expires_at.map(|seconds| seconds.to_string());
                    self.bytes.extend(text.unwrap_or_default().into_bytes());
                }
            }
            ExportFormat::Jsonl => {
                let mut object = Map::new();
                insert_bytes(&mut object, "key", key);
                insert_bytes(&mut object, "value", value);
                insert_expiry(&mut object, expires_at);
                self.bytes
                    .extend(Value::Object(object).to_string().into_bytes());
            }
        }
        self.bytes.push(b'\n');
    }
}

/// Appends a field, in quotes where RFC 4180 asks for them. An empty field is quoted too, so that a line never looks
/// empty; a field that begins with a byte order mark, so that no reader takes it for one.
fn csv_field(bytes: &[u8], target: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !bytes.is_empty() && !bytes.starts_with(b"\xef\xbb\xbf") && !bytes.iter().any(is_special) {
        target.extend_from_slice(bytes);
        return;
    }
    target.push(b'"');
    for byte in bytes {
        if *byte == b'"' {
            target.push(b'"');
        }
        target.push(*byte);
    }
    target.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{CsvReader, Entry, JsonlReader, Mapping, RecordReader, ValueFrom};

    /// Goal: import reads back every byte of an export. Method: awkward entries through both formats.
    #[test]
    fn both_formats_survive_the_way_back() {
        let all: Vec<u8> = (0..=255).collect();
        let entries: Vec<(&[u8], &[u8], Option<i64>)> = vec![
            (b"plain", b"", None),
            (b"\xef\xbb\xbfmark", b"a,b", Some(1_900_000_000)),
            (b"quote\"", b"\"", None),
            (b"\r\n", b"\nlines\r", None),
            (b"\"", b" spaces ", None),
            (&all, &all, Some(5)),
        ];
        for format in [ExportFormat::Csv, ExportFormat::Jsonl] {
            let mut row = Row {
                format,
                expiry: format == ExportFormat::Csv,
                bytes: Vec::new(),
            };
            row.header();
            let mut text = row.bytes.clone();
            for (key, value, expires_at) in &entries {
                row.fill(key, value, *expires_at);
                text.extend_from_slice(&row.bytes);
            }
            let mut reader: Box<dyn RecordReader> = match format {
                ExportFormat::Csv => Box::new(CsvReader::new(&text[..], b',').expect("header")),
                ExportFormat::Jsonl => Box::new(JsonlReader::new(&text[..])),
            };
            let mapping = Mapping {
                key_field: "key".into(),
                value: ValueFrom::Field("value".into()),
                is_exported: true,
                ignore_case: false,
            };
            for (key, value, expires_at) in &entries {
                let record = reader.next_record().expect("whole").expect("as many");
                let Entry {
                    key: key_back,
                    value: value_back,
                    expires_at: expires_back,
                    ..
                } = mapping.entry(&record).expect("good");
                assert_eq!((&key_back[..], &value_back[..]), (*key, *value));
                assert_eq!(expires_back, expires_at.unwrap_or(0));
            }
            assert!(reader.next_record().expect("whole").is_none());
        }
    }
}
