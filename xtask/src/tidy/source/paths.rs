//! The paths that code names, with `use` groups spelled out: `use a::{b, c::{self, D}}` names `a::b`, `a::c`, `a::c::D`.

use super::Source;

/// One path of two or more segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath<'a> {
    /// The index of its last token.
    pub token: usize,
    /// The segments; the last is `*` for a glob. A leading `::` is dropped.
    pub segments: Vec<&'a str>,
}

impl<'a> Source<'a> {
    /// Every path of two or more segments, in order.
    pub fn named_paths(&self) -> Vec<NamedPath<'a>> {
        let mut found = Vec::new();
        let mut index = 0;
        while index < self.len() {
            if self.is_ident(index) {
                index = self.path_from(index, &[], &mut found);
            } else {
                index += 1;
            }
        }
        found.retain(|path| path.segments.len() > 1);
        found
    }

    /// Collects the path that begins at `index` behind `prefix`; returns the first token after it.
    fn path_from(&self, index: usize, prefix: &[&'a str], found: &mut Vec<NamedPath<'a>>) -> usize {
        let mut segments = prefix.to_vec();
        let mut at = index;
        loop {
            match self.word(at) {
                "{" => return self.group_from(at, &segments, found),
                "self" if !segments.is_empty() => {}
                segment => segments.push(segment),
            }
            let next = self.word(at + 2);
            let goes_on =
                self.word(at + 1) == "::" && (self.is_ident(at + 2) || next == "{" || next == "*");
            if !goes_on {
                break;
            }
            at += 2;
        }
        found.push(NamedPath {
            token: at,
            segments,
        });
        at + 1
    }

    /// Collects the paths of the group whose `{` is at `open`; returns the first token after its `}`.
    fn group_from(&self, open: usize, prefix: &[&'a str], found: &mut Vec<NamedPath<'a>>) -> usize {
        let close = self.close_of(open);
        let mut at = open + 1;
        while at < close {
            if self.is_ident(at) || self.word(at) == "*" {
                at = self.path_from(at, prefix, found);
                if self.word(at) == "as" {
                    at += 2;
                }
            } else {
                at += 1;
            }
        }
        close + 1
    }
}
