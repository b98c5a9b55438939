//! Documents: every relative link leads to a file of the tree, and its anchor to a heading; every page of a durable
//! format is listed in ARCHITECTURE.md; README.md tells people to run the tests as `.ci/run` does.
//!
//! Anchors are made from headings the way GitHub does it. Code blocks and code spans are not looked at.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

const FORMATS_FOLDER: &str = "docs/formats/";

/// Checks every document.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let anchors: BTreeMap<&str, BTreeSet<String>> = tree
        .texts_ending(".md")
        .map(|(path, text)| (path, anchors_of(text)))
        .collect();
    for (path, text) in tree.texts_ending(".md") {
        for (line, target) in links_of(text) {
            if let Some(fault) = fault_of(tree, &anchors, path, &target) {
                findings.push(Finding::new(
                    path,
                    line,
                    format!("link `{target}`: {fault}: correct it or drop it"),
                ));
            }
        }
    }
    if let Some(architecture) = tree.text("ARCHITECTURE.md") {
        for (path, _) in tree.texts_ending(".md") {
            let is_listed = path
                .strip_prefix(FORMATS_FOLDER)
                .is_none_or(|name| architecture.contains(&format!("formats/{name}")));
            if !is_listed {
                findings.push(Finding::new(
                    path,
                    1,
                    "a format that ARCHITECTURE.md does not list: link it there",
                ));
            }
        }
    }
    check_test_command(tree, &mut findings);
    findings
}

fn check_test_command(tree: &Tree, findings: &mut Vec<Finding>) {
    let (Some(script), Some(readme)) = (tree.text(".ci/run"), tree.text("README.md")) else {
        return;
    };
    let commands = script
        .lines()
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, line.strip_prefix("run ")?)))
        .filter(|(_, command)| command.starts_with("cargo test --workspace"));
    for (line, command) in commands {
        if !readme.lines().any(|said| said.trim().starts_with(command)) {
            findings.push(Finding::new(
                ".ci/run",
                line,
                format!("README.md does not say `{command}`: use the same line in both"),
            ));
        }
    }
}

/// The lines of a document outside of code blocks, numbered from 1, with code spans blanked out when `blank_spans`.
fn prose_lines(text: &str, blank_spans: bool) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) if blank_spans => lines.push((index + 1, without_code_spans(line))),
            (None, None) => lines.push((index + 1, line.to_owned())),
            (Some(_), _) => {}
        }
    }
    lines
}

fn without_code_spans(line: &str) -> String {
    // Odd pieces lie between two backticks; a last odd piece has no closing one and is prose.
    let pieces: Vec<&str> = line.split('`').collect();
    let last = pieces.len() - 1;
    pieces
        .iter()
        .enumerate()
        .map(|(index, piece)| {
            if index % 2 == 1 && index < last {
                "code"
            } else {
                *piece
            }
        })
        .collect()
}

/// Targets of inline links, images and link definitions, each with its line.
fn links_of(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (line, prose) in prose_lines(text, true) {
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            if let Some(end) = rest.find([')', ' ']) {
                links.push((line, rest[..end].trim_matches(['<', '>']).to_owned()));
            }
        }
        let definition = prose
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]:"));
        if let Some((_, target)) = definition
            && let Some(target) = target.split_whitespace().next()
        {
            links.push((line, target.to_owned()));
        }
    }
    links
}

fn fault_of(
    tree: &Tree,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
    path: &str,
    target: &str,
) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let resolved = if file.is_empty() {
        path.to_owned()
    } else {
        match resolve(path, file) {
            Some(resolved) => resolved,
            None => return Some("leads out of the repository"),
        }
    };
    if !tree.has_file(&resolved) && !tree.has_folder(&resolved) {
        return Some("no such file");
    }
    let has_anchor = anchor.is_empty()
        || anchors
            .get(resolved.as_str())
            .is_none_or(|known| known.contains(anchor));
    if has_anchor {
        None
    } else {
        Some("no such heading")
    }
}

/// `target` as seen from the file `path`, relative to the root; `None` when it leads out.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        path.split('/').collect()
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a document: its headings, and `id` and `name` attributes.
fn anchors_of(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in prose_lines(text, false) {
        let heading = line.trim_start_matches('#');
        let depth = line.len() - heading.len();
        if (1..=6).contains(&depth) && heading.starts_with(' ') {
            let slug = slug_of(heading.trim().trim_end_matches('#').trim_end());
            let count = used.entry(slug.clone()).or_insert(0);
            anchors.insert(match *count {
                0 => slug,
                repeat => format!("{slug}-{repeat}"),
            });
            *count += 1;
        }
        for attribute in ["id=\"", "name=\""] {
            for (at, _) in line.match_indices(attribute) {
                let rest = &line[at + attribute.len()..];
                anchors.extend(rest.split('"').next().map(str::to_owned));
            }
        }
    }
    anchors
}

/// Lower case, spaces to hyphens, punctuation dropped; of a link only its text.
fn slug_of(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, behind)| behind);
    }
    shown.push_str(rest);
    shown
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}
