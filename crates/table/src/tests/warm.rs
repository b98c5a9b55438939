//! Tables that come into the cache before anybody asks for them.

use std::{cell::Cell, sync::Arc};

use kingtide_base::{FileId, KeyOrder, SeqNo, StorageError};
use kingtide_collections::BlockCache;
use kingtide_format::{CodecId, TableMeta};

use super::model::{Entry, World, half_random_entries};
use crate::{CachedForm, Table, TableSettings, cached_bytes_max};

const KEYS: usize = 4000;
const VALUE_BYTES: usize = 100;
/// What the cache and the block itself add to the bytes of each.
const CACHE_ENTRY_BYTES_MAX: usize = 512;
const ROOMY_BYTES: usize = 1 << 20;

/// A table of blocks of a kilobyte whose values compress to a half, and what is in it.
struct Warmed {
    world: World,
    settings: TableSettings,
    entries: Vec<Entry>,
    meta: TableMeta,
}

impl Warmed {
    fn new(file: FileId) -> Self {
        let world = World::new();
        let settings = TableSettings {
            block_bytes: 1000,
            codec: CodecId::Lz4,
            filter_fpr: None,
            order: KeyOrder::BYTEWISE,
        };
        let entries = half_random_entries(KEYS, file.0);
        let meta = world.build(file, &settings, &entries);
        Self {
            world,
            settings,
            entries,
            meta,
        }
    }

    fn open(&self) -> Arc<Table> {
        let table = self.world.open(&self.meta, &self.settings.order);
        table.expect("intact")
    }

    /// Reads every entry; how many blocks had to be fetched.
    fn misses_of_reading(&self, table: &Table, cache: &BlockCache<crate::Block>) -> u64 {
        let before = cache.usage().misses;
        for entry in &self.entries {
            let found = table.get(&entry.key, None, SeqNo::MAX, cache);
            assert!(entry.is(&found.expect("intact").expect("there")));
        }
        cache.usage().misses - before
    }
}

/// Goal: a table that was warmed is read without a look at its file, in the form that was asked for, and a second time brings
/// nothing.
#[test]
fn a_warm_table_is_read_from_the_cache() {
    let warmed = Warmed::new(FileId(1));
    let raw_bytes = KEYS * VALUE_BYTES;
    for (form, is_raw) in [(CachedForm::RawWithRoom, true), (CachedForm::Stored, false)] {
        let (table, cache) = (warmed.open(), BlockCache::new(ROOMY_BYTES));
        assert!(table.warm((&cache, form), || true).expect("intact"));
        let usage = cache.usage();
        assert_eq!(usage.entries, table.fences.blocks());
        assert_eq!(usage.bytes > raw_bytes, is_raw, "{usage:?}");
        let expected_max = cached_bytes_max(&warmed.meta) as usize;
        assert!(
            expected_max > raw_bytes,
            "of values that compress to a half"
        );
        let of_the_cache = usage.entries * CACHE_ENTRY_BYTES_MAX;
        assert!(usage.bytes < expected_max + of_the_cache, "{usage:?}");
        assert_eq!(warmed.misses_of_reading(&table, &cache), 0);
        assert!(table.warm((&cache, form), || true).expect("intact"));
        let again = cache.usage();
        assert_eq!((again.entries, again.bytes), (usage.entries, usage.bytes));
    }
}

/// Goal: warming ends where there is no room, and nothing that is cached leaves for it; it ends too when it is told to.
#[test]
fn nothing_leaves_the_cache_for_a_table_that_is_warmed() {
    let (present, newcomer) = (Warmed::new(FileId(1)), Warmed::new(FileId(2)));
    // One shard, with room for the stored blocks of one table and some of another.
    let cache = BlockCache::new(500 << 10);
    let (first, second) = (present.open(), newcomer.open());
    let form = CachedForm::Stored;
    assert!(first.warm((&cache, form), || true).expect("intact"));
    let before = cache.usage();
    assert!(!second.warm((&cache, form), || true).expect("intact"));
    let after = cache.usage();
    let blocks = second.fences.blocks();
    assert!((before.entries + 1..before.entries + blocks).contains(&after.entries));
    assert!(after.bytes <= after.limit_bytes);
    assert_eq!(present.misses_of_reading(&first, &cache), 0);

    let (third, roomy) = (present.open(), BlockCache::new(ROOMY_BYTES));
    let left = Cell::new(5);
    let goes_on = || left.replace(left.get() - 1) > 0;
    assert!(!third.warm((&roomy, form), goes_on).expect("intact"));
    assert_eq!(roomy.usage().entries, 5);
}

/// Goal: a damaged block ends the warming of its table, and is no block of the cache.
#[test]
fn damaged_blocks_are_not_warmed() {
    let warmed = Warmed::new(FileId(1));
    let table = warmed.open();
    let middle = table.fences.blocks() / 2;
    let offset = table.fences.extent(middle).start + 40;
    let path = World::path(warmed.meta.file);
    assert!(warmed.world.env.corrupt(&path, offset, |byte| *byte ^= 1));
    let cache = BlockCache::new(ROOMY_BYTES);
    let told = table.warm((&cache, CachedForm::Stored), || true);
    assert!(matches!(told, Err(StorageError::Corruption(_))), "{told:?}");
    assert_eq!(cache.usage().entries, middle);
}
