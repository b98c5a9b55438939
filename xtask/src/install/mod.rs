//! `install`: builds the C library and the command, and puts them with headers, manual pages and build files where other
//! programs find them.
//!
//! Below the prefix:
//!
//! | place | what |
//! |---|---|
//! | `include/tidesdb/`, `include/kingtide.h` | the headers |
//! | `lib/libkingtide.so`, `lib/libkingtide.a` | the library; its soname is `libtidesdb.so.9` |
//! | `lib/libtidesdb.so.9`, `lib/libtidesdb.so` | links to it: what programs ask for at run time, and linkers |
//! | `lib/pkgconfig/`, `lib/cmake/` | how build systems find it, under both names |
//! | `bin/kingtide` | the command |
//! | `share/man/man1`, `share/man/man3` | pages of the command, and of the C functions, made from the headers |
//! | `share/bash-completion`, `share/zsh`, `share/fish` | completions |
//!
//! Every file is written beside its place and renamed into it, so that programs which have the old library mapped go on
//! with it. A file that is as it should be is left alone, so that a second run changes nothing.
//!
//! It removes nothing, runs no `ldconfig`, and does not look at what else is installed under these names.

mod files;
mod manual;

#[cfg(test)]
mod tests;

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{self, Command},
};

/// The name that programs look for at run time; crates/capi/build.rs gives it to the library.
const SONAME: &str = "libtidesdb.so.9";
/// Versions of libtidesdb that can be claimed: those whose interface is the library's.
const PROVIDED: [&str; 2] = ["9.3.14", OLDER];
/// The one whose statistics of a database are two fields shorter. Programs that were compiled for one cannot use the other.
const OLDER: &str = "9.3.6";

/// How to call it, for the usage text.
pub(super) const USAGE: &str = "\
  install --prefix DIR [--destdir DIR] [--provide-version 9.3.14|9.3.6] [--profile release|dev]
                  build and install the C library, its headers, the command and their manuals
";

/// What the command line asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// Where the files will be used.
    prefix: PathBuf,
    /// What stands before the prefix while they are put there; for packages.
    destination: PathBuf,
    /// The version of libtidesdb that build systems are told.
    provided: &'static str,
    /// The cargo profile.
    profile: Profile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    Release,
    Dev,
}

impl Profile {
    /// Its folder in the target directory.
    fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "debug",
        }
    }
}

/// Builds and installs.
///
/// # Errors
/// In words: a wrong argument, a build that failed, a file that could not be written.
pub(super) fn run(root: &Path, arguments: &[&str]) -> Result<bool, String> {
    let request = parse(arguments)?;
    let target = build(root, &request)?;
    let mut installer = Installer::new(&request);
    installer.headers(root)?;
    installer.libraries(&target)?;
    installer.build_files()?;
    installer.command(&target.join("kingtide"))?;
    installer.function_pages(root)?;
    println!(
        "installed below {}: {} files written, {} as they were",
        installer.root.display(),
        installer.written,
        installer.kept
    );
    Ok(true)
}

fn parse(arguments: &[&str]) -> Result<Request, String> {
    let (mut prefix, mut destination) = (None, PathBuf::new());
    let (mut provided, mut profile) = (PROVIDED[0], Profile::Release);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, value),
            None => (
                *word,
                *words
                    .next()
                    .ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"))?,
            ),
        };
        match name {
            "--prefix" => prefix = Some(PathBuf::from(value)),
            "--destdir" => destination = PathBuf::from(value),
            "--provide-version" => {
                provided = PROVIDED
                    .into_iter()
                    .find(|known| *known == value)
                    .ok_or_else(|| format!("{value} is none of {}", PROVIDED.join(", ")))?;
            }
            "--profile" => {
                profile = match value {
                    "release" => Profile::Release,
                    "dev" => Profile::Dev,
                    _ => return Err(format!("{value} is neither release nor dev")),
                }
            }
            _ => return Err(format!("{name} is no option of install\n\n{USAGE}")),
        }
    }
    let prefix = prefix.ok_or_else(|| format!("--prefix is missing\n\n{USAGE}"))?;
    let absolute = |path: PathBuf| {
        std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let destination = if destination.as_os_str().is_empty() {
        destination
    } else {
        absolute(destination)?
    };
    Ok(Request {
        prefix: absolute(prefix)?,
        destination,
        provided,
        profile,
    })
}

/// Builds the library and the command; answers the folder they are in.
fn build(root: &Path, request: &Request) -> Result<PathBuf, String> {
    let profile = request.profile;
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "build",
            "--locked",
            "-p",
            "kingtide-capi",
            "-p",
            "kingtide-cli",
        ])
        .current_dir(root);
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    if request.provided == OLDER {
        cargo.args(["--features", "kingtide-capi/abi-9-3-6"]);
    }
    let status = cargo
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err("the build failed".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder));
    Ok(target.join(profile.folder()))
}

/// Puts files below the prefix, and counts them.
struct Installer<'a> {
    request: &'a Request,
    /// Where the prefix is for now.
    root: PathBuf,
    written: usize,
    kept: usize,
}

impl<'a> Installer<'a> {
    fn new(request: &'a Request) -> Self {
        let root = if request.destination.as_os_str().is_empty() {
            request.prefix.clone()
        } else {
            let below = request.prefix.strip_prefix("/").unwrap_or(&request.prefix);
            request.destination.join(below)
        };
        Self {
            request,
            root,
            written: 0,
            kept: 0,
        }
    }

    fn headers(&mut self, root: &Path) -> Result<(), String> {
        let source = root.join("crates/capi/include");
        for name in ["kingtide.h", "tidesdb/db.h"] {
            let text = read(&source.join(name))?;
            self.file(&format!("include/{name}"), &text, 0o644)?;
        }
        let mut text = read_text(&source.join("tidesdb/tidesdb.h"))?;
        if self.request.provided == OLDER {
            text = files::older_header(&text)?;
        }
        self.file("include/tidesdb/tidesdb.h", text.as_bytes(), 0o644)?;
        let version = read_text(&source.join("tidesdb/tidesdb_version.h"))?;
        let version = files::version_header(&version, PROVIDED[0], self.request.provided);
        self.file(
            "include/tidesdb/tidesdb_version.h",
            version.as_bytes(),
            0o644,
        )
    }

    fn libraries(&mut self, target: &Path) -> Result<(), String> {
        let shared = read(&target.join("libkingtide_capi.so"))?;
        self.file("lib/libkingtide.so", &shared, 0o755)?;
        self.link(&format!("lib/{SONAME}"), "libkingtide.so")?;
        self.link("lib/libtidesdb.so", SONAME)?;
        let archive = read(&target.join("libkingtide_capi.a"))?;
        self.file("lib/libkingtide.a", &archive, 0o644)
    }

    fn build_files(&mut self) -> Result<(), String> {
        let request = self.request;
        for package in [
            files::Package::kingtide(),
            files::Package::tidesdb(request.provided),
        ] {
            let name = package.name;
            let pc = package.pkg_config(&request.prefix.display().to_string());
            self.file(&format!("lib/pkgconfig/{name}.pc"), pc.as_bytes(), 0o644)?;
            let folder = format!("lib/cmake/{name}");
            let config = package.cmake_config();
            self.file(
                &format!("{folder}/{name}-config.cmake"),
                config.as_bytes(),
                0o644,
            )?;
            let version = package.cmake_version();
            self.file(
                &format!("{folder}/{name}-config-version.cmake"),
                version.as_bytes(),
                0o644,
            )?;
        }
        Ok(())
    }

    /// The command, and what it tells of itself.
    fn command(&mut self, binary: &Path) -> Result<(), String> {
        self.file("bin/kingtide", &read(binary)?, 0o755)?;
        let page = output_of(binary, &["man"])?;
        self.file("share/man/man1/kingtide.1", &page, 0o644)?;
        let help = output_of(binary, &["--help"])?;
        for name in files::commands_in_help(&String::from_utf8_lossy(&help)) {
            let page = output_of(binary, &["man", &name])?;
            self.file(&format!("share/man/man1/kingtide-{name}.1"), &page, 0o644)?;
        }
        for (shell, place) in [
            ("bash", "share/bash-completion/completions/kingtide"),
            ("zsh", "share/zsh/site-functions/_kingtide"),
            ("fish", "share/fish/vendor_completions.d/kingtide.fish"),
        ] {
            let script = output_of(binary, &["completions", shell])?;
            self.file(place, &script, 0o644)?;
        }
        Ok(())
    }

    fn function_pages(&mut self, root: &Path) -> Result<(), String> {
        let include = root.join("crates/capi/include");
        for (file, include_as, overview) in [
            ("tidesdb/tidesdb.h", "tidesdb/tidesdb.h", Some("tidesdb")),
            ("tidesdb/db.h", "tidesdb/db.h", None),
            ("kingtide.h", "kingtide.h", Some("kingtide")),
        ] {
            let text = read_text(&include.join(file))?;
            for page in manual::pages(&text, include_as, overview) {
                let place = format!("share/man/man3/{}.3", page.name);
                self.file(&place, page.roff.as_bytes(), 0o644)?;
            }
        }
        Ok(())
    }

    /// Puts `bytes` at `place` below the prefix.
    fn file(&mut self, place: &str, bytes: &[u8], mode: u32) -> Result<(), String> {
        let path = self.root.join(place);
        let is_right = fs::symlink_metadata(&path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o777 == mode)
            && fs::read(&path).is_ok_and(|found| found == bytes);
        self.place(&path, is_right, |beside| {
            let mut file = fs::File::create(beside)?;
            file.write_all(bytes)?;
            file.set_permissions(fs::Permissions::from_mode(mode))
        })
    }

    /// Puts a symbolic link to a neighbour at `place`.
    fn link(&mut self, place: &str, neighbour: &str) -> Result<(), String> {
        let path = self.root.join(place);
        let is_right = fs::read_link(&path).is_ok_and(|found| found == Path::new(neighbour));
        self.place(&path, is_right, |beside| symlink(neighbour, beside))
    }

    /// Lets `make` make something beside `path` and renames it there, unless what is there is right.
    fn place(
        &mut self,
        path: &Path,
        is_right: bool,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), String> {
        if is_right {
            self.kept += 1;
            return Ok(());
        }
        let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = folder.join(format!(".{name}.{}", process::id()));
        let outcome = make(&beside).and_then(|()| fs::rename(&beside, path));
        if let Err(error) = outcome {
            // The error is what matters; what is left over is small and hidden.
            let _ = fs::remove_file(&beside);
            return Err(failed(error));
        }
        self.written += 1;
        println!("wrote {}", path.display());
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn read_text(path: &Path) -> Result<String, String> {
    String::from_utf8(read(path)?).map_err(|_| format!("{} is not UTF-8", path.display()))
}

fn output_of(program: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{} {}: {}",
            program.display(),
            arguments.join(" "),
            output.status
        ));
    }
    Ok(output.stdout)
}
