//! Values of a mebibyte and more: the same bytes on disk as by way of the buffer, and every damage told.

use std::sync::Arc;

use kingtide_base::{FileId, StorageError, ValuePointer, key_hash};
use kingtide_collections::{LONG_VALUE_BYTES, PACKED_FOR_GOOD_BYTES_MIN, pack_value};
use kingtide_env::OpenMode;
use kingtide_format::CodecId;
use kingtide_format::block::BlockPlace;
use kingtide_format::vlog::encode_record;

use super::model::{CODECS, Random, World, new_value_file};
use crate::long_value::is_stored_raw;
use crate::{ValueFiles, vlog_name};

const FILE: FileId = FileId(3);

fn random(bytes: usize) -> Vec<u8> {
    Random(bytes as u64).bytes(bytes)
}

fn build(world: &World, codec: CodecId, values: &[&[u8]]) -> Vec<ValuePointer> {
    let mut builder = new_value_file(&world.directory, FILE, codec);
    let pointers = values
        .iter()
        .map(|value| builder.append(b"key", value).expect("no faults"))
        .collect();
    builder.finish().expect("no faults");
    pointers
}

#[test]
fn what_does_not_shrink_is_stored_as_it_is_without_trying_all_of_it() {
    let noise = random(LONG_VALUE_BYTES);
    assert!(is_stored_raw(CodecId::Lz4, &noise));
    assert!(!is_stored_raw(CodecId::Lz4, &noise[1..]), "not long");
    assert!(!is_stored_raw(CodecId::Lz4, &vec![1; LONG_VALUE_BYTES]));
    assert!(is_stored_raw(CodecId::None, &vec![1; LONG_VALUE_BYTES]));
    // One compressible quarter is reason enough to try.
    let mut mixed = random(4 * LONG_VALUE_BYTES);
    mixed[3 * LONG_VALUE_BYTES..].fill(0);
    assert!(!is_stored_raw(CodecId::Zstd, &mixed));
}

/// Goal: the record of a long value is that of the format, whichever way it was written. Method: the file is compared with
/// what the encoder makes.
#[test]
fn long_records_are_those_of_the_format() {
    let (short, long) = (random(100), random(LONG_VALUE_BYTES + 17));
    for codec in CODECS {
        let world = World::new();
        let pointers = build(&world, codec, &[&short, &long, &short]);
        let file = world
            .directory
            .open(&vlog_name(FILE), OpenMode::Read)
            .expect("there");
        let pointer = pointers[1];
        let mut found = vec![0; pointer.record_bytes as usize];
        file.read_exact_at(&mut found, pointer.offset)
            .expect("no faults");
        let place = BlockPlace {
            file: FILE,
            offset: pointer.offset,
        };
        let mut expected = Vec::new();
        encode_record(&mut expected, CodecId::None, key_hash(b"key"), &long, place);
        assert!(found == expected, "{codec:?}");
        let files = ValueFiles::new(Arc::clone(&world.directory), 4);
        for (pointer, value) in pointers.iter().zip([&short, &long, &short]) {
            assert!(files.read(pointer, b"key").expect("whole") == *value);
        }
    }
}

/// Goal: a packed value goes into the file as it is where that is what the file would make of it, and else not at all. Method: each
/// codec; lengths around the bounds; the file is compared with one to which the same values were appended.
#[test]
fn packed_values_are_kept_as_the_file_would_compress_them() {
    let mut scratch = Vec::new();
    for codec in CODECS {
        let values: Vec<Vec<u8>> = [
            PACKED_FOR_GOOD_BYTES_MIN - 1,
            PACKED_FOR_GOOD_BYTES_MIN,
            100_000,
            3 << 20,
        ]
        .map(|bytes| random(5000).into_iter().cycle().take(bytes).collect())
        .into();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let expected = World::new();
        let pointers = build(&expected, codec, &values);
        let world = World::new();
        let mut builder = new_value_file(&world.directory, FILE, codec);
        for (value, pointer) in values.iter().zip(&pointers) {
            let acceleration = if codec == CodecId::Lz4Fast { 8 } else { 1 };
            let packed = pack_value(value, acceleration, &mut scratch).expect("it repeats itself");
            let found = builder.append_packed(b"key", packed).expect("no faults");
            let is_kept = matches!(codec, CodecId::Lz4 | CodecId::Lz4Fast)
                && value.len() >= PACKED_FOR_GOOD_BYTES_MIN;
            assert_eq!(
                found,
                is_kept.then_some(*pointer),
                "{codec:?} {}",
                value.len()
            );
            if found.is_none() {
                builder.append(b"key", value).expect("no faults");
            }
        }
        assert!(
            builder
                .append_packed(b"key", b"no")
                .expect("no faults")
                .is_none()
        );
        builder.finish().expect("no faults");
        let content = |world: &World| {
            let file = world.directory.open(&vlog_name(FILE), OpenMode::Read);
            let file = file.expect("there");
            let mut bytes = vec![0; file.len().expect("no faults") as usize];
            file.read_exact_at(&mut bytes, 0).expect("no faults");
            bytes
        };
        assert!(content(&world) == content(&expected), "{codec:?}");
    }
}

/// Goal: damage to a long record is found by reads and by verifying, wherever it is. Method: each byte of the header, some
/// of the value, for a raw and a compressed record; another key; a file that ends early.
#[test]
fn damage_to_long_records_is_told() {
    let noise = random(LONG_VALUE_BYTES);
    let mut text = random(2 * LONG_VALUE_BYTES);
    for byte in &mut text {
        *byte %= 8;
    }
    for value in [noise, text] {
        let world = World::new();
        let pointers = build(&world, CodecId::Zstd, &[&value]);
        let pointer = pointers[0];
        let files = ValueFiles::new(Arc::clone(&world.directory), 4);
        let file = world
            .directory
            .open(&vlog_name(FILE), OpenMode::ReadWrite)
            .expect("there");
        let is_told = |found: Result<Vec<u8>, StorageError>| {
            matches!(found, Err(StorageError::Corruption(_)))
        };
        let last = u64::from(pointer.record_bytes) - 1;
        for place in (0..25).chain([26, 500_000, last]) {
            let at = pointer.offset + place;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("no faults");
            file.write_at(&[byte[0] ^ 1], at).expect("no faults");
            assert!(is_told(files.read(&pointer, b"key")), "byte {place}");
            file.write_at(&byte, at).expect("no faults");
        }
        assert!(is_told(files.read(&pointer, b"another")));
        let longer = ValuePointer {
            record_bytes: pointer.record_bytes + 1,
            ..pointer
        };
        assert!(is_told(files.read(&longer, b"key")));
        assert!(files.read(&pointer, b"key").expect("whole again") == value);
        file.set_len(pointer.offset + last).expect("no faults");
        assert!(is_told(files.read(&pointer, b"key")));
    }
}
