//! Which tokens only tests compile: items under `#[test]` or a `cfg` that asks for `test`.

use super::Source;

/// Words that begin an item; anything else under an attribute is a field, variant, arm or statement.
const ITEM_WORDS: [&str; 14] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "pub",
    "static",
    "struct",
    "trait",
    "type",
    "use",
];

/// Marks test code in `source`.
pub fn mark(source: &mut Source<'_>) {
    let mut index = 0;
    while index < source.len() {
        if source.reads(index, &["#", "!", "["]) && asks_for_test(source, index + 2) {
            source.is_test.fill(true);
            return;
        }
        if source.reads(index, &["#", "["]) && asks_for_test(source, index + 1) {
            let end = item_end(source, index);
            source.is_test[index..=end].fill(true);
            index = end;
        }
        index += 1;
    }
}

/// The files that `source` at `path` declares as modules in test code, `mod name;`.
pub fn declared_files(path: &str, source: &Source<'_>) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let base = if matches!(stem, "mod" | "lib" | "main") {
        folder.to_owned()
    } else {
        format!("{folder}/{stem}")
    };
    (0..source.len())
        .filter(|index| source.is_test(*index) && source.word(*index) == "mod")
        .filter(|index| source.word(index + 2) == ";")
        .flat_map(|index| match path_attribute(source, index) {
            Some(file) => vec![format!("{folder}/{file}")],
            None => {
                let name = source.word(index + 1);
                vec![format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")]
            }
        })
        .collect()
}

/// The file that `#[path = "file"]` right before the item at `index` names.
fn path_attribute<'a>(source: &Source<'a>, index: usize) -> Option<&'a str> {
    let start = index.checked_sub(6)?;
    let is_path = source.reads(start, &["#", "[", "path", "="]) && source.is_literal(start + 4);
    is_path.then(|| source.token_text(start + 4).trim_matches('"'))
}

/// True when the attribute whose `[` is at `open` is `test`, `x::test`, or a `cfg` that holds `test` and not only in
/// `not(test)`.
fn asks_for_test(source: &Source<'_>, open: usize) -> bool {
    let close = source.close_of(open);
    if source.word(open + 1) != "cfg" {
        // `#[test]` and `#[some::test]`, with or without arguments.
        let mut last = open + 1;
        while source.word(last + 1) == "::" {
            last += 2;
        }
        return source.word(last) == "test";
    }
    (open + 2..close).any(|index| {
        source.word(index) == "test"
            && !(source.word(index - 1) == "(" && source.word(index - 2) == "not")
    })
}

/// The last token of what the attribute at `index` stands before.
fn item_end(source: &Source<'_>, index: usize) -> usize {
    let mut at = index;
    while source.reads(at, &["#", "["]) {
        at = source.close_of(at + 1) + 1;
    }
    let is_item = ITEM_WORDS.contains(&source.word(at)) || source.word(at) == "unsafe";
    while at < source.len() {
        match source.word(at) {
            ";" => return at,
            "{" => return source.close_of(at),
            "(" | "[" => at = source.close_of(at),
            "," if !is_item => return at,
            // The end of what surrounds a last field or arm.
            ")" | "]" | "}" => return at - 1,
            _ => {}
        }
        at += 1;
    }
    source.len() - 1
}
