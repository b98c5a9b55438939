use super::*;
use crate::list::Span;

/// A mutant of `text` that replaces the first `old` behind `behind`.
fn mutant(text: &str, genre: &str, (behind, old): (&str, &str), replacement: &str) -> Mutant {
    let from = text.find(behind).expect("the text holds it");
    let start = from + text[from..].find(old).expect("the text holds it");
    let place = |offset: usize| Place {
        line: 1 + text[..offset].matches('\n').count(),
        column: 1 + offset - text[..offset].rfind('\n').map_or(0, |at| at + 1),
    };
    let span = Span {
        start: place(start),
        end: place(start + old.len()),
    };
    Mutant::for_test(genre, replacement, span)
}

const TEXT: &str = "\
fn f(a: u32, b: u32) -> bool {
    let c = a + b;
    !(c < 3) && match c {
        7 if a > 1 => true,
        8 => false,
        _ => a == b,
    }
}
";

/// Goal: each kind of mutant stands behind its switch, also within others, and the new text is Rust. Method: all kinds in one
/// function; the alternatives are read back where the sites say they are.
#[test]
fn every_kind_of_mutant_gets_a_switch() {
    let body = &TEXT[TEXT.find("let").unwrap()..TEXT.rfind("\n}").unwrap()];
    let arm = "8 => false,";
    let mutants = [
        mutant(TEXT, "FnValue", ("let", body), "true"),
        mutant(TEXT, "BinaryOperator", ("a + b", "+"), "-"),
        mutant(TEXT, "BinaryOperator", ("a + b", "+"), "*"),
        mutant(TEXT, "UnaryOperator", ("!(c", "!"), ""),
        mutant(TEXT, "BinaryOperator", ("c < 3", "<"), "<="),
        mutant(TEXT, "BinaryOperator", ("&&", "&&"), "||"),
        mutant(TEXT, "MatchArmGuard", ("a > 1", "a > 1"), "true"),
        mutant(TEXT, "MatchArm", (arm, arm), ""),
    ];
    let numbered: Vec<(usize, &Mutant)> = mutants.iter().enumerate().collect();
    let switched = switch(TEXT, &numbered).expect("the text is Rust");
    syn::parse_file(&switched.text).expect("the new text is Rust");
    let own = |number: usize| {
        let site = switched.sites.iter().find(|site| site.number == number);
        &switched.text[site.expect("it has a switch").own.clone()]
    };
    assert_eq!(own(0), "return true;");
    assert_eq!((own(1), own(2)), ("a - b", "a * b"));
    assert_eq!(own(3), "(c < 3)");
    assert_eq!(own(4), "c <= 3");
    assert!(own(5).starts_with("!(c < 3) || match"));
    assert_eq!(own(6), "true");
    assert_eq!(own(7), " if !::kingtide_base::mutant_runs(7)");
    assert_eq!(switched.sites.len(), mutants.len());
}

/// Goal: what cannot stand behind a switch is left alone.
#[test]
fn what_binds_names_gets_no_switch() {
    let text = "fn f(a: Option<u32>) -> bool {\n    if let Some(b) = a && b > 1 { true } else { false }\n}\n";
    let mutants = [
        mutant(text, "BinaryOperator", ("&&", "&&"), "||"),
        mutant(text, "BinaryOperator", ("b > 1", ">"), ">="),
    ];
    let numbered: Vec<(usize, &Mutant)> = mutants.iter().enumerate().collect();
    let switched = switch(text, &numbered).expect("the text is Rust");
    let numbers: Vec<usize> = switched.sites.iter().map(|site| site.number).collect();
    assert_eq!(numbers, [1]);
    assert!(replace(text, &mutants[0]).contains("= a || b > 1"));
}
