//! Calls of the public interface, drawn from the bytes and compared with an ordered map.

use std::collections::BTreeMap;

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, IsolationLevel, IterOptions, SyncMode, Transaction,
    TransactionOptions,
};
use kingtide_env::MemoryEnv;

use super::Target;
use crate::world::{self, DATABASE};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 8 << 10,
        value_threshold_bytes: 64,
        l1_file_count_trigger: 2,
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}

/// A key of up to 15 bytes; the empty one comes too, and must be refused.
fn key(first: u8, second: u8) -> Vec<u8> {
    vec![second; usize::from(first & 15)]
}

/// Single calls on one family, with reopening.
pub(super) const CALLS: Target = Target {
    name: "calls",
    run: |bytes| run_calls(bytes).expect("no call of this target may fail"),
    seeds: || {
        vec![
            (0..=255).collect(),
            [0, 3, 9, 1, 3, 9, 6, 0, 0, 7, 0, 0, 8, 0, 0].to_vec(),
        ]
    },
};

fn run_calls(bytes: &[u8]) -> kingtide::Result<()> {
    let env = MemoryEnv::new(1);
    let mut db = Db::open(DATABASE, world::options(&env))?;
    let mut family = db.create_family("f", options())?;
    let mut map = Map::new();
    for call in bytes.chunks_exact(3).take(300) {
        let key = key(call[1], call[2]);
        let value = vec![call[2]; usize::from(call[1]) * 3];
        match call[0] % 10 {
            0..=2 => {
                let outcome = db.put(&family, &key, &value);
                if key.is_empty() {
                    refused(outcome);
                } else {
                    outcome?;
                    map.insert(key, value);
                }
            }
            3 => {
                let outcome = db.delete(&family, &key);
                if key.is_empty() {
                    refused(outcome);
                } else {
                    outcome?;
                    map.remove(&key);
                }
            }
            4 if !key.is_empty() => {
                let found = db.get(&family, &key)?.map(|value| value.to_vec());
                assert_eq!(found.as_ref(), map.get(&key));
            }
            5 => compare(&db, &family, &map)?,
            6 => db.flush(&family)?,
            7 => db.compact(&family)?,
            8 => {
                db.close()?;
                db = Db::open(DATABASE, world::options(&env))?;
                family = db.family("f")?;
            }
            9 => {
                let end = vec![call[2].saturating_add(call[1]); 3];
                if !key.is_empty() && key < end {
                    db.delete_range(&family, &key, &end)?;
                    map.retain(|found, _| *found < key || *found >= end);
                }
            }
            _ => {}
        }
    }
    compare(&db, &family, &map)?;
    db.close()
}

fn refused(outcome: kingtide::Result<impl Sized>) {
    assert!(outcome.is_err_and(|error| error.kind() == ErrorKind::InvalidArgument));
}

/// The whole family, forwards and backwards.
fn compare(db: &Db, family: &ColumnFamily, map: &Map) -> kingtide::Result<()> {
    let mut iter = db.iter(family, IterOptions::default())?;
    let mut found = Vec::new();
    let mut is_valid = iter.seek_to_first()?;
    while is_valid {
        found.push((iter.key().to_vec(), iter.value()?.to_vec()));
        is_valid = iter.next()?;
    }
    let expected: Vec<_> = map.clone().into_iter().collect();
    assert_eq!(found, expected);
    let mut count = 0;
    let mut is_valid = iter.seek_to_last()?;
    while is_valid {
        count += 1;
        is_valid = iter.prev()?;
    }
    assert_eq!(count, expected.len());
    Ok(())
}

/// Two transactions at levels drawn from the bytes: first committer wins, own writes are seen, a conflict changes
/// nothing.
pub(super) const TRANSACTIONS: Target = Target {
    name: "transactions",
    run: |bytes| run_transactions(bytes).expect("no call of this target may fail"),
    seeds: || vec![(0..=255).collect(), vec![2; 60]],
};

struct Open {
    transaction: Transaction,
    level: IsolationLevel,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    view: Map,
}

fn run_transactions(bytes: &[u8]) -> kingtide::Result<()> {
    let env = MemoryEnv::new(1);
    let db = Db::open(DATABASE, world::options(&env))?;
    let family = db.create_family("f", options())?;
    let mut map = Map::new();
    let mut open: [Option<Open>; 2] = [None, None];
    for call in bytes.chunks_exact(4).take(200) {
        let slot = &mut open[usize::from(call[0] & 1)];
        let key = vec![call[1] & 7 | 64];
        let Some(current) = slot else {
            let level = IsolationLevel::ALL[usize::from(call[2]) % IsolationLevel::ALL.len()];
            let transaction = db.begin_with(TransactionOptions {
                isolation: level,
                ..TransactionOptions::default()
            })?;
            *slot = Some(Open {
                transaction,
                level,
                writes: BTreeMap::new(),
                view: map.clone(),
            });
            continue;
        };
        match call[3] % 6 {
            0 | 1 => {
                let value = vec![call[2]; 20];
                current.transaction.put(&family, &key, &value)?;
                current.writes.insert(key, Some(value));
            }
            2 => {
                current.transaction.delete(&family, &key)?;
                current.writes.insert(key, None);
            }
            3 => {
                let below = if current.level.has_one_view() {
                    &current.view
                } else {
                    &map
                };
                let expected = match current.writes.get(&key) {
                    Some(own) => own.clone(),
                    None => below.get(&key).cloned(),
                };
                let found = current.transaction.get(&family, &key)?;
                assert_eq!(found.map(|value| value.to_vec()), expected);
            }
            4 => {
                if let Some(mut ended) = slot.take() {
                    ended.transaction.rollback()?;
                }
            }
            _ => {
                if let Some(ended) = slot.take() {
                    commit(ended, &mut map)?;
                }
            }
        }
    }
    drop(open);
    compare(&db, &family, &map)?;
    db.close()
}

fn commit(mut ended: Open, map: &mut Map) -> kingtide::Result<()> {
    let changed = |key: &Vec<u8>| map.get(key) != ended.view.get(key);
    let must_conflict = ended.level.has_one_view() && ended.writes.keys().any(changed);
    match ended.transaction.commit() {
        Ok(_) => {
            assert!(!must_conflict, "a lost update was committed");
            for (key, value) in ended.writes {
                match value {
                    Some(value) => map.insert(key, value),
                    None => map.remove(&key),
                };
            }
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::Conflict => {
            assert!(
                ended.level.has_one_view(),
                "a conflict at a level without any"
            );
            Ok(())
        }
        Err(error) => Err(error),
    }
}
