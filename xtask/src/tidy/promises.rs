//! The table of promises in docs/testing.md: every promise is there, and every test that it names exists.
//!
//! A row is `| number and name | tests |`, each test in backticks: the name of a `#[test]` function, with or without
//! its modules, or a beginning of names that ends in `*`.

use std::collections::BTreeSet;

use super::{
    Finding, Sources, Tree,
    config::{PROMISE_COUNT, PROMISES_PATH},
};

/// Checks the table.
pub fn check(tree: &Tree, sources: &Sources<'_>) -> Vec<Finding> {
    let Some(text) = tree.text(PROMISES_PATH) else {
        return vec![Finding::new(
            PROMISES_PATH,
            1,
            "missing: it holds the table of promises and their tests",
        )];
    };
    let tests = test_names(sources);
    let mut findings = Vec::new();
    let mut promised = BTreeSet::new();
    for (line, promise, cell) in rows(text) {
        let digits: String = promise.chars().take_while(char::is_ascii_digit).collect();
        promised.extend(digits.parse::<usize>().ok());
        let named: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            findings.push(Finding::new(
                PROMISES_PATH,
                line,
                format!("promise `{promise}` names no test: write one, or take the promise back"),
            ));
        }
        for name in named {
            if !test_exists(&tests, name) {
                findings.push(Finding::new(
                    PROMISES_PATH,
                    line,
                    format!("no `#[test]` function is called `{name}`: name one that exists"),
                ));
            }
        }
    }
    for number in 1..=PROMISE_COUNT {
        if !promised.contains(&number) {
            findings.push(Finding::new(
                PROMISES_PATH,
                1,
                format!("promise {number} is not in the table: add its row"),
            ));
        }
    }
    findings
}

/// The rows of every table whose head is `promise | tests`: line, first cell, second cell.
fn rows(text: &str) -> Vec<(usize, &str, &str)> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", first, second, ..] = cells.as_slice() else {
            in_table = false;
            continue;
        };
        if first.eq_ignore_ascii_case("promise") && second.eq_ignore_ascii_case("tests") {
            in_table = true;
        } else if in_table && !first.starts_with(['-', ':']) {
            rows.push((index + 1, *first, *second));
        }
    }
    rows
}

/// The names of all `#[test]` functions.
pub fn test_names<'a>(sources: &Sources<'a>) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for source in sources.values() {
        for index in 0..source.len() {
            if !source.reads(index, &["#", "[", "test", "]"]) {
                continue;
            }
            let mut at = index + 4;
            while source.reads(at, &["#", "["]) {
                at = source.close_of(at + 1) + 1;
            }
            while matches!(source.word(at), "pub" | "async") {
                at += 1;
            }
            if source.word(at) == "fn" {
                names.insert(source.word(at + 1));
            }
        }
    }
    names
}

/// True when a test has this name, modules left out, or a name that begins so where it ends in `*`.
pub fn test_exists(tests: &BTreeSet<&str>, name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or(name);
    match name.strip_suffix('*') {
        Some(start) => tests.iter().any(|test| test.starts_with(start)),
        None => tests.contains(name),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::source::parse_tree, *};

    fn messages(table: &str) -> Vec<String> {
        let text = format!(
            "# Testing\n\n| promise | tests |\n|---|---|\n{table}\n\n| other | x |\n| 3 | `y` |\n"
        );
        let code =
            "#[test]\nfn one() {}\n#[test]\n#[cfg(unix)]\npub fn two_a() {}\nfn not_a_test() {}";
        let tree = Tree::of(&[(PROMISES_PATH, &text), ("crates/a/tests/all.rs", code)]);
        check(&tree, &parse_tree(&tree))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// A row for each promise but the first.
    fn others() -> String {
        (2..=PROMISE_COUNT)
            .map(|number| format!("\n| {number} | `one` |"))
            .collect()
    }

    #[test]
    fn every_named_test_exists() {
        for cell in ["`one`", "`all::one`, `two_a`", "`two_*`"] {
            assert_eq!(
                messages(&format!("| 1 Atomic | {cell} |{}", others())),
                Vec::<String>::new(),
                "{cell}"
            );
        }
        for cell in ["`none`", "`not_a_test`", "`none_*`"] {
            let found = messages(&format!("| 1 Atomic | {cell} |{}", others()));
            assert!(
                found.len() == 1 && found[0].contains("no `#[test]` function"),
                "{cell}: {found:?}"
            );
        }
    }

    #[test]
    fn every_promise_is_there_with_a_test() {
        let found = messages(others().trim_start());
        assert!(
            found.len() == 1 && found[0].contains("promise 1 is not in the table"),
            "{found:?}"
        );
        let found = messages(&format!("| 1 | soon |{}", others()));
        assert!(
            found.len() == 1 && found[0].contains("names no test"),
            "{found:?}"
        );
        assert_eq!(check(&Tree::of(&[]), &Sources::new()).len(), 1);
    }
}
