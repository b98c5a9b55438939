//! Estimates about a family, from what memtables and tables know of themselves: how many keys have a value, how long
//! keys and values are, what reading a range costs. No entry of a table is read for them.
//!
//! The estimate of keys adds up the entries of all sources and takes off two for each tombstone: the tombstone, and the
//! put that it hides. It is exact as long as no key of a table was written again and every delete met a key. A key that
//! is written again counts once more for each table that still holds an older version of it, until a merge brings the
//! two together; a delete of a key that was not there takes one off too many, and
//! what a range delete hides counts until a merge drops it. After a full compaction without
//! snapshots, and a flush, it is exact again, but for keys that expired.
//!
//! The cost of a range is the bytes that reading it would touch, in blocks of 4 KiB: of tables, by their fences; of the
//! value log, in proportion; of memtables, by their entries. It never falls when the range grows.

use kingtide_base::KeyOrder;
use kingtide_format::TableMeta;

use crate::{
    engine::Engine,
    error::Result,
    family::{CommitSizes, Family, SuperVersion},
};

/// Bytes that count as one in the cost of a range: the usual length of a block.
const COST_BYTES: f64 = 4096.0;

/// Lengths of the average key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Averages {
    pub(super) key_bytes: f64,
    pub(super) value_bytes: f64,
}

/// Average lengths over tables and memtables; what a memtable holds is taken to be like all that was `committed`.
pub(super) fn averages(current: &SuperVersion, committed: CommitSizes) -> Averages {
    let (mut keys, mut key_bytes) = (0.0, 0.0);
    let (mut values, mut value_bytes) = (0.0, 0.0);
    for (_, table) in current.version.tables() {
        let key_average = (table.smallest.len() + table.largest.len()) as f64 / 2.0;
        let table_key_bytes = key_average * table.entries as f64;
        keys += table.entries as f64;
        key_bytes += table_key_bytes;
        values += table.entries.saturating_sub(table.tombstones) as f64;
        value_bytes += (table.raw_bytes as f64 - table_key_bytes).max(0.0);
    }
    for memory in current.memories() {
        let entries = memory.table.entries() as u64;
        let puts = entries.saturating_sub(memory.tombstones());
        let average = |bytes: u64, count: u64| bytes as f64 / count.max(1) as f64;
        keys += entries as f64;
        key_bytes += entries as f64 * average(committed.key_bytes, committed.operations);
        let puts_committed = committed.operations - committed.tombstones;
        values += puts as f64;
        value_bytes += puts as f64 * average(committed.value_bytes, puts_committed);
    }
    let average = |bytes: f64, count: f64| if count > 0.0 { bytes / count } else { 0.0 };
    Averages {
        key_bytes: average(key_bytes, keys),
        value_bytes: average(value_bytes, values),
    }
}

/// How many keys have a value. See the module.
pub(super) fn live_keys(current: &SuperVersion) -> u64 {
    let mut live = 0_i128;
    for (_, table) in current.version.tables() {
        live += i128::from(table.entries) - 2 * i128::from(table.tombstones);
    }
    for memory in current.memories() {
        let entries = memory.table.entries() as u64;
        let tombstones = memory.tombstones();
        live += i128::from(entries) - 2 * i128::from(tombstones);
        // Entries that a newer one in the same memtable hides, those that the tombstones account for not counted.
        if let Some(keys) = memory.table.distinct_keys() {
            let hidden = entries.saturating_sub(keys as u64);
            live -= i128::from(hidden.saturating_sub(tombstones));
        }
    }
    u64::try_from(live.max(0)).unwrap_or(u64::MAX)
}

/// What reading all keys between `first` and `last`, both included, costs. See the module.
///
/// # Errors
/// What opening a table answers.
pub(super) fn range_cost(
    engine: &Engine,
    family: &Family,
    first: &[u8],
    last: &[u8],
) -> Result<f64> {
    let (first, last) = match family.order.compare(first, last).is_gt() {
        true => (last, first),
        false => (first, last),
    };
    let current = family.load_full();
    let mut bytes = 0.0;
    for memory in current.memories() {
        bytes += engine.memory_bytes_between(memory, first, Some(last));
    }
    for (_, table) in current.version.tables() {
        bytes += table_bytes(engine, (table, &family.order), first, last)?;
    }
    Ok(bytes / COST_BYTES)
}

fn table_bytes(
    engine: &Engine,
    (meta, order): (&TableMeta, &KeyOrder),
    first: &[u8],
    last: &[u8],
) -> Result<f64> {
    let touched = engine.table_bytes_between((meta, order), first, Some(last))?;
    let value_bytes: u64 = meta.value_files.iter().map(|used| used.bytes).sum();
    let share = touched as f64 / meta.file_bytes.max(1) as f64;
    Ok(touched as f64 + value_bytes as f64 * share)
}
