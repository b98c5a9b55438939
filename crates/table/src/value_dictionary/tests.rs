//! Dictionaries of value files: what they save, when there is none, and what damage to them does.

use std::path::Path;
use std::sync::Arc;

use kingtide_base::{FileId, KeyOrder, StorageError, ValuePointer, key_hash};
use kingtide_env::{Directory, Env, FaultyEnv, MemoryEnv, OpenMode, Operation};
use kingtide_format::ValueFileMeta;
use kingtide_format::vlog::{VLOG_FOOTER_BYTES, VLOG_HEADER_BYTES, dump_vlog};

use super::*;
use crate::tests::model::{CODECS, Random, new_value_file};
use crate::{
    ValueFiles, ValueLogBuilder, ValueReadAhead, read_value_file_meta, scan_value, vlog_name,
};

const FILE: FileId = FileId(7);
const LZ4: [CodecId; 2] = [CodecId::Lz4, CodecId::Lz4Fast];

struct World {
    env: FaultyEnv,
    memory: MemoryEnv,
    directory: Arc<dyn Directory>,
}

impl World {
    fn new() -> Self {
        let memory = MemoryEnv::new(1);
        let env = FaultyEnv::new(Arc::new(memory.clone()));
        let directory = env
            .open_directory(Path::new("/vlog"), true)
            .expect("it can be made");
        Self {
            env,
            memory,
            directory,
        }
    }

    fn builder(&self, codec: CodecId) -> ValueLogBuilder {
        new_value_file(&self.directory, FILE, codec)
    }

    fn build(&self, codec: CodecId, values: &[Vec<u8>]) -> (Vec<ValuePointer>, ValueFileMeta) {
        let mut builder = self.builder(codec);
        let append = |(number, value): (usize, &Vec<u8>)| builder.append(&key(number), value);
        let pointers: Result<_, _> = values.iter().enumerate().map(append).collect();
        (
            pointers.expect("no faults"),
            builder.finish().expect("no faults"),
        )
    }

    fn files(&self) -> ValueFiles {
        ValueFiles::new(Arc::clone(&self.directory), 4)
    }

    fn path(&self) -> String {
        format!("/vlog/{}", vlog_name(FILE))
    }

    fn bytes(&self) -> Vec<u8> {
        self.memory.read_file(self.path()).expect("there")
    }

    fn reads(&self) -> u64 {
        let counts = self.env.counts();
        counts.get(&Operation::Read).copied().unwrap_or_default()
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

/// A value that has most of its words in common with others.
fn document(number: usize) -> Vec<u8> {
    let mut random = Random(number as u64);
    let mut text = format!("{{\"number\":{number},\"name\":\"{:x}\"", random.next());
    for line in 0..6 {
        let (price, count) = (random.below(100_000), random.below(9));
        text += &format!(
            ",{{\"article of line\":{line},\"price in cents\":{price},\"how many\":{count},\"currency\":\"EUR\"}}"
        );
    }
    (text + "}").into_bytes()
}

/// Short values like a golden file has them: a phrase over and over, so that a file of them is short.
fn phrase(number: usize) -> Vec<u8> {
    let phrase = format!("A phrase of {} words, over and over. ", number % 7);
    phrase.repeat(40).into_bytes()
}

/// The records of `values` one after the other, each compressed for itself.
fn plainly(codec: CodecId, values: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0; VLOG_HEADER_BYTES];
    for (number, value) in values.iter().enumerate() {
        let place = BlockPlace {
            file: FILE,
            offset: file.len() as u64,
        };
        encode_record(&mut file, codec, key_hash(&key(number)), value, place);
    }
    file.split_off(VLOG_HEADER_BYTES)
}

/// Where the dictionary's record lies, and its length, from its key hash.
fn dictionary_in(file: &[u8]) -> Option<(usize, usize)> {
    let mut at = VLOG_HEADER_BYTES;
    while at < file.len() - VLOG_FOOTER_BYTES {
        let header = kingtide_format::vlog::peek_record(&file[at..]).expect("a record");
        let length = RECORD_HEADER_BYTES + header.stored_bytes as usize;
        if header.key_hash == DICTIONARY_KEY_HASH {
            return Some((at, length));
        }
        at += length;
    }
    None
}

/// Goal: values that resemble each other take far less room, and are what they were, to every reader.
#[test]
fn values_that_resemble_each_other_share_a_dictionary() {
    for codec in LZ4 {
        let world = World::new();
        let values: Vec<_> = (0..600).map(document).collect();
        let (pointers, meta) = world.build(codec, &values);
        let bytes = world.bytes();
        let plain = plainly(codec, &values).len();
        assert!(bytes.len() < plain * 7 / 10, "{} {plain}", bytes.len());
        let (at, length) = dictionary_in(&bytes).expect("there is one");
        assert!(at >= length * FILE_PART as usize);
        // What came before it is stored as ever.
        let first = plainly(codec, &values);
        assert_eq!(
            bytes[VLOG_HEADER_BYTES..at],
            first[..at - VLOG_HEADER_BYTES]
        );
        assert_eq!(meta.records, values.len() as u64 + 1);
        let files = world.files();
        files.expect(&meta);
        let file = world
            .directory
            .open(&vlog_name(FILE), OpenMode::Read)
            .expect("there");
        assert_eq!(
            read_value_file_meta(&*file, "vlog", FILE).expect("intact"),
            meta
        );
        for (number, pointer) in pointers.iter().enumerate() {
            let (key, value) = (key(number), &values[number]);
            assert_eq!(files.read(pointer, &key).expect("intact"), *value);
            let mut streamed = Vec::new();
            files
                .stream(pointer, &key, &mut |piece| {
                    streamed.extend_from_slice(piece);
                    Ok(())
                })
                .expect("intact");
            assert_eq!(streamed, *value);
            let whose = (&KeyOrder::BYTEWISE, key.as_slice());
            let scanned = scan_value(&*file, "vlog", pointer, whose).expect("intact");
            assert_eq!(scanned, *value);
            assert!(files.read(pointer, b"another key").is_err());
        }
        files.verify_file(&meta, &mut |_| {}).expect("intact");
        let shown = dump_vlog(&bytes, FILE);
        assert!(!shown.contains("FAULT") && shown.contains("with the dictionary"));
    }
}

/// Goal: without a dictionary a file is what it was before there were any, but for the version. Method: values that have
/// nothing in common, values of which each repeats itself as it would another, few values, long ones, empty ones, and other
/// codecs, beside the records one after the other.
#[test]
fn values_that_do_not_are_stored_as_before() {
    let mut random = Random(3);
    let mut noise: Vec<_> = (0..200).map(|_| random.bytes(500)).collect();
    noise.extend((0..30).map(|_| Vec::new()));
    let runs: Vec<_> = (0..200_u8).map(|byte| vec![byte; 300]).collect();
    let few: Vec<_> = (0..16).map(document).collect();
    let long: Vec<_> = (0..30).map(|number| document(number).repeat(40)).collect();
    assert!(long.iter().all(|value| value.len() > SHORT_BYTES_MAX));
    let mut cases = Vec::new();
    for codec in LZ4 {
        for values in [&noise, &runs, &few, &long, &Vec::new()] {
            cases.push((codec, values.clone()));
        }
    }
    let documents: Vec<_> = (0..300).map(document).collect();
    for codec in CODECS.into_iter().filter(|codec| !LZ4.contains(codec)) {
        cases.push((codec, documents.clone()));
    }
    for (codec, values) in cases {
        let world = World::new();
        let (_, meta) = world.build(codec, &values);
        assert_eq!(meta.records, values.len() as u64);
        let bytes = world.bytes();
        let records = &bytes[VLOG_HEADER_BYTES..bytes.len() - VLOG_FOOTER_BYTES];
        assert!(records == plainly(codec, &values), "{codec:?}");
        world
            .files()
            .verify_file(&meta, &mut |_| {})
            .expect("intact");
    }
}

/// Goal: once there is a dictionary, long values and those that do not shrink are still stored as before.
#[test]
fn a_dictionary_is_for_short_values_that_shrink() {
    let world = World::new();
    let mut random = Random(8);
    let mut values: Vec<_> = (0..300).map(document).collect();
    let begin = values.len();
    values.push(random.bytes(2000));
    values.push(document(7).repeat(40));
    values.push(Vec::new());
    values.push(random.bytes(1 << 20));
    values.push(vec![7; 1 << 20]);
    values.push(document(9));
    let (pointers, meta) = world.build(CodecId::Lz4, &values);
    let bytes = world.bytes();
    let uses: Vec<bool> = pointers[begin - 1..]
        .iter()
        .map(|pointer| uses_dictionary(&bytes[pointer.offset as usize..]))
        .collect();
    assert_eq!(uses, [true, false, false, false, false, false, true]);
    let files = world.files();
    for (number, pointer) in pointers.iter().enumerate() {
        let found = files.read(pointer, &key(number)).expect("intact");
        assert!(found == values[number], "{number}");
    }
    files.verify_file(&meta, &mut |_| {}).expect("intact");
}

/// Goal: a value can be read as soon as it was flushed, with its dictionary.
#[test]
fn flushed_values_can_be_read_before_the_file_is_finished() {
    let world = World::new();
    let mut builder = world.builder(CodecId::Lz4);
    let files = world.files();
    let mut last_records = 0;
    for number in 0..250 {
        let pointer = builder
            .append(&key(number), &document(number))
            .expect("no faults");
        builder.flush().expect("no faults");
        let found = files.read(&pointer, &key(number)).expect("intact");
        assert_eq!(found, document(number));
        // One that opened the file only now.
        let found = world.files().read(&pointer, &key(number)).expect("intact");
        assert_eq!(found, document(number));
        last_records = builder.records();
    }
    assert_eq!(last_records, 251);
}

/// Goal: the dictionary is read once for each opened file, in two reads, whoever asks, and scans read ahead with one.
#[test]
fn the_dictionary_is_read_once() {
    let world = World::new();
    let values: Vec<_> = (0..600).map(document).collect();
    let (pointers, _) = world.build(CodecId::Lz4, &values);
    let reads_of = |work: &mut dyn FnMut()| {
        let before = world.reads();
        work();
        world.reads() - before
    };
    let files = world.files();
    let mut get = |number: usize| {
        let found = files.read(&pointers[number], &key(number));
        assert_eq!(found.expect("intact"), values[number]);
    };
    get(0);
    assert_eq!(reads_of(&mut || get(1)), 1);
    assert_eq!(reads_of(&mut || get(599)), 3);
    assert_eq!(reads_of(&mut || (300..600).for_each(&mut get)), 300);
    let files = world.files();
    for order in [
        (0..600).collect::<Vec<_>>(),
        (0..600).rev().collect::<Vec<_>>(),
    ] {
        let mut ahead = ValueReadAhead::default();
        let reads = reads_of(&mut || {
            let mut found = Vec::new();
            for &number in &order {
                let (pointer, key) = (&pointers[number], key(number));
                ahead
                    .read(&files, pointer, &key, &mut found)
                    .expect("intact");
                assert_eq!(found, values[number]);
            }
        });
        assert!(reads < 20, "{reads}");
    }
}

/// Goal: readers that meet at a file nobody has read from all get what they ask for.
#[test]
fn readers_share_a_dictionary() {
    let world = World::new();
    let values: Vec<_> = (0..300).map(document).collect();
    let (pointers, _) = world.build(CodecId::Lz4, &values);
    let files = world.files();
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (files, pointers, values) = (&files, &pointers, &values);
            scope.spawn(move || {
                for number in (first..300).rev().step_by(3) {
                    let found = files.read(&pointers[number], &key(number));
                    assert_eq!(found.expect("intact"), values[number]);
                }
            });
        }
    });
}

/// Goal: no damaged byte gives a wrong value, and none escapes `verify_file`; damage to the dictionary costs the values that use
/// it and no other. Method: every byte, then every length.
#[test]
fn every_damage_is_noticed() {
    let values: Vec<_> = (0..60).map(phrase).collect();
    let world = World::new();
    let (pointers, meta) = world.build(CodecId::Lz4, &values);
    let whole = world.bytes();
    let (at, length) = dictionary_in(&whole).expect("there is one");
    let users = pointers
        .iter()
        .filter(|pointer| uses_dictionary(&whole[pointer.offset as usize..]))
        .count();
    assert!(users > 10);
    let damages = |bytes: &[u8]| {
        world
            .memory
            .write_file(world.path(), bytes)
            .expect("no faults");
        let files = world.files();
        let mut damages = 0;
        for (number, pointer) in pointers.iter().enumerate() {
            match files.read(pointer, &key(number)) {
                Ok(found) => assert_eq!(found, values[number]),
                Err(StorageError::Corruption(_)) => damages += 1,
                Err(other) => panic!("not corruption: {other}"),
            }
        }
        match files.verify_file(&meta, &mut |_| {}) {
            Ok(()) => assert_eq!(bytes, whole),
            Err(StorageError::Corruption(_)) => assert_ne!(bytes, whole),
            Err(other) => panic!("not corruption: {other}"),
        }
        damages
    };
    assert_eq!(damages(&whole), 0);
    for byte in 0..whole.len() {
        for change in [1, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[byte] ^= change;
            let damages = damages(&bytes);
            let is_header = byte < VLOG_HEADER_BYTES;
            let expected = match byte {
                _ if is_header => values.len(),
                _ if (at..at + length).contains(&byte) => users,
                _ if byte >= whole.len() - VLOG_FOOTER_BYTES => 0,
                _ => 1,
            };
            assert_eq!(damages, expected, "byte {byte}");
        }
        damages(&whole[..byte]);
    }
}

/// Goal: a file whose dictionary says that it is much longer than it is takes no memory for that.
#[test]
fn a_forged_dictionary_is_refused() {
    let world = World::new();
    let values: Vec<_> = (0..60).map(phrase).collect();
    let (pointers, _) = world.build(CodecId::Lz4, &values);
    let mut bytes = world.bytes();
    let (at, _) = dictionary_in(&bytes).expect("there is one");
    for (field, forged) in [(16, u32::MAX), (16, 4000), (20, u32::MAX), (20, 1), (8, 1)] {
        let before = bytes.clone();
        bytes[at + field..at + field + 4].copy_from_slice(&forged.to_le_bytes());
        world
            .memory
            .write_file(world.path(), &bytes)
            .expect("no faults");
        let found = world.files().read(&pointers[59], &key(59));
        assert!(matches!(found, Err(StorageError::Corruption(_))));
        bytes = before;
    }
}

/// A packer tells what it holds, so that it is counted.
#[test]
fn memory_is_counted() {
    let mut packer = ValuePacker::new(CodecId::Lz4);
    assert_eq!(packer.memory_bytes(), 0);
    let place = BlockPlace {
        file: FILE,
        offset: 32,
    };
    for number in 0..30 {
        packer.append(&mut Vec::new(), 1, &document(number), place);
    }
    assert!(packer.memory_bytes() >= SAMPLE_BYTES);
    // Besides, two streams of the library, and the scratch of the trial.
    assert!(packer.memory_bytes() < 16 * SAMPLE_BYTES);
    let mut packer = ValuePacker::new(CodecId::Lz4);
    let mut random = Random(1);
    for _ in 0..30 {
        packer.append(&mut Vec::new(), 1, &random.bytes(1000), place);
    }
    assert_eq!(packer.memory_bytes(), 0);
}
