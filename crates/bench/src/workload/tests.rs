//! The workloads against an engine that is a map, right and wrong.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::*;
use crate::{EngineKind, OperationKind, Pattern, Session, Step, SyncChoice, ValueSizes};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// One map for each family; `spoil` changes what is stored when it is to settle.
struct MapEngine {
    families: Mutex<Vec<Map>>,
    spoil: fn(&mut Map),
    /// Calls that go well; the next one fails.
    calls_left: AtomicU64,
}

impl Engine for MapEngine {
    fn version(&self) -> String {
        "map".into()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MapSession(self)))
    }

    fn settle(&self) -> Result<()> {
        (self.spoil)(&mut self.families.lock().expect("no thread panics")[0]);
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct MapSession<'a>(&'a MapEngine);

impl Session for MapSession<'_> {
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let writes: Vec<_> = pairs.iter().map(|(key, value)| (0, *key, *value)).collect();
        self.put_families(&writes)
    }

    fn put_families(&mut self, writes: &[(usize, &[u8], &[u8])]) -> Result<()> {
        let left = &self.0.calls_left;
        if left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_err()
        {
            return Err(BenchError::Engine("the device is full".into()));
        }
        let mut families = self.0.families.lock().expect("no thread panics");
        for (family, key, value) in writes {
            families[*family].insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_in(0, key, value)
    }

    fn get_in(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let families = self.0.families.lock().expect("no thread panics");
        value.extend(families[family].get(key).into_iter().flatten());
        Ok(families[family].contains_key(key))
    }

    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()> {
        let mut families = self.0.families.lock().expect("no thread panics");
        for key in keys {
            families[0].remove(*key);
        }
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let families = self.0.families.lock().expect("no thread panics");
        let mut visited = 0;
        for (key, value) in families[0].range(from.to_vec()..).take(limit as usize) {
            visit(key, value);
            visited += 1;
        }
        Ok(visited)
    }
}

const KEYS: u64 = 2003;

fn step(workload: Workload) -> Step {
    Step {
        threads: 3,
        batch_operations: 7,
        range_entries: 10,
        ..Step::new(workload, KEYS)
    }
}

fn settings(workloads: &[Workload]) -> Settings {
    Settings {
        keys: KEYS,
        steps: workloads.iter().map(|workload| step(*workload)).collect(),
        families: 3,
        ..Settings::new(EngineKind::Kingtide, PathBuf::from("/nowhere"))
    }
}

/// Every workload, the one that leaves nothing last.
fn all_workloads() -> Vec<Workload> {
    let mut all: Vec<Workload> = Workload::ALL.to_vec();
    all.sort_by_key(|workload| *workload == Workload::Delete);
    all
}

fn map_engine(spoil: fn(&mut Map)) -> MapEngine {
    MapEngine {
        families: Mutex::new(vec![Map::new(); 3]),
        spoil,
        calls_left: AtomicU64::new(u64::MAX),
    }
}

/// Runs all steps on one map; answers the reports.
fn run_on(engine: &MapEngine, settings: &Settings) -> Vec<StepReport> {
    settings.check().expect("good settings");
    let plan = Plan::new(settings);
    (0..settings.steps.len())
        .map(|number| run_step(engine, &plan, number, &mut |_| {}).0)
        .collect()
}

fn total(report: &StepReport, kind: OperationKind) -> u64 {
    let operations = report.operations.iter();
    operations
        .filter(|report| report.kind == kind)
        .map(|report| report.operations)
        .sum()
}

#[test]
fn every_workload_does_what_it_says_and_a_right_engine_passes() {
    for pattern in Pattern::ALL {
        let mut settings = settings(&all_workloads());
        for step in &mut settings.steps {
            // One database has one form of keys.
            step.pattern = *pattern;
        }
        let engine = map_engine(|_| {});
        for report in run_on(&engine, &settings) {
            assert!(report.is_right(), "{pattern:?} {report:?}");
            let done = report.operations.last().expect("something was done");
            // An iteration visits what is there: after draws not every key.
            let is_whole = report.step.workload != Workload::Iterate || pattern.visits_every_key();
            if is_whole && report.step.workload != Workload::YcsbC {
                assert!(done.operations >= KEYS, "{pattern:?} {report:?}");
            }
            assert!(done.calls >= 1 && done.latency.max >= done.latency.p50);
        }
    }
}

#[test]
fn kinds_of_operations_have_the_shares_asked_for() {
    let mut settings = settings(&[
        Workload::Write,
        Workload::Mixed,
        Workload::YcsbD,
        Workload::YcsbF,
    ]);
    settings.steps[1].read_share = 0.75;
    for step in &mut settings.steps[1..] {
        step.operations = 20_000;
    }
    let reports = run_on(&map_engine(|_| {}), &settings);
    let share = |report: &StepReport, kind| {
        total(report, kind) as f64 / total(report, OperationKind::All) as f64
    };
    let near = |found: f64, expected: f64| (found - expected).abs() < 0.02;
    assert!(
        near(share(&reports[1], OperationKind::Get), 0.75),
        "{:?}",
        reports[1]
    );
    assert!(
        near(share(&reports[2], OperationKind::Insert), 0.05),
        "{:?}",
        reports[2]
    );
    assert!(
        near(share(&reports[3], OperationKind::Rmw), 0.5),
        "{:?}",
        reports[3]
    );
    assert!(reports.iter().all(StepReport::is_right));
}

/// Goal: no wrong answer goes unseen. Method: an engine that loses one key and changes another, in the middle of the
/// value where no digest looks.
#[test]
fn lost_and_changed_keys_are_counted() {
    let settings = settings(&[
        Workload::Write,
        Workload::Iterate,
        Workload::Read,
        Workload::Range,
        Workload::Seek,
        Workload::YcsbC,
    ]);
    let engine = map_engine(|map| {
        if let Some(key) = map.keys().nth(1000).cloned() {
            map.remove(&key);
        }
        if let Some(value) = map.values_mut().nth(3) {
            value[60] ^= 1;
        }
    });
    let reports = run_on(&engine, &settings);
    assert!(reports[0].is_right());
    for report in &reports[1..3] {
        assert_eq!((report.missing, report.wrong), (1, 1), "{report:?}");
    }
    // Ten ranges go over the lost key; the seek for it does not find it.
    assert!(reports[3].missing >= 9, "{:?}", reports[3]);
    assert_eq!(reports[4].missing, 1, "{:?}", reports[4]);
}

#[test]
fn keys_that_come_from_nowhere_are_counted() {
    let settings = settings(&[
        Workload::Write,
        Workload::Missing,
        Workload::Iterate,
        Workload::Delete,
    ]);
    let engine = map_engine(|map| {
        map.insert(b"zzz left over".to_vec(), Vec::new());
        let mut key = Vec::new();
        crate::KeyMaker::new(crate::KeyForm::Ordered, 0, 16).write_missing(5, &mut key);
        map.insert(key, b"found".to_vec());
    });
    let reports = run_on(&engine, &settings);
    assert_eq!(reports[1].wrong, 1, "{:?}", reports[1]);
    // The limits of the shares cut the last key off the share with one too many.
    assert_eq!(
        (reports[2].wrong, reports[2].missing),
        (1, 1),
        "{:?}",
        reports[2]
    );
    assert_eq!(reports[3].wrong, 1, "{:?}", reports[3]);
}

#[test]
fn deleted_keys_must_stay_deleted() {
    let settings = settings(&[Workload::Write, Workload::Delete, Workload::Read]);
    let reports = run_on(&map_engine(|_| {}), &settings);
    assert!(reports.iter().all(StepReport::is_right), "{reports:?}");
    // A wrong engine: what was deleted is there again for the reads.
    let settings = Settings {
        steps: vec![
            step(Workload::Write),
            step(Workload::Delete),
            step(Workload::Read),
        ],
        ..settings
    };
    let engine = map_engine(|map| {
        let mut key = Vec::new();
        crate::KeyMaker::new(crate::KeyForm::Ordered, 0, 16).write(7, &mut key);
        map.insert(key, vec![1; 100]);
    });
    let reports = run_on(&engine, &settings);
    assert_eq!(reports[2].wrong, 1, "{:?}", reports[2]);
}

/// Goal: an empty database is iterated over, and has no entries. Method: once, and again and again for a while.
#[test]
fn nothing_is_iterated_over_in_no_time() {
    let mut settings = settings(&[Workload::Write, Workload::Delete, Workload::Iterate]);
    for seconds in [0.0, 0.01] {
        settings.steps[2].seconds = seconds;
        let reports = run_on(&map_engine(|_| {}), &settings);
        assert!(reports.iter().all(StepReport::is_right), "{reports:?}");
        let entries: Vec<u64> = reports[2]
            .operations
            .iter()
            .map(|of| of.operations)
            .collect();
        assert_eq!(entries, [0]);
    }
}

#[test]
fn families_that_differ_are_seen() {
    let mut settings = settings(&[Workload::Txn]);
    // Each probe then asks for one of few keys.
    settings.keys = 10;
    let engine = map_engine(|map| {
        for value in map.values_mut() {
            value.clear();
        }
    });
    let reports = run_on(&engine, &settings);
    assert!(reports[0].wrong > 0, "{:?}", reports[0]);
}

#[test]
fn an_engine_that_fails_in_the_middle_leaves_a_partial_report() {
    let settings = settings(&[Workload::Write]);
    let engine = map_engine(|_| {});
    engine.calls_left.store(100, Ordering::Relaxed);
    let plan = Plan::new(&settings);
    let (report, failure) = run_step(&engine, &plan, 0, &mut |_| {});
    assert!(failure.is_some());
    assert_eq!(report.failure.as_deref(), Some("the device is full"));
    assert_eq!(total(&report, OperationKind::Put), 700);
    assert_eq!(plan.presence.len(), 700);
    assert!(plan.live_bytes() >= 700 * 116);
}

#[test]
fn values_of_many_lengths_and_versions_pass() {
    for sizes in ["uniform:0-64", "log-uniform:8-4096", "0", "7"] {
        let mut settings = settings(&[
            Workload::Write,
            Workload::Write,
            Workload::Rmw,
            Workload::Range,
            Workload::Iterate,
            Workload::YcsbE,
        ]);
        settings.value_sizes = sizes.parse::<ValueSizes>().expect("good");
        settings.steps[1].operations = 3 * KEYS;
        for report in run_on(&map_engine(|_| {}), &settings) {
            assert!(report.is_right(), "{sizes} {report:?}");
        }
    }
}

#[test]
fn a_duration_ends_a_step_and_a_rate_slows_it() {
    let mut settings = settings(&[Workload::Write]);
    settings.steps[0].seconds = 0.05;
    settings.steps[0].has_timeline = true;
    let reports = run_on(&map_engine(|_| {}), &settings);
    assert!(reports[0].is_right());
    let points = &reports[0].operations[0].timeline;
    let counted: u64 = points.iter().map(|point| point.ops).sum();
    assert_eq!(counted, total(&reports[0], OperationKind::Put));
    settings.steps[0].seconds = 0.0;
    settings.steps[0].operations = 70;
    settings.steps[0].operations_per_second_max = 1000.0;
    let reports = run_on(&map_engine(|_| {}), &settings);
    // The last batch is due when the time of all is over.
    assert!(reports[0].wall_seconds >= 0.07, "{:?}", reports[0]);
    assert!(reports[0].operations[0].operations_per_second() <= 1000.0);
}

/// Goal: peers answer rightly through our declarations of their interfaces. Method: every workload on a small run, where
/// the library is installed; where it is not, the error must say so.
#[test]
fn peers_pass_every_workload_or_are_reported_missing() {
    let peers = [
        (EngineKind::Kingtide, ""),
        (EngineKind::RocksDb, "KINGTIDE_ROCKSDB"),
        (EngineKind::Lmdb, "KINGTIDE_LMDB"),
        (EngineKind::CAbi, "KINGTIDE_TIDESDB"),
    ];
    for (peer, variable) in peers {
        check_peer(peer, variable);
    }
}

fn check_peer(peer: EngineKind, variable: &str) {
    let directory = tempfile::tempdir().expect("temporary directory");
    for sync in SyncChoice::ALL {
        let mut settings = Settings {
            engine: peer,
            directory: directory.path().join(sync.name()),
            memtable_bytes: 64 << 10,
            sync: *sync,
            ..settings(&all_workloads())
        };
        for step in &mut settings.steps[1..] {
            step.operations = if *sync == SyncChoice::None { 400 } else { 40 };
        }
        let mut reports = Vec::new();
        let outcome = run(&settings, &mut |event| {
            if let Event::Step(report) = event {
                reports.push(*report);
            }
        });
        match outcome {
            Ok(end) => {
                assert_eq!(reports.len(), Workload::ALL.len());
                assert!(end.closed_bytes > 0 && end.live_bytes > 0, "{end:?}");
            }
            Err(BenchError::Missing(message)) => {
                assert!(message.contains(variable), "{message}");
            }
            Err(source) => panic!("{source}"),
        }
        for report in reports {
            assert!(report.is_right(), "{peer:?} {report:?}");
        }
    }
}
