//! `bench compare`: two result files side by side, as a table and as a page. What counts as a difference is said in
//! [`kingtide_bench::compare`].

use kingtide_bench::{
    Comparison, Difference, Metric, Pair, Row, Verdict, compare, html, operation_labels,
    why_nothing_pairs,
};
use serde_json::{Value, json};

use super::{
    failed,
    fitted::{fitted, terminal_columns},
    result_file::{Older, ResultFile, refuse_shared_files},
    table::{NOT_MEASURED, duration, rate},
};
use crate::{
    args::CompareArgs,
    failure::{Failure, Result},
    output::Output,
};

const HEADER: [&str; 9] = [
    "test",
    "operation",
    "engine",
    "before",
    "after",
    "ratio",
    "p99 before",
    "p99 after",
    "",
];

/// The columns that a narrow terminal does without, the least important first. The words at the end tell of p99 too.
const SPARE: [&str; 4] = ["p99 before", "p99 after", "before", "after"];

pub(super) fn run(args: &CompareArgs, output: &mut Output) -> Result<()> {
    if !(args.threshold.is_finite() && args.threshold >= 0.0) {
        let message = "the threshold must be 0 or more percent".to_owned();
        return Err(Failure::Usage(message, "see `kingtide help bench compare`"));
    }
    let inputs = [args.old.clone(), args.new.clone()];
    refuse_shared_files(&inputs, &[("--html", args.html.as_deref())])?;
    let old = Row::read_file(&args.old).map_err(failed)?;
    let new = Row::read_file(&args.new).map_err(failed)?;
    let comparison = compare(&old, &new, args.threshold);
    if comparison.pairs.is_empty() {
        return Err(Failure::Usage(
            format!(
                "the files have no row in common; the closest differ in {}",
                why_nothing_pairs(&old, &new)
            ),
            "rows pair that measured the same with the same settings, see `kingtide help bench compare`; \
             `kingtide bench show OLD NEW` shows others side by side",
        ));
    }
    if let Some(mut page) = ResultFile::create(args.html.as_deref())? {
        let (old, new) = (args.old.display(), args.new.display());
        let text = html::comparison(&comparison, &old.to_string(), &new.to_string());
        page.write(text.as_bytes()).map_err(failed)?;
        page.install(Older::Replaced).map_err(failed)?;
    }
    let named = Named::of(&comparison);
    if output.json {
        for object in named.objects() {
            output.object(&object)?;
        }
    } else {
        output.raw(named.text(terminal_columns()).as_bytes())?;
    }
    if let Some(remark) = spread_remark(&comparison) {
        output.note(&remark);
    }
    judge(&comparison, args)
}

/// Says when rows were judged without knowing how far their rounds lie apart.
fn spread_remark(comparison: &Comparison) -> Option<String> {
    // Success is one number however many rounds there are.
    let is_measured = |difference: &&Difference| difference.metric != Metric::Success;
    let measured = |pair: &&Pair| pair.differences.iter().any(|one| is_measured(&one));
    let pairs: Vec<&Pair> = comparison.pairs.iter().filter(measured).collect();
    let has = |pair: &Pair, test: fn(&Difference) -> bool| {
        let mut differences = pair.differences.iter().filter(is_measured);
        differences.any(test)
    };
    let all_of_one = !pairs
        .iter()
        .any(|pair| has(pair, |one| one.old.rounds > 1 || one.new.rounds > 1));
    let without = pairs
        .iter()
        .filter(|pair| has(pair, |one| one.old.rounds < 2 || one.new.rounds < 2))
        .count();
    let which = match without {
        0 => return None,
        _ if all_of_one => "each side has one round".to_owned(),
        _ => format!("{without} of {} rows have one round on a side", pairs.len()),
    };
    Some(format!(
        "{which}: no spread is known, and a difference must be twice as large to count; run with --rounds 3"
    ))
}

/// An error when a number became worse, or a row is gone.
fn judge(comparison: &Comparison, args: &CompareArgs) -> Result<()> {
    let mut found = Vec::new();
    found.extend(worse(comparison));
    match comparison.only_old.len() {
        gone if gone > 0 && !args.allow_missing => found.push(format!(
            "rows of {} that are not in {}: {gone} (--allow-missing if that is meant)",
            args.old.display(),
            args.new.display()
        )),
        _ => {}
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(Failure::Benchmark(found.join("; ")))
    }
}

/// How many numbers became worse, and in how many rows; `None` when none did.
fn worse(comparison: &Comparison) -> Option<String> {
    let of = |pair: &Pair| {
        let worse = pair.differences.iter();
        worse
            .filter(|difference| difference.verdict == Verdict::Regressed)
            .count()
    };
    let counts = comparison.pairs.iter().map(of).filter(|count| *count > 0);
    let counts: Vec<usize> = counts.collect();
    let counted = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    (!counts.is_empty()).then(|| {
        let numbers = counted(counts.iter().sum(), "number");
        format!("{numbers} in {} became worse", counted(counts.len(), "row"))
    })
}

/// A comparison, and for each row what to call its operation.
struct Named<'a> {
    pairs: Vec<(&'a Pair, String)>,
    /// Rows of one file only, with the name of the file.
    only: Vec<(&'static str, &'a Row, String)>,
}

impl<'a> Named<'a> {
    fn of(comparison: &'a Comparison) -> Self {
        let only = |file, rows: &'a [Row]| rows.iter().map(move |row| (file, row));
        let only: Vec<(&str, &Row)> = only("OLD", &comparison.only_old)
            .chain(only("NEW", &comparison.only_new))
            .collect();
        let of_pairs = comparison.pairs.iter().map(|pair| &pair.new);
        let mut names = operation_labels(of_pairs.chain(only.iter().map(|(_, row)| *row)));
        let names_of_only = names.split_off(comparison.pairs.len());
        let only = only.into_iter().zip(names_of_only);
        Self {
            pairs: comparison.pairs.iter().zip(names).collect(),
            only: only.map(|((file, row), name)| (file, row, name)).collect(),
        }
    }

    /// A table of the pairs in as many columns as `room` allows, and below it the rows of one file only.
    fn text(&self, room: Option<u16>) -> String {
        let lines: Vec<Vec<String>> = self
            .pairs
            .iter()
            .map(|(pair, name)| line(pair, name))
            .collect();
        let mut text = fitted(&HEADER, &lines, &SPARE, room, "--json");
        for (file, row, name) in &self.only {
            text.push_str(&format!(
                "only in {file}: {}: {} {name}\n",
                row.engine, row.test_name
            ));
        }
        text
    }

    fn objects(&self) -> Vec<Value> {
        let pairs = self.pairs.iter().map(|(pair, name)| pair_json(pair, name));
        let only = self.only.iter().map(|(file, row, name)| {
            json!({
                "engine": row.engine,
                "test_name": row.test_name,
                "operation": row.operation,
                "name": name,
                "only_in": file.to_lowercase(),
                "numbers": [],
            })
        });
        pairs.chain(only).collect()
    }
}

fn line(pair: &Pair, name: &str) -> Vec<String> {
    let shown = |metric, text: fn(f64) -> String| match pair.difference(metric) {
        Some(difference) => [text(difference.old.median), text(difference.new.median)],
        None => [NOT_MEASURED, NOT_MEASURED].map(str::to_owned),
    };
    let ratio = pair.difference(Metric::Throughput).map(Difference::ratio);
    let [before, after] = shown(Metric::Throughput, rate);
    let [p99_before, p99_after] = shown(Metric::P99, duration);
    vec![
        pair.new.test_name.clone(),
        name.to_owned(),
        pair.new.engine.clone(),
        before,
        after,
        ratio.map_or(NOT_MEASURED.to_owned(), |ratio| format!("{ratio:.2}")),
        p99_before,
        p99_after,
        verdict(pair),
    ]
}

/// What became of a row, in a few words: what became worse in capitals.
fn verdict(pair: &Pair) -> String {
    let word = |difference: &Difference| match (difference.metric, difference.verdict) {
        (_, Verdict::Same) => None,
        (Metric::Success, Verdict::Regressed) => Some("BROKEN".to_owned()),
        (Metric::Success, Verdict::Improved) => Some("mended".to_owned()),
        (Metric::Throughput, Verdict::Regressed) => Some("SLOWER".to_owned()),
        (Metric::Throughput, Verdict::Improved) => Some("faster".to_owned()),
        (metric, Verdict::Regressed) => Some(format!(
            "{} {:+.0} %",
            metric.name().to_uppercase(),
            difference.change_percent()
        )),
        (metric, Verdict::Improved) => {
            Some(format!("{metric} {:+.0} %", difference.change_percent()))
        }
    };
    let words: Vec<String> = pair.differences.iter().filter_map(word).collect();
    words.join(", ")
}

fn pair_json(pair: &Pair, name: &str) -> Value {
    let numbers = pair.differences.iter().map(|difference| {
        json!({
            "metric": difference.metric.name(),
            "before": difference.old.median,
            "after": difference.new.median,
            "ratio": difference.ratio(),
            "verdict": difference.verdict.name(),
        })
    });
    json!({
        "engine": pair.new.engine,
        "test_name": pair.new.test_name,
        "operation": pair.new.operation,
        "name": name,
        "version_before": pair.old.engine_version,
        "version_after": pair.new.engine_version,
        "numbers": numbers.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of one row for each of `counts`, all alike.
    fn rows(counts: &[u64]) -> Vec<Row> {
        let tests = (0..).zip(counts);
        tests
            .flat_map(|(test, count)| {
                (1..=*count).map(move |round| Row {
                    test_name: format!("{test}"),
                    ops_per_sec: 9.0,
                    round,
                    ..Row::default()
                })
            })
            .collect()
    }

    #[test]
    fn what_has_no_spread_is_said() {
        let remark = |old: &[u64], new: &[u64]| {
            let remark = spread_remark(&compare(&rows(old), &rows(new), 5.0));
            remark.map(|text| text.split(':').next().unwrap_or_default().to_owned())
        };
        let told = |text: &str| Some(text.to_owned());
        assert_eq!(remark(&[1, 1], &[1, 1]), told("each side has one round"));
        let one = told("1 of 2 rows have one round on a side");
        assert_eq!(remark(&[3, 3], &[3, 1]), one);
        assert_eq!(remark(&[3, 3], &[2, 3]), None);
        assert_eq!(remark(&[], &[]), None);
    }
}
