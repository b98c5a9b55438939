//! Seeks, ranges and iterations.
//!
//! Comparing every byte inside the timed part would measure the comparison. So the timed pass makes a digest of what it
//! visits: of each entry the lengths, the beginning of the key (which tells its index) and both ends of the value; of what is
//! between the ends of a long one, it looks at every line, as a point read that copies the value does. The digest that the
//! right answer has is computed afterwards. When they differ, the entries are visited again, each is compared byte for byte,
//! and what is missing or wrong is counted; then the digest of the second pass must be that of the first. (They differ
//! without a fault where keys were written more than once: which version is there is known only by looking.) Byte for byte
//! are also compared all entries of an iteration, and of seeks and ranges one in [`CHECKED_FULLY`].

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use super::{plan::Plan, worker::Worker};
use crate::{OperationKind, Result, data::values::ValueEnds};

/// Bytes of a line of the processor's cache.
const LINE_BYTES: usize = 64;
/// Of so many seeks and ranges one is visited again and compared byte for byte.
const CHECKED_FULLY: u64 = 32;

/// What was visited, so that two visits can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    entries: u64,
    bytes: u64,
    sum: u64,
}

impl Digest {
    /// Adds an entry, and looks at a word of each line of the processor's cache that its value lies in: an engine that tells
    /// where a value lies has not read it yet.
    #[inline]
    fn read(&mut self, key: &[u8], value: &[u8]) {
        if value.len() > 2 * LINE_BYTES {
            let words = value.chunks_exact(LINE_BYTES).map(word);
            black_box(words.fold(0, |sum, word| sum ^ word));
        }
        self.add(key, ValueEnds::of(value));
    }

    #[inline]
    fn add(&mut self, key: &[u8], value: ValueEnds) {
        // Odd, so that multiplying loses nothing; the order of entries matters.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        self.entries += 1;
        self.bytes += (key.len() + value.length) as u64;
        let ends = value.first.rotate_left(17) ^ value.last.rotate_left(31);
        self.sum = (self.sum ^ word(key) ^ ends)
            .wrapping_mul(FACTOR)
            .rotate_left(5);
    }
}

/// The first eight bytes as a number.
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => bytes
            .iter()
            .fold(bytes.len() as u64, |sum, byte| sum << 8 | u64::from(*byte)),
    }
}

/// One thread's share of an iteration: where it begins and how many entries it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    start: u64,
    entries: u64,
}

/// Divides the entries that are there into one share for each thread.
pub(super) fn shares(plan: &Plan<'_>, threads: usize) -> Vec<Share> {
    let size = plan.presence.len().div_ceil(threads.max(1) as u64).max(1);
    let mut shares: Vec<Share> = Vec::new();
    for (place, start) in plan.present(0).enumerate() {
        match shares.last_mut() {
            Some(share) if !(place as u64).is_multiple_of(size) => share.entries += 1,
            _ => shares.push(Share { start, entries: 1 }),
        }
    }
    shares
}

pub(super) fn iterate(worker: &mut Worker<'_>, shares: &[Share]) -> Result<()> {
    if shares.is_empty() {
        return worker
            .tally
            .record_each(OperationKind::Iter, 0, Duration::ZERO);
    }
    // With a duration, again and again.
    while let Some(portion) = worker.take(shares.len() as u64, 1) {
        let share = shares[(portion.start % shares.len() as u64) as usize];
        let from = first_key(worker.plan, share.start);
        let mut digest = Digest::default();
        let start = Instant::now();
        worker.untimed(|session| {
            session.scan(&from, share.entries, &mut |key, value| {
                digest.read(key, value)
            })
        })?;
        worker
            .tally
            .record_each(OperationKind::Iter, digest.entries, start.elapsed())?;
        worker.tally.bytes_read += digest.bytes;
        compare(worker, share, digest)?;
    }
    Ok(())
}

pub(super) fn seek(worker: &mut Worker<'_>) -> Result<()> {
    go(worker, OperationKind::Seek, 1)
}

pub(super) fn range(worker: &mut Worker<'_>) -> Result<()> {
    go(worker, OperationKind::Range, worker.step.range_entries)
}

fn go(worker: &mut Worker<'_>, kind: OperationKind, entries: u64) -> Result<()> {
    let (mut from, mut key) = (Vec::new(), Vec::new());
    while let Some(portion) = worker.take(worker.step.operations, worker.portion()) {
        for position in portion {
            let start = worker.chooser.index(position);
            worker.plan.keys.write(start, &mut from);
            let mut digest = Digest::default();
            worker.call(kind, 1, |session| {
                session.seek(&from, entries, &mut |key, value| digest.read(key, value))
            })?;
            worker.tally.bytes_read += digest.bytes;
            let share = Share { start, entries };
            let right = expected(worker.plan, share, &mut key);
            if digest != right || position.is_multiple_of(CHECKED_FULLY) {
                compare(worker, share, digest)?;
            }
        }
    }
    Ok(())
}

/// The smallest key of all is not named: the engine goes to the first entry.
fn first_key(plan: &Plan<'_>, start: u64) -> Vec<u8> {
    let mut key = Vec::new();
    if plan.present_from(0) != Some(start) {
        plan.keys.write(start, &mut key);
    }
    key
}

/// The digest of the right answer, if no key was written twice. `key` is a buffer.
fn expected(plan: &Plan<'_>, share: Share, key: &mut Vec<u8>) -> Digest {
    let mut digest = Digest::default();
    for index in plan.present(share.start).take(share.entries as usize) {
        plan.keys.write(index, key);
        digest.add(key, plan.values.ends(index, 0));
    }
    digest
}

/// Visits the entries of `share` again, compares each, and both visits.
fn compare(worker: &mut Worker<'_>, share: Share, first: Digest) -> Result<()> {
    let plan = worker.plan;
    let mut from = Vec::new();
    plan.keys.write(share.start, &mut from);
    let mut expected = plan
        .present(share.start)
        .take(share.entries as usize)
        .peekable();
    let mut second = Digest::default();
    let (mut missing, mut wrong) = (0_u64, 0_u64);
    let mut wanted = Vec::new();
    worker.untimed(|session| {
        session.scan(&from, share.entries, &mut |key, value| {
            second.add(key, ValueEnds::of(value));
            // What should have come before this key and did not.
            while let Some(index) = expected.peek() {
                plan.keys.write(*index, &mut wanted);
                if wanted[..] >= *key {
                    break;
                }
                missing += 1;
                expected.next();
            }
            let index = plan.keys.index(key);
            // With entries missing, the last ones come from behind the share.
            let is_behind = missing > 0 && expected.peek().is_none();
            match index {
                Some(_) if expected.peek() == index.as_ref() => {
                    expected.next();
                }
                Some(index) if is_behind && plan.presence.contains(index) => {}
                _ => wrong += 1,
            }
            if let Some(index) = index {
                wrong += u64::from(!plan.values.is_value_of(index, value));
            }
        })
    })?;
    missing += expected.count() as u64;
    if missing == 0 && wrong == 0 {
        wrong += u64::from(first != second);
    }
    worker.tally.missing += missing;
    worker.tally.wrong += wrong;
    Ok(())
}
