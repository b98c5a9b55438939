//! What a thread does in each phase, and how it checks the answers.

use crate::{Engine, Phase, Result, random::Random};

use super::{Plan, Tally, Worker};

// Keys asked for again after everything was deleted.
const DELETED_PROBES: u64 = 1000;
// Point reads are dealt out in portions, so that threads do not fight over the counter.
const READ_PORTION: u64 = 256;

pub(super) fn run(worker: &mut Worker<'_>, phase: Phase) -> Result<()> {
    match phase {
        Phase::Fill => fill(worker),
        Phase::Read => read(worker),
        Phase::Scan => scan(worker),
        Phase::Ranges => ranges(worker),
        Phase::Delete => delete(worker),
    }
}

impl Plan<'_> {
    /// The index of the key that is written as number `position`.
    fn written_at(&self, position: u64) -> u64 {
        match self.settings.pattern {
            crate::Pattern::Sequential => position,
            crate::Pattern::Random => self.write_order.apply(position),
        }
    }

    fn deleted_at(&self, position: u64) -> u64 {
        match self.settings.pattern {
            crate::Pattern::Sequential => position,
            crate::Pattern::Random => self.delete_order.apply(position),
        }
    }

    fn entry_bytes(&self) -> u64 {
        (self.settings.key_bytes + self.settings.value_bytes) as u64
    }
}

fn fill(worker: &mut Worker<'_>) -> Result<()> {
    let plan = worker.plan;
    let batch = plan.settings.batch_operations;
    let mut buffers: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    while let Some(portion) = worker.take(plan.settings.operations, batch as u64) {
        let count = (portion.end - portion.start) as usize;
        if buffers.len() < count {
            buffers.resize_with(count, Default::default);
        }
        for (position, (key, value)) in portion.zip(&mut buffers) {
            let index = plan.written_at(position);
            plan.keys.write(index, key);
            plan.values.write(index, value);
        }
        let pairs: Vec<(&[u8], &[u8])> = buffers[..count]
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .collect();
        let session = &mut worker.session;
        worker
            .tally
            .time(count as u64, || session.put_batch(&pairs))?;
        worker.tally.user_bytes += count as u64 * plan.entry_bytes();
    }
    Ok(())
}

fn read(worker: &mut Worker<'_>) -> Result<()> {
    let plan = worker.plan;
    let count = plan.settings.operations;
    let mut random = Random::new(plan.settings.seed ^ (worker.number << 32) ^ 0x7265_6164);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    while let Some(portion) = worker.take(count, READ_PORTION) {
        for _ in portion {
            let index = random.below(count);
            plan.keys.write(index, &mut key);
            let session = &mut worker.session;
            let found = worker.tally.time(1, || session.get(&key, &mut value))?;
            if !found {
                worker.tally.missing += 1;
            } else if !plan.values.is_value_of(index, &value) {
                worker.tally.wrong += 1;
            }
            worker.tally.user_bytes += (key.len() + value.len()) as u64;
        }
    }
    Ok(())
}

/// Each thread walks one share of the keys, from its first index to the next thread's.
fn scan(worker: &mut Worker<'_>) -> Result<()> {
    let plan = worker.plan;
    let share = plan
        .settings
        .operations
        .div_ceil(plan.settings.threads as u64);
    while let Some(portion) = worker.take(plan.settings.operations, share) {
        walk(worker, portion.start, portion.end - portion.start)?;
    }
    Ok(())
}

fn ranges(worker: &mut Worker<'_>) -> Result<()> {
    let plan = worker.plan;
    let entries = plan.settings.range_entries.min(plan.settings.operations);
    let starts = plan.settings.operations - entries + 1;
    let mut random = Random::new(plan.settings.seed ^ (worker.number << 32) ^ 0x7261_6e67);
    while worker.take(plan.settings.operations, entries).is_some() {
        let start = random.below(starts);
        walk(worker, start, entries)?;
    }
    Ok(())
}

/// Visits `count` entries from index `start` and checks that they are exactly the ones written, in order.
fn walk(worker: &mut Worker<'_>, start: u64, count: u64) -> Result<()> {
    let plan = worker.plan;
    let mut from = Vec::new();
    plan.keys.write(start, &mut from);
    let end = start + count;
    let mut expected = start;
    let (mut wrong, mut missing, mut bytes) = (0, 0, 0);
    let session = &mut worker.session;
    worker.tally.time(count, || {
        session.scan(&from, count, &mut |key, value| {
            bytes += (key.len() + value.len()) as u64;
            match plan.keys.index(key) {
                // A gap costs the keys in it, not everything behind it.
                Some(index) if index >= expected => {
                    missing += index.min(end) - expected.min(end);
                    wrong += u64::from(!plan.values.is_value_of(index, value));
                    expected = index + 1;
                }
                _ => wrong += 1,
            }
        })
    })?;
    worker.tally.wrong += wrong;
    worker.tally.missing += missing + end.saturating_sub(expected);
    worker.tally.user_bytes += bytes;
    Ok(())
}

fn delete(worker: &mut Worker<'_>) -> Result<()> {
    let plan = worker.plan;
    let batch = plan.settings.batch_operations;
    let mut buffers: Vec<Vec<u8>> = Vec::new();
    while let Some(portion) = worker.take(plan.settings.operations, batch as u64) {
        let count = (portion.end - portion.start) as usize;
        if buffers.len() < count {
            buffers.resize_with(count, Vec::new);
        }
        for (position, key) in portion.zip(&mut buffers) {
            plan.keys.write(plan.deleted_at(position), key);
        }
        let keys: Vec<&[u8]> = buffers[..count].iter().map(|key| &key[..]).collect();
        let session = &mut worker.session;
        worker
            .tally
            .time(count as u64, || session.delete_batch(&keys))?;
        worker.tally.user_bytes += (count * plan.settings.key_bytes) as u64;
    }
    Ok(())
}

/// After a delete phase nothing may be left: not for a scan, not for point reads.
pub(super) fn check_empty(engine: &dyn Engine, plan: &Plan<'_>, tally: &mut Tally) -> Result<()> {
    let mut session = engine.session()?;
    tally.wrong += session.scan(&[], 1, &mut |_, _| {})?;
    let count = plan.settings.operations;
    let mut random = Random::new(plan.settings.seed ^ 0x656d_7074);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for _ in 0..DELETED_PROBES.min(count) {
        plan.keys.write(random.below(count), &mut key);
        tally.wrong += u64::from(session.get(&key, &mut value)?);
    }
    Ok(())
}
