//! Rust source as the rules see it: tokens without comments and without the text of literals, what each bracket
//! closes, which tokens are test code, the paths that are named and the functions that are defined.
//!
//! Not a parser. Invariants: tokens are in order and do not overlap; a token's line is that of its first byte; any
//! input is accepted, and brackets that do not match reach to the end of the file.

mod functions;
mod lexer;
mod paths;
mod test_code;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub use lexer::{Comment, Token, TokenKind};
pub use paths::NamedPath;

use super::{Sources, Tree};

/// One tokenized file.
#[derive(Debug)]
pub struct Source<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    comments: Vec<Comment>,
    /// For each token: the index of the bracket that closes it, or the token itself.
    closes: Vec<usize>,
    /// For each token: true in code that only tests compile.
    is_test: Vec<bool>,
}

impl<'a> Source<'a> {
    /// Tokenizes `text`; `all_test` says that the whole file is test code.
    pub fn new(text: &'a str, all_test: bool) -> Self {
        let (tokens, comments) = lexer::tokenize(text);
        let closes = match_brackets(text, &tokens);
        let mut source = Self {
            text,
            is_test: vec![all_test; tokens.len()],
            tokens,
            comments,
            closes,
        };
        test_code::mark(&mut source);
        source
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The text of a token; of a literal too. Empty beyond the end.
    pub fn token_text(&self, index: usize) -> &'a str {
        self.tokens
            .get(index)
            .map_or("", |token| &self.text[token.start..token.end])
    }

    /// The text of a token that is code; empty for a literal and beyond the end.
    pub fn word(&self, index: usize) -> &'a str {
        match self.tokens.get(index) {
            Some(token) if token.kind != TokenKind::Literal => &self.text[token.start..token.end],
            _ => "",
        }
    }

    /// True when the tokens from `index` on read as `words`.
    pub fn reads(&self, index: usize, words: &[&str]) -> bool {
        words
            .iter()
            .enumerate()
            .all(|(offset, word)| self.word(index + offset) == *word)
    }

    /// True when the token is an identifier or keyword.
    pub fn is_ident(&self, index: usize) -> bool {
        self.tokens
            .get(index)
            .is_some_and(|token| token.kind == TokenKind::Ident)
    }

    /// True when the token is a string, character or byte literal.
    pub fn is_literal(&self, index: usize) -> bool {
        self.tokens
            .get(index)
            .is_some_and(|token| token.kind == TokenKind::Literal)
    }

    /// The line of a token, from 1.
    pub fn line(&self, index: usize) -> usize {
        self.tokens.get(index).map_or(1, |token| token.line)
    }

    /// True when only tests compile the token.
    pub fn is_test(&self, index: usize) -> bool {
        self.is_test.get(index).copied().unwrap_or(false)
    }

    /// The index of the bracket that closes the one at `index`.
    pub fn close_of(&self, index: usize) -> usize {
        self.closes.get(index).copied().unwrap_or(index)
    }

    /// All comments, in order.
    pub fn comments(&self) -> &[Comment] {
        &self.comments
    }

    /// The text of a comment, with its slashes.
    pub fn comment_text(&self, comment: &Comment) -> &'a str {
        &self.text[comment.start..comment.end]
    }

    /// Lines of the file that are not test code.
    pub fn production_lines(&self) -> usize {
        let test_lines: BTreeSet<usize> = self
            .test_spans()
            .into_iter()
            .flat_map(|(first, last)| first..=last)
            .collect();
        self.text.lines().count().saturating_sub(test_lines.len())
    }

    /// First and last line of each stretch of test code.
    fn test_spans(&self) -> Vec<(usize, usize)> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        let mut previous_is_test = false;
        for index in 0..self.len() {
            let line = self.line(index);
            match spans.last_mut() {
                Some(span) if self.is_test[index] && previous_is_test => span.1 = line,
                _ if self.is_test[index] => spans.push((line, line)),
                _ => {}
            }
            previous_is_test = self.is_test[index];
        }
        spans
    }
}

/// Tokenizes every Rust file. A file is test code by its place (`tests/`, `tests.rs`) or because the module that
/// declares it does so for tests only.
pub fn parse_tree(tree: &Tree) -> Sources<'_> {
    let mut sources: Sources<'_> = tree
        .texts_ending(".rs")
        .map(|(path, text)| (path, Source::new(text, is_test_path(path))))
        .collect();
    // A module that only tests compile may declare others, so look until nothing new is found.
    loop {
        let declared: BTreeSet<String> = sources
            .iter()
            .flat_map(|(path, source)| test_code::declared_files(path, source))
            .collect();
        let found: Vec<&str> = sources
            .iter()
            .filter(|(path, source)| declared.contains(**path) && source.is_test.contains(&false))
            .map(|(path, _)| *path)
            .collect();
        if found.is_empty() {
            return sources;
        }
        for path in found {
            if let Some(source) = sources.get_mut(path) {
                source.is_test.fill(true);
            }
        }
    }
}

fn is_test_path(path: &str) -> bool {
    let in_folder = |folder: &str| path.split('/').any(|part| part == folder);
    in_folder("tests") || in_folder("benches") || in_folder("fuzz") || path.ends_with("/tests.rs")
}

fn match_brackets(text: &str, tokens: &[Token]) -> Vec<usize> {
    let mut closes: Vec<usize> = (0..tokens.len()).collect();
    let mut open: Vec<(usize, &str)> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.kind != TokenKind::Punct {
            continue;
        }
        match &text[token.start..token.end] {
            "(" => open.push((index, ")")),
            "[" => open.push((index, "]")),
            "{" => open.push((index, "}")),
            closing @ (")" | "]" | "}") => {
                if open
                    .last()
                    .is_some_and(|(_, expected)| *expected == closing)
                    && let Some((opened, _)) = open.pop()
                {
                    closes[opened] = index;
                }
            }
            _ => {}
        }
    }
    for (opened, _) in open {
        closes[opened] = tokens.len().saturating_sub(1);
    }
    closes
}
