//! The files of the repository, as text in memory, so that every rule is a pure function of them and a test can hand it
//! a tree of three lines.
//!
//! On disk the tree is what git would commit: tracked files and new ones that are not ignored. Without git (a tarball)
//! it is every file outside `target` and hidden build folders.

use std::{collections::BTreeMap, fs, io, path::Path, process::Command};

/// Files larger than this are known by name only.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Paths relative to the root, with `/`, and the text of those that are text.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    /// When a folder or file cannot be read.
    pub fn load(root: &Path) -> io::Result<Self> {
        let paths = match git_paths(root) {
            Some(paths) => paths,
            None => walked_paths(root)?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            let absolute = root.join(&path);
            // A tracked file that was deleted and not yet committed is not part of the tree.
            let Ok(metadata) = fs::symlink_metadata(&absolute) else {
                continue;
            };
            if metadata.is_dir() {
                continue;
            }
            let text = if metadata.is_file() && metadata.len() <= TEXT_BYTES_MAX {
                let bytes = fs::read(&absolute)?;
                String::from_utf8(bytes)
                    .ok()
                    .filter(|text| !text.contains('\0'))
            } else {
                None
            };
            files.insert(path, text);
        }
        Ok(Self { files })
    }

    /// A tree of the given paths and texts.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())))
                .collect(),
        }
    }

    /// Number of files, text or not.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Every path, text or not.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Paths and texts of the text files.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Paths and texts of the text files whose name ends in `suffix`.
    pub fn texts_ending<'a>(
        &'a self,
        suffix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        self.texts().filter(move |(path, _)| path.ends_with(suffix))
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// True when `path` is a file of the tree.
    pub fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// True when a file of the tree lies below the folder `path`.
    pub fn has_folder(&self, path: &str) -> bool {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        self.files
            .range(prefix.clone()..)
            .next()
            .is_some_and(|(path, _)| path.starts_with(&prefix))
    }
}

/// What git tracks or would add; `None` when git is missing or `root` is no work tree of its own.
fn git_paths(root: &Path) -> Option<Vec<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let names = String::from_utf8(output.stdout).ok()?;
    Some(
        names
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

fn walked_paths(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                continue;
            };
            let path = if folder.is_empty() {
                name.to_owned()
            } else {
                format!("{folder}/{name}")
            };
            if !entry.file_type()?.is_dir() {
                paths.push(path);
            } else if name != "target" && name != ".git" {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}
