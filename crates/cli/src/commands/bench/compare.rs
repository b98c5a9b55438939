//! `bench compare`: two result files side by side. The medians of the rounds are compared; a difference counts when it is
//! beyond a threshold and beyond the spread of the rounds of both.

use kingtide_bench::{Row, Summary};
use serde_json::json;

use super::{
    failed,
    table::{count, duration},
};
use crate::{
    args::CompareArgs,
    commands::inspect::new_table,
    failure::{Failure, Result},
    output::Output,
};

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Faster,
    Slower,
    /// It went well before and does not now.
    Broken,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Same => "",
            Self::Faster => "faster",
            Self::Slower => "SLOWER",
            Self::Broken => "BROKEN",
        }
    }
}

pub(super) fn run(args: &CompareArgs, output: &mut Output) -> Result<()> {
    if !(args.threshold.is_finite() && args.threshold >= 0.0) {
        let message = "the threshold must be 0 or more percent".to_owned();
        return Err(Failure::Usage(message, "see `kingtide help bench compare`"));
    }
    let old = Summary::of(&Row::read_file(&args.old).map_err(failed)?);
    let new = Summary::of(&Row::read_file(&args.new).map_err(failed)?);
    let mut table = new_table(&[
        "test",
        "operation",
        "engine",
        "before",
        "after",
        "ratio",
        "spread",
        "p99 before",
        "p99 after",
        "",
    ]);
    let mut worse = 0;
    let mut compared = 0;
    for after in &new {
        let Some(before) = old.iter().find(|before| is_same(&before.row, &after.row)) else {
            continue;
        };
        compared += 1;
        let (ratio, verdict) = judge(before, after, args.threshold);
        worse += usize::from(matches!(verdict, Verdict::Slower | Verdict::Broken));
        let spread = before.spread_percent().max(after.spread_percent());
        let (row, old_row) = (&after.row, &before.row);
        if output.json {
            output.object(&json!({
                "engine": row.engine, "test_name": row.test_name, "operation": row.operation,
                "before": old_row.ops_per_sec, "after": row.ops_per_sec, "ratio": ratio,
                "spread_percent": spread, "verdict": verdict.name().to_lowercase(),
            }))?;
        }
        table.add_row(vec![
            row.test_name.clone(),
            format!("{} {}", row.operation, row.pattern),
            row.engine.clone(),
            count(old_row.ops_per_sec),
            count(row.ops_per_sec),
            format!("{ratio:.2}"),
            format!("{spread:.0} %"),
            duration(old_row.p99_us),
            duration(row.p99_us),
            verdict.name().to_owned(),
        ]);
    }
    let only = (old.len() - compared.min(old.len())) + (new.len() - compared);
    if compared == 0 {
        return Err(Failure::Benchmark("the files have no row in common".into()));
    }
    if !output.json {
        output.line(&table.to_string())?;
        if only > 0 && !output.quiet {
            output.line(&format!("{only} rows are in one of the files only"))?;
        }
    }
    match worse {
        0 => Ok(()),
        _ => Err(Failure::Benchmark(format!(
            "{worse} of {compared} rows became worse"
        ))),
    }
}

/// The same test of the same engine; versions may differ, that is the point.
fn is_same(left: &Row, right: &Row) -> bool {
    let key = |row: &Row| {
        let texts = [
            &row.engine,
            &row.suite,
            &row.test_name,
            &row.operation,
            &row.workload,
            &row.pattern,
        ];
        let numbers = [
            row.threads,
            row.num_operations,
            row.batch_size,
            row.key_size,
            row.value_size,
            row.range_size,
        ];
        (texts.map(Clone::clone), numbers)
    };
    key(left) == key(right)
}

fn judge(before: &Summary, after: &Summary, threshold: f64) -> (f64, Verdict) {
    let ratio = if before.row.ops_per_sec > 0.0 {
        after.row.ops_per_sec / before.row.ops_per_sec
    } else {
        0.0
    };
    if after.rounds == 0 {
        let verdict = if before.rounds > 0 {
            Verdict::Broken
        } else {
            Verdict::Same
        };
        return (ratio, verdict);
    }
    let margin = threshold / 100.0;
    // Beyond the spread: even the best round after is slower than the worst before, or the other way round.
    if ratio < 1.0 - margin && after.ops_per_sec_max < before.ops_per_sec_min {
        (ratio, Verdict::Slower)
    } else if ratio > 1.0 + margin && after.ops_per_sec_min > before.ops_per_sec_max {
        (ratio, Verdict::Faster)
    } else {
        (ratio, Verdict::Same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(rates: &[f64]) -> Summary {
        let row = |rate: &f64| Row {
            ops_per_sec: *rate,
            ..Row::default()
        };
        Summary::of(&rates.iter().map(row).collect::<Vec<_>>()).remove(0)
    }

    #[test]
    fn only_what_is_beyond_threshold_and_spread_counts() {
        let before = rounds(&[95.0, 100.0, 105.0]);
        for (after, verdict) in [
            (&[100.0, 101.0, 99.0][..], Verdict::Same),
            (&[80.0, 85.0, 90.0], Verdict::Slower),
            // One round was as good as before.
            (&[80.0, 85.0, 96.0], Verdict::Same),
            (&[110.0, 120.0, 130.0], Verdict::Faster),
        ] {
            assert_eq!(judge(&before, &rounds(after), 5.0).1, verdict, "{after:?}");
        }
        assert_eq!(
            judge(&before, &rounds(&[94.0, 94.0]), 10.0).1,
            Verdict::Same
        );
        let mut broken = rounds(&[1.0]);
        broken.rounds = 0;
        assert_eq!(judge(&before, &broken, 5.0).1, Verdict::Broken);
    }
}
