//! The table of targets: which numbers reach what they are to reach beside another engine.

use kingtide_bench::suite::{Judgement, TargetLine, TargetMetric};

use super::table::{duration, rate};
use crate::{commands::inspect::new_table, text::size};

const MIB: f64 = (1 << 20) as f64;

/// One line for each target and peer, and how many were reached; empty when there are none.
pub(super) fn targets(lines: &[TargetLine]) -> String {
    let Some(first) = lines.first() else {
        return String::new();
    };
    let judged = lines.iter().filter(|line| line.target.is_some()).count();
    let has_targets = judged > 0;
    let mut header = vec!["row", "number", &first.engine, "peer", "its", "ratios"];
    if has_targets {
        header.extend(["target", "reached?"]);
    }
    let mut table = new_table(&header);
    for line in lines {
        let ratios: Vec<String> = line.ratios.iter().map(|ratio| quotient(*ratio)).collect();
        let mut cells = vec![
            line.row.clone(),
            line.metric.name().to_owned(),
            number(line.metric, line.value),
            line.peer.clone(),
            number(line.metric, line.peer_value),
            ratios.join(" "),
        ];
        if has_targets {
            cells.push(target(line));
            cells.push(line.judgement.name().to_owned());
        }
        table.add_row(cells);
    }
    let mut text = format!("{table}\n");
    if has_targets {
        let of = |judgement| {
            let lines = lines.iter().filter(|line| line.judgement == judgement);
            lines.count()
        };
        text.push_str(&format!(
            "{} of {judged} targets reached in every round, {} in the median, {} missed but better than the peer, {} missed, \
             {} not measured\n",
            of(Judgement::Reached),
            of(Judgement::Median),
            of(Judgement::Better),
            of(Judgement::Missed),
            of(Judgement::Unmeasured)
        ));
    }
    text
}

fn target(line: &TargetLine) -> String {
    let sign = if line.metric.is_better_when_more() {
        '\u{2265}'
    } else {
        '\u{2264}'
    };
    let text = |ratio| format!("{sign} {}", quotient(ratio));
    line.target.map(text).unwrap_or_default()
}

/// Three digits, so that small quotients can be told apart.
fn quotient(ratio: f64) -> String {
    let digits = match ratio {
        _ if ratio >= 100.0 => 0,
        _ if ratio >= 10.0 => 1,
        _ if ratio >= 0.1 => 2,
        _ => 4,
    };
    format!("{ratio:.digits$}")
}

fn number(metric: TargetMetric, value: f64) -> String {
    if value <= 0.0 {
        return "-".to_owned();
    }
    match metric {
        TargetMetric::Throughput => rate(value),
        TargetMetric::P99 => duration(value),
        TargetMetric::Memory | TargetMetric::Size | TargetMetric::SettledSize => {
            size((value * MIB) as u64)
        }
        TargetMetric::Tail
        | TargetMetric::WriteAmplification
        | TargetMetric::SpaceAmplification => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(metric: TargetMetric, target: Option<f64>, judgement: Judgement) -> TargetLine {
        TargetLine {
            row: "random put".into(),
            metric,
            engine: "kingtide".into(),
            peer: "rocksdb".into(),
            value: 2_000_000.0,
            peer_value: 0.0,
            ratios: vec![5.0, 0.0125],
            target,
            judgement,
        }
    }

    #[test]
    fn targets_are_told_with_each_round() {
        let lines = [
            line(TargetMetric::Throughput, Some(5.0), Judgement::Missed),
            line(TargetMetric::Tail, Some(0.5), Judgement::Reached),
        ];
        let text = targets(&lines);
        for wanted in [
            "2,000,000",
            "5.00 0.0125",
            "\u{2265} 5.00",
            "\u{2264} 0.50",
            "MISSED",
            "1 of 2 targets reached in every round",
        ] {
            assert!(text.contains(wanted), "{text}");
        }
        let shown = targets(&[line(TargetMetric::Memory, None, Judgement::Shown)]);
        assert!(!shown.contains("target"), "{shown}");
        assert_eq!(targets(&[]), "");
    }
}
