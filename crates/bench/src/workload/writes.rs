//! Batches of writes and deletes.

use super::{plan::Plan, tally::Tally, worker::Worker};
use crate::{Engine, OperationKind, Result, data::random::Random};

// Keys asked for again after deletes.
const DELETED_PROBES: u64 = 1000;

/// A batch whose buffers are used again and again.
#[derive(Default)]
pub(super) struct Batch {
    indices: Vec<u64>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.indices.clear();
    }

    /// Adds the key of `index` with a version of its value.
    pub(super) fn push(&mut self, plan: &Plan<'_>, index: u64, version: u64) {
        let (key, value) = self.next(index);
        plan.keys.write(index, key);
        plan.values.write(index, version, value);
    }

    /// Adds the key of `index` alone.
    fn push_key(&mut self, plan: &Plan<'_>, index: u64) {
        let (key, _) = self.next(index);
        plan.keys.write(index, key);
    }

    fn next(&mut self, index: u64) -> &mut (Vec<u8>, Vec<u8>) {
        let place = self.indices.len();
        self.indices.push(index);
        if self.pairs.len() == place {
            self.pairs.push(Default::default());
        }
        &mut self.pairs[place]
    }

    /// Writes the batch in one timed call.
    pub(super) fn put(&self, worker: &mut Worker<'_>, kind: OperationKind) -> Result<()> {
        let pairs = &self.pairs[..self.indices.len()];
        let slices: Vec<(&[u8], &[u8])> = pairs
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .collect();
        let count = slices.len() as u64;
        worker.call(kind, count, |session| session.put_batch(&slices))?;
        let bytes = pairs.iter().map(|(key, value)| key.len() + value.len());
        worker.tally.bytes_written += bytes.sum::<usize>() as u64;
        for index in &self.indices {
            worker.plan.presence.insert(*index);
        }
        Ok(())
    }
}

pub(super) fn write(worker: &mut Worker<'_>) -> Result<()> {
    let mut batch = Batch::default();
    let size = worker.step.batch_operations as u64;
    while let Some(portion) = worker.take(worker.step.operations, size) {
        batch.clear();
        for position in portion {
            let index = worker.chooser.index(position);
            batch.push(worker.plan, index, worker.version(position));
        }
        batch.put(worker, OperationKind::Put)?;
    }
    Ok(())
}

pub(super) fn delete(worker: &mut Worker<'_>) -> Result<()> {
    let mut batch = Batch::default();
    let size = worker.step.batch_operations as u64;
    while let Some(portion) = worker.take(worker.step.operations, size) {
        batch.clear();
        for position in portion {
            let index = worker.chooser.index(position);
            batch.push_key(worker.plan, index);
            worker.plan.presence.remove(index);
        }
        let count = batch.indices.len();
        let keys: Vec<&[u8]> = batch.pairs[..count]
            .iter()
            .map(|(key, _)| &key[..])
            .collect();
        let bytes: usize = keys.iter().map(|key| key.len()).sum();
        worker.call(OperationKind::Delete, count as u64, |session| {
            session.delete_batch(&keys)
        })?;
        worker.tally.bytes_written += bytes as u64;
    }
    Ok(())
}

/// After deletes, keys are there or not as the bits say: for point reads, and, when nothing is left, for a scan.
pub(super) fn check_deleted(engine: &dyn Engine, plan: &Plan<'_>, tally: &mut Tally) -> Result<()> {
    let mut session = engine.session()?;
    if plan.present_from(0).is_none() {
        tally.wrong += session.scan(&[], 1, &mut |_, _| {})?;
    }
    let count = plan.settings.keys;
    let mut random = Random::new(plan.settings.seed ^ 0x656d_7074);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for _ in 0..DELETED_PROBES.min(count) {
        let index = random.below(count);
        plan.keys.write(index, &mut key);
        let is_found = session.get(&key, &mut value)?;
        match (is_found, plan.presence.contains(index)) {
            (true, false) => tally.wrong += 1,
            (false, true) => tally.missing += 1,
            _ => {}
        }
    }
    Ok(())
}
