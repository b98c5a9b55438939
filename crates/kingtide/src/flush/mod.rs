//! Flush: the oldest sealed memtable of a family becomes tables on level 1.
//!
//! 1. The log is synced past the memtable's newest record, if any other family still holds records at or before that
//!    one: a table must never outlive the other half of a transaction. When everything up to there is in tables, the
//!    log is not asked any more, and no sync is needed.
//! 2. Runs are merged, dead versions dropped, tables and value files written and synced.
//! 3. One manifest edit installs the tables and moves the log's start.
//!
//! One flush per family runs at a time, oldest first, so that what is in tables is always a prefix of the family's
//! commits. After a failure of the log nothing is flushed any more.

mod ascent;
mod bounded;

use std::sync::Arc;

use kingtide_base::{
    Cursor, KeyOrder, RangeTombstone, SeqNo,
    planted::{self, Bug},
};
use kingtide_collections::{Memtable, MergeCursor, PassCursor};
use kingtide_env::sync::atomic::Ordering;
use kingtide_format::TableMeta;

use self::{ascent::Stragglers, bounded::Bounded};
use crate::{
    compaction::{
        below::{Below, exists_below},
        filter::VersionFilter,
        split::{Sample, split},
        tally::Expected,
    },
    engine::{Engine, Watch},
    error::Result,
    events::Event,
    family::Family,
    files::Files,
    memtable::Memory,
    output::{
        Output, TableWriter,
        crew::Urgency,
        cuts::Cuts,
        discard_output,
        parts::{Pass, part_bytes_min, parts_max, run},
    },
    version::Version,
    write::reopen_required,
};

/// Samples of a memtable for each part that it is cut into.
const SAMPLES_PER_PART: usize = 32;

/// The drop rule for a pass over one family's entries.
pub(crate) fn version_filter(engine: &Engine, order: &KeyOrder, is_bottom: bool) -> VersionFilter {
    let boundaries = engine.snapshots.boundaries(|| engine.visible());
    let clock = engine.snapshots.expiry_clock(|| engine.now());
    VersionFilter::new(order.clone(), boundaries, is_bottom, clock)
}

/// Writes one memtable to tables. Nothing is installed. `older` are all tables of the family, those that a range delete
/// without an end may hide keys of.
///
/// # Errors
/// What writing answers; nothing is left behind then.
pub(crate) fn write_memtable(
    files: &Files,
    family: &Family,
    memtable: &Arc<Memtable>,
    filter: &mut VersionFilter,
    older: &mut dyn Iterator<Item = &TableMeta>,
) -> Result<Output> {
    let pass = MemoryPass {
        family,
        memtables: std::slice::from_ref(memtable),
        last: SeqNo::MAX,
        older,
        cuts: Cuts::default(),
    };
    // Nothing cancels a flush, so there is always an answer.
    Ok(write_memtables(files, pass, filter, &|| false)?.unwrap_or_default())
}

/// Memtables of one family that are written together.
pub(crate) struct MemoryPass<'a, 't> {
    pub(crate) family: &'a Family,
    /// The newest first.
    pub(crate) memtables: &'a [Arc<Memtable>],
    /// Later commits are left out.
    pub(crate) last: SeqNo,
    /// All tables of the family, those that a range delete without an end may hide keys of.
    pub(crate) older: &'a mut dyn Iterator<Item = &'t TableMeta>,
    /// Where tables end.
    pub(crate) cuts: Cuts,
}

/// Writes memtables to tables. Nothing is installed. `None` when `is_cancelled` said so; nothing is left behind then.
///
/// # Errors
/// What writing answers; nothing is left behind then.
pub(crate) fn write_memtables(
    files: &Files,
    pass: MemoryPass<'_, '_>,
    filter: &mut VersionFilter,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Output>> {
    let (family, memtables, last) = (pass.family, pass.memtables, pass.last);
    let cuts = pass.cuts.clone();
    tell_ranges(pass, filter)?;
    let mut cursor = open(&family.order, memtables, last);
    let writer = TableWriter::new(files, family, u64::MAX)
        .with_cuts(cuts)
        .carrying_pointers();
    let output = writer.write(&mut cursor, filter, is_cancelled)?;
    if let Some(output) = &output {
        let checked = output.books.check(expected(memtables), &output.tables);
        checked.inspect_err(|_| discard_output(files, output))?;
    }
    Ok(output)
}

/// The entries of `memtables`, the newest of which comes first, up to the commit `last`.
fn open(
    order: &KeyOrder,
    memtables: &[Arc<Memtable>],
    last: SeqNo,
) -> Bounded<MergeCursor<PassCursor>> {
    let cursors = memtables.iter().map(Memtable::pass_cursor).collect();
    Bounded::new(MergeCursor::new(order.clone(), cursors), last).telling(memtables)
}

/// How many versions a pass over `memtables` may see: memtables may have dropped some already.
fn expected(memtables: &[Arc<Memtable>]) -> Expected {
    let entries = memtables.iter().map(|memtable| memtable.entries() as u64);
    Expected::AtMost(entries.sum())
}

/// Tells `filter` of the range deletes of `pass`.
fn tell_ranges(pass: MemoryPass<'_, '_>, filter: &mut VersionFilter) -> Result<()> {
    let MemoryPass { family, last, .. } = pass;
    if !pass
        .memtables
        .iter()
        .any(|memtable| memtable.has_range_deletes())
    {
        return Ok(());
    }
    let mut cursor = open(&family.order, pass.memtables, last);
    cursor.seek_last()?;
    let largest = cursor.is_valid().then(|| cursor.key());
    let end = end_of_keys(&family.order, largest, pass.older);
    let tombstones = pass
        .memtables
        .iter()
        .flat_map(|memtable| memtable.range_tombstones());
    // Nothing lies behind that end that a range delete without one could hide; without any key it hides nothing.
    let tombstones = tombstones
        .filter(|tombstone| tombstone.sequence <= last)
        .filter(|tombstone| !tombstone.end.is_empty() || !end.is_empty());
    filter.set_ranges(tombstones.map(|tombstone| match tombstone.end {
        [] => RangeTombstone {
            end: &end,
            ..tombstone
        },
        _ => tombstone,
    }));
    Ok(())
}

/// The first key behind `last` and behind all keys of `tables`; empty when there are none. Only in byte order; other
/// orders have no range deletes without an end.
fn end_of_keys(
    order: &KeyOrder,
    last: Option<&[u8]>,
    tables: &mut dyn Iterator<Item = &TableMeta>,
) -> Vec<u8> {
    let behind = |key: &[u8]| [key, &[0]].concat();
    if !order.is_bytewise() {
        return Vec::new();
    }
    let of_tables = tables.map(|table| match table.is_largest_excluded {
        true => table.largest.clone(),
        false => behind(&table.largest),
    });
    of_tables.chain(last.map(behind)).max().unwrap_or_default()
}

/// Flushes the oldest sealed memtable of `family`; false when there is none.
///
/// # Errors
/// What the log, the files and the manifest answer. The memtable stays sealed and can be tried again, unless the error
/// is `ReopenRequired`.
pub(crate) fn flush_oldest(engine: &Engine, family: &Arc<Family>) -> Result<bool> {
    let _one_at_a_time = family.flushing.lock();
    let current = family.load_full();
    let Some(memory) = current.sealed.last().map(Arc::clone) else {
        return Ok(false);
    };
    let is_bottom = current.version.is_empty();
    let version = Arc::clone(&current.version);
    // Held no longer than needed: whoever holds it keeps the memtable from being used again.
    drop(current);
    if family.is_dropped() {
        return Ok(false);
    }
    let watch = watch(engine, family, &memory);
    let begun = engine.env.monotonic_nanos();
    engine.settle_doubts()?;
    memory.table.begin_pass();
    secure_log(engine, &memory)?;
    let mut filter = version_filter(engine, &family.order, is_bottom)
        .with_lookup(exists_below(&engine.files, family, Arc::clone(&version)))
        .with_below(Below::tables(&version, &family.order));
    let parts = parts_of(engine, &memory.table);
    let cuts = cuts(family, (&memory.table, parts), &version)?;
    tell_ranges(
        MemoryPass {
            family,
            memtables: std::slice::from_ref(&memory.table),
            last: SeqNo::MAX,
            older: &mut version.tables().map(|(_, table)| &**table),
            cuts: cuts.clone(),
        },
        &mut filter,
    )?;
    let mut output = match write_parts(engine, family, (&memory.table, parts), (filter, cuts)) {
        Err(_) if planted::is(Bug::FlushFailureForgotten) => Output::default(),
        output => output?,
    };
    let now = engine.unix_seconds();
    output.date_tombstones(memory.tombstones_since().unwrap_or(now));
    let giving_back = GivingBack::begin(family);
    let oldest_needed = match engine.install_flush(family, &memory, &output) {
        Ok(segment) => segment,
        Err(error) => {
            engine.reject_output(output);
            return match family.is_dropped() {
                true => Ok(false),
                false => Err(error),
            };
        }
    };
    family.counters.note_dropped(&output.books.dropped);
    let bytes = memory.table.bytes();
    drop(memory);
    drop(giving_back);
    let nanos = engine.env.monotonic_nanos().saturating_sub(begun);
    engine.pipeline.note_flushed(family, (bytes, nanos));
    // Not before writers go on: it takes long.
    engine.retire_log(oldest_needed);
    watch.end(|micros| Event::FlushEnd {
        family: family.name(),
        tables: output.tables.len(),
        bytes: output.bytes(),
        micros,
    });
    Ok(true)
}

/// A flush that is about to let go of its memtable: until this is dropped, nobody makes another one in new memory.
struct GivingBack<'a>(&'a Family);

impl<'a> GivingBack<'a> {
    fn begin(family: &'a Family) -> Self {
        // Relaxed, here and below: as in `Pipeline::may_seal`.
        family.is_giving_back.store(true, Ordering::Relaxed);
        Self(family)
    }
}

impl Drop for GivingBack<'_> {
    fn drop(&mut self) {
        self.0.is_giving_back.store(false, Ordering::Relaxed);
    }
}

/// How many parts `memtable` is written in: several if it is large.
fn parts_of(engine: &Engine, memtable: &Memtable) -> usize {
    let parts = memtable.bytes() as u64 / part_bytes_min();
    parts.clamp(1, parts_max(engine, Urgency::Flush) as u64) as usize
}

/// Where the tables of `memtable`, which is written in so many parts, end.
fn cuts(
    family: &Arc<Family>,
    (memtable, parts): (&Arc<Memtable>, usize),
    version: &Version,
) -> Result<Cuts> {
    let (oldest, newest) = (memtable.smallest_sequence(), memtable.largest_sequence());
    let cuts = Cuts::around(version, &family.order, newest.0.saturating_sub(oldest.0));
    Ok(match ascent::ends(&family.order, memtable, version)? {
        Some(ends) => cuts.and(ends, Arc::new(Stragglers::of(family, memtable, parts))),
        None => cuts,
    })
}

/// Writes a memtable to tables.
fn write_parts(
    engine: &Engine,
    family: &Arc<Family>,
    (memtable, parts): (&Arc<Memtable>, usize),
    (filter, table_ends): (VersionFilter, Cuts),
) -> Result<Output> {
    let cuts = match parts {
        1 => Vec::new(),
        _ => {
            let samples = memtable.samples(parts * SAMPLES_PER_PART).into_iter();
            let samples = samples.map(|(key, entries)| Sample {
                key,
                bytes: entries as u64,
            });
            split(samples.collect(), parts, &family.order)
        }
    };
    let (order, memtables) = (family.order.clone(), [Arc::clone(memtable)]);
    let pass = Pass {
        files: Arc::clone(&engine.files),
        family: Arc::clone(family),
        urgency: Urgency::Flush,
        table_bytes_max: u64::MAX,
        table_ends,
        expected: expected(&memtables),
        filter,
        sources: Box::new(move |_| Ok(Box::new(open(&order, &memtables, SeqNo::MAX)))),
        cuts,
    };
    // Nothing cancels a flush, so there is always an answer.
    Ok(run(engine, pass, &|| false)?.unwrap_or_default())
}

fn watch<'a>(engine: &'a Engine, family: &Family, memory: &Memory) -> Watch<'a> {
    let name = || family.name();
    let begin = || Event::FlushBegin {
        family: name(),
        bytes: memory.table.bytes() as u64,
    };
    Watch::begin(engine, begin, || Event::FlushGivenUp { family: name() })
}

/// Step 1 of the module.
fn secure_log(engine: &Engine, memory: &Arc<Memory>) -> Result<()> {
    let failure = engine.pipeline.order.lock().failure().cloned();
    if let Some(failure) = failure {
        return Err(reopen_required(&failure));
    }
    let Some(span) = memory.span() else {
        return Ok(());
    };
    if engine.log_needed(Some(memory)).position < span.end
        && !planted::is(Bug::LogNotSyncedBeforeFlush)
    {
        engine.pipeline.sync_through(span.end)?;
    }
    Ok(())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
