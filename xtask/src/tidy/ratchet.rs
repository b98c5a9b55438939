//! Limits of length, and the list of what is over them.
//!
//! `xtask/ratchet.txt` holds one line per exception: `kind place number`, where kind is `file`, `function` or
//! `parameters`, and a function's place is `path::Type::name`. A number may only fall: what grows over its number is a
//! finding, what shrank below it is one too, until `cargo xtask bless` has lowered the number or removed the line.
//! Functions of one name in one place count as the longest of them.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    Finding, Sources, Tree,
    config::{FILE_LINES_MAX, FUNCTION_LINES_MAX, PARAMETERS_MAX, RATCHET_PATH},
    source,
};

/// What an exception is about: kind and place.
type Key = (String, String);

/// Something measured: where it is and how much of it there is.
#[derive(Debug)]
struct Measure {
    path: String,
    line: usize,
    count: usize,
}

/// Checks lengths against the limits and the list.
pub fn check(tree: &Tree, sources: &Sources<'_>) -> Vec<Finding> {
    let (listed, mut findings) = parse(tree.text(RATCHET_PATH).unwrap_or(""));
    let measured = measure(sources);
    for ((kind, place), measure) in &measured {
        let key = (kind.clone(), place.clone());
        let limit = limit_of(kind).unwrap_or(0);
        let allowed = listed.get(&key).map_or(limit, |(_, number)| *number);
        if measure.count > allowed {
            findings.push(Finding::new(
                &measure.path,
                measure.line,
                too_much(kind, place, measure.count, allowed),
            ));
        }
    }
    for (key, (line, number)) in &listed {
        let count = measured.get(key).map_or(0, |measure| measure.count);
        if count < *number {
            findings.push(Finding::new(
                RATCHET_PATH,
                *line,
                format!(
                    "{} {} is down to {count}: run `cargo xtask bless`",
                    key.0, key.1
                ),
            ));
        }
    }
    findings
}

/// The list with every number lowered to what is true now, and without the lines that are no longer needed.
///
/// # Errors
/// When the list cannot be read.
pub fn bless(tree: &Tree) -> Result<String, String> {
    let text = tree.text(RATCHET_PATH).unwrap_or("");
    let (listed, findings) = parse(text);
    if let Some(finding) = findings.first() {
        return Err(finding.to_string());
    }
    let measured = measure(&source::parse_tree(tree));
    let mut blessed: String = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .flat_map(|line| [line, "\n"])
        .collect();
    for (key, (_, number)) in listed {
        let count = measured.get(&key).map_or(0, |measure| measure.count);
        if limit_of(&key.0).is_some_and(|limit| count > limit) {
            let _ = writeln!(blessed, "{} {} {}", key.0, key.1, count.min(number));
        }
    }
    Ok(blessed)
}

fn limit_of(kind: &str) -> Option<usize> {
    match kind {
        "file" => Some(FILE_LINES_MAX),
        "function" => Some(FUNCTION_LINES_MAX),
        "parameters" => Some(PARAMETERS_MAX),
        _ => None,
    }
}

fn too_much(kind: &str, place: &str, count: usize, allowed: usize) -> String {
    let name = place.rsplit(".rs::").next().unwrap_or(place);
    match kind {
        "file" => format!(
            "{count} lines outside of tests, {allowed} are allowed: give one of its ideas a file of its own"
        ),
        "function" => format!(
            "`{name}` has {count} lines, {allowed} are allowed: move straight stretches into functions of their own"
        ),
        _ => format!(
            "`{name}` has {count} parameters, {allowed} are allowed: group what belongs together in a struct"
        ),
    }
}

/// The lines of the list, each with its line number, and what is wrong with it.
fn parse(text: &str) -> (BTreeMap<Key, (usize, usize)>, Vec<Finding>) {
    let (mut listed, mut findings) = (BTreeMap::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let entry = match words.as_slice() {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [kind, place, number] if limit_of(kind).is_some() => number
                .parse::<usize>()
                .ok()
                .map(|number| (((*kind).to_owned(), (*place).to_owned()), number)),
            _ => None,
        };
        match entry {
            Some((key, number)) => {
                listed.insert(key, (index + 1, number));
            }
            None => findings.push(Finding::new(
                RATCHET_PATH,
                index + 1,
                "not a line of the form `file|function|parameters PLACE NUMBER`: correct it",
            )),
        }
    }
    (listed, findings)
}

fn measure(sources: &Sources<'_>) -> BTreeMap<Key, Measure> {
    let mut measured: BTreeMap<Key, Measure> = BTreeMap::new();
    let mut add = |kind: &str, place: String, measure: Measure| {
        let known = measured.entry((kind.to_owned(), place));
        known
            .and_modify(|known| {
                if measure.count > known.count {
                    known.line = measure.line;
                    known.count = measure.count;
                }
            })
            .or_insert(measure);
    };
    for (path, source) in sources {
        let at = |line, count| Measure {
            path: (*path).to_owned(),
            line,
            count,
        };
        add("file", (*path).to_owned(), at(1, source.production_lines()));
        for function in source.functions() {
            if source.is_test(function.token) {
                continue;
            }
            let place = format!("{path}::{}", function.name);
            let line = source.line(function.token);
            add("function", place.clone(), at(line, function.line_count));
            if !function.is_extern {
                add("parameters", place, at(line, function.parameter_count));
            }
        }
    }
    measured
}
