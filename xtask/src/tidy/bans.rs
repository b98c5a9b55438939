//! What code must not name or call: the world outside of `kingtide_env` in engine crates, `unsafe` outside of its
//! places, and leftovers (`todo!`, `#[ignore]`, `.unwrap()`) anywhere.

#[cfg(test)]
mod tests;

use super::{
    Finding, Sources,
    config::{BAN_EXCEPTIONS, BANNED_MACROS, BANNED_PATHS, ENGINE_ROOTS, UNSAFE_ROOTS},
    source::{NamedPath, Source},
};

/// Checks every file.
pub fn check(sources: &Sources<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in sources {
        if ENGINE_ROOTS.iter().any(|root| path.starts_with(root)) {
            check_engine_paths(path, source, &mut findings);
            check_engine_macros(path, source, &mut findings);
        }
        check_unsafe(path, source, &mut findings);
        check_leftovers(path, source, &mut findings);
    }
    findings
}

fn check_engine_paths(path: &str, source: &Source<'_>, findings: &mut Vec<Finding>) {
    let allowed: Vec<&str> = BAN_EXCEPTIONS
        .iter()
        .filter(|(root, _)| path.starts_with(root))
        .flat_map(|(_, paths)| paths.iter().copied())
        .collect();
    if allowed.contains(&"*") {
        return;
    }
    for named in source.named_paths() {
        if source.is_test(named.token) {
            continue;
        }
        let name = full_name(&named);
        let banned = BANNED_PATHS
            .iter()
            .find(|(ban, _)| covers(ban, &name) && !allowed.contains(ban));
        let line = source.line(named.token);
        if let Some((_, instead)) = banned {
            findings.push(Finding::new(
                path,
                line,
                format!("`{name}` is banned in engine crates: {instead}"),
            ));
        } else if hides_banned(&name) {
            findings.push(Finding::new(
                path,
                line,
                format!(
                    "`{name}` brings in a module with banned items: name the items that are used"
                ),
            ));
        }
    }
}

/// The path with `core` and `alloc` spelled as `std`.
fn full_name(named: &NamedPath<'_>) -> String {
    let name = named.segments.join("::");
    match named.segments.first() {
        Some(&"core" | &"alloc") => name.replacen(named.segments[0], "std", 1),
        _ => name,
    }
}

/// True when `name` is `ban` or below it.
fn covers(ban: &str, name: &str) -> bool {
    name.strip_prefix(ban)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// True when `name` is a module, or a glob of one, that holds a banned item.
fn hides_banned(name: &str) -> bool {
    let module = name.strip_suffix("::*").unwrap_or(name);
    BANNED_PATHS.iter().any(|(ban, _)| {
        ban.strip_prefix(module)
            .is_some_and(|rest| rest.starts_with("::"))
    })
}

fn check_engine_macros(path: &str, source: &Source<'_>, findings: &mut Vec<Finding>) {
    for index in 0..source.len() {
        if source.is_test(index) || source.word(index + 1) != "!" {
            continue;
        }
        let called = BANNED_MACROS
            .iter()
            .find(|(name, _)| source.word(index) == *name);
        if let Some((name, instead)) = called {
            findings.push(Finding::new(
                path,
                source.line(index),
                format!("`{name}!` is banned in engine crates: {instead}"),
            ));
        }
    }
}

fn check_unsafe(path: &str, source: &Source<'_>, findings: &mut Vec<Finding>) {
    if UNSAFE_ROOTS.iter().any(|root| path.starts_with(root)) {
        return;
    }
    for index in 0..source.len() {
        if source.word(index) == "unsafe" {
            findings.push(Finding::new(
                path,
                source.line(index),
                format!(
                    "`unsafe` may stand only in {}: move the operation there, behind a safe function",
                    UNSAFE_ROOTS.join(", ")
                ),
            ));
        }
    }
}

fn check_leftovers(path: &str, source: &Source<'_>, findings: &mut Vec<Finding>) {
    for index in 0..source.len() {
        let message = match source.word(index) {
            word @ ("todo" | "unimplemented" | "dbg") if source.word(index + 1) == "!" => {
                format!("`{word}!` is left over: finish or remove it")
            }
            "ignore" if index >= 2 && source.reads(index - 2, &["#", "["]) => {
                "an ignored test proves nothing: mend it, or delete it".to_owned()
            }
            "unwrap" if !source.is_test(index) && is_call(source, index) => {
                "`.unwrap()` outside of tests: return the error, or `expect` with the invariant that rules it out"
                    .to_owned()
            }
            "expect"
                if !source.is_test(index)
                    && is_call(source, index)
                    && source.is_literal(index + 2)
                    && !source.token_text(index + 2).trim().contains(' ') =>
            {
                "`.expect()` without a reason: say the invariant that rules the failure out".to_owned()
            }
            _ => continue,
        };
        findings.push(Finding::new(path, source.line(index), message));
    }
}

/// True when the token is the name in `.name(`.
fn is_call(source: &Source<'_>, index: usize) -> bool {
    index > 0 && source.word(index - 1) == "." && source.word(index + 1) == "("
}
