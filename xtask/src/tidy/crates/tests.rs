//! Rules over manifests, where they fire and where they do not.

use super::*;

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\ndescription = \"A part\"\n\n{rest}")
}

fn messages(files: &[(&str, &str)]) -> Vec<String> {
    check(&Tree::of(files))
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// A tree of base, env and kingtide, with `rest` behind the head of one more crate.
fn with_crate(name: &str, rest: &str) -> Vec<String> {
    let base = manifest("kingtide-base", "");
    let env = manifest(
        "kingtide-env",
        "[dependencies]\nkingtide-base.workspace = true",
    );
    let kingtide = manifest(
        "kingtide",
        "[dependencies]\nkingtide-env = { workspace = true }",
    );
    let own = manifest(name, rest);
    messages(&[
        ("crates/base/Cargo.toml", &base),
        ("crates/env/Cargo.toml", &env),
        ("crates/kingtide/Cargo.toml", &kingtide),
        ("crates/own/Cargo.toml", &own),
    ])
}

#[test]
fn dependencies_point_down() {
    for section in [
        "[dependencies]",
        "[target.'cfg(unix)'.dependencies]",
        "[build-dependencies]",
    ] {
        let found = with_crate(
            "kingtide-format",
            &format!("{section}\nkingtide-env.workspace = true"),
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(
            "crates/own/Cargo.toml:6: `kingtide-format` may not depend on `kingtide-env`"
        ));
    }
    let table = with_crate(
        "kingtide-format",
        "[dependencies.kingtide-env]\nworkspace = true",
    );
    assert_eq!(table.len(), 1, "{table:?}");
    let down = with_crate(
        "kingtide-table",
        "[dependencies]\nkingtide-base.workspace = true\nlz4.workspace = true",
    );
    assert_eq!(down, Vec::<String>::new());
}

#[test]
fn dev_dependencies_are_free_but_for_cycles() {
    assert_eq!(
        with_crate(
            "kingtide-format",
            "[dev-dependencies]\nkingtide-env.workspace = true"
        ),
        Vec::<String>::new()
    );
    let base = manifest(
        "kingtide-base",
        "[dev-dependencies]\nkingtide-env.workspace = true",
    );
    let env = manifest(
        "kingtide-env",
        "[dependencies]\nkingtide-base.workspace = true",
    );
    let found = messages(&[
        ("crates/base/Cargo.toml", &base),
        ("crates/env/Cargo.toml", &env),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("is built on `kingtide-base` itself"));
    let agreed = with_crate(
        "kingtide-testkit",
        "[dependencies]\nkingtide.workspace = true",
    );
    assert_eq!(agreed, Vec::<String>::new());
}

#[test]
fn a_crate_has_a_layer_and_a_description() {
    let found = with_crate("kingtide-new", "");
    assert!(
        found.len() == 1 && found[0].contains("has no layer"),
        "{found:?}"
    );
    let found = messages(&[(
        "xtask/Cargo.toml",
        "[package]\nname = \"xtask\"\ndescription = \"\"",
    )]);
    assert!(
        found.len() == 1 && found[0].contains("no `description`"),
        "{found:?}"
    );
}

#[test]
fn external_dependencies_come_from_the_workspace_with_a_reason() {
    let found = with_crate("kingtide-cli", "[dependencies]\nclap = \"4\"");
    assert!(
        found.len() == 1 && found[0].contains("not taken from the workspace"),
        "{found:?}"
    );

    let root = "[workspace.dependencies]\nkingtide = { path = \"crates/kingtide\" }\na = \"1\"\nb = \"1\" # why not\n\
                # Two words\nc = { version = \"1\" }\nd = \"1\" # why\n[profile.dev]\ndebug = true";
    let found = messages(&[("Cargo.toml", root)]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("Cargo.toml:3: `a` has no reason"));
    assert!(found[1].starts_with("Cargo.toml:7: `d` has no reason"));
}

#[test]
fn the_lock_file_names_only_crates_io() {
    let lock = "name = \"a\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n\
                source = \"git+https://example.org/b\"";
    let found = messages(&[("Cargo.lock", lock)]);
    assert!(
        found.len() == 1 && found[0].starts_with("Cargo.lock:3: "),
        "{found:?}"
    );
}
