//! What transaction number n of thread t writes: known to parent and child, so that only numbers go between them.

use std::collections::BTreeMap;

use kingtide::{Compression, FamilyOptions, SyncMode};

use crate::{
    dump::Dump,
    random::Random,
    violation::{Checked, Violation, ensure},
};

/// Transactions of a thread whose keys stay; older ones are deleted by newer transactions.
pub const KEPT: u64 = 500;
/// Threads that write.
pub(super) const THREADS: usize = 3;
/// The families. The first one is part of every transaction and holds the number of each thread.
pub(super) const FAMILIES: [&str; 3] = ["first", "second", "third"];
/// The length of a record of the pipe: thread, then number. Short enough to be written at once or not at all.
pub(super) const RECORD_BYTES: usize = 9;
/// The thread of records that only say how far the child is.
pub(super) const NO_THREAD: u8 = u8::MAX;

/// Settings small enough that flushes and merges run all the time.
pub(super) fn family_options(name: &str) -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 64 << 10,
        l1_file_count_trigger: 2,
        level_size_ratio: 4,
        value_threshold_bytes: if name == "second" { 64 } else { 512 },
        compression: if name == "third" {
            Compression::Zstd
        } else {
            Compression::Lz4
        },
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}

/// The mode in which a transaction is committed.
pub(super) fn sync_mode(thread: usize, number: u64) -> SyncMode {
    match (thread as u64 + number) % 7 {
        0 => SyncMode::Full,
        1 | 2 => SyncMode::Interval(std::time::Duration::from_millis(1)),
        _ => SyncMode::None,
    }
}

/// The families that a transaction writes to.
pub(super) fn families_of(thread: usize, number: u64) -> &'static [&'static str] {
    const SECOND: [&str; 2] = ["first", "second"];
    const THIRD: [&str; 2] = ["first", "third"];
    match (thread as u64 + number) % 3 {
        0 => &FAMILIES,
        1 => &SECOND,
        _ => &THIRD,
    }
}

/// The key of a transaction, in each of its families.
pub(super) fn key(thread: usize, number: u64) -> Vec<u8> {
    format!("thread{thread}/{number:010}").into_bytes()
}

/// The key that holds the number of a thread, in the first family.
pub(super) fn number_key(thread: usize) -> Vec<u8> {
    format!("number{thread}").into_bytes()
}

/// The value that a transaction puts in a family.
pub(super) fn value(thread: usize, number: u64, family: &str) -> Vec<u8> {
    let place = FAMILIES
        .iter()
        .position(|name| *name == family)
        .unwrap_or(0);
    let mut random = Random::new(number * 64 + thread as u64 * 8 + place as u64);
    let length = if random.one_in(40) {
        random.between(1_000, 9_000)
    } else {
        random.between(1, 200)
    };
    random.bytes(length)
}

/// A record that says: this thread had this transaction acknowledged.
pub(super) fn record(thread: u8, number: u64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[0] = thread;
    record[1..].copy_from_slice(&number.to_le_bytes());
    record
}

/// Takes a record into account. Each thread acknowledges its numbers in order.
pub(super) fn note_record(
    record: [u8; RECORD_BYTES],
    acknowledged: &mut [u64; THREADS],
) -> Checked {
    if record[0] == NO_THREAD {
        return Ok(());
    }
    let number = record[1..]
        .iter()
        .rev()
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let last = acknowledged
        .get_mut(usize::from(record[0]))
        .ok_or_else(|| Violation::new("the pipe holds a record of no thread"))?;
    ensure(number == *last + 1, || {
        format!(
            "thread {} acknowledged {number} after {last}: the child found a wrong number",
            record[0]
        )
    })?;
    *last = number;
    Ok(())
}

/// The number of a thread that a scan shows.
pub(super) fn find_number(found: &Dump, thread: usize) -> Checked<u64> {
    let key = number_key(thread);
    let entries = found.get(FAMILIES[0]).map_or(&[][..], Vec::as_slice);
    entries
        .iter()
        .find(|entry| entry.0 == key)
        .map_or(Ok(0), |(_, value)| parse_number(value))
}

/// The number in a stored value.
pub(super) fn parse_number(value: &[u8]) -> Checked<u64> {
    let bytes = value
        .try_into()
        .map_err(|_| Violation::new(format!("the number of a thread has {} bytes", value.len())))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Adds what `thread` has left in each family after its transaction `number`.
pub(super) fn expect(
    thread: usize,
    number: u64,
    expected: &mut BTreeMap<&str, BTreeMap<Vec<u8>, Vec<u8>>>,
) {
    for transaction in number.saturating_sub(KEPT) + 1..=number {
        for name in families_of(thread, transaction) {
            let entries = expected.entry(name).or_default();
            entries.insert(key(thread, transaction), value(thread, transaction, name));
        }
    }
    if number > 0 {
        let entries = expected.entry(FAMILIES[0]).or_default();
        entries.insert(number_key(thread), number.to_le_bytes().to_vec());
    }
}
