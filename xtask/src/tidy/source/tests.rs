//! The tokenizer and what is derived from tokens, on the constructs that fool a plain text search.

use super::*;

fn words(text: &str) -> Vec<String> {
    let source = Source::new(text, false);
    (0..source.len())
        .map(|index| source.token_text(index).to_owned())
        .collect()
}

fn paths(text: &str) -> Vec<String> {
    Source::new(text, false)
        .named_paths()
        .iter()
        .map(|path| path.segments.join("::"))
        .collect()
}

fn functions(text: &str) -> Vec<(String, usize, usize)> {
    Source::new(text, false)
        .functions()
        .into_iter()
        .map(|function| (function.name, function.line_count, function.parameter_count))
        .collect()
}

#[test]
fn comments_strings_and_characters_hide_code() {
    assert_eq!(
        words("a /* b /* c */ d */ e // f\n g"),
        ["a", "e", "g"],
        "nested block comments"
    );
    assert_eq!(words(r#"f("todo!() \" x") y"#)[4..], ["y"]);
    assert_eq!(words("r#\"a \" b\"# c"), ["r#\"a \" b\"#", "c"]);
    assert_eq!(words("br\"\\\" x"), ["br\"\\\"", "x"]);
    assert_eq!(
        words("'a' 'b '\\'' '\"' x"),
        ["'a'", "'b", "'\\''", "'\"'", "x"]
    );
    assert_eq!(
        words("'é' r#fn 1.5 0..2"),
        ["'é'", "r#fn", "1.5", "0", ".", ".", "2"]
    );
    assert_eq!(words("a::b->c=>d"), ["a", "::", "b", "->", "c", "=>", "d"]);
}

#[test]
fn any_text_is_accepted() {
    for text in [
        "", "\"", "'", "r#\"", "/*", "b'", "'\\", "\"\\", "}{)(", "fn", "fn f", "#[test]",
    ] {
        let source = Source::new(text, false);
        assert!(source.len() <= text.len());
        let _ = (
            source.named_paths(),
            source.functions(),
            source.production_lines(),
        );
    }
}

#[test]
fn lines_count_through_literals_and_comments() {
    let source = Source::new("/* a\n b */ x\n\"c\n d\" y", false);
    assert_eq!((source.line(0), source.line(1), source.line(2)), (2, 3, 4));
}

#[test]
fn items_of_tests_are_test_code_and_nothing_else() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n#[test]\n#[x]\nfn d() {}\n\
                #[cfg(not(test))]\nfn e() {}\n#[cfg(all(test, loom))] mod f;\nstruct S { #[cfg(test)] g: u8, h: u8 }";
    let source = Source::new(text, false);
    let production: Vec<&str> = (0..source.len())
        .filter(|index| !source.is_test(*index))
        .map(|index| source.word(index))
        .collect();
    for (word, is_production) in [
        ("a", true),
        ("b", false),
        ("c", true),
        ("d", false),
        ("e", true),
        ("f", false),
        ("g", false),
        ("h", true),
    ] {
        assert_eq!(production.contains(&word), is_production, "{word}");
    }
    assert_eq!(source.production_lines(), 13 - 4 - 3 - 1 - 1);
    assert!(Source::new("#![cfg(test)]\nfn a() {}", false).is_test(8));
}

#[test]
fn modules_that_tests_declare_are_test_files() {
    let tree = Tree::of(&[
        (
            "crates/a/src/lib.rs",
            "#[cfg(test)]\nmod checks;\nmod work;\n#[cfg(test)]\n#[path = \"proofs.rs\"]\nmod tests;",
        ),
        ("crates/a/src/checks.rs", "mod deep;"),
        ("crates/a/src/checks/deep.rs", "fn f() {}"),
        ("crates/a/src/proofs.rs", "fn f() {}"),
        ("crates/a/src/work.rs", "fn f() {}"),
        ("crates/a/src/work/tests.rs", "fn f() {}"),
    ]);
    let sources = parse_tree(&tree);
    for (path, expected) in [
        ("crates/a/src/checks.rs", true),
        ("crates/a/src/checks/deep.rs", true),
        ("crates/a/src/proofs.rs", true),
        ("crates/a/src/work.rs", false),
        ("crates/a/src/work/tests.rs", true),
    ] {
        assert_eq!(sources[path].is_test(0), expected, "{path}");
    }
}

#[test]
fn use_groups_are_spelled_out() {
    assert_eq!(
        paths("use std::{fs, sync::{self, Mutex as M, atomic::*}, time::Duration};"),
        [
            "std::fs",
            "std::sync",
            "std::sync::Mutex",
            "std::sync::atomic::*",
            "std::time::Duration"
        ]
    );
    assert_eq!(
        paths("let x = ::std::fs::read(y.z); Vec::<u8>::new()"),
        ["std::fs::read"]
    );
    assert_eq!(paths("use {a::b, c::d};"), ["a::b", "c::d"]);
    assert_eq!(paths("self::a::b(crate::c)"), ["self::a::b", "crate::c"]);
}

#[test]
fn functions_have_names_lengths_and_parameters() {
    let text = "fn a<F: Fn(u8) -> u8>(x: F, y: HashMap<u8, (u8, u8)>,) -> [u8; 3] {\n\n}\n\
                impl<T> Trait<T> for m::Type<T> where T: X {\n fn b(&mut self, z: u8) {}\n}\n\
                trait Later { fn c(self); fn d(self: &Self) {} }\nfn e(f: impl Fn(u8, u8), g: fn(u8)) {}";
    assert_eq!(
        functions(text),
        [
            ("a".to_owned(), 3, 2),
            ("Type::b".to_owned(), 1, 1),
            ("Later::d".to_owned(), 1, 0),
            ("e".to_owned(), 1, 2),
        ]
    );
    assert!(Source::new("pub extern \"C\" fn f(a: u8) {}", false).functions()[0].is_extern);
}
