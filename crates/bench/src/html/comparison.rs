//! A comparison of two sets of results as a page.

use serde_json::{Value, json};

use super::Page;
use crate::{
    Comparison, Difference, Metric, Pair, Row, Side,
    test_key::{TestKey, test_labels},
};

/// The comparison as one page. `old_name` and `new_name` say what is compared, such as names of files.
///
/// ```
/// use kingtide_bench::{Row, compare, html};
///
/// let rows = |ops_per_sec| [Row { ops_per_sec, ..Row::default() }];
/// let comparison = compare(&rows(2e6), &rows(1e6), 5.0);
/// let page = html::comparison(&comparison, "before.jsonl", "after.jsonl");
/// assert!(page.contains("regressed"));
/// ```
#[must_use]
pub fn comparison(comparison: &Comparison, old_name: &str, new_name: &str) -> String {
    let keys: Vec<TestKey> = comparison
        .pairs
        .iter()
        .map(|pair| TestKey::of(&pair.new))
        .collect();
    // Several engines have the same test: labels are made of distinct ones.
    let mut distinct: Vec<TestKey> = Vec::new();
    for key in &keys {
        if !distinct.contains(key) {
            distinct.push(key.clone());
        }
    }
    let labels = test_labels(&distinct);
    let label_of = |key: &TestKey| {
        let place = distinct.iter().position(|other| other == key);
        place.map_or("", |place| labels[place].as_str())
    };
    let pairs = comparison.pairs.iter().zip(&keys);
    let metrics = Metric::ALL
        .map(|metric| json!({"name": metric.name(), "more_is_better": metric.is_more_better()}));
    let data = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "old_name": old_name,
        "new_name": new_name,
        "threshold_percent": comparison.threshold_percent,
        "metrics": metrics,
        "pairs": pairs.map(|(pair, key)| pair_json(pair, label_of(key))).collect::<Vec<_>>(),
        "only_old": comparison.only_old.iter().map(missing_json).collect::<Vec<_>>(),
        "only_new": comparison.only_new.iter().map(missing_json).collect::<Vec<_>>(),
    });
    Page {
        title: "Kingtide: two results compared",
        style: include_str!("charts.css"),
        script: concat!(include_str!("charts.js"), include_str!("comparison.js")),
        data: &data,
    }
    .render()
}

fn pair_json(pair: &Pair, label: &str) -> Value {
    json!({
        "engine": pair.new.engine,
        "test": label,
        "old_version": pair.old.engine_version,
        "new_version": pair.new.engine_version,
        "old_status": pair.old.status.name(),
        "new_status": pair.new.status.name(),
        "error": pair.new.error,
        "differences": pair.differences.iter().map(difference_json).collect::<Vec<_>>(),
    })
}

fn difference_json(difference: &Difference) -> Value {
    json!({
        "metric": difference.metric.name(),
        "old": side_json(difference.old),
        "new": side_json(difference.new),
        "ratio": difference.ratio(),
        "verdict": difference.verdict.name(),
    })
}

fn side_json(side: Side) -> Value {
    json!({"median": side.median, "min": side.min, "max": side.max, "rounds": side.rounds})
}

fn missing_json(row: &Row) -> Value {
    let key = TestKey::of(row);
    json!(format!("{}: {}", row.engine, key.long_label()))
}
