//! Pages: one file of HTML each, which needs nothing else.
//!
//! | file | what it is |
//! |---|---|
//! | `report`, `report.js` | what one run, or several, measured |
//! | `comparison`, `comparison.js` | two results side by side |
//! | `charts.css`, `charts.js` | charts of pages about benchmarks |
//! | `base.css`, `base.js` | looks and behaviour that all pages share: light, dark, phone, print; hints, tables |
//!
//! A page is a frame, styles, scripts and data. The data stands in the page as JSON in which no character can end its
//! element, and scripts turn it into text nodes only: nothing that a name or a key holds is read as markup. A
//! content-security policy forbids every request to a network.

mod comparison;
mod report;

use serde_json::Value;

pub use comparison::comparison;
pub use report::{report, report_of_part};

const BASE_STYLE: &str = include_str!("base.css");
const BASE_SCRIPT: &str = include_str!("base.js");

/// One page; see [`Page::render`].
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The title of the window, as text.
    pub title: &'a str,
    /// What this page adds to the styles that all share.
    pub style: &'a str,
    /// What this page adds to the scripts that all share: it builds the page below the element `main` from `DATA`.
    pub script: &'a str,
    /// What is shown.
    pub data: &'a Value,
}

impl Page<'_> {
    /// The page as HTML.
    ///
    /// ```
    /// use kingtide_bench::html::Page;
    /// use serde_json::json;
    ///
    /// let page = Page {
    ///     title: "a < b",
    ///     style: "",
    ///     script: "document.querySelector('main').append(h('p', {}, DATA.name));",
    ///     data: &json!({"name": "</script>"}),
    /// };
    /// let html = page.render();
    /// assert!(html.contains("<title>a &lt; b</title>"));
    /// assert!(html.contains(r#"{"name":"\u003c/script\u003e"}"#));
    /// ```
    #[must_use]
    pub fn render(&self) -> String {
        let title = escape_markup(self.title);
        let data = embed_json(self.data);
        let (style, script) = (self.style, self.script);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"generator\" content=\"kingtide {version}\">\n<title>{title}</title>\n\
             <style>\n{BASE_STYLE}{style}</style>\n</head>\n<body>\n<div id=\"failure\"></div>\n\
             <main></main>\n<noscript><p>This page is drawn by the script in it.</p></noscript>\n\
             <script type=\"application/json\" id=\"data\">{data}</script>\n\
             <script>\n{BASE_SCRIPT}{script}</script>\n</body>\n</html>\n",
            version = env!("CARGO_PKG_VERSION"),
        )
    }
}

/// Text between tags or in a quoted attribute.
fn escape_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// JSON that can stand in an element: `<`, `>` and `&`, which occur in strings only, are written as escapes.
fn embed_json(data: &Value) -> String {
    let text = data.to_string();
    let mut embedded = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => embedded.push_str("\\u003c"),
            '>' => embedded.push_str("\\u003e"),
            '&' => embedded.push_str("\\u0026"),
            _ => embedded.push(character),
        }
    }
    embedded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Goal: on paper no page is left blank because a card is longer than what is left of it.
    #[test]
    fn cards_go_over_the_ends_of_pages() {
        let (_, print) = BASE_STYLE
            .split_once("@media print {")
            .expect("there are rules for print");
        for rule in print.split_inclusive('}') {
            let is_kept_whole = rule.contains("break-inside");
            assert!(!(is_kept_whole && rule.contains("card")), "{rule}");
        }
        assert!(print.contains("h2, h3, figcaption, .sub, .legend { break-after: avoid; }"));
    }

    /// Goal: data can neither end its element nor change on the way.
    #[test]
    fn data_stays_data() {
        let data = json!({"</script><script>alert(1)</script>": ["<!--", "]]>", "&lt;", "\u{2028}", "\"\\"]});
        let page = Page {
            title: "<script>",
            style: "",
            script: "",
            data: &data,
        };
        let html = page.render();
        let (_, rest) = html
            .split_once("id=\"data\">")
            .expect("the element is there");
        let (embedded, _) = rest.split_once("</script>").expect("it ends");
        assert!(!embedded.contains(['<', '>', '&']));
        let back: Value = serde_json::from_str(embedded).expect("it is JSON");
        assert_eq!(back, data);
        assert!(html.contains("<title>&lt;script&gt;</title>"));
        assert_eq!(html.matches("<script").count(), 2);
    }
}
