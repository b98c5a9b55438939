//! What was written since the open is brought into the block cache when the database is idle, while there is room for it.
//!
//! Tables are written past the cache: most of what a flush writes under load is merged away again before anybody reads it. Once
//! writing has ended, the first read of each block would fetch, check and decompress it, although it was in memory a moment
//! ago. So an idle database does that ahead, for tables of its own opening alone, which the system still has in its memory as a
//! rule: opening a database reads nothing that nobody asks for. Upper levels come first. Nothing leaves the cache for it, and
//! flushes and merges come before it.

use std::sync::Arc;

use kingtide_base::FileId;
use kingtide_env::sync::atomic::Ordering;
use kingtide_table::{CachedForm, cached_bytes_max};

use super::scheduler::Background;
use crate::{engine::Engine, family::Family};

/// With less than one part in so many of its room left, a cache counts as full.
const ROOM_DIVISOR: usize = 16;

impl Background {
    /// Brings new tables of `family` into the cache. What cannot be read is left to those who ask for it: they are told.
    pub(super) fn warm(&self, engine: &Engine, family: &Family) {
        if !wants_warming(engine, family) {
            return;
        }
        let goes_on = || {
            // Relaxed: hints.
            !family.is_dropped()
                && !self.are_merges_stopped()
                && self.flushes_waiting.load(Ordering::Relaxed) == 0
                && self.merges_waiting.load(Ordering::Relaxed) == 0
        };
        let next = engine.files.next_id();
        let first = first_cold(engine, family);
        // Not the memtables beside it: they would live for as long as this takes.
        let version = Arc::clone(&family.load().version);
        let cold = || {
            let tables = version.tables().map(|(_, meta)| meta);
            tables.filter(|meta| meta.file >= first)
        };
        let (tables, blocks) = (&engine.files.tables, &engine.files.blocks);
        let usage = blocks.usage();
        let wanted_bytes: u64 = cold().map(|meta| cached_bytes_max(meta)).sum();
        let form = match usage.bytes as u64 + wanted_bytes <= usage.limit_bytes as u64 {
            true => CachedForm::RawWithRoom,
            // More blocks fit into it like this.
            false => CachedForm::Stored,
        };
        for meta in cold().take(tables.open_max()) {
            let Ok(table) = tables.get(meta, &family.order) else {
                continue;
            };
            if !table.warm((blocks, form), goes_on).unwrap_or(true) {
                break;
            }
        }
        if goes_on() {
            family.set_warmed(next);
        }
    }
}

/// Whether there are new tables, and room for some of them.
pub(super) fn wants_warming(engine: &Engine, family: &Family) -> bool {
    let usage = engine.files.blocks.usage();
    let first = first_cold(engine, family);
    usage.bytes < usage.limit_bytes - usage.limit_bytes / ROOM_DIVISOR
        && family
            .load()
            .version
            .tables()
            .any(|(_, meta)| meta.file >= first)
}

/// Tables of `family` from this number on are of this opening, and were not brought into the cache yet.
fn first_cold(engine: &Engine, family: &Family) -> FileId {
    engine.files.first_new().max(family.warmed())
}
