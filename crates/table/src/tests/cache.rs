//! The bounded number of open tables.

use std::io;
use std::path::Path;
use std::sync::Arc;

use kingtide_base::{Cursor, FileId, KeyOrder, SeqNo, StorageError};
use kingtide_collections::BlockCache;
use kingtide_env::sync::atomic::{AtomicU64, Ordering};
use kingtide_env::{Directory, DirectoryEntry, File, FileLock, OpenMode};
use kingtide_format::{CodecId, TableMeta};

use super::model::{Entry, Random, World, cache, half_random_entries};
use crate::{CursorUse, Table, TableCache, TableSettings};

fn tables(world: &World, count: u64) -> Vec<TableMeta> {
    let settings = TableSettings {
        block_bytes: 4096,
        codec: CodecId::None,
        filter_fpr: None,
        order: KeyOrder::BYTEWISE,
    };
    (1..=count)
        .map(|id| {
            let entries = [Entry::put(format!("key {id}").as_bytes(), id, b"value")];
            world.build(FileId(id), &settings, &entries)
        })
        .collect()
}

#[test]
fn idle_tables_are_closed_at_the_limit() {
    let world = World::new();
    let metas = tables(&world, 10);
    let order = KeyOrder::BYTEWISE;
    let open = TableCache::new(Arc::clone(&world.directory), 3);
    for meta in metas.iter().chain(&metas) {
        let table = open.get(meta, &order).expect("intact");
        assert_eq!(table.meta(), meta);
        assert!(open.open_count() <= 3);
    }
    assert_eq!(open.open_count(), 3);
}

#[test]
fn tables_in_use_are_not_closed() {
    let world = World::new();
    let metas = tables(&world, 6);
    let order = KeyOrder::BYTEWISE;
    let open = TableCache::new(Arc::clone(&world.directory), 2);
    let held: Vec<_> = metas[..5]
        .iter()
        .map(|meta| open.get(meta, &order).expect("intact"))
        .collect();
    assert_eq!(open.open_count(), 5);
    for (meta, table) in metas.iter().zip(&held) {
        let again = open.get(meta, &order).expect("intact");
        assert!(Arc::ptr_eq(&again, table), "one table, one handle");
    }
    drop(held);
    open.get(&metas[5], &order).expect("intact");
    assert!(open.open_count() <= 2);
}

#[test]
fn forgotten_tables_are_opened_again() {
    let world = World::new();
    let metas = tables(&world, 2);
    let order = KeyOrder::BYTEWISE;
    let open = TableCache::new(Arc::clone(&world.directory), 8);
    let held = open.get(&metas[0], &order).expect("intact");
    open.forget(FileId(1));
    open.forget(FileId(99));
    assert_eq!(open.open_count(), 0);
    let found = held.get(b"key 1", None, SeqNo::MAX, &cache());
    assert!(found.expect("still readable").is_some());
    world.directory.remove("000001.klog").expect("there");
    assert!(matches!(
        open.get(&metas[0], &order),
        Err(StorageError::Io {
            operation: "open",
            ..
        })
    ));
    open.get(&metas[1], &order).expect("intact");
}

/// A directory that has no file handle to give for a number of calls.
#[derive(Debug)]
struct Exhausted {
    inner: Arc<dyn Directory>,
    refusals: AtomicU64,
}

impl Directory for Exhausted {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn open_directory(&self, name: &str, create: bool) -> io::Result<Arc<dyn Directory>> {
        self.inner.open_directory(name, create)
    }
    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        self.inner.list()
    }
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let left = self.refusals.load(Ordering::SeqCst);
        if left > 0 {
            self.refusals.store(left - 1, Ordering::SeqCst);
            return Err(io::Error::from_raw_os_error(24));
        }
        self.inner.open(name, mode)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
    fn remove_directory(&self, name: &str) -> io::Result<()> {
        self.inner.remove_directory(name)
    }
    fn link(&self, name: &str, target: &dyn Directory, to: &str) -> io::Result<()> {
        self.inner.link(name, target, to)
    }
    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
    fn lock(&self, name: &str) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock(name)
    }
    fn available_bytes(&self) -> io::Result<u64> {
        self.inner.available_bytes()
    }
}

/// Goal: running out of file handles closes idle tables and is survived once. Method: one refusal, then two.
#[test]
fn no_file_handle_left_closes_idle_tables() {
    let world = World::new();
    let metas = tables(&world, 8);
    let order = KeyOrder::BYTEWISE;
    let directory = Arc::new(Exhausted {
        inner: Arc::clone(&world.directory),
        refusals: AtomicU64::new(0),
    });
    let open = TableCache::new(Arc::clone(&directory) as Arc<dyn Directory>, 100);
    for meta in &metas[..6] {
        open.get(meta, &order).expect("intact");
    }
    directory.refusals.store(1, Ordering::SeqCst);
    open.get(&metas[6], &order).expect("the second try");
    assert_eq!(open.open_count(), 3 + 1);
    directory.refusals.store(2, Ordering::SeqCst);
    assert!(open.get(&metas[7], &order).is_err());
}

/// Goal: threads share tables without losing one. Method: four threads look tables up at random under a small limit.
#[test]
fn threads_share_the_open_tables() {
    let world = World::new();
    let metas = tables(&world, 40);
    let open = TableCache::new(Arc::clone(&world.directory), 5);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (open, metas) = (&open, &metas);
            scope.spawn(move || {
                let mut random = Random(seed);
                let order = KeyOrder::BYTEWISE;
                for _ in 0..500 {
                    let meta = &metas[random.below(metas.len())];
                    if random.one_in(20) {
                        open.forget(meta.file);
                    }
                    let table = open.get(meta, &order).expect("intact");
                    assert_eq!(table.meta(), meta);
                }
            });
        }
    });
    // Opening one more, with nobody else there, brings the count back to the limit.
    open.forget(metas[0].file);
    open.get(&metas[0], &KeyOrder::BYTEWISE).expect("intact");
    assert!(open.open_count() <= 5);
    for meta in &metas {
        open.forget(meta.file);
    }
    assert_eq!(open.open_count(), 0);
}

/// A table of so many entries whose values compress to a half, in blocks of 4 KiB.
fn half_random_table(keys: usize) -> (Vec<Entry>, Arc<Table>) {
    let world = World::new();
    let settings = TableSettings {
        block_bytes: 4096,
        codec: CodecId::Lz4,
        filter_fpr: None,
        order: KeyOrder::BYTEWISE,
    };
    let entries = half_random_entries(keys, 11);
    let meta = world.build(FileId(1), &settings, &entries);
    let table = world.open(&meta, &settings.order).expect("intact");
    (entries, table)
}

/// Goal: cached blocks have raw values while there is room for them, and their stored ones when there is not; gets answer the
/// same. Method: every key of a table that compresses to a half, with a cache that has room for all raw values, and with one that
/// has not; three times.
#[test]
fn values_are_cached_raw_while_there_is_room() {
    const KEYS: usize = 4000;
    let (entries, table) = half_random_table(KEYS);
    let raw_bytes = KEYS * 100;
    for cache_bytes in [1 << 20, 330 << 10] {
        let cache = BlockCache::new(cache_bytes);
        for _ in 0..3 {
            for entry in &entries {
                let found = table.get(&entry.key, None, SeqNo::MAX, &cache);
                let found = found.expect("intact").expect("there");
                assert!(entry.is(&found));
            }
        }
        let usage = cache.usage();
        eprintln!("{cache_bytes}: {usage:?}");
        let is_raw = usage.bytes > raw_bytes;
        assert_eq!(is_raw, cache_bytes > raw_bytes);
        let blocks = usage.entries;
        assert!(
            usage.misses as usize <= 3 * blocks,
            "all of them come to be held"
        );
    }
}

/// Goal: a block that is asked for again and again has raw values in a full cache too, others keep their stored form, and gets and
/// walks answer the same. Method: a cache that is too small for all stored blocks; one key is got two hundred times, then each of them is.
#[test]
fn hot_blocks_get_raw_values_in_a_full_cache() {
    const KEYS: usize = 4000;
    const CACHE_BYTES: usize = 200 << 10;
    let (entries, table) = half_random_table(KEYS);
    let cache = BlockCache::new(CACHE_BYTES);
    let get = |index: usize| {
        let found = table.get(&entries[index].key, None, SeqNo::MAX, &cache);
        assert!(entries[index].is(&found.expect("intact").expect("there")));
    };
    for _ in 0..3 {
        (0..KEYS).for_each(get);
    }
    let block_of = |index: usize| {
        table
            .fences
            .first_at_or_after(&KeyOrder::BYTEWISE, &entries[index].key)
    };
    // Looks without counting as use.
    let raw_bytes = |block: usize| {
        let key = (table.meta.file, table.fences.extent(block).start);
        let cached = cache.get(&key)?;
        cached.raw_values().map(|_| cached.memory_bytes())
    };
    let hot = KEYS / 2;
    (0..200).for_each(|_| get(hot));
    assert!(raw_bytes(block_of(hot)).is_some());
    assert!(raw_bytes(block_of(0)).is_none());
    for index in 0..KEYS {
        (0..200).for_each(|_| get(index));
    }
    let raw: usize = (0..table.fences.blocks()).filter_map(raw_bytes).sum();
    // A fourth for hot ones, and those that came when one of these had just left room.
    assert!(0 < raw && raw < CACHE_BYTES / 2, "{raw} bytes");
    assert!(cache.usage().bytes <= CACHE_BYTES);
    let mut cursor = table.cursor(&Arc::new(cache), CursorUse::Read);
    cursor.seek_first().expect("intact");
    for entry in &entries {
        assert_eq!(cursor.key(), entry.key);
        cursor.next().expect("intact");
    }
    assert!(!cursor.is_valid());
}
