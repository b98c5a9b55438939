//! Reading values ahead: the same answers in fewer reads, within bounds.

use std::path::Path;
use std::sync::Arc;

use kingtide_base::{FileId, ValuePointer};
use kingtide_env::{Directory, Env, FaultyEnv, MemoryEnv, OpenMode};
use kingtide_format::CodecId;

use super::model::{CODECS, Random, new_value_file, reads_so_far};
use crate::{ValueFiles, ValueReadAhead, vlog_name};

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

fn key(number: usize) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

fn value(number: usize) -> Vec<u8> {
    Random(number as u64).bytes(VALUE_BYTES)
}

/// Half of each compresses; some are short, some long.
fn halves(number: usize) -> Vec<u8> {
    let bytes = [600, 3000, 20_000, 100_000][number % 4];
    Random(number as u64).bytes(bytes).repeat(2)
}

/// Goal: a value that is copied as it is stored is what an appended one is, byte for byte, and one that the new file may store
/// otherwise is not copied so. Method: files of every codec, with and without dictionaries, are copied to files of every codec, in
/// order and not, and compared with files to which the values were appended.
#[test]
fn values_are_copied_as_they_are_stored() {
    let resembling = |number: usize| [phrase(), number.to_le_bytes().to_vec()].concat();
    let contents: [&dyn Fn(usize) -> Vec<u8>; 2] = [&halves, &resembling];
    for content in contents {
        for codec in CODECS {
            let world = world();
            let source = build_of(&world, FileId(1), codec, (0..200).map(|n| (n, content(n))));
            for (index, target) in CODECS.into_iter().enumerate() {
                let numbers = (0..200).map(|n| if index % 2 == 0 { n } else { n * 7 % 200 });
                let numbers: Vec<usize> = numbers.collect();
                let (copy, appended) = (FileId(10 + index as u64), FileId(20 + index as u64));
                let copies = copy_of(&world, &source, (copy, target), (&numbers, content));
                assert!(copies == 0 || codec == target && codec != CodecId::None);
                let values = numbers.iter().map(|n| (*n, content(*n)));
                let expected = build_of(&world, appended, target, values);
                let is_half = content(0) == halves(0);
                if is_half && codec == target && codec != CodecId::None {
                    assert!(copies >= 90, "{codec:?}: {copies}");
                    let lengths = expected.iter().map(|pointer| pointer.record_bytes);
                    let of_source = numbers.iter().map(|n| source[*n].record_bytes);
                    assert!(lengths.eq(of_source), "{codec:?}");
                }
                let length = |file| world.directory.open(&vlog_name(file), OpenMode::Read);
                let length = |file| length(file).expect("there").len().expect("no faults");
                assert_eq!(length(copy), length(appended), "{codec:?} {target:?}");
            }
        }
    }
}

/// Noise that is the same each time.
fn phrase() -> Vec<u8> {
    Random(77).bytes(1500)
}

/// Copies the values of `source` to a new file; how many went as they are stored.
fn copy_of(
    world: &World,
    source: &[ValuePointer],
    (file, codec): (FileId, CodecId),
    (numbers, content): (&[usize], &dyn Fn(usize) -> Vec<u8>),
) -> usize {
    let files = ValueFiles::new(Arc::clone(&world.directory), 4);
    let mut ahead = ValueReadAhead::default();
    let mut builder = new_value_file(&world.directory, file, codec);
    let (mut copies, mut record) = (0, Vec::new());
    let mut pointers = Vec::new();
    for number in numbers {
        let (pointer, key) = (&source[*number], key(*number));
        let stored = ahead.read_stored(&files, pointer, &key, &mut record);
        let copied = match stored.expect("whole") {
            Some(stored) => builder.append_stored(&key, &stored).expect("no faults"),
            None => None,
        };
        copies += usize::from(copied.is_some());
        pointers.push(match copied {
            Some(pointer) => pointer,
            None => builder.append(&key, &content(*number)).expect("no faults"),
        });
        ahead
            .read_stored(&files, pointer, b"another", &mut record)
            .map(|stored| assert_eq!(stored, None, "a value of another key"))
            .unwrap_or_default();
    }
    let meta = builder.finish().expect("no faults");
    files.verify_file(&meta, &mut |_| {}).expect("whole");
    for (number, pointer) in numbers.iter().zip(&pointers) {
        let found = files.read(pointer, &key(*number)).expect("whole");
        assert!(found == content(*number), "{number}");
    }
    copies
}

/// A file of these values.
fn build_of(
    world: &World,
    file: FileId,
    codec: CodecId,
    values: impl Iterator<Item = (usize, Vec<u8>)>,
) -> Vec<ValuePointer> {
    let mut builder = new_value_file(&world.directory, file, codec);
    let pointers = values
        .map(|(number, value)| builder.append(&key(number), &value).expect("no faults"))
        .collect();
    builder.finish().expect("no faults");
    pointers
}

/// A file with a value for each of `numbers`.
fn build(world: &World, file: FileId, numbers: impl Iterator<Item = usize>) -> Vec<ValuePointer> {
    let values = numbers.map(|number| (number, value(number)));
    build_of(world, file, CodecId::None, values)
}

/// Reads the values of `order` in that order; how many reads that took.
fn reads(world: &World, files: &ValueFiles, order: &[(usize, ValuePointer)]) -> u64 {
    let before = reads_so_far(&world.env);
    let mut ahead = ValueReadAhead::default();
    let mut found = Vec::new();
    for (number, pointer) in order {
        ahead
            .read(files, pointer, &key(*number), &mut found)
            .expect("it is whole");
        assert_eq!(found, value(*number), "value {number}");
    }
    reads_so_far(&world.env) - before
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

/// Goal: readers that begin where others went on read a piece at once, also those that are made for one range each; where others
/// did not, they read single records. Method: the reads of short ranges and of jumps in turns are counted.
#[test]
fn what_readers_did_tells_what_is_read_at_first() {
    let world = world();
    let files = ValueFiles::new(Arc::clone(&world.directory), 4);
    let pointers = build(&world, FileId(1), 0..600);
    let order: Vec<_> = pointers.iter().copied().enumerate().collect();
    let range = |turn: usize| {
        let start = turn * 241 % 590;
        reads(&world, &files, &order[start..start + 6])
    };
    files.read(&pointers[0], &key(0)).expect("whole");
    assert_eq!(range(0), 3, "two records, and a piece for the others");
    for turn in 0..20 {
        range(turn);
    }
    assert_eq!(range(20), 1);
    let jumps: Vec<_> = (0..100).map(|index| order[index * 241 % 600]).collect();
    let few = reads(&world, &files, &jumps[..5]);
    assert_eq!(few, 5);
    reads(&world, &files, &jumps);
    assert_eq!(range(21), 3, "most readers of late did not go on");
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
