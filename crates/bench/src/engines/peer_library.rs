//! Where the shared library of a peer is found, and how its functions get their types.
#![expect(
    unsafe_code,
    reason = "loading a C library cannot be checked by the compiler"
)]

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use libloading::Library;

use crate::{BenchError, Result};

const FOLDERS: [&str; 8] = [
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/opt/homebrew/lib",
];

/// How a peer's library is called.
pub(super) struct PeerLibrary {
    /// In messages.
    pub(super) name: &'static str,
    /// The environment variable that may hold its path.
    pub(super) variable: &'static str,
    /// The file's name without what begins with `.so`.
    pub(super) stem: &'static str,
}

/// Declares `struct Api` with a typed function pointer for each line `field = "symbol": fn(..) -> ..;`, and
/// `Api::resolve`, which finds them in a library. The types must be those of the library's header.
macro_rules! api {
    ($($field:ident = $symbol:literal : fn($($argument:ty),*) $(-> $result:ty)?;)+) => {
        /// The functions in use, each with the type that the header gives it.
        #[derive(Clone, Copy)]
        pub(super) struct Api {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
        }

        impl Api {
            fn resolve(library: &libloading::Library) -> std::result::Result<Self, libloading::Error> {
                Ok(Self {
                    $(
                        // SAFETY: the symbol, if the library has it, is the C function of this name, and the type
                        // written beside it in the list is the one that the public header declares for it.
                        $field: *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }?,
                    )+
                })
            }
        }
    };
}
pub(super) use api;

/// Loads the library at `path`, or at the one its variable names, or from the usual places; answers what `resolve` made
/// of it and its file, symbolic links resolved. It is never unloaded: an engine may keep threads and statics that
/// outlive a database.
///
/// # Errors
/// [`BenchError::Missing`] that says where it was looked for, or which symbol a library lacks.
pub(super) fn load<A>(
    peer: &PeerLibrary,
    path: Option<&Path>,
    resolve: fn(&Library) -> std::result::Result<A, libloading::Error>,
) -> Result<(A, PathBuf)> {
    let candidates = match path {
        Some(path) => vec![path.to_owned()],
        None => match env::var_os(peer.variable) {
            Some(path) => vec![PathBuf::from(path)],
            None => usual_places(peer.stem),
        },
    };
    let mut refused = Vec::new();
    for candidate in &candidates {
        match load_file(candidate, resolve) {
            Ok(api) => {
                let file = fs::canonicalize(candidate).unwrap_or_else(|_| candidate.clone());
                return Ok((api, file));
            }
            Err(source) => refused.push(refusal(candidate, &source)),
        }
    }
    let looked = if refused.is_empty() {
        format!("no {}.so* in {}", peer.stem, FOLDERS.join(", "))
    } else {
        refused.join("; ")
    };
    Err(BenchError::Missing(format!(
        "{} could not be loaded: {looked}. Install what is missing, or name the library in {}",
        peer.name, peer.variable
    )))
}

/// Why the library at `path` cannot be used: what the dynamic linker says, which names the file that it is about.
fn refusal(path: &Path, source: &libloading::Error) -> String {
    let told = source
        .source()
        .map_or_else(|| source.to_string(), ToString::to_string);
    let path = path.display().to_string();
    if told.contains(&path) {
        told
    } else {
        format!("{path}: {told}")
    }
}

fn load_file<A>(
    path: &Path,
    resolve: fn(&Library) -> std::result::Result<A, libloading::Error>,
) -> std::result::Result<A, libloading::Error> {
    // SAFETY: loading runs the library's initialisers. The file is the one the user named, or the system's own library
    // of this name, whose initialisers have no preconditions.
    let library = unsafe { Library::new(path) }?;
    let api = resolve(&library)?;
    std::mem::forget(library);
    Ok(api)
}

/// The bytes that a C function answered.
///
/// # Safety
/// - `start` is null, or `count` bytes may be read there for as long as the caller uses the answer.
pub(super) unsafe fn foreign_bytes<'a>(start: *const u8, count: usize) -> &'a [u8] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not null, and the caller vouches for the length and the time.
    unsafe { std::slice::from_raw_parts(start, count) }
}

/// What results say of a library that no function asks for its version: the release that the name of its file tells, if it tells
/// one, and the file.
pub(super) fn version_of_file(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let release = name.split_once(".so.").map(|(_, release)| release);
    match release.filter(|release| numbers(release).is_some()) {
        Some(release) => format!("{release} ({})", file.display()),
        None => file.display().to_string(),
    }
}

/// The numbers between the dots of `version`; `None` when there are others than numbers.
fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

/// Every library of this stem in the usual folders: the plain name first, then versions, the newest first.
fn usual_places(stem: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(version) = library_version(stem, &name) {
                found.push((version, entry.path()));
            }
        }
    }
    found.sort_by(|left, right| right.cmp(left));
    found.into_iter().map(|(_, path)| path).collect()
}

/// The version in a name like `librocksdb.so.7.8`; the unversioned name, which names the one the administrator
/// prefers, counts as the newest. `None` for other files.
fn library_version(stem: &str, name: &str) -> Option<Vec<u32>> {
    let rest = name.strip_prefix(stem)?;
    match rest {
        ".dylib" | ".so" => Some(vec![u32::MAX]),
        _ => numbers(rest.strip_prefix(".so.")?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_number_and_other_files_are_left_alone() {
        let version = |name| library_version("librocksdb", name);
        assert!(version("librocksdb.so.10.2") > version("librocksdb.so.7.8.3"));
        assert!(version("librocksdb.so") > version("librocksdb.so.11"));
        assert_eq!(version("librocksdb.so.7.8"), Some(vec![7, 8]));
        assert_eq!(version("librocksdb.so.old"), None);
        assert_eq!(version("librocksdbjni.so"), None);
    }

    #[test]
    fn results_tell_the_release_of_a_file_that_names_it() {
        let told = |file| version_of_file(Path::new(file));
        assert_eq!(
            told("/lib/librocksdb.so.11.8.1"),
            "11.8.1 (/lib/librocksdb.so.11.8.1)"
        );
        assert_eq!(told("/lib/libtidesdb.so"), "/lib/libtidesdb.so");
        assert_eq!(told("/lib/librocksdb.so.old"), "/lib/librocksdb.so.old");
    }

    #[test]
    fn a_library_that_is_not_there_is_named_in_the_error() {
        let peer = PeerLibrary {
            name: "Nothing",
            variable: "KINGTIDE_NOTHING",
            stem: "libnothing",
        };
        let path = Path::new("/nowhere/libnothing.so");
        let message = load(&peer, Some(path), |_| Ok(()))
            .expect_err("no such file")
            .to_string();
        assert!(message.contains("/nowhere/libnothing.so"), "{message}");
        assert!(message.contains("KINGTIDE_NOTHING"), "{message}");
    }

    /// Goal: the linker's reason is told: what is wrong with a file, and which function a library lacks.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_reason_of_a_refusal_is_told() {
        let peer = PeerLibrary {
            name: "Nothing",
            variable: "KINGTIDE_NOTHING",
            stem: "libnothing",
        };
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        fs::write(file.path(), "no library").expect("it can be written");
        let refused = load(&peer, Some(file.path()), |_| Ok(())).expect_err("no library");
        let message = refused.to_string();
        assert!(!message.contains("dlopen failed"), "{message}");
        assert!(
            message.contains("file too short") || message.contains("ELF"),
            "{message}"
        );

        type Lacking = unsafe extern "C" fn();
        let lacking = |library: &Library| {
            // SAFETY: nothing is called, and there is no such function.
            unsafe { library.get::<Lacking>(b"kingtide_has_no_such_function\0") }.map(|_| ())
        };
        let refused = load(&peer, Some(Path::new("libc.so.6")), lacking).expect_err("lacks it");
        let message = refused.to_string();
        assert!(
            message.contains("kingtide_has_no_such_function"),
            "{message}"
        );
    }
}
