//! Manual pages of the C functions, made from the headers.
//!
//! A header is a sequence of paragraphs, separated by empty lines. One that is a comment and prototypes becomes a page: the
//! comment is its text, the prototypes its synopsis. It has the name of the first function; those of the others are pages
//! that point to it. Prototypes without a comment become a page as well. The comment at the head of the file becomes a page
//! of its own. Types, macros and section lines become none: the overview points to the header.
//!
//! In comments, lines that are indented by two blanks or more are shown as they are.

/// One file of the manual.
pub(super) struct Page {
    /// Without the section.
    pub(super) name: String,
    pub(super) roff: String,
}

/// The pages of the header `text`, which programs include as `include`; `overview` is the name of the page that its head
/// becomes.
pub(super) fn pages(text: &str, include: &str, overview: Option<&str>) -> Vec<Page> {
    let mut pages = Vec::new();
    let head = comment_text(&paragraph_of_head(text));
    if let Some(name) = overview {
        let roff = page(&Content {
            names: &[name.to_owned()],
            include,
            prototypes: "",
            text: &head,
        });
        pages.push(Page {
            name: name.to_owned(),
            roff,
        });
    }
    for paragraph in text.split("\n\n") {
        let (comment, prototypes) = split_comment(paragraph);
        let names = functions_in(&prototypes);
        let Some(first) = names.first() else {
            continue;
        };
        let text = comment_text(&comment);
        let roff = page(&Content {
            names: &names,
            include,
            prototypes: &prototypes,
            text: &text,
        });
        for other in &names[1..] {
            pages.push(Page {
                name: other.clone(),
                roff: format!(".so man3/{first}.3\n"),
            });
        }
        pages.push(Page {
            name: first.clone(),
            roff,
        });
    }
    pages
}

/// The comment that a file begins with.
fn paragraph_of_head(text: &str) -> String {
    let end = text.find("*/").map_or(0, |at| at + 2);
    text[..end].to_owned()
}

/// The comment that a paragraph begins with, and what follows it.
fn split_comment(paragraph: &str) -> (String, String) {
    let paragraph = paragraph.trim_start_matches('\n');
    match paragraph.find("*/") {
        Some(end) if paragraph.starts_with("/*") => (
            paragraph[..end + 2].to_owned(),
            paragraph[end + 2..].trim_matches('\n').to_owned(),
        ),
        _ => (String::new(), paragraph.to_owned()),
    }
}

/// The names of the functions that are declared, when nothing else is.
fn functions_in(declarations: &str) -> Vec<String> {
    let is_other = |line: &str| {
        ["typedef", "#", "}", "/*", "extern"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    // Attributes stand between `#if` lines inside of a declaration.
    let declarations = match declarations.find("\n#if") {
        Some(at) => &declarations[..at],
        None => declarations,
    };
    if declarations.lines().any(is_other) {
        return Vec::new();
    }
    declarations
        .split_inclusive(';')
        .filter_map(|declaration| {
            let before = declaration.split_once('(')?.0;
            let name = before.rsplit([' ', '*', '\n']).next()?;
            (name.starts_with("tidesdb_") || name.starts_with("kt_")).then(|| name.to_owned())
        })
        .collect()
}

/// The lines of a comment without what makes them one.
fn comment_text(comment: &str) -> Vec<String> {
    let body = comment.trim_start_matches("/*").trim_end_matches("*/");
    let lines = body.lines().map(|line| {
        let line = line.trim_end();
        let line = line.strip_prefix(" *").unwrap_or(line);
        line.strip_prefix(' ').unwrap_or(line).to_owned()
    });
    let mut lines: Vec<String> = lines.skip_while(|line| line.is_empty()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

struct Content<'a> {
    names: &'a [String],
    include: &'a str,
    prototypes: &'a str,
    text: &'a [String],
}

fn page(content: &Content<'_>) -> String {
    let name = &content.names[0];
    let mut roff = format!(
        ".TH {} 3 \"\" \"Kingtide {}\" \"Kingtide C Library\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.nf\n.B #include <{}>\n",
        escape(name),
        env!("CARGO_PKG_VERSION"),
        escape(&content.names.join(", ")),
        escape(&first_sentence(content)),
        content.include,
    );
    if !content.prototypes.is_empty() {
        roff += ".sp\n";
        roff += &verbatim(content.prototypes.lines());
    }
    roff += ".fi\n.SH DESCRIPTION\n";
    roff += &description(content.text);
    roff += ".SH SEE ALSO\n";
    roff += match name.as_str() {
        "tidesdb" => "kingtide(3), kingtide(1)\n",
        "kingtide" => "tidesdb(3), kingtide(1)\n",
        _ => "tidesdb(3), kingtide(3): results, handles, threads, memory\n",
    };
    roff
}

/// What the page is about, for `apropos`.
fn first_sentence(content: &Content<'_>) -> String {
    let paragraph: Vec<&str> = content
        .text
        .iter()
        .take_while(|line| !line.is_empty())
        .map(String::as_str)
        .collect();
    let text = paragraph.join(" ");
    let sentence = text.split(". ").next().unwrap_or(&text);
    match sentence.trim_end_matches('.') {
        "" => "function of the Kingtide C library".to_owned(),
        sentence => sentence.to_owned(),
    }
}

fn description(lines: &[String]) -> String {
    let mut roff = String::new();
    let mut is_verbatim = false;
    for line in lines {
        let indented = line.starts_with("  ");
        if indented != is_verbatim && !line.is_empty() {
            roff += if indented { ".sp\n.nf\n" } else { ".fi\n" };
            is_verbatim = indented;
        }
        if line.is_empty() {
            roff += ".sp\n";
        } else {
            roff += &verbatim(std::iter::once(line.as_str()));
        }
    }
    if is_verbatim {
        roff += ".fi\n";
    }
    if lines.is_empty() {
        roff += "See the comments in the header.\n";
    }
    roff
}

fn verbatim<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines
        .map(|line| format!("{}\n", escape(line)))
        .collect::<String>()
}

/// Text that the formatter prints as it is.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) {
        format!("\\&{text}")
    } else {
        text
    }
}
