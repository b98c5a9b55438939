//! `import`: the records of a file, in transactions of a few thousand operations.
//!
//! Importing the same file again stores the same entries again: after an interruption, start over. With `--ack` each
//! commit is followed by a line with the number of records stored so far; once it is printed, these records survive
//! whatever the sync mode promises.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use indicatif::ProgressBar;
use kingtide::{
    BulkLoadReport, ColumnFamily, Db, ErrorKind, FamilyOptions, SyncMode, Transaction,
    TransactionOptions,
};
use serde_json::json;

use crate::{
    args::{Global, ImportArgs, ImportFormat, ImportSync},
    commands::open_for_writing,
    failure::{Failure, Result},
    output::Output,
    records::{
        CsvReader, Deb822Reader, Entry, JsonlReader, Malformed, Mapping, ReadError, RecordReader,
        ValueFrom,
    },
};

// A transaction is committed at this size even when it has fewer records than --batch allows.
const BATCH_BYTES_MAX: usize = 16 << 20;
// A commit that is refused because writers are ahead has already waited; it is tried so often.
const BUSY_ATTEMPTS_MAX: usize = 10;
// Skipped records are named one by one up to this many, then only counted.
const SKIPPED_NAMED_MAX: u64 = 20;

pub(super) fn run(args: &ImportArgs, global: &Global, output: &mut Output) -> Result<()> {
    let format = match args.format {
        Some(format) => format,
        None => format_of(&args.file)?,
    };
    let delimiter = delimiter_of(args)?;
    let mapping = mapping_of(args, format);
    // The input is opened first: a mistyped name must not create a database.
    let (input, bytes) = open_input(&args.file)?;
    let bar = output.progress(bytes);
    let input = BufReader::with_capacity(1 << 16, bar.wrap_read(input));
    let mut reader = reader_of(input, format, delimiter, &mapping)?;

    let db = open_for_writing(&args.at.directory, true)?;
    let family = db.open_family(global.family_name(), FamilyOptions::default())?;
    if args.sorted {
        let loaded = load_sorted(&db, &family, (&mut *reader, &mapping), (args, &bar));
        bar.finish_and_clear();
        let closed = db.close().map_err(Failure::from);
        let report = loaded?;
        closed?;
        let object = json!({"imported": report.entries, "tables": report.tables});
        let text = format!(
            "imported {} records into {} tables",
            report.entries, report.tables
        );
        return output.summary(&object, || text);
    }
    let mut import = Import {
        db: &db,
        family: &family,
        args,
        bar: &bar,
        transaction: None,
        batch: Vec::new(),
        batch_bytes: 0,
        stored: 0,
        skipped: 0,
        commits: 0,
    };
    let outcome = import.drain(&mut *reader, &mapping, output);
    let (stored, skipped, commits) = (import.stored, import.skipped, import.commits);
    bar.finish_and_clear();
    // Closed even after a failure, so that what was stored before it is durable; the first error is the one to tell.
    let closed = db.close().map_err(Failure::from);
    outcome.and(closed)?;
    if skipped > 0 {
        output.note(&format!("{skipped} malformed records skipped"));
    }
    let text = format!("imported {stored} records in {commits} transactions");
    if args.ack && !output.json {
        // Standard output belongs to the acknowledgements.
        output.note(&text);
        return Ok(());
    }
    let object = json!({"imported": stored, "skipped": skipped, "transactions": commits});
    output.summary(&object, || text)
}

/// The state of an import.
struct Import<'a> {
    db: &'a Db,
    family: &'a ColumnFamily,
    args: &'a ImportArgs,
    bar: &'a ProgressBar,
    transaction: Option<Transaction>,
    batch: Vec<Entry>,
    batch_bytes: usize,
    stored: u64,
    skipped: u64,
    commits: u64,
}

impl Import<'_> {
    fn drain(
        &mut self,
        reader: &mut dyn RecordReader,
        mapping: &Mapping,
        output: &mut Output,
    ) -> Result<()> {
        loop {
            let entry = match reader.next_record() {
                Ok(None) => return self.commit(output),
                Ok(Some(record)) => mapping.entry(&record),
                Err(ReadError::Malformed(malformed)) => Err(malformed),
                Err(ReadError::Io(source)) => {
                    self.commit(output)?;
                    return Err(Failure::Io(format!("read {}", self.name()), source));
                }
            };
            match entry {
                Ok(entry) => self.add(entry, output)?,
                Err(malformed) if malformed.can_skip && self.args.skip_bad => {
                    self.skip(&malformed, output);
                }
                Err(malformed) => {
                    // What stands before the trouble is stored, and the message says so.
                    self.commit(output)?;
                    return Err(self.refusal(&malformed));
                }
            }
        }
    }

    fn add(&mut self, entry: Entry, output: &mut Output) -> Result<()> {
        self.batch_bytes += entry.key.len() + entry.value.len();
        self.batch.push(entry);
        if self.batch.len() >= self.args.batch as usize || self.batch_bytes >= BATCH_BYTES_MAX {
            self.commit(output)?;
        }
        Ok(())
    }

    /// Stores the batch. A record that the engine refuses for its size is malformed like any other.
    fn commit(&mut self, output: &mut Output) -> Result<()> {
        let mut busy = 0;
        while !self.batch.is_empty() {
            match self.try_commit() {
                Ok(()) => {
                    self.stored += self.batch.len() as u64;
                    self.commits += 1;
                    self.batch.clear();
                    self.batch_bytes = 0;
                    self.acknowledge(output)?;
                }
                Err((Some(position), source)) if is_refusal(&source) => {
                    let entry = self.batch.remove(position);
                    let malformed = Malformed {
                        line: entry.line,
                        message: source.to_string(),
                        can_skip: true,
                    };
                    if !self.args.skip_bad {
                        self.batch.truncate(position);
                        self.commit(output)?;
                        return Err(self.refusal(&malformed));
                    }
                    self.skip(&malformed, output);
                }
                Err((_, source))
                    if source.kind() == ErrorKind::Busy && busy < BUSY_ATTEMPTS_MAX =>
                {
                    busy += 1;
                }
                Err((_, source)) => return Err(source.into()),
            }
        }
        Ok(())
    }

    /// One attempt; an error that one entry caused comes with its position.
    fn try_commit(&mut self) -> std::result::Result<(), (Option<usize>, kingtide::Error)> {
        let mut transaction = self.begin().map_err(|source| (None, source))?;
        for (position, entry) in self.batch.iter().enumerate() {
            transaction
                .put_expiring(self.family, &entry.key, &entry.value, entry.expires_at)
                .map_err(|source| (Some(position), source))?;
        }
        transaction.commit().map_err(|source| (None, source))?;
        self.transaction = Some(transaction);
        Ok(())
    }

    /// A transaction: the committed one of the batch before, reset, if there is one.
    fn begin(&mut self) -> kingtide::Result<Transaction> {
        if let Some(mut transaction) = self.transaction.take() {
            transaction.reset()?;
            return Ok(transaction);
        }
        self.db.begin_with(TransactionOptions {
            sync: match self.args.sync {
                ImportSync::Full => Some(SyncMode::Full),
                ImportSync::None => Some(SyncMode::None),
            },
            ..TransactionOptions::default()
        })
    }

    fn acknowledge(&mut self, output: &mut Output) -> Result<()> {
        self.bar.set_message(format!("{} records", self.stored));
        if !self.args.ack {
            return Ok(());
        }
        if output.json {
            output.object(&json!({"acknowledged": self.stored}))?;
        } else {
            output.line(&self.stored.to_string())?;
        }
        output.flush()
    }

    fn skip(&mut self, malformed: &Malformed, output: &Output) {
        self.skipped += 1;
        if self.skipped <= SKIPPED_NAMED_MAX {
            let text = format!("skipped: line {}: {}", malformed.line, malformed.message);
            self.bar.suspend(|| output.note(&text));
        }
    }

    fn refusal(&self, malformed: &Malformed) -> Failure {
        Failure::Malformed(format!(
            "{}, line {}: {} ({} records before it are stored)",
            self.name(),
            malformed.line,
            malformed.message,
            self.stored
        ))
    }

    fn name(&self) -> String {
        input_name(&self.args.file)
    }
}

/// The records as one bulk load: all of them, or none.
fn load_sorted(
    db: &Db,
    family: &ColumnFamily,
    (reader, mapping): (&mut dyn RecordReader, &Mapping),
    (args, bar): (&ImportArgs, &ProgressBar),
) -> Result<BulkLoadReport> {
    let refusal = |line: u64, message: &str| {
        let name = input_name(&args.file);
        Failure::Malformed(format!(
            "{name}, line {line}: {message} (nothing is stored)"
        ))
    };
    let mut loader = db.bulk_load(family)?;
    let mut count = 0_u64;
    loop {
        let entry = match reader.next_record() {
            Ok(None) => break,
            Ok(Some(record)) => mapping.entry(&record),
            Err(ReadError::Malformed(malformed)) => Err(malformed),
            Err(ReadError::Io(source)) => {
                let doing = format!("read {}", input_name(&args.file));
                return Err(Failure::Io(doing, source));
            }
        };
        let entry = entry.map_err(|malformed| refusal(malformed.line, &malformed.message))?;
        match loader.put_expiring(&entry.key, &entry.value, entry.expires_at) {
            Ok(()) => count += 1,
            Err(source) if is_refusal(&source) => {
                return Err(refusal(entry.line, &source.to_string()));
            }
            Err(source) => return Err(source.into()),
        }
        if count.is_multiple_of(1000) {
            bar.set_message(format!("{count} records"));
        }
    }
    Ok(loader.finish()?)
}

/// Errors that speak of one entry, not of the database.
fn is_refusal(source: &kingtide::Error) -> bool {
    matches!(
        source.kind(),
        ErrorKind::TooLarge | ErrorKind::InvalidArgument
    )
}

fn input_name(path: &Path) -> String {
    if path.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// The input and its length, when it has one.
fn open_input(path: &Path) -> Result<(Box<dyn Read>, Option<u64>)> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let doing = format!("open {}", path.display());
    let file = File::open(path).map_err(Failure::io(&doing))?;
    let metadata = file.metadata().map_err(Failure::io(&doing))?;
    if metadata.is_dir() {
        return Err(Failure::Io(doing, io::ErrorKind::IsADirectory.into()));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), bytes))
}

fn format_of(path: &Path) -> Result<ImportFormat> {
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    let name = path.file_name().map(|name| name.to_string_lossy());
    match (extension.as_deref(), name.as_deref()) {
        (Some("csv" | "tsv"), _) => Ok(ImportFormat::Csv),
        (Some("jsonl" | "ndjson"), _) => Ok(ImportFormat::Jsonl),
        (Some("deb822" | "control" | "dsc"), _) | (_, Some("Packages" | "Sources")) => {
            Ok(ImportFormat::Deb822)
        }
        _ => Err(Failure::Usage(
            format!("the name {} does not tell the format", input_name(path)),
            "say --format csv, jsonl or deb822",
        )),
    }
}

fn delimiter_of(args: &ImportArgs) -> Result<u8> {
    let Some(text) = args.delimiter.as_deref() else {
        let is_tabs = args
            .file
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"));
        return Ok(if is_tabs { b'\t' } else { b',' });
    };
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err(Failure::Usage(
            format!("{text:?} cannot separate fields"),
            "write one ASCII character that is neither a quote nor a line end, or `tab`",
        )),
    }
}

fn mapping_of(args: &ImportArgs, format: ImportFormat) -> Mapping {
    let is_deb822 = format == ImportFormat::Deb822;
    let default_key = if is_deb822 { "Package" } else { "key" };
    let value = match (&args.key_field, &args.value_field) {
        (_, Some(name)) => ValueFrom::Field(name.clone()),
        (None, None) if !is_deb822 => ValueFrom::Field("value".into()),
        (_, None) => ValueFrom::WholeRecord,
    };
    Mapping {
        key_field: args.key_field.clone().unwrap_or(default_key.into()),
        value,
        is_exported: !is_deb822 && args.key_field.is_none() && args.value_field.is_none(),
        ignore_case: is_deb822,
    }
}

fn reader_of<'a>(
    input: impl BufRead + 'a,
    format: ImportFormat,
    delimiter: u8,
    mapping: &Mapping,
) -> Result<Box<dyn RecordReader + 'a>> {
    match format {
        ImportFormat::Jsonl => Ok(Box::new(JsonlReader::new(input))),
        ImportFormat::Deb822 => Ok(Box::new(Deb822Reader::new(input))),
        ImportFormat::Csv => {
            let reader = CsvReader::new(input, delimiter).map_err(|source| match source {
                ReadError::Io(source) => Failure::Io("read the header".into(), source),
                ReadError::Malformed(malformed) => {
                    Failure::Malformed(format!("line {}: {}", malformed.line, malformed.message))
                }
            })?;
            if !reader.header().is_empty() {
                mapping.check_header(reader.header()).map_err(|message| {
                    Failure::Usage(
                        message,
                        "name the columns with --key-field and --value-field",
                    )
                })?;
            }
            Ok(Box::new(reader))
        }
    }
}
