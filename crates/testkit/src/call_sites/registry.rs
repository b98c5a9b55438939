//! The list of all sites, read from the sources.
//!
//! Every line of the engine that calls a method of the world's traits is one. Which calls these are is told by the names
//! of the methods; some of them, such as `remove`, are common, and then the list of [`OTHERS`] says which receivers are
//! not the world. A call that this mistakes for a site is never made, so it fails the proof until it is named here; a
//! site that it misses fails the proof when its call is made.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::site::{CRATES, Site};

/// Methods of the world that no other type of the engine has.
const CERTAIN: [&str; 12] = [
    "available_bytes",
    "open_directory",
    "canonical_path",
    "read_at",
    "read_exact_at",
    "write_at",
    "prepare_window",
    "allocate",
    "allocate_for_small_syncs",
    "set_len",
    "remove_directory",
    "spawn",
];

/// Methods of the world that others have too.
const COMMON: [&str; 7] = ["open", "list", "rename", "remove", "link", "sync", "lock"];

/// Receivers of these methods that are not the world, by the last word of the receiver.
const OTHERS: [(&str, &[&str]); 6] = [
    ("list", &["snapshots", "ranges", "prepared", "deleted"]),
    ("rename", &["families"]),
    (
        "remove",
        &[
            "abandoned",
            "blanks",
            "by_name",
            "entries",
            "families",
            "kept",
            "known",
            "lines",
            "live",
            "names",
            "obsolete",
            "open",
            "owners",
            "prepared",
            "queue",
            "queues",
            "savepoints",
            "tables",
            "table_levels",
            "value_files",
            "values",
            "windows",
            "model",
            "state",
        ],
    ),
    ("sync", &["output", "target", "unsynced"]),
    ("link", &["place"]),
    ("prepare_window", &["segment"]),
];

/// All lines of the engine that call into the world, as (file, line); the engine's sources are those of this repository.
///
/// # Errors
/// What the system answers when the sources cannot be read.
pub fn listed() -> io::Result<BTreeSet<(String, u32)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sites = BTreeSet::new();
    for folder in CRATES {
        let mut files = Vec::new();
        collect(&root.join(folder), Path::new(folder), &mut files)?;
        for (path, name) in files {
            let text = fs::read_to_string(path)?;
            let lines: Vec<&str> = text.lines().collect();
            for index in 0..lines.len() {
                if lines[index].starts_with("#[cfg(test)]") && is_module(&lines[index + 1..]) {
                    break;
                }
                if is_site(&lines, index) {
                    sites.insert((name.clone(), index as u32 + 1));
                }
            }
        }
    }
    Ok(sites)
}

/// True when the attribute in front of `lines` is that of an inline module.
fn is_module(lines: &[&str]) -> bool {
    let item = lines.iter().find(|line| !line.starts_with("#["));
    item.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
}

/// Sources below `folder`, which is `name` from the root, without tests.
fn collect(folder: &Path, name: &Path, files: &mut Vec<(PathBuf, String)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let is_test = matches!(file_name, "tests" | "testing.rs")
            || ["tests.rs", "models.rs"]
                .iter()
                .any(|ending| file_name.ends_with(ending));
        let name = name.join(file_name);
        if is_test {
            continue;
        } else if path.is_dir() {
            collect(&path, &name, files)?;
        } else if file_name.ends_with(".rs") {
            files.push((path, name.display().to_string()));
        }
    }
    Ok(())
}

fn is_site(lines: &[&str], index: usize) -> bool {
    let line = lines[index];
    if line.trim_start().starts_with("//") {
        return false;
    }
    let before = |place: usize| match line[..place].trim() {
        "" => last_word(lines[..index].last().copied().unwrap_or_default()),
        receiver => last_word(receiver),
    };
    let call = |method: &str| {
        let text = format!(".{method}(");
        line.find(&text)
            .map(|place| (before(place), &line[place + text.len()..]))
    };
    let is_own = |receiver: &str| receiver == "self";
    let is_other = |method: &str, receiver: &str| {
        let others = OTHERS.iter().find(|(of, _)| *of == method);
        is_own(receiver) || others.is_some_and(|(_, names)| names.contains(&receiver))
    };
    let is_certain = CERTAIN
        .iter()
        .any(|method| call(method).is_some_and(|(receiver, _)| !is_other(method, receiver)));
    let is_common = COMMON.iter().any(|method| {
        let Some((receiver, arguments)) = call(method) else {
            return false;
        };
        let next = lines
            .get(index + 1..index + 3)
            .unwrap_or_default()
            .join(" ");
        let fits = match *method {
            "open" => arguments.contains("OpenMode") || next.contains("OpenMode"),
            "lock" => !arguments.starts_with(')'),
            _ => true,
        };
        fits && !is_other(method, receiver)
    });
    let is_length = call("len").is_some_and(|(receiver, _)| receiver == "file");
    is_certain || is_common || is_length
}

/// The last word of the receiver of a call.
fn last_word(receiver: &str) -> &str {
    let receiver = receiver.trim().trim_end_matches('?');
    let receiver = receiver.trim_end_matches(".lock()").trim_end_matches("()");
    let receiver = receiver.trim_end_matches(')');
    let start = receiver
        .rfind(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .map_or(0, |place| place + 1);
    &receiver[start..]
}

/// True when the list has the line of `site`, or, for a call that is written over several lines, one of the two after it.
#[must_use]
pub fn holds(listed: &BTreeSet<(String, u32)>, site: &Site) -> Option<(String, u32)> {
    (site.line..site.line + 3)
        .map(|line| (site.file.clone(), line))
        .find(|place| listed.contains(place))
}
