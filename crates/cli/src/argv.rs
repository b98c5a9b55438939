//! `--db PATH` in front of a command is the same as the directory as its first argument.
//!
//! The parser knows the directory as the first argument of each command that needs one. Here, before parsing, the
//! value of `--db` is moved there. Nothing after `--` is touched.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

/// Commands whose first argument is the directory of a database.
const DATABASE_COMMANDS: [&str; 17] = [
    "repair", "put", "get", "delete", "scan", "shell", "import", "export", "stats", "lsm",
    "verify", "families", "backup", "restore", "compact", "purge", "prepared",
];
/// Global options that are followed by a value, so that the value is not taken for the command.
const VALUE_OPTIONS: [&str; 2] = ["--family", "-f"];

/// The arguments with `--db PATH` turned into the first argument of the command, if it is one that takes a directory.
pub(crate) fn with_database_first(arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(command) = command_position(&arguments) else {
        return arguments;
    };
    if !DATABASE_COMMANDS
        .iter()
        .any(|name| arguments[command] == *name)
    {
        return arguments;
    }
    let mut rest = Vec::with_capacity(arguments.len());
    let mut database = None;
    let mut command_in_rest = 0;
    let mut options_ended = false;
    let mut iter = arguments.into_iter().enumerate().peekable();
    while let Some((position, argument)) = iter.next() {
        if !options_ended {
            options_ended = argument == "--";
            if argument == "--db" && iter.peek().is_some() {
                database = iter.next().map(|(_, value)| value);
                continue;
            }
            if let Some(value) = argument.as_bytes().strip_prefix(b"--db=") {
                database = Some(OsString::from_vec(value.to_vec()));
                continue;
            }
        }
        if position == command {
            command_in_rest = rest.len();
        }
        rest.push(argument);
    }
    if let Some(database) = database {
        rest.insert(command_in_rest + 1, database);
    }
    rest
}

/// True when errors must be JSON: the parser cannot say so when it is the one that fails.
pub(crate) fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json")
}

/// Where the command's name is: the first argument that is neither an option nor an option's value.
fn command_position(arguments: &[OsString]) -> Option<usize> {
    let mut position = 1;
    while let Some(argument) = arguments.get(position) {
        if argument == "--db" || VALUE_OPTIONS.iter().any(|option| argument == option) {
            position += 2;
        } else if is_option(argument) {
            position += 1;
        } else {
            return Some(position);
        }
    }
    None
}

fn is_option(argument: &OsStr) -> bool {
    argument.as_bytes().starts_with(b"-") && argument.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let after = with_database_first(words);
        after
            .iter()
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn the_database_becomes_the_first_argument_of_the_command() {
        assert_eq!(rewritten("kt --db D get k"), "kt get D k");
        assert_eq!(rewritten("kt --db=D --json get k"), "kt --json get D k");
        assert_eq!(rewritten("kt get --db D k"), "kt get D k");
        assert_eq!(
            rewritten("kt --family put --db D put k v"),
            "kt --family put put D k v"
        );
        assert_eq!(rewritten("kt get D k"), "kt get D k");
    }

    #[test]
    fn what_is_not_ours_stays_where_it_is() {
        assert_eq!(rewritten("kt put D k -- --db"), "kt put D k -- --db");
        assert_eq!(rewritten("kt bench --db D"), "kt bench --db D");
        assert_eq!(rewritten("kt get D k --db"), "kt get D k --db");
        assert_eq!(rewritten("kt --db"), "kt --db");
        assert_eq!(rewritten("kt"), "kt");
    }
}
