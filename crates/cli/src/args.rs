//! Every command and option. Help texts, completions and the manual page come from here.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use clap_complete::Shell;
use kingtide_bench::{
    Codec, EngineChoice, EngineKind, Pattern, SyncChoice, ValueContent, ValueSizes, Workload,
    parse_bytes, parse_count, suite::BUILT_IN,
};

use crate::offered::{choice, offered};

/// An embedded transactional key-value store.
///
/// Exit codes: 0 success, 1 key not found, 2 error, 3 repaired with losses.
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
    /// Salvage what is whole in a damaged database into a new one; exit code 3 when something is lost
    Repair(RepairArgs),
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
    /// Print the manual page, of the program or of one command; or write all pages
    Man {
        /// Of which command, such as `stats` or `bench compare`
        command: Vec<String>,
        /// Write the pages of the program and of every command to this directory
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        all: Option<PathBuf>,
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
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) at: Directory,
    /// Where the repaired database goes: a new or an empty directory [default: DIR.repaired]
    #[arg(long, value_name = "DIR2", conflicts_with = "dry_run")]
    pub(crate) into: Option<PathBuf>,
    /// Write nothing; only tell what would be salvaged, and what is lost
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Use also what lies behind a hole in the log, although it may depend on what is lost
    #[arg(long)]
    pub(crate) log_after_holes: bool,
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
    #[arg(required_unless_present = "value_file")]
    pub(crate) value: Option<OsString>,
    /// Take the value from this file, or - for standard input, piece by piece
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    pub(crate) value_file: Option<PathBuf>,
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
    /// Write the value's bytes as they are to this file, which must not exist
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    pub(crate) output: Option<PathBuf>,
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
    /// The records come in ascending order of their keys, each key once: they are loaded straight into tables, without
    /// the log, all or none of them
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
#[command(args_conflicts_with_subcommands = true, allow_negative_numbers = true)]
pub(crate) struct BenchArgs {
    /// In the place of the option of all commands, which is refused here, so that no help offers it.
    #[arg(
        long,
        short = 'f',
        id = "family",
        value_name = "NAME",
        global = true,
        hide = true
    )]
    pub(crate) family: Option<String>,
    #[command(subcommand)]
    pub(crate) action: Option<BenchAction>,
    #[arg(value_name = "SUITE|WORKLOAD", help = subject_help(), hide_possible_values = true)]
    #[arg(value_parser = offered(subjects().map(|(name, _)| name), bench_subject))]
    pub(crate) subject: Option<BenchSubject>,
    /// Engines, separated by commas; c-abi is a library with TidesDB's C interface. NAME=FILE says which library to load,
    /// LABEL:NAME=FILE what to call it
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = EngineKind::Kingtide.name())]
    #[arg(value_parser = offered(EngineKind::ALL.iter().map(|kind| kind.name()), str::parse::<EngineChoice>))]
    pub(crate) engine: Vec<EngineChoice>,
    /// A suite of your own, in TOML
    #[arg(long, value_name = "FILE", conflicts_with = "subject")]
    pub(crate) suite: Option<PathBuf>,
    /// Only tests whose names contain this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Multiply keys and operations
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Repetitions; engines take turns
    #[arg(long, default_value_t = 1)]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) options: BenchOptions,
    #[command(flatten)]
    pub(crate) outputs: BenchOutputs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchAction {
    /// Compare two result files and mark what became slower
    ///
    /// Rows pair when they agree in engine, suite, test_name, operation, workload, pattern, codec, sync_mode, threads,
    /// num_operations, batch_size, key_size, value_size and range_size. The exit code is 2 when a number became worse, a row
    /// failed that did not before, or a row of OLD is not in NEW. Results of different settings, such as two codecs, are shown
    /// side by side by `kingtide bench show`.
    Compare(CompareArgs),
    /// Print the tables of kept results, and write their page
    Show(ShowArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Results: CSV or JSON lines; the rows of all files together
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Judge the rows by the targets of this suite
    #[arg(long, value_name = "NAME", value_parser = offered(suites(), |name| Ok(name.to_owned())))]
    pub(crate) suite: Option<String>,
    #[command(flatten)]
    pub(crate) files_out: ResultFiles,
}

#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// The results before: CSV or JSON lines
    pub(crate) old: PathBuf,
    /// The results after
    pub(crate) new: PathBuf,
    /// How much slower counts, in percent, beyond the spread of the rounds
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) threshold: f64,
    /// Rows of OLD that NEW lacks are no failure; they are listed all the same
    #[arg(long)]
    pub(crate) allow_missing: bool,
    /// Write a page for the browser too
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Files that results are written to.
#[derive(Args, Debug)]
#[command(next_help_heading = "Results")]
pub(crate) struct ResultFiles {
    /// Write the rows as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the rows as JSON lines, with time lines
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,
    /// Write a page for the browser with charts of everything
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the table and the remarks as text
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Where results go.
#[derive(Args, Debug)]
#[command(next_help_heading = "Results")]
pub(crate) struct BenchOutputs {
    #[command(flatten)]
    pub(crate) files: ResultFiles,
    /// Write a trace of each of Kingtide's runs to this directory, for ui.perfetto.dev
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
    /// Keep the databases
    #[arg(long)]
    pub(crate) keep: bool,
}

/// What is run; given here, it wins over what a suite says.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options of the tests; those of a suite give way to these")]
pub(crate) struct BenchOptions {
    /// Keys to write, and operations of each workload; K, M, G are thousands: 1M is 1,000,000 [default: 500K]
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = parse_count)]
    pub(crate) operations: Option<u64>,
    /// Different keys; K, M, G are thousands [default: as many as operations]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) keys: Option<u64>,
    /// Threads that call the engine [default: 1]
    #[arg(long, short = 't')]
    pub(crate) threads: Option<usize>,
    /// Operations per write batch; keys of a transaction; K, M, G are thousands [default: 100, for txn 1]
    #[arg(long, short = 'b', value_name = "COUNT", value_parser = small_count)]
    pub(crate) batch: Option<usize>,
    /// Entries per range; K, M, G are thousands [default: 100]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) range: Option<u64>,
    /// Length of keys, in bytes; K is 1,024 [default: 16]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) key_bytes: Option<usize>,
    /// Bytes that all keys begin with; K is 1,024 [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) key_prefix_bytes: Option<usize>,
    /// Length of values, in bytes: a number, uniform:MIN-MAX or log-uniform:MIN-MAX; K, M, G are 1,024 and its powers
    /// [default: 100]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| text.parse::<ValueSizes>())]
    pub(crate) value_bytes: Option<ValueSizes>,
    /// What values consist of; marked tells every wrong one, counter is as in the published tests [default: marked]
    #[arg(long, value_parser = choice(ValueContent::ALL, ValueContent::name))]
    pub(crate) value_content: Option<ValueContent>,
    /// Share of a marked value that does not compress, 0 to 1 [default: 0.5]
    #[arg(long)]
    pub(crate) compression_ratio: Option<f64>,
    /// Order of keys [default: random]
    #[arg(long, value_parser = choice(Pattern::ALL, Pattern::name))]
    pub(crate) pattern: Option<Pattern>,
    /// Exponent of zipfian patterns [default: 0.99]
    #[arg(long)]
    pub(crate) zipfian_exponent: Option<f64>,
    /// Share of reads of `mixed`, 0 to 1 [default: 0.5]
    #[arg(long)]
    pub(crate) read_share: Option<f64>,
    /// Seconds that each workload runs, in place of a number of operations; 0 for none [default: 0]
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Operations that are begun in a second, at most, a batch as all of its own; K, M, G are thousands; not for iterate; 0 for no
    /// limit [default: 0]
    #[arg(long, value_name = "COUNT", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Report each second too (JSON lines)
    #[arg(long)]
    pub(crate) timeline: bool,
    /// Column families, for `txn` [default: 4]
    #[arg(long)]
    pub(crate) families: Option<usize>,
    /// Durability of writes [default: none]
    #[arg(long, value_parser = choice(SyncChoice::ALL, SyncChoice::name))]
    pub(crate) sync: Option<SyncChoice>,
    /// Period of `--sync interval`, in milliseconds [default: 128]
    #[arg(long)]
    pub(crate) sync_interval: Option<u64>,
    /// Block cache, in bytes; K, M, G are 1,024 and its powers [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) cache: Option<usize>,
    /// Memtable, in bytes; K, M, G are 1,024 and its powers [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memtable: Option<usize>,
    /// Block compression [default: lz4]
    #[arg(long, value_parser = choice(Codec::ALL, Codec::name))]
    pub(crate) codec: Option<Codec>,
    /// Bloom filter bits per key; 0 for none [default: 10]
    #[arg(long)]
    pub(crate) bloom_bits: Option<f64>,
    /// No block indexes, for engines that can do without
    #[arg(long)]
    pub(crate) no_block_index: bool,
    /// Threads for flushes and merges together [default: 2]
    #[arg(long)]
    pub(crate) background_jobs: Option<usize>,
    /// Determines keys, values and their order [default: 1]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Seconds that one engine may take for one test; then its process is ended, and that counts as a failure; 0 for no
    /// limit [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) time_limit: Option<f64>,
}

/// What is to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BenchSubject {
    /// A built-in suite, by name.
    Suite(String),
    /// One workload; what it needs to be there is written first.
    Workload(Workload),
    /// All workloads, one after the other.
    All,
}

/// The names of the built-in suites.
fn suites() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// Every subject by its name.
fn subjects() -> impl Iterator<Item = (&'static str, BenchSubject)> {
    let suites = suites().map(|name| (name, BenchSubject::Suite(name.to_owned())));
    let workloads = Workload::ALL.iter();
    let workloads = workloads.map(|workload| (workload.name(), BenchSubject::Workload(*workload)));
    suites.chain(workloads).chain([("all", BenchSubject::All)])
}

/// A subject by its name, or by another name of a workload.
fn bench_subject(text: &str) -> Result<BenchSubject, String> {
    if let Some((_, subject)) = subjects().find(|(name, _)| *name == text) {
        return Ok(subject);
    }
    text.parse()
        .map(BenchSubject::Workload)
        .map_err(|message: String| {
            let suites: Vec<&str> = suites().collect();
            format!("{message}, all; or a suite: {}", suites.join(", "))
        })
}

/// Which subjects there are, suites and workloads apart.
fn subject_help() -> String {
    let suites: Vec<&str> = suites().collect();
    let workloads: Vec<&str> = Workload::ALL
        .iter()
        .map(|workload| workload.name())
        .collect();
    format!(
        "A suite ({}), a workload ({}), or all [default: write, read and iterate]",
        suites.join(", "),
        workloads.join(", ")
    )
}

/// As [`parse_count`], of what is in memory at once.
fn small_count(text: &str) -> Result<usize, String> {
    let count = parse_count(text)?;
    usize::try_from(count).map_err(|source| source.to_string())
}

/// Operations in a second, which need not be whole.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) => Ok(number),
        Err(_) => parse_count(text).map(|count| count as f64),
    }
}

/// A family and how long its entries live.
fn family_and_seconds(text: &str) -> Result<(String, u32), String> {
    text.rsplit_once('=')
        .and_then(|(family, seconds)| Some((family.to_owned(), seconds.parse().ok()?)))
        .filter(|(family, seconds)| !family.is_empty() && *seconds > 0)
        .ok_or_else(|| format!("{text:?} is not FAMILY=SECONDS"))
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
    fn a_subject_is_a_suite_a_workload_or_all() {
        assert_eq!(bench_subject("all"), Ok(BenchSubject::All));
        assert_eq!(
            bench_subject("fill"),
            Ok(BenchSubject::Workload(Workload::Write))
        );
        assert_eq!(
            bench_subject("ycsb"),
            Ok(BenchSubject::Suite("ycsb".into()))
        );
        assert!(
            bench_subject("everything")
                .expect_err("no such")
                .contains("quick")
        );
    }

    /// Goal: what help and completion scripts offer is taken. Method: every value that an argument of `bench` and of its
    /// actions names, alone on a command line.
    #[test]
    fn every_offered_value_is_taken() {
        let mut cli = Cli::command();
        cli.build();
        let bench = cli.find_subcommand("bench").expect("it is a command");
        let show = bench.find_subcommand("show").expect("it is an action");
        let mut offering = Vec::new();
        for (command, words) in [
            (bench, &["kingtide", "bench"][..]),
            (show, &["kingtide", "bench", "show", "a.csv"]),
        ] {
            for argument in command
                .get_arguments()
                .filter(|argument| !is_switch(argument))
            {
                let values = argument.get_possible_values();
                for value in &values {
                    let option = argument.get_long().map(|name| format!("--{name}"));
                    let given = [option.as_deref(), Some(value.get_name())];
                    let words = words.iter().copied().chain(given.into_iter().flatten());
                    let parsed = Cli::try_parse_from(words);
                    assert!(parsed.is_ok(), "{argument} {value:?}: {parsed:?}");
                }
                if !values.is_empty() {
                    offering.push(argument.get_id().as_str());
                }
            }
        }
        offering.sort_unstable();
        assert_eq!(
            offering,
            [
                "codec",
                "engine",
                "pattern",
                "subject",
                "suite",
                "sync",
                "value_content"
            ]
        );
    }

    #[test]
    fn what_is_refused_is_not_offered() {
        for words in [
            &["bench"][..],
            &["bench", "compare"],
            &["bench", "show"],
            &["stats"],
        ] {
            let line = ["kingtide"].iter().chain(words).chain(&["--help"]);
            let help = Cli::try_parse_from(line).expect_err("help").to_string();
            let is_offered = help.contains("--family");
            assert_eq!(is_offered, words == ["stats"], "{words:?}: {help}");
        }
        for line in [
            "-f x bench read",
            "bench -f x read",
            "bench compare a b -f x",
        ] {
            let words = ["kingtide"].into_iter().chain(line.split(' '));
            let cli = Cli::try_parse_from(words).expect("it is refused later");
            assert_eq!(cli.global.family.as_deref(), Some("x"), "{line}");
        }
    }

    fn is_switch(argument: &clap::Arg) -> bool {
        !argument.get_action().takes_values()
    }

    #[test]
    fn counts_are_in_thousands_and_sizes_in_powers_of_two() {
        let line = "kingtide bench read -n 1M --keys 500K --batch 1e3 --range 2K --rate 10K \
                    --key-bytes 1K --key-prefix-bytes 1K --value-bytes 4K --cache 1M";
        let cli = Cli::try_parse_from(line.split_whitespace()).expect("sound");
        let Command::Bench(args) = cli.command else {
            panic!("{cli:?}");
        };
        let options = &args.options;
        assert_eq!(
            (options.operations, options.keys),
            (Some(1_000_000), Some(500_000))
        );
        assert_eq!((options.batch, options.range), (Some(1000), Some(2000)));
        assert_eq!(options.rate, Some(10_000.0));
        assert_eq!(
            (options.key_bytes, options.key_prefix_bytes),
            (Some(1024), Some(1024))
        );
        assert_eq!(options.value_bytes, Some(ValueSizes::Fixed(4096)));
        assert_eq!(options.cache, Some(1 << 20));
    }

    #[test]
    fn more_is_taken_than_is_offered() {
        for engine in ["lmdb=/x/liblmdb.so", "a:c-abi=/x.so,kingtide"] {
            let parsed = Cli::try_parse_from(["kingtide", "bench", "fill", "--engine", engine]);
            assert!(parsed.is_ok(), "{parsed:?}");
        }
    }
}
