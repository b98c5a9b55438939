//! How long the parts of a table take, in nanoseconds an entry: building, point reads with every block cached, absent
//! keys, seeks, scans. Keys of 16 bytes (a byte-reversed counter), values of 100 bytes. For a quick look while working on
//! this crate; what counts is measured by `kingtide-bench`.
//!
//! `cargo run --release -p kingtide-table --example table_timing`

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use kingtide_base::{
    Cursor, EntryKind, EntryRef, FileId, KeyOrder, SeqNo, StorageError, StorageResult, ValueRef,
};
use kingtide_collections::BlockCache;
use kingtide_env::{Directory, Env, File, MemoryEnv, OpenMode, PosixEnv};
use kingtide_format::{CodecId, TableMeta, block::DataBlock};
use kingtide_table::{CursorUse, Table, TableBuilder, TableSettings};

const ENTRIES: u64 = 300_000;
const READS: u64 = 300_000;

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

/// Visits all numbers below `ENTRIES` in an order without a pattern.
fn shuffled(i: u64) -> u64 {
    i.wrapping_mul(7_368_787) % ENTRIES
}

struct Clock(PosixEnv);

impl Clock {
    fn time<T>(
        &self,
        what: &str,
        count: u64,
        body: impl FnOnce() -> StorageResult<T>,
    ) -> StorageResult<T> {
        let start = self.0.monotonic_nanos();
        let answer = body()?;
        let nanos = (self.0.monotonic_nanos() - start) as f64 / count as f64;
        let mut out = std::io::stdout().lock();
        writeln!(out, "  {what:<24} {nanos:>8.1} ns")
            .map_err(|error| StorageError::io("stdout", "write", error))?;
        Ok(answer)
    }
}

fn open(directory: &dyn Directory, name: &str, mode: OpenMode) -> StorageResult<Arc<dyn File>> {
    let file = directory.open(name, mode);
    file.map_err(|error| StorageError::io(name, "open", error))
}

/// Writes the table `id`, then opens it.
fn build(
    clock: &Clock,
    directory: &dyn Directory,
    id: u64,
    codec: CodecId,
) -> StorageResult<(TableMeta, Arc<Table>)> {
    let name = format!("{id}.klog");
    let settings = TableSettings {
        block_bytes: 4096,
        codec,
        filter_fpr: Some(0.01),
        order: KeyOrder::BYTEWISE,
    };
    let mut numbers: Vec<u64> = (0..ENTRIES).collect();
    numbers.sort_by_key(|number| key(*number));
    let file = open(directory, &name, OpenMode::CreateNew)?;
    let meta = clock.time("build", ENTRIES, || {
        let mut builder = TableBuilder::new(file, FileId(id), settings);
        let mut value = [0_u8; 100];
        for number in &numbers {
            for (i, byte) in (0_u64..).zip(&mut value) {
                *byte = (number + i) as u8;
            }
            builder.add(&EntryRef {
                key: &key(*number),
                sequence: SeqNo(1 + number / 1000),
                kind: EntryKind::Put,
                expires_at: 0,
                value: ValueRef::Inline(&value),
            })?;
        }
        builder.finish()
    })?;
    let file = open(directory, &name, OpenMode::Read)?;
    let table = clock.time("open, in all", 1, || {
        Table::open(file, name, &meta, KeyOrder::BYTEWISE).map(Arc::new)
    })?;
    Ok((meta, table))
}

fn measure_gets(clock: &Clock, table: &Table, cache: &BlockCache<DataBlock>) -> StorageResult<()> {
    let order = KeyOrder::BYTEWISE;
    let get_all = |with_filter: bool| {
        for i in 0..READS {
            let key = key(shuffled(i));
            let hash = order.hash(&key).filter(|_| with_filter);
            let found = table.get(&key, hash, SeqNo::MAX, cache)?;
            assert!(found.is_some());
        }
        Ok(())
    };
    clock.time("get, cold", READS, || get_all(true))?;
    clock.time("get, cached", READS, || get_all(true))?;
    clock.time("get, cached, no filter", READS, || get_all(false))?;
    clock.time("get, absent", READS, || {
        for i in 0..READS {
            let key = key(ENTRIES + i);
            let _ = table.get(&key, order.hash(&key), SeqNo::MAX, cache)?;
        }
        Ok(())
    })
}

fn measure_cursors(
    clock: &Clock,
    table: &Arc<Table>,
    cache: &Arc<BlockCache<DataBlock>>,
) -> StorageResult<()> {
    let mut cursor = table.cursor(cache, CursorUse::Read);
    clock.time("seek, cached", READS, || {
        (0..READS).try_for_each(|i| cursor.seek(&key(shuffled(i))))
    })?;
    for (what, cursor_use, with_values) in [
        ("scan keys, cached", CursorUse::Read, false),
        ("scan, cached", CursorUse::Read, true),
        ("scan, read ahead", CursorUse::Scan, true),
    ] {
        let mut cursor = table.cursor(cache, cursor_use);
        clock.time(what, ENTRIES, || {
            cursor.seek_first()?;
            let mut sum = 0_u64;
            while cursor.is_valid() {
                sum = sum.wrapping_add(u64::from(cursor.key()[0]) + cursor.sequence().0);
                if with_values && let ValueRef::Inline(value) = cursor.value()? {
                    sum += value.len() as u64;
                }
                cursor.next()?;
            }
            Ok(sum)
        })?;
    }
    Ok(())
}

fn measure(directory: &dyn Directory, id: u64, codec: CodecId) -> StorageResult<()> {
    let clock = Clock(PosixEnv::new());
    let (meta, table) = build(&clock, directory, id, codec)?;
    let cache = Arc::new(BlockCache::new(256 << 20));
    measure_gets(&clock, &table, &cache)?;
    measure_cursors(&clock, &table, &cache)?;
    clock.time("verify", ENTRIES, || table.verify(&mut |_| {}))?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "  {codec:?}: {:.2} bytes an entry in the file, {:.2} in memory",
        meta.file_bytes as f64 / ENTRIES as f64,
        table.memory_bytes() as f64 / ENTRIES as f64
    )
    .map_err(|error| StorageError::io("stdout", "write", error))
}

fn main() -> StorageResult<()> {
    let directory = MemoryEnv::new(1)
        .open_directory(Path::new("/klog"), true)
        .map_err(|error| StorageError::io("/klog", "open", error))?;
    for (codec, id) in [CodecId::None, CodecId::Lz4, CodecId::Snappy, CodecId::Zstd]
        .into_iter()
        .zip(1..)
    {
        measure(directory.as_ref(), id, codec)?;
    }
    Ok(())
}
