//! Goal: what is installed is right, a second run changes nothing, and the texts say what build systems expect. The build
//! itself and the programs that use the result are tested by scripts/clients.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use super::*;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("xtask-install-{}-{number}", process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn request(prefix: &str, destination: &Path) -> Request {
    Request {
        prefix: PathBuf::from(prefix),
        destination: destination.to_owned(),
        provided: "9.3.6",
        profile: Profile::Dev,
    }
}

#[test]
fn arguments_are_checked() {
    let parsed = parse(&["--prefix", "/opt/k", "--provide-version=9.3.6"]).expect("right");
    assert_eq!(parsed.prefix, Path::new("/opt/k"));
    assert_eq!(
        (parsed.provided, parsed.profile),
        ("9.3.6", Profile::Release)
    );
    for (wrong, word) in [
        (&["--destdir", "/x"][..], "--prefix"),
        (&["--prefix"], "value"),
        (&["--prefix", "/x", "--provide-version", "8.0.0"], "8.0.0"),
        (&["--prefix", "/x", "--profile", "fast"], "fast"),
        (&["--prefx", "/x"], "--prefx"),
    ] {
        let message = parse(wrong).expect_err("wrong");
        assert!(message.contains(word), "{message}");
    }
    // A relative prefix would mean another place for every user of the files.
    assert!(
        parse(&["--prefix", "here"])
            .expect("right")
            .prefix
            .is_absolute()
    );
}

#[test]
fn files_go_below_destination_and_prefix_and_a_second_run_changes_nothing() {
    let folder = Folder::new();
    let request = request("/opt/kingtide", &folder.0);
    let install = || {
        let mut installer = Installer::new(&request);
        installer.headers(&repository()).expect("headers");
        installer.build_files().expect("build files");
        installer.function_pages(&repository()).expect("pages");
        installer.link("lib/libtidesdb.so", SONAME).expect("link");
        (installer.written, installer.kept)
    };
    let (written, kept) = install();
    assert!(written > 100 && kept == 0, "{written} {kept}");
    assert_eq!(install(), (0, written));

    let root = folder.0.join("opt/kingtide");
    let pc = fs::read_to_string(root.join("lib/pkgconfig/tidesdb.pc")).expect("there");
    assert!(
        pc.contains("prefix=/opt/kingtide\n") && pc.contains("Version: 9.3.6\n"),
        "{pc}"
    );
    let header = fs::read_to_string(root.join("include/tidesdb/tidesdb_version.h")).expect("there");
    assert!(
        header.contains("TIDESDB_VERSION \"9.3.6\"") && header.contains("PATCH 6\n"),
        "{header}"
    );

    let header = fs::read_to_string(root.join("include/tidesdb/tidesdb.h")).expect("there");
    assert!(
        !header.contains("seen_epoch") && header.contains("replica_mode"),
        "the fields of 9.3.6"
    );

    // What was changed by others is put right.
    fs::write(root.join("include/kingtide.h"), "").expect("writable");
    fs::remove_file(root.join("lib/libtidesdb.so")).expect("there");
    assert_eq!(install(), (2, written - 2));
    let left: Vec<_> = fs::read_dir(root.join("include"))
        .expect("there")
        .flatten()
        .collect();
    assert_eq!(left.len(), 2, "nothing is left beside: {left:?}");
}

#[test]
fn what_cannot_be_written_is_named() {
    let folder = Folder::new();
    fs::write(folder.0.join("include"), "a file").expect("writable");
    let request = request("/", &folder.0);
    let message = Installer::new(&request)
        .headers(&repository())
        .expect_err("in the way");
    assert!(message.contains("include/kingtide.h"), "{message}");
}

#[test]
fn every_function_of_the_tables_has_a_page() {
    let folder = Folder::new();
    let request = request("/", &folder.0);
    Installer::new(&request)
        .function_pages(&repository())
        .expect("pages");
    let table =
        fs::read_to_string(repository().join("crates/capi/abi/functions.tsv")).expect("there");
    for line in table.lines().skip(1) {
        let name = line.split('\t').next().expect("a name");
        let path = folder.0.join(format!("share/man/man3/{name}.3"));
        assert!(path.exists(), "{name}");
    }
    assert!(folder.0.join("share/man/man3/kt_open.3").exists());
}

#[test]
fn a_comment_and_its_prototypes_become_a_page() {
    let header = "/*\n * A library.\n */\n#ifndef X\n\ntypedef int tidesdb_x;\n\n/* Opens it. More.\n *\n *   CODE  why\n */\nint tidesdb_open(const char *a,\n                 int b);\nvoid *tidesdb_get(void);\n\n#endif\n";
    let pages = manual::pages(header, "x.h", Some("x"));
    let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    assert_eq!(names, ["x", "tidesdb_get", "tidesdb_open"]);
    assert_eq!(pages[1].roff, ".so man3/tidesdb_open.3\n");
    let roff = &pages[2].roff;
    assert!(
        roff.contains("tidesdb_open, tidesdb_get \\- Opens it\n"),
        "{roff}"
    );
    assert!(roff.contains("                 int b);\n"), "{roff}");
    assert!(roff.contains(".nf\n  CODE  why\n.fi\n"), "{roff}");
    assert!(pages[0].roff.contains("A library.\n"), "{}", pages[0].roff);
}

#[test]
fn commands_are_found_in_the_help() {
    let help = "About\n\nUsage: x\n\nCommands:\n  put   Set\n  get   Print;\n          more\n  help  Print this\n\nOptions:\n  -q\n";
    assert_eq!(files::commands_in_help(help), ["put", "get"]);
}

#[test]
fn cmake_takes_older_versions_of_the_same_line() {
    let text = files::Package::kingtide().cmake_version();
    assert!(
        text.contains("MAJOR EQUAL 0 AND PACKAGE_FIND_VERSION_MINOR EQUAL 1"),
        "{text}"
    );
    let text = files::Package::tidesdb("9.3.14").cmake_version();
    assert!(text.contains("MAJOR EQUAL 9 AND NOT"), "{text}");
}
