//! The table of unsafe code in docs/unsafe.md: every file of the engine that holds unsafe blocks has a row with their
//! number, and every test that a row names exists.
//!
//! A row is `| file | blocks | what they do | tests |`, file and tests in backticks. Blocks are `unsafe { .. }` and
//! `unsafe impl`, outside of test code.

use std::collections::BTreeMap;

use super::{
    Finding, Sources, Tree,
    config::{UNSAFE_PATH, UNSAFE_TABLE_ROOTS},
    promises::{test_exists, test_names},
};

/// Checks the table.
pub fn check(tree: &Tree, sources: &Sources<'_>) -> Vec<Finding> {
    let Some(text) = tree.text(UNSAFE_PATH) else {
        return vec![Finding::new(
            UNSAFE_PATH,
            1,
            "missing: it holds the table of unsafe code and its tests",
        )];
    };
    let tests = test_names(sources);
    let mut counts = block_counts(sources);
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", file, count, _, cell, ""] = cells.as_slice() else {
            continue;
        };
        let Some(file) = file
            .strip_prefix('`')
            .and_then(|rest| rest.strip_suffix('`'))
        else {
            continue;
        };
        let mut complain =
            |message: String| findings.push(Finding::new(UNSAFE_PATH, index + 1, message));
        let found = counts.remove(file).unwrap_or(0);
        if count.parse() != Ok(found) {
            complain(format!(
                "`{file}` has {found} unsafe blocks, not {count}: look whether the tests reach the new ones"
            ));
        }
        let named: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            complain(format!(
                "`{file}` names no test that runs its unsafe blocks"
            ));
        }
        for name in named.into_iter().filter(|name| !test_exists(&tests, name)) {
            complain(format!(
                "no `#[test]` function is called `{name}`: name one that exists"
            ));
        }
    }
    findings.extend(counts.iter().map(|(file, count)| {
        let message = format!("{count} unsafe blocks, but no row in {UNSAFE_PATH}: add one with the tests that run them");
        Finding::new(file, 1, message)
    }));
    findings
}

/// The unsafe blocks of each file that has some.
fn block_counts<'a>(sources: &Sources<'a>) -> BTreeMap<&'a str, usize> {
    let is_listed = |path: &str| UNSAFE_TABLE_ROOTS.iter().any(|root| path.starts_with(root));
    let mut counts = BTreeMap::new();
    for (path, source) in sources.iter().filter(|(path, _)| is_listed(path)) {
        let is_block = |index: usize| {
            !source.is_test(index)
                && (source.reads(index, &["unsafe", "{"])
                    || source.reads(index, &["unsafe", "impl"]))
        };
        let count = (0..source.len()).filter(|index| is_block(*index)).count();
        if count > 0 {
            counts.insert(*path, count);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::{super::source::parse_tree, *};

    const CODE: &str = "unsafe impl Send for A {}\nfn f() { unsafe { g() } }\nunsafe fn g() {}\n#[cfg(test)]\nmod tests { #[test]\nfn it_runs() { unsafe { g() } } }";

    fn messages(rows: &str) -> Vec<String> {
        let text =
            format!("# Unsafe\n\n| file | blocks | what | tests |\n|---|---|---|---|\n{rows}\n");
        let tree = Tree::of(&[
            (UNSAFE_PATH, &text),
            ("crates/collections/src/a.rs", CODE),
            ("crates/bench/src/b.rs", CODE),
        ]);
        let findings = check(&tree, &parse_tree(&tree));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_has_a_row_with_its_number_and_tests_that_exist() {
        assert_eq!(
            messages("| `crates/collections/src/a.rs` | 2 | things | `it_runs` |"),
            Vec::<String>::new()
        );
        for (rows, wanted) in [
            ("", "no row in"),
            (
                "| `crates/collections/src/a.rs` | 3 | things | `it_runs` |",
                "has 2 unsafe blocks, not 3",
            ),
            (
                "| `crates/collections/src/a.rs` | 2 | things | `it_flies` |",
                "is called `it_flies`",
            ),
            (
                "| `crates/collections/src/a.rs` | 2 | things | some |",
                "names no test",
            ),
        ] {
            let found = messages(rows);
            assert!(
                found.len() == 1 && found[0].contains(wanted),
                "{rows}: {found:?}"
            );
        }
        let found = messages(
            "| `crates/collections/src/a.rs` | 2 | things | `it_runs` |\n| `gone.rs` | 1 | x | `it_runs` |",
        );
        assert!(
            found.len() == 1 && found[0].contains("`gone.rs` has 0"),
            "{found:?}"
        );
        assert_eq!(check(&Tree::of(&[]), &Sources::new()).len(), 1);
    }
}
