//! A file of results. While a run goes on it lies beside the file of its name, as `NAME.partial`; at the end it takes that
//! file's place in one step. So an older file is whole until something stands in its place, and what is done is there
//! whatever ends the program.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use kingtide_bench::BenchError;

use crate::failure::{Failure, Result};

/// What becomes of an older file of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Older {
    /// The new one takes its place.
    Replaced,
    /// It stays, and the new one stays beside it.
    Kept,
}

/// A file that is being written. One that nothing was written to vanishes when it is dropped.
#[derive(Debug)]
pub(super) struct ResultFile {
    path: PathBuf,
    /// Where it is until the end; `None` for a device or a pipe, which passes on what it is given.
    partial: Option<PathBuf>,
    file: File,
    is_written: bool,
}

impl ResultFile {
    /// Made at once, so that a path that cannot be written is told before anything is run.
    pub(super) fn create(path: Option<&Path>) -> Result<Option<Self>> {
        let Some(path) = path.map(place) else {
            return Ok(None);
        };
        let partial = match fs::metadata(&path) {
            Ok(older) if !older.is_file() => None,
            Ok(_) => {
                // What may not be written is not to be replaced either.
                let opened = OpenOptions::new().write(true).open(&path);
                opened.map_err(Failure::io(format!("write {}", path.display())))?;
                Some(partial_of(&path))
            }
            Err(_) => Some(partial_of(&path)),
        };
        let written = partial.as_deref().unwrap_or(&path);
        let file = File::create(written);
        let file = file.map_err(Failure::io(format!("write {}", written.display())))?;
        Ok(Some(Self {
            path,
            partial,
            file,
            is_written: false,
        }))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> kingtide_bench::Result<()> {
        let written = self.file.write_all(bytes);
        written.map_err(|source| self.failed(source))?;
        self.is_written = true;
        Ok(())
    }

    /// Gives what was written its name. Answers a remark when it stays beside an older file instead.
    pub(super) fn install(mut self, older: Older) -> kingtide_bench::Result<Option<String>> {
        if !self.is_written {
            return Ok(None);
        }
        // From here on it stays, whatever comes.
        let Some(partial) = self.partial.take() else {
            return Ok(None);
        };
        if older == Older::Kept && self.path.exists() {
            let (path, partial) = (self.path.display(), partial.display());
            let text = format!("{path} stays as it was; these results are in {partial}");
            return Ok(Some(text));
        }
        // Synced first: otherwise the machine could lose the content and not the name.
        let installed = self.file.sync_all();
        let installed = installed.and_then(|()| fs::rename(&partial, &self.path));
        installed.map(|()| None).map_err(|source| {
            let (path, partial) = (self.path.display(), partial.display());
            BenchError::Io(format!("rename {partial} to {path}"), source)
        })
    }

    fn failed(&self, source: io::Error) -> BenchError {
        let path = self.partial.as_deref().unwrap_or(&self.path);
        BenchError::Io(format!("write {}", path.display()), source)
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        if let Some(partial) = self.partial.take_if(|_| !self.is_written) {
            // An empty file that cannot be removed is the user's to see.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Refuses two outputs in one file, and an output in the place of an input. Devices and pipes take what they are given.
pub(super) fn refuse_shared_files(
    inputs: &[PathBuf],
    outputs: &[(&str, Option<&Path>)],
) -> Result<()> {
    let refused = |message: String| {
        let hint = "name another file; nothing was written";
        Err(Failure::Usage(message, hint))
    };
    let outputs = outputs
        .iter()
        .filter_map(|(option, path)| path.map(|path| (*option, path)));
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in outputs {
        if path.exists() && !path.is_file() {
            continue;
        }
        let place = place(path);
        let places = [partial_of(&place), place];
        for place in &places {
            let shown = place.display();
            if inputs.iter().any(|input| self::place(input) == *place) {
                return refused(format!("{option} would overwrite {shown}, which is read"));
            }
            if let Some((other, _)) = taken.iter().find(|(_, other)| other == place) {
                return refused(format!("{other} and {option} would both write {shown}"));
            }
        }
        taken.extend(places.map(|place| (option, place)));
    }
    Ok(())
}

/// Where the results that will be in `path` are until the end.
fn partial_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// The same for every way to name a file, whether or not it exists yet.
fn place(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent()?;
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    let found = path.canonicalize().ok().or_else(of_folder);
    found.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn create(path: &Path) -> ResultFile {
        let file = ResultFile::create(Some(path)).expect("a directory that can be written");
        file.expect("there is a path")
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).expect("directory").map(|entry| {
            let name = entry.expect("entry").file_name();
            name.into_string().expect("UTF-8")
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Goal: an older file is whole at every moment, and replaced by what is whole. Method: looks at it after each step, once
    /// by its name and once through a link.
    #[test]
    fn an_older_file_is_replaced_in_one_step() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let (path, link) = (folder.path().join("a"), folder.path().join("link"));
        symlink(&path, &link).expect("link");
        let read = || fs::read_to_string(&path).expect("file");
        fs::write(&path, "old").expect("file");
        for (named, text) in [(&path, "new"), (&link, "newer")] {
            let before = read();
            let mut file = create(named);
            file.write(text.as_bytes()).expect("space");
            assert_eq!(read(), before);
            assert_eq!(names(folder.path()), ["a", "a.partial", "link"]);
            assert_eq!(file.install(Older::Replaced).expect("space"), None);
            assert_eq!(read(), text);
            assert_eq!(names(folder.path()), ["a", "link"]);
        }
        assert!(link.is_symlink());
    }

    #[test]
    fn an_older_file_that_is_kept_has_the_new_one_beside_it() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let path = folder.path().join("a");
        let finish = || {
            let mut file = create(&path);
            file.write(b"new").expect("space");
            file.install(Older::Kept).expect("space")
        };
        assert_eq!(finish(), None, "there was none");
        assert_eq!(names(folder.path()), ["a"]);
        fs::write(&path, "old").expect("file");
        let told = finish().expect("a remark");
        assert!(told.ends_with("a.partial"), "{told}");
        assert_eq!(fs::read_to_string(&path).expect("file"), "old");
        assert_eq!(names(folder.path()), ["a", "a.partial"]);
    }

    #[test]
    fn what_nothing_was_written_to_vanishes() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let path = folder.path().join("a");
        fs::write(&path, "old").expect("file");
        drop(create(&path));
        assert_eq!(create(&path).install(Older::Replaced).expect("space"), None);
        assert_eq!(fs::read_to_string(&path).expect("file"), "old");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_device_takes_what_it_is_given() {
        let mut file = create(Path::new("/dev/null"));
        file.write(b"text").expect("it takes all");
        assert_eq!(file.install(Older::Replaced).expect("nothing to do"), None);
    }
}
