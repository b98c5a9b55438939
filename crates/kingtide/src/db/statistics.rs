//! Gathers the numbers of `Stats`. Nothing here stops the world: numbers that are read one after the other may be of
//! slightly different moments.

use std::time::Duration;

use kingtide_collections::Account;

use super::estimate;
use crate::{
    background::Background,
    compaction::observe::level_one_runs,
    engine::Engine,
    family::{CommitSizes, Family, SuperVersion},
    stats::{
        CacheStats, FamilyStats, LevelStats, MemoryPressure, MemoryStats, SnapshotStats, Stats,
        ValueStats,
    },
    vlog,
};

/// Numbers about the database.
pub(super) fn of_database(engine: &Engine, background: &Background) -> Stats {
    let (log_segments, log_bytes, log_bytes_written) = {
        let state = engine.pipeline.order.lock();
        let (segments, bytes) = state.log.tail.size();
        (segments, bytes, state.log.tail.bytes_written())
    };
    let (log_syncs, commits) = engine.pipeline.counts();
    let all = engine.families.all();
    let families: Vec<FamilyStats> = all.iter().map(|family| of_family(engine, family)).collect();
    let mut totals = *engine.dropped_totals.lock();
    for family in &all {
        totals += family.counters.totals();
    }
    let work = background.counts();
    let (write_stalls, delayed_nanos) = engine.pipeline.stall.counts();
    let levels = || families.iter().flat_map(|family| &family.levels);
    Stats {
        sequence: engine.visible(),
        log_segments,
        log_bytes,
        log_bytes_written,
        log_syncs,
        commits,
        snapshots: snapshots(engine),
        live_snapshots: engine.snapshots.list().len(),
        prepared: engine.pipeline.prepared.count(),
        user_bytes_written: user_bytes(totals.committed),
        transaction_bytes: engine.transaction_bytes(),
        cache: of_cache(engine),
        memory: of_memory(engine),
        tables: levels().map(|level| level.files).sum(),
        data_bytes: levels().map(|level| level.bytes + level.vlog_bytes).sum(),
        open_tables: engine.files.tables.open_count(),
        open_tables_max: engine.files.tables.open_max(),
        sealed_memtables: families.iter().map(|family| family.sealed_memtables).sum(),
        flushes_queued: work.flushes_queued,
        flushes_running: work.flushes_running,
        merges_queued: work.merges_queued,
        merges_running: work.merges_running,
        flushes: totals.flushes,
        flush_bytes_written: totals.flush_bytes_written,
        merges: totals.merges,
        merge_bytes_read: totals.merge_bytes_read,
        merge_bytes_written: totals.merge_bytes_written,
        values: of_value_log(engine, totals.value_bytes_copied),
        write_stalls,
        write_delay: Duration::from_nanos(delayed_nanos),
        disk_free_bytes: engine.pipeline.disk.free_bytes(),
        families,
    }
}

/// Numbers about all value files that the manifest names.
fn of_value_log(engine: &Engine, copied_bytes: u64) -> ValueStats {
    let manifest = engine.manifest.lock();
    let mut totals = ValueStats {
        copied_bytes,
        ..ValueStats::default()
    };
    for state in manifest.state().value_files().values() {
        totals.files += 1;
        totals.bytes += state.meta.file_bytes;
        totals.live_bytes += state.live_bytes.min(state.meta.file_bytes);
    }
    totals
}

fn user_bytes(committed: CommitSizes) -> u64 {
    committed.key_bytes + committed.value_bytes
}

fn of_cache(engine: &Engine) -> CacheStats {
    let usage = engine.files.blocks.usage();
    CacheStats {
        enabled: usage.capacity_bytes > 0,
        entries: usage.entries,
        bytes: usage.bytes,
        capacity_bytes: usage.capacity_bytes,
        hits: usage.hits,
        misses: usage.misses,
        shards: usage.shards,
    }
}

fn of_memory(engine: &Engine) -> MemoryStats {
    let memory = &engine.pipeline.memory;
    let of = |account| memory.budget.of(account) as u64;
    MemoryStats {
        memtable_bytes: of(Account::Memtables),
        kept_bytes: of(Account::Kept),
        cache_bytes: of(Account::Cache),
        table_bytes: of(Account::Tables),
        transaction_bytes: of(Account::Transactions),
        buffer_bytes: of(Account::Buffers),
        limit_bytes: memory.plan.limit_bytes as u64,
        pressure: pressure_of(memory.share_used(0)),
    }
}

fn pressure_of(share_used: f64) -> MemoryPressure {
    match (share_used * 4.0) as usize {
        0 | 1 => MemoryPressure::Normal,
        2 => MemoryPressure::Elevated,
        3 => MemoryPressure::High,
        _ => MemoryPressure::Critical,
    }
}

fn snapshots(engine: &Engine) -> Vec<SnapshotStats> {
    let now = engine.env.monotonic_nanos();
    let listed = engine.snapshot_list.all().into_iter();
    listed
        .map(|snapshot| SnapshotStats {
            name: snapshot.name.as_deref().map(str::to_owned),
            sequence: snapshot.sequence,
            age: Duration::from_nanos(now.saturating_sub(snapshot.taken_at_nanos)),
        })
        .collect()
}

/// Numbers about one family.
pub(super) fn of_family(engine: &Engine, family: &Family) -> FamilyStats {
    let current = family.load_full();
    let levels = levels_of(&current, engine.unix_seconds());
    let memtable_bytes: usize = current.memories().map(|memory| memory.table.bytes()).sum();
    let memtable_entries: u64 = current
        .memories()
        .map(|memory| memory.table.entries() as u64)
        .sum();
    let table_entries: u64 = levels.iter().map(|level| level.entries).sum();
    let table_bytes: u64 = levels
        .iter()
        .map(|level| level.bytes + level.vlog_bytes)
        .sum();
    let totals = family.counters.totals();
    let averages = estimate::averages(&current, totals.committed);
    let (density, density_level) = densest_table(&current);
    let deeper = levels
        .iter()
        .skip(1)
        .filter(|level| level.files > 0)
        .count();
    let hooks = family.hooks.counts();
    let values = vlog::of_family(engine, family);
    let read_amplification =
        (level_one_runs(&current.version, &family.order) + deeper).max(1) as f64;
    FamilyStats {
        name: family.name(),
        memtable_bytes,
        memtable_entries,
        memtable_tombstones: current.memories().map(|memory| memory.tombstones()).sum(),
        sealed_memtables: current.sealed.len(),
        entries: memtable_entries + table_entries,
        tombstones: levels.iter().map(|level| level.tombstones).sum(),
        keys_estimate: estimate::live_keys(&current),
        data_bytes: memtable_bytes as u64 + table_bytes,
        key_bytes_average: averages.key_bytes,
        value_bytes_average: averages.value_bytes,
        read_amplification,
        tombstone_density_max: density,
        tombstone_density_max_level: density_level,
        user_bytes_written: user_bytes(totals.committed),
        log_bytes_written: totals.committed.log_bytes,
        flushes: totals.flushes,
        flush_bytes_written: totals.flush_bytes_written,
        merges: totals.merges,
        merge_bytes_read: totals.merge_bytes_read,
        merge_bytes_written: totals.merge_bytes_written,
        dropped: totals.dropped,
        values: ValueStats {
            files: values.files,
            bytes: values.bytes,
            live_bytes: values.listed_bytes,
            copied_bytes: totals.value_bytes_copied,
        },
        levels,
        commit_hook_calls: hooks.calls,
        commit_hook_failures: hooks.failures,
        commit_hook_last_failure: hooks.last_failure,
    }
}

/// Level 1 and all down to the last with tables. `now`: in Unix seconds.
fn levels_of(current: &SuperVersion, now: u64) -> Vec<LevelStats> {
    let level_of = |number: u8| {
        let totals = current.version.level_totals(number);
        LevelStats {
            level: usize::from(number),
            files: totals.tables,
            bytes: totals.file_bytes,
            entries: totals.entries,
            tombstones: totals.tombstones,
            tombstone_age: totals
                .tombstones_since
                .map(|since| Duration::from_secs(now.saturating_sub(since))),
            vlog_bytes: totals.value_bytes,
        }
    };
    (1..=current.version.depth().max(1)).map(level_of).collect()
}

/// The largest share of tombstones of a table, and its level.
fn densest_table(current: &SuperVersion) -> (f64, usize) {
    let mut densest = (0.0, 0);
    for (level, table) in current.version.tables() {
        let density = table.tombstones as f64 / table.entries.max(1) as f64;
        if density > densest.0 {
            densest = (density, usize::from(level));
        }
    }
    densest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_rises_by_quarters_of_the_room() {
        let pressures = [0.0, 0.49, 0.5, 0.74, 0.75, 0.99, 1.0, 4.0].map(pressure_of);
        use MemoryPressure::{Critical, Elevated, High, Normal};
        assert_eq!(
            pressures,
            [
                Normal, Normal, Elevated, Elevated, High, High, Critical, Critical
            ]
        );
        assert_eq!(pressure_of(f64::NAN), Normal);
    }
}
