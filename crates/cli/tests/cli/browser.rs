//! Opens pages in a headless Chromium, where one is installed.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// What programs are tried.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What the browser made of a page.
#[derive(Debug)]
pub struct Seen {
    /// The document after its scripts ran, as markup.
    pub dom: String,
    /// What the page said on the console, errors and violations of its policy among it.
    pub console: Vec<String>,
}

/// Opens the page in a window of this width, in pixels; `None`, with a notice, where no browser is installed.
pub fn open(page: &Path, width: u32) -> Option<Seen> {
    let profile = tempfile::tempdir().expect("temporary directory");
    let mut arguments = vec![
        "--headless".to_owned(),
        "--no-sandbox".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--enable-logging=stderr".to_owned(),
        format!("--user-data-dir={}", profile.path().display()),
        format!("--window-size={width},900"),
    ];
    arguments.push("--dump-dom".to_owned());
    arguments.push(format!("file://{}", page.display()));
    for name in NAMES {
        let ran = Command::new(name)
            .args(&arguments)
            .stdin(Stdio::null())
            .output();
        let Ok(ran) = ran else {
            continue;
        };
        assert!(ran.status.success(), "{name}: {ran:?}");
        let log = String::from_utf8_lossy(&ran.stderr);
        return Some(Seen {
            dom: String::from_utf8(ran.stdout).expect("markup is UTF-8"),
            console: log
                .lines()
                .filter(|line| line.contains("CONSOLE"))
                .map(str::to_owned)
                .collect(),
        });
    }
    #[expect(clippy::print_stderr, reason = "what is not tested must be told")]
    {
        eprintln!(
            "notice: no Chromium is installed, so {} was not opened",
            page.display()
        );
    }
    None
}

impl Seen {
    /// What was drawn, without the scripts.
    pub fn drawn(&self) -> &str {
        let (_, rest) = self.dom.split_once("<main>").expect("it begins");
        rest.split_once("</main>").expect("it ends").0
    }

    /// Elements whose class attribute is exactly `class`.
    pub fn count_class(&self, class: &str) -> usize {
        self.dom.matches(&format!("class=\"{class}\"")).count()
    }

    /// Expects a page that was drawn to its end without complaints.
    pub fn expect_drawn(&self) {
        assert_eq!(self.console, [""; 0]);
        assert!(self.dom.contains("data-drawn=\"yes\""), "not drawn");
        assert!(!self.dom.contains("data-failed"), "failed");
    }
}
