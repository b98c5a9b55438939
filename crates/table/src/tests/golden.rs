//! Golden files: the bytes of a small table and a small value file, annotated. `KINGTIDE_BLESS=1` writes them anew; do
//! that only together with a change of the format, its page and its version. Those of earlier versions stay as they are.

use std::path::PathBuf;

use kingtide_base::{
    EntryKind, FamilyId, FileId, Fragments, KeyOrder, RangeTombstone, SeqNo, ValuePointer,
};
use kingtide_env::OpenMode;
use kingtide_format::CodecId;
use kingtide_format::klog::dump_klog;
use kingtide_format::vlog::dump_vlog;

use super::model::{Entry, Value, World};
use crate::{
    TableBuilder, TableSettings, ValueFiles, ValueLogBuilder, klog_name, read_table_meta,
    read_value_file_meta, vlog_name,
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
    let file = world
        .directory
        .open(&vlog_name(FileId(8)), OpenMode::CreateNew)
        .expect("a new name");
    let mut builder = ValueLogBuilder::new(file, FileId(8), CodecId::Snappy);
    builder.append(b"cherry", &[b'c'; 600]).expect("no faults");
    builder.append(b"date", b"short").expect("no faults");
    builder.finish().expect("no faults");
    let bytes = world.env.read_file("/klog/000008.vlog").expect("there");
    check("vlog.golden", &dump_vlog(&bytes, FileId(8)));
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

/// Goal: a value file of version 1 is read as it was. Method: the golden file of then.
#[test]
fn value_files_of_earlier_versions_are_read() {
    let (world, file) = (World::new(), FileId(8));
    let bytes = bytes_of("vlog-version-1.golden");
    assert_eq!(bytes[8], 1);
    world
        .env
        .write_file("/klog/000008.vlog", &bytes)
        .expect("no faults");
    let found = world
        .directory
        .open(&vlog_name(file), OpenMode::Read)
        .expect("there");
    let meta = read_value_file_meta(&*found, "vlog", file).expect("whole");
    let files = ValueFiles::new(std::sync::Arc::clone(&world.directory), 4);
    files.expect(&meta);
    files.verify_file(&meta, &mut |_| {}).expect("whole");
    let pointer = ValuePointer {
        file,
        offset: 91,
        record_bytes: 30,
        value_bytes: 5,
    };
    assert_eq!(files.read(&pointer, b"date").expect("whole"), b"short");
    assert_eq!(
        dump_vlog(&bytes, file),
        std::fs::read_to_string(path("vlog-version-1.golden")).expect("there")
    );
}
