//! Value files: round trips, damage, wrong keys.

use std::sync::Arc;

use kingtide_base::{FileId, StorageError, ValuePointer, checksum, checksum_mix};
use kingtide_env::OpenMode;
use kingtide_format::{CodecId, ValueFileMeta};

use super::model::{CODECS, Random, World, new_value_file};
use crate::{ValueFiles, read_value_file_meta, vlog_name};

type Values = Vec<(Vec<u8>, Vec<u8>)>;

fn values(random: &mut Random, count: usize) -> Values {
    (0..count)
        .map(|i| {
            let length = [0, 1, 50, 700][random.below(4)];
            let value = if random.one_in(2) {
                random.bytes(length)
            } else {
                vec![i as u8; length]
            };
            (format!("key {i}").into_bytes(), value)
        })
        .collect()
}

fn path(file: FileId) -> String {
    format!("/klog/{}", vlog_name(file))
}

fn build(
    world: &World,
    file: FileId,
    codec: CodecId,
    values: &Values,
) -> (Vec<ValuePointer>, ValueFileMeta) {
    let mut builder = new_value_file(&world.directory, file, codec);
    let pointers = values
        .iter()
        .map(|(key, value)| builder.append(key, value).expect("no faults"))
        .collect();
    let bytes = builder.bytes();
    let meta = builder.finish().expect("no faults");
    assert!(meta.file_bytes > bytes);
    (pointers, meta)
}

#[test]
fn values_survive_a_round_trip() {
    for (codec, id) in CODECS.into_iter().zip(1..) {
        let world = World::new();
        let mut random = Random(id);
        let mut values = values(&mut random, 60);
        values.push((b"long".to_vec(), random.bytes(1 << 20)));
        values.push((b"even".to_vec(), vec![3; 1 << 20]));
        let (pointers, meta) = build(&world, FileId(id), codec, &values);
        let files = ValueFiles::new(Arc::clone(&world.directory), 4);
        for (pointer, (key, value)) in pointers.iter().zip(&values) {
            assert_eq!(pointer.value_bytes as usize, value.len());
            assert_eq!(files.read(pointer, key).expect("intact"), *value);
        }
        assert_eq!(meta.records, values.len() as u64);
        let mut checked = 0;
        files
            .verify_file(&meta, &mut |bytes| checked = bytes)
            .expect("intact");
        assert_eq!(checked, meta.file_bytes);
        let file = world
            .directory
            .open(&vlog_name(FileId(id)), OpenMode::Read)
            .expect("there");
        let rebuilt = read_value_file_meta(&*file, "vlog", FileId(id)).expect("intact");
        assert_eq!(rebuilt, meta);
    }
}

#[test]
fn flushed_values_can_be_read_before_the_file_is_finished() {
    let world = World::new();
    let mut builder = new_value_file(&world.directory, FileId(1), CodecId::Lz4);
    let files = ValueFiles::new(Arc::clone(&world.directory), 4);
    for i in 0..5_u8 {
        let pointer = builder.append(&[i], &[i; 100]).expect("no faults");
        builder.flush().expect("no faults");
        assert_eq!(files.read(&pointer, &[i]).expect("intact"), [i; 100]);
    }
    builder.sync().expect("no faults");
}

#[test]
fn a_pointer_to_another_value_is_refused() {
    let world = World::new();
    let values = vec![
        (b"one".to_vec(), vec![1; 40]),
        (b"two".to_vec(), vec![2; 40]),
    ];
    let (pointers, _) = build(&world, FileId(1), CodecId::None, &values);
    let files = ValueFiles::new(Arc::clone(&world.directory), 4);
    let refused = |pointer: ValuePointer, key: &[u8]| {
        matches!(files.read(&pointer, key), Err(StorageError::Corruption(_)))
    };
    assert!(refused(pointers[1], b"one"));
    let mut wrong = pointers[0];
    wrong.value_bytes += 1;
    assert!(refused(wrong, b"one"));
    let mut wrong = pointers[0];
    wrong.record_bytes += 1;
    assert!(refused(wrong, b"one"));
    let mut wrong = pointers[0];
    wrong.offset += 1;
    assert!(refused(wrong, b"one"));
    wrong.offset = u64::MAX;
    assert!(refused(wrong, b"one"));
    let mut wrong = pointers[0];
    wrong.record_bytes = 3;
    assert!(refused(wrong, b"one"));
    wrong.file = FileId(9);
    assert!(matches!(
        files.read(&wrong, b"one"),
        Err(StorageError::Io { .. })
    ));
    files.forget(FileId(1));
    assert_eq!(files.open_count(), 0);
}

/// Goal: no damaged byte gives a wrong value, and none escapes `verify_file`. Method: every byte, then every length.
#[test]
fn every_damage_is_noticed() {
    let mut random = Random(3);
    let values: Values = values(&mut random, 6);
    let world = World::new();
    let (pointers, meta) = build(&world, FileId(1), CodecId::Lz4, &values);
    let whole = world.env.read_file(path(FileId(1))).expect("there");
    let is_clean = |bytes: &[u8]| {
        world
            .env
            .write_file(path(FileId(1)), bytes)
            .expect("no faults");
        let files = ValueFiles::new(Arc::clone(&world.directory), 4);
        let mut is_clean = true;
        for (pointer, (key, value)) in pointers.iter().zip(&values) {
            match files.read(pointer, key) {
                Ok(found) => assert_eq!(found, *value),
                Err(StorageError::Corruption(_)) => is_clean = false,
                Err(other) => panic!("not corruption: {other}"),
            }
        }
        match files.verify_file(&meta, &mut |_| {}) {
            Ok(()) => is_clean,
            Err(StorageError::Corruption(_)) => false,
            Err(other) => panic!("not corruption: {other}"),
        }
    };
    assert!(is_clean(&whole));
    for at in 0..whole.len() {
        for change in [1, 0x80, whole[at]] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            assert!(bytes == whole || !is_clean(&bytes), "byte {at}");
        }
        assert!(!is_clean(&whole[..at]), "length {at}");
    }
}

#[test]
fn newer_versions_are_refused_as_such() {
    let world = World::new();
    let values = vec![(b"one".to_vec(), vec![1; 40])];
    let (pointers, _) = build(&world, FileId(1), CodecId::None, &values);
    let mut bytes = world.env.read_file(path(FileId(1))).expect("there");
    bytes[8] = 5;
    let sum = checksum(&bytes[..24], checksum_mix(1, 0));
    bytes[24..32].copy_from_slice(&sum.to_le_bytes());
    world
        .env
        .write_file(path(FileId(1)), &bytes)
        .expect("no faults");
    let files = ValueFiles::new(Arc::clone(&world.directory), 4);
    assert!(matches!(
        files.read(&pointers[0], b"one"),
        Err(StorageError::NewerVersion { found: 5, .. })
    ));
}
