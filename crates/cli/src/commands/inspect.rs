//! `stats`, `verify` and `families`.

use comfy_table::{CellAlignment, Table, presets};
use kingtide::{Db, FamilyStats, LevelStats, SnapshotStats, Stats, ValueStats, VerifyReport};
use serde_json::{Value, json};

use crate::{
    args::{Directory, Global},
    commands::open_for_reading,
    failure::{Failure, Result},
    output::Output,
    text::{Escape, age, escape, size},
};

pub(super) fn stats(at: &Directory, global: &Global, output: &mut Output) -> Result<()> {
    let db = open_for_reading(&at.directory)?;
    if let Some(name) = &global.family {
        // A family that does not exist must be an error, not an empty answer.
        db.family(name)?;
    }
    print_stats(&db, global.family.as_deref(), output)
}

/// Prints the counters, and the shape of every family or of one.
pub(crate) fn print_stats(db: &Db, family: Option<&str>, output: &mut Output) -> Result<()> {
    let mut stats = db.stats()?;
    if let Some(name) = family {
        stats.families.retain(|candidate| candidate.name == name);
    }
    if output.json {
        return output.object(&stats_json(&stats));
    }
    for (name, value) in counters(&stats) {
        output.line(&format!("{name:<22}{value}"))?;
    }
    for snapshot in &stats.snapshots {
        let name = snapshot.name.as_deref().unwrap_or("without a name");
        let name = escape(name.as_bytes(), Escape::Field);
        let (sequence, age) = (snapshot.sequence, snapshot.age.as_secs());
        output.line(&format!(
            "{:<22}{name}, at {sequence}, {age} seconds old",
            "snapshot"
        ))?;
    }
    let mut table = new_table(&[
        "family",
        "level",
        "files",
        "size",
        "value files",
        "entries",
        "tombstones",
        "oldest",
    ]);
    for family in &stats.families {
        let name = escape(family.name.as_bytes(), Escape::Field);
        table.add_row(vec![
            name.clone(),
            "memory".into(),
            (family.sealed_memtables + 1).to_string(),
            size(family.memtable_bytes as u64),
            String::new(),
            family.memtable_entries.to_string(),
            family.memtable_tombstones.to_string(),
            String::new(),
        ]);
        for level in &family.levels {
            table.add_row(vec![
                name.clone(),
                level.level.to_string(),
                level.files.to_string(),
                size(level.bytes),
                size(level.vlog_bytes),
                level.entries.to_string(),
                level.tombstones.to_string(),
                level.tombstone_age.map(age).unwrap_or_default(),
            ]);
        }
    }
    output.line(&table.to_string())
}

fn values(values: &ValueStats) -> Value {
    json!({
        "files": values.files,
        "bytes": values.bytes,
        "live_bytes": values.live_bytes,
        "live_ratio": values.live_ratio(),
        "copied_bytes": values.copied_bytes,
    })
}

fn counters(stats: &Stats) -> Vec<(&'static str, String)> {
    let (cache, memory) = (&stats.cache, &stats.memory);
    let lookups = cache.hits + cache.misses;
    let hit_share = 100.0 * cache.hit_rate();
    let log = format!(
        "{} in {} segments",
        size(stats.log_bytes),
        stats.log_segments
    );
    let disk_free = stats.disk_free_bytes.map_or("unknown".into(), size);
    vec![
        ("sequence number", stats.sequence.to_string()),
        (
            "tables",
            format!("{}, {}", stats.tables, size(stats.data_bytes)),
        ),
        (
            "value log",
            format!(
                "{} in {} files, {:.0} % live; copied {}",
                size(stats.values.bytes),
                stats.values.files,
                100.0 * stats.values.live_ratio(),
                size(stats.values.copied_bytes)
            ),
        ),
        ("log", log),
        ("log written", size(stats.log_bytes_written)),
        ("log syncs", stats.log_syncs.to_string()),
        ("commits", stats.commits.to_string()),
        ("user bytes written", size(stats.user_bytes_written)),
        (
            "memory",
            format!(
                "{} of {}; memtables {}",
                size(memory.total_bytes()),
                size(memory.limit_bytes),
                size(memory.memtable_bytes)
            ),
        ),
        (
            "block cache",
            format!(
                "{} of {}",
                size(cache.bytes as u64),
                size(cache.capacity_bytes as u64)
            ),
        ),
        (
            "cache hits",
            format!("{} of {lookups} ({hit_share:.1} %)", cache.hits),
        ),
        ("open tables", stats.open_tables.to_string()),
        (
            "flushes, merges",
            format!("{}, {}", stats.flushes, stats.merges),
        ),
        ("flushes wrote", size(stats.flush_bytes_written)),
        ("merges read", size(stats.merge_bytes_read)),
        ("merges wrote", size(stats.merge_bytes_written)),
        (
            "write amplification",
            format!("{:.2}", stats.write_amplification()),
        ),
        ("write stalls", stats.write_stalls.to_string()),
        ("free on the device", disk_free),
    ]
}

fn stats_json(stats: &Stats) -> Value {
    json!({
        "sequence": stats.sequence.0,
        "log_segments": stats.log_segments,
        "log_bytes": stats.log_bytes,
        "log_bytes_written": stats.log_bytes_written,
        "log_syncs": stats.log_syncs,
        "commits": stats.commits,
        "user_bytes_written": stats.user_bytes_written,
        "tables": stats.tables,
        "data_bytes": stats.data_bytes,
        "memory": memory_json(stats),
        "cache": cache_json(stats),
        "open_tables": stats.open_tables,
        "open_tables_max": stats.open_tables_max,
        "sealed_memtables": stats.sealed_memtables,
        "flushes_queued": stats.flushes_queued,
        "flushes_running": stats.flushes_running,
        "merges_queued": stats.merges_queued,
        "merges_running": stats.merges_running,
        "flushes": stats.flushes,
        "flush_bytes_written": stats.flush_bytes_written,
        "merges": stats.merges,
        "merge_bytes_read": stats.merge_bytes_read,
        "merge_bytes_written": stats.merge_bytes_written,
        "values": values(&stats.values),
        "write_amplification": stats.write_amplification(),
        "write_stalls": stats.write_stalls,
        "write_delay_seconds": stats.write_delay.as_secs_f64(),
        "snapshots": stats.snapshots.iter().map(snapshot_json).collect::<Vec<_>>(),
        "disk_free_bytes": stats.disk_free_bytes,
        "families": stats.families.iter().map(family_json).collect::<Vec<_>>(),
    })
}

fn snapshot_json(snapshot: &SnapshotStats) -> Value {
    json!({
        "name": snapshot.name,
        "sequence": snapshot.sequence.0,
        "age_seconds": snapshot.age.as_secs_f64(),
    })
}

fn memory_json(stats: &Stats) -> Value {
    let memory = &stats.memory;
    json!({
        "total_bytes": memory.total_bytes(),
        "memtable_bytes": memory.memtable_bytes,
        "cache_bytes": memory.cache_bytes,
        "table_bytes": memory.table_bytes,
        "transaction_bytes": memory.transaction_bytes,
        "kept_bytes": memory.kept_bytes,
        "buffer_bytes": memory.buffer_bytes,
        "limit_bytes": memory.limit_bytes,
        "pressure": format!("{:?}", memory.pressure).to_lowercase(),
    })
}

fn cache_json(stats: &Stats) -> Value {
    let cache = &stats.cache;
    json!({
        "enabled": cache.enabled,
        "entries": cache.entries,
        "bytes": cache.bytes,
        "capacity_bytes": cache.capacity_bytes,
        "hits": cache.hits,
        "misses": cache.misses,
        "hit_rate": cache.hit_rate(),
        "shards": cache.shards,
    })
}

fn family_json(family: &FamilyStats) -> Value {
    json!({
        "name": family.name,
        "memtable_bytes": family.memtable_bytes,
        "memtable_entries": family.memtable_entries,
        "memtable_tombstones": family.memtable_tombstones,
        "sealed_memtables": family.sealed_memtables,
        "entries": family.entries,
        "tombstones": family.tombstones,
        "keys_estimate": family.keys_estimate,
        "data_bytes": family.data_bytes,
        "key_bytes_average": family.key_bytes_average,
        "value_bytes_average": family.value_bytes_average,
        "read_amplification": family.read_amplification,
        "tombstone_age_sec": family.tombstone_age().map(|age| age.as_secs()),
        "tombstone_density_max": family.tombstone_density_max,
        "tombstone_density_max_level": family.tombstone_density_max_level,
        "user_bytes_written": family.user_bytes_written,
        "log_bytes_written": family.log_bytes_written,
        "flushes": family.flushes,
        "flush_bytes_written": family.flush_bytes_written,
        "merges": family.merges,
        "merge_bytes_read": family.merge_bytes_read,
        "merge_bytes_written": family.merge_bytes_written,
        "values": values(&family.values),
        "write_amplification": family.write_amplification(),
        "levels": family.levels.iter().map(level_json).collect::<Vec<_>>(),
    })
}

fn level_json(level: &LevelStats) -> Value {
    json!({
        "level": level.level,
        "files": level.files,
        "bytes": level.bytes,
        "entries": level.entries,
        "tombstones": level.tombstones,
        "tombstone_age_sec": level.tombstone_age.map(|age| age.as_secs()),
        "vlog_bytes": level.vlog_bytes,
    })
}

pub(super) fn verify(at: &Directory, output: &mut Output) -> Result<()> {
    let db = open_for_reading(&at.directory)?;
    let bar = output.progress(Some(0));
    let report = db.verify(&mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    print_verdict(&report?, output)
}

pub(super) fn print_verdict(report: &VerifyReport, output: &mut Output) -> Result<()> {
    if output.json {
        output.object(&json!({
            "files": report.files,
            "bytes": report.bytes,
            "entries": report.entries,
            "damages": report.damages,
        }))?;
    } else {
        for damage in &report.damages {
            output.line(&format!(
                "damaged: {}",
                escape(damage.as_bytes(), Escape::Field)
            ))?;
        }
        if report.damages.is_empty() && !output.quiet {
            output.line(&format!(
                "whole: {} files, {}, {} entries",
                report.files,
                size(report.bytes),
                report.entries
            ))?;
        }
    }
    match report.damages.len() {
        0 => Ok(()),
        count => Err(Failure::Damaged(count)),
    }
}

pub(super) fn families(at: &Directory, output: &mut Output) -> Result<()> {
    let db = open_for_reading(&at.directory)?;
    print_families(&db, output)
}

/// Prints the names of the families, one on a line.
pub(crate) fn print_families(db: &Db, output: &mut Output) -> Result<()> {
    for name in db.families() {
        if output.json {
            output.object(&json!({"family": name}))?;
        } else {
            output.line(&escape(name.as_bytes(), Escape::Field))?;
        }
    }
    Ok(())
}

/// A table with a header line, names to the left and numbers to the right.
pub(super) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
