//! The table of promises in docs/testing.md: it is generated from marks in the tests, every promise has tests, and every
//! mark is one of a promise.
//!
//! A mark is a comment in front of a `#[test]` function, alone on its line:
//!
//! ```text
//! // Promise: 1, levels.
//! ```
//!
//! It names promises by the first column of [`PROMISES`]. A test whose name begins with `promise_3_` bears the mark `3`.
//! The table stands between [`BEGIN`] and [`END`]; `cargo xtask promises` writes it.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use super::{
    Finding, Sources, Tree,
    config::{PROMISES, PROMISES_PATH},
    source::{Comment, Source},
};

/// The line in front of the table.
const BEGIN: &str = "<!-- This table is written by `cargo xtask promises`. -->";
/// The line behind it.
const END: &str = "<!-- End of the table of promises. -->";
/// How a mark begins.
const MARK: &str = "// Promise: ";

/// The tests of each promise, by its mark, and what is wrong with marks.
type Marks<'a> = (BTreeMap<&'a str, BTreeSet<&'a str>>, Vec<Finding>);

/// Checks marks and table.
pub fn check(tree: &Tree, sources: &Sources<'_>) -> Vec<Finding> {
    let (tests, mut findings) = marks(sources);
    for (mark, _) in PROMISES {
        if !tests.contains_key(mark) {
            let message = format!(
                "no test bears the mark `{MARK}{mark}.`: write one, or take the promise back"
            );
            findings.push(Finding::new(PROMISES_PATH, 1, message));
        }
    }
    let page = tree.text(PROMISES_PATH).unwrap_or_default();
    match written(page, sources) {
        Err(message) => findings.push(Finding::new(PROMISES_PATH, 1, message)),
        Ok(text) if text != page => findings.push(Finding::new(
            PROMISES_PATH,
            1,
            "the table of promises is not what the marks of the tests say: run `cargo xtask promises`",
        )),
        Ok(_) => {}
    }
    findings
}

/// The page with the table that the marks make.
///
/// # Errors
/// When there is no page, or the place for the table is not in it.
pub fn rewritten(tree: &Tree, sources: &Sources<'_>) -> Result<(&'static str, String), String> {
    let page = tree.text(PROMISES_PATH).unwrap_or_default();
    Ok((PROMISES_PATH, written(page, sources)?))
}

fn written(page: &str, sources: &Sources<'_>) -> Result<String, String> {
    let place = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = place else {
        return Err(format!(
            "there is no place for the table of promises: a line `{BEGIN}` and, behind it, a line `{END}`"
        ));
    };
    let table = table(&marks(sources).0);
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

fn table(tests: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    let mut table = "| mark | promise | tests |\n|---|---|---|\n".to_owned();
    for (mark, promise) in PROMISES {
        let names = tests.get(mark).into_iter().flatten();
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        // Writing to a string never fails.
        let _ = writeln!(table, "| {mark} | {promise} | {} |", names.join(", "));
    }
    table
}

fn marks<'a>(sources: &Sources<'a>) -> Marks<'a> {
    let mut tests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, source) in sources {
        let mut marked = BTreeSet::new();
        for comment in source.comments() {
            let Some(list) = source.comment_text(comment).strip_prefix(MARK) else {
                continue;
            };
            let mut complain =
                |message: String| findings.push(Finding::new(path, comment.line, message));
            let Some(test) = test_behind(source, comment) else {
                complain("a mark of a promise stands in front of no `#[test]` function".to_owned());
                continue;
            };
            for mark in list.trim_end_matches('.').split(", ") {
                if PROMISES.iter().all(|(known, _)| *known != mark) {
                    complain(format!(
                        "no promise has the mark `{mark}`: the list is in xtask/src/tidy/config.rs"
                    ));
                    continue;
                }
                tests.entry(mark).or_default().insert(test);
                marked.insert((test, mark));
            }
        }
        for (index, name) in tests_of(source) {
            let mark = name
                .strip_prefix("promise_")
                .and_then(|rest| rest.split('_').next());
            if let Some(mark) = mark.filter(|mark| !marked.contains(&(name, *mark))) {
                let message =
                    format!("`{name}` lacks its mark: `{MARK}{mark}.` in front of `#[test]`");
                findings.push(Finding::new(path, source.line(index), message));
            }
        }
    }
    (tests, findings)
}

/// The test whose attributes begin behind a comment.
fn test_behind<'a>(source: &Source<'a>, comment: &Comment) -> Option<&'a str> {
    let first = (0..source.len()).find(|index| source.line(*index) > comment.line)?;
    test_at(source, first)
}

/// The name of the `#[test]` function whose attributes, or some of them, begin at a token.
fn test_at<'a>(source: &Source<'a>, mut at: usize) -> Option<&'a str> {
    let mut is_test = false;
    while source.reads(at, &["#", "["]) {
        is_test |= source.reads(at, &["#", "[", "test", "]"]);
        at = source.close_of(at + 1) + 1;
    }
    while matches!(source.word(at), "pub" | "async") {
        at += 1;
    }
    (is_test && source.word(at) == "fn").then(|| source.word(at + 1))
}

/// All `#[test]` functions of a file: the place of the attribute, the name.
fn tests_of<'a>(source: &Source<'a>) -> Vec<(usize, &'a str)> {
    let attributes =
        (0..source.len()).filter(|index| source.reads(*index, &["#", "[", "test", "]"]));
    attributes
        .filter_map(|index| Some((index, test_at(source, index)?)))
        .collect()
}

/// The names of all `#[test]` functions.
pub fn test_names<'a>(sources: &Sources<'a>) -> BTreeSet<&'a str> {
    let names = sources.values().flat_map(|source| tests_of(source));
    names.map(|(_, name)| name).collect()
}

/// True when a test has this name, modules left out, or a name that begins so where it ends in `*`.
pub fn test_exists(tests: &BTreeSet<&str>, name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or(name);
    match name.strip_suffix('*') {
        Some(start) => tests.iter().any(|test| test.starts_with(start)),
        None => tests.contains(name),
    }
}
