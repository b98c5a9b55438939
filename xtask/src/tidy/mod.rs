//! The rules of the tree that neither the compiler nor clippy checks.
//!
//! Each rule is a function from the tree to findings, in a file of its own; the tables they read (layers, bans, limits)
//! are data in [`config`]. A finding says where, what, and what to do instead. The rules see Rust through a small
//! tokenizer ([`source`]), not a parser: they may miss a construct that hides behind a macro, and must not report code
//! that is right.

mod bans;
mod config;
mod crates;
mod markdown;
mod modules;
mod promises;
mod ratchet;
mod source;
mod text;
mod tree;
mod unsafe_blocks;

use std::{collections::BTreeMap, fmt};

pub use config::RATCHET_PATH;
pub use ratchet::bless;
pub use tree::Tree;

use source::Source;

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// The Rust files of a tree, by path, tokenized.
type Sources<'a> = BTreeMap<&'a str, Source<'a>>;

/// The page of promises with the table that the marks of the tests make: path and text.
///
/// # Errors
/// When the page has no place for it.
pub fn promises(tree: &Tree) -> Result<(&'static str, String), String> {
    promises::rewritten(tree, &source::parse_tree(tree))
}

/// Runs every rule over `tree`; findings in order of path and line.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let sources = source::parse_tree(tree);
    let mut findings = Vec::new();
    findings.extend(crates::check(tree));
    findings.extend(modules::check(&sources));
    findings.extend(bans::check(&sources));
    findings.extend(ratchet::check(tree, &sources));
    findings.extend(text::check(tree, &sources));
    findings.extend(markdown::check(tree));
    findings.extend(promises::check(tree, &sources));
    findings.extend(unsafe_blocks::check(tree, &sources));
    findings.sort();
    findings.dedup();
    findings
}
