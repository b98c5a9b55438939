//! `bench compare`: two result files side by side, as a table and as a page. What counts as a difference is said in
//! [`kingtide_bench::compare`].

use std::fs;

use kingtide_bench::{Comparison, Difference, Metric, Pair, Row, Verdict, compare, html};
use serde_json::{Value, json};

use super::{
    failed,
    table::{duration, rate},
};
use crate::{
    args::CompareArgs,
    commands::inspect::new_table,
    failure::{Failure, Result},
    output::Output,
};

pub(super) fn run(args: &CompareArgs, output: &mut Output) -> Result<()> {
    if !(args.threshold.is_finite() && args.threshold >= 0.0) {
        let message = "the threshold must be 0 or more percent".to_owned();
        return Err(Failure::Usage(message, "see `kingtide help bench compare`"));
    }
    let old = Row::read_file(&args.old).map_err(failed)?;
    let new = Row::read_file(&args.new).map_err(failed)?;
    let comparison = compare(&old, &new, args.threshold);
    if comparison.pairs.is_empty() {
        return Err(Failure::Benchmark("the files have no row in common".into()));
    }
    if let Some(path) = &args.html {
        let (old, new) = (args.old.display(), args.new.display());
        let page = html::comparison(&comparison, &old.to_string(), &new.to_string());
        fs::write(path, page).map_err(Failure::io(format!("write {}", path.display())))?;
    }
    if output.json {
        for pair in &comparison.pairs {
            output.object(&pair_json(pair))?;
        }
    } else {
        print(&comparison, output)?;
    }
    match comparison.regressions().len() {
        0 => Ok(()),
        worse => Err(Failure::Benchmark(format!(
            "{worse} numbers in {} rows became worse",
            comparison.pairs.len()
        ))),
    }
}

fn print(comparison: &Comparison, output: &mut Output) -> Result<()> {
    let mut table = new_table(&[
        "test",
        "operation",
        "engine",
        "before",
        "after",
        "ratio",
        "p99 before",
        "p99 after",
        "",
    ]);
    for pair in &comparison.pairs {
        let row = &pair.new;
        let shown = |metric, text: fn(f64) -> String| match pair.difference(metric) {
            Some(difference) => [text(difference.old.median), text(difference.new.median)],
            None => ["-".to_owned(), "-".to_owned()],
        };
        let ratio = pair.difference(Metric::Throughput).map(Difference::ratio);
        let ([before, after], [p99_before, p99_after]) = (
            shown(Metric::Throughput, rate),
            shown(Metric::P99, duration),
        );
        table.add_row(vec![
            row.test_name.clone(),
            format!("{} {}", row.operation, row.pattern),
            row.engine.clone(),
            before,
            after,
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            p99_before,
            p99_after,
            verdict(pair),
        ]);
    }
    output.line(&table.to_string())?;
    let only = comparison.only_old.len() + comparison.only_new.len();
    if only > 0 && !output.quiet {
        output.line(&format!("{only} rows are in one of the files only"))?;
    }
    Ok(())
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

fn pair_json(pair: &Pair) -> Value {
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
        "version_before": pair.old.engine_version,
        "version_after": pair.new.engine_version,
        "numbers": numbers.collect::<Vec<_>>(),
    })
}
