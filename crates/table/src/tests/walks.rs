//! What walks read at once, and what they leave behind in the cache.

use std::{path::Path, sync::Arc};

use kingtide_base::{Cursor, FileId, KeyOrder};
use kingtide_collections::BlockCache;
use kingtide_env::{Env, FaultyEnv};
use kingtide_format::{CodecId, TableMeta};

use super::model::{Entry, Random, World, reads_so_far};
use crate::{CursorUse, LevelCursor, TableCache, TableSettings};

/// One shard, so that a full cache is full everywhere.
const CACHE_BYTES: usize = 256 << 10;
/// The largest block, with what the cache adds to it.
const BLOCK_BYTES_MAX: usize = 1500;
const ENTRIES: usize = 4000;

/// A level of four tables with more than twice the bytes of the cache, and what is in it.
struct Level {
    env: FaultyEnv,
    entries: Vec<Entry>,
    tables: Arc<TableCache>,
    metas: Vec<Arc<TableMeta>>,
    cache: Arc<BlockCache<crate::Block>>,
}

impl Level {
    fn new() -> Self {
        let random = &mut Random(7);
        let entries: Vec<Entry> = (0..ENTRIES)
            .map(|number| {
                let key = format!("key{number:05}");
                Entry::put(key.as_bytes(), number as u64 + 1, &random.bytes(120))
            })
            .collect();
        let settings = TableSettings {
            block_bytes: 1000,
            codec: CodecId::None,
            filter_fpr: None,
            order: KeyOrder::BYTEWISE,
        };
        let world = World::new();
        let tables = entries.chunks(ENTRIES / 4).zip(1..);
        let metas: Vec<_> = tables
            .map(|(entries, id)| Arc::new(world.build(FileId(id), &settings, entries)))
            .collect();
        let env = FaultyEnv::new(Arc::new(world.env));
        let directory = env
            .open_directory(Path::new("/klog"), false)
            .expect("it is there");
        Self {
            env,
            entries,
            tables: Arc::new(TableCache::new(directory, 16)),
            metas,
            cache: Arc::new(BlockCache::new(CACHE_BYTES)),
        }
    }

    fn cursor(&self, cursor_use: CursorUse) -> LevelCursor {
        let (tables, cache) = (Arc::clone(&self.tables), Arc::clone(&self.cache));
        let metas = Arc::new(self.metas.clone());
        LevelCursor::new(metas, tables, cache, KeyOrder::BYTEWISE, cursor_use)
    }

    /// Walks over everything with a new cursor and compares it.
    fn walk(&self, is_forward: bool) {
        let mut cursor = self.cursor(CursorUse::Read);
        let mut seen = Vec::new();
        if is_forward {
            cursor.seek_first().expect("intact");
        } else {
            cursor.seek_last().expect("intact");
        }
        while cursor.is_valid() {
            seen.push(Entry::at(&mut cursor).expect("intact"));
            if is_forward {
                cursor.next().expect("intact");
            } else {
                cursor.prev().expect("intact");
            }
        }
        if !is_forward {
            seen.reverse();
        }
        assert!(seen == self.entries);
    }

    /// How many reads a new cursor asks the file for when it goes from entry `start` over `count` entries.
    fn reads_of_range(&self, start: usize, count: usize) -> u64 {
        let before = reads_so_far(&self.env);
        let mut cursor = self.cursor(CursorUse::Read);
        cursor.seek(&self.entries[start].key).expect("intact");
        for (number, entry) in self.entries[start..start + count].iter().enumerate() {
            if number > 0 {
                cursor.next().expect("intact");
            }
            assert_eq!(Entry::at(&mut cursor).expect("intact"), *entry);
        }
        reads_so_far(&self.env) - before
    }

    fn cached_bytes(&self) -> usize {
        self.cache.usage().bytes
    }
}

/// Goal: a walk over everything brings one part in 128 of the cache's size into it and no more, over all the tables of a
/// level, in both directions; what it meets in the cache does not count, so that the next walk brings as much again.
#[test]
fn each_walk_brings_a_128th_of_the_cache() {
    for is_forward in [true, false] {
        let level = Level::new();
        for walk in 1..=4 {
            level.walk(is_forward);
            let (least, most) = (walk * CACHE_BYTES / 128, walk * (CACHE_BYTES / 128));
            let cached = level.cached_bytes();
            eprintln!("forward {is_forward}, walk {walk}: {cached} bytes");
            // A block is charged with a little more than its memory, which is what a walk counts.
            assert!(cached > least && cached < most * 6 / 5 + walk * BLOCK_BYTES_MAX);
        }
    }
}

/// Goal: cursors read several blocks at once from the first one on, also those that are made for one range each, where those
/// before them walked on; where those jumped, they read single blocks. Method: without a cache, the reads of ranges over some
/// blocks of one table and of single entries are counted.
#[test]
fn what_cursors_did_tells_how_many_blocks_are_read_at_first() {
    let level = Level {
        cache: Arc::new(BlockCache::new(0)),
        ..Level::new()
    };
    let reads_of_range = |turn: usize| level.reads_of_range(turn * 241 % 900, 17);
    level.reads_of_range(0, 1);
    assert_eq!(
        reads_of_range(0),
        3,
        "two blocks, and a piece for the others"
    );
    for turn in 0..20 {
        reads_of_range(turn);
    }
    assert_eq!(reads_of_range(20), 1);
    for turn in 0..30 {
        assert_eq!(level.reads_of_range(turn * 241 % 900, 1), 1);
    }
    assert_eq!(reads_of_range(20), 3, "most readers of late did not go on");
}

/// Goal: a cursor that jumps fills the cache as point reads do, however many blocks it has brought.
#[test]
fn jumps_fill_the_cache() {
    let level = Level::new();
    let random = &mut Random(1);
    let mut cursor = level.cursor(CursorUse::Read);
    for _ in 0..ENTRIES {
        let entry = &level.entries[random.below(ENTRIES)];
        cursor.seek(&entry.key).expect("intact");
        assert_eq!(Entry::at(&mut cursor).expect("intact"), *entry);
    }
    assert!(level.cached_bytes() > CACHE_BYTES * 9 / 10);
}

/// Goal: a scan leaves the cache as it is.
#[test]
fn scans_bring_nothing() {
    let level = Level::new();
    let mut cursor = level.cursor(CursorUse::Scan);
    cursor.seek_first().expect("intact");
    for entry in &level.entries {
        assert_eq!(Entry::at(&mut cursor).expect("intact"), *entry);
        cursor.next().expect("intact");
    }
    assert!(!cursor.is_valid());
    assert_eq!(level.cached_bytes(), 0);
}
