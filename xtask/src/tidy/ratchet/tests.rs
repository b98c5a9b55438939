//! Limits and their list, where they fire and where they do not.

use super::*;

const PATH: &str = "crates/a/src/lib.rs";

fn function(lines: usize) -> String {
    format!("impl A {{\nfn long() {{{}}}\n}}", "\n".repeat(lines - 1))
}

fn messages(text: &str, list: &str) -> Vec<String> {
    let tree = Tree::of(&[(PATH, text), (RATCHET_PATH, list)]);
    check(&tree, &source::parse_tree(&tree))
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn bless_of(text: &str, list: &str) -> Result<String, String> {
    bless(&Tree::of(&[(PATH, text), (RATCHET_PATH, list)]))
}

#[test]
fn what_is_over_a_limit_is_found() {
    let none = Vec::<String>::new();
    assert_eq!(messages(&"\n".repeat(FILE_LINES_MAX), ""), none);
    let found = messages(
        &format!("fn f() {{}}{}", "\n".repeat(FILE_LINES_MAX + 1)),
        "",
    );
    assert!(
        found[0].starts_with("crates/a/src/lib.rs:1: 801 lines"),
        "{found:?}"
    );

    assert_eq!(messages(&function(FUNCTION_LINES_MAX), ""), none);
    let found = messages(&function(FUNCTION_LINES_MAX + 1), "");
    assert!(
        found[0].starts_with("crates/a/src/lib.rs:2: `A::long` has 71 lines"),
        "{found:?}"
    );

    assert_eq!(
        messages("fn f(&self, a: A, b: A, c: A, d: A, e: A) {}", ""),
        none
    );
    let found = messages("fn f(a: A, b: A, c: A, d: A, e: A, f: A) {}", "");
    assert!(found[0].contains("`f` has 6 parameters"), "{found:?}");
}

#[test]
fn tests_and_foreign_signatures_are_free() {
    let none = Vec::<String>::new();
    let long = function(FUNCTION_LINES_MAX + 1);
    assert_eq!(
        messages(&format!("#[cfg(test)]\nmod tests {{\n{long}\n}}"), ""),
        none
    );
    let foreign = "extern \"C\" fn f(a: A, b: A, c: A, d: A, e: A, f: A) {}";
    assert_eq!(messages(foreign, ""), none);
}

#[test]
fn a_listed_number_may_only_fall() {
    let list = "function crates/a/src/lib.rs::A::long 80";
    assert_eq!(messages(&function(80), list), Vec::<String>::new());
    let grown = messages(&function(81), list);
    assert!(
        grown.len() == 1 && grown[0].contains("has 81 lines, 80 are allowed"),
        "{grown:?}"
    );
    let shrunk = messages(&function(75), list);
    assert!(shrunk.len() == 1 && shrunk[0].contains("is down to 75: run `cargo xtask bless`"));
}

#[test]
fn bless_lowers_and_never_raises() {
    let list = "# Head.\nfunction crates/a/src/lib.rs::A::long 80\n";
    assert_eq!(bless_of(&function(81), list).unwrap(), list);
    assert_eq!(
        bless_of(&function(75), list).unwrap(),
        list.replace("80", "75")
    );
    assert_eq!(bless_of(&function(70), list).unwrap(), "# Head.\n");
    assert_eq!(bless_of("", list).unwrap(), "# Head.\n");
    assert_eq!(bless_of(&function(81), "").unwrap(), "");
}

#[test]
fn lines_of_another_form_are_found() {
    for list in ["function x", "lines x 80", "file x many"] {
        let found = messages("", list);
        assert!(
            found.len() == 1 && found[0].contains("not a line of the form"),
            "{found:?}"
        );
        assert!(bless_of("", list).is_err());
    }
}
