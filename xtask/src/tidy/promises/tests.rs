use super::{super::source::parse_tree, *};

/// A tree with a page whose table is right for `code`, changed by `change`.
fn messages(code: &str, change: impl Fn(String) -> String) -> Vec<String> {
    let page = format!("# Testing\n\n{BEGIN}\n{END}\n\n| other | x |\n");
    let of = |page: &str| Tree::of(&[(PROMISES_PATH, page), ("crates/a/tests/all.rs", code)]);
    let tree = of(&page);
    let (_, page) = rewritten(&tree, &parse_tree(&tree)).expect("there is a place");
    let tree = of(&change(page));
    let findings = check(&tree, &parse_tree(&tree));
    findings.iter().map(ToString::to_string).collect()
}

/// A test that bears all marks, as one with a comment of its own and another attribute.
fn all_marks() -> String {
    let marks: Vec<&str> = PROMISES.iter().map(|(mark, _)| *mark).collect();
    format!(
        "/// Goal: all.\n{MARK}{}.\n#[cfg(unix)]\n#[test]\npub fn all() {{}}\n",
        marks.join(", ")
    )
}

#[test]
fn a_table_that_was_written_is_right_and_names_the_tests() {
    let code = all_marks() + "#[test]\nfn another() {}\n";
    assert_eq!(messages(&code, |page| page), Vec::<String>::new());
    let tree = Tree::of(&[
        (PROMISES_PATH, &format!("a\n{BEGIN}\nSTALE\n{END}\nb\n")),
        ("crates/a/tests/all.rs", &code),
    ]);
    let (path, page) = rewritten(&tree, &parse_tree(&tree)).expect("there is a place");
    assert_eq!(path, PROMISES_PATH);
    assert!(page.starts_with("a\n") && page.ends_with("\nb\n"), "{page}");
    assert!(
        page.contains("| 1 | ") && page.contains("| `all` |"),
        "{page}"
    );
    assert!(
        !page.contains("another") && !page.contains("STALE"),
        "{page}"
    );
}

#[test]
fn what_differs_is_found() {
    let wanted: [(String, &str); 4] = [
        (
            format!("{}{MARK}none.\n#[test]\nfn b() {{}}", all_marks()),
            "no promise has the mark `none`",
        ),
        (
            format!("{}{MARK}1.\nfn b() {{}}", all_marks()),
            "in front of no `#[test]`",
        ),
        (
            format!("{}{MARK}2.\n#[test]\nfn promise_1_b() {{}}", all_marks()),
            "lacks its mark",
        ),
        (
            all_marks().replace("1, ", ""),
            "no test bears the mark `// Promise: 1.`",
        ),
    ];
    for (code, message) in wanted {
        let found = messages(&code, |page| page);
        assert!(
            found.len() == 1 && found[0].contains(message),
            "{code}: {found:?}"
        );
    }
    for (from, to) in [("`all`", "`none`"), (END, ""), (BEGIN, "")] {
        let found = messages(&all_marks(), |page| page.replacen(from, to, 1));
        assert_eq!(found.len(), 1, "{from}: {found:?}");
    }
    assert_eq!(
        check(&Tree::of(&[]), &Sources::new()).len(),
        PROMISES.len() + 1
    );
}
