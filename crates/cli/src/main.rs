//! The `kingtide` command line: operations on a database, a shell, import and export, and the benchmark's front end.
//!
//! | module | what it is |
//! |---|---|
//! | [`args`] | every command and option, from which help, completions and the manual page are made |
//! | [`offered`] | options that are one of a few names |
//! | [`commands`] | one file per command |
//! | [`shell`] | the interactive shell and its scripts |
//! | [`records`] | readers of CSV, JSON lines and deb822 |
//! | [`output`], [`text`] | what is printed: text or JSON, and bytes as text |
//! | [`failure`] | errors, what to do about them, exit codes |

mod args;
mod argv;
mod commands;
mod failure;
mod offered;
mod output;
mod records;
mod shell;
mod text;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, error::ErrorKind};

use args::Cli;
use failure::Failure;
use output::Output;

fn main() -> ExitCode {
    let arguments = argv::with_database_first(env::args_os().collect());
    let json = argv::asks_for_json(&arguments);
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) if is_answer(&error) => {
            // Help that nobody reads to its end is no failure.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return report(&Failure::Syntax(error), json),
    };
    let mut output = Output::new(cli.global.json, cli.global.quiet);
    let outcome = commands::run(cli, &mut output);
    // What was printed before a failure is printed, whatever the failure.
    let flushed = output.flush();
    match outcome.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, json),
    }
}

/// Help and version arrive as errors of the parser.
fn is_answer(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    )
}

fn report(failure: &Failure, json: bool) -> ExitCode {
    let text = if json { failure.json() } else { failure.text() };
    if !text.is_empty() {
        // There is nowhere left to complain to when standard error is closed.
        let _ = writeln!(io::stderr(), "{text}");
    }
    ExitCode::from(failure.exit_code())
}
