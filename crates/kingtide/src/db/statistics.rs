//! Gathers the numbers of `Stats`.

use std::time::Duration;

use crate::{
    engine::{Counters, Engine},
    family::Family,
    stats::{FamilyStats, LevelStats, SnapshotStats, Stats},
};

/// Numbers about the database.
pub(super) fn of_database(engine: &Engine) -> Stats {
    let (log_segments, log_bytes, log_bytes_written) = {
        let state = engine.pipeline.order.lock();
        let (segments, bytes) = state.log.tail.size();
        (segments, bytes, state.log.tail.bytes_written())
    };
    let (log_syncs, commits) = engine.pipeline.counts();
    let cache = engine.files.blocks.usage();
    Stats {
        families: engine
            .families
            .all()
            .iter()
            .map(|family| of_family(family))
            .collect(),
        sequence: engine.visible(),
        log_segments,
        log_bytes,
        log_bytes_written,
        log_syncs,
        commits,
        snapshots: snapshots(engine),
        live_snapshots: engine.snapshots.list().len(),
        prepared: engine.pipeline.prepared.count(),
        transaction_bytes: engine.transaction_bytes(),
        cache_bytes: cache.bytes,
        cache_capacity_bytes: cache.capacity_bytes,
        cache_hits: cache.hits,
        cache_misses: cache.misses,
        open_tables: engine.files.tables.open_count(),
        flushes: Counters::get(&engine.counters.flushes),
        merges: Counters::get(&engine.counters.merges),
        table_bytes_written: Counters::get(&engine.counters.table_bytes_written),
        write_stalls: engine.pipeline.stall.count(),
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
pub(super) fn of_family(family: &Family) -> FamilyStats {
    let current = family.load();
    let levels = (1..=current.version.depth().max(1)).map(|number| {
        let totals = current.version.level_totals(number);
        LevelStats {
            level: usize::from(number),
            files: totals.tables,
            bytes: totals.file_bytes,
            entries: totals.entries,
            tombstones: totals.tombstones,
            vlog_bytes: totals.value_bytes,
        }
    });
    let hooks = family.hooks.counts();
    FamilyStats {
        name: family.name(),
        memtable_bytes: current.memories().map(|memory| memory.table.bytes()).sum(),
        memtable_entries: current
            .memories()
            .map(|memory| memory.table.entries() as u64)
            .sum(),
        sealed_memtables: current.sealed.len(),
        levels: levels.collect(),
        commit_hook_calls: hooks.calls,
        commit_hook_failures: hooks.failures,
        commit_hook_last_failure: hooks.last_failure,
    }
}
