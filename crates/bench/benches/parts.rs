//! The parts that a read or a write goes through, each by itself: `cargo bench -p kingtide-bench`. With a name behind
//! `--`, those whose names contain it. Times are per call; where a call does many operations, operations per second stand
//! beside it.

use std::{hint::black_box, sync::Arc};

use divan::{Bencher, counter::ItemsCount};
use kingtide::{Db, FamilyOptions, Options, SyncMode};
use kingtide_base::{Cursor, EntryKind, EntryRef, FileId, KeyOrder, SeqNo, ValueRef, key_hash};
use kingtide_bench::{KeyForm, KeyMaker, Permutation, ValueContent, ValueMaker, ValueSizes};
use kingtide_collections::{
    ArenaPool, BlockCache, Filter, FilterBuilder, Memtable, MemtableOp, MergeCursor, PreparedRun,
};
use kingtide_format::{
    CodecId,
    block::{BlockPlace, DataBlock, DataBlockBuilder},
};

const KEYS: u64 = 100_000;
const ORDER: KeyOrder = KeyOrder::BYTEWISE;

fn main() {
    divan::main();
}

/// Keys and values of the tests, in random order.
struct Data {
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
}

impl Data {
    fn new(count: u64) -> Self {
        let (maker, order) = (
            KeyMaker::new(KeyForm::Ordered, 0, 16),
            Permutation::new(count, 7),
        );
        let values = ValueMaker::new(ValueSizes::Fixed(100), ValueContent::Marked, 0.5, 7);
        let mut data = Self {
            keys: vec![Vec::new(); count as usize],
            values: vec![Vec::new(); count as usize],
        };
        for (index, (key, value)) in data.keys.iter_mut().zip(&mut data.values).enumerate() {
            maker.write(order.apply(index as u64), key);
            values.write(index as u64, 0, value);
        }
        data
    }

    fn ops(&self) -> Vec<MemtableOp<'_>> {
        let pairs = self.keys.iter().zip(&self.values);
        pairs
            .map(|(key, value)| MemtableOp {
                kind: EntryKind::Put,
                expires_at: 0,
                hash: key_hash(key),
                key,
                value,
            })
            .collect()
    }

    /// A memtable of all of it, written in commits of `batch` operations.
    fn memtable(&self, batch: usize) -> Arc<Memtable> {
        let pool = ArenaPool::new(0);
        let table = Arc::new(Memtable::new(ORDER, &pool, 64 << 20, self.keys.len()));
        insert_all(&table, &self.ops(), batch);
        table
    }
}

fn insert_all(table: &Memtable, ops: &[MemtableOp<'_>], batch: usize) {
    for (number, ops) in ops.chunks(batch).enumerate() {
        let run = (batch > 1).then(|| {
            PreparedRun::sort(&ORDER, ops.len(), |at| {
                let op = &ops[at as usize];
                (op.kind, op.key)
            })
        });
        let inserted = table.insert(
            SeqNo(number as u64 + 1),
            (ops.len(), |number| ops[number]),
            run,
        );
        assert!(inserted.is_ok(), "the memtable is large enough");
        // As whoever commits does.
        if table.is_unarranged() {
            table.arrange();
        }
    }
}

mod memtable {
    use super::*;

    #[divan::bench(args = [1, 10, 1000], sample_count = 10)]
    fn insert(bencher: Bencher<'_, '_>, batch: usize) {
        let data = Data::new(KEYS);
        let ops = data.ops();
        let pool = ArenaPool::new(0);
        bencher
            .counter(ItemsCount::new(KEYS))
            .with_inputs(|| Memtable::new(ORDER, &pool, 64 << 20, KEYS as usize))
            .bench_values(|table| {
                insert_all(&table, &ops, batch);
                table
            });
    }

    #[divan::bench(args = [1, 1000])]
    fn get(bencher: Bencher<'_, '_>, batch: usize) {
        let data = Data::new(KEYS);
        let table = data.memtable(batch);
        let mut at = 0;
        bencher.bench_local(|| {
            at = (at + 1) % data.keys.len();
            let key = &data.keys[at];
            table
                .get(black_box(key), Some(key_hash(key)), SeqNo(u64::MAX >> 8))
                .is_some()
        });
    }
}

/// Goes from the first entry to the last; how many bytes their keys have.
fn walk_all(mut cursor: impl Cursor) -> usize {
    let mut bytes = 0;
    cursor.seek_first().expect("memory does not fail");
    while cursor.is_valid() {
        bytes += cursor.key().len();
        cursor.next().expect("memory does not fail");
    }
    bytes
}

mod pass {
    use super::*;

    /// Everything of a full memtable, in order, as a flush walks it.
    #[divan::bench(args = [1, 32, 1000], sample_count = 40)]
    fn flush(bencher: Bencher<'_, '_>, batch: usize) {
        let data = Data::new(3 * KEYS);
        let table = data.memtable(batch);
        bencher
            .counter(ItemsCount::new(3 * KEYS))
            .bench_local(|| walk_all(table.pass_cursor()));
    }
}

mod merge {
    use super::*;

    /// Everything of a memtable whose entries came in so many commits, each of which is a sorted run.
    #[divan::bench(args = [1, 4, 16, 64], sample_count = 10)]
    fn walk(bencher: Bencher<'_, '_>, runs: usize) {
        let data = Data::new(KEYS);
        let table = data.memtable((KEYS as usize).div_ceil(runs));
        bencher
            .counter(ItemsCount::new(KEYS))
            .bench_local(|| walk_all(MergeCursor::new(ORDER, table.cursors())));
    }
}

mod filter {
    use super::*;

    fn filter(data: &Data) -> Filter {
        let mut builder = FilterBuilder::new(0.01);
        for key in &data.keys {
            builder.add_hash(key_hash(key));
        }
        Filter::new(builder.finish()).expect("own bytes")
    }

    #[divan::bench]
    fn hit(bencher: Bencher<'_, '_>) {
        let data = Data::new(KEYS);
        let filter = filter(&data);
        let mut at = 0;
        bencher.bench_local(|| {
            at = (at + 1) % data.keys.len();
            filter.may_contain(key_hash(black_box(&data.keys[at])))
        });
    }

    #[divan::bench]
    fn miss(bencher: Bencher<'_, '_>) {
        let data = Data::new(KEYS);
        let filter = filter(&data);
        let mut at = 0_u64;
        bencher.bench_local(|| {
            at += 1;
            filter.may_contain(key_hash(black_box(&at.to_be_bytes())))
        });
    }

    #[divan::bench(sample_count = 20)]
    fn build(bencher: Bencher<'_, '_>) {
        let data = Data::new(KEYS);
        bencher
            .counter(ItemsCount::new(KEYS))
            .bench_local(|| filter(&data));
    }
}

mod cache {
    use super::*;

    #[divan::bench(threads = [1, 2])]
    fn hit(bencher: Bencher<'_, '_>) {
        let cache = BlockCache::new(64 << 20);
        for number in 0..1000 {
            cache.insert((FileId(1), number), Arc::new([0_u8; 4096]), 4096);
        }
        bencher.counter(ItemsCount::new(1000_u64)).bench(|| {
            (0..1000)
                .filter(|number| cache.get(&(FileId(1), *number)).is_some())
                .count()
        });
    }

    #[divan::bench]
    fn miss(bencher: Bencher<'_, '_>) {
        let cache: BlockCache<[u8; 4096]> = BlockCache::new(64 << 20);
        bencher.bench(|| cache.get(&(FileId(1), black_box(7))).is_some());
    }
}

mod block {
    use super::*;

    fn sorted(codec: CodecId) -> (Vec<Vec<u8>>, Vec<u8>) {
        let data = Data::new(KEYS);
        let mut keys = data.keys;
        keys.sort_unstable();
        let mut builder = DataBlockBuilder::new();
        let mut count = 0;
        while !builder.is_full() {
            builder.add(&EntryRef {
                key: &keys[count],
                sequence: SeqNo(1),
                kind: EntryKind::Put,
                expires_at: 0,
                value: ValueRef::Inline(&data.values[count]),
            });
            count += 1;
        }
        keys.truncate(count);
        let place = BlockPlace {
            file: FileId(1),
            offset: 0,
        };
        let mut bytes = Vec::new();
        builder.finish(codec, place, &mut bytes);
        (keys, bytes)
    }

    #[divan::bench]
    fn search(bencher: Bencher<'_, '_>) {
        let (keys, bytes) = sorted(CodecId::Lz4);
        let block = DataBlock::decode(bytes, FileId(1), 0).expect("own bytes");
        let mut at = 0;
        bencher.bench_local(|| {
            at = (at + 13) % keys.len();
            block.lower_bound(&ORDER, black_box(&keys[at]))
        });
    }

    #[divan::bench(args = ["none", "lz4"])]
    fn decode(bencher: Bencher<'_, '_>, codec: &str) {
        let codec = if codec == "lz4" {
            CodecId::Lz4
        } else {
            CodecId::None
        };
        let (_, bytes) = sorted(codec);
        let mut values = Vec::new();
        bencher
            .with_inputs(|| bytes.clone())
            .bench_local_values(|bytes| {
                let block = DataBlock::decode(bytes, FileId(1), 0).expect("own bytes");
                block.decompress_values(&mut values).expect("own bytes");
                values.len()
            });
    }
}

mod log {
    use super::*;

    /// Commits of so many operations, log and memtable together, sync off.
    #[divan::bench(args = [1, 10, 1000], sample_count = 50)]
    fn commit(bencher: Bencher<'_, '_>, batch: usize) {
        let data = Data::new(KEYS);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let db = Db::open(directory.path(), Options::default()).expect("an empty database");
        let options = FamilyOptions {
            sync: SyncMode::None,
            ..FamilyOptions::default()
        };
        let family = db.open_family("bench", options).expect("a new family");
        let mut at = 0;
        bencher.counter(ItemsCount::new(batch)).bench_local(|| {
            let mut transaction = db.begin().expect("an open database");
            for _ in 0..batch {
                at = (at + 1) % data.keys.len();
                let put = transaction.put(&family, &data.keys[at], &data.values[at]);
                put.expect("room for a write");
            }
            transaction.commit().expect("a device that works")
        });
        db.close().expect("a device that works");
    }
}
