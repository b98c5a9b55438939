//! Point reads, and what makes their answers right.

use super::worker::Worker;
use crate::{OperationKind, Result};

/// Reads the key of `index` in one timed call and checks the answer. Answers the version that was found.
pub(super) fn get(
    worker: &mut Worker<'_>,
    index: u64,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<Option<u64>> {
    let plan = worker.plan;
    plan.keys.write(index, key);
    // Before the read: a write that is acknowledged while it runs may be seen or not.
    let must_be_there = plan.presence.contains(index);
    let is_found = worker.call(OperationKind::Get, 1, |session| session.get(key, value))?;
    Ok(check(
        worker,
        index,
        must_be_there,
        is_found.then_some(&value[..]),
    ))
}

/// Judges what was found under the key of `index`.
pub(super) fn check(
    worker: &mut Worker<'_>,
    index: u64,
    must_be_there: bool,
    found: Option<&[u8]>,
) -> Option<u64> {
    worker.tally.bytes_read += worker.plan.settings.key_bytes as u64;
    let Some(value) = found else {
        worker.tally.missing += u64::from(must_be_there);
        return None;
    };
    worker.tally.bytes_read += value.len() as u64;
    let version = worker.plan.values.version(index, value);
    // While nobody writes, a key that is not known to be there must not be found.
    let is_right = version.is_some() && (must_be_there || worker.step.workload.writes());
    worker.tally.wrong += u64::from(!is_right);
    version
}

pub(super) fn read(worker: &mut Worker<'_>) -> Result<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    while let Some(portion) = worker.take(worker.step.operations, worker.portion()) {
        for position in portion {
            let index = worker.chooser.index(position);
            get(worker, index, &mut key, &mut value)?;
        }
    }
    Ok(())
}

/// Reads of keys that were never written, each a neighbour of one that was.
pub(super) fn missing(worker: &mut Worker<'_>) -> Result<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    while let Some(portion) = worker.take(worker.step.operations, worker.portion()) {
        for position in portion {
            let index = worker.chooser.index(position);
            worker.plan.keys.write_missing(index, &mut key);
            let is_found = worker.call(OperationKind::Get, 1, |session| {
                session.get(&key, &mut value)
            })?;
            worker.tally.bytes_read += key.len() as u64;
            worker.tally.wrong += u64::from(is_found);
        }
    }
    Ok(())
}
