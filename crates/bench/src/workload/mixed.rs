//! Workloads of more than one kind of operation.

use super::{plan::Plan, reads, tally::Tally, worker::Worker, writes::Batch};
use crate::{Engine, OperationKind, Result, Workload, data::random::Random};

// Keys whose copies in all families are compared after transactions.
const FAMILY_PROBES: u64 = 1000;

/// Batches of writes and point reads, in random order: each turn of a thread is either a batch or a read, drawn so that
/// the operations have the ratio asked for.
pub(super) fn mixed(worker: &mut Worker<'_>) -> Result<()> {
    let batch_size = worker.step.batch_operations as u64;
    let reads = worker.step.read_share;
    let writes = (1.0 - reads) / batch_size as f64;
    let read_turns = if reads + writes > 0.0 {
        reads / (reads + writes)
    } else {
        0.0
    };
    let mut batch = Batch::default();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    loop {
        let is_read = worker.chooser.random().fraction() < read_turns;
        let size = if is_read { 1 } else { batch_size };
        let Some(portion) = worker.take(worker.step.operations, size) else {
            return Ok(());
        };
        if is_read {
            let index = worker.chooser.index(portion.start);
            reads::get(worker, index, &mut key, &mut value)?;
            continue;
        }
        batch.clear();
        for position in portion {
            let index = worker.chooser.index(position);
            batch.push(worker.plan, index, worker.version(position));
        }
        batch.put(worker, OperationKind::Put)?;
    }
}

/// Reads a key and writes its next version: two calls of the engine, one operation.
pub(super) fn rmw(worker: &mut Worker<'_>) -> Result<()> {
    let mut buffers = Buffers::default();
    while let Some(portion) = worker.take(worker.step.operations, worker.portion()) {
        for position in portion {
            let index = worker.chooser.index(position);
            modify(worker, index, worker.version(position) + 1, &mut buffers)?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Buffers {
    key: Vec<u8>,
    value: Vec<u8>,
    new_value: Vec<u8>,
}

fn modify(worker: &mut Worker<'_>, index: u64, version: u64, buffers: &mut Buffers) -> Result<()> {
    let plan = worker.plan;
    let Buffers {
        key,
        value,
        new_value,
    } = buffers;
    plan.keys.write(index, key);
    let version = if plan.values.tells_versions() {
        version
    } else {
        0
    };
    plan.values.write(index, version, new_value);
    let must_be_there = plan.presence.contains(index);
    let is_found = worker.call(OperationKind::Rmw, 1, |session| {
        let is_found = session.get(key, value)?;
        session.put_batch(&[(key, new_value)])?;
        Ok(is_found)
    })?;
    reads::check(worker, index, must_be_there, is_found.then_some(&value[..]));
    worker.tally.bytes_written += (key.len() + new_value.len()) as u64;
    plan.presence.insert(index);
    Ok(())
}

/// Transactions that write the same keys, as many as a batch has, in every family.
pub(super) fn txn(worker: &mut Worker<'_>) -> Result<()> {
    let plan = worker.plan;
    let families = plan.settings.families;
    let keys_each = worker.step.batch_operations;
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = vec![Default::default(); keys_each];
    let mut indices = Vec::new();
    while let Some(portion) = worker.take(worker.step.operations, 1) {
        indices.clear();
        let first = portion.start * keys_each as u64;
        for (position, (key, value)) in (first..).zip(&mut pairs) {
            let index = worker.chooser.index(position);
            plan.keys.write(index, key);
            plan.values.write(index, worker.version(position), value);
            indices.push(index);
        }
        let mut writes = Vec::with_capacity(families * keys_each);
        for family in 0..families {
            writes.extend(
                pairs
                    .iter()
                    .map(|(key, value)| (family, &key[..], &value[..])),
            );
        }
        worker.call(OperationKind::Txn, 1, |session| {
            session.put_families(&writes)
        })?;
        let bytes = writes.iter().map(|(_, key, value)| key.len() + value.len());
        worker.tally.bytes_written += bytes.sum::<usize>() as u64;
        for index in &indices {
            plan.presence.insert(*index);
            plan.in_families.insert(*index);
        }
    }
    Ok(())
}

/// Keys that transactions wrote are in every family, with the same value; others are in the first at most.
pub(super) fn check_families(
    engine: &dyn Engine,
    plan: &Plan<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let mut session = engine.session()?;
    let mut random = Random::new(plan.settings.seed ^ 0x6661_6d69);
    let (mut key, mut value, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..FAMILY_PROBES {
        let index = random.below(plan.settings.keys);
        plan.keys.write(index, &mut key);
        let is_there = plan.in_families.contains(index);
        if is_there {
            let is_found = session.get_in(0, &key, &mut value)?;
            tally.missing += u64::from(!is_found);
            tally.wrong += u64::from(is_found && !plan.values.is_value_of(index, &value));
        }
        for family in 1..plan.settings.families {
            let is_found = session.get_in(family, &key, &mut other)?;
            tally.missing += u64::from(is_there && !is_found);
            let is_right = is_there && other == value;
            tally.wrong += u64::from(is_found && !is_right);
        }
    }
    Ok(())
}

/// Shares of the operations of a YCSB workload (Cooper, Silberstein, Tam, Ramakrishnan, Sears: "Benchmarking cloud
/// serving systems with YCSB", 2010).
#[derive(Clone, Copy, Default)]
struct Shares {
    reads: f64,
    updates: f64,
    inserts: f64,
    ranges: f64,
}

impl Shares {
    /// What is left are read-modify-writes.
    fn of(workload: Workload) -> Self {
        let (reads, updates, inserts, ranges) = match workload {
            Workload::YcsbA => (0.5, 0.5, 0.0, 0.0),
            Workload::YcsbB => (0.95, 0.05, 0.0, 0.0),
            Workload::YcsbD => (0.95, 0.0, 0.05, 0.0),
            Workload::YcsbE => (0.0, 0.0, 0.05, 0.95),
            Workload::YcsbF => (0.5, 0.0, 0.0, 0.0),
            _ => (1.0, 0.0, 0.0, 0.0),
        };
        Self {
            reads,
            updates,
            inserts,
            ranges,
        }
    }
}

pub(super) fn ycsb(worker: &mut Worker<'_>) -> Result<()> {
    let workload = worker.step.workload;
    let shares = Shares::of(workload);
    let mut buffers = Buffers::default();
    let mut batch = Batch::default();
    while let Some(portion) = worker.take(worker.step.operations, worker.portion()) {
        for position in portion {
            let draw = worker.chooser.random().fraction();
            let index = if workload == Workload::YcsbD {
                worker.chooser.newest(worker.plan.inserted())
            } else {
                worker.chooser.index(position)
            };
            // A zipfian workload writes keys at any time again: any version will do.
            let version = 1 + position % 1000;
            let mut limit = shares.reads;
            if draw < limit {
                reads::get(worker, index, &mut buffers.key, &mut buffers.value)?;
                continue;
            }
            limit += shares.updates;
            if draw < limit {
                put(worker, &mut batch, (index, version), OperationKind::Put)?;
                continue;
            }
            limit += shares.inserts;
            if draw < limit {
                // When a duration goes on for longer than there are indices, inserts become updates.
                match worker.plan.take_insert() {
                    Some(new) => put(worker, &mut batch, (new, 0), OperationKind::Insert)?,
                    None => put(worker, &mut batch, (index, version), OperationKind::Put)?,
                }
                continue;
            }
            limit += shares.ranges;
            if draw < limit {
                range(worker, index, &mut buffers.key)?;
            } else {
                modify(worker, index, version, &mut buffers)?;
            }
        }
    }
    Ok(())
}

fn put(
    worker: &mut Worker<'_>,
    batch: &mut Batch,
    (index, version): (u64, u64),
    kind: OperationKind,
) -> Result<()> {
    let version = if worker.plan.values.tells_versions() {
        version
    } else {
        0
    };
    batch.clear();
    batch.push(worker.plan, index, version);
    batch.put(worker, kind)
}

/// A range beside inserts: entries are compared inside the timed part, and only keys of the beginning must all be
/// there, for an insert may come before or after the range.
fn range(worker: &mut Worker<'_>, start: u64, from: &mut Vec<u8>) -> Result<()> {
    let plan = worker.plan;
    let entries = 1 + worker.chooser.random().below(worker.step.range_entries);
    plan.keys.write(start, from);
    let (mut bytes, mut wrong, mut missing) = (0, 0_u64, 0_u64);
    let mut next = Some(start);
    worker.call(OperationKind::Range, 1, |session| {
        session.scan(from, entries, &mut |key, value| {
            bytes += (key.len() + value.len()) as u64;
            let Some(index) = plan.keys.index(key) else {
                wrong += 1;
                return;
            };
            wrong += u64::from(!plan.values.is_value_of(index, value));
            while let Some(due) = next.filter(|due| *due != index) {
                missing += u64::from(due < plan.settings.keys && plan.presence.contains(due));
                next = plan.keys.successor(due, plan.indices);
            }
            // Behind all that could still come: the order is wrong.
            wrong += u64::from(next.is_none());
            next = plan.keys.successor(index, plan.indices);
        })
    })?;
    worker.tally.bytes_read += bytes;
    worker.tally.wrong += wrong;
    worker.tally.missing += missing;
    Ok(())
}
