//! The commands of the shell.

use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use clap::{CommandFactory, Parser, Subcommand, ValueEnum, value_parser};

use crate::{
    args::{DeletedKeys, ScanArgs},
    failure::{Failure, Result},
};

#[derive(Debug, Parser)]
#[command(
    name = "kingtide-shell",
    no_binary_name = true,
    disable_help_flag = true,
    override_usage = "COMMAND [ARGUMENTS]; words in 'single' or \"double\" quotes may hold blanks; # begins a comment"
)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// What a transaction sees of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Isolation {
    /// As read-committed: nothing uncommitted is ever read
    ReadUncommitted,
    /// Each operation reads the newest committed state
    ReadCommitted,
    /// As snapshot, and keys that were found must not change either
    RepeatableRead,
    /// All reads see the state at the beginning; the first committer of a key wins
    Snapshot,
    /// As if transactions ran one after the other: nothing that was read may change
    Serializable,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the value of a key
    Get { key: OsString },
    /// Set a key to a value
    Put {
        key: OsString,
        value: OsString,
        /// Let the key expire after this many seconds
        #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u32).range(1..))]
        ttl: Option<u32>,
    },
    /// Remove a key, a range or everything with a prefix
    Delete(DeletedKeys),
    /// Print keys and values in order; at a terminal, 100 unless --limit says otherwise
    Scan(ScanArgs),
    /// Begin a transaction
    Begin {
        /// What it sees of others
        #[arg(value_enum, default_value = "snapshot")]
        isolation: Isolation,
    },
    /// Make the transaction's writes visible and durable
    Commit,
    /// Give the transaction up
    Rollback,
    /// Work on another family
    Use { family: String },
    /// List the families
    Families,
    /// Create a family
    CreateFamily { name: String },
    /// Remove a family and everything in it
    DropFamily { name: String },
    /// Write the family's memtable to a table
    Flush,
    /// Merge the family's tables to the bottom level
    Compact,
    /// Print counters and the shape of every family
    Stats,
    /// Leave the shell
    #[command(visible_alias = "quit")]
    Exit,
}

/// What a line asks for.
pub(super) enum Request {
    /// Nothing: a blank line or a comment.
    Nothing,
    /// A text to print.
    Help(String),
    /// A command.
    Run(Command),
}

/// Parses a line.
pub(super) fn parse(line: &[u8]) -> Result<Request> {
    let words = super::words::split(line).map_err(Failure::Malformed)?;
    if words.is_empty() {
        return Ok(Request::Nothing);
    }
    match Line::try_parse_from(words.into_iter().map(OsString::from_vec)) {
        Ok(line) => Ok(Request::Run(line.command)),
        Err(error) if !error.use_stderr() => Ok(Request::Help(error.render().to_string())),
        Err(error) => Err(Failure::Usage(
            Failure::Syntax(error).message(),
            "`help` lists the commands, `help COMMAND` its arguments",
        )),
    }
}

/// The names of all commands, for completion.
pub(super) fn names() -> Vec<String> {
    let mut names: Vec<String> = Line::command()
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    names.push("help".to_owned());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_help_nothing_or_an_error() {
        Line::command().debug_assert();
        assert!(matches!(
            parse(b"get k"),
            Ok(Request::Run(Command::Get { .. }))
        ));
        assert!(matches!(parse(b"quit"), Ok(Request::Run(Command::Exit))));
        assert!(matches!(
            parse(b"begin"),
            Ok(Request::Run(Command::Begin {
                isolation: Isolation::Snapshot
            }))
        ));
        assert!(matches!(parse(b"  # x"), Ok(Request::Nothing)));
        let Ok(Request::Help(text)) = parse(b"help") else {
            panic!("help is an answer");
        };
        assert!(
            text.contains("rollback") && text.contains("drop-family"),
            "{text}"
        );
        assert!(matches!(parse(b"help scan"), Ok(Request::Help(_))));
        for wrong in [
            &b"get"[..],
            b"put k",
            b"nonsense",
            b"put k v --ttl 0",
            b"get 'k",
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn keys_need_not_be_utf_8() {
        let Ok(Request::Run(Command::Get { key })) = parse(b"get \"\\xff\"") else {
            panic!("a get");
        };
        assert_eq!(key.into_vec(), [0xff]);
    }
}
