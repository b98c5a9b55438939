//! The functions that a file defines: name with its surrounding type, length, number of parameters.

use super::Source;

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// `Type::name`, `module::name` or `name`.
    pub name: String,
    /// Its own name.
    pub short_name: &'a str,
    /// The index of the token `fn`.
    pub token: usize,
    /// Lines from `fn` to the closing brace, both counted.
    pub line_count: usize,
    /// Parameters without `self`.
    pub parameter_count: usize,
    /// True for `extern "C" fn`, whose parameters another language decides.
    pub is_extern: bool,
}

impl<'a> Source<'a> {
    /// Every function that has a body, in order; nested ones too.
    pub fn functions(&self) -> Vec<Function<'a>> {
        let mut functions = Vec::new();
        // The closing brace and name of each surrounding impl, trait or module.
        let mut scopes: Vec<(usize, &'a str)> = Vec::new();
        for index in 0..self.len() {
            while scopes.last().is_some_and(|(close, _)| *close < index) {
                scopes.pop();
            }
            match self.word(index) {
                "impl" | "trait" | "mod" => scopes.extend(self.scope_at(index)),
                "fn" if self.is_ident(index + 1) => {
                    let scope = scopes.last().map_or("", |(_, name)| *name);
                    functions.extend(self.function_at(index, scope));
                }
                _ => {}
            }
        }
        functions
    }

    /// The closing brace and the name of the impl, trait or module whose keyword is at `index`; `None` when the keyword
    /// is part of a type or the block is elsewhere.
    fn scope_at(&self, index: usize) -> Option<(usize, &'a str)> {
        let follows_item = index == 0
            || matches!(
                self.word(index - 1),
                "}" | ";" | "{" | "]" | ")" | "unsafe" | "pub"
            );
        if !follows_item {
            return None;
        }
        let is_impl = self.word(index) == "impl";
        let mut name = "";
        let mut angles = 0_i32;
        let mut at = index + 1;
        while at < self.len() {
            match self.word(at) {
                "{" => return Some((self.close_of(at), name)),
                ";" => return None,
                "(" | "[" => at = self.close_of(at),
                "<" => angles += 1,
                ">" => angles -= 1,
                "for" if angles == 0 && self.word(at + 1) != "<" => name = "",
                "where" if angles == 0 => {
                    let open = (at..self.len()).find(|next| self.word(*next) == "{")?;
                    return Some((self.close_of(open), name));
                }
                word if angles == 0 && self.is_ident(at) && (is_impl || name.is_empty()) => {
                    name = word;
                }
                _ => {}
            }
            at += 1;
        }
        None
    }

    fn function_at(&self, index: usize, scope: &str) -> Option<Function<'a>> {
        let short_name = self.word(index + 1);
        let open = self.after_generics(index + 2);
        if self.word(open) != "(" {
            return None;
        }
        let mut at = self.close_of(open) + 1;
        loop {
            match self.word(at) {
                "{" => break,
                "(" | "[" => at = self.close_of(at),
                ";" => return None,
                _ if at >= self.len() => return None,
                _ => {}
            }
            at += 1;
        }
        let name = if scope.is_empty() {
            short_name.to_owned()
        } else {
            format!("{scope}::{short_name}")
        };
        Some(Function {
            name,
            short_name,
            token: index,
            line_count: self.line(self.close_of(at)) + 1 - self.line(index),
            parameter_count: self.parameter_count(open),
            is_extern: index > 1
                && (self.word(index - 1) == "extern" || self.word(index - 2) == "extern"),
        })
    }

    /// The first token after the generic parameters at `index`, if there are any.
    fn after_generics(&self, index: usize) -> usize {
        let mut depth = 0_i32;
        let mut at = index;
        while at < self.len() {
            match self.word(at) {
                "<" => depth += 1,
                ">" => depth -= 1,
                "(" | "[" | "{" if depth > 0 => at = self.close_of(at),
                _ => {}
            }
            if depth == 0 {
                return if at == index { index } else { at + 1 };
            }
            at += 1;
        }
        at
    }

    /// Parameters in the list whose `(` is at `open`, without `self`.
    fn parameter_count(&self, open: usize) -> usize {
        let close = self.close_of(open);
        let (mut count, mut angles) = (0, 0_i32);
        let (mut in_parameter, mut has_self) = (false, false);
        let mut at = open + 1;
        while at < close {
            match self.word(at) {
                "," if angles == 0 => in_parameter = false,
                word => {
                    if !in_parameter {
                        in_parameter = true;
                        count += 1;
                    }
                    match word {
                        "(" | "[" | "{" => at = self.close_of(at),
                        "<" => angles += 1,
                        ">" => angles -= 1,
                        "self" if count == 1 => has_self = true,
                        _ => {}
                    }
                }
            }
            at += 1;
        }
        count - usize::from(has_self)
    }
}
