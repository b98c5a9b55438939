//! Rules over `Cargo.toml`: the layers of the crates, a reason for each external dependency, a description for each
//! crate.
//!
//! Reads the part of TOML that manifests here are written in: one dependency a line, `name = ...`,
//! `name.workspace = true`, or a `[dependencies.name]` table.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Finding, Tree,
    config::{CRATE_LAYERS, DEV_CYCLES},
};

/// Words that a reason has at least.
const REASON_WORDS_MIN: usize = 2;

/// One dependency line of a manifest.
#[derive(Debug)]
struct Dependency<'a> {
    name: &'a str,
    line: usize,
    is_dev: bool,
    /// What stands behind the name, comment included.
    value: &'a str,
}

/// What the rules need of one manifest.
#[derive(Debug, Default)]
struct Manifest<'a> {
    name: &'a str,
    has_description: bool,
    dependencies: Vec<Dependency<'a>>,
}

/// Checks every manifest of the workspace.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests: Vec<(&str, Manifest<'_>)> = tree
        .texts_ending("/Cargo.toml")
        .filter(|(path, _)| path.starts_with("crates/") || path.starts_with("xtask/"))
        .map(|(path, text)| (path, parse(text)))
        .collect();
    let mut findings = Vec::new();
    let edges: BTreeMap<&str, Vec<&str>> = manifests
        .iter()
        .map(|(_, manifest)| {
            let below = manifest.dependencies.iter().filter(|edge| !edge.is_dev);
            (manifest.name, below.map(|edge| edge.name).collect())
        })
        .collect();
    for (path, manifest) in &manifests {
        if !manifest.has_description {
            findings.push(Finding::new(
                path,
                1,
                "no `description`: say in one line what the crate is",
            ));
        }
        check_layers(path, manifest, &edges, &mut findings);
    }
    if let Some(text) = tree.text("Cargo.toml") {
        check_reasons(text, &mut findings);
    }
    if let Some(text) = tree.text("Cargo.lock") {
        check_sources(text, &mut findings);
    }
    findings
}

fn parse(text: &str) -> Manifest<'_> {
    let mut manifest = Manifest::default();
    let mut section = "";
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.split(']').next().unwrap_or(header);
            let table = section
                .rsplit_once('.')
                .filter(|(parent, _)| parent.ends_with("dependencies"));
            if let Some((parent, name)) = table {
                manifest.dependencies.push(Dependency {
                    name,
                    line: index + 1,
                    is_dev: parent.ends_with("dev-dependencies"),
                    value: "workspace",
                });
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        match (section, key) {
            ("package", "name") => manifest.name = value.trim_matches('"'),
            ("package", "description") => {
                manifest.has_description = value.trim_matches('"').trim() != "";
            }
            _ if section.ends_with("dependencies") => manifest.dependencies.push(Dependency {
                name: key.split('.').next().unwrap_or(key).trim_matches('"'),
                line: index + 1,
                is_dev: section.ends_with("dev-dependencies"),
                value: if key.ends_with(".workspace") {
                    "workspace"
                } else {
                    value
                },
            }),
            _ => {}
        }
    }
    manifest
}

fn check_layers(
    path: &str,
    manifest: &Manifest<'_>,
    edges: &BTreeMap<&str, Vec<&str>>,
    findings: &mut Vec<Finding>,
) {
    let layer = CRATE_LAYERS.iter().find(|(name, _)| *name == manifest.name);
    let Some((_, allowed)) = layer else {
        findings.push(Finding::new(
            path,
            1,
            format!(
                "crate `{}` has no layer: add it to CRATE_LAYERS in xtask/src/tidy/config.rs",
                manifest.name
            ),
        ));
        return;
    };
    for edge in &manifest.dependencies {
        let message = if !edges.contains_key(edge.name) {
            if edge.value.contains("workspace") {
                continue;
            }
            format!(
                "`{}` is not taken from the workspace: list it in the root Cargo.toml with its reason and use `workspace = true`",
                edge.name
            )
        } else if !edge.is_dev && !allowed.contains(&edge.name) {
            format!(
                "`{}` may not depend on `{}`: dependencies point down, see ARCHITECTURE.md",
                manifest.name, edge.name
            )
        } else if edge.is_dev
            && reaches(edges, edge.name, manifest.name)
            && !DEV_CYCLES.contains(&(manifest.name, edge.name))
        {
            format!(
                "dev-dependency `{}` is built on `{}` itself: move the test up to `{}`",
                edge.name, manifest.name, edge.name
            )
        } else {
            continue;
        };
        findings.push(Finding::new(path, edge.line, message));
    }
}

/// True when `from` depends on `to`, directly or not.
fn reaches(edges: &BTreeMap<&str, Vec<&str>>, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name) {
            open.extend(edges.get(name).into_iter().flatten().copied());
        }
    }
    false
}

/// Each external dependency of the workspace says why it is there, behind it or on the line above.
fn check_reasons(text: &str, findings: &mut Vec<Finding>) {
    let mut above = "";
    let mut in_dependencies = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            in_dependencies = line.starts_with("[workspace.dependencies]");
        } else if in_dependencies && line.contains('=') && !line.starts_with('#') {
            let (value, behind) = line.split_once('#').unwrap_or((line, ""));
            let comment = if behind.is_empty() { above } else { behind };
            let has_reason =
                comment.trim_start_matches('#').split_whitespace().count() >= REASON_WORDS_MIN;
            if !value.contains("path =") && !has_reason {
                let name = value.split('=').next().unwrap_or(value).trim();
                findings.push(Finding::new(
                    "Cargo.toml",
                    index + 1,
                    format!(
                        "`{name}` has no reason: say in a comment what it does that std cannot"
                    ),
                ));
            }
        }
        above = if line.starts_with('#') { line } else { "" };
    }
}

/// The lock file names crates.io and nothing else, so that a build does not depend on one network.
fn check_sources(text: &str, findings: &mut Vec<Finding>) {
    let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
    for (index, line) in text.lines().enumerate() {
        let Some(source) = line.strip_prefix("source = ") else {
            continue;
        };
        if source.trim_matches('"') != crates_io {
            findings.push(Finding::new(
                "Cargo.lock",
                index + 1,
                format!("source {source} is not crates.io: depend on a published version"),
            ));
        }
    }
}
