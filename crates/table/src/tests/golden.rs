//! Golden files: the bytes of a small table and a small value file, annotated. `KINGTIDE_BLESS=1` writes them anew; do
//! that only together with a change of the format, its page and its version. Those of earlier versions stay as they are.

use std::path::PathBuf;

use kingtide_base::{
    EntryKind, FamilyId, FileId, Fragments, KeyOrder, RangeTombstone, SeqNo, ValuePointer,
    checksum_mix, key_hash,
};
use kingtide_collections::Lz4Dictionary;
use kingtide_env::OpenMode;
use kingtide_format::CodecId;
use kingtide_format::block::BlockPlace;
use kingtide_format::klog::dump_klog;
use kingtide_format::vlog::{
    DICTIONARY_KEY_HASH, VLOG_HEADER_BYTES, VlogFooter, dump_vlog, encode_record,
    encode_record_with, encode_vlog_header, peek_record,
};

use super::model::{Entry, Value, World, new_value_file};
use crate::{
    TableBuilder, TableSettings, ValueFiles, klog_name, read_table_meta, read_value_file_meta,
    vlog_name,
};

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../testdata/format-v1", name]
        .iter()
        .collect()
}

fn check(name: &str, found: &str) {
    let path = path(name);
    if std::env::var_os("KINGTIDE_BLESS").is_some() {
        std::fs::write(&path, found).expect("the folder of golden files");
    }
    let wanted = std::fs::read_to_string(&path).expect("the golden file");
    assert!(
        wanted == found,
        "{name} is not what this build writes, which is:\n{found}"
    );
}

#[test]
fn a_klog_file_has_the_golden_bytes() {
    let mut entries = vec![
        Entry::put(b"apple/001/x", 12, b"red"),
        Entry::put(b"apple/002/x", 11, b"green"),
        Entry::put(b"apple/002/x", 7, b""),
        Entry::put(b"apple/003/x", 9, b"pending"),
        Entry::put(b"banana", 300, &[b'y'; 250]),
        Entry::put(b"cherry", 301, b""),
    ];
    entries[2].kind = EntryKind::Delete;
    entries[3].expires_at = 1_900_000_000;
    entries[5].value = Value::Separated(ValuePointer {
        file: FileId(8),
        offset: 32,
        record_bytes: 625,
        value_bytes: 600,
    });
    let world = World::new();
    let settings = TableSettings {
        block_bytes: 256,
        codec: CodecId::Snappy,
        filter_fpr: Some(0.01),
        order: KeyOrder::BYTEWISE,
    };
    assert_eq!(entries[4].sequence, SeqNo(300));
    world.build(FileId(12), &settings, &entries);
    let bytes = world.env.read_file(World::path(FileId(12))).expect("there");
    check("klog.golden", &dump_klog(&bytes, FileId(12)));
}

/// A table of which range deletes reach over both ends of the keys.
#[test]
fn a_klog_file_with_range_deletes_has_the_golden_bytes() {
    let world = World::new();
    let file = world
        .directory
        .open(&klog_name(FileId(13)), OpenMode::CreateNew)
        .expect("a new name");
    let settings = TableSettings {
        block_bytes: 256,
        codec: CodecId::None,
        filter_fpr: None,
        order: KeyOrder::BYTEWISE,
    };
    let mut builder = TableBuilder::new(file, FileId(13), settings);
    let entry = Entry::put(b"banana", 300, b"ripe");
    builder.add(&entry.borrowed()).expect("no faults");
    let tombstones = [
        (&b"apple"[..], &b"cherry"[..], 299),
        (b"berry", b"date", 12),
    ];
    let tombstones = tombstones.map(|(start, end, sequence)| RangeTombstone {
        start,
        end,
        sequence: SeqNo(sequence),
    });
    builder.set_ranges(Fragments::build(&KeyOrder::BYTEWISE, tombstones, &[]));
    builder.finish().expect("no faults");
    let bytes = world.env.read_file(World::path(FileId(13))).expect("there");
    check("klog-ranges.golden", &dump_klog(&bytes, FileId(13)));
}

/// A table that knows its family.
#[test]
fn a_klog_file_of_a_family_has_the_golden_bytes() {
    let world = World::new();
    let file = world
        .directory
        .open(&klog_name(FileId(14)), OpenMode::CreateNew)
        .expect("a new name");
    let settings = TableSettings {
        block_bytes: 256,
        codec: CodecId::None,
        filter_fpr: None,
        order: KeyOrder::BYTEWISE,
    };
    let mut builder = TableBuilder::new(file, FileId(14), settings);
    builder.set_family(FamilyId(3), "fruit".to_owned());
    let entry = Entry::put(b"banana", 300, b"ripe");
    builder.add(&entry.borrowed()).expect("no faults");
    builder.finish().expect("no faults");
    let bytes = world.env.read_file(World::path(FileId(14))).expect("there");
    check("klog-family.golden", &dump_klog(&bytes, FileId(14)));
}

#[test]
fn a_vlog_file_has_the_golden_bytes() {
    let world = World::new();
    let mut builder = new_value_file(&world.directory, FileId(8), CodecId::Snappy);
    builder.append(b"cherry", &[b'c'; 600]).expect("no faults");
    builder.append(b"date", b"short").expect("no faults");
    builder.finish().expect("no faults");
    let bytes = world.env.read_file("/klog/000008.vlog").expect("there");
    check("vlog.golden", &dump_vlog(&bytes, FileId(8)));
}

/// A file with a dictionary and a value that uses it. No writer makes one so short.
#[test]
fn a_vlog_file_with_a_dictionary_has_the_golden_bytes() {
    let file = FileId(9);
    let (words, key) = (b"low water and high water; ".repeat(2), b"date");
    let value = [&words[..], b"slack, low water"].concat();
    let mut bytes = encode_vlog_header(file).to_vec();
    let place = |bytes: &[u8]| BlockPlace {
        file,
        offset: bytes.len() as u64,
    };
    let (at, codec) = (place(&bytes), CodecId::Lz4);
    encode_record(&mut bytes, codec, DICTIONARY_KEY_HASH, &words, at);
    let second = place(&bytes);
    let mut dictionary = Lz4Dictionary::new(words.to_vec());
    let dictionary = (&mut dictionary, VLOG_HEADER_BYTES as u32);
    let record_bytes = encode_record_with(&mut bytes, dictionary, key_hash(key), &value, second);
    let sum = |at: BlockPlace| {
        let header = peek_record(&bytes[at.offset as usize..]);
        header.expect("a record").checksum
    };
    let content = [sum(at), sum(second)].into_iter().fold(0, checksum_mix);
    let footer = VlogFooter {
        records: 2,
        content: Some(content),
    };
    let (footer, _) = footer.encode(file, bytes.len() as u64);
    bytes.extend_from_slice(&footer);
    check("vlog-dictionary.golden", &dump_vlog(&bytes, file));
    let pointer = ValuePointer {
        file,
        offset: second.offset,
        record_bytes,
        value_bytes: value.len() as u32,
    };
    assert_eq!(read_from(&bytes, &pointer, key), value);
}

/// The value in the value file `bytes`, all of which is whole.
fn read_from(bytes: &[u8], pointer: &ValuePointer, key: &[u8]) -> Vec<u8> {
    let (world, name) = (World::new(), vlog_name(pointer.file));
    world
        .env
        .write_file(format!("/klog/{name}"), bytes)
        .expect("no faults");
    let found = world
        .directory
        .open(&name, OpenMode::Read)
        .expect("it was written");
    let meta = read_value_file_meta(&*found, "vlog", pointer.file).expect("whole");
    let files = ValueFiles::new(std::sync::Arc::clone(&world.directory), 4);
    files.expect(&meta);
    files.verify_file(&meta, &mut |_| {}).expect("whole");
    files.read(pointer, key).expect("whole")
}

/// The bytes that a golden file shows: in every row that begins with an offset, up to 16 of them in hex.
fn bytes_of(name: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(path(name)).expect("the golden file");
    let mut bytes = Vec::new();
    for line in text.lines() {
        let offset = line.get(..6).map(|hex| usize::from_str_radix(hex, 16));
        let Some(Ok(offset)) = offset else { continue };
        assert_eq!(offset, bytes.len(), "{name}: {line}");
        let row = line[8..].chars().take(48).collect::<String>();
        let byte = |hex| u8::from_str_radix(hex, 16).expect("hex");
        bytes.extend(row.split_whitespace().map(byte));
    }
    bytes
}

/// Goal: tables that earlier versions wrote are read as they were. Method: the golden files of then, opened and verified.
#[test]
fn tables_of_earlier_versions_are_read() {
    for (version, file, entries) in [(1, 12, 6), (2, 13, 1), (3, 14, 1)] {
        let name = format!("klog-version-{version}.golden");
        let (world, file) = (World::new(), FileId(file));
        let bytes = bytes_of(&name);
        assert_eq!(bytes[bytes.len() - 16], version);
        world
            .env
            .write_file(World::path(file), &bytes)
            .expect("no faults");
        let found = world
            .directory
            .open(&klog_name(file), OpenMode::Read)
            .expect("there");
        let (_, meta) = read_table_meta(&*found, &name, file).expect("whole");
        assert_eq!(
            (meta.entries, meta.range_deletes > 0),
            (entries, version == 2)
        );
        let table = world.open(&meta, &KeyOrder::BYTEWISE).expect("whole");
        table.verify(&mut |_| {}).expect("whole");
        let written = std::fs::read_to_string(path(&name)).expect("there");
        assert_eq!(
            written.lines().count(),
            dump_klog(&bytes, file).lines().count()
        );
    }
}

/// Goal: value files of earlier versions are read as they were. Method: the golden files of then; those of version 2 were the
/// same but for values in chunks.
#[test]
fn value_files_of_earlier_versions_are_read() {
    for version in [1, 3] {
        let name = format!("vlog-version-{version}.golden");
        let bytes = bytes_of(&name);
        assert_eq!(bytes[8], version);
        let pointer = ValuePointer {
            file: FileId(8),
            offset: 91,
            record_bytes: 30,
            value_bytes: 5,
        };
        assert_eq!(read_from(&bytes, &pointer, b"date"), b"short");
        assert_eq!(
            dump_vlog(&bytes, FileId(8)),
            std::fs::read_to_string(path(&name)).expect("there")
        );
    }
}
