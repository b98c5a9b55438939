//! The pages of the benchmark, in a browser.

use std::path::{Path, PathBuf};

use kingtide_bench::{
    MachineInfo, Metric, OperationKind, Row, Status, TimelinePoint, compare, html,
    suite::{Target, TargetLine, TargetMetric, judge},
};

use crate::browser;

/// Where a page is left for people to look at.
fn page(name: &str, markup: &str) -> PathBuf {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&page, markup).expect("the target directory is writable");
    page
}

/// Numbers that look like measured ones, the same at every run.
fn noise(seed: u64) -> f64 {
    let mixed =
        (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / (1_u64 << 24) as f64
}

/// Test, operation, workload, pattern, threads, batch, value size, kingtide's operations per second.
type Shape = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    u64,
    u64,
    u64,
    f64,
);

const SHAPES: &[Shape] = &[
    (
        "sequential write",
        "PUT",
        "write",
        "sequential",
        8,
        1000,
        100,
        6.1e6,
    ),
    (
        "random write",
        "PUT",
        "write",
        "random",
        8,
        1000,
        100,
        2.4e6,
    ),
    (
        "zipfian write",
        "PUT",
        "write",
        "zipfian",
        8,
        1000,
        100,
        3.0e6,
    ),
    ("random read", "GET", "read", "random", 8, 1, 100, 1.9e6),
    ("mixed", "PUT", "mixed", "random", 8, 1, 100, 4.0e5),
    ("mixed", "GET", "mixed", "random", 8, 1, 100, 9.0e5),
    (
        "4 KiB values",
        "PUT",
        "write",
        "random",
        4,
        100,
        4096,
        2.5e5,
    ),
    ("batches of 1", "PUT", "write", "random", 1, 1, 100, 5.0e5),
    ("batches of 10", "PUT", "write", "random", 1, 10, 100, 1.1e6),
    (
        "batches of 100",
        "PUT",
        "write",
        "random",
        1,
        100,
        100,
        1.6e6,
    ),
    (
        "batches of 1000",
        "PUT",
        "write",
        "random",
        1,
        1000,
        100,
        1.8e6,
    ),
    (
        "batches of 10000",
        "PUT",
        "write",
        "random",
        1,
        10_000,
        100,
        1.7e6,
    ),
    ("random seek", "SEEK", "seek", "random", 4, 1, 100, 6.0e5),
    (
        "ranges of 100",
        "RANGE",
        "range",
        "random",
        4,
        1,
        100,
        9.0e4,
    ),
    (
        "synced, 1 thread",
        "PUT",
        "write-synced",
        "random",
        1,
        1,
        100,
        9.0e3,
    ),
    (
        "synced, 4 threads",
        "PUT",
        "write-synced",
        "random",
        4,
        1,
        100,
        2.3e4,
    ),
    (
        "synced, 16 threads",
        "PUT",
        "write-synced",
        "random",
        16,
        1,
        100,
        6.1e4,
    ),
];

fn row(shape: &Shape, index: u64, engine: (&str, f64), round: u64) -> Row {
    let (test, operation, workload, pattern, threads, batch, value_size, rate) = *shape;
    let seed = index * 100 + round * 7 + engine.0.len() as u64;
    let factor = engine.1 * (0.6 + 0.8 * noise(index * 31 + engine.0.len() as u64));
    let ops_per_sec = rate * factor * (0.97 + 0.06 * noise(seed));
    let p50 = 1e6 / ops_per_sec * threads as f64 * batch as f64;
    Row {
        engine: engine.0.into(),
        engine_version: format!("{} 1.0", engine.0),
        test_name: test.into(),
        operation: operation.into(),
        workload: workload.into(),
        pattern: pattern.into(),
        threads,
        batch_size: batch,
        value_size,
        key_size: 16,
        num_operations: 1_000_000,
        round,
        suite: "standard".into(),
        started_at: "2026-01-02T03:04:05Z".into(),
        sync_enabled: workload == "write-synced",
        ops_per_sec,
        duration_sec: 1e6 / ops_per_sec,
        avg_latency_us: p50 * 1.2,
        p50_us: p50,
        p95_us: p50 * 1.8,
        p99_us: p50 * (3.0 + 4.0 * noise(seed + 1)),
        p99_9_us: p50 * (9.0 + 30.0 * noise(seed + 2)),
        max_us: p50 * (80.0 + 900.0 * noise(seed + 3)),
        min_us: p50 * 0.4,
        peak_rss_mb: 120.0 + 90.0 * noise(seed + 4),
        peak_vms_mb: 900.0,
        disk_write_mb: 260.0 / factor,
        disk_read_mb: 10.0 * noise(seed),
        cpu_user_sec: 2.0 / factor,
        cpu_sys_sec: 0.4 / factor,
        cpu_percent: 140.0,
        db_size_mb: 70.0 + 20.0 * noise(seed + 5),
        db_size_settled_mb: 68.0,
        write_amp: 2.1 / factor,
        read_amp: if operation == "GET" { 1.3 } else { 0.0 },
        space_amp: 0.7 + 0.4 * noise(seed + 6),
        ..Row::default()
    }
}

fn timeline(engine: &str, rate: f64) -> Vec<TimelinePoint> {
    let point = |second: u64| {
        let stalls = engine == "rocksdb" && (140..146).contains(&second);
        let slow = if stalls {
            0.02
        } else {
            0.8 + 0.3 * noise(second + engine.len() as u64)
        };
        let p99_9_us = 700.0 * (1.0 + 3.0 * noise(second * 3 + 1)) / slow;
        TimelinePoint {
            second: second as f64,
            ops: (rate * slow) as u64,
            p50_us: 90.0,
            p99_us: 300.0,
            p99_9_us,
            max_us: p99_9_us * 4.0,
        }
    };
    (1..=300).map(point).collect()
}

/// Three engines, three rounds, time lines; one test that failed and one that failed once; an evil name.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, shape) in (0..).zip(SHAPES) {
        for round in 1..=3 {
            for engine in [("kingtide", 1.0), ("rocksdb", 0.45), ("lmdb", 0.3)] {
                rows.push(row(shape, index, engine, round));
            }
        }
    }
    for row in &mut rows {
        if row.test_name == "zipfian write" && row.engine == "lmdb" {
            row.status = Status::Failed;
            row.error = "<img src=x onerror=alert(1)> map full".into();
        }
        if row.test_name == "random seek" && row.engine == "rocksdb" && row.round == 2 {
            row.status = Status::Partial;
            row.error = "disk full".into();
        }
        if row.test_name == "random write" && row.engine != "lmdb" {
            row.timeline = timeline(&row.engine, row.ops_per_sec);
        }
    }
    rows
}

fn machine() -> MachineInfo {
    MachineInfo {
        cpu_model: "Example <CPU> 3000".into(),
        cores: 2,
        memory_bytes: 8 << 30,
        kernel: "Linux 6.1".into(),
        file_system: "ext4".into(),
        load_at_start: 1.7,
        steal_percent: 3.2,
    }
}

/// One target for each verdict that numbers can bring, beside both peers.
fn targets(rows: &[Row]) -> Vec<TargetLine> {
    let target = |row: &str, test: &str, metric, ratio| Target {
        row: row.into(),
        test: test.into(),
        operation: OperationKind::Put,
        workload: None,
        pattern: None,
        metric,
        ratio,
    };
    let targets = [
        target(
            "sequential put <b>",
            "sequential write",
            TargetMetric::Throughput,
            Some(1.5),
        ),
        target(
            "random put",
            "random write",
            TargetMetric::Throughput,
            Some(50.0),
        ),
        target(
            "zipfian put",
            "zipfian write",
            TargetMetric::Throughput,
            Some(1.0),
        ),
        target(
            "memory of random put",
            "random write",
            TargetMetric::Memory,
            Some(0.1),
        ),
        target("p99.9 / median", "random write", TargetMetric::Tail, None),
    ];
    judge(&targets, rows, "kingtide")
}

#[test]
fn the_report_is_drawn_and_obeys_no_name() {
    let rows = rows();
    let markup = html::report(&rows, Some(&machine()), &targets(&rows));
    assert!(!markup.contains("<img"));
    assert!(
        !markup
            .replace("http://www.w3.org/2000/svg", "")
            .contains("://")
    );
    let page = page("report.html", &markup);
    for width in [1200, 390] {
        let Some(seen) = browser::open(&page, width) else {
            return;
        };
        seen.expect_drawn();
        for wanted in [
            "How much faster",
            "Batch sizes",
            "Threads",
            "Latency",
            "Over time",
            "Amplification",
            "Memory, processor, device",
            "Not all went well",
            "&lt;img src=x onerror=alert(1)&gt; map full",
            "Example &lt;CPU&gt; 3000",
            "1 stall, the longest 6.0 s",
            "sequential put &lt;b&gt;",
            "not measured",
            "in 300 s; slowest call",
            "times the median",
            ">stddev</button>",
            ">cv</button>",
            ">min</button>",
            ">wall</button>",
            ">settle</button>",
            ">user cpu</button>",
            ">system cpu</button>",
        ] {
            assert!(seen.dom.contains(wanted), "{wanted}");
        }
        assert!(!seen.dom.contains("<img"));
        // One line for each engine and test.
        let table = seen
            .dom
            .split("id=\"rows\"")
            .nth(1)
            .expect("the table of all rows");
        assert_eq!(table.matches("<tr>").count(), 1 + SHAPES.len() * 3);
        assert!(
            !seen.drawn().contains("NaN") && !seen.drawn().contains("undefined"),
            "a number that is none"
        );
    }
}

/// Goal: what is shown as 1.00 is neither better nor worse. Method: an engine that is slower by three in a thousand, then by
/// one in ten.
#[test]
fn a_ratio_of_one_has_no_colour() {
    for (name, factor, class) in [
        ("equal.html", 0.997, "number "),
        ("slower.html", 0.9, "number bad"),
    ] {
        let peer = row(&SHAPES[0], 0, ("rocksdb", 1.0), 1);
        let own = Row {
            engine: "kingtide".into(),
            ops_per_sec: peer.ops_per_sec * factor,
            ..peer.clone()
        };
        let page = page(name, &html::report(&[own, peer], None, &[]));
        let Some(seen) = browser::open(&page, 800) else {
            return;
        };
        seen.expect_drawn();
        let shown = format!("<div class=\"{class}\">{factor:.2}×</div>");
        assert!(seen.drawn().contains(&shown), "{name}: {shown}");
    }
}

/// Goal: no two labels of an axis of time are the same. Method: a time line of little more than two seconds.
#[test]
fn labels_of_short_time_lines_differ() {
    let mut row = row(&SHAPES[0], 0, ("kingtide", 1.0), 1);
    row.timeline = timeline("kingtide", 1e6);
    row.timeline.truncate(3);
    row.timeline[2].second = 2.0004;
    let page = page("short.html", &html::report(&[row], None, &[]));
    let Some(seen) = browser::open(&page, 800) else {
        return;
    };
    seen.expect_drawn();
    let axes: Vec<&str> = seen.drawn().split("<div class=\"x\">").skip(1).collect();
    assert!(!axes.is_empty());
    for axis in axes {
        let (axis, _) = axis.split_once("</div>").expect("it ends");
        for label in ["0 s", "0.5 s", "1 s", "1.5 s", "2 s"] {
            let count = axis.matches(&format!(">{label}<")).count();
            assert_eq!(count, 1, "{label}: {axis}");
        }
    }
}

/// Goal: whatever is missing, the page is drawn. Method: nothing, one engine alone, rows without numbers.
#[test]
fn reports_of_little_are_drawn() {
    let one = row(&SHAPES[0], 0, ("kingtide", 1.0), 1);
    let empty = Row {
        engine: "x".into(),
        status: Status::Failed,
        ..Row::default()
    };
    for (name, rows) in [
        ("none.html", vec![]),
        ("one.html", vec![one.clone()]),
        ("bare.html", vec![Row::default(), empty.clone()]),
        ("failed.html", vec![empty, one]),
    ] {
        let page = page(name, &html::report(&rows, None, &[]));
        let Some(seen) = browser::open(&page, 800) else {
            return;
        };
        seen.expect_drawn();
        assert!(
            !seen.drawn().contains("NaN") && !seen.drawn().contains("undefined"),
            "{name}"
        );
    }
}

/// Goal: a comparison marks what became worse and what better. Method: the same rows, one test slowed down, one made
/// faster, one failing, one left out.
#[test]
fn a_comparison_marks_what_became_worse() {
    let old: Vec<Row> = rows()
        .into_iter()
        .filter(|row| row.engine == "kingtide")
        .collect();
    let mut new = old.clone();
    new.retain(|row| row.test_name != "ranges of 100");
    for row in &mut new {
        row.engine_version = "kingtide 2.0".into();
        match row.test_name.as_str() {
            "random read" => row.ops_per_sec *= 0.8,
            "zipfian write" => row.p99_us *= 9.0,
            "batches of 1" => row.ops_per_sec *= 1.5,
            "random seek" => {
                row.status = Status::Failed;
                row.error = "<img src=x onerror=alert(2)>".into();
            }
            _ => row.ops_per_sec *= 1.001,
        }
    }
    let comparison = compare(&old, &new, 5.0);
    let found: Vec<(String, Metric)> = comparison
        .regressions()
        .into_iter()
        .map(|regression| (regression.test_name, regression.difference.metric))
        .collect();
    let expected = [
        ("zipfian write", Metric::P99),
        ("random read", Metric::Throughput),
        ("random seek", Metric::Success),
    ];
    assert_eq!(
        found,
        expected.map(|(test, metric)| (test.to_owned(), metric))
    );
    let markup = html::comparison(&comparison, "old <b>.jsonl", "new.jsonl");
    assert!(!markup.contains("<img"));
    let wide = page("comparison.html", &markup);
    for width in [1200, 390] {
        let Some(seen) = browser::open(&wide, width) else {
            return;
        };
        seen.expect_drawn();
        let drawn = seen.drawn();
        assert!(drawn.contains(r#"id="regression-count">3<"#));
        assert!(drawn.contains("old &lt;b&gt;.jsonl") && !drawn.contains("<img"));
        assert!(drawn.contains("Only in old &lt;b&gt;") && !drawn.contains("Only in new"));
        assert!(!drawn.contains("NaN") && !drawn.contains("undefined"));
    }
    let nothing = page(
        "nothing.html",
        &html::comparison(&compare(&[], &[], 5.0), "a", "b"),
    );
    if let Some(seen) = browser::open(&nothing, 390) {
        seen.expect_drawn();
        assert!(seen.drawn().contains("no test in common"));
    }
}
