//! Every command and option. Help texts, completions and the manual page come from here.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use clap_complete::Shell;
use kingtide_bench::{Codec, EngineChoice, Pattern, Phase, SyncChoice};

/// An embedded transactional key-value store.
///
/// Exit codes: 0 success, 1 key not found, 2 error.
#[derive(Debug, Parser)]
#[command(name = "kingtide", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of all commands.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// The database's directory; replaces the argument DIR. For `bench`: where to make temporary databases
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) db: Option<PathBuf>,
    /// The column family [default: default]
    #[arg(long, short = 'f', value_name = "NAME", global = true)]
    pub(crate) family: Option<String>,
    /// Print one JSON object per line; errors too, on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress, no summaries, no remarks
    #[arg(long, short = 'q', global = true)]
    pub(crate) quiet: bool,
}

impl Global {
    /// The family to work on.
    pub(crate) fn family_name(&self) -> &str {
        self.family.as_deref().unwrap_or("default")
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set a key to a value
    Put(PutArgs),
    /// Print the value of a key; exit code 1 when there is none
    Get(GetArgs),
    /// Remove a key
    Delete(DeleteArgs),
    /// Print keys and values in order
    Scan(ScanCommand),
    /// Work interactively, or run a script from standard input
    Shell(ShellArgs),
    /// Write the records of a file into the database
    Import(ImportArgs),
    /// Write all keys and values to a file
    Export(ExportArgs),
    /// Print counters and the shape of every family
    Stats(Directory),
    /// Print which files there are: levels, tables, value files, log
    Lsm(LsmArgs),
    /// Read and check every byte; exit code 2 when something is damaged
    Verify(Directory),
    /// Copy a database, which may be in use, to another directory; every copied file is verified
    Backup(BackupArgs),
    /// Verify a backup, copy it to a new directory, and open it there once
    Restore(RestoreArgs),
    /// Merge the tables of a family, or of a range of its keys, to the bottom
    Compact(CompactArgs),
    /// Write everything in memory to tables and compact all families, or one
    Purge(Directory),
    /// List the transactions that wait for the outcome of a two-phase commit, or give the outcome
    Prepared(PreparedArgs),
    /// List the column families
    Families(Directory),
    /// Copy a TidesDB database through its own library, and compare the copy; an interrupted copy goes on
    Migrate(MigrateArgs),
    /// Measure this engine, and others that are installed
    Bench(Box<BenchArgs>),
    /// Print a completion script
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Print the manual page, of the program or of one command
    Man {
        /// Of which command
        command: Option<String>,
    },
    /// Run one benchmark: settings on standard input, report on standard output
    #[command(hide = true)]
    BenchChild,
    /// Burn time until standard input closes
    #[command(hide = true)]
    Spin,
}

#[derive(Args, Debug)]
pub(crate) struct Directory {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct LsmArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    /// Write a page for the browser to this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct PreparedArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    #[command(subcommand)]
    pub(crate) action: Option<PreparedAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PreparedAction {
    /// List them, which is also what happens without an action
    List {
        /// Print names in hexadecimal
        #[arg(long)]
        hex: bool,
    },
    /// Commit one
    Commit(Xid),
    /// Roll one back
    Rollback(Xid),
}

/// The name of a prepared transaction.
#[derive(Args, Debug)]
pub(crate) struct Xid {
    /// The name under which it was prepared
    pub(crate) xid: OsString,
    /// The name is in hexadecimal
    #[arg(long)]
    pub(crate) hex: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    /// Where the copy goes: a new or an empty directory
    pub(crate) target: PathBuf,
    /// Link files instead of copying them, on the same device: quick, and shares the disk with the database
    #[arg(long)]
    pub(crate) checkpoint: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RestoreArgs {
    /// The directory of the backup; it stays as it is
    pub(crate) backup: PathBuf,
    /// Where the database goes: a new or an empty directory
    pub(crate) target: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    /// The database to copy. Its library opens it as always, and may change it: copy it first if that matters
    #[arg(long, value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// Its library [default: from KINGTIDE_TIDESDB, else the installed libtidesdb.so]
    #[arg(long, value_name = "FILE")]
    pub(crate) lib: Option<PathBuf>,
    /// Where the copy goes: a new directory, or that of an interrupted migration [default: the source's name with .kingtide]
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Let the entries of a family expire so many seconds from now; for libraries that do not tell when they would
    #[arg(long, value_name = "FAMILY=SECONDS", value_parser = family_and_seconds)]
    pub(crate) ttl: Vec<(String, u32)>,
}

#[derive(Args, Debug)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    /// The key
    pub(crate) key: OsString,
    /// The value
    pub(crate) value: OsString,
    /// Let the key expire after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u32).range(1..))]
    pub(crate) ttl: Option<u32>,
    /// Key and value are in hexadecimal
    #[arg(long)]
    pub(crate) hex: bool,
}

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    /// The key
    pub(crate) key: OsString,
    /// Print the value's bytes as they are, without a line end
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    pub(crate) raw: bool,
    /// The key is, and the value is printed, in hexadecimal
    #[arg(long)]
    pub(crate) hex: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    #[command(flatten)]
    pub(crate) keys: DeletedKeys,
    /// Keys are in hexadecimal
    #[arg(long)]
    pub(crate) hex: bool,
}

/// One key, or many. Also the shell's.
#[derive(Args, Debug)]
pub(crate) struct DeletedKeys {
    /// The key
    #[arg(required_unless_present_any = ["range", "prefix"])]
    pub(crate) key: Option<OsString>,
    /// All keys from START on and before END
    #[arg(long, num_args = 2, value_names = ["START", "END"], conflicts_with_all = ["key", "prefix"])]
    pub(crate) range: Option<Vec<OsString>>,
    /// All keys that begin so; '' for every key
    #[arg(long, value_name = "KEY", conflicts_with = "key")]
    pub(crate) prefix: Option<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    /// Only tables with keys from this one on
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<OsString>,
    /// Only tables with keys up to this one, itself included
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<OsString>,
    /// Keys are in hexadecimal
    #[arg(long)]
    pub(crate) hex: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ScanCommand {
    #[command(flatten)]
    pub(crate) at: Directory,
    #[command(flatten)]
    pub(crate) scan: ScanArgs,
}

/// Which entries, and how they are printed. Also the shell's.
#[derive(Args, Debug)]
pub(crate) struct ScanArgs {
    /// The first key
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<OsString>,
    /// The first key that is no longer printed
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<OsString>,
    /// Only keys that begin so
    #[arg(long, value_name = "KEY")]
    pub(crate) prefix: Option<OsString>,
    /// At most so many
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<u64>,
    /// From the last to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// No values
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// Keys are, and everything is printed, in hexadecimal
    #[arg(long)]
    pub(crate) hex: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    /// Open the database for reading only
    #[arg(long)]
    pub(crate) read_only: bool,
    /// In a script: go on after a line that fails
    #[arg(long)]
    pub(crate) keep_going: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// Comma-separated values with a header line
    Csv,
    /// One JSON object per line
    Jsonl,
    /// Paragraphs of `Field: value` lines, as in Debian's package indices
    Deb822,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// `key,value` with a header line; bytes as they are
    Csv,
    /// One JSON object per line; bytes that are not UTF-8 in hexadecimal as `key_hex`, `value_hex`
    Jsonl,
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    /// The file, or - for standard input
    pub(crate) file: PathBuf,
    /// What the file holds [default: by the file's name]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ImportFormat>,
    /// The field that is the key [default: key; deb822: Package]. Alone: the value is the whole record as JSON
    #[arg(long, value_name = "NAME")]
    pub(crate) key_field: Option<String>,
    /// The field that is the value [default: value; deb822: the whole record as JSON]
    #[arg(long, value_name = "NAME")]
    pub(crate) value_field: Option<String>,
    /// Records of one transaction
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batch: u32,
    /// What separates the fields of CSV: one ASCII character, or `tab` [default: comma; *.tsv: tab]
    #[arg(long, value_name = "CHAR")]
    pub(crate) delimiter: Option<String>,
    /// Report malformed records and go on
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// After each commit print how many records are stored so far
    #[arg(long)]
    pub(crate) ack: bool,
    /// The records come in ascending order of their keys, each key once: they are loaded straight into tables, all or
    /// none of them, several times as fast
    #[arg(long, conflicts_with_all = ["batch", "skip_bad", "ack", "sync"])]
    pub(crate) sorted: bool,
    /// When commits are made durable; `none` syncs once, at the end
    #[arg(long, value_enum, default_value_t = ImportSync::Full)]
    pub(crate) sync: ImportSync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportSync {
    /// Each commit before it is acknowledged
    Full,
    /// All together, at the end
    None,
}

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    /// The file, which must not exist, or - for standard output
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// What is written [default: by the file's name, else jsonl]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ExportFormat>,
    /// CSV: a third column expires_at, in Unix seconds, empty for never (JSON lines always tell)
    #[arg(long)]
    pub(crate) expiry: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// fill, read, scan, ranges, delete or all [default: fill, read and scan]
    #[arg(value_name = "WORKLOAD", value_parser = workload)]
    pub(crate) workload: Option<Workload>,
    /// Engines, separated by commas: kingtide, rocksdb, lmdb, c-abi (a library with TidesDB's C interface); NAME=FILE
    /// says which library to load
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "kingtide", value_parser = |text: &str| text.parse::<EngineChoice>())]
    pub(crate) engine: Vec<EngineChoice>,
    /// Keys to write, and reads
    #[arg(long, short = 'n', default_value_t = 500_000)]
    pub(crate) operations: u64,
    /// Threads that call the engine
    #[arg(long, short = 't', default_value_t = 1)]
    pub(crate) threads: usize,
    /// Operations per write batch
    #[arg(long, short = 'b', default_value_t = 100)]
    pub(crate) batch: usize,
    /// Entries per range
    #[arg(long, default_value_t = 100)]
    pub(crate) range: u64,
    /// Length of keys
    #[arg(long, default_value_t = 16)]
    pub(crate) key_bytes: usize,
    /// Length of values
    #[arg(long, default_value_t = 100)]
    pub(crate) value_bytes: usize,
    /// Share of a value that does not compress, 0 to 1
    #[arg(long, default_value_t = 0.5)]
    pub(crate) compression_ratio: f64,
    /// Order of writes: sequential or random
    #[arg(long, default_value = "random", value_parser = |text: &str| text.parse::<Pattern>())]
    pub(crate) pattern: Pattern,
    /// Durability of writes: none, interval or full
    #[arg(long, default_value = "none", value_parser = |text: &str| text.parse::<SyncChoice>())]
    pub(crate) sync: SyncChoice,
    /// Period of `--sync interval`, in milliseconds
    #[arg(long, default_value_t = 128)]
    pub(crate) sync_interval: u64,
    /// Block cache, in bytes; K, M, G are allowed
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size)]
    pub(crate) cache: usize,
    /// Memtable, in bytes; K, M, G are allowed
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size)]
    pub(crate) memtable: usize,
    /// Block compression: none, snappy, lz4 or zstd
    #[arg(long, default_value = "lz4", value_parser = |text: &str| text.parse::<Codec>())]
    pub(crate) codec: Codec,
    /// Bloom filter bits per key; 0 for none
    #[arg(long, default_value_t = 10.0)]
    pub(crate) bloom_bits: f64,
    /// Threads for flushes and merges together
    #[arg(long, default_value_t = 2)]
    pub(crate) background_jobs: usize,
    /// Determines keys, values and their order
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Keep the databases
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Which phases are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// One; what it needs to be there is filled in first.
    One(Phase),
    /// All of them.
    All,
}

fn workload(text: &str) -> Result<Workload, String> {
    if text == "all" {
        return Ok(Workload::All);
    }
    text.parse()
        .map(Workload::One)
        .map_err(|message: String| format!("{message}, all"))
}

/// A family and how long its entries live.
fn family_and_seconds(text: &str) -> Result<(String, u32), String> {
    text.rsplit_once('=')
        .and_then(|(family, seconds)| Some((family.to_owned(), seconds.parse().ok()?)))
        .filter(|(family, seconds)| !family.is_empty() && *seconds > 0)
        .ok_or_else(|| format!("{text:?} is not FAMILY=SECONDS"))
}

/// A number of bytes with an optional K, M or G (powers of 1,024).
fn size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("{text:?} is not a size; write a number and K, M or G"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_units_and_limits() {
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("1k"), Ok(1024));
        for wrong in [
            "",
            "M",
            "1T",
            "-1",
            "99999999999999999999G",
            "18446744073709551615K",
            "1\u{e9}",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn workloads_are_phases_or_all() {
        assert_eq!(workload("all"), Ok(Workload::All));
        assert_eq!(workload("read"), Ok(Workload::One(Phase::Read)));
        assert!(workload("everything").expect_err("no such").contains("all"));
    }
}
