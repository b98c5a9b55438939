//! Pieces of value files in the cache: the same answers in fewer reads, and damage is still told.

use std::io;
use std::path::Path;
use std::sync::Arc;

use kingtide_base::{FileId, StorageError, ValuePointer};
use kingtide_collections::BlockCache;
use kingtide_env::{Directory, Env, Fault, FaultyEnv, MemoryEnv, Operation, ReadRule, Rule, Times};
use kingtide_format::CodecId;
use kingtide_format::block::DataBlock;

use super::model::{Random, new_value_file, reads_so_far};
use crate::{ValueFiles, ValueLogBuilder, vlog_name};

const CACHE_BYTES: usize = 4 << 20;

struct World {
    memory: MemoryEnv,
    env: FaultyEnv,
    directory: Arc<dyn Directory>,
    cache: Arc<BlockCache<DataBlock>>,
}

impl World {
    fn new() -> Self {
        let memory = MemoryEnv::new(1);
        let env = FaultyEnv::new(Arc::new(memory.clone()));
        let directory = env
            .open_directory(Path::new("/vlog"), true)
            .expect("it can be made");
        Self {
            memory,
            env,
            directory,
            cache: Arc::new(BlockCache::new(CACHE_BYTES)),
        }
    }

    fn files(&self) -> ValueFiles {
        ValueFiles::new(Arc::clone(&self.directory), 4).with_cache(Arc::clone(&self.cache))
    }

    fn builder(&self, file: FileId) -> ValueLogBuilder {
        new_value_file(&self.directory, file, CodecId::Lz4)
    }

    fn reads(&self) -> u64 {
        reads_so_far(&self.env)
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

/// Short ones that compress, alike and not, long ones that do not, and a few that are longer than a piece.
fn value(number: usize) -> Vec<u8> {
    let mut random = Random(number as u64);
    match number % 16 {
        0 => random.bytes(20_000),
        1 => random.bytes(3000),
        2..5 => random.bytes(300),
        5 => Vec::new(),
        _ => format!("{{\"number\": {number}, \"tide\": \"high\"}}")
            .repeat(40)
            .into_bytes(),
    }
}

fn build(world: &World, file: FileId, count: usize) -> Vec<ValuePointer> {
    let mut builder = world.builder(file);
    let pointers = (0..count)
        .map(|number| {
            builder
                .append(&key(number), &value(number))
                .expect("no faults")
        })
        .collect();
    builder.finish().expect("no faults");
    pointers
}

/// Goal: values of all lengths are what was written, in any order and again, and short records take few reads: one for their
/// piece; none the second time. Method: a cache that has room for all pieces.
#[test]
fn short_records_are_read_with_their_neighbours() {
    const VALUES: usize = 1600;
    let world = World::new();
    let pointers = build(&world, FileId(7), VALUES);
    let files = world.files();
    let mut random = Random(5);
    let mut order: Vec<usize> = (0..VALUES).collect();
    for at in (1..VALUES).rev() {
        order.swap(at, random.below(at + 1));
    }
    let is_short = |number: usize| pointers[number].record_bytes <= 2048;
    let short = (0..VALUES).filter(|number| is_short(*number)).count();
    assert!(short > VALUES / 2);
    let mut counts = Vec::new();
    for _ in 0..2 {
        let mut reads = 0;
        for number in &order {
            let before = world.reads();
            let found = files
                .read(&pointers[*number], &key(*number))
                .expect("it is whole");
            assert_eq!(found, value(*number), "value {number}");
            reads += if is_short(*number) {
                world.reads() - before
            } else {
                0
            };
        }
        counts.push(reads as usize);
    }
    assert!(counts[0] < short / 2, "{counts:?} for {short}");
    assert!(
        counts[1] < short / 8,
        "{counts:?}: those that lie in two pieces"
    );
    assert!(world.cache.usage().bytes > 0);
}

/// Goal: longer records come in too, by and by, each alone; the longest never do. Method: the same few are read again and again,
/// until a round takes no reads of the file but those of the longest.
#[test]
fn longer_records_come_in_by_and_by() {
    let world = World::new();
    let pointers = build(&world, FileId(7), 200);
    let files = world.files();
    let reads_of = |number: usize| {
        let before = world.reads();
        let found = files.read(&pointers[number], &key(number));
        assert_eq!(found.expect("it is whole"), value(number));
        world.reads() - before
    };
    let long = |residue| (0..200).filter(move |number| number % 16 == residue);
    let round = |residue| long(residue).map(reads_of).sum::<u64>();
    assert!(round(1) > 1, "they do not come in at once");
    assert!((0..1000).any(|_| round(1) == 0), "all have come");
    assert_eq!(round(1), 0, "they stay");
    for _ in 0..100 {
        assert!(round(0) >= long(0).count() as u64, "those of 20,000 bytes");
    }
}

/// Goal: with a cache that is full, or off, values are the same.
#[test]
fn values_are_the_same_without_room_for_pieces() {
    for bytes in [0, 10_000, 100_000] {
        let mut world = World::new();
        world.cache = Arc::new(BlockCache::new(bytes));
        let pointers = build(&world, FileId(7), 400);
        let files = world.files();
        let mut random = Random(9);
        for _ in 0..4000 {
            let number = random.below(400);
            let found = files
                .read(&pointers[number], &key(number))
                .expect("it is whole");
            assert_eq!(found, value(number), "value {number}");
            assert!(world.cache.usage().bytes <= bytes);
        }
    }
}

/// Goal: what is appended to a file that is read meanwhile is found, although the piece of its end came into the cache before.
#[test]
fn a_piece_of_a_file_that_grows_hides_nothing() {
    let world = World::new();
    let files = world.files();
    let mut builder = world.builder(FileId(3));
    let mut pointers = Vec::new();
    for number in 6..200 {
        pointers.push((
            number,
            builder
                .append(&key(number), &value(number))
                .expect("no faults"),
        ));
        builder.flush().expect("no faults");
        let back = &pointers[pointers.len().saturating_sub(8)..];
        for (number, pointer) in back.iter().rev() {
            let found = files.read(pointer, &key(*number)).expect("it is whole");
            assert_eq!(found, value(*number), "value {number}");
        }
    }
}

/// Goal: damage is told, whether its piece is in the cache or not; a pointer to another value is refused; and a read that fails
/// is an error, after which the value is read. Method: every byte of a record, in a fresh cache; then faults of reads.
#[test]
fn damage_and_failures_are_told() {
    let mut world = World::new();
    let pointers = build(&world, FileId(7), 60);
    let path = format!("/vlog/{}", vlog_name(FileId(7)));
    let whole = world.memory.read_file(&path).expect("there");
    let number = 25;
    let pointer = pointers[number];
    let record = pointer.offset as usize..pointer.offset as usize + pointer.record_bytes as usize;
    for at in record {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        world.memory.write_file(&path, &bytes).expect("no faults");
        world.cache = Arc::new(BlockCache::new(CACHE_BYTES));
        let files = world.files();
        for _ in 0..2 {
            let outcome = files.read(&pointer, &key(number));
            assert!(
                matches!(outcome, Err(StorageError::Corruption(_))),
                "byte {at}"
            );
        }
    }
    world.memory.write_file(&path, &whole).expect("no faults");
    world.cache = Arc::new(BlockCache::new(CACHE_BYTES));
    let files = world.files();
    world.env.fail(Rule {
        operation: Operation::Read,
        name_contains: String::new(),
        nth: 1,
        error: io::ErrorKind::Other,
        times: Times::Forever,
    });
    let outcome = files.read(&pointer, &key(number));
    assert!(matches!(outcome, Err(StorageError::Io { .. })));
    world.env.clear();
    let read = || files.read(&pointer, &key(number)).expect("it is whole");
    assert_eq!(read(), value(number));
    let outcome = files.read(&pointer, &key(number + 1));
    assert!(
        matches!(outcome, Err(StorageError::Corruption(_))),
        "of another key"
    );
    world.cache.remove_file(FileId(7));
    world.env.disturb_reads(ReadRule {
        name_contains: String::new(),
        nth: 1,
        fault: Fault::FlipBit(pointer.offset * 8 + 9),
        times: Times::Once,
    });
    assert_eq!(read(), value(number), "the file is whole, its piece is not");
    assert_eq!(read(), value(number));
}
