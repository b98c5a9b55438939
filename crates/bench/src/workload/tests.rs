//! The phases against an engine that is a map, right and wrong.

use std::{collections::BTreeMap, path::PathBuf, sync::Mutex};

use super::*;
use crate::{EngineKind, Pattern, SyncChoice};

/// A map; `spoil` changes what is stored.
struct MapEngine {
    map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    spoil: fn(&mut BTreeMap<Vec<u8>, Vec<u8>>),
}

impl Engine for MapEngine {
    fn version(&self) -> String {
        "map".into()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MapSession(self)))
    }

    fn settle(&self) -> Result<()> {
        (self.spoil)(&mut self.map.lock().expect("no thread panics"));
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct MapSession<'a>(&'a MapEngine);

impl Session for MapSession<'_> {
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut map = self.0.map.lock().expect("no thread panics");
        map.extend(
            pairs
                .iter()
                .map(|(key, value)| (key.to_vec(), value.to_vec())),
        );
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let map = self.0.map.lock().expect("no thread panics");
        value.extend(map.get(key).into_iter().flatten());
        Ok(map.contains_key(key))
    }

    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()> {
        let mut map = self.0.map.lock().expect("no thread panics");
        for key in keys {
            map.remove(*key);
        }
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let map = self.0.map.lock().expect("no thread panics");
        let mut visited = 0;
        for (key, value) in map.range(from.to_vec()..).take(limit as usize) {
            visit(key, value);
            visited += 1;
        }
        Ok(visited)
    }
}

fn settings() -> Settings {
    Settings {
        operations: 2003,
        threads: 3,
        batch_operations: 7,
        range_entries: 10,
        ..Settings::new(EngineKind::Kingtide, PathBuf::from("/nowhere"))
    }
}

fn map_engine(spoil: fn(&mut BTreeMap<Vec<u8>, Vec<u8>>)) -> MapEngine {
    MapEngine {
        map: Mutex::default(),
        spoil,
    }
}

#[test]
fn every_phase_touches_every_key_and_a_right_engine_passes() {
    for pattern in Pattern::ALL {
        let settings = Settings {
            pattern: *pattern,
            ..settings()
        };
        let plan = Plan::new(&settings);
        let engine = map_engine(|_| {});
        for phase in Phase::ALL {
            let report = run_phase(&engine, &plan, *phase).expect("a map does not fail");
            assert!(report.is_right(), "{report:?}");
            let whole = if *phase == Phase::Ranges { 2010 } else { 2003 };
            assert_eq!(report.operations, whole, "{report:?}");
            assert!(report.calls >= 1 && report.latency.max >= report.latency.p50);
            if *phase == Phase::Fill {
                let map = engine.map.lock().expect("no thread panics");
                assert_eq!(map.len(), 2003);
                assert_eq!(report.user_bytes, 2003 * 116);
            }
        }
        assert!(engine.map.lock().expect("no thread panics").is_empty());
    }
}

/// Goal: no wrong answer goes unseen. Method: an engine that loses one key and changes another.
#[test]
fn lost_and_changed_keys_are_counted() {
    let settings = settings();
    let plan = Plan::new(&settings);
    let engine = map_engine(|map| {
        if let Some(key) = map.keys().nth(1000).cloned() {
            map.remove(&key);
        }
        if let Some(value) = map.values_mut().nth(3) {
            value[99] ^= 1;
        }
    });
    run_phase(&engine, &plan, Phase::Fill).expect("a map does not fail");
    let report = run_phase(&engine, &plan, Phase::Scan).expect("a map does not fail");
    assert_eq!((report.missing, report.wrong), (1, 1), "{report:?}");
}

/// Goal: peers answer rightly through our declarations of their interfaces. Method: every phase on a small run, where
/// the library is installed; where it is not, the error must say so.
#[test]
fn peers_pass_every_phase_or_are_reported_missing() {
    let peers = [
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
        let settings = Settings {
            engine: peer,
            directory: directory.path().join(sync.name()),
            phases: Phase::ALL.to_vec(),
            memtable_bytes: 64 << 10,
            sync: *sync,
            ..settings()
        };
        match run(&settings, &mut |_| {}) {
            Ok(report) => assert!(report.is_right(), "{report:?}"),
            Err(BenchError::Missing(message)) => {
                assert!(message.contains(variable), "{message}");
            }
            Err(source) => panic!("{source}"),
        }
    }
}

#[test]
fn percentiles_of_merged_threads_are_those_of_all_calls() {
    let mut total = Tally::new().expect("bounds are good");
    for thread in 0..2 {
        let mut tally = Tally::new().expect("bounds are good");
        for call in 0..500 {
            tally.record(10, Duration::from_micros(1 + thread + call * 2));
        }
        total.add(&tally);
    }
    total.record(10, Duration::from_secs(1_000_000));
    let latency = LatencyNanos::of(&total.histogram);
    let near = |nanos: u64, micros: u64| nanos.abs_diff(micros * 1000) < micros * 3;
    assert!(near(latency.p50, 501), "{latency:?}");
    assert!(near(latency.p99, 991), "{latency:?}");
    assert!(latency.max >= 3_599_000_000_000, "{latency:?}");
    assert_eq!(total.operations, 10_010);
}

#[test]
fn keys_that_survive_deletion_are_counted() {
    let settings = settings();
    let plan = Plan::new(&settings);
    let engine = map_engine(|map| {
        map.insert(b"left over".to_vec(), Vec::new());
    });
    let report = run_phase(&engine, &plan, Phase::Delete).expect("a map does not fail");
    assert_eq!(report.wrong, 1);
}
