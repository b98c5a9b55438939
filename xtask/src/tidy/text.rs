//! Rules over names and plain text: no file that collects leftovers, no code in comments, nothing that is true on one
//! machine only.

#[cfg(test)]
mod tests;

use super::{Finding, Sources, Tree, source::Source};

/// File and folder names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 4] = ["utils", "util", "helpers", "helper"];

/// Beginnings of paths that exist on one machine only. Split, so that this file does not hold them.
const MACHINE_PATHS: [&str; 3] = [
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
];

/// Parts of text that point a build at one network's registry.
const REGISTRY_MARKS: [&str; 4] = [
    concat!("spar", "se+http"),
    concat!("replace", "-with"),
    concat!("artifact", "ory"),
    concat!("registry ", "= \"http"),
];

/// Checks every path and text.
pub fn check(tree: &Tree, sources: &Sources<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in tree.paths().filter(|path| path.ends_with(".rs")) {
        check_name(path, &mut findings);
    }
    for (path, text) in tree.texts() {
        check_machine(path, text, &mut findings);
    }
    for (path, source) in sources {
        check_comments(path, source, &mut findings);
    }
    findings
}

fn check_name(path: &str, findings: &mut Vec<Finding>) {
    let stems = path
        .split('/')
        .map(|part| part.strip_suffix(".rs").unwrap_or(part));
    for stem in stems {
        if EMPTY_NAMES.contains(&stem) {
            findings.push(Finding::new(
                path,
                1,
                format!("`{stem}` says nothing about what is inside: name the file after its idea"),
            ));
        }
        let is_version = stem.rsplit_once("_v").is_some_and(|(_, digits)| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        if is_version {
            findings.push(Finding::new(
                path,
                1,
                format!("`{stem}` keeps an old file beside a new one: replace the old one"),
            ));
        }
    }
}

fn check_machine(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (index, line) in text.lines().enumerate() {
        for mark in MACHINE_PATHS {
            if holds_absolute(line, mark) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!(
                        "`{mark}` exists on one machine only: use a path relative to the repository"
                    ),
                ));
            }
        }
        let lower = line.to_ascii_lowercase();
        if let Some(mark) = REGISTRY_MARKS.iter().find(|mark| lower.contains(**mark)) {
            findings.push(Finding::new(
                path,
                index + 1,
                format!("`{mark}` ties the build to one registry: leave that to the user's own configuration"),
            ));
        }
    }
}

/// True when `line` holds `mark` as the beginning of a path, not inside of a longer one.
fn holds_absolute(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        !line[..at]
            .chars()
            .next_back()
            .is_some_and(|before| before.is_alphanumeric() || "._-)}]>*".contains(before))
    })
}

fn check_comments(path: &str, source: &Source<'_>, findings: &mut Vec<Finding>) {
    for comment in source.comments() {
        let text = source.comment_text(comment);
        let is_doc = ["///", "//!", "/**", "/*!"]
            .iter()
            .any(|start| text.starts_with(start));
        let body = text.strip_prefix("//").unwrap_or("").trim();
        if !is_doc && looks_like_code(body) {
            findings.push(Finding::new(
                path,
                comment.line,
                "a comment that is code: delete it (git remembers), or say in words what it is for",
            ));
        }
    }
}

/// True for a line that reads as a statement or the head of a block. Sentences end otherwise.
fn looks_like_code(body: &str) -> bool {
    let first = body
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next()
        .unwrap_or("");
    if let Some(statement) = body.strip_suffix(';') {
        let rest = statement[first.len()..].trim();
        let is_keyword = match first {
            "let" | "const" | "static" => rest.contains(['=', ':']),
            "use" => rest.contains("::"),
            "pub" => rest.starts_with("use ") || rest.contains(':'),
            "return" => !rest.split('(').next().unwrap_or("").contains(' '),
            _ => false,
        };
        let head = statement.split('(').next().unwrap_or("");
        let is_call = statement.ends_with([')', '?'])
            && statement.contains('(')
            && !head.is_empty()
            && !head.contains(' ');
        let is_assignment = statement
            .split_once(" = ")
            .is_some_and(|(target, _)| !target.contains(' '));
        return is_keyword || is_call || is_assignment;
    }
    let opens_block = body.ends_with('{')
        && matches!(
            first,
            "if" | "for" | "while" | "match" | "loop" | "fn" | "pub" | "impl" | "struct" | "enum"
        );
    opens_block || matches!(body, "}" | "};" | "});" | "} else {")
}
