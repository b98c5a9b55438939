//! Many mutants in one source text, each behind a switch.
//!
//! Building the engine takes a hundred times as long as its unit tests, so mutants are not built one by one: all of a file
//! are written into it, and the environment says which one a process shall run as. `a < b` becomes
//! `(if on(7) { a <= b } else { a < b })`, a function that shall answer `true` begins with `if on(8) { return true; }`,
//! and a match arm that shall go gets the guard `!on(9)`.
//!
//! Steps: the text is parsed; each mutant is looked up by the place of what it replaces, which gives an [`Edit`]; the edits
//! of one piece of text are joined; and the text is written anew, from the outermost edits inwards. Only one mutant runs
//! at a time, so an alternative is written from the original text, and other edits stand in the original branch alone.
//!
//! What it does not do: mutants that leave out a field of a structure, and those in places where no expression may stand,
//! are not switched; nor are those that do not compile, which only the compiler knows. They are judged one by one.

use std::ops::Range;

use syn::{
    Block, Expr, ExprBinary, ExprMatch, ExprUnary,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::list::{Mutant, Place};

/// How a piece of text is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// An expression takes another's place.
    Expression,
    /// A statement is put before the first of a function.
    Beginning,
    /// A match arm, up to its arrow, gets a guard.
    Arm {
        /// It has one already.
        has_guard: bool,
    },
}

/// One piece of text and the mutants that change it.
#[derive(Clone, Debug)]
struct Edit {
    range: Range<usize>,
    shape: Shape,
    /// The number of each mutant and the text that takes the place of the range.
    alternatives: Vec<(usize, String)>,
}

/// Where a mutant came to stand in the new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The number of the mutant.
    pub number: usize,
    /// Its own text.
    pub own: Range<usize>,
    /// The whole of what was written for the edit that it belongs to.
    pub whole: Range<usize>,
}

/// A text with switches.
#[derive(Debug, Default)]
pub struct Switched {
    /// The new text.
    pub text: String,
    /// The mutants in it.
    pub sites: Vec<Site>,
}

/// The call that asks whether mutant `number` runs.
fn is_on(number: usize) -> String {
    format!("::kingtide_base::mutant_runs({number})")
}

/// Byte offsets of places in a text.
pub struct Offsets<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

impl<'a> Offsets<'a> {
    /// For `text`.
    pub fn new(text: &'a str) -> Self {
        let behind = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            lines: std::iter::once(0).chain(behind).collect(),
        }
    }

    /// The offset of a place that counts lines from 1 and characters from `first`.
    fn at(&self, line: usize, column: usize, first: usize) -> usize {
        let Some(start) = self.lines.get(line.wrapping_sub(1)).copied() else {
            return self.text.len();
        };
        let mut characters = self.text[start..].char_indices();
        let place = characters.nth(column - first);
        place.map_or(self.text.len(), |(offset, _)| start + offset)
    }

    /// The offset of a place of a mutant.
    pub fn of(&self, place: Place) -> usize {
        self.at(place.line, place.column, 1)
    }

    fn range(&self, span: proc_macro2::Span) -> Range<usize> {
        let (start, end) = (span.start(), span.end());
        self.at(start.line, start.column, 0)..self.at(end.line, end.column, 0)
    }
}

/// Finds what the mutants of one file change.
struct Finder<'a> {
    offsets: &'a Offsets<'a>,
    mutants: &'a [(usize, &'a Mutant)],
    edits: Vec<Edit>,
}

impl Finder<'_> {
    /// Mutants of kind `genre` that replace `range`.
    fn of(&self, genre: &str, range: &Range<usize>) -> Vec<(usize, &Mutant)> {
        let is_here = |mutant: &Mutant| {
            mutant.genre == genre
                && self.offsets.of(mutant.span.start) == range.start
                && self.offsets.of(mutant.span.end) == range.end
        };
        let found = self.mutants.iter().filter(|(_, mutant)| is_here(mutant));
        found.copied().collect()
    }

    fn add(&mut self, range: Range<usize>, shape: Shape, alternatives: Vec<(usize, String)>) {
        if !alternatives.is_empty() {
            self.edits.push(Edit {
                range,
                shape,
                alternatives,
            });
        }
    }

    /// An operator of `whole` that other text takes the place of.
    fn operator(&mut self, genre: &str, whole: Range<usize>, operator: &Range<usize>) {
        let text = self.offsets.text;
        let before = &text[whole.start..operator.start];
        let behind = &text[operator.end..whole.end];
        let alternatives = self
            .of(genre, operator)
            .into_iter()
            .map(|(number, mutant)| (number, format!("{before}{}{behind}", mutant.replacement)));
        let alternatives = alternatives.collect();
        self.add(whole, Shape::Expression, alternatives);
    }
}

/// True for a condition that binds names: it is no value that could stand in parentheses.
fn binds(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        if let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) {
            let start = self.offsets.range(first.span()).start;
            let range = start..self.offsets.range(last.span()).end;
            let alternatives = self.of("FnValue", &range).into_iter();
            // A function that answers `impl Iterator` answers one type only.
            let alternatives = alternatives
                .filter(|(_, mutant)| !mutant.replacement.contains("::iter::"))
                .map(|(number, mutant)| (number, format!("return {};", mutant.replacement)))
                .collect();
            self.add(start..start, Shape::Beginning, alternatives);
        }
        visit::visit_block(self, block);
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        if !binds(&binary.left) && !binds(&binary.right) {
            let operator = self.offsets.range(binary.op.span());
            self.operator(
                "BinaryOperator",
                self.offsets.range(binary.span()),
                &operator,
            );
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        let operator = self.offsets.range(unary.op.span());
        self.operator("UnaryOperator", self.offsets.range(unary.span()), &operator);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, matching: &'ast ExprMatch) {
        for arm in &matching.arms {
            let whole = self.offsets.range(arm.span());
            let mut end = self.offsets.range(arm.pat.span()).end;
            if let Some((_, guard)) = &arm.guard {
                let range = self.offsets.range(guard.span());
                end = range.start;
                if !binds(guard) {
                    let alternatives = self.of("MatchArmGuard", &range).into_iter();
                    let alternatives = alternatives
                        .map(|(number, mutant)| (number, mutant.replacement.clone()))
                        .collect();
                    self.add(range, Shape::Expression, alternatives);
                }
            }
            let alternatives = self.of("MatchArm", &whole).into_iter();
            let alternatives = alternatives
                .map(|(number, _)| (number, String::new()))
                .collect();
            let has_guard = arm.guard.is_some();
            self.add(end..end, Shape::Arm { has_guard }, alternatives);
        }
        visit::visit_expr_match(self, matching);
    }
}

/// `text` with all `mutants` that can be switched; each goes by the number beside it.
///
/// # Errors
/// When the text is no Rust.
pub fn switch(text: &str, mutants: &[(usize, &Mutant)]) -> Result<Switched, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let offsets = Offsets::new(text);
    let mut finder = Finder {
        offsets: &offsets,
        mutants,
        edits: Vec::new(),
    };
    finder.visit_file(&file);
    let mut edits = finder.edits;
    // Outer edits before inner ones.
    edits.sort_by_key(|edit| (edit.range.start, usize::MAX - edit.range.end));
    edits.dedup_by(|later, kept| {
        let is_same = later.range == kept.range && later.shape == kept.shape;
        if is_same {
            kept.alternatives.append(&mut later.alternatives);
        }
        is_same
    });
    let mut switched = Switched::default();
    write(text, 0..text.len(), &edits, &mut switched);
    Ok(switched)
}

/// Writes `range` of the text with its edits, which lie in it.
fn write(text: &str, range: Range<usize>, edits: &[Edit], target: &mut Switched) {
    let mut at = range.start;
    let mut rest = edits;
    while let Some((edit, later)) = rest.split_first() {
        let inner_count = later
            .iter()
            .take_while(|inner| inner.range.start < edit.range.end)
            .count();
        let (inner, behind) = later.split_at(inner_count);
        target.text.push_str(&text[at..edit.range.start]);
        write_edit(text, edit, inner, target);
        at = edit.range.end;
        rest = behind;
    }
    target.text.push_str(&text[at..range.end]);
}

fn write_edit(text: &str, edit: &Edit, inner: &[Edit], target: &mut Switched) {
    let start = target.text.len();
    let mut own = Vec::new();
    match edit.shape {
        Shape::Expression => {
            target.text.push('(');
            for (number, alternative) in &edit.alternatives {
                target.text.push_str(&format!("if {} {{ ", is_on(*number)));
                own.push(append(*number, alternative, target));
                target.text.push_str(" } else ");
            }
            target.text.push_str("{ ");
            write(text, edit.range.clone(), inner, target);
            target.text.push_str(" })");
        }
        Shape::Beginning => {
            for (number, alternative) in &edit.alternatives {
                target.text.push_str(&format!("if {} {{ ", is_on(*number)));
                own.push(append(*number, alternative, target));
                target.text.push_str(" } ");
            }
        }
        Shape::Arm { has_guard } => {
            let conditions = edit.alternatives.iter().map(|(number, _)| is_on(*number));
            let condition = conditions.map(|on| format!("!{on}")).collect::<Vec<_>>();
            let condition = condition.join(" && ");
            let guard = if has_guard {
                format!("{condition} && ")
            } else {
                format!(" if {condition}")
            };
            for (number, _) in &edit.alternatives {
                own.push((*number, start..start + guard.len()));
            }
            target.text.push_str(&guard);
        }
    }
    let whole = start..target.text.len();
    target
        .sites
        .extend(own.into_iter().map(|(number, own)| Site {
            number,
            own,
            whole: whole.clone(),
        }));
}

fn append(number: usize, alternative: &str, target: &mut Switched) -> (usize, Range<usize>) {
    let start = target.text.len();
    target.text.push_str(alternative);
    (number, start..target.text.len())
}

/// `text` with one mutant in it, as `cargo mutants` would write it.
pub fn replace(text: &str, mutant: &Mutant) -> String {
    let offsets = Offsets::new(text);
    let (start, end) = (offsets.of(mutant.span.start), offsets.of(mutant.span.end));
    format!("{}{}{}", &text[..start], mutant.replacement, &text[end..])
}

#[cfg(test)]
mod tests;
