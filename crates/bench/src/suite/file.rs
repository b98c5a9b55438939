//! Suites: files in TOML, some of them built in. What they may say is in docs/benchmarks.md.

use serde::Deserialize;

use super::{Options, Target};
use crate::{BenchError, Result, Settings};

/// The suites that need no file: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("quick", include_str!("quick.toml")),
    ("standard", include_str!("standard.toml")),
    ("sync", include_str!("sync.toml")),
    ("large-than-memory", include_str!("large-than-memory.toml")),
    ("large-values", include_str!("large-values.toml")),
    ("ycsb", include_str!("ycsb.toml")),
    ("soak", include_str!("soak.toml")),
    ("targets", include_str!("targets.toml")),
    ("amplification", include_str!("amplification.toml")),
];

/// Suites may be based on others, but not endlessly.
const DEPTH_MAX: usize = 4;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    about: String,
    /// The name of a built-in suite whose tests come first.
    based_on: Option<String>,
    /// What keys and operations are multiplied with.
    scale: Option<f64>,
    #[serde(default)]
    defaults: Options,
    /// What is compared at the end.
    #[serde(default)]
    targets: Vec<Target>,
    #[serde(default)]
    test: Vec<Options>,
}

/// A test: a name and what is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Its name in results.
    pub name: String,
    /// Everything but the engine and the directory.
    pub settings: Settings,
}

/// Tests that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// Its name in results; empty for a test from the command line.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// The tests, in order.
    pub tests: Vec<Test>,
    /// What of their results is compared between engines at the end; each is of one of the tests.
    pub targets: Vec<Target>,
}

impl Suite {
    /// Reads a suite. `top` are options that win over those in the file; `scale` multiplies keys and operations.
    ///
    /// ```
    /// use kingtide_bench::suite::{Options, Suite};
    ///
    /// let text = r#"
    ///     name = "mine"
    ///     [[test]]
    ///     name = "small values"
    ///     value_bytes = 8
    ///     keys = 10_000
    ///     steps = [{ workload = "write" }, { workload = "read" }]
    /// "#;
    /// let suite = Suite::parse(text, &Options::default(), 1.0)?;
    /// assert_eq!(suite.tests[0].settings.steps.len(), 2);
    /// # Ok::<(), kingtide_bench::BenchError>(())
    /// ```
    ///
    /// # Errors
    /// [`BenchError::Settings`]: what is wrong, and where.
    pub fn parse(text: &str, top: &Options, scale: f64) -> Result<Self> {
        parse_at_depth(text, top, scale, 0)
    }

    /// The built-in suite of this name, or `None`.
    ///
    /// # Errors
    /// As [`Suite::parse`]: `top` may contradict the tests.
    pub fn built_in(name: &str, top: &Options, scale: f64) -> Option<Result<Self>> {
        let (_, text) = BUILT_IN.iter().find(|(other, _)| *other == name)?;
        Some(Self::parse(text, top, scale))
    }

    /// One test called `name`, from the command line. `scale` multiplies keys and operations.
    ///
    /// # Errors
    /// [`BenchError::Settings`]: what is wrong.
    pub fn of_one(name: &str, options: &Options, top: &Options, scale: f64) -> Result<Self> {
        check_scale(scale)?;
        Ok(Self {
            name: String::new(),
            about: String::new(),
            tests: vec![test(name, options, top, scale)?],
            targets: Vec::new(),
        })
    }

    /// Keeps the tests whose names contain `text`, and their targets.
    pub fn retain(&mut self, text: &str) {
        self.tests.retain(|test| test.name.contains(text));
        self.targets.retain(|target| target.test.contains(text));
    }
}

fn check_scale(scale: f64) -> Result<()> {
    match scale.is_finite() && scale > 0.0 {
        true => Ok(()),
        false => Err(BenchError::Settings("the scale must be above 0".into())),
    }
}

/// What is wrong and where, in one line.
fn not_a_suite(text: &str, source: &toml::de::Error) -> BenchError {
    let before = source.span().and_then(|span| text.get(..span.start));
    let place = before.map(|before| {
        let line = before.matches('\n').count() + 1;
        format!(" at line {line}")
    });
    let (place, message) = (place.unwrap_or_default(), source.message());
    BenchError::Settings(format!(
        "not a suite{place}: {}",
        message.replace('\n', ", ")
    ))
}

fn parse_at_depth(text: &str, top: &Options, scale: f64, depth: usize) -> Result<Suite> {
    let file: File = toml::from_str(text).map_err(|source| not_a_suite(text, &source))?;
    let scale = scale * file.scale.unwrap_or(1.0);
    check_scale(scale)?;
    let (mut tests, mut targets) = (Vec::new(), Vec::new());
    if let Some(base) = &file.based_on {
        let (_, base_text) = BUILT_IN
            .iter()
            .find(|(name, _)| name == base && depth < DEPTH_MAX)
            .ok_or_else(|| {
                BenchError::Settings(format!(
                    "{}: there is no suite {base:?} to base it on",
                    file.name
                ))
            })?;
        let top = top.over(&file.defaults);
        let base = parse_at_depth(base_text, &top, scale, depth + 1)?;
        tests.extend(base.tests);
        targets.extend(base.targets);
    }
    for (number, options) in file.test.iter().enumerate() {
        let name = options
            .name
            .clone()
            .unwrap_or_else(|| format!("test {}", number + 1));
        tests.push(test(&name, &options.over(&file.defaults), top, scale)?);
    }
    if tests.is_empty() {
        return Err(BenchError::Settings(format!(
            "the suite {} has no tests",
            file.name
        )));
    }
    check_names(&file.name, &tests)?;
    for target in file.targets {
        let problem = target.problem(&tests);
        if let Some(problem) = problem {
            let (suite, row) = (&file.name, &target.row);
            return Err(BenchError::Settings(format!(
                "{suite}: target {row:?}: {problem}"
            )));
        }
        targets.push(target);
    }
    Ok(Suite {
        name: file.name,
        about: file.about,
        tests,
        targets,
    })
}

/// Results of two tests of one name could not be told apart.
fn check_names(suite: &str, tests: &[Test]) -> Result<()> {
    let is_twice = |(place, test): &(usize, &Test)| {
        let before = &tests[..*place];
        before.iter().any(|other| other.name == test.name)
    };
    match tests.iter().enumerate().find(is_twice) {
        None => Ok(()),
        Some((_, test)) => Err(BenchError::Settings(format!(
            "the suite {suite} has two tests called {:?}: give each a name of its own",
            test.name
        ))),
    }
}

fn test(name: &str, options: &Options, top: &Options, scale: f64) -> Result<Test> {
    let settings = options.settings(top, scale);
    let settings = settings.and_then(|settings| settings.check().map(|()| settings));
    match settings {
        Ok(settings) => Ok(Test {
            name: name.to_owned(),
            settings,
        }),
        Err(source) => Err(BenchError::Settings(format!("{name}: {source}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_suites_are_sound() {
        for (name, text) in BUILT_IN {
            let suite = Suite::parse(text, &Options::default(), 1.0).expect(name);
            assert_eq!(suite.name, *name);
            assert!(!suite.about.is_empty(), "{name}");
            let mut names: Vec<&str> = suite.tests.iter().map(|test| &*test.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), suite.tests.len(), "{name}: names twice");
            for test in &suite.tests {
                assert!(
                    test.settings.steps.iter().any(|step| step.is_measured),
                    "{name}: {}",
                    test.name
                );
            }
        }
        let count = |name| {
            let suite = Suite::built_in(name, &Options::default(), 1.0);
            suite.expect("built in").expect("sound").tests.len()
        };
        assert_eq!(count("standard"), 25);
        assert_eq!(count("quick"), 25);
        let targets = Suite::built_in("targets", &Options::default(), 1.0);
        let targets = targets.expect("built in").expect("sound").targets;
        assert!(targets.iter().all(|target| target.ratio.is_some()));
        assert!(Suite::built_in("none", &Options::default(), 1.0).is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("", "name"),
            ("name = \"x\"", "no tests"),
            ("name = \"x\"\nbased_on = \"y\"", "no suite \"y\""),
            ("name = \"x\"\n[[test]]\nworkload = \"dance\"", "dance"),
            (
                "name = \"x\"\n[[test]]\nworkload = \"write\"\nkesy = 1",
                "at line 4: unknown field `kesy`",
            ),
            (
                "name = \"x\"\nscale = 0.0\n[[test]]\nworkload = \"write\"",
                "scale",
            ),
            (
                "name = \"x\"\n[[test]]\nname = \"a\"\nkeys = 0\nworkload = \"write\"",
                "a: keys must be at least 1",
            ),
            (
                "name = \"x\"\n[[test]]\nname = \"a\"\nsteps = [{ workload = \"write\", operations = 0 }]",
                "a: write: operations must be at least 1",
            ),
            (
                "name = \"x\"\n[[test]]\nname = \"a\"\nworkload = \"read\"",
                "a: the first step, read, would find an empty database",
            ),
            (
                "name = \"x\"\n[[test]]\nname = \"a\"\nworkload = \"write\"\nthreads = 0",
                "a: write: threads",
            ),
            (
                "name = \"x\"\n[[test]]\nname = \"a\"\nworkload = \"write\"\n[[test]]\nname = \"a\"\nworkload = \"txn\"",
                "two tests called \"a\"",
            ),
            (
                "name = \"quick\"\nbased_on = \"quick\"\n[[test]]\nname = \"mixed\"\nworkload = \"write\"",
                "two tests called \"mixed\"",
            ),
            (
                "name = \"x\"\n[[test]]\nworkload = \"read\"\nvalue_bytes = \"1-2\"",
                "1-2",
            ),
            (
                "name = \"x\"\n[[test]]\nworkload = \"read\"\ncache = \"1T\"",
                "1T",
            ),
            (
                "name = \"x\"\ntargets = [{row = \"r\", test = \"u\", operation = \"GET\"}]\n\
                 [[test]]\nname = \"t\"\nsteps = [{ workload = \"write\" }, { workload = \"read\" }]",
                "target \"r\": there is no test \"u\"",
            ),
            (
                "name = \"x\"\ntargets = [{row = \"r\", test = \"t\", operation = \"GET\", pattern = \"zipfian\"}]\n\
                 [[test]]\nname = \"t\"\nsteps = [{ workload = \"write\" }, { workload = \"read\" }]",
                "no measured step",
            ),
            (
                "name = \"x\"\ntargets = [{row = \"r\", test = \"t\", operation = \"SEEK\"}]\n\
                 [[test]]\nname = \"t\"\nsteps = [{ workload = \"write\" }, { workload = \"read\" }]",
                "no measured step",
            ),
            (
                "name = \"x\"\ntargets = [{row = \"r\", test = \"t\", operation = \"GET\", ratio = 0.0}]\n\
                 [[test]]\nname = \"t\"\nsteps = [{ workload = \"write\" }, { workload = \"read\" }]",
                "ratio must be above 0",
            ),
        ] {
            let message = Suite::parse(text, &Options::default(), 1.0)
                .expect_err(text)
                .to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
        for scale in [0.0, -1.0, f64::NAN] {
            Suite::parse("name = \"x\"", &Options::default(), scale).expect_err("scale");
        }
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let top = Options {
            threads: Some(3),
            ..Options::default()
        };
        let mut suite = Suite::built_in("quick", &top, 0.5)
            .expect("built in")
            .expect("sound");
        for test in &suite.tests {
            assert!(test.settings.steps.iter().all(|step| step.threads == 3));
        }
        suite.retain("seek");
        assert_eq!(suite.tests.len(), 3);
        let suite = Suite::built_in("targets", &top, 1.0);
        let mut suite = suite.expect("built in").expect("sound");
        suite.retain("zipfian");
        assert_eq!((suite.tests.len(), suite.targets.len()), (1, 2));
    }
}
