//! Links, anchors and the list of formats, where the rules fire and where they do not.

use super::*;

fn messages(files: &[(&str, &str)]) -> Vec<String> {
    check(&Tree::of(files))
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Findings for `text` in docs/a.md beside docs/b.md and README.md.
fn of_link(text: &str) -> Vec<String> {
    let other = "# Title\n\n## What it is, in `code` & more\n\n## Again\n## Again\n<a id=\"mark\"></a>\n```\n# not one\n```\n";
    messages(&[
        ("README.md", ""),
        ("docs/a.md", text),
        ("docs/b.md", other),
        ("docs/deep/c.txt", ""),
    ])
}

#[test]
fn links_lead_to_files() {
    for target in [
        "b.md",
        "./b.md",
        "../README.md",
        "/README.md",
        "deep/c.txt",
        "deep",
        "deep/",
        "https://x.org/none",
    ] {
        assert_eq!(
            of_link(&format!("see [it]({target}).")),
            Vec::<String>::new(),
            "{target}"
        );
        assert_eq!(
            of_link(&format!("[it]: {target} \"title\"")),
            Vec::<String>::new(),
            "{target}"
        );
    }
    for (target, fault) in [
        ("none.md", "no such file"),
        ("/docs/none.md", "no such file"),
        ("dee", "no such file"),
        ("../../x.md", "leads out"),
    ] {
        for text in [
            format!("\n![it]({target} \"title\")"),
            format!("\n[it]: {target}"),
        ] {
            let found = of_link(&text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(
                found[0].starts_with("docs/a.md:2: ") && found[0].contains(fault),
                "{found:?}"
            );
        }
    }
}

#[test]
fn anchors_lead_to_headings() {
    for anchor in [
        "title",
        "what-it-is-in-code--more",
        "again",
        "again-1",
        "mark",
    ] {
        assert_eq!(
            of_link(&format!("[it](b.md#{anchor})")),
            Vec::<String>::new(),
            "{anchor}"
        );
    }
    for anchor in ["Title", "again-2", "not-one"] {
        let found = of_link(&format!("[it](b.md#{anchor})"));
        assert!(
            found.len() == 1 && found[0].contains("no such heading"),
            "{anchor}: {found:?}"
        );
    }
    assert_eq!(
        of_link("# Own [link](b.md) here\n[it](#own-link-here)"),
        Vec::<String>::new()
    );
    assert_eq!(of_link("[it](#none)").len(), 1);
}

#[test]
fn code_holds_no_links() {
    assert_eq!(
        of_link("```\n[it](none.md)\n```\n`[it](none.md)` and `x"),
        Vec::<String>::new()
    );
    assert_eq!(of_link("`x` [it](none.md) `y`").len(), 1);
}

#[test]
fn formats_are_listed() {
    let page = ("docs/formats/wal.md", "# Log");
    assert_eq!(messages(&[page]), Vec::<String>::new());
    assert_eq!(
        messages(&[page, ("ARCHITECTURE.md", "the log: docs/formats/wal.md")]),
        Vec::<String>::new()
    );
    let found = messages(&[page, ("ARCHITECTURE.md", "nothing")]);
    assert!(
        found.len() == 1 && found[0].contains("does not list"),
        "{found:?}"
    );
}

#[test]
fn people_and_ci_run_the_same_tests() {
    let script = (
        ".ci/run",
        "run cargo fmt --check\nrun cargo test --workspace --locked\n",
    );
    for readme in [
        "```\ncargo test --workspace --locked\n```",
        "    cargo test --workspace --locked  # all",
    ] {
        assert_eq!(
            messages(&[script, ("README.md", readme)]),
            Vec::<String>::new(),
            "{readme}"
        );
    }
    assert_eq!(messages(&[script]), Vec::<String>::new());
    let found = messages(&[script, ("README.md", "cargo test --workspace")]);
    assert!(
        found.len() == 1 && found[0].starts_with(".ci/run:2: README.md does not say"),
        "{found:?}"
    );
}
