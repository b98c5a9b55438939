//! Reading values ahead: the same answers in fewer reads, within bounds.

use std::path::Path;
use std::sync::Arc;

use kingtide_base::{FileId, ValuePointer};
use kingtide_env::{Directory, Env, FaultyEnv, MemoryEnv, OpenMode, Operation};
use kingtide_format::CodecId;

use super::model::Random;
use crate::{ValueFiles, ValueLogBuilder, ValueReadAhead, vlog_name};

const VALUE_BYTES: usize = 4096;

struct World {
    env: FaultyEnv,
    directory: Arc<dyn Directory>,
}

fn world() -> World {
    let env = FaultyEnv::new(Arc::new(MemoryEnv::new(1)));
    let directory = env
        .open_directory(Path::new("/vlog"), true)
        .expect("it can be made");
    World { env, directory }
}

fn count_reads(world: &World) -> u64 {
    let counts = world.env.counts();
    counts.get(&Operation::Read).copied().unwrap_or_default()
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

fn value(number: usize) -> Vec<u8> {
    Random(number as u64).bytes(VALUE_BYTES)
}

/// A file with a value for each of `numbers`.
fn build(world: &World, file: FileId, numbers: impl Iterator<Item = usize>) -> Vec<ValuePointer> {
    let new = world
        .directory
        .open(&vlog_name(file), OpenMode::CreateNew)
        .expect("a new name");
    let mut builder = ValueLogBuilder::new(new, file, CodecId::None);
    let pointers = numbers
        .map(|number| {
            builder
                .append(&key(number), &value(number))
                .expect("no faults")
        })
        .collect();
    builder.finish().expect("no faults");
    pointers
}

/// Reads the values of `order` in that order; how many reads that took.
fn reads(world: &World, files: &ValueFiles, order: &[(usize, ValuePointer)]) -> u64 {
    let before = count_reads(world);
    let mut ahead = ValueReadAhead::default();
    let mut found = Vec::new();
    for (number, pointer) in order {
        ahead
            .read(files, pointer, &key(*number), &mut found)
            .expect("it is whole");
        assert_eq!(found, value(*number), "value {number}");
    }
    count_reads(world) - before
}

/// Goal: a scan of adjacent values takes a read for dozens of them, in either direction; jumps take one each. Method: the
/// reads are counted.
#[test]
fn scans_read_in_pieces_and_jumps_do_not() {
    let world = world();
    let files = ValueFiles::new(Arc::clone(&world.directory), 4);
    let pointers = build(&world, FileId(1), 0..600);
    let mut order: Vec<_> = pointers.iter().copied().enumerate().collect();
    let forward = reads(&world, &files, &order);
    // 600 values in pieces of up to 63.
    assert!(forward < 25, "{forward} reads");
    order.reverse();
    let backward = reads(&world, &files, &order);
    assert!(backward < 25, "{backward} reads");
    let sparse: Vec<_> = order.iter().rev().step_by(5).copied().collect();
    let sparse = reads(&world, &files, &sparse);
    assert!(sparse < 25, "{sparse} reads");
    let jumps: Vec<_> = (0..100).map(|index| order[index * 241 % 600]).collect();
    let jumping = reads(&world, &files, &jumps);
    assert!((100..=103).contains(&jumping), "{jumping} reads");
    // The same one again and again.
    assert!(reads(&world, &files, &[order[7]; 5]) <= 6);
}

/// Goal: a scan whose values lie in several files is read ahead in each. Method: four files with every fourth value; then
/// more of them.
#[test]
fn scans_over_several_files_read_ahead_in_each() {
    for (count, most) in [(4, 80), (20, 160), (60, 320), (100, 420)] {
        let world = world();
        let files = ValueFiles::new(Arc::clone(&world.directory), 128);
        let mut order = vec![(0, None); 600];
        for first in 0..count {
            let numbers = (first..600).step_by(count);
            let pointers = build(&world, FileId(first as u64 + 1), numbers.clone());
            for (number, pointer) in numbers.zip(pointers) {
                order[number] = (number, Some(pointer));
            }
        }
        let order: Vec<_> = order
            .into_iter()
            .filter_map(|(number, pointer)| Some((number, pointer?)))
            .collect();
        assert_eq!(order.len(), 600);
        let found = reads(&world, &files, &order);
        assert!(found < most, "{found} reads of {count} files");
    }
}

/// Goal: wherever a reader goes, it gets what it would get without reading ahead, damage too. Method: random steps of all
/// kinds over two files, one with a damaged record; a pointer beyond the end.
#[test]
fn answers_are_those_of_single_reads() {
    let world = world();
    let files = ValueFiles::new(Arc::clone(&world.directory), 4);
    let mut places: Vec<_> = build(&world, FileId(1), 0..200)
        .into_iter()
        .enumerate()
        .collect();
    places.extend(
        build(&world, FileId(2), 200..400)
            .into_iter()
            .zip(200..)
            .map(|(pointer, number)| (number, pointer)),
    );
    let damaged = places[77].1;
    let file = world
        .directory
        .open(&vlog_name(FileId(1)), OpenMode::ReadWrite)
        .expect("there");
    file.write_at(b"damage", damaged.offset + 100)
        .expect("no faults");
    let beyond = ValuePointer {
        offset: places[399].1.offset + u64::from(places[399].1.record_bytes) + 10,
        ..places[399].1
    };
    places.push((399, beyond));
    let mut random = Random(3);
    let mut ahead = ValueReadAhead::default();
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..5000 {
        at = match random.below(8) {
            0 => random.below(places.len()),
            1..=4 => (at + 1) % places.len(),
            5 => (at + random.below(20)) % places.len(),
            _ => at.saturating_sub(1),
        };
        let (number, pointer) = places[at];
        let wrong_key = random.one_in(20);
        let key = key(if wrong_key { number + 1 } else { number });
        let expected = files.read(&pointer, &key);
        let outcome = ahead.read(&files, &pointer, &key, &mut found);
        match (expected, outcome) {
            (Ok(expected), Ok(())) => assert_eq!(expected, found),
            (Err(expected), Err(found)) => assert_eq!(expected.to_string(), found.to_string()),
            (expected, found) => panic!("{number}: {expected:?} and {found:?}"),
        }
    }
}
