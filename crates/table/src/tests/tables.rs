//! Builder, reader and cursors against the model.

use std::sync::Arc;

use kingtide_base::{Cursor, FileId, KeyOrder, SeqNo};
use kingtide_collections::BatchedCursor;
use kingtide_format::{CodecId, OldestTombstone};

use super::model::{
    CODECS, Entry, ORDERS, Random, Value, World, cache, find, order_named, probe, random_entries,
    sort,
};
use crate::{CursorUse, LevelCursor, TableCache, TableSettings};

fn settings(random: &mut Random, order: &KeyOrder) -> TableSettings {
    TableSettings {
        block_bytes: [1, 300, 1000, 4096, 1 << 20][random.below(5)],
        codec: CODECS[random.below(CODECS.len())],
        filter_fpr: [None, Some(0.01)][random.below(2)],
        order: order.clone(),
    }
}

/// Runs `case` for every order and many seeds; a failure names both.
fn for_many_cases(seeds: u64, case: impl Fn(&mut Random, &KeyOrder)) {
    for name in ORDERS {
        let order = order_named(name);
        for seed in 0..seeds {
            eprintln!("order {name}, seed {seed}");
            case(&mut Random(seed), &order);
        }
    }
}

/// Goal: a point read finds the newest version at its snapshot and nothing else. Method: keys of the table and keys
/// close to them, at random snapshots, against a linear search.
#[test]
fn point_reads_agree_with_the_model() {
    for_many_cases(40, |random, order| {
        let entries = random_entries(random, order);
        let world = World::new();
        let meta = world.build(FileId(7), &settings(random, order), &entries);
        let table = world.open(&meta, order).expect("an intact table");
        let cache = cache();
        for _ in 0..200 {
            let key = probe(random, &entries);
            let snapshot = match random.below(3) {
                0 => SeqNo::MAX,
                1 => entries[random.below(entries.len())].sequence,
                _ => SeqNo(random.next() >> random.below(64)),
            };
            let hash = order.hash(&key).filter(|_| !random.one_in(4));
            let found = table.get(&key, hash, snapshot, &cache).expect("intact");
            let wanted = find(&entries, order, &key, snapshot);
            match (&found, wanted) {
                (None, None) => {}
                (Some(found), Some(wanted)) => assert!(wanted.is(found), "{wanted:?} {found:?}"),
                _ => panic!("wanted {wanted:?}, found {found:?}"),
            }
        }
        let mut checked = 0;
        table.verify(&mut |bytes| checked = bytes).expect("intact");
        assert_eq!(checked, meta.file_bytes);
    });
}

/// Goal: what the builder records is true. Method: sums over the entries.
#[test]
fn the_meta_describes_the_entries() {
    for_many_cases(10, |random, order| {
        let entries = random_entries(random, order);
        let world = World::new();
        let meta = world.build(FileId(7), &settings(random, order), &entries);
        assert_eq!(meta.entries, entries.len() as u64);
        assert_eq!(meta.smallest, entries[0].key);
        assert_eq!(meta.largest, entries[entries.len() - 1].key);
        let tombstones = || entries.iter().filter(|entry| entry.kind.is_tombstone());
        assert_eq!(meta.tombstones, tombstones().count() as u64);
        let oldest = tombstones().map(|entry| entry.sequence).min();
        let oldest = OldestTombstone {
            sequence: oldest.unwrap_or_default(),
            since: 0,
        };
        assert_eq!(meta.oldest_tombstone, oldest);
        let sequences = || entries.iter().map(|entry| entry.sequence);
        assert_eq!(Some(meta.sequence_min), sequences().min());
        assert_eq!(Some(meta.sequence_max), sequences().max());
        let (mut raw_bytes, mut records) = (0, 0);
        for entry in &entries {
            raw_bytes += entry.key.len() as u64;
            match &entry.value {
                Value::Inline(bytes) => raw_bytes += bytes.len() as u64,
                Value::Separated(pointer) => {
                    raw_bytes += u64::from(pointer.value_bytes);
                    records += 1;
                }
            }
        }
        assert_eq!(meta.raw_bytes, raw_bytes);
        let used: u64 = meta.value_files.iter().map(|used| used.records).sum();
        assert_eq!(used, records);
        let file = world.env.read_file(World::path(FileId(7))).expect("there");
        assert_eq!(meta.file_bytes, file.len() as u64);
        let opened = world
            .directory
            .open("000007.klog", kingtide_env::OpenMode::Read)
            .expect("there");
        let (name, mut rebuilt) =
            crate::read_table_meta(&*opened, "klog/000007.klog", FileId(7)).expect("intact");
        // The file does not tell.
        rebuilt.oldest_tombstone = oldest;
        assert_eq!((name.as_str(), rebuilt), (order.name(), meta));
    });
}

/// Where the model stands: an index into the entries, or nowhere.
struct ModelCursor<'a> {
    entries: &'a [Entry],
    order: &'a KeyOrder,
    at: Option<usize>,
}

impl ModelCursor<'_> {
    fn first_after(&self, key: &[u8], most: std::cmp::Ordering) -> usize {
        self.entries
            .iter()
            .position(|entry| self.order.compare(&entry.key, key) > most)
            .unwrap_or(self.entries.len())
    }

    /// Makes one random move with both cursors.
    fn step(&mut self, random: &mut Random, cursor: &mut dyn Cursor) {
        use std::cmp::Ordering::{Equal, Less};
        let last = self.entries.len() - 1;
        let moves = if self.at.is_some() { 16 } else { 4 };
        match random.below(moves) {
            0 => {
                cursor.seek_first().expect("intact");
                self.at = Some(0);
            }
            1 => {
                cursor.seek_last().expect("intact");
                self.at = Some(last);
            }
            2 => {
                let key = probe(random, self.entries);
                cursor.seek(&key).expect("intact");
                self.at = Some(self.first_after(&key, Less)).filter(|at| *at <= last);
            }
            3 => {
                let key = probe(random, self.entries);
                cursor.seek_for_prev(&key).expect("intact");
                self.at = self.first_after(&key, Equal).checked_sub(1);
            }
            4 => {
                // Many steps, after which what comes next is lent.
                for _ in 0..random.below(90) {
                    self.step_forward(cursor);
                }
            }
            5..=10 => self.step_forward(cursor),
            _ => {
                cursor.prev().expect("intact");
                self.at = self.at.and_then(|at| at.checked_sub(1));
            }
        }
        assert_eq!(cursor.is_valid(), self.at.is_some());
        let Some(at) = self.at else {
            return;
        };
        assert_eq!(cursor.key(), self.entries[at].key);
        if random.one_in(2) {
            assert_eq!(Entry::at(cursor).expect("intact"), self.entries[at]);
        }
    }

    fn step_forward(&mut self, cursor: &mut dyn Cursor) {
        if let Some(at) = self.at {
            cursor.next().expect("intact");
            self.at = Some(at + 1).filter(|at| *at < self.entries.len());
            assert_eq!(cursor.is_valid(), self.at.is_some());
        }
    }

    /// Walks to one end and back.
    fn walk(&self, cursor: &mut dyn Cursor) {
        cursor.seek_first().expect("intact");
        for entry in self.entries {
            assert_eq!(Entry::at(cursor).expect("intact"), *entry);
            cursor.next().expect("intact");
        }
        assert!(!cursor.is_valid());
        cursor.seek_last().expect("intact");
        for entry in self.entries.iter().rev() {
            assert_eq!(Entry::at(cursor).expect("intact"), *entry);
            cursor.prev().expect("intact");
        }
        assert!(!cursor.is_valid());
    }
}

/// Goal: cursors walk both ways, from anywhere, over every shape of block. Method: random moves beside a model.
#[test]
fn cursors_agree_with_the_model() {
    for_many_cases(30, |random, order| {
        let entries = random_entries(random, order);
        let world = World::new();
        let meta = world.build(FileId(7), &settings(random, order), &entries);
        let table = world.open(&meta, order).expect("an intact table");
        let cache = cache();
        for cursor_use in [CursorUse::Read, CursorUse::Scan] {
            let mut cursor = table.cursor(&cache, cursor_use);
            assert!(!cursor.is_valid());
            let mut model = ModelCursor {
                entries: &entries,
                order,
                at: None,
            };
            model.walk(&mut cursor);
            for _ in 0..300 {
                model.step(random, &mut cursor);
            }
            // What is lent is the same.
            let mut cursor = BatchedCursor::new(cursor);
            model.at = None;
            model.walk(&mut cursor);
            for _ in 0..300 {
                model.step(random, &mut cursor);
            }
        }
    });
}

/// Goal: the tables of a level look like one. Method: as for one table, with the entries cut into tables.
#[test]
fn level_cursors_agree_with_the_model() {
    for_many_cases(20, |random, order| {
        let mut entries = random_entries(random, order);
        entries.extend(random_entries(random, order));
        sort(&mut entries, order);
        let world = World::new();
        let mut tables = Vec::new();
        let mut start = 0;
        for end in 1..=entries.len() {
            let is_cut = end == entries.len()
                || (random.one_in(30)
                    && order
                        .compare(&entries[end - 1].key, &entries[end].key)
                        .is_ne());
            if is_cut {
                let file = FileId(1 + tables.len() as u64);
                let meta = world.build(file, &settings(random, order), &entries[start..end]);
                tables.push(Arc::new(meta));
                start = end;
            }
        }
        let table_cache = Arc::new(TableCache::new(Arc::clone(&world.directory), 2));
        for cursor_use in [CursorUse::Read, CursorUse::Scan] {
            let mut cursor = LevelCursor::new(
                Arc::new(tables.clone()),
                Arc::clone(&table_cache),
                cache(),
                order.clone(),
                cursor_use,
            );
            assert!(!cursor.is_valid());
            let mut model = ModelCursor {
                entries: &entries,
                order,
                at: None,
            };
            model.walk(&mut cursor);
            for _ in 0..300 {
                model.step(random, &mut cursor);
            }
            // What is lent is the same.
            let mut cursor = BatchedCursor::new(cursor);
            model.at = None;
            model.walk(&mut cursor);
            for _ in 0..300 {
                model.step(random, &mut cursor);
            }
            assert!(table_cache.open_count() <= 2);
        }
    });
}

#[test]
fn a_level_without_tables_has_no_entries() {
    let world = World::new();
    let table_cache = Arc::new(TableCache::new(Arc::clone(&world.directory), 2));
    let order = KeyOrder::BYTEWISE;
    let mut cursor = LevelCursor::new(
        Arc::new(Vec::new()),
        table_cache,
        cache(),
        order,
        CursorUse::Read,
    );
    cursor.seek_first().expect("nothing to fail");
    assert!(!cursor.is_valid());
    cursor.seek_last().expect("nothing to fail");
    assert!(!cursor.is_valid());
    cursor.seek(b"a").expect("nothing to fail");
    assert!(!cursor.is_valid());
    cursor.seek_for_prev(b"a").expect("nothing to fail");
    assert!(!cursor.is_valid());
}

#[test]
fn a_table_may_be_empty() {
    let order = KeyOrder::BYTEWISE;
    let world = World::new();
    let settings = TableSettings {
        block_bytes: 4096,
        codec: CodecId::Lz4,
        filter_fpr: Some(0.01),
        order: order.clone(),
    };
    let meta = world.build(FileId(1), &settings, &[]);
    let table = world.open(&meta, &order).expect("intact");
    let cache = cache();
    assert!(
        table
            .get(b"a", None, SeqNo::MAX, &cache)
            .expect("intact")
            .is_none()
    );
    let mut cursor = table.cursor(&cache, CursorUse::Read);
    cursor.seek_last().expect("intact");
    assert!(!cursor.is_valid());
    cursor.seek_for_prev(b"a").expect("intact");
    assert!(!cursor.is_valid());
    table.verify(&mut |_| {}).expect("intact");
}

/// Goal: keys and values at their limits are stored. Method: the longest key, and a value of several MiB.
#[test]
fn huge_keys_and_values_have_blocks_of_their_own() {
    let order = KeyOrder::BYTEWISE;
    let world = World::new();
    for (codec, file) in CODECS.into_iter().zip(1..) {
        let mut random = Random(file);
        let entries = [
            Entry::put(b"a", 3, b"small"),
            Entry::put(b"b", 2, &random.bytes(3 << 20)),
            Entry::put(
                &vec![b'c'; kingtide_base::limits::KEY_BYTES_MAX],
                1,
                &vec![1; 5 << 20],
            ),
            Entry::put(b"d", 9, b"small"),
        ];
        let settings = TableSettings {
            block_bytes: 4096,
            codec,
            filter_fpr: Some(0.01),
            order: order.clone(),
        };
        let meta = world.build(FileId(file), &settings, &entries);
        let table = world.open(&meta, &order).expect("intact");
        let cache = cache();
        for entry in &entries {
            let hash = order.hash(&entry.key);
            let found = table.get(&entry.key, hash, SeqNo::MAX, &cache);
            assert!(entry.is(&found.expect("intact").expect("there")));
        }
        table.verify(&mut |_| {}).expect("intact");
    }
}

#[test]
fn what_exceeds_a_limit_is_refused() {
    let world = World::new();
    let file = world
        .directory
        .open("000001.klog", kingtide_env::OpenMode::CreateNew)
        .expect("a new name");
    let settings = TableSettings {
        block_bytes: 4096,
        codec: CodecId::None,
        filter_fpr: None,
        order: KeyOrder::BYTEWISE,
    };
    let mut builder = crate::TableBuilder::new(file, FileId(1), settings);
    let long = Entry::put(&vec![0; kingtide_base::limits::KEY_BYTES_MAX + 1], 1, b"");
    assert!(builder.add(&long.borrowed()).is_err());
    let mut early = Entry::put(b"a", 1, b"");
    early.expires_at = -1;
    assert!(builder.add(&early.borrowed()).is_err());
}

/// Goal: separators keep every key reachable. Method: neighbours that differ in the ways the shortening handles.
#[test]
fn separators_lie_between_blocks() {
    use kingtide_format::klog::shortest_separator;
    let keys: [&[u8]; 12] = [
        b"",
        b"\0",
        b"a",
        b"a\0",
        b"a\xff",
        b"a\xff\xff",
        b"a\xff\xffb",
        b"b",
        b"ba",
        b"bc",
        b"bczzzz",
        b"\xff\xff",
    ];
    let mut target = Vec::new();
    for (i, last) in keys.iter().enumerate() {
        for next in &keys[i..] {
            let separator = shortest_separator(last, next, &mut target);
            assert!(*last <= separator, "{last:?} {next:?} {separator:?}");
            assert!(
                separator < *next || last == next,
                "{last:?} {next:?} {separator:?}"
            );
            assert!(separator.len() <= last.len());
        }
    }
    assert_eq!(shortest_separator(b"abcdef", b"abzz", &mut target), b"abd");
}

/// Goal: what the system refuses is an error that names the file. Method: each operation of the builder made to fail.
#[test]
fn a_builder_reports_what_the_system_refuses() {
    use kingtide_env::{Env, FaultyEnv, OpenMode, Operation, Rule, Times};
    for (operation, verb) in [(Operation::Write, "write"), (Operation::Sync, "sync")] {
        let env = FaultyEnv::new(Arc::new(World::new().env));
        let directory = env
            .open_directory(std::path::Path::new("/klog"), true)
            .expect("no rule yet");
        let file = directory
            .open("000001.klog", OpenMode::CreateNew)
            .expect("no rule yet");
        env.fail(Rule {
            operation,
            name_contains: String::new(),
            nth: 1,
            error: std::io::ErrorKind::StorageFull,
            times: Times::Once,
        });
        let settings = TableSettings {
            block_bytes: 4096,
            codec: CodecId::Lz4,
            filter_fpr: Some(0.01),
            order: KeyOrder::BYTEWISE,
        };
        let mut builder = crate::TableBuilder::new(file, FileId(1), settings);
        let entry = Entry::put(b"key", 1, b"value");
        builder.add(&entry.borrowed()).expect("still in the buffer");
        match builder.finish() {
            Err(kingtide_base::StorageError::Io {
                file,
                operation,
                source,
            }) => {
                assert_eq!((file.as_str(), operation), ("klog/000001.klog", verb));
                assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
            }
            other => panic!("not an I/O error: {other:?}"),
        }
    }
}
