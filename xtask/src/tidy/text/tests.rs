//! Rules over names and text, where they fire and where they do not. What must not stand in the tree is put together
//! here from parts.

use super::{super::source::parse_tree, *};

fn messages(path: &str, text: &str) -> Vec<String> {
    let tree = Tree::of(&[(path, text)]);
    check(&tree, &parse_tree(&tree))
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn fires(path: &str, text: &str, part: &str) {
    let found = messages(path, text);
    assert!(
        found.len() == 1 && found[0].contains(part),
        "{path}: {text}: {found:?}"
    );
}

fn is_silent(path: &str, text: &str) {
    assert_eq!(messages(path, text), Vec::<String>::new(), "{path}: {text}");
}

#[test]
fn files_are_named_after_their_idea() {
    fires("crates/a/src/utils.rs", "", "`utils` says nothing");
    fires("crates/a/src/helpers/mod.rs", "", "`helpers` says nothing");
    fires("crates/a/src/reader_v2.rs", "", "beside a new one");
    is_silent("crates/a/src/reader_version.rs", "");
    is_silent("testdata/format_v1/all.hex", "");
}

#[test]
fn nothing_is_true_on_one_machine_only() {
    for mark in MACHINE_PATHS {
        fires(
            "README.md",
            &format!("see {mark}project"),
            "exists on one machine only",
        );
        fires(
            "a.rs",
            &format!("const A: &str = \"{mark}x\";"),
            "exists on one machine only",
        );
        is_silent(
            "README.md",
            &format!("see docs{mark}project and https://example.org{mark}x"),
        );
    }
    is_silent("README.md", "kingtide put /tmp/db /usr/lib/x");
}

#[test]
fn the_build_names_no_registry() {
    for mark in REGISTRY_MARKS {
        fires(
            ".cargo/config.toml",
            &format!("a {mark}s://example.org\""),
            "one registry",
        );
    }
    is_silent(
        "deny.toml",
        "allow-registry = [\"https://github.com/rust-lang/crates.io-index\"]",
    );
}

#[test]
fn code_is_not_kept_in_comments() {
    for body in [
        "let a = 1;",
        "foo();",
        "self.flush(a, b)?;",
        "x = y;",
        "use std::fmt::Debug;",
        "if a {",
        "}",
        "pub fn f() {",
        "return Ok(());",
    ] {
        fires(
            "crates/a/src/lib.rs",
            &format!("fn f() {{\n    // {body}\n}}"),
            "lib.rs:2: a comment that is code",
        );
        fires(
            "crates/a/src/lib.rs",
            &format!("//{body}"),
            "a comment that is code",
        );
        is_silent("crates/a/src/lib.rs", &format!("/// {body}\nfn f() {{}}"));
    }
    for sentence in [
        "The lock is held here; nothing else may run.",
        "let the writer go first;",
        "use the newer one (it is smaller);",
        "if a reader comes, it waits",
        "a < b, or b = 0;",
        "SAFETY: `at` was checked above.",
        "One of {a, b}",
    ] {
        is_silent("crates/a/src/lib.rs", &format!("// {sentence}"));
    }
}
