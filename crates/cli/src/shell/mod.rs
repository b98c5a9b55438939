//! `kingtide shell`: one open database, a command per line.
//!
//! At a terminal: line editing, history, completion of commands; an error is printed and the next line read. Otherwise
//! a script from standard input: the first error ends it, with the line's number, unless `--keep-going`. A transaction
//! that is open at the end is rolled back, and a remark says so.

mod command;
mod session;
mod words;

use std::{
    env, fs,
    io::{self, BufRead, IsTerminal, Read},
    path::PathBuf,
};

use kingtide::FamilyOptions;
use rustyline::{
    Config, Editor, Helper, completion::Completer, error::ReadlineError, highlight::Highlighter,
    hint::Hinter, history::FileHistory, validate::Validator,
};

use crate::{
    args::{Global, ShellArgs},
    commands::{open_for_reading, open_for_writing},
    failure::{Failure, Result},
    output::Output,
};

use session::{Session, Step};

/// The longest line of a script, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Lines that the history keeps.
const HISTORY_LINES_MAX: usize = 1000;

pub(crate) fn run(args: &ShellArgs, global: &Global, output: &mut Output) -> Result<()> {
    let interactive = io::stdin().is_terminal();
    let name = global.family_name();
    let (db, family) = if args.read_only {
        let db = open_for_reading(&args.at.directory)?;
        let family = db.family(name)?;
        (db, family)
    } else {
        let db = open_for_writing(&args.at.directory, true)?;
        let family = db.open_family(name, FamilyOptions::default())?;
        (db, family)
    };
    let mut session = Session::new(db.clone(), family, interactive);
    let outcome = if interactive {
        converse(&mut session, output)
    } else {
        run_script(&mut session, args.keep_going, io::stdin().lock(), output)
    };
    session.end(output);
    // The first error is the one to tell.
    outcome.and(db.close().map_err(Failure::from))
}

fn run_script(
    session: &mut Session,
    keep_going: bool,
    mut input: impl BufRead,
    output: &mut Output,
) -> Result<()> {
    let mut line = Vec::new();
    let mut failed = 0_u64;
    for number in 1_u64.. {
        line.clear();
        let count = (&mut input)
            .take(LINE_BYTES_MAX + 1)
            .read_until(b'\n', &mut line)
            .map_err(Failure::io("read standard input"))?;
        if count == 0 {
            break;
        }
        if count as u64 > LINE_BYTES_MAX {
            // What follows is the rest of this line, not a command.
            let message = format!("line {number}: longer than {LINE_BYTES_MAX} bytes");
            return Err(Failure::Malformed(message));
        }
        let outcome = session.run_line(&line, output);
        // Whoever drives the script waits for the answer to this line.
        output.flush()?;
        match outcome {
            Ok(Step::Next) => {}
            Ok(Step::Exit) => break,
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(failure) if keep_going => {
                failed += 1;
                complain(&failure, Some(number), output);
            }
            Err(failure) => return Err(at_line(failure, number)),
        }
    }
    match failed {
        0 => Ok(()),
        count => Err(Failure::Malformed(format!("{count} lines failed"))),
    }
}

/// The failure with the line in its message; the engine's kind, and so its hint, is kept where the text is the engine's.
fn at_line(failure: Failure, number: u64) -> Failure {
    match failure {
        Failure::Malformed(message) => Failure::Malformed(format!("line {number}: {message}")),
        Failure::Usage(message, hint) => Failure::Usage(format!("line {number}: {message}"), hint),
        Failure::Engine(source) => Failure::EngineAtLine(source, number),
        other => other,
    }
}

fn complain(failure: &Failure, line: Option<u64>, output: &Output) {
    let text = if output.json {
        failure.json()
    } else {
        match line {
            None => failure.text(),
            Some(number) => format!("line {number}: {}", failure.text()),
        }
    };
    // Written past --quiet: an error is no remark.
    let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("{text}\n"));
}

/// Completes the first word; no hints, colours or continued lines.
struct LineHelper {
    names: Vec<String>,
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, completions(&self.names, line, position)))
    }
}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Highlighter for LineHelper {}
impl Validator for LineHelper {}
impl Helper for LineHelper {}

/// Names that begin with what stands before the cursor, as long as that is the first word.
fn completions(names: &[String], line: &str, position: usize) -> Vec<String> {
    let start = line.get(..position).unwrap_or(line);
    names
        .iter()
        .filter(|name| name.starts_with(start))
        .map(|name| format!("{name} "))
        .collect()
}

fn converse(session: &mut Session, output: &mut Output) -> Result<()> {
    let terminal = |source: ReadlineError| {
        Failure::Io(
            "use the terminal".into(),
            io::Error::other(source.to_string()),
        )
    };
    let config = Config::builder()
        .history_ignore_space(true)
        .max_history_size(HISTORY_LINES_MAX)
        .map_err(terminal)?
        .build();
    let mut editor: Editor<LineHelper, FileHistory> =
        Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(LineHelper {
        names: command::names(),
    }));
    let history = history_file();
    if let Some(file) = &history {
        // Missing at the first start; without a history the shell works all the same.
        let _ = editor.load_history(file);
    }
    output.note("`help` lists the commands, `exit` or Ctrl-D ends");
    loop {
        match editor.readline(&session.prompt()) {
            Ok(line) => {
                if !line.trim().is_empty() {
                    let _ = editor.add_history_entry(&line);
                }
                if run_pasted(session, &line, output)? == Step::Exit {
                    break;
                }
            }
            // Ctrl-C gives up the line, not the session.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(source) => return Err(terminal(source)),
        }
    }
    if let Some(file) = &history {
        let _ = editor.save_history(file);
    }
    Ok(())
}

/// Runs what was entered: one line, or several that were pasted at once. The first that fails ends the paste.
fn run_pasted(session: &mut Session, entered: &str, output: &mut Output) -> Result<Step> {
    for line in entered.lines() {
        let outcome = session.run_line(line.as_bytes(), output);
        output.flush()?;
        match outcome {
            Ok(Step::Next) => {}
            Ok(Step::Exit) => return Ok(Step::Exit),
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(failure) => {
                complain(&failure, None, output);
                break;
            }
        }
    }
    Ok(Step::Next)
}

/// `$XDG_STATE_HOME/kingtide/history`, by default in `~/.local/state`; `None` when there is no home.
fn history_file() -> Option<PathBuf> {
    let state = match env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env::var_os("HOME")?).join(".local/state"),
    };
    let folder = state.join("kingtide");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_is_completed() {
        let names = command::names();
        assert_eq!(completions(&names, "be", 2), ["begin "]);
        assert_eq!(completions(&names, "be rest", 2), ["begin "]);
        assert!(completions(&names, "get be", 6).is_empty());
        assert!(completions(&names, "", 0).len() > 10);
        // A cursor inside a character does not happen; if it does, nothing breaks.
        assert!(completions(&names, "\u{e9}", 1).is_empty());
    }
}
