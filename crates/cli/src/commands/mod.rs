//! One file per command, and what they share: opening a database, keys from the command line.

mod backup;
mod bench;
mod export;
mod generate;
mod import;
mod inspect;
mod lsm;
mod maintain;
mod migrate;
pub(crate) mod point;
mod prepared;
mod repair;
pub(crate) mod scan;

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use kingtide::{Db, Options};

use crate::{
    args::{Cli, Command},
    failure::{Failure, Result},
    output::Output,
    shell, text,
};

pub(crate) use inspect::{print_families, print_stats};

/// Runs the command.
pub(crate) fn run(cli: Cli, output: &mut Output) -> Result<()> {
    let global = &cli.global;
    match cli.command {
        Command::Put(args) => point::put(&args, global),
        Command::Get(args) => point::get(&args, global, output),
        Command::Delete(args) => point::delete(&args, global),
        Command::Scan(args) => scan::run(&args, global, output),
        Command::Shell(args) => shell::run(&args, global, output),
        Command::Import(args) => import::run(&args, global, output),
        Command::Export(args) => export::run(&args, global, output),
        Command::Stats(at) => inspect::stats(&at, global, output),
        Command::Lsm(args) => lsm::run(&args, global, output),
        Command::Verify(at) => inspect::verify(&at, output),
        Command::Repair(args) => repair::repair(&args, output),
        Command::Backup(args) => backup::backup(&args, output),
        Command::Restore(args) => backup::restore(&args, output),
        Command::Compact(args) => maintain::compact(&args, global, output),
        Command::Purge(at) => maintain::purge(&at, global, output),
        Command::Prepared(args) => prepared::run(&args, output),
        Command::Families(at) => inspect::families(&at, output),
        Command::Migrate(args) => migrate::run(&args, global, output),
        Command::Bench(args) => bench::run(&args, global, output),
        Command::Completions { shell } => generate::completions(shell, output),
        Command::Man { command, all } => match all {
            Some(directory) => generate::all_man_pages(&directory, output),
            None => generate::man(&command, output),
        },
        Command::BenchChild => kingtide_bench::child::serve(kingtide_bench::engines::open)
            .map_err(|source| Failure::Benchmark(source.to_string())),
        Command::Spin => kingtide_bench::spin_until_stdin_closes(),
    }
}

/// Opens an existing database; nothing in its directory is written.
pub(crate) fn open_for_reading(directory: &Path) -> Result<Db> {
    let options = Options {
        create_if_missing: false,
        read_only: true,
        defer_missing_comparators: true,
        ..Options::default()
    };
    Ok(Db::open(directory, options)?)
}

/// Opens a database for writing.
pub(crate) fn open_for_writing(directory: &Path, create_if_missing: bool) -> Result<Db> {
    let options = Options {
        create_if_missing,
        defer_missing_comparators: true,
        ..Options::default()
    };
    Ok(Db::open(directory, options)?)
}

/// The bytes of an argument: as they are, or spelled in hexadecimal.
pub(crate) fn argument_bytes(argument: &OsStr, hex: bool) -> Result<Vec<u8>> {
    let bytes = argument.as_bytes();
    if !hex {
        return Ok(bytes.to_vec());
    }
    text::from_hex(bytes).ok_or_else(|| {
        Failure::Usage(
            format!("{argument:?} is not hexadecimal"),
            "write two digits 0-9 or a-f for each byte",
        )
    })
}

/// When something that lives `seconds` from now expires, in Unix seconds.
pub(crate) fn expiry_in(seconds: u32) -> i64 {
    // A clock before 1970 counts as 1970: the key expires early, and the clock is wrong.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    i64::try_from(now)
        .unwrap_or(i64::MAX)
        .saturating_add(i64::from(seconds))
}
